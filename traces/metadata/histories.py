"""The changes of all partitions of a log, in 12 bytes each, and timelines of chosen partitions."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from heapq import merge
from itertools import chain, islice
from typing import NamedTuple

from highwater.traces.metadata.beliefs.belief_states import Span, Transition, with_brokers
from highwater.traces.metadata.beliefs.evidence import Brokers, Observed
from highwater.traces.metadata.image import Image, Partition
from highwater.traces.reports.observed import PartitionChange, PartitionState, SettingInForce
from highwater.traces.reports.report import LIMIT_CHANGES, Timeline

_with_brokers = lru_cache(maxsize=10_000)(with_brokers)
"""Equal states of timelines share their lists of members."""
_ENTRY = struct.Struct("=iii")
"""The integers of an entry: growth of the offset, growth of the time in ms, and the number of the step."""


class _Step(NamedTuple):
    """The change of a partition in an entry: the partition afterwards, the cause, and how much its epochs grow.

    ``after`` is an ``Observed`` with slots for brokers, a ``PartitionState`` for a new partition, or None for a
    deleted one.
    """

    after: PartitionState | None
    cause: str | None
    changes: int = 0
    bumps: int = 0


class _Base(NamedTuple):
    """The values that hold from the entry with index ``first`` until the next base.

    ``offset`` and ``time`` are the values to which that entry adds its growth.
    """

    first: int
    offset: int
    time: int
    brokers: Brokers
    min_isr: int | None
    unclean: bool | None


class _History:
    """The first ``LIMIT_CHANGES`` changes of one partition. ``total`` is the number of all its changes.

    ``offset``, ``time``, ``brokers`` (of the slots) and ``replicas`` (their number) are values after the last entry.
    """

    __slots__ = (
        "bases", "brokers", "entries", "number", "offset", "replicas", "settings", "time", "topic", "topic_id", "total",
    )  # fmt: skip

    def __init__(self, topic: str, topic_id: str, number: int) -> None:
        self.topic, self.topic_id, self.number = topic, topic_id, number
        self.entries = bytearray()
        self.bases: list[_Base] = []
        self.settings: list[SettingInForce] = []
        self.offset = self.time = self.total = 0
        self.brokers: Brokers = ()
        self.replicas = 0

    @property
    def settings_in_force(self) -> tuple[int | None, bool | None]:
        """The effective min ISR and unclean election for the next entry."""
        return self.bases[-1].min_isr, self.bases[-1].unclean

    def append(self, offset: int, time: int, step: int) -> None:
        """Add an entry."""
        try:
            self.entries += _ENTRY.pack(offset - self.offset, time - self.time, step)
        except struct.error:  # the growth is too large
            self.offset, self.time = offset, time
            self.rebase(self.brokers, self.replicas, *self.settings_in_force)
            self.entries += _ENTRY.pack(0, 0, step)
        self.offset, self.time = offset, time

    def rebase(self, brokers: Brokers, replicas: int, min_isr: int | None, unclean: bool | None) -> None:
        """Begin a base with other brokers or settings."""
        place = len(self.entries) // _ENTRY.size
        if self.bases and self.bases[-1].first == place:
            del self.bases[-1]
        self.bases.append(_Base(place, self.offset, self.time, brokers, min_isr, unclean))
        self.brokers, self.replicas = brokers, replicas

    def changes(self, steps: Sequence[_Step]) -> Iterator[PartitionChange]:
        """The changes in order; ``steps`` are the steps by number."""
        bases = {base.first: base for base in self.bases}
        base, state = self.bases[0], None
        offset = time = leader_epoch = partition_epoch = 0
        for place, (more, later, number) in enumerate(_ENTRY.iter_unpack(self.entries)):
            if place in bases:
                base = bases[place]
                offset, time = base.offset, base.time
            offset, time = offset + more, time + later
            step, before = steps[number], state
            state = step.after
            if isinstance(state, Observed):
                leader_epoch, partition_epoch = leader_epoch + step.bumps, partition_epoch + step.changes
                state = replace(
                    _with_brokers(state, base.brokers),
                    leader_epoch=leader_epoch,
                    partition_epoch=partition_epoch,
                )
            elif state is not None:
                leader_epoch, partition_epoch = state.leader_epoch, state.partition_epoch
            settings = (None, None) if state is None else (base.min_isr, base.unclean)
            known = step.cause, *settings, self.topic_id
            yield PartitionChange(offset, time, self.topic, self.number, before, state, *known)


class Histories:
    """Records the changes and the settings of all partitions of topics, and makes timelines of them.

    ``keep_deleted``: a deleted partition keeps its history even if no line of the report names it.
    """

    def __init__(self, keep_deleted: bool = False) -> None:
        self.keep_deleted = keep_deleted
        self._present: dict[Partition, _History] = {}
        self._by_name: dict[str, list[_History]] = {}
        self._steps: list[_Step] = []
        self._numbers: dict[_Step, int] = {}
        self._settings: dict[SettingInForce, SettingInForce] = {}

    def begin(
        self, image: Image, partition: Partition, offset: int, time: int, state: PartitionState, cause: str
    ) -> None:
        """Record a new partition in this state."""
        assert partition.topic is not None
        history = self._present[partition] = _History(
            partition.topic.name, partition.topic_id, partition.number
        )
        self._by_name.setdefault(partition.name, []).append(history)
        history.offset, history.time, history.total = offset, time, 1
        replicas = len(state.replicas)
        history.rebase(partition.binding.brokers, replicas, *image.effective(partition, replicas))
        history.append(offset, time, self._number(_Step(state, cause)))

    def end(self, partition: Partition, offset: int, time: int, cause: str) -> None:
        """Record the deletion of a partition."""
        history = self._present.pop(partition)
        history.total += 1
        if history.total <= LIMIT_CHANGES:
            history.append(offset, time, self._number(_Step(None, cause)))

    def forget(self, partition: Partition) -> None:
        """Drop the history of a partition."""
        histories = self._by_name[partition.name]
        histories.remove(self._present.pop(partition))
        if not histories:
            del self._by_name[partition.name]

    def setting(self, partition: Partition, setting: SettingInForce) -> None:
        """Record that a partition's setting has this value from the present offset on."""
        history = self._present[partition]
        if len(history.settings) < LIMIT_CHANGES:
            history.settings.append(self._settings.setdefault(setting, setting))
        now = setting.min_isr, setting.unclean_election
        if history.total < LIMIT_CHANGES and now != history.settings_in_force:
            history.rebase(history.brokers, history.replicas, *now)

    def change(self, partition: Partition, transition: Transition, offset: int, time: int) -> None:
        """Record a transition that has one change and is plain (``Transition.is_plain``)."""
        history = self._present[partition]
        history.total += 1
        if history.total > LIMIT_CHANGES:
            return
        step = transition.step
        if step < 0:
            step = transition.step = self._of_span(transition.spans[0])
        history.append(offset, time, step)

    def changes(
        self,
        image: Image,
        partition: Partition,
        transition: Transition,
        brokers: Brokers,
        offsets: Sequence[int],
        time: int,
    ) -> None:
        """Record each change in a transition, which one batch at ``time`` (ms since the epoch) caused.

        ``brokers`` has the broker of each slot in the transition's spans, ``offsets`` the offset of each observation.
        """
        if transition.is_plain and transition.changes and len(transition.spans) == 1:
            self.change(partition, transition, offsets[transition.spans[0].last], time)
            return
        history = self._present[partition]
        for span in transition.spans:
            history.total += span.changes > 0
            if not span.changes or history.total > LIMIT_CHANGES:
                continue
            own = tuple([brokers[slot] for slot in span.order])
            replicas = len(span.belief.observed.replicas)
            if replicas != history.replicas:
                history.rebase(own, replicas, *image.effective(partition, replicas))
            elif own != history.brokers:
                history.rebase(own, replicas, *history.settings_in_force)
            history.append(offsets[span.last], time, self._of_span(span))

    @property
    def names(self) -> Collection[str]:
        """The names of all partitions so far."""
        return self._by_name.keys()

    def timelines(self, names: Collection[str]) -> dict[str, Timeline]:
        """The timelines of the partitions with these names, in the order of their first changes."""
        return {name: self._timeline(name, found) for name, found in self._by_name.items() if name in names}

    def _timeline(self, name: str, found: Sequence[_History]) -> Timeline:
        """The timeline of a partition, which has several histories if it was deleted and created again."""
        changes = merge(*(h.changes(self._steps) for h in found), key=lambda change: change.position)
        settings = chain.from_iterable(history.settings for history in found)
        return Timeline(
            name,
            list(islice(changes, LIMIT_CHANGES)),
            sum(history.total for history in found),
            list(islice(settings, LIMIT_CHANGES)),
        )

    def _of_span(self, span: Span) -> int:
        return self._number(_Step(span.belief.observed, span.cause, span.changes, span.bumps))

    def _number(self, step: _Step) -> int:
        """The number of a step. Equal steps have one number."""
        found = self._numbers.setdefault(step, len(self._steps))
        if found == len(self._steps):
            self._steps.append(step)
        return found
