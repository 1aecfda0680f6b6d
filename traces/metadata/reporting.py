"""The nonconforming records, findings and doubts of a metadata log, for its report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from highwater.model.language.protocol import Invariant
from highwater.model.rulebook import RULEBOOK
from highwater.traces.metadata.beliefs.automaton import MEASURED
from highwater.traces.metadata.beliefs.belief_states import BeliefState, Transition, with_brokers
from highwater.traces.metadata.beliefs.controller_stepper import PROPERTIES
from highwater.traces.metadata.beliefs.evidence import Brokers
from highwater.traces.metadata.image import Image, Partition
from highwater.traces.reports.findings import DOUBTS, LIMIT, Candidate, Doubt, Finding, Unexplained
from highwater.traces.reports.observed import (
    MIN_ISR,
    UNCLEAN,
    FinalState,
    Followers,
    PartitionChange,
    PartitionState,
    SettingInForce,
)
from highwater.traces.reports.report import Report

Line = Unexplained | Finding

# --- doubts -----------------------------------------------------------------------------------------------

_UNREAD = ("unknown record", "unreadable version")
_NEWER = ("newer version", *_UNREAD)
_OF_OTHERS = frozenset({
    "leader_is_active", "isr_members_are_eligible", "elr_only_under_min_isr", "enough_are_electable",
    "last_known_elr_only_under_min_isr",
})  # fmt: skip
"""The properties of partitions that depend on brokers' registrations or on settings."""
OTHERS = "others of the kind"
"""The summary of all doubts of a kind beyond ``LIMIT``."""


@dataclass
class _Doubt:
    """The offsets and partitions that a doubt concerns; ``offset`` is its first offset.

    It concerns all partitions from the offset ``since`` on (None: never), and each one in ``partitions`` from the
    partition's own offset on.
    """

    offset: int
    since: int | None = None
    partitions: dict[str, int] = field(default_factory=dict)

    def concerns(self, offset: int, partition: str | None) -> bool:
        """True if the doubt affects a report line at ``offset`` about ``partition`` (None: about no single one)."""
        if self.since is not None and offset >= self.since:
            return True
        return partition in self.partitions and offset >= self.partitions[partition]


