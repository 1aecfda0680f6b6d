"""The observations of one batch for each partition, collected until the batch is complete."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import NamedTuple

from highwater.traces.metadata.beliefs.belief_states import Transition, content
from highwater.traces.metadata.beliefs.evidence import (
    LEADING,
    TRAILING,
    BrokerChange,
    Change,
    Observation,
    TopicSettings,
)
from highwater.traces.metadata.image import Partition
from highwater.traces.metadata.tracker import Tracker

Variant = Callable[[Partition], BrokerChange | None]
"""Returns a broker's event as it affects one partition; None if it does not concern the partition."""


_OFFSET = itemgetter(1)
new_tuple = tuple.__new__
"""Make a NamedTuple from its class and a tuple of all fields, in half the time of its constructor."""


class _Explained(NamedTuple):
    """An explained change. ``before`` and ``after`` are the offsets of brokers' records next to it (None: none)."""

    offset: int
    causes: frozenset[str]
    before: int | None
    after: int | None
    partition: Partition


class Pending:
    """Collects observations by partition; ``flush`` follows each partition through its observations.

    Two checks need all partitions. The records of one decision must be adjacent. And the records from the offset that
    is a registration's broker epoch up to the registration's own record must belong to this registration (B8).
    """

    def __init__(self, tracker: Tracker, time: int) -> None:
        self._tracker, self._time = tracker, time
        self._observations: dict[Partition, list[tuple[Observation, int]]] = {}
        self._first: int | None = None
        self._registrations: list[tuple[int, int]] = []
        self._stops: list[int] = []
        self._brokers: list[tuple[BrokerChange, int, Variant | None]] = []
        self._settings_only = True
        self._of_min_isr: list[tuple[str, int]] = []
        self.sets_elr: int | None = None
        """The offset of a record of the level of eligible.leader.replicas.version; None without one."""

    def change(self, partition: Partition, change: bytes, offset: int) -> None:
        """Add a change of a partition."""
        pair = new_tuple(Change, (change, None)), offset
        found = self._observations.get(partition)
        if found is None:
            self._observations[partition] = [pair]
        else:
            found.append(pair)
        if self._first is None:
            self._first = offset
        self._settings_only = False

    def settings(self, partition: Partition, settings: TopicSettings, offset: int) -> None:
        """Add the possible settings of a partition."""
        self._observations.setdefault(partition, []).append((settings, offset))
        self._first = offset + 1

    def min_isr(self, topic: str, offset: int) -> None:
        """Note a record that sets min.insync.replicas, for a topic or, with "", for all topics.

        A record that clears ELRs must follow it.
        """
        self._of_min_isr.append((topic, offset))

    def uncleared(self) -> list[tuple[str, int]]:
        """Topic and offset of each min.insync.replicas record that is not followed by a CLEAR_ELR_RECORD.

        Empty if the same decision sets the level of ELR: the settings that make ELR safe clear nothing (K15).
        """
        return self._of_min_isr if self.sets_elr is None else []

    def cleared(self, topic: str, offset: int) -> bool:
        """Note a record that clears ELRs. Returns True if a min.insync.replicas record required it.

        A decision about a broker can begin only after this record.
        """
        self._first = offset + 1
        self._settings_only = False
        for place, (name, _) in enumerate(self._of_min_isr):
            if name == topic:
                del self._of_min_isr[place]
                return True
        return False

    def clear(self, partition: Partition, observation: Change, offset: int) -> None:
        """Add the change of a CLEAR_ELR_RECORD, directly after the partition's first min.insync.replicas setting.

        A request writes all its settings before the records that clear ELRs.
        """
        pairs = self._observations.setdefault(partition, [])
        if any(isinstance(found, Change) for found, _ in pairs):
            # An earlier record of the batch has cleared it.
            return
        own = (
            p for p, (found, _) in enumerate(pairs) if isinstance(found, TopicSettings) and found.of_min_isr
        )
        place = next(own, len(pairs) - 1) + 1
        pairs[place:] = [(observation, offset), *((later, offset) for later, _ in pairs[place:])]

    def elsewhere(self, offset: int) -> None:
        """Note a change of a partition that is not followed. The change can belong to the present decision."""
        if self._first is None:
            self._first = offset
        self._settings_only = False

    def other(self, offset: int) -> None:
        """Note a record at ``offset`` that changes no partition, so that a decision about partitions ends before it."""
        self._stops.append(offset)

    def broker(self, change: BrokerChange, offset: int, variant: Variant | None = None) -> None:
        """Add a broker's event for all partitions that name the broker.

        ``variant`` gives each partition's own event; without it, the event is ``change``.
        """
        self._brokers.append((change, offset, variant))
        self._first = offset + 1
        self._settings_only = False

    def first_of_decision(self, offset: int) -> int:
        """The lowest offset at which a decision can begin if its broker record is at ``offset``."""
        return offset if self._first is None else self._first

    def registration(self, epoch: int, offset: int) -> None:
        """Note that the changes from the offset ``epoch`` up to ``offset`` (exclusive) belong to one registration."""
        self._registrations.append((epoch, offset))

    def before_settings(self) -> None:
        """Flush before a new setting: earlier observations were decided under the former setting."""
        if not self._settings_only:
            self.flush()

    def flush(self) -> None:
        """Follow each partition through its collected observations."""
        observations, self._observations = self._observations, {}
        self._first, self._settings_only = None, True
        tracker, watched = self._tracker, bool(self._brokers)
        self._with_brokers(observations)
        explained: list[_Explained] = []
        for partition, pairs in observations.items():
            if len(pairs) == 1:
                transition = partition.transition(content(pairs[0][0]))
            else:
                transition = partition.transition_by([content(found) for found, _ in pairs])
            if not tracker.take_plain(partition, transition, self._time):
                found, offsets = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
                followed = tracker.follow(partition, found, offsets, self._time, transition)
                transition = followed.transition
                pairs = list(zip(followed.observations, followed.offsets, strict=True))
            if watched and transition is not None and transition.changes:
                explained += _explained(partition, transition, pairs)
        tracker.index()
        if explained:
            explained.sort(key=lambda e: e.offset)
            self._whole(explained)
            self._registered(explained)
        self._registrations, self._stops, self._brokers = [], [], []

    def _with_brokers(self, observations: dict[Partition, list[tuple[Observation, int]]]) -> None:
        """Merge the brokers' events into the observations of their partitions, by offset.

        If there is only one such event, it is applied immediately to each partition that has no other observations.
        """
        tracker = self._tracker
        alone = len(self._brokers) == 1
        for common, offset, variant in self._brokers:
            for partition in list(tracker.image.replicas.get(common.broker, ())):
                own = common if variant is None else variant(partition)
                if own is None:
                    continue
                found = observations.get(partition)
                if found is not None:
                    found.append((own, offset))
                elif alone:
                    transition = partition.transition(own)
                    if transition is None or not transition.is_plain:
                        tracker.follow(partition, [own], [offset], self._time, transition)
                    else:
                        partition.belief = transition.after
                else:
                    observations[partition] = [(own, offset)]
            if common.kind == "unfence":
                # After "unfence" the controller elects leaders in each leaderless partition, also of other brokers.
                for partition, pairs in observations.items():
                    if partition.belief.leaderless and common.broker not in partition.binding.slots:
                        pairs.append((common, offset))
        if self._brokers:
            for pairs in observations.values():
                if len(pairs) > 1:
                    pairs.sort(key=_OFFSET)

    # --- across partitions ----------------------------------------------------------------------------

    def _whole(self, explained: Sequence[_Explained]) -> None:
        """Check that the changes of one decision, and the record of the broker that caused it, are adjacent."""
        runs: dict[int, list[_Explained]] = {}
        for change in explained:
            runs.setdefault(bisect_left(self._stops, change.offset), []).append(change)
        for place, run in runs.items():
            before = self._stops[place - 1] if place else None
            after = self._stops[place] if place < len(self._stops) else None
            self._adjacent(run[::-1], after, True)
            self._adjacent(run, before, False)

    def _adjacent(self, run: Sequence[_Explained], stop: int | None, is_leading: bool) -> None:
        """Check that no other change lies between a broker's record and the changes of the broker's decision.

        ``run`` has the changes, the nearest to the record first. ``stop`` is the record's offset. ``is_leading``: the
        changes precede the record.
        """
        kinds = LEADING if is_leading else TRAILING
        kind = next((change.kind for change, offset, _ in self._brokers if offset == stop), None)
        ended = False
        for change in run:
            belongs_to = change.after if is_leading else change.before
            if len(change.causes) == 1 and change.causes <= kinds and (ended or belongs_to != stop):
                (cause,) = change.causes
                expected = "beside the record of the broker, or others of the decision"
                self._wrong(change, cause, "offset", expected, "elsewhere")
            ended = ended or kind not in change.causes

    def _registered(self, explained: Sequence[_Explained]) -> None:
        """Check which changes belong to a registration (B8): those from its broker epoch to its record, no others."""
        if not self._registrations:
            return
        for change in explained:
            if not change.causes:
                continue
            within = any(epoch <= change.offset < end for epoch, end in self._registrations)
            if ("register" not in change.causes) if within else change.causes == {"register"}:
                self._wrong(
                    change, "register", "brokerEpoch", "the offset of the decision's first record", "another"
                )

    def _wrong(self, change: _Explained, what: str, field: str, expected: str, found: str) -> None:
        self._tracker.reporter.wrong(
            change.offset, self._time, change.partition.name, what, {field: (expected, found)}
        )


def _explained(
    partition: Partition, transition: Transition, pairs: Sequence[tuple[Observation, int]]
) -> list[_Explained]:
    """The changes of a transition, each with the brokers' records next to it."""
    found = []
    for span in transition.spans:
        if span.changes:
            at = span.last
            before = pairs[at - 1][1] if at and isinstance(pairs[at - 1][0], BrokerChange) else None
            following = pairs[at + 1] if at + 1 < len(pairs) else None
            after = following[1] if following and isinstance(following[0], BrokerChange) else None
            found.append(new_tuple(_Explained, (pairs[at][1], span.causes, before, after, partition)))
    return found
