"""The state shared by the checks of request logs: verdicts, requests to controllers, clocks, the metadata index."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from msgspec.structs import replace

from highwater.invariants.statements import Statement
from highwater.model.rulebook import RULEBOOK
from highwater.traces.kafka.broker_log import UtcOffset
from highwater.traces.messages.metadata_index import NEVER, MetadataIndex
from highwater.traces.messages.request_lines import Proposal, RequestLine
from highwater.traces.reports.findings import Candidate, Doubt, Finding, Unexplained
from highwater.traces.reports.observed import PartitionChange
from highwater.traces.reports.report import Report

# --- verdicts --------------------------------------------------------------------------------------------

ANSWERED, REFUSED, DIVERGED = "answer_fetch", "refuse_fetch", "answer_fetch where logs diverge"
TAKEN, SENT = "take_fetch_answer", "send_fetch"
WRITTEN, ACKNOWLEDGED, NOT_WRITTEN = "write_acks_all", "acknowledge", "write refused"
PROPOSED, DECIDED = "propose_expand or propose_shrink", "handle_alter_partition"
REGISTERED = "start_broker"


@dataclass
class Verdicts:
    """The verdicts on messages: counts by name here; the report lists what does not conform and what is violated.

    ``explained`` counts what conforms to the model, ``guessed`` what the input cannot confirm, and ``outside`` what is
    not checked. A message can count once for each of its partitions. ``reliable`` counts the report's reliable lines
    and violations by file.
    """

    report: Report
    explained: Counter[str] = field(default_factory=Counter)
    guessed: Counter[str] = field(default_factory=Counter)
    outside: Counter[str] = field(default_factory=Counter)
    reliable: Counter[str] = field(default_factory=Counter)

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
        is_reliable = self.note_reliable(line, partition)
        self.report.add(Unexplained(position, round(line.ended), partition, {}, (candidate,), is_reliable))

    def note_reliable(self, line: RequestLine, partition: str | None) -> bool:
        """Return, and count in ``reliable``, that no gap in the input concerns the partition of a reported line."""
        found = not self.report.is_doubted(partition)
        self.reliable[str(line.path)] += found
        return found

    def figures(self) -> dict[str, int]:
        """The totals of ``explained``, ``guessed`` and ``outside``, and their counts by name, for a report."""
        kinds = (("explained", self.explained), ("guessed", self.guessed), ("outside", self.outside))
        totals = {f"messages {kind}": counted.total() for kind, counted in kinds}
        single = {
            f"messages {kind}: {n}": c for kind, counted in kinds for n, c in sorted(counted.items()) if c
        }
        return totals | single


# --- requests to controllers -----------------------------------------------------------------------------

NEW_LEADER_ELECTED = 108


class ControllerRequests:
    """The requests to controllers. Add them (``add_…``), correct their times (``settle``), then look them up."""

    def __init__(self, index: MetadataIndex) -> None:
        self._index = index
        self._offset = UtcOffset()
        self._apart: dict[Path, list[float]] = defaultdict(list)
        self._proposals: list[tuple[int | None, Proposal]] = []
        self._of_leader: dict[tuple[int, int, int], list[Proposal]] = defaultdict(list)
        self._made: set[tuple[int, int, int]] = set()
        """For each accepted proposal: ``History.number``, the answer's partition epoch, the request's leader epoch."""
        self._led_on: set[tuple[int, int]] = set()
        """For each proposal with the error NEW_LEADER_ELECTED: ``History.number`` and the request's partition epoch."""
        self._registrations: list[RequestLine] = []
        self._heartbeats: list[tuple[int, Path, float, int]] = []
        self._next: dict[tuple[int, Path], float] = {}
        """By broker and request log: the metadata offset of the first change not yet reported as replayed."""
        self._replayed: dict[int, tuple[list[float], list[int]]] = {}
        """For each broker, the times at which it reported a greater metadata offset, and the reported offsets."""
        self.unknown = 0
        """The number of proposals for partitions that the metadata log does not have."""

    # --- what is read -----------------------------------------------------------------------------------

    def add_proposal(self, found: Proposal) -> None:
        """Add the proposal for one partition of an AlterPartition request.

        If the proposal was accepted, its times also measure how far the clock of its log is ahead.
        """
        line, history = found.line, self._index.history(*found.key)
        if history is None:
            self.unknown += 1
        elif not found.error:
            for version in history.with_partition_epoch(found.leader_epoch, found.answer_partition_epoch):
                self._offset.add(round(line.answered), version.time)
                self._apart[line.path].append(line.answered - version.time)
        life = None if history is None else history.number
        self._proposals.append((life, replace(found, line=replace(line, said=None))))

    def add_registration(self, line: RequestLine) -> None:
        """Add a broker's registration request."""
        self._registrations.append(line)

    def add_heartbeat(self, line: RequestLine) -> None:
        """Add a heartbeat, in the order of its log. Heartbeats with an error or no new replayed change are dropped."""
        broker, offset = line.said.request.broker_id, line.said.request.current_metadata_offset
        key = broker, line.path
        if not line.said.response.error_code and offset >= self._next.get(key, -NEVER):
            self._next[key] = self._index.changes_after(offset)
            self._heartbeats.append((broker, line.path, line.arrived, offset))

    # --- clocks -----------------------------------------------------------------------------------------

    @property
    def offset_ms(self) -> int:
        """The lead of the logs' time zone over UTC, in ms; 0 if unknown."""
        return self._offset.offset_ms or 0

    def apart(self) -> Iterator[tuple[Path, int, float]]:
        """For each log with accepted proposals: its path, their number, and its lead over the metadata log in ms.

        The lead is the median of answer time minus change time. It includes the time zone.
        """
        for path, differences in self._apart.items():
            yield path, len(differences), median(differences)

    def settle(self, ahead: Callable[[Path], float]) -> None:
        """Subtract each log's clock lead (``ahead``, in ms) from its times. Look requests up only after this call."""

        def settled(line: RequestLine) -> RequestLine:
            by = ahead(line.path)
            times = {name: getattr(line, name) - by for name in ("arrived", "taken", "answered", "ended")}
            return replace(line, **times)

        self._registrations = [settled(line) for line in self._registrations]
        found = [(life, replace(p, line=settled(p.line))) for life, p in self._proposals]
        self._proposals = sorted(found, key=lambda pair: pair[1].line.arrived)
        for life, p in self._proposals:
            if life is None:
                continue
            self._of_leader[p.broker, life, p.leader_epoch].append(p)
            if not p.error:
                self._made.add((life, p.answer_partition_epoch, p.leader_epoch))
            elif p.error == NEW_LEADER_ELECTED:
                self._led_on.add((life, p.partition_epoch))
        arrived = [(time - ahead(path), broker, offset) for broker, path, time, offset in self._heartbeats]
        for time, broker, offset in sorted(arrived, key=lambda one: one[0]):
            times, offsets = self._replayed.setdefault(broker, ([], []))
            if not offsets or offset > offsets[-1]:
                times.append(time)
                offsets.append(offset)

    # --- lookups ----------------------------------------------------------------------------------------

    def registrations(self) -> list[RequestLine]:
        """All registrations, in the order of the logs."""
        return self._registrations

    def proposals(self) -> list[Proposal]:
        """All proposals for known partitions, in the order of their arrival."""
        return [proposal for life, proposal in self._proposals if life is not None]

    def proposed(self, broker: int, life: int, epoch: int) -> list[Proposal]:
        """A leader's proposals for a partition in a leader epoch, in the order of their arrival.

        ``life`` is the partition's ``History.number``.
        """
        return self._of_leader.get((broker, life, epoch), [])

    def topics(self) -> list[str]:
        """The topics of all proposals, by id or name as in the requests."""
        return sorted({proposal.key[0] for _, proposal in self._proposals})

    def made(self, life: int, version: PartitionChange) -> bool:
        """True if this version of the partition is the result of a logged proposal; ``life`` is its ``History.number``.

        The proposal's answer has the version's partition epoch or, after an election, the error NEW_LEADER_ELECTED.
        """
        epoch, made = version.state.leader_epoch, version.state.partition_epoch
        told = {(life, made, epoch), (life, made, epoch - 1)}
        return not self._made.isdisjoint(told) or (life, made - 1) in self._led_on

    def had_replayed(self, broker: int, position: int, by: float) -> bool:
        """True if, by the time ``by``, a broker had reported that it had replayed the metadata offset ``position``."""
        times, offsets = self._replayed.get(broker, ((), ()))
        place = bisect_right(times, by)
        return place > 0 and offsets[place - 1] >= position

    def knew(self, broker: int, position: int | None) -> float:
        """The time at which a broker first reported that it had replayed the metadata offset ``position``.

        It is NEVER if the broker did not report it, or if ``position`` is None.
        """
        times, offsets = self._replayed.get(broker, ((), ()))
        place = len(offsets) if position is None else bisect_left(offsets, position)
        return times[place] if place < len(times) else NEVER


