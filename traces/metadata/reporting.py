"""What is reported of a metadata log: lines, findings, doubts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from highwater.model.language.protocol import Invariant
from highwater.model.rulebook import RULEBOOK
from highwater.traces.metadata.beliefs.automaton import MEASURED
from highwater.traces.metadata.beliefs.belief_states import BeliefState, Transition, with_brokers
from highwater.traces.metadata.beliefs.evidence import PROPERTIES, Brokers
from highwater.traces.metadata.image import Image, Partition
from highwater.traces.reports.findings import LIMIT, Candidate, Doubt, Finding, Unexplained
from highwater.traces.reports.observed import (
    MIN_ISR,
    UNCLEAN,
    FinalState,
    PartitionChange,
    PartitionState,
    SettingInForce,
)
from highwater.traces.reports.report import Report
from highwater.traces.rules.profiles import Disagreement

# What of a metadata log is not known, from where on, and about which partitions.

OTHERS = "others of the kind"
"""The summary of what is beyond the limit of doubts that are told apart."""


@dataclass
class _Doubt:
    """``since`` is from where on all partitions are concerned, None: those in ``partitions``, each from there on."""

    offset: int
    since: int | None = None
    partitions: dict[str, int] = field(default_factory=dict)


class Doubts:
    """Collected while a log is followed. Doubts of one kind with one summary count as one."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], _Doubt] = {}
        self._since: int | None = None
        self._partitions: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(
        self,
        kind: str,
        summary: str,
        offset: int,
        partitions: Iterable[str] | None = None,
        since: int | None = None,
    ) -> None:
        """Something at an offset is not known; ``partitions`` are concerned from ``since`` on (None: the offset)."""
        if (kind, summary) not in self._found and len(self._found) >= LIMIT:
            summary = OTHERS
        doubt = self._found.setdefault((kind, summary), _Doubt(offset))
        doubt.offset = min(doubt.offset, offset)
        begin = offset if since is None else since
        if partitions is None:
            doubt.since = begin if doubt.since is None else min(doubt.since, begin)
            self._since = begin if self._since is None else min(self._since, begin)
            return
        for name in partitions:
            for known in (doubt.partitions, self._partitions):
                known[name] = min(known.get(name, begin), begin)

    def is_reliable(self, offset: int, partition: str | None) -> bool:
        """Whether what is reported of a partition at an offset does not depend on what is not known."""
        if self._since is not None and offset >= self._since:
            return False
        since = None if partition is None else self._partitions.get(partition)
        return since is None or offset < since

    def listed(self) -> list[Doubt]:
        """All of them, in the order of their first places."""
        found = [
            Doubt(
                kind,
                summary,
                {"offset": doubt.offset},
                None if doubt.since is not None else tuple(sorted(doubt.partitions)),
            )
            for (kind, summary), doubt in self._found.items()
        ]
        return sorted(found, key=lambda d: (d.position["offset"], d.kind, d.summary))

    def merge(self, other: Doubts) -> None:
        """Take over those of another share."""
        for (kind, summary), theirs in other._found.items():
            self.add(kind, summary, theirs.offset, None if theirs.since is not None else (), theirs.since)
            for name, since in theirs.partitions.items():
                self.add(kind, summary, theirs.offset, (name,), since)

    def to_json(self) -> list[Any]:
        """As JSON, for another process."""
        return [
            [kind, summary, d.offset, d.since, d.partitions] for (kind, summary), d in self._found.items()
        ]

    @classmethod
    def from_json(cls, data: Iterable[tuple[str, str, int, int | None, Mapping[str, int]]]) -> Doubts:
        """The same again."""
        found = cls()
        for kind, summary, offset, since, partitions in data:
            other = cls()
            other._found[kind, summary] = _Doubt(offset, since, dict(partitions))
            found.merge(other)
        return found


# Findings in words: which promise is not kept, of which partition, and what is at risk.

BY_NAME: dict[str, Invariant] = {p.name: p for p in PROPERTIES}

