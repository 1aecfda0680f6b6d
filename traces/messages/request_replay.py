"""Replay of request logs with a metadata log: comparison with the model, and the messages around partition changes.

Requests to controllers are few and are read first. Then the lines of each node's log are compared with the records of
the metadata log that their epochs refer to. To show messages in the report's page, each
node's log is read again. The last messages about a partition before each change or violation, and the first messages
after it, are selected.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from highwater.traces.kafka.log_lines import broker_of
from highwater.traces.messages import proposals, request_lines
from highwater.traces.messages.context import CLOCKS_MS, REGISTERED, Context
from highwater.traces.messages.metadata_index import MetadataIndex
from highwater.traces.messages.nodes import Node
from highwater.traces.messages.proposals import ERRORS
from highwater.traces.messages.request_lines import (
    ALTER_PARTITION,
    FETCH,
    HEARTBEAT,
    PRODUCE,
    REGISTRATION,
    Counted,
    Fetch,
    Key,
    RequestLine,
    begins,
    read_alter,
    read_fetch,
    read_produce,
    read_request_log,
)
from highwater.traces.metadata.replay import rarely_collected
from highwater.traces.reading import CHUNK, Source
from highwater.traces.reports.findings import Finding, Unexplained
from highwater.traces.reports.observed import (
    CLIENT,
    CONTROLLER,
    PROPOSAL,
    WRITE,
    ShownAnswer,
    ShownMessage,
    ShownRequest,
)
from highwater.traces.reports.observed import FETCH as SHOWN_FETCH
from highwater.traces.reports.report import Report, Timeline

# --- copies ----------------------------------------------------------------------------------------------


def without_copies(paths: Sequence[Path], notes: list[str]) -> list[Path]:
    """The logs in the order of their first lines, without copies. Raises TraceError if a log cannot be read.

    A log is a copy if another log begins with all of it. A note for each copy is added to ``notes``.
    """
    by_beginning: dict[bytes, list[Path]] = {}
    for path in paths:
        by_beginning.setdefault(begins(path), []).append(path)
    kept: list[Path] = []
    for _, logs in sorted(by_beginning.items()):
        distinct: list[Path] = []
        for path in logs:
            at = next((i for i, other in enumerate(distinct) if _is_copy(path, other)), None)
            if at is None:
                distinct.append(path)
                continue
            copy, distinct[at] = sorted((path, distinct[at]), key=_size)
            notes.append(f"{copy}: skipped: {distinct[at]} has the same lines")
        kept += distinct
    return kept


def _is_copy(path: Path, other: Path) -> bool:
    """True if one of two files begins with the whole other one."""
    with Source(path) as one, Source(other) as two:
        while True:
            here, there = one.read(CHUNK), two.read(CHUNK)
            shorter = min(len(here), len(there))
            if here[:shorter] != there[:shorter]:
                return False
            if shorter < CHUNK:
                return True


def _size(path: Path) -> int:
    with Source(path) as source:
        return sum(map(len, source.chunks()))


# --- replay ----------------------------------------------------------------------------------------------

QUORUM = frozenset({"AAAAAAAAAAAAAAAAAAAAAQ", "__cluster_metadata"})
"""The id and the name of the metadata log's topic, which the quorum's nodes fetch."""
_OF_CONTROLLER = frozenset({ALTER_PARTITION, REGISTRATION, HEARTBEAT})
_OF_BROKERS = frozenset({FETCH, PRODUCE})


class Requests:
    """Replays a cluster's request logs. The results are the context's verdicts, and ``notes``."""

    def __init__(
        self,
        context: Context,
        paths: Sequence[Path],
        read: Callable[..., Iterator[RequestLine]] = read_request_log,
    ) -> None:
        self.context, self._read = context, read
        self.counted = Counted()
        self.notes: list[str] = []
        self.paths = without_copies(paths, self.notes)
        self._nodes: dict[int, Node] = {}
        self._of_listener: dict[str, int | None] = {}
        self._in: Path | None = None
        """The log whose listeners ``_of_listener`` has."""

    def replay(self) -> None:
        """Read and check all logs. Raises TraceError if one cannot be read."""
        verdicts = self.context.verdicts
        try:
            self._controllers()
            for path in self.paths:
                for line in self._read(path, self.counted, _OF_BROKERS, self.context.asked.offset_ms):
                    self._of_broker(line)
            for node in self._nodes.values():
                node.finish()
            if gaps := sum(node.sessions.gaps for node in self._nodes.values()):
                verdicts.guessed["fetch sessions that go on after lines that are missing"] += gaps
        finally:
            for name, count in self.counted.others.items():
                if name not in _SKIPPED_NAMES:
                    verdicts.outside[f"request {name}"] += count
            if self.counted.first_cut is not None:
                path, number = self.counted.first_cut
                self.notes.append(
                    f"{self.counted.cut} lines of request logs are cut off, the first is {path}:{number}"
                )

    # --- once more ------------------------------------------------------------------------------------

    def again(self, wanted: frozenset[int]) -> Iterator[RequestLine]:
        """Read the requests of the APIs ``wanted`` again.

        Raises TraceError if a log cannot be read.
        """
        for path in self.paths:
            yield from self._read(path, Counted(), wanted, self.context.asked.offset_ms)

    def name_of(self, key: Key) -> str | None:
        """The name of a partition; None if the metadata log does not have it."""
        history = self.context.index.history(*key)
        return None if history is None else history.name

    # --- the controller -------------------------------------------------------------------------------

    def _controllers(self) -> None:
        """Read and check the requests to controllers."""
        asked, verdicts = self.context.asked, self.context.verdicts
        ignored = Counted()
        for path in self.paths:
            for line in self._read(path, ignored, _OF_CONTROLLER):
                if line.api == ALTER_PARTITION:
                    for proposal in read_alter(line):
                        if not asked.add_proposal(proposal):
                            verdicts.outside[_UNKNOWN] += 1
                elif line.api == REGISTRATION:
                    asked.registrations.append(line)
                else:
                    verdicts.outside["heartbeat (only its metadata offset is used)"] += 1
                    asked.add_heartbeat(line)
        asked.finish()
        for registration in asked.registrations:
            self._registered(registration)
        for history, proposal in asked.proposals:
            proposals.decided(self.context, history, proposal)
        proposals.in_flight(self.context)

    def _registered(self, line: RequestLine) -> None:
        """Check a registration: if it was accepted, the metadata log must have it."""
        verdicts, index = self.context.verdicts, self.context.index
        broker, response = line.said.request.broker_id, line.said.response
        if response.error_code:
            verdicts.outside[f"registration answered with error {response.error_code}"] += 1
        elif index.registered(broker, response.broker_epoch) <= line.answered + CLOCKS_MS:
            verdicts.explained[REGISTERED] += 1
        else:
            verdicts.not_explained(
                line, None, REGISTERED, (), {"brokerEpoch": (index.epochs_of(broker), response.broker_epoch)}, b=broker,
            )  # fmt: skip

    # --- brokers --------------------------------------------------------------------------------------

    def _of_broker(self, line: RequestLine) -> None:
        if line.api == FETCH:
            fetch = read_fetch(line)
            if self._is_quorums(fetch):
                self.context.verdicts.outside["fetch of the metadata log (the quorum's)"] += 1
                return
            node = self._node(line)
            if node is not None:
                node.take_fetch(fetch)
        else:
            node = self._node(line)
            if node is not None:
                node.take_produce(line, read_produce(line))

    def _is_quorums(self, fetch: Fetch) -> bool:
        for topic, _ in fetch.asked or fetch.answers:
            return topic in QUORUM
        return self.broker_of(fetch.line) is None

    def _node(self, line: RequestLine) -> Node | None:
        broker = self.broker_of(line)
        if broker is None:
            self.context.verdicts.outside["request to a node that is not known"] += 1
            return None
        found = self._nodes.get(broker)
        if found is None:
            found = self._nodes[broker] = Node(self.context, broker)
        return found

    def broker_of(self, line: RequestLine) -> int | None:
        """The broker that received a request, from the address, the port, or the name of the file; None if unknown."""
        known, listener = self._of_listener, line.listener
        if line.path is not self._in:
            self._in = line.path
            known.clear()
        if listener not in known:
            known[listener] = self._found_broker(listener, line.path)
        return known[listener]

    def _found_broker(self, listener: str, path: Path) -> int | None:
        listeners = self.context.index.listeners
        if listener in listeners:
            return listeners[listener]
        by_port: dict[str, set[int]] = defaultdict(set)
        for address, broker in listeners.items():
            by_port[address.rpartition(":")[2]].add(broker)
        same = by_port.get(listener.rpartition(":")[2], set())
        if len(same) == 1:
            return next(iter(same))
        named = broker_of(path)
        return named if named in self.context.index.brokers else None


_UNKNOWN = "AlterPartition of a partition that the metadata log does not have"
_SKIPPED_NAMES = frozenset({"ALTER_PARTITION", "BROKER_REGISTRATION", "BROKER_HEARTBEAT"})
"""The requests to controllers, which are counted before the brokers' requests are read."""


