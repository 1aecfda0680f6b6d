"""A node's raft log: log4j's lines of org.apache.kafka.raft at TRACE, plain or compressed, in bounded memory.

Lines of other loggers and unused lines are skipped. A process that dies leaves a torn entry, and the next process
continues in the same line. An entry without a logger at its end counts as torn if it has the raft client's prefix, or
if another entry follows in its line.

Kafka's objects are printed by ``toString``, ``Name(field=value, list=[Other(…), …], …)``. They are read in one pass
with at most ``MAX_DEPTH`` levels of nesting.
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
from highwater.traces.reading import CHUNK, INT32, INT64, Place, Source, log_time, printable, split

# --- text ------------------------------------------------------------------------------------------------

MAX_DEPTH = 64
_TOKEN = re.compile(r"\s*+(?:([\w.$-]++)=)?+((?:[^'()\[\]{},]++|'[^']*+'|')*+)([()\[\]{},])")
"""Groups: a field name, if any; a text, with any characters between quotes; the bracket or comma after it."""
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_NUMBER = re.compile(r"-?\d{1,19}")


@dataclass(slots=True)
class Part:
    """An object of a line: its name, its fields, and its values without a name (``items``).

    A value is another object or a text. The methods raise TraceError, which names the field, if a value is missing or
    has another type.
    """

    outer: Part | Place
    own: str
    """The name of the field that has this object, or the object's own name if no field has it."""
    name: str
    fields: dict[str, Part | str] = field(default_factory=dict)
    items: list[Part | str] = field(default_factory=list)

    @property
    def place(self) -> Place:
        """The place of this object, for errors."""
        within = self.outer if isinstance(self.outer, Place) else self.outer.place
        return within.at(self.own) if self.own else within

    def at(self, *names: str) -> Part:
        """An inner object, by the path of fields to it; ``0`` is the first item of a list."""
        found: Part = self
        for name in names:
            inner = (found.items[0] if found.items else None) if name == "0" else found.fields.get(name)
            if not isinstance(inner, Part):
                raise found.place.at(name).wrong("missing" if inner is None else "expected an object")
            found = inner
        return found

    def text(self, name: str) -> str:
        """A field's text or, if the field is an object, the object's name."""
        found = self.fields.get(name)
        if found is None:
            raise self.place.at(name).wrong("missing")
        return found if isinstance(found, str) else found.name

    def number(self, name: str, low: int = -1, high: int = INT64) -> int:
        """A field as a whole number within bounds; the default bounds are those of an offset."""
        text = self.text(name)
        if not _NUMBER.fullmatch(text):
            raise self.place.at(name).wrong(f"expected a whole number, not {printable(text, 40)}")
        if not low <= int(text) <= high:
            raise self.place.at(name).wrong(f"{printable(text, 40)} is outside {low}..{high}")
        return int(text)

    def small(self, name: str) -> int:
        """A field as a node id, an epoch or an error code; −1 means none."""
        return self.number(name, -1, INT32)

    def flag(self, name: str) -> bool:
        """A field as True or False."""
        text = self.text(name)
        if text not in ("true", "false"):
            raise self.place.at(name).wrong(f"expected true or false, not {printable(text, 40)}")
        return text == "true"

    def optional(self, name: str) -> Part | str | None:
        """The content of a field that is an ``Optional``; None if it is empty.

        The content can be a text or an object. If it has only named values, the returned ``Part`` is the ``Optional``
        with these values.
        """
        found = self.fields.get(name)
        if found is None:
            raise self.place.at(name).wrong("missing")
        if isinstance(found, Part) and found.name in ("Optional", "OptionalInt", "OptionalLong"):
            return found.items[0] if found.items else found
        if found in ("Optional.empty", "OptionalInt.empty", "OptionalLong.empty"):
            return None
        raise self.place.at(name).wrong(f"expected an Optional, not {printable(self.text(name), 40)}")

    def optional_number(self, name: str) -> int | None:
        """The whole number in an ``Optional`` field; None if it is empty."""
        found = self.optional(name)
        if found is None:
            return None
        if not isinstance(found, str) or not _NUMBER.fullmatch(found):
            raise self.place.at(name).wrong("expected a whole number")
        return int(found)


def parse(place: Place, text: str, start: int = 0) -> tuple[Part, int]:
    """Parse the object that begins at ``start``; returns the object and the position after it.

    Raises TraceError if the object is cut off or nested too deeply.
    """
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
    if name is None:
        part.items.append(word)
    elif name not in part.fields:
        part.fields[name] = word[1:-1] if word[:1] == "'" else word


