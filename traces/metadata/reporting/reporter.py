"""Reporting what was found of partitions: changes, findings, what is not explained, how long conditions lasted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from highwater.traces.metadata.beliefs.automaton import MEASURED
from highwater.traces.metadata.beliefs.belief_states import BeliefState, Transition, with_brokers
from highwater.traces.metadata.beliefs.evidence import Brokers
from highwater.traces.metadata.image.image import Image
from highwater.traces.metadata.image.partitions import Partition
from highwater.traces.metadata.reporting.findings import facts, finding
from highwater.traces.reports.findings import Candidate, Finding, Unexplained
from highwater.traces.reports.observed import FinalState, PartitionChange, PartitionState
from highwater.traces.reports.report import Report
from highwater.traces.reports.settings import SettingInForce
from highwater.traces.rules.agreement import Disagreement

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