# --- beside ----------------------------------------------------------------------------------------------


class RequestsBeside:
    """Replays request logs together with a metadata log.

    Pass the metadata log's events to ``index``, then call ``judge``.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths, self.index = paths, MetadataIndex()
        self._requests: Requests | None = None

    def judge(self, report: Report) -> None:
        """Read the request logs, and add the results to the report of the metadata log.

        KeyboardInterrupt ends the reading; the report has the results so far. Raises TraceError if a log cannot be
        read.
        """
        started = time.perf_counter()
        requests = self._requests = Requests(Context(self.index, report), self._paths)
        try:
            with rarely_collected():
                requests.replay()
        except KeyboardInterrupt:
            report.interrupted = True
        _complete(report, requests)
        report.seconds += time.perf_counter() - started

    def collect(self, report: Report) -> None:
        """Read the logs again, after ``judge``, to add messages to the report's timelines.

        Raises TraceError if a log cannot be read.
        """
        if self._requests is not None and report.timelines:
            try:
                Around(self._requests, report).collect()
            except KeyboardInterrupt:
                report.interrupted = True


def _complete(report: Report, requests: Requests) -> None:
    """Add the notes and figures to the report. If a clock is off, what is reported about request logs is unreliable."""
    verdicts, clocks = requests.context.verdicts, requests.context.clocks.doubt()
    if clocks is not None and verdicts.reported:
        files = {str(path) for path in requests.paths}
        report.doubts.append(clocks)
        report.unreliable_count += verdicts.reported
        report.findings = [_unreliable(one, files) for one in report.findings]
        report.unexplained = [_unreliable(one, files) for one in report.unexplained]
    report.notes += requests.notes
    report.figures |= verdicts.figures() | {"request log lines": requests.counted.lines}


_Reported = TypeVar("_Reported", Finding, Unexplained)


def _unreliable(one: _Reported, files: Set[str]) -> _Reported:
    return replace(one, reliable=False) if one.position.get("file") in files else one


# --- around ----------------------------------------------------------------------------------------------

SIDE = 12
"""The most messages about a partition shown from a node's log before a change or violation, and as many after it."""
MAX_PLACES, MAX_PARTITIONS = 60, 200
"""The most changes and violations of a partition, and the most partitions, for which messages are shown.

Violations and lines that do not conform come first, and partitions with the most of these.
"""
_READ = frozenset({FETCH, PRODUCE, ALTER_PARTITION})
_OTHERS = {
    1: "OFFSET_OUT_OF_RANGE", 6: "NOT_LEADER_OR_FOLLOWER", 7: "REQUEST_TIMED_OUT", 19: "NOT_ENOUGH_REPLICAS",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND", 45: "OUT_OF_ORDER_SEQUENCE_NUMBER", 75: "UNKNOWN_LEADER_EPOCH",
    103: "INCONSISTENT_TOPIC_ID",
}  # fmt: skip


