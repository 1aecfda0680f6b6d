"""The state shared by the checks of request logs: verdicts, clocks, requests to controllers, and leaderships.

A leadership is a leader of one partition in one leader epoch, as its request log shows it. Kafka writes a request's
line when the request ends, so the lines of earlier fetches can follow an acknowledgement or a proposal. The checks of
both wait until the node has been active for LINES_MS.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from highwater.invariants import statements
from highwater.invariants.statements import Statement
from highwater.model.rulebook import RULEBOOK
from highwater.traces.kafka.broker_log import UtcOffset
from highwater.traces.messages.metadata_index import NEVER, History, MetadataIndex
from highwater.traces.messages.request_lines import Fetch, Proposal, RequestedPartition, RequestLine
from highwater.traces.reports.findings import Candidate, Doubt, Finding, Unexplained
from highwater.traces.reports.observed import PartitionChange
from highwater.traces.reports.report import Report
from highwater.traces.rules import profiles

# --- verdicts --------------------------------------------------------------------------------------------

SENT, ANSWERED, REFUSED, ACKNOWLEDGED = "send_fetch", "answer_fetch", "refuse_fetch", "acknowledge"
PROPOSED, DECIDED = "propose_expand or propose_shrink", "handle_alter_partition"
REGISTERED = "start_broker"


@dataclass
class Verdicts:
    """The verdicts on messages: counts by name here; the report lists what does not conform and what is violated.

    ``explained`` counts what conforms to the model, ``guessed`` what the input cannot confirm, and ``outside`` what is
    not checked. A message can count once for each of its partitions. ``reported`` counts the report's reliable lines
    and violations.
    """

    report: Report
    explained: Counter[str] = field(default_factory=Counter)
    guessed: Counter[str] = field(default_factory=Counter)
    outside: Counter[str] = field(default_factory=Counter)
    reported: int = 0

    def not_explained(
        self,
        line: RequestLine,
        partition: str | None,
        action: str,
        refused_by: tuple[str, ...] = (),
        differences: Mapping[str, tuple[Any, Any]] | None = None,
        **parameters: object,
    ) -> None:
        """Report a message that no step explains.

        ``action``, with its ``parameters``, is the step that was expected. ``refused_by`` has the guards that refuse
        it; ``differences`` has, by field, the model's value and the logged value.
        """
        candidate = Candidate(action, parameters, refused_by, (), differences or {})
        position = {"file": str(line.path), "line": line.line}
        is_reliable = self.is_reliable(partition)
        self.report.add(Unexplained(position, round(line.ended), partition, {}, (candidate,), is_reliable))

    def is_reliable(self, partition: str | None) -> bool:
        """True, and counted in ``reported``, if no gap in the input concerns the partition of a reported line."""
        found = not self.report.is_doubted(partition)
        self.reported += found
        return found

    def figures(self) -> dict[str, int]:
        """The totals of ``explained``, ``guessed`` and ``outside``, and their counts by name, for a report."""
        kinds = (("explained", self.explained), ("guessed", self.guessed), ("outside", self.outside))
        totals = {f"messages {kind}": counted.total() for kind, counted in kinds}
        single = {
            f"messages {kind}: {n}": c for kind, counted in kinds for n, c in sorted(counted.items()) if c
        }
        return totals | single


# --- clocks ----------------------------------------------------------------------------------------------

OWN_MS = 100.0
"""The longest delay between the end of a request and the timestamp of its line, on a busy machine."""
CLOCKS_MS = 250.0
"""The largest accepted difference between two nodes' clocks."""
OFF_MS = 2 * CLOCKS_MS
"""A clock that differs from the metadata log's by more is off."""
MEASURED = 3
"""The fewest times that measure a log's clock."""
KIND = "clocks"
"""The ``kind`` of the doubt about clocks that are off."""


