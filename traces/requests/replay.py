"""Request logs beside a metadata log: read, put into order, and held against the model.

The controller's requests are read first, as they are few: proposals, registrations, heartbeats. Then the logs of all
nodes are read, one after the other: what a broker says is held against what it said before, and against the metadata
log by epochs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from highwater.traces.kafka.data_dump import broker_of
from highwater.traces.reports.findings import Doubt
from highwater.traces.requests import proposals
from highwater.traces.requests.clocks import controllers_ahead
from highwater.traces.requests.context import Context
from highwater.traces.requests.history import NEVER
from highwater.traces.requests.lines import (
    ALTER_PARTITION,
    FETCH,
    HEARTBEAT,
    PRODUCE,
    REGISTRATION,
    Counted,
    RequestLine,
    read_request_log,
)
from highwater.traces.requests.messages import (
    Fetch,
    Key,
    Registered,
    read_alter,
    read_fetch,
    read_heartbeat,
    read_produce,
    read_registered,
)
from highwater.traces.requests.nodes import Node
from highwater.traces.requests.parts import NodeEnds, NodesPart, in_order, join
from highwater.traces.requests.stages import CLOCKS_MS
from highwater.traces.requests.verdicts import REGISTERED, Verdicts

QUORUM = frozenset({"AAAAAAAAAAAAAAAAAAAAAQ", "__cluster_metadata"})
"""The topic of the metadata log, whose fetches are the quorum's."""
_OF_CONTROLLER = frozenset({ALTER_PARTITION, REGISTRATION, HEARTBEAT})
_OF_BROKERS = frozenset({FETCH, PRODUCE})


