"""Replay of request logs with a metadata log: comparison with the model.

Requests to controllers are few and are read first. Then the lines of each node's log are compared with the records of
the metadata log that their epochs refer to.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from highwater.traces.kafka.log_lines import broker_of
from highwater.traces.messages import proposals
from highwater.traces.messages.context import CLOCKS_MS, REGISTERED, Context
from highwater.traces.messages.metadata_index import MetadataIndex
from highwater.traces.messages.nodes import Node
from highwater.traces.messages.request_lines import (
    ALTER_PARTITION,
    FETCH,
    HEARTBEAT,
    PRODUCE,
    REGISTRATION,
    Counted,
    Fetch,
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
from highwater.traces.reports.report import Report

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

    def __init__(self, context: Context, paths: Sequence[Path]) -> None:
        self.context = context
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
                for line in read_request_log(
                    path, self.counted, _OF_BROKERS, self.context.to_controllers.offset_ms
                ):
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

    # --- the controller -------------------------------------------------------------------------------

    def _controllers(self) -> None:
        """Read and check the requests to controllers."""
        to_controllers, verdicts = self.context.to_controllers, self.context.verdicts
        ignored = Counted()
        for path in self.paths:
            for line in read_request_log(path, ignored, _OF_CONTROLLER):
                if line.api == ALTER_PARTITION:
                    for proposal in read_alter(line):
                        if not to_controllers.add_proposal(proposal):
                            verdicts.outside[_UNKNOWN] += 1
                elif line.api == REGISTRATION:
                    to_controllers.registrations.append(line)
                else:
                    verdicts.outside["heartbeat (only its metadata offset is used)"] += 1
                    to_controllers.add_heartbeat(line)
        to_controllers.finish()
        for registration in to_controllers.registrations:
            self._registered(registration)
        for history, proposal in to_controllers.proposals:
            proposals.decided(self.context, history, proposal)
        proposals.in_flight(self.context)

    def _registered(self, line: RequestLine) -> None:
        """Check a registration: if it was accepted, the metadata log must have it."""
        verdicts, index = self.context.verdicts, self.context.index
        broker, response = line.exchange.request.broker_id, line.exchange.response
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
        for topic, _ in fetch.requested or fetch.answers:
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


# --- report ----------------------------------------------------------------------------------------------


def judge(paths: Sequence[Path], index: MetadataIndex, report: Report) -> None:
    """Read the request logs, and add the results to the report of the metadata log that ``index`` has.

    KeyboardInterrupt ends the reading; the report has the results so far. Raises TraceError if a log cannot be read.
    """
    started = time.perf_counter()
    requests = Requests(Context(index, report), paths)
    try:
        with rarely_collected():
            requests.replay()
    except KeyboardInterrupt:
        report.interrupted = True
    _complete(report, requests)
    report.seconds += time.perf_counter() - started


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
