"""Messages around what happened to a partition: read once more, for the page, as few as can be looked at.

Of each node's log are kept the last messages about a partition before each place of interest, and the first ones
behind it. Places are the messages that are told of, and the changes of the partition.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from highwater.traces.reports.exchanges import (
    CLIENT,
    CONTROLLER,
    FETCH,
    PROPOSAL,
    WRITE,
    ShownAnswer,
    ShownMessage,
    ShownRequest,
)
from highwater.traces.reports.findings import Finding, Unexplained
from highwater.traces.reports.report import Report, Timeline
from highwater.traces.requests import lines, messages
from highwater.traces.requests.lines import RequestLine
from highwater.traces.requests.proposals import ERRORS
from highwater.traces.requests.replay import Requests

SIDE = 12
"""So many messages of a node are kept before a place, and behind it."""
MAX_PLACES, MAX_PARTITIONS = 60, 200
"""Of so many partitions so many places, those with something to tell first."""
_READ = frozenset({lines.FETCH, lines.PRODUCE, lines.ALTER_PARTITION})
_OTHERS = {
    1: "OFFSET_OUT_OF_RANGE", 6: "NOT_LEADER_OR_FOLLOWER", 7: "REQUEST_TIMED_OUT", 19: "NOT_ENOUGH_REPLICAS",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND", 45: "OUT_OF_ORDER_SEQUENCE_NUMBER", 75: "UNKNOWN_LEADER_EPOCH",
    103: "INCONSISTENT_TOPIC_ID",
}  # fmt: skip


def _error(code: int) -> str:
    return "" if not code else _OTHERS.get(code) or ERRORS.get(code) or f"error {code}"


@dataclass
class _Around:
    """One partition in the log of one node."""

    places: list[float]
    kept: list[ShownMessage] = field(default_factory=list)
    waiting: deque[ShownMessage] = field(default_factory=lambda: deque(maxlen=SIDE))
    behind: int = 0
    at: int = 0
    number: int = 0

    def take(self, message: ShownMessage) -> None:
        """The next message of the log."""
        passed = bisect_left(self.places, message.arrived)
        if passed > self.at:
            self.at, self.behind = passed, SIDE
            self.kept += self.waiting
            self.waiting.clear()
        if self.behind:
            self.behind -= 1
            self.kept.append(message)
        else:
            self.waiting.append(message)

    def all(self) -> list[ShownMessage]:
        """What is kept, at the end of the log."""
        ahead = self.waiting if self.at < len(self.places) else ()
        return [*self.kept, *ahead]


class Around:
    """Collects what a page shows of a cluster's messages, in the timelines of a report."""

    def __init__(self, requests: Requests, report: Report) -> None:
        self._requests, self._report = requests, report
        self._places = _places(report)
        self._of: dict[tuple[str, str], _Around] = {}
        self._numbers: dict[tuple[str, str], int] = defaultdict(int)

    def collect(self) -> None:
        """Read the logs and fill ``messages`` of the timelines. Raises TraceError where a log cannot be read."""
        for line in self._requests.again(_READ):
            for name, message in self._messages(line):
                self._take(name, message)
        found: dict[str, list[ShownMessage]] = defaultdict(list)
        for (name, _), around in self._of.items():
            found[name] += around.all()
        for name, kept in found.items():
            self._report.timelines[name].messages = sorted(kept, key=lambda m: m.arrived)

    def _take(self, name: str, message: ShownMessage) -> None:
        places = self._places.get(name)
        if places is None:
            return
        key = (name, str(message.receiver))
        if key not in self._of:
            self._of[key] = _Around(places)
        self._of[key].take(message)

    def _numbered(self, name: str, node: int | str) -> int:
        self._numbers[(name, str(node))] += 1
        return self._numbers[(name, str(node))]

    def _messages(self, line: RequestLine) -> Iterator[tuple[str, ShownMessage]]:
        if line.api == lines.FETCH:
            yield from self._fetched(line)
        elif line.api == lines.PRODUCE:
            for written in messages.read_produce(line):
                offset = written.offset if written.offset >= 0 else None
                told = ShownAnswer(_error(written.error), offset=offset) if written.answered else None
                yield from self._message(line, written.key, CLIENT, WRITE, ShownRequest(), told)
        else:
            for proposal in messages.read_alter(line):
                isr = tuple(member for member, _ in proposal.members)
                asked = ShownRequest(None, proposal.leader_epoch, isr, proposal.partition_epoch)
                done = ShownAnswer(isr=proposal.answer_isr, partition_epoch=proposal.answer_partition_epoch)
                told = ShownAnswer(_error(proposal.error)) if proposal.error else done
                yield from self._message(line, proposal.key, proposal.broker, PROPOSAL, asked, told)

    def _fetched(self, line: RequestLine) -> Iterator[tuple[str, ShownMessage]]:
        fetch = messages.read_fetch(line)
        if fetch.replica == messages.CONSUMER:
            return
        for key in {**fetch.asked, **fetch.answers}:
            sent, answer = fetch.asked.get(key), fetch.answers.get(key)
            asked = ShownRequest() if sent is None else ShownRequest(sent.offset, sent.leader_epoch)
            told = None
            if answer is not None:
                diverging = answer.diverging
                parted = None if diverging is None else (diverging.epoch, diverging.end_offset)
                told = ShownAnswer(_error(answer.error), answer.hwm, answer.size, parted)
            yield from self._message(line, key, fetch.replica, FETCH, asked, told)

    def _message(
        self,
        line: RequestLine,
        key: messages.Key,
        sender: int | str,
        kind: str,
        asked: ShownRequest,
        told: ShownAnswer | None,
    ) -> Iterator[tuple[str, ShownMessage]]:
        name = self._requests.name_of(key)
        receiver = CONTROLLER if kind == PROPOSAL else self._requests.broker_of(line)
        if name is not None and receiver is not None and name in self._places:
            number = self._numbered(name, receiver)
            yield name, ShownMessage(
                line.arrived, line.answered, sender, receiver, kind, asked, told, str(line.path), line.line, number
            )  # fmt: skip


def _places(report: Report) -> dict[str, list[float]]:
    """The times that are looked at, in order, by the names of partitions with a timeline."""
    told: dict[str, list[float]] = defaultdict(list)
    of_lines: list[Finding | Unexplained] = [*report.findings, *report.unexplained]
    for one in of_lines:
        if one.partition in report.timelines and "line" in one.position:
            told[one.partition].append(float(one.time or 0))
    found: dict[str, list[float]] = {}
    ranked = sorted(report.timelines.values(), key=lambda t: -len(told[t.partition]))
    for timeline in ranked[:MAX_PARTITIONS]:
        found[timeline.partition] = sorted([*told[timeline.partition], *_changes(timeline)][:MAX_PLACES])
    return {name: places for name, places in found.items() if places}


def _changes(timeline: Timeline) -> list[float]:
    """The times of changes; where there are too many, of some of all of them."""
    times = [float(change.time) for change in timeline.changes]
    every = max(1, -(-len(times) // MAX_PLACES))
    return times[::every]