# --- clocks ----------------------------------------------------------------------------------------------

OWN_MS = 100.0
"""The longest delay between the end of a request and the timestamp of its line, on a busy machine."""
CLOCKS_MS = 250.0
"""The largest accepted difference between two nodes' clocks."""
KIND = "clocks"
"""The ``kind`` of the doubt about a node whose clock is off."""
EARLY, LATE, JOINS = "early", "late", "joins"
OFF_MS = 2 * CLOCKS_MS
MAX_EPOCHS = 10_000
"""The most time differences stored of each kind (EARLY, LATE, JOINS)."""
PAIRS, EPOCHS = 3, 2
"""The fewest accepted proposals that prove a controller's clock wrong; the fewest differences for a broker's clock."""


def controllers_ahead(asked: ControllerRequests) -> dict[Path, float]:
    """The lead over the metadata log, in ms, of each controller's log whose clock is off by more than OFF_MS.

    Logs with fewer than PAIRS accepted proposals are left out.
    """
    middle = {path: ms - asked.offset_ms for path, count, ms in asked.apart() if count >= PAIRS}
    return {path: ms for path, ms in middle.items() if abs(ms) > OFF_MS}


class Apart:
    """The evidence that one broker's clock is wrong: lines that came too early or too late, with the difference."""

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.joins_in_time = 0
        """The number of proposals with a new member that an earlier fetch had made eligible."""
        self._by: dict[str, dict[tuple[int, int], float]] = {EARLY: {}, LATE: {}, JOINS: {}}
        self._first: dict[str, tuple[Path, int]] = {}

    def answer(self, line: RequestLine, history: int, epoch: int, ms: float, early: bool) -> None:
        """Add an answer that came at least ``ms`` too early or too late for the leader epoch ``epoch``.

        ``early``: it came before the epoch began. Otherwise, the broker had already reported a later epoch.
        ``history`` is the partition's ``History.number``.
        """
        self._add(EARLY if early else LATE, (history, epoch), line, ms)

    def join(self, line: RequestLine, ms: float) -> None:
        """Add a proposal that came at least ``ms`` before the first fetch that makes the proposed member eligible."""
        self._add(JOINS, (len(self._by[JOINS]), 0), line, ms)

    def _add(self, kind: str, key: tuple[int, int], line: RequestLine, ms: float) -> None:
        by = self._by[kind]
        if len(by) >= MAX_EPOCHS and key not in by:
            return
        by[key] = max(ms, by.get(key, 0.0))
        self._first.setdefault(kind, (line.path, line.line))

    def doubt(self) -> Doubt | None:
        """The doubt about this broker's clock; None if the evidence is insufficient."""
        enough = [kind for kind, by in self._by.items() if len(by) >= EPOCHS]
        if JOINS in enough and len(self._by[JOINS]) <= self.joins_in_time:
            enough.remove(JOINS)
        if not enough:
            return None
        kind = max(enough, key=lambda kind: len(self._by[kind]))
        seconds, count = median(self._by[kind].values()) / 1000, len(self._by[kind])
        path, number = self._first[kind]
        summary = (
            f"the clock of broker {self.broker} is {_WAYS[kind]} that of the metadata log, by {seconds:.1f} s or more: "
            f"{_WHY[kind].format(count)} ({path}). Violations in its log are unreliable"
        )
        return Doubt(KIND, summary, {"line": number}, ())


_WAYS = {EARLY: "behind", LATE: "ahead of", JOINS: "ahead of"}
_WHY = {
    EARLY: "it answers in {} leader epochs before they begin",
    LATE: "it answers in {} leader epochs after it reported that it knows the next ones",
    JOINS: "{} of its proposals came before the fetches that make the new members eligible",
}


# --- context ---------------------------------------------------------------------------------------------


@dataclass
class Context:
    """The data shared by all checks of request logs: ``asked`` has the requests to controllers."""

    index: MetadataIndex
    report: Report
    verdicts: Verdicts = field(init=False)
    asked: ControllerRequests = field(init=False)
    rules: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.verdicts, self.asked = Verdicts(self.report), ControllerRequests(self.index)
        self.rules = frozenset(self.report.rules)

    def finding(
        self,
        promise: Statement,
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
        said = rule, promise.name, partition, position, round(line.ended), summary, at_risk, kip
        is_reliable = self.verdicts.note_reliable(line, partition)
        self.report.find(Finding(*said, certain, is_reliable, dict(facts or {})))