class Clocks:
    """Measures how far the clock of each log is ahead of the metadata log's.

    The times are those of messages that follow a record of the metadata log immediately: accepted proposals, and the
    first answers in new leader epochs.
    """

    def __init__(self) -> None:
        self._ahead: dict[Path, tuple[float, ...]] = {}
        self._counts: Counter[Path] = Counter()

    def add(self, path: Path, ahead_ms: float) -> None:
        """Add the time of a message in a log, minus the time of the record that the message follows."""
        self._counts[path] += 1
        self._ahead[path] = tuple(sorted((*self._ahead.get(path, ()), ahead_ms))[:2])

    def doubt(self) -> Doubt | None:
        """The doubt about the clocks that are off; None if there are none.

        The second smallest difference counts: messages can be late, and one message can be wrong.
        """
        off = {path: least[-1] for path, least in self._ahead.items() if self._counts[path] >= MEASURED}
        found = [f"{path} by {ms / 1000:+.1f} s" for path, ms in sorted(off.items()) if abs(ms) > OFF_MS]
        if not found:
            return None
        summary = (
            f"clocks differ from the metadata log's: {', '.join(found)}. "
            "Results for lines of request logs are unreliable"
        )
        return Doubt(KIND, summary, {}, ())


# --- requests to controllers -----------------------------------------------------------------------------


class ControllerRequests:
    """The requests to controllers. Add them (``add_…``), remove their time zone (``finish``), then look them up."""

    def __init__(self, index: MetadataIndex, clocks: Clocks) -> None:
        self._index, self._clocks = index, clocks
        self._offset = UtcOffset()
        self._accepted: list[tuple[Path, float]] = []
        """For each accepted proposal, its log, and the time of its answer minus that of the change."""
        self.proposals: list[tuple[History, Proposal]] = []
        """All proposals with the histories of their partitions; after ``finish`` in the order of their arrival."""
        self._of_leader: dict[tuple[int, int, int], list[Proposal]] = defaultdict(list)
        self._heartbeats: list[tuple[float, int, int]] = []
        self._replayed: dict[int, tuple[list[float], list[int]]] = {}
        """For each broker, the times at which it reported a greater metadata offset, and the reported offsets."""
        self.registrations: list[RequestLine] = []
        """All registrations, in the order of the logs."""

    def add_proposal(self, found: Proposal) -> bool:
        """Add the proposal for one partition of an AlterPartition request.

        Returns False, and adds nothing, if the metadata log does not have the partition.
        """
        line, history = found.line, self._index.history(*found.key)
        if history is None:
            return False
        if not found.error:
            for version in history.with_partition_epoch(found.leader_epoch, found.answer_partition_epoch)[:1]:
                self._offset.add(round(line.answered), version.time)
                self._accepted.append((line.path, line.answered - version.time))
        self.proposals.append((history, replace(found, line=replace(line, exchange=None))))
        return True

    def add_heartbeat(self, line: RequestLine) -> None:
        """Add a heartbeat. One with an error is dropped."""
        request = line.exchange.request
        if not line.exchange.response.error_code:
            self._heartbeats.append((line.arrived, request.broker_id, request.current_metadata_offset))

    @property
    def offset_ms(self) -> int:
        """The lead of the logs' time zone over UTC, in ms; 0 if unknown."""
        return self._offset.offset_ms or 0

    def finish(self) -> None:
        """Subtract the time zone from all times. Look requests up only after this call."""
        by = self.offset_ms
        for path, ahead_ms in self._accepted:
            self._clocks.add(path, ahead_ms - by)
        self.registrations = [line.earlier(by) for line in self.registrations]
        found = [(history, replace(p, line=p.line.earlier(by))) for history, p in self.proposals]
        self.proposals = sorted(found, key=lambda pair: pair[1].line.arrived)
        for history, proposal in self.proposals:
            self._of_leader[proposal.broker, history.number, proposal.leader_epoch].append(proposal)
        for time, broker, offset in sorted(self._heartbeats):
            times, offsets = self._replayed.setdefault(broker, ([], []))
            if not offsets or offset > offsets[-1]:
                times.append(time - by)
                offsets.append(offset)
        self._heartbeats.clear()

    def proposed(self, broker: int, history: History, epoch: int) -> list[Proposal]:
        """A leader's proposals for a partition in a leader epoch, in the order of their arrival."""
        return self._of_leader.get((broker, history.number, epoch), [])

    def had_replayed(self, broker: int, position: int, by: float) -> bool:
        """True if, by the time ``by``, a broker had reported that it had replayed the metadata offset ``position``."""
        times, offsets = self._replayed.get(broker, ((), ()))
        place = bisect_right(times, by)
        return place > 0 and offsets[place - 1] >= position


# --- context ---------------------------------------------------------------------------------------------