class Doubts:
    """Unknown facts of a log, each from an offset on. Doubts of one kind with one summary count as one."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], _Doubt] = {}

    def __len__(self) -> int:
        return len(self._found)

    def add(
        self,
        kind: str,
        summary: str,
        offset: int,
        partitions: Iterable[str] | None = None,
        since: int | None = None,
    ) -> None:
        """Add a doubt about a fact that is unknown from ``offset`` on.

        The doubt concerns reports about ``partitions`` (None: all) from the offset ``since`` on (None: from
        ``offset`` on). If there are ``LIMIT`` doubts already, a new one gets the summary ``OTHERS``.
        """
        if (kind, summary) not in self._found and len(self._found) >= LIMIT:
            summary = OTHERS
        doubt = self._found.setdefault((kind, summary), _Doubt(offset))
        doubt.offset = min(doubt.offset, offset)
        begin = offset if since is None else since
        if partitions is None:
            doubt.since = begin if doubt.since is None else min(doubt.since, begin)
            return
        for name in partitions:
            doubt.partitions[name] = min(doubt.partitions.get(name, begin), begin)

    def concern(self, offset: int, partition: str | None, kinds: Collection[str] = DOUBTS) -> bool:
        """True if a doubt of these kinds affects a report line at ``offset`` about ``partition``.

        ``partition`` is None if the line is about no single one.
        """
        return any(
            doubt.concerns(offset, partition) for (kind, _), doubt in self._found.items() if kind in kinds
        )

    def marked(self, line: Line) -> Line | None:
        """The line, marked as not reliable if a doubt affects it.

        None if what the doubt is about can make the line wrong: a newer Kafka can decide otherwise, and a record that
        was not read can have changed a broker or a setting.
        """
        place = line.position["offset"], line.partition
        if self.concern(*place, _NEWER if isinstance(line, Unexplained) else _UNREAD) and (
            isinstance(line, Unexplained) or line.property in _OF_OTHERS
        ):
            return None
        return replace(line, reliable=False) if self.concern(*place) else line

    def listed(self) -> list[Doubt]:
        """All doubts in the order of their first offsets."""
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


# --- findings in words ------------------------------------------------------------------------------------

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
    "last_known_elr_only_under_min_isr": "nothing by itself; an unclean recovery asks brokers that it need not ask",
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
    """The facts around a change after which a property does not hold (docs/replay-reference.md)."""
    assert partition.topic is not None
    min_isr, unclean = image.effective(partition, len(after.replicas))
    in_force = {name: image.in_force(partition.topic, name) for name in (MIN_ISR, UNCLEAN)}
    return {
        "topic_id": partition.topic_id,
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
    """The finding for a property that stopped holding at ``offset``, or possibly stopped if not ``certain``.

    ``around`` are the ``facts`` around the change.
    """
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


# --- reporting --------------------------------------------------------------------------------------------

OnChange = Callable[[PartitionChange], None]
OnSetting = Callable[[str, SettingInForce], None]
OnRecord = Callable[[int, int, str, Mapping[str, Any]], None]
ReportLine = tuple[tuple[int, str], Line]
"""The sort key of a line, its offset and its partition ("" for none), and the line."""


@dataclass(frozen=True)
class Watch:
    """Callbacks while a log is followed.

    - ``on_change``: get each change of a topic's partition.
    - ``on_setting``: get the name of a partition, and a setting that changed for it.
    - ``on_record``: get each handled record that is no change of a partition: offset (-1 in a snapshot), time, type and
      data.
    - ``only``: the names of the partitions whose changes are reported; None for all.
    """

    on_change: Sequence[OnChange] = ()
    on_setting: Sequence[OnSetting] = ()
    on_record: Sequence[OnRecord] = ()
    only: Collection[str] | None = None


NOBODY = Watch()


class Reporter:
    """Adds counts to a report, calls a watch, and queues lines until ``drain``; ``has_lines``: the queue has some."""

    def __init__(self, report: Report, image: Image, watch: Watch) -> None:
        self.report, self._image, self._watch = report, image, watch
        self.has_lines = False
        self._lines: list[ReportLine] = []
        self._named: set[str | None] = set()
        """The partitions that lines name."""

    def drain(self) -> list[Line]:
        """Remove and return the waiting lines, in the order of offsets and partitions."""
        found, self._lines, self.has_lines = self._lines, [], False
        found.sort(key=lambda line: line[0])
        return [line for _, line in found]

    def _keep(self, line: Line) -> None:
        self._named.add(line.partition)
        self._lines.append(((line.position["offset"], line.partition or ""), line))
        self.has_lines = True

    def skipped(self, what: str, number: int = 1) -> None:
        """Count, in the report, ``number`` records of the kind ``what`` that replay does not follow."""
        if number:
            self.report.skipped[what] = self.report.skipped.get(what, 0) + number

    def unexplained(
        self,
        offset: int,
        time: int | None,
        partition: str | None,
        candidates: Sequence[Candidate],
        before: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Queue a line about a record that nothing explains."""
        states = {"states": list(before)}
        self._keep(Unexplained({"offset": offset}, time, partition, states, tuple(candidates)))

    def wrong(
        self,
        offset: int,
        time: int | None,
        partition: str | None,
        what: str,
        differences: Mapping[str, tuple[Any, Any]] | None = None,
        **parameters: Any,
    ) -> None:
        """Queue a line about a record that only the action ``what`` with ``parameters`` could explain, but does not.

        ``differences`` has, by field, the expected and the recorded value.
        """
        candidate = Candidate(what, parameters, (), (), differences or {})
        self.unexplained(offset, time, partition, (candidate,))

    def transition(
        self,
        partition: Partition,
        transition: Transition,
        brokers: Brokers,
        offsets: Sequence[int],
        time: int,
        before: tuple[BeliefState, Brokers],
    ) -> None:
        """Report the transition that a partition has taken, span by span: lines, and changes for the watch.

        ``brokers`` are the brokers of the spans' slots. ``before`` is the belief state before the transition, with the
        brokers of its slots.
        """
        leader_epoch = partition.leader_epoch - transition.bumps
        partition_epoch = partition.partition_epoch - transition.changes
        for place, span in enumerate(transition.spans):
            partition_epoch += span.changes
            leader_epoch += span.bumps
            if partition.resized is not None and len(span.belief.observed.isr) >= partition.resized.before:
                partition.resized = None
            is_asked_for = partition.state is not None and span.changes > 0
            is_followed = partition.followers is not None and span.changes > 0
            if span.candidates is None and not span.findings and not is_asked_for and not is_followed:
                continue
            offset = offsets[span.last]
            state = replace(
                with_brokers(span.belief.observed, tuple([brokers[slot] for slot in span.order])),
                leader_epoch=leader_epoch,
                partition_epoch=partition_epoch,
            )
            if span.candidates is not None:
                self.unexplained(offset, time, partition.name or None, span.candidates, span.before)
            earlier = _earlier(transition, place, brokers, before)
            if span.findings and span.bumps and state.leader is not None:
                partition.followers = Followers.of(state)
            elif partition.followers is not None:
                partition.followers = partition.followers.after(earlier, state)
            if span.findings and partition.topic is not None:
                known = facts(self._image, partition, earlier, state, span.cause)
                for name, certain in span.findings:
                    self._keep(finding(name, certain, partition.name, state, offset, time, known))
            if is_asked_for:
                former, partition.state = partition.state, state
                self._change(partition, offset, time, former, state, span.cause)

    def created(
        self, partition: Partition, offset: int, time: int, state: PartitionState, cause: str
    ) -> None:
        """Report a new partition in this state to the watch."""
        watch = self._watch
        if watch.on_change and (watch.only is None or partition.name in watch.only):
            partition.state = state
            self._change(partition, offset, time, None, state, cause)

    def deleted(self, partition: Partition, offset: int, time: int) -> None:
        """Report the deletion of a partition to the watch."""
        if partition.state is not None or partition.name in self._named:
            self.report.deleted[partition.topic_id] = offset, time
        if partition.state is not None:
            self._change(partition, offset, time, partition.state, None, "delete the topic")

    def _change(
        self,
        partition: Partition,
        offset: int,
        time: int,
        before: PartitionState | None,
        after: PartitionState | None,
        cause: str | None,
    ) -> None:
        """Report one change of a partition to the watch."""
        assert partition.topic is not None
        min_isr, unclean = None, None
        if after is not None:
            min_isr, unclean = self._image.effective(partition, len(after.replicas))
        name, number = partition.topic.name, partition.number
        topic_id = partition.topic_id
        change = PartitionChange(offset, time, name, number, before, after, cause, min_isr, unclean, topic_id)
        for listener in self._watch.on_change:
            listener(change)

    def setting(self, partition: Partition, setting: SettingInForce) -> None:
        """Report to the watch that a setting changed for a partition."""
        for listener in self._watch.on_setting:
            listener(partition.name, setting)

    def conditions(self, partition: Partition, belief: BeliefState, time: int) -> None:
        """Note when a partition comes under min ISR or loses its leader. When this ends, count its duration."""
        if partition.topic is None:
            return
        if belief.under_min_isr != (partition.under_min_isr_since is not None):
            self._measured("under min ISR", partition.under_min_isr_since, time)
            partition.under_min_isr_since = time if belief.under_min_isr else None
        if belief.leaderless != (partition.leaderless_since is not None):
            self._measured("without a leader", partition.leaderless_since, time)
            partition.leaderless_since = time if belief.leaderless else None

    def ends(self, partition: Partition, time: int) -> None:
        """At the end of the log, ``close`` a partition; note its state if it has no leader or has had a finding."""
        self.close(partition, time)
        failing = (partition.belief.violated | partition.belief.doubtful) - MEASURED
        since, name = partition.leaderless_since, partition.name
        if failing or since is not None or name in self._named:
            self.report.final[name] = FinalState.of(
                name, partition.observed, since, failing, partition.followers, partition.topic_id
            )

    def close(self, partition: Partition, time: int) -> None:
        """Add how long a partition has been under min ISR and without a leader, up to ``time``, to the figures."""
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
    """The partition before the span with index ``place``; its leader and partition epoch are set to 0."""
    if not place:
        return with_brokers(before[0].observed, before[1])
    span = transition.spans[place - 1]
    return with_brokers(span.belief.observed, tuple([brokers[slot] for slot in span.order]))