# --- messages --------------------------------------------------------------------------------------------

_ID = re.compile(r"id: (-?\d{1,10})\b")


def message(data: Part) -> Message:
    """The message in an object such as FetchRequestData. Raises TraceError if a field is missing or invalid."""
    reader = _READERS.get(data.name)
    if reader is not None:
        return reader(data)
    error = data.small("errorCode") if "errorCode" in data.fields else 0
    return Other(data.name.removesuffix("Data"), error)


def node_of(part: Part, name: str) -> int:
    """The node's number in a field such as ``127.0.0.1:9093 (id: 3 rack: null isFenced: false)``."""
    found = part.at(name)
    number = _ID.match(found.items[0]) if found.items and isinstance(found.items[0], str) else None
    if number is None:
        raise found.place.wrong("no node's id")
    return int(number[1])


def _partition(data: Part) -> Part:
    return data.at("topics", "0", "partitions", "0")


def _fetch(data: Part) -> Message:
    partition, sender = _partition(data), data.small("replicaId")
    if "replicaState" in data.fields:
        sender = max(sender, data.at("replicaState").small("replicaId"))
    hwm = partition.number("highWatermark") if "highWatermark" in partition.fields else INT64
    return Fetch(
        sender, partition.small("currentLeaderEpoch"), partition.number("fetchOffset"),
        partition.small("lastFetchedEpoch"), None if hwm == INT64 else hwm, data.small("maxWaitMs"),
    )  # fmt: skip


def _fetch_answer(data: Part) -> Message:
    error = data.small("errorCode")
    if error:
        return FetchAnswer(error, -1, -1, -1, 0, None, None)
    partition = data.at("responses", "0", "partitions", "0")
    leader, records = partition.at("currentLeader"), partition.fields.get("records")
    return FetchAnswer(
        partition.small("errorCode"), leader.small("leaderId"), leader.small("leaderEpoch"),
        partition.number("highWatermark"), records.number("size", 0) if isinstance(records, Part) else 0,
        _end(partition.at("divergingEpoch")), _end(partition.at("snapshotId")),
    )  # fmt: skip


def _end(of: Part) -> tuple[int, int] | None:
    """The epoch and its end offset in an object; None if both are −1."""
    found = of.small("epoch"), of.number("endOffset")
    return None if found == (-1, -1) else found


def _vote(data: Part) -> Message:
    partition = _partition(data)
    return Vote(
        partition.small("replicaId"), data.small("voterId"), partition.small("replicaEpoch"),
        partition.small("lastOffsetEpoch"), partition.number("lastOffset"), partition.flag("preVote"),
    )  # fmt: skip


def _answer(data: Part) -> tuple[int, int, int]:
    """The error, the leader and the epoch of an answer. If the error is of the whole answer, the others are −1."""
    if error := data.small("errorCode"):
        return error, -1, -1
    partition = _partition(data)
    return partition.small("errorCode"), partition.small("leaderId"), partition.small("leaderEpoch")


def _vote_answer(data: Part) -> Message:
    said = _answer(data)
    return VoteAnswer(*said, granted=not data.small("errorCode") and _partition(data).flag("voteGranted"))


def _begin(data: Part) -> Message:
    partition = _partition(data)
    return Begin(partition.small("leaderId"), data.small("voterId"), partition.small("leaderEpoch"))


_READERS: dict[str, Callable[[Part], Message]] = {
    "FetchRequestData": _fetch,
    "FetchResponseData": _fetch_answer,
    "VoteRequestData": _vote,
    "VoteResponseData": _vote_answer,
    "BeginQuorumEpochRequestData": _begin,
    "BeginQuorumEpochResponseData": lambda data: BeginAnswer(*_answer(data)),
}


# --- reader ----------------------------------------------------------------------------------------------

MAX_VOTERS = 100
_HEAD = re.compile(
    r"\[(\d{4}-\d\d-\d\d) (\d\d):(\d\d):(\d\d),(\d{3})\] (?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) "
)
_NODE = re.compile(r"\[RaftManager (?:id|nodeId)=(\d{1,10})\] ")
_LOGGER = re.compile(r"\((org\.apache\.kafka\.raft\.[\w$.]+)\)\s*\Z")
_ANY_LOGGER = re.compile(r" \([A-Za-z]\w*(?:\.[\w$]+)+\)\s*\Z")
_SIGN = re.compile(rb"\] (?:TRACE|DEBUG|INFO) \[RaftManager (?:id|nodeId)=(\d{1,10})\] ")
_LOGGED = re.compile(rb"\A\[\d{4}-\d\d-\d\d [^\]]*\] [A-Z]+ .*\(([\w.$]+)\)\s*\Z")
_OWN, _CLIENT = b"org.apache.kafka.raft.", b"org.apache.kafka.raft.KafkaRaftClient"