@dataclass
class Context:
    """The data shared by all checks of request logs: ``to_controllers`` has the requests to controllers."""

    index: MetadataIndex
    report: Report
    verdicts: Verdicts = field(init=False)
    clocks: Clocks = field(default_factory=Clocks)
    to_controllers: ControllerRequests = field(init=False)
    rules: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.verdicts, self.to_controllers = (
            Verdicts(self.report),
            ControllerRequests(self.index, self.clocks),
        )
        self.rules = frozenset(self.report.rules)

    def finding(
        self,
        violated: Statement,
        rule: str,
        line: RequestLine,
        partition: str,
        summary: str,
        at_risk: str = "",
        certain: bool = True,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Report the violation of a property by a message."""
        position = {"file": str(line.path), "line": line.line}
        kip = RULEBOOK.origin(rule)
        known = rule, violated.name, partition, position, round(line.ended), summary, at_risk, kip
        is_reliable = self.verdicts.is_reliable(partition)
        self.report.find(Finding(*known, certain, is_reliable, dict(facts or {})))


LINES_MS = 3000.0
"""After this much active time of a node, the lines of all requests that were in flight have been written."""
INCARNATIONS = 8
"""The most broker epochs of a follower that are stored."""
RETURNED = 1024
"""The most returned HWMs that are stored."""


@dataclass(slots=True)
class Follower:
    """A follower, by its fetches in the leader epoch."""

    offset: int
    """The greatest fetch offset: the leader knows that the follower holds the records below it."""
    epochs: list[tuple[float, int]] = field(default_factory=list)
    """The latest broker epochs of the fetches, each with the time of the first fetch that had it."""
    eligible: float = NEVER
    """The time of the first fetch that made the follower eligible for the ISR (B5)."""
    lagging: tuple[int, int, int] | None = None
    """The last fetch before it: the fetch offset, and lower bounds of the HWM and of the epoch's start offset."""


@dataclass(slots=True)
class Acknowledged:
    """An acknowledged write (acks=all) that more ISR members must hold than the lines read so far show."""

    line: RequestLine
    offset: int
    since: float
    """How long the node had been active at the line, in ms."""
    holders: set[int]
    """The followers that had fetched past the offset when the leader acknowledged it."""


@dataclass(slots=True)
class Leadership:
    """A broker's leadership of a partition in one leader epoch."""

    broker: int
    history: History
    epoch: int
    versions: list[PartitionChange]
    """The versions of the partition in the leader epoch, in log order."""
    is_whole: bool
    """True if the broker's request log covers the start of the leader epoch."""
    proposals: deque[Proposal]
    """The leader's proposals that its log has not reached yet, in the order of their arrival."""
    reached: deque[tuple[float, Proposal]] = field(default_factory=deque)
    """The proposals that wait for lines, each with how long the node had been active when its log reached it, in ms."""
    acknowledged: list[Acknowledged] = field(default_factory=list)
    followers: dict[int, Follower] = field(default_factory=dict)
    returned: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=RETURNED))
    """Ascending HWMs in answers, each with the time of the answer."""
    leso: int = 0
    """A lower bound of the start offset of the leader epoch."""
    last_answered: float = 0.0

    @property
    def name(self) -> str:
        """The name of the partition."""
        return self.history.name

    def had_answered(self, by: float) -> bool:
        """True if the broker had certainly acted as leader in this epoch before the time ``by``."""
        return 0 < self.last_answered <= by - OWN_MS

    def views(self, context: Context, start: float, end: float) -> Iterator[PartitionChange]:
        """The versions that the leader can have known between two times of its clock, the latest first."""
        for version in reversed(self.versions):
            if version.time <= end + CLOCKS_MS:
                yield version
                if context.to_controllers.had_replayed(self.broker, version.position, start - CLOCKS_MS):
                    return

    # --- fetches --------------------------------------------------------------------------------------

    def fetched(self, fetch: Fetch, requested: RequestedPartition) -> None:
        """Record a fetch that the leader used."""
        taken, offset = fetch.line.taken, requested.offset
        if requested.last_epoch < self.epoch:
            self.leso = max(self.leso, offset)
        known = self.holds(fetch.replica, offset, taken)
        if fetch.epoch >= 0 and (not known.epochs or known.epochs[-1][1] != fetch.epoch):
            known.epochs.append((taken, fetch.epoch))
            del known.epochs[:-INCARNATIONS]
        if taken < known.eligible:
            hwm = self._returned_by(taken - OWN_MS)
            if profiles.isr_joined_caught_up(leo=offset, hwm=hwm, epoch_start=self.leso):
                known.eligible = taken
            elif known.eligible == NEVER:
                known.lagging = offset, hwm, self.leso

    def holds(self, follower: int, offset: int, taken: float) -> Follower:
        """Record that a follower held the records below an offset when the leader read its fetch, and return it."""
        known = self.followers.get(follower)
        if known is None:
            known = self.followers[follower] = Follower(offset)
        known.offset = max(known.offset, offset)
        for one in self.acknowledged:
            if offset > one.offset and taken <= one.line.answered + OWN_MS:
                one.holders.add(follower)
        return known

    def answered(self, line: RequestLine, hwm: int) -> None:
        """Record the HWM in an answer to a fetch."""
        self.last_answered = max(self.last_answered, line.answered)
        if not self.returned or hwm > self.returned[-1][1]:
            self.returned.append((max(line.answered, self.returned[-1][0] if self.returned else 0.0), hwm))

    def _returned_by(self, time: float) -> int:
        """The greatest HWM that the leader had returned by a time: a lower bound of its HWM."""
        place = bisect_right(self.returned, (time, NEVER))
        return self.returned[place - 1][1] if place else 0

    # --- acknowledgements -----------------------------------------------------------------------------

    def acknowledge(self, context: Context, line: RequestLine, offset: int, active: float) -> None:
        """Check the acknowledgement of a write with acks=all, or store it until more lines are read (B6)."""
        holders = {f for f, known in self.followers.items() if known.offset > offset}
        self.acknowledged.append(Acknowledged(line, offset, active, holders))
        self.last_answered = max(self.last_answered, line.answered)
        self.judge_acknowledged(context, active)

    def judge_acknowledged(self, context: Context, active: float, ends: bool = False) -> None:
        """Check the stored acknowledgements, and report those that more lines cannot justify.

        ``ends``: the log or the process of the leader ends. Requests in flight may have no line, so an acknowledgement
        that still lacks lines counts as guessed.
        """
        waiting, verdicts = [], context.verdicts
        for one in self.acknowledged:
            if any(self._allows(version, one) for version in self._known_at(context, one)):
                verdicts.explained[ACKNOWLEDGED] += 1
            elif one.since + LINES_MS >= active and not ends:
                waiting.append(one)
            elif one.since + LINES_MS >= active:
                verdicts.guessed["a fetch that was under way where the log ends"] += 1
            elif one.offset < self.leso:
                verdicts.guessed["that an earlier leader appended what is acknowledged"] += 1
            else:
                self._too_early(context, one)
        self.acknowledged = waiting

    def _known_at(self, context: Context, one: Acknowledged) -> Iterator[PartitionChange]:
        return self.views(context, one.line.taken, one.line.answered)

    def _allows(self, version: PartitionChange, one: Acknowledged) -> bool:
        """True if the ISR of a version, with enough members, held the record."""
        members, held = self._members(version, one)
        hwm = one.offset + (held == members)
        return profiles.acknowledged_has_copies(
            hwm=hwm, offset=one.offset, copies=len(held), min_isr=version.min_isr or 1
        )

    def _members(self, version: PartitionChange, one: Acknowledged) -> tuple[set[int], set[int]]:
        """The members of the ISR of a version, and those of them that can have held the record."""
        members = set(version.state.isr) | {self.broker}
        held = {f for f in members if f in one.holders or not (self.is_whole or f in self.followers)}
        return members, held | {self.broker}

    def _too_early(self, context: Context, one: Acknowledged) -> None:
        version = next(self._known_at(context, one), self.versions[0])
        members, held = self._members(version, one)
        missing = f"broker {', '.join(map(str, sorted(members - held)))} had not fetched it"
        why = missing if members > held else f"min ISR is {version.min_isr}"
        context.finding(
            statements.acknowledged_has_copies, "B6", one.line, self.name,
            f"leader {self.broker} acknowledged offset {one.offset} in leader epoch {self.epoch}, and "
            f"{len(held)} of the {len(members)} members of its ISR had it: {why}",
            f"offset {one.offset} is on fewer replicas than an election relies on",
            facts={"leader_epoch": self.epoch, "offset": one.offset, "copies": len(held), "min_isr": version.min_isr},
        )  # fmt: skip