class Requests:
    """The request logs of a cluster. ``replay`` reads them; what came of it is in the context's verdicts."""

    def __init__(
        self,
        context: Context,
        paths: Sequence[Path],
        read: Callable[..., Iterator[RequestLine]] = read_request_log,
    ) -> None:
        self.context, self.paths, self._read = context, in_order(paths), read
        self.counted = Counted()
        self.notes: list[str] = []
        self.doubts: list[Doubt] = []
        self.files_off: set[str] = set()
        """Logs of nodes whose clocks are off."""
        self.offset_ms = 0
        self._controllers_ahead: dict[Path, float] = {}
        self._nodes: dict[int, Node] = {}
        self._of_listener: dict[str, int | None] = {}
        self._in: Path | None = None
        """The log that ``_of_listener`` is about."""

    def replay(self) -> None:
        """Read all logs. Raises TraceError where one cannot be read."""
        part = NodesPart()
        try:
            self.controllers()
            self.read(range(len(self.paths)), part)
        finally:
            self.join([part])

    def read(self, numbers: Iterable[int], part: NodesPart) -> None:
        """Read the brokers' requests in some of the files, in the order of their numbers. Raises TraceError."""
        context, first = self.context, dict[int, tuple[int, int]]()
        context.verdicts, before = part.verdicts, context.verdicts
        try:
            for number in sorted(numbers):
                path = self.paths[number]
                for line in self._read(path, part.counted, _OF_BROKERS, self._ahead(path)):
                    self._of_broker(line)
                    if len(first) < len(self._nodes):
                        first[next(reversed(self._nodes))] = (number, len(first))
                part.ends[number] = (len(part.verdicts.unexplained), len(part.verdicts.findings))
            for broker, node in self._nodes.items():
                context.verdicts = Verdicts()
                node.finish()
                files = tuple(str(path) for path in node.paths)
                ends = NodeEnds(
                    broker, first[broker], context.verdicts, node.apart.doubt(), files, node.sessions.gaps
                )
                part.nodes.append(ends)
        finally:
            context.verdicts = before

    def join(self, parts: Iterable[NodesPart]) -> None:
        """Put together what came of all files. Raises SharedNode."""
        verdicts = self.context.verdicts
        joined = join(verdicts, parts, self.paths)
        self.counted = joined.counted
        for node in joined.nodes:
            if node.doubt is not None:
                self.doubts.append(node.doubt)
                self.files_off |= set(node.files)
        for name, count in self.counted.others.items():
            if name not in _SKIPPED_NAMES:
                verdicts.outside[f"request {name}"] += count
        gaps = sum(node.gaps for node in joined.nodes)
        if gaps:
            verdicts.guessed["fetch sessions that go on after lines that are missing"] += gaps
        if self.counted.first_cut is not None:
            path, number = self.counted.first_cut
            self.notes.append(
                f"{self.counted.cut} lines of request logs are cut off, the first is {path}:{number}"
            )

    # --- once more ------------------------------------------------------------------------------------

    def again(self, wanted: frozenset[int]) -> Iterator[RequestLine]:
        """The lines once more, those of these kinds, with the clocks' differences taken out. Raises TraceError."""
        for path in self.paths:
            yield from self._read(path, Counted(), wanted, self._ahead(path))

    def name_of(self, key: Key) -> str | None:
        """The name of a partition, None where the metadata log does not have it."""
        history = self.context.spine.history(*key)
        return None if history is None else history.name

    # --- the controller -------------------------------------------------------------------------------

    def controllers(self) -> None:
        """Proposals, registrations and heartbeats; and how far the logs' time is ahead of UTC."""
        asked, verdicts = self.context.asked, self.context.verdicts
        ignored = Counted()
        for path in self.paths:
            for line in self._read(path, ignored, _OF_CONTROLLER):
                if line.api == ALTER_PARTITION:
                    for proposal in read_alter(line):
                        asked.add_proposal(proposal)
                elif line.api == REGISTRATION:
                    asked.add_registration(line, read_registered(line))
                else:
                    verdicts.outside["heartbeat, of which the metadata offset is used"] += 1
                    asked.add_heartbeat(line, read_heartbeat(line))
        self.offset_ms = asked.offset_ms
        self._controllers_ahead = controllers_ahead(asked)
        for path, ms in self._controllers_ahead.items():
            self.notes.append(
                f"{path}: the clock of this log is {ms / 1000:.1f} s ahead of the metadata log's, which is taken out"
            )
        asked.settle(self._ahead)
        if asked.unknown:
            verdicts.outside["AlterPartition of a partition that the metadata log does not have"] += (
                asked.unknown
            )
        for registration in asked.registrations():
            self._registered(registration)
        first, last = NEVER, -NEVER
        for proposal in asked.proposals():
            history = self.context.spine.history(*proposal.key)
            if history is not None:
                proposals.decided(self.context, history, proposal)
            first, last = min(first, proposal.line.arrived), max(last, proposal.line.answered)
        proposals.in_flight(self.context)
        proposals.missing(self.context, first, last)

    def _ahead(self, path: Path) -> float:
        """By how many ms the times in a log are ahead of the metadata log's."""
        return self.offset_ms + self._controllers_ahead.get(path, 0.0)

    def _registered(self, found: Registered) -> None:
        """A registration that was accepted is in the metadata log."""
        verdicts = self.context.verdicts
        if found.error:
            verdicts.outside[f"registration answered with error {found.error}"] += 1
            return
        spine = self.context.spine
        if spine.registered(found.broker, found.broker_epoch) <= found.line.answered + CLOCKS_MS:
            verdicts.explained[REGISTERED] += 1
        else:
            verdicts.not_explained(
                found.line, None, REGISTERED, (),
                {"brokerEpoch": (spine.epochs_of(found.broker), found.broker_epoch)}, b=found.broker,
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
        """The broker that a request came to: by the address, by the port, or by the name of the file."""
        known, listener = self._of_listener, line.listener
        if line.path is not self._in:
            self._in = line.path
            known.clear()
        if listener not in known:
            known[listener] = self._found_broker(listener, line.path)
        return known[listener]

    def _found_broker(self, listener: str, path: Path) -> int | None:
        listeners = self.context.spine.listeners
        if listener in listeners:
            return listeners[listener]
        by_port: dict[str, set[int]] = defaultdict(set)
        for address, broker in listeners.items():
            by_port[address.rpartition(":")[2]].add(broker)
        same = by_port.get(listener.rpartition(":")[2], set())
        if len(same) == 1:
            return next(iter(same))
        named = broker_of(path)
        return named if named in self.context.spine.brokers else None


_SKIPPED_NAMES = frozenset({"ALTER_PARTITION", "BROKER_REGISTRATION", "BROKER_HEARTBEAT"})
"""Read before the brokers' requests, and counted there."""
