"""A node's raft log: log4j's lines of org.apache.kafka.raft at TRACE, plain or compressed, in bounded memory.

Lines of other loggers, and those without a use here, are skipped. A line without a logger at its end was cut off
when its node died: it is counted, and the text of a new process behind it is read.
Kafka's objects stand as ``toString`` prints them, ``Name(field=value, list=[Other(…), …], …)``, and are read in one
pass with at most ``MAX_DEPTH`` levels of nesting.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from highwater.traces.messages import raft_events as e
from highwater.traces.messages.raft_events import (
    Begin,
    BeginAnswer,
    Fetch,
    FetchAnswer,
    Message,
    Other,
    Vote,
    VoteAnswer,
)
from highwater.traces.reading import INT32, INT64, Place, Source, printable, split, start_of_day

# --- text ------------------------------------------------------------------------------------------------

MAX_DEPTH = 64
_TOKEN = re.compile(r"\s*+(?:([\w.$-]++)=)?+((?:[^'()\[\]{},]++|'[^']*+'|')*+)([()\[\]{},])")
"""A name, if one stands before an equals sign, the rest up to a sign, with quoted texts as a whole, and the sign."""
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_NUMBER = re.compile(r"-?\d{1,19}")


@dataclass(slots=True)
class Part:
    """An object of a line: its name, its fields, and what stands in it without a name.

    A value is another object or a text. The methods raise TraceError, which names the field, if it is missing or is
    something else.
    """

    outer: Part | Place
    own: str
    """The name of its field in the outer object, or its own name."""
    name: str
    fields: dict[str, Part | str] = field(default_factory=dict)
    items: list[Part | str] = field(default_factory=list)

    @property
    def place(self) -> Place:
        """Where it stands."""
        within = self.outer if isinstance(self.outer, Place) else self.outer.place
        return within.at(self.own) if self.own else within

    def at(self, *names: str) -> Part:
        """An object within this one, by the fields that lead to it; ``0`` is the first item of a list."""
        found: Part = self
        for name in names:
            inner = (found.items[0] if found.items else None) if name == "0" else found.fields.get(name)
            if not isinstance(inner, Part):
                raise found.place.at(name).wrong("missing" if inner is None else "expected an object")
            found = inner
        return found

    def text(self, name: str) -> str:
        """A field that is a text; an object's is its name."""
        found = self.fields.get(name)
        if found is None:
            raise self.place.at(name).wrong("missing")
        return found if isinstance(found, str) else found.name

    def number(self, name: str, low: int = -1, high: int = INT64) -> int:
        """A whole number within bounds; an offset, unless told otherwise."""
        text = self.text(name)
        if not _NUMBER.fullmatch(text):
            raise self.place.at(name).wrong(f"expected a whole number, not {printable(text, 40)}")
        if not low <= int(text) <= high:
            raise self.place.at(name).wrong(f"{printable(text, 40)} is outside {low}..{high}")
        return int(text)

    def small(self, name: str) -> int:
        """A node, an epoch or an error code; −1 stands for none."""
        return self.number(name, -1, INT32)

    def flag(self, name: str) -> bool:
        """True or false."""
        text = self.text(name)
        if text not in ("true", "false"):
            raise self.place.at(name).wrong(f"expected true or false, not {printable(text, 40)}")
        return text == "true"

    def optional(self, name: str) -> Part | str | None:
        """The content of an ``Optional``: None if it is empty."""
        found = self.fields.get(name)
        if found is None:
            raise self.place.at(name).wrong("missing")
        if isinstance(found, Part) and found.name in ("Optional", "OptionalInt", "OptionalLong"):
            return found.items[0] if found.items else found
        if found in ("Optional.empty", "OptionalInt.empty", "OptionalLong.empty"):
            return None
        raise self.place.at(name).wrong(f"expected an Optional, not {printable(self.text(name), 40)}")

    def optional_number(self, name: str) -> int | None:
        """A whole number that need not be there."""
        found = self.optional(name)
        if found is None:
            return None
        if not isinstance(found, str) or not _NUMBER.fullmatch(found):
            raise self.place.at(name).wrong("expected a whole number")
        return int(found)