def is_raft_log(head: bytes) -> bool:
    """True if a file with these first bytes is a raft log: lines of the raft client, with a node's number.

    A file that also has lines of other loggers is a broker's log, in which the raft client writes at INFO.
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


def first_line(path: Path) -> bytes:
    """The first line of a file, at most its first 64 KiB, for sorting files by time.

    Raises TraceError if the file cannot be read.
    """
    with Source(path) as source:
        return source.read(CHUNK).split(b"\n", 1)[0]


def first_node(path: Path) -> int | None:
    """The number of the node in the first 64 KiB of a raft log; None if there is none.

    Raises TraceError if the file cannot be read.
    """
    with Source(path) as source:
        found = _SIGN.search(source.read(CHUNK))
    return None if found is None else int(found[1])


class RaftLog:
    """A file with one node's lines.

    Iterating gives its events in order. ``cut`` counts the torn lines of the latest iteration.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.cut, self.lines, self.bytes_read = path, 0, 0, 0

    def __iter__(self) -> Iterator[e.Event]:
        """Iterate over the events. Raises TraceError if the file cannot be read, or a line has an impossible value."""
        self.cut = 0
        with Source(self.path) as source:
            for number, raw in enumerate(split(source), start=1):
                self.lines, self.bytes_read = number, source.bytes_read
                yield from self._line(number, raw.decode("utf-8", "replace"))

    def _line(self, number: int, line: str) -> Iterator[e.Event]:
        heads = list(_HEAD.finditer(line))
        for head, following in zip(heads, [*heads, None][1:], strict=True):
            text = line[head.end() : following.start() if following else len(line)]
            node = _NODE.match(text)
            if _LOGGER.search(text) is None:
                # A message of another logger can have several lines; the first line then lacks the logger.
                is_part = node is not None or following is not None
                self.cut += is_part and _ANY_LOGGER.search(text) is None
                continue
            if node is not None:
                place = Place(self.path, number)
                said = _said(place, text[node.end() :])
                if said is not None:
                    time = log_time(head)
                    if time is None:
                        raise place.at("time").wrong("no such time")
                    yield e.Event(int(node[1]), time, place, said)


def _said(place: Place, text: str) -> e.What | None:
    for pattern, read in _LINES:
        found = pattern.match(text)
        if found is not None:
            return read(_Line(place, text, found))
    return None


# --- the lines ---------------------------------------------------------------------------------------------------


class _Line:
    """Reads the objects of a line from left to right.

    ``found`` is the match at the start of the line's text, which identifies the kind of line.
    """

    def __init__(self, place: Place, text: str, found: re.Match[str]) -> None:
        self.place, self.text, self.found, self.end = place, text, found, found.end()

    def part(self) -> Part:
        part, self.end = parse(self.place, self.text, self.end)
        return part

    def then(self, pattern: str) -> str:
        """The first group of a pattern that matches right after the matched start of the line; empty if it does not."""
        found = re.compile(pattern).match(self.text, self.end)
        return "" if found is None else found[1]

    def offset(self, text: str = "") -> int:
        """The offset in ``text``; by default, the one in the matched start of the line."""
        number = int(text or self.found[1])
        if number > INT64:
            raise self.place.at("offset").wrong(f"is outside 0..{INT64}")
        return number


def _sent(line: _Line) -> e.What:
    part = line.part()
    return e.Sent(message(part.at("data")), part.number("correlationId"), node_of(part, "destination"))


def _received(line: _Line) -> e.What:
    part = line.part()
    said, correlation = message(part.at("data")), part.number("correlationId")
    if part.name == "InboundResponse":
        failed = getattr(said, "error", 0) == 8 and part.at("data").small("errorCode") == 8
        return e.GotAnswer(said, correlation, node_of(part, "source"), failed)
    return e.Received(said, correlation, part.number("apiVersion", 0, 1000))


def _answered(line: _Line) -> e.What:
    answer = line.part()
    line.end = line.text.find("InboundRequest(", line.end)
    if line.end < 0:
        raise line.place.at("InboundRequest").wrong("missing")
    request = line.part()
    return e.Answered(message(answer.at("data")), answer.number("correlationId"), message(request.at("data")))