_LOSS = "acknowledged records: a leader that lacks them makes the others truncate them"
_STANDSTILL = "availability: nobody writes or reads until somebody else is elected"
_AT_RISK = {
    "isr_within_replicas": "acknowledged records: a member that is no replica is counted as a copy and holds none",
    "leader_in_isr": "acknowledged records: what the leader alone holds is not counted",
    "leader_is_active": _STANDSTILL,
    "isr_members_are_eligible": "progress: the HWM waits for a member that does not fetch",
    "isr_and_elr_are_disjoint": "acknowledged records: a copy is counted twice",
    "elr_only_under_min_isr": _LOSS + "; an ELR member lacks what is committed while it is not waited for",
    "elr_within_replicas": _LOSS
    + "; a broker that is no replica any more deletes its log and can be elected",
    "electable_completeness": _LOSS + ", once such a member is elected",
    "enough_are_electable": "acknowledged records: fewer brokers hold them than min ISR, so fewer "
    "losses than promised can be borne",
    "last_known_elr_is_not_electable": "nothing by itself; an unclean recovery asks brokers that it need not ask",
    "last_known_leader_only_without_leader": "nothing by itself; the next election without ISR goes by it",
    "last_known_leader_is_a_broker": _STANDSTILL + "; the last known leader cannot be elected",
    "reassignment_within_replicas": "the reassignment: it cannot complete",
    "leader_epoch_behind_partition_epoch": "fencing: brokers tell old states from new ones by these epochs",
    "recovering_leader_is_alone": "acknowledged records, until the leader has recovered",
    "leader_elected_cleanly": _LOSS,
    "leader_completeness": _LOSS,
    "every_broker_comes_back": "availability: at its registration the controller resigns, and so does the next",
    "somebody_is_electable": _STANDSTILL + "; then, by an unclean election, acknowledged records",
}


def facts(
    image: Image, partition: Partition, before: PartitionState, after: PartitionState, cause: str | None
) -> dict[str, Any]:
    """The facts around a change after which a property does not hold: see docs/replay-reference.md."""
    assert partition.topic is not None
    min_isr, unclean = image.effective(partition, len(after.replicas))
    in_force = {name: image.in_force(partition.topic, name) for name in (MIN_ISR, UNCLEAN)}
    return {
        "cause": cause,
        "before": _members(before),
        "after": _members(after),
        "leader_epoch": after.leader_epoch,
        "min_isr": min_isr,
        "unclean_election": unclean,
        "settings": {name: change.to_json() for name, change in in_force.items() if change is not None},
        "resized": None if partition.resized is None else partition.resized.to_json(),
    }


def _members(state: PartitionState) -> dict[str, Any]:
    return {
        "replicas": list(state.replicas),
        "leader": state.leader,
        "isr": list(state.isr),
        "elr": list(state.elr),
        "last_known_elr": list(state.last_known_elr),
    }


def finding(
    name: str,
    certain: bool,
    partition: str,
    state: PartitionState,
    offset: int,
    time: int,
    around: Mapping[str, Any],
) -> Finding:
    """The finding of a property that does not hold any more; ``around`` are the facts around it."""
    known = BY_NAME[name]
    promise = " ".join((known.function.__doc__ or "").split("\n")[0].split())
    seen = "Observed" if certain else "It may be broken, the log alone does not say"
    leader = "none" if state.leader is None else str(state.leader)
    elr = f", ELR {list(state.elr)}" if state.elr else ""
    known_elr = f", last known {list(state.last_known_elr)}" if state.last_known_elr else ""
    return Finding(
        known.source,
        name,
        partition,
        {"offset": offset},
        time,
        f"Promised: {promise} {seen}: replicas {list(state.replicas)}, leader {leader}, "
        f"ISR {list(state.isr)}{elr}{known_elr}",
        _AT_RISK.get(name, ""),
        RULEBOOK.origin(known.source),
        certain,
        facts=around,
    )


# Reporting what was found of partitions: changes, findings, what is not explained, how long conditions
# lasted.