def parse(place: Place, text: str, start: int = 0) -> tuple[Part, int]:
    """The object that begins here, and where it ends. Raises TraceError where it breaks off or is nested too deeply."""
    stack: list[tuple[Part, str | None, str]] = []
    at = start
    while (token := _TOKEN.match(text, at)) is not None:
        name, word, sign = token.groups()
        at, word = token.end(), word.strip()
        if sign in _CLOSING:
            outer = stack[-1][0] if stack else place
            stack.append((Part(outer, name or word, word), name, _CLOSING[sign]))
            if len(stack) > MAX_DEPTH:
                raise place.wrong("nested too deeply")
        elif not stack:
            break
        elif sign == ",":
            if name is not None or word:
                _add(stack[-1][0], name, word)
        else:
            part, own, closing = stack.pop()
            if sign != closing:
                raise part.place.wrong(f"{sign} where {closing} was expected")
            if name is not None or word:
                _add(part, name, word)
            if not stack:
                return part, at
            holder = stack[-1][0]
            if own is not None:
                holder.fields.setdefault(own, part)
            else:
                holder.items.append(part)
    raise place.wrong("breaks off")


def _add(part: Part, name: str | None, word: str) -> None:
    """A text, which can have a name."""
    if name is None:
        part.items.append(word)
    elif name not in part.fields:
        part.fields[name] = word[1:-1] if word[:1] == "'" else word


# --- messages --------------------------------------------------------------------------------------------

_ID = re.compile(r"id: (-?\d{1,10})\b")


def message(data: Part) -> Message:
    """The message of an object such as FetchRequestData. Raises TraceError if a needed field is missing."""
    reader = _READERS.get(data.name)
    if reader is not None:
        return reader(data)
    error = data.small("errorCode") if "errorCode" in data.fields else 0
    return Other(data.name.removesuffix("Data"), error)


def node_of(part: Part, name: str) -> int:
    """The number of the node in a text such as ``127.0.0.1:9093 (id: 3 rack: null isFenced: false)``."""
    found = part.at(name)
    number = _ID.match(found.items[0]) if found.items and isinstance(found.items[0], str) else None
    if number is None:
        raise found.place.wrong("no node's id")
    return int(number[1])


def _fetch(data: Part) -> Message:
    partition = data.at("topics", "0", "partitions", "0")
    sender = data.small("replicaId")
    if "replicaState" in data.fields:
        sender = max(sender, data.at("replicaState").small("replicaId"))
    hwm = partition.number("highWatermark") if "highWatermark" in partition.fields else INT64
    return Fetch(
        sender,
        partition.small("currentLeaderEpoch"),
        partition.number("fetchOffset"),
        partition.small("lastFetchedEpoch"),
        None if hwm == INT64 else hwm,
        data.small("maxWaitMs"),
    )


def _fetch_answer(data: Part) -> Message:
    error = data.small("errorCode")
    if error:
        return FetchAnswer(error, -1, -1, -1, 0, None, None)
    partition = data.at("responses", "0", "partitions", "0")
    leader = partition.at("currentLeader")
    records = partition.fields.get("records")
    return FetchAnswer(
        partition.small("errorCode"),
        leader.small("leaderId"),
        leader.small("leaderEpoch"),
        partition.number("highWatermark"),
        records.number("size", 0) if isinstance(records, Part) else 0,
        _end(partition.at("divergingEpoch")),
        _end(partition.at("snapshotId")),
    )


def _end(of: Part) -> tuple[int, int] | None:
    """An epoch and its end offset; None where it names none."""
    found = of.small("epoch"), of.number("endOffset")
    return None if found == (-1, -1) else found


