"""A node's raft log: log4j's lines of org.apache.kafka.raft at TRACE, plain or compressed, in bounded memory.

Lines of other loggers, and those that say nothing that is used here, are passed over. A line that the death of its node
cut off, which has no logger at its end, is counted and passed over; what a new process wrote behind it, is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

from highwater.traces.raft import events as e
from highwater.traces.raft.messages import message, node_of
from highwater.traces.raft.text import Part, parse
from highwater.traces.reading.errors import TraceError
from highwater.traces.reading.fields import INT32, INT64, Place
from highwater.traces.reading.lines import Source, split

DAY_MS = 86_400_000
MAX_VOTERS = 100
_HEAD = re.compile(
    r"\[(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d),(\d{3})\] (?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) "
)
_NODE = re.compile(r"\[RaftManager (?:id|nodeId)=(\d{1,10})\] ")
_LOGGER = re.compile(r"\((org\.apache\.kafka\.raft\.[\w$.]+)\)\s*\Z")
_SIGN = re.compile(rb"\] (?:TRACE|DEBUG|INFO) \[RaftManager (?:id|nodeId)=\d{1,10}\] ")
_LOGGED = re.compile(rb"\A\[\d{4}-\d\d-\d\d [^\]]*\] [A-Z]+ .*\(([\w.$]+)\)\s*\Z")
_OWN, _CLIENT = b"org.apache.kafka.raft.", b"org.apache.kafka.raft.KafkaRaftClient"

_Read = Callable[[Place, str, "re.Match[str]"], e.What]


def is_raft_log(head: bytes) -> bool:
    """Whether the first bytes of a file are those of a raft log: lines of the raft client, with a node's number.

    What other loggers write into, too, is a broker's log: at INFO, the raft client says something in every one.
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
        self._days: dict[tuple[int, int, int], int] = {}

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
        year, month, day, hour, minute, second, ms = map(int, head.groups())
        if (year, month, day) not in self._days:
            try:
                days = date(year, month, day).toordinal() - date(1970, 1, 1).toordinal()
            except ValueError:
                raise place.at("time").wrong("no such day") from None
            self._days[year, month, day] = days * DAY_MS
        return self._days[year, month, day] + ((hour * 60 + minute) * 60 + second) * 1000 + ms


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

__all__ = ["RaftLog", "TraceError", "is_raft_log"]