OnChange = Callable[[PartitionChange], None]
ReportLine = tuple[tuple[int, str, bool, bool], Unexplained | Finding]
"""A line behind its place: offset, partition ("" for none), whether it is something else than a disagreement
about rules, and whether it is of one share's partitions."""


def every_partition(name: str) -> bool:
    """Whether a partition is watched, where all are."""
    return True


@dataclass(frozen=True)
class Watch:
    """What is told while a log is followed, beside its report, of the partitions that ``tracks`` accepts by name.

    ``on_change`` is called with each change; ``on_setting`` with the topic whose settings changed, None for all, and
    ``on_setting_in_force`` with a partition's name and what a setting then is for it.
    """

    tracks: Callable[[str], bool] = lambda name: False
    on_change: OnChange | None = None
    on_setting: Callable[[str | None], None] | None = None
    on_setting_in_force: Callable[[str, SettingInForce], None] | None = None


NOBODY = Watch()


class Reporter:
    """Writes into a report, and tells who watches.

    What is not explained, and findings, are kept until ``drain``. ``has_lines`` says that there are some.
    """

    def __init__(self, report: Report, image: Image, watch: Watch) -> None:
        self.report, self._image, self._watch = report, image, watch
        self.has_lines = False
        self.skipped_of_partitions: dict[str, int] = {}
        """Records that were not followed, of single partitions."""
        self._lines: list[ReportLine] = []

    def drain(self) -> list[ReportLine]:
        """The lines since the last time, in the order of offsets and partitions."""
        found, self._lines, self.has_lines = self._lines, [], False
        found.sort(key=_place)
        return found

    def _keep(self, line: Unexplained | Finding, offset: int, own: bool, other: bool = True) -> None:
        self._lines.append(((offset, line.partition or "", other, own), line))
        self.has_lines = True

    def skipped(self, what: str, number: int = 1) -> None:
        """Count records that are not followed."""
        if number:
            self.report.skipped[what] = self.report.skipped.get(what, 0) + number

    def skipped_of_partition(self, what: str) -> None:
        """Count a record of a partition that is not followed."""
        self.skipped_of_partitions[what] = self.skipped_of_partitions.get(what, 0) + 1

    def unexplained(
        self,
        offset: int,
        time: int | None,
        partition: str | None,
        candidates: Sequence[Candidate],
        before: Sequence[Mapping[str, Any]] = (),
        common: bool = False,
    ) -> None:
        """Report something that nothing explains; ``common`` where it is of no partition in particular."""
        states = {"states": list(before)}
        self._keep(
            Unexplained({"offset": offset}, time, partition, states, tuple(candidates)), offset, not common
        )

    def disagreement(self, found: Disagreement) -> None:
        """Report that no set of rules explains all partitions."""
        self._keep(disagreement(found), found.at.offset, True, False)

    def wrong(
        self,
        offset: int,
        time: int | None,
        partition: str | None,
        what: str,
        differences: Mapping[str, tuple[Any, Any]] | None = None,
        common: bool = False,
        **parameters: Any,
    ) -> None:
        """Report a record that only one thing could explain, which differs from it."""
        candidate = Candidate(what, parameters, (), (), differences or {})
        self.unexplained(offset, time, partition, (candidate,), (), common)

    def transition(
        self,
        partition: Partition,
        transition: Transition,
        brokers: Brokers,
        offsets: Sequence[int],
        time: int,
        before: tuple[BeliefState, Brokers],
    ) -> None:
        """Report a transition that a partition has made, by its spans; ``brokers`` are those of the spans' slots.

        ``before`` is the belief state before it, with the brokers of its slots.
        """
        leader_epoch = partition.leader_epoch - transition.bumps
        partition_epoch = partition.partition_epoch - transition.changes
        for place, span in enumerate(transition.spans):
            partition_epoch += span.changes
            leader_epoch += span.bumps
            if partition.resized is not None and len(span.belief.observed.isr) >= partition.resized.before:
                partition.resized = None
            is_asked_for = partition.state is not None and span.changes > 0
            if span.candidates is None and not span.findings and not is_asked_for:
                continue
            offset = offsets[span.last]
            state = replace(
                with_brokers(span.belief.observed, tuple([brokers[slot] for slot in span.order])),
                leader_epoch=leader_epoch,
                partition_epoch=partition_epoch,
            )
            if span.candidates is not None:
                name_or_none = partition.name or None
                common = partition.topic is None
                self.unexplained(offset, time, name_or_none, span.candidates, span.before, common)
            if span.findings and partition.topic is not None:
                earlier = _earlier(transition, place, brokers, before)
                known = facts(self._image, partition, earlier, state, span.cause)
                for name, certain in span.findings:
                    found = finding(name, certain, partition.name, state, offset, time, known)
                    self._keep(found, offset, True)
            if is_asked_for:
                former, partition.state = partition.state, state
                self.change(partition, offset, time, former, state, span.cause)

    def change(
        self,
        partition: Partition,
        offset: int,
        time: int,
        before: PartitionState | None,
        after: PartitionState | None,
        cause: str | None,
    ) -> None:
        """Report one change."""
        if self._watch.on_change is None or partition.topic is None:
            return
        min_isr, unclean = None, None
        if after is not None:
            min_isr, unclean = self._image.effective(partition, len(after.replicas))
        name, number = partition.topic.name, partition.number
        self._watch.on_change(
            PartitionChange(offset, time, name, number, before, after, cause, min_isr, unclean)
        )

    def setting(self, partition: Partition, setting: SettingInForce) -> None:
        """Report a setting that changed for a partition."""
        if self._watch.on_setting_in_force is not None:
            self._watch.on_setting_in_force(partition.name, setting)

    def conditions(self, partition: Partition, belief: BeliefState, time: int) -> None:
        """Note since when a partition is under min ISR, or without a leader; or for how long it was."""
        if partition.topic is None:
            return
        if belief.under_min_isr != (partition.under_min_isr_since is not None):
            self._measured("under min ISR", partition.under_min_isr_since, time)
            partition.under_min_isr_since = time if belief.under_min_isr else None
        if belief.leaderless != (partition.leaderless_since is not None):
            self._measured("without a leader", partition.leaderless_since, time)
            partition.leaderless_since = time if belief.leaderless else None

    def ends(self, partition: Partition, time: int) -> None:
        """The log ends while there is this partition."""
        self.close(partition, time)
        failing = (partition.belief.violated | partition.belief.doubtful) - MEASURED
        if failing or partition.leaderless_since is not None:
            since, name = partition.leaderless_since, partition.name
            self.report.final[name] = FinalState.of(name, partition.observed, since, failing)

    def close(self, partition: Partition, time: int) -> None:
        """The last that is seen of a partition."""
        self._measured("under min ISR", partition.under_min_isr_since, time)
        self._measured("without a leader", partition.leaderless_since, time)

    def _measured(self, condition: str, since: int | None, time: int) -> None:
        if since is None:
            return
        figures, length = self.report.figures, max(0, time - since)
        figures[f"times {condition}"] = figures.get(f"times {condition}", 0) + 1
        figures[f"ms {condition}"] = figures.get(f"ms {condition}", 0) + length
        figures[f"longest ms {condition}"] = max(figures.get(f"longest ms {condition}", 0), length)


def _earlier(
    transition: Transition, place: int, brokers: Brokers, before: tuple[BeliefState, Brokers]
) -> PartitionState:
    """The partition before a span of a transition, but for its epochs."""
    if not place:
        return with_brokers(before[0].observed, before[1])
    span = transition.spans[place - 1]
    return with_brokers(span.belief.observed, tuple([brokers[slot] for slot in span.order]))


def disagreement(found: Disagreement) -> Unexplained:
    """That no set of rules explains all partitions."""
    at, profiles = found.at, {"profile": (found.others, found.this)}
    candidate = Candidate("one set of rules for all partitions", {}, (), (), profiles)
    return Unexplained({"offset": at.offset}, at.time, at.partition or None, {"states": []}, (candidate,))


def _place(line: ReportLine) -> tuple[int, str, bool, bool]:
    return line[0]