def _vote(data: Part) -> Message:
    partition = data.at("topics", "0", "partitions", "0")
    return Vote(
        partition.small("replicaId"),
        data.small("voterId"),
        partition.small("replicaEpoch"),
        partition.small("lastOffsetEpoch"),
        partition.number("lastOffset"),
        partition.flag("preVote"),
    )


def _vote_answer(data: Part) -> Message:
    error = data.small("errorCode")
    if error:
        return VoteAnswer(error, -1, -1, False)
    partition = data.at("topics", "0", "partitions", "0")
    return VoteAnswer(
        partition.small("errorCode"),
        partition.small("leaderId"),
        partition.small("leaderEpoch"),
        partition.flag("voteGranted"),
    )


def _begin(data: Part) -> Message:
    partition = data.at("topics", "0", "partitions", "0")
    return Begin(partition.small("leaderId"), data.small("voterId"), partition.small("leaderEpoch"))


def _begin_answer(data: Part) -> Message:
    error = data.small("errorCode")
    if error:
        return BeginAnswer(error, -1, -1)
    partition = data.at("topics", "0", "partitions", "0")
    return BeginAnswer(
        partition.small("errorCode"), partition.small("leaderId"), partition.small("leaderEpoch")
    )


_READERS = {
    "FetchRequestData": _fetch,
    "FetchResponseData": _fetch_answer,
    "VoteRequestData": _vote,
    "VoteResponseData": _vote_answer,
    "BeginQuorumEpochRequestData": _begin,
    "BeginQuorumEpochResponseData": _begin_answer,
}


# --- reader ----------------------------------------------------------------------------------------------

MAX_VOTERS = 100
_HEAD = re.compile(
    r"\[(\d{4}-\d\d-\d\d) (\d\d):(\d\d):(\d\d),(\d{3})\] (?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) "
)
_NODE = re.compile(r"\[RaftManager (?:id|nodeId)=(\d{1,10})\] ")
_LOGGER = re.compile(r"\((org\.apache\.kafka\.raft\.[\w$.]+)\)\s*\Z")
_SIGN = re.compile(rb"\] (?:TRACE|DEBUG|INFO) \[RaftManager (?:id|nodeId)=\d{1,10}\] ")
_LOGGED = re.compile(rb"\A\[\d{4}-\d\d-\d\d [^\]]*\] [A-Z]+ .*\(([\w.$]+)\)\s*\Z")
_OWN, _CLIENT = b"org.apache.kafka.raft.", b"org.apache.kafka.raft.KafkaRaftClient"

_Read = Callable[[Place, str, "re.Match[str]"], e.What]


def is_raft_log(head: bytes) -> bool:
    """Whether the first bytes of a file are those of a raft log: lines of the raft client, with a node's number.

    A file with lines of other loggers is a broker's log: every one has lines of the raft client at INFO.
    """
    client = False
    for line in head.split(b"\n"):
        logged = _LOGGED.match(line)
        if logged is None:
            continue
        if not logged[1].startswith(_OWN):
            return False
        client |= logged[1] == _CLIENT and _SIGN.search(line) is not None
    return client


class RaftLog:
    """A file of one node's lines. Iterating gives its events in order; ``cut`` then counts lines that break off."""

    def __init__(self, path: Path) -> None:
        self.path, self.cut, self.lines, self.bytes_read = path, 0, 0, 0

    def __iter__(self) -> Iterator[e.Event]:
        """Raises TraceError where the file cannot be read, or a line says something that cannot be."""
        with Source(self.path) as source:
            for number, raw in enumerate(split(source), start=1):
                self.lines, self.bytes_read = number, source.bytes_read
                yield from self._line(number, raw.decode("utf-8", "replace"))

    def _line(self, number: int, line: str) -> Iterator[e.Event]:
        heads = list(_HEAD.finditer(line))
        for head, following in zip(heads, [*heads, None][1:], strict=True):
            text = line[head.end() : following.start() if following else len(line)]
            if _LOGGER.search(text) is None:
                self.cut += 1
                continue
            node = _NODE.match(text)
            if node is not None:
                place = Place(self.path, number)
                said = _said(place, text[node.end() :])
                if said is not None:
                    yield e.Event(int(node[1]), self._time(place, head), place, said)

    def _time(self, place: Place, head: re.Match[str]) -> int:
        start = start_of_day(head[1])
        if start is None:
            raise place.at("time").wrong("no such day")
        hour, minute, second, ms = map(int, head.groups()[1:])
        return start + ((hour * 60 + minute) * 60 + second) * 1000 + ms