def _error(code: int) -> str:
    return "" if not code else _OTHERS.get(code) or ERRORS.get(code) or f"error {code}"


@dataclass
class _Around:
    """Selects messages about one partition in one node's log: those near the times ``places``."""

    places: list[float]
    kept: list[ShownMessage] = field(default_factory=list)
    waiting: deque[ShownMessage] = field(default_factory=lambda: deque(maxlen=SIDE))
    behind: int = 0
    at: int = 0
    number: int = 0

    def take(self, message: ShownMessage) -> None:
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
        """The selected messages. Call ``all`` at the end of the log."""
        ahead = self.waiting if self.at < len(self.places) else ()
        return [*self.kept, *ahead]


class Around:
    """Collects messages for the timelines of a report."""

    def __init__(self, requests: Requests, report: Report) -> None:
        self._requests, self._report = requests, report
        self._places = _places(report)
        self._of: dict[tuple[str, str], _Around] = {}

    def collect(self) -> None:
        """Read the logs and fill ``messages`` of the timelines. Raises TraceError if a log cannot be read."""
        for line in self._requests.again(_READ):
            self._line(line)
        found: dict[str, list[ShownMessage]] = defaultdict(list)
        for (name, _), around in self._of.items():
            found[name] += around.all()
        for name, kept in found.items():
            self._report.timelines[name].messages = sorted(kept, key=lambda m: m.arrived)

    def _line(self, line: RequestLine) -> None:
        if line.api == FETCH:
            self._fetched(line)
        elif line.api == PRODUCE:
            for written in request_lines.read_produce(line):
                offset = written.offset if written.offset >= 0 else None
                told = ShownAnswer(_error(written.error), offset=offset) if written.answered else None
                self._message(line, written.key, CLIENT, WRITE, ShownRequest(), told)
        else:
            for proposal in request_lines.read_alter(line):
                isr = tuple(member for member, _ in proposal.members)
                asked = ShownRequest(None, proposal.leader_epoch, isr, proposal.partition_epoch)
                done = ShownAnswer(isr=proposal.answer_isr, partition_epoch=proposal.answer_partition_epoch)
                told = ShownAnswer(_error(proposal.error)) if proposal.error else done
                self._message(line, proposal.key, proposal.broker, PROPOSAL, asked, told)

    def _fetched(self, line: RequestLine) -> None:
        fetch = request_lines.read_fetch(line)
        if fetch.replica == request_lines.CONSUMER:
            return
        for key in {**fetch.asked, **fetch.answers}:
            sent, answer = fetch.asked.get(key), fetch.answers.get(key)
            asked = ShownRequest() if sent is None else ShownRequest(sent.offset, sent.leader_epoch)
            told = None
            if answer is not None:
                diverging = answer.diverging
                parted = None if diverging is None else (diverging.epoch, diverging.end_offset)
                told = ShownAnswer(_error(answer.error), answer.hwm, answer.size, parted)
            self._message(line, key, fetch.replica, SHOWN_FETCH, asked, told)

    def _message(
        self,
        line: RequestLine,
        key: request_lines.Key,
        sender: int | str,
        kind: str,
        asked: ShownRequest,
        told: ShownAnswer | None,
    ) -> None:
        name = self._requests.name_of(key)
        receiver = CONTROLLER if kind == PROPOSAL else self._requests.broker_of(line)
        if name is not None and receiver is not None and name in self._places:
            around = self._of.setdefault((name, str(receiver)), _Around(self._places[name]))
            around.number += 1
            sent = line.arrived, line.answered, sender, receiver, kind, asked, told
            around.take(ShownMessage(*sent, str(line.path), line.line, around.number))


def _places(report: Report) -> dict[str, list[float]]:
    """For each partition with a timeline, the times around which messages are selected, in order."""
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
    """The times of at most MAX_PLACES changes: of all, or of every n-th with the smallest sufficient n."""
    times = [float(change.time) for change in timeline.changes]
    every = max(1, -(-len(times) // MAX_PLACES))
    return times[::every]