def _judged(line: _Line) -> e.What:
    said = message(line.part())
    verdict = line.then(r" with epoch -?\d+ is (granted|rejected)")
    if not verdict or not isinstance(said, e.Vote):
        raise line.place.wrong("neither granted nor rejected")
    return e.Judged(said, verdict == "granted")


def _role(line: _Line) -> e.What:
    part = line.part()
    fields = part.fields
    leader = part.optional_number("leaderId") if "leaderId" in fields else None
    if "leader" in fields:
        leader = part.small("leader")
    key = part.optional("votedKey") if "votedKey" in fields else None
    metadata = part.optional("highWatermark") if "highWatermark" in fields else None
    granted = None
    if "epochElection" in fields:
        states = part.at("epochElection", "voterStates").fields
        of = {_id(line.place, voter): state for voter, state in states.items() if isinstance(state, Part)}
        granted = frozenset(v for v, state in of.items() if state.text("state") == "GRANTED")
    return e.Role(
        part.name.removesuffix("State"), part.small("epoch"), leader,
        key.small("id") if isinstance(key, Part) else None,
        metadata.number("offset") if isinstance(metadata, Part) else None,
        granted, line.text.startswith(" from null", line.end),
        part.number("epochStartOffset") if "epochStartOffset" in fields else None,
    )  # fmt: skip


def _id(place: Place, text: str) -> int:
    if not re.fullmatch(r"\d{1,10}", text) or int(text) > INT32:
        raise place.at("voterStates").wrong("no node's id")
    return int(text)


def _appended(line: _Line) -> e.What:
    part = line.part()
    return e.Appended(line.offset(), part.number("offset"), part.small("epoch"))


def _follower_end(line: _Line) -> e.What:
    part = line.part()
    return e.FollowerEnd(part.number("offset"), part.small("epoch"))


def _hwm_set(line: _Line) -> e.What:
    """Read the first and more detailed of the two lines about a move of the HWM."""
    part = line.part()
    leads, now = part.name != "Optional", part if part.name != "Optional" else part.at("0")
    before = ends = None
    if line.text.startswith(" from ", line.end):
        line.end += 6
        old = line.part()
        before = (old.at("0") if old.name == "Optional" else old).number("offset")
    voters = line.text.find(" and voters [", line.end)
    if voters >= 0:
        line.end = voters + 12
        ends = tuple(_end_of(state) for state in line.part().items[:MAX_VOTERS] if isinstance(state, Part))
    return e.Hwm(now.number("offset"), leads, before, ends, final=False)


def _end_of(state: Part) -> tuple[int, int]:
    reached = state.optional("endOffset")
    end = reached.number("offset") if isinstance(reached, Part) else -1
    return state.at("replicaKey").small("id"), end


def _completing(line: _Line) -> e.What:
    part = line.part()
    offset = line.then(r" starting at offset (\d{1,19}) at ")
    if not offset:
        raise line.place.at("offset").wrong("missing")
    return e.Completing(part.small("id"), line.offset(offset))


def _started(line: _Line) -> e.What:
    voters = tuple(sorted(_id(line.place, voter) for voter in line.part().at("voters").fields))
    if len(voters) > MAX_VOTERS:
        raise line.place.at("voters").wrong(f"more than {MAX_VOTERS}")
    return e.Started(voters)


_KINDS: tuple[tuple[str, Callable[[_Line], e.What]], ...] = (
    (r"Sent outbound request: ", _sent),
    (r"Received inbound message (?=Inbound)", _received),
    (r"Sent response (?=OutboundResponse)", _answered),
    (r"Ignoring response (?=InboundResponse)", lambda line: e.Ignored(line.part().number("correlationId"))),
    (r"Vote request (?=VoteRequestData)", _judged),
    (r"Completed transition to ", _role),
    (r"Leader appended records at base offset (\d{1,19}), new end offset is ", _appended),
    (r"Follower end offset updated to ", _follower_end),
    (r"Truncated to offset (\d{1,19}) from Fetch response", lambda line: e.Truncated(line.offset())),
    (r"Follower high watermark updated to (\d{1,19})", lambda line: e.Hwm(line.offset(), False)),
    (r"Leader high watermark updated to ", lambda line: e.Hwm(line.part().number("offset"), True)),
    (r"High watermark set to ", _hwm_set),
    (r"Completing delayed fetch from ", _completing),
    (r"Starting voters are ", _started),
)
_LINES = tuple((re.compile(pattern), read) for pattern, read in _KINDS)