def _said(place: Place, text: str) -> e.What | None:
    for pattern, read in _LINES:
        found = pattern.match(text)
        if found is not None:
            return read(place, text, found)
    return None


# --- the lines --------------------------------------------------------------------------------------------------


def _sent(place: Place, text: str, found: re.Match[str]) -> e.What:
    part, _ = parse(place, text, found.end())
    return e.Sent(message(part.at("data")), part.number("correlationId"), node_of(part, "destination"))


def _received(place: Place, text: str, found: re.Match[str]) -> e.What:
    part, _ = parse(place, text, found.end())
    said, correlation = message(part.at("data")), part.number("correlationId")
    if part.name == "InboundResponse":
        failed = getattr(said, "error", 0) == 8 and part.at("data").small("errorCode") == 8
        return e.GotAnswer(said, correlation, node_of(part, "source"), failed)
    return e.Received(said, correlation, part.number("apiVersion", 0, 1000))


def _answered(place: Place, text: str, found: re.Match[str]) -> e.What:
    answer, end = parse(place, text, found.end())
    start = text.find("InboundRequest(", end)
    if start < 0:
        raise place.at("InboundRequest").wrong("missing")
    request, _ = parse(place, text, start)
    said = message(answer.at("data")), answer.number("correlationId"), message(request.at("data"))
    return e.Answered(*said)


def _ignored(place: Place, text: str, found: re.Match[str]) -> e.What:
    part, _ = parse(place, text, found.end())
    return e.Ignored(part.number("correlationId"))


def _judged(place: Place, text: str, found: re.Match[str]) -> e.What | None:
    part, end = parse(place, text, found.end())
    said = message(part)
    verdict = re.match(r" with epoch -?\d+ is (granted|rejected)", text[end:])
    if verdict is None or not isinstance(said, e.Vote):
        raise place.wrong("neither granted nor rejected")
    return e.Judged(said, verdict[1] == "granted")


def _role(place: Place, text: str, found: re.Match[str]) -> e.What:
    part, end = parse(place, text, found.end())
    name = part.name.removesuffix("State")
    fields = part.fields
    leader = part.optional_number("leaderId") if "leaderId" in fields else None
    if "leader" in fields:
        leader = part.small("leader")
    key = part.optional("votedKey") if "votedKey" in fields else None
    voted = key.small("id") if isinstance(key, Part) else None
    metadata = part.optional("highWatermark") if "highWatermark" in fields else None
    hwm = metadata.number("offset") if isinstance(metadata, Part) else None
    granted = None
    if "epochElection" in fields:
        states = part.at("epochElection", "voterStates").fields
        of = {_id(place, voter): state for voter, state in states.items() if isinstance(state, Part)}
        granted = frozenset(v for v, state in of.items() if state.text("state") == "GRANTED")
    start = part.number("epochStartOffset") if "epochStartOffset" in fields else None
    first = text[end:].startswith(" from null")
    return e.Role(name, part.small("epoch"), leader, voted, hwm, granted, first, start)


def _id(place: Place, text: str) -> int:
    if not re.fullmatch(r"\d{1,10}", text) or int(text) > INT32:
        raise place.at("voterStates").wrong("no node's id")
    return int(text)


def _appended(place: Place, text: str, found: re.Match[str]) -> e.What:
    part, _ = parse(place, text, found.end())
    return e.Appended(_offset(place, found[1]), part.number("offset"), part.small("epoch"))


def _follower_end(place: Place, text: str, found: re.Match[str]) -> e.What:
    part, _ = parse(place, text, found.end())
    return e.FollowerEnd(part.number("offset"), part.small("epoch"))


def _offset(place: Place, text: str) -> int:
    if int(text) > INT64:
        raise place.at("offset").wrong(f"is outside 0..{INT64}")
    return int(text)


def _truncated(place: Place, text: str, found: re.Match[str]) -> e.What:
    return e.Truncated(_offset(place, found[1]))


def _follower_hwm(place: Place, text: str, found: re.Match[str]) -> e.What:
    return e.Hwm(_offset(place, found[1]), False)


def _leader_hwm(place: Place, text: str, found: re.Match[str]) -> e.What:
    part, _ = parse(place, text, found.end())
    return e.Hwm(part.number("offset"), True)


def _hwm_set(place: Place, text: str, found: re.Match[str]) -> e.What:
    """The state's own line, which stands before that of the client and says more."""
    part, end = parse(place, text, found.end())
    follows = part.name == "Optional"
    now = part.at("0") if follows else part
    before = None
    ends: list[tuple[int, int]] | None = None
    if text.startswith(" from ", end):
        old, end = parse(place, text, end + 6)
        before = (old.at("0") if old.name == "Optional" else old).number("offset")
    voters = text.find(" and voters [", end)
    if voters >= 0:
        ends = []
        states, _ = parse(place, text, voters + 12)
        for state in states.items[:MAX_VOTERS]:
            if isinstance(state, Part):
                reached = state.optional("endOffset")
                at = reached.number("offset") if isinstance(reached, Part) else -1
                ends.append((state.at("replicaKey").small("id"), at))
    leads = not follows
    return e.Hwm(now.number("offset"), leads, before, None if ends is None else tuple(ends), final=False)


def _completing(place: Place, text: str, found: re.Match[str]) -> e.What:
    part, end = parse(place, text, found.end())
    at = re.match(r" starting at offset (\d{1,19}) at ", text[end:])
    if at is None:
        raise place.at("offset").wrong("missing")
    return e.Completing(part.small("id"), _offset(place, at[1]))


def _started(place: Place, text: str, found: re.Match[str]) -> e.What:
    part, _ = parse(place, text, found.end())
    voters = tuple(sorted(_id(place, voter) for voter in part.at("voters").fields))
    if len(voters) > MAX_VOTERS:
        raise place.at("voters").wrong(f"more than {MAX_VOTERS}")
    return e.Started(voters)


_LINES: tuple[tuple[re.Pattern[str], Callable[..., e.What | None]], ...] = (
    (re.compile(r"Sent outbound request: "), _sent),
    (re.compile(r"Received inbound message (?=Inbound)"), _received),
    (re.compile(r"Sent response (?=OutboundResponse)"), _answered),
    (re.compile(r"Ignoring response (?=InboundResponse)"), _ignored),
    (re.compile(r"Vote request (?=VoteRequestData)"), _judged),
    (re.compile(r"Completed transition to "), _role),
    (re.compile(r"Leader appended records at base offset (\d{1,19}), new end offset is "), _appended),
    (re.compile(r"Follower end offset updated to "), _follower_end),
    (re.compile(r"Truncated to offset (\d{1,19}) from Fetch response"), _truncated),
    (re.compile(r"Follower high watermark updated to (\d{1,19})"), _follower_hwm),
    (re.compile(r"Leader high watermark updated to "), _leader_hwm),
    (re.compile(r"High watermark set to "), _hwm_set),
    (re.compile(r"Completing delayed fetch from "), _completing),
    (re.compile(r"Starting voters are "), _started),
)
