"""What the records of one batch mean for each partition, collected until all of them are known."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from highwater.traces.metadata.beliefs.transitions import (
    LEADING,
    TRAILING,
    BrokerEvent,
    Change,
    Item,
    Settings,
    Step,
)
from highwater.traces.metadata.image import Partition
from highwater.traces.metadata.sharing import Reach, is_beyond

if TYPE_CHECKING:
    from highwater.traces.metadata.follow import Follower

Variant = Callable[[Partition], BrokerEvent | None]
"""What happened to a broker as it concerns a partition; None where it does not."""


class _Explained(NamedTuple):
    """A change: its offset, what explains it, the record of the broker that it can belong to, and its partition."""

    offset: int
    causes: frozenset[str]
    before: int | None
    after: int | None
    partition: Partition


class Pending:
    """Collects items by partition; ``flush`` follows each partition through its own.

    It also sees to what holds across partitions: the records of one decision stand together, and those between a
    registration's broker epoch and its record belong to it (B8).
    """

    def __init__(self, follower: Follower, time: int) -> None:
        self._follower, self._time = follower, time
        self._items: dict[Partition, list[tuple[Item, int]]] = {}
        self._first: int | None = None
        self._registrations: list[tuple[int, int]] = []
        self._stops: list[int] = []
        self._brokers: list[tuple[BrokerEvent, int, Variant | None]] = []
        self._settings_only = True
        self._of_min_isr: list[tuple[str, int]] = []
        self.sets_elr: int | None = None
        """The offset of a record of the level of eligible.leader.replicas.version, where there is one."""

    def add(self, partition: Partition, item: Item, offset: int) -> None:
        """An item that concerns a partition."""
        found = self._items.get(partition)
        if found is None:
            self._items[partition] = [(item, offset)]
        else:
            found.append((item, offset))
        if self._first is None:
            self._first = offset
        if item.__class__ is not Change:
            self._first = offset + 1
        if item.__class__ is not Settings:
            self._settings_only = False

    def min_isr(self, topic: str, offset: int) -> None:
        """A record of min.insync.replicas, of a topic or of all (""), to which one that clears ELRs has to belong."""
        self._of_min_isr.append((topic, offset))

    def uncleared(self) -> list[tuple[str, int]]:
        """The records of min.insync.replicas to which none belonged: topics and offsets.

        None where the level of the feature is set, too: what makes ELR safe clears nothing.
        """
        return self._of_min_isr if self.sets_elr is None else []

    def cleared(self, topic: str, offset: int) -> bool:
        """A record that clears ELRs; whether it belongs to one of min.insync.replicas that none belonged to yet.

        A decision about a broker begins behind it.
        """
        self._first = offset + 1
        self._settings_only = False
        for place, (name, _) in enumerate(self._of_min_isr):
            if name == topic:
                del self._of_min_isr[place]
                return True
        return False

    def clear(self, partition: Partition, item: Change, offset: int) -> None:
        """What a record that clears ELRs does to a partition: it belongs to the first setting that has none yet.

        The records of all settings of a request stand before those that clear.
        """
        pairs = self._items.setdefault(partition, [])
        if any(found.__class__ is Change for found, _ in pairs):
            # It is clear already.
            return
        own = (p for p, (found, _) in enumerate(pairs) if isinstance(found, Settings) and found.of_min_isr)
        place = next(own, len(pairs) - 1) + 1
        pairs[place:] = [(item, offset), *((later, offset) for later, _ in pairs[place:])]

    def elsewhere(self, offset: int) -> None:
        """A change of a partition that is not followed here: it can be of the same decision."""
        if self._first is None:
            self._first = offset
        self._settings_only = False

    def other(self, offset: int) -> None:
        """A record that is no change of a partition; decisions about partitions do not reach across it."""
        self._stops.append(offset)

    def broker(self, event: BrokerEvent, offset: int, variant: Variant | None = None) -> None:
        """Something that happened to a broker, for all partitions that have it; ``variant`` says what it is to each."""
        self._brokers.append((event, offset, variant))
        self._first = offset + 1
        self._settings_only = False

    def first_of_decision(self, offset: int) -> int:
        """The least offset at which the decision can begin whose broker record stands at an offset."""
        return offset if self._first is None else self._first

    def registration(self, epoch: int, offset: int) -> None:
        """The changes from ``epoch`` to ``offset`` belong to one registration."""
        self._registrations.append((epoch, offset))

    def before_settings(self) -> None:
        """A setting comes: what stands before it was decided with the former one."""
        if not self._settings_only:
            self.flush()

    def flush(self) -> None:
        """Follow each partition through what was collected."""
        items, self._items = self._items, {}
        self._first, self._settings_only = None, True
        follower, changes, watched = self._follower, 0, bool(self._brokers)
        self._with_brokers(items)
        explained: list[_Explained] = []
        for partition, pairs in items.items():
            said = partition.roster.items
            if len(pairs) == 1:
                item = pairs[0][0]
                step = partition.belief.steps.get(said.get(item.raw if item.__class__ is Change else item))
            else:
                step = partition.belief.steps.get(
                    tuple([said.get(i.raw if i.__class__ is Change else i) for i, _ in pairs])
                )
            if step is None or not step.is_plain or partition.state is not None:
                events, offsets = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
                step, *placed = follower.go_on(partition, events, offsets, self._time, step)
                pairs = list(zip(*placed, strict=True))
            else:
                changes += step.changes
                partition.belief = step.after
                partition.partition_epoch += step.changes
                partition.leader_epoch += step.bumps
            if watched and step is not None and step.changes:
                explained += _explained(partition, step, pairs)
        follower.report.changes += changes
        follower.index()
        if explained:
            explained.sort(key=lambda e: e.offset)
            self._whole(explained)
            self._registered(explained)
        self._registrations, self._stops, self._brokers = [], [], []

    def _with_brokers(self, items: dict[Partition, list[tuple[Item, int]]]) -> None:
        """Put what happened to brokers among the items of the partitions that have them, by offset.

        Where one thing happened to one broker, most partitions have nothing but that, and follow it at once.
        """
        follower = self._follower
        alone = len(self._brokers) == 1
        for common, offset, variant in self._brokers:
            for partition in list(follower.image.replicas.get(common.broker, ())):
                event = common if variant is None else variant(partition)
                if event is None:
                    continue
                found = items.get(partition)
                if found is not None:
                    found.append((event, offset))
                elif alone:
                    step = partition.belief.steps.get(partition.roster.items.get(event))
                    if step is None or not step.is_plain or step.changes:
                        follower.go_on(partition, [event], [offset], self._time, step)
                    else:
                        partition.belief = step.after
                else:
                    items[partition] = [(event, offset)]
            if common.kind == "unfence":
                # It has the controller look for leaders of all partitions without one, also of others.
                for partition, pairs in items.items():
                    if partition.belief.leaderless and common.broker not in partition.roster.slots:
                        pairs.append((common, offset))
        if self._brokers:
            for pairs in items.values():
                pairs.sort(key=_offset)

    # --- across partitions ----------------------------------------------------------------------------

    def _whole(self, explained: Sequence[_Explained]) -> None:
        """The changes of one decision, and the record of its broker, stand beside each other."""
        runs: dict[int, list[_Explained]] = {}
        for change in explained:
            runs.setdefault(bisect_left(self._stops, change.offset), []).append(change)
        for place, run in runs.items():
            before = self._stops[place - 1] if place else None
            after = self._stops[place] if place < len(self._stops) else None
            self._reaches(run[::-1], before, after, True)
            self._reaches(run, before, after, False)

    def _reaches(
        self, run: Sequence[_Explained], before: int | None, after: int | None, is_leading: bool
    ) -> None:
        """Seen from the record of the broker outwards: what is of its decision comes before all else."""
        stop, kinds = (after, LEADING) if is_leading else (before, TRAILING)
        kind = next((event.kind for event, offset, _ in self._brokers if offset == stop), None)
        across = self._follower.across
        key = (0 if across is None else across.group, before, after, is_leading)
        end = None if across is None else across.ends.get(key)
        ended, reach = False, Reach()
        for change in run:
            belongs_to = change.after if is_leading else change.before
            ended = ended or (end is not None and is_beyond(key, change.offset, end))
            if len(change.causes) == 1 and change.causes <= kinds:
                if ended or belongs_to != stop:
                    (cause,) = change.causes
                    expected = "beside the record of the broker, or others of the decision"
                    self._wrong(change, cause, "offset", expected, "elsewhere")
                else:
                    reach.hoped = change.offset
            if kind not in change.causes and not ended:
                ended, reach.ended = True, change.offset
        if across is not None:
            across.reaches[key] = reach

    def _registered(self, explained: Sequence[_Explained]) -> None:
        """A registration's epoch says where its decision begins: what is in it must be of it, and nothing else."""
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
        self._follower.telling.wrong(
            change.offset, self._time, change.partition.name, what, {field: (expected, found)}
        )


def _offset(pair: tuple[Item, int]) -> int:
    return pair[1]


def _explained(partition: Partition, step: Step, pairs: Sequence[tuple[Item, int]]) -> list[_Explained]:
    """The changes of a step, each with the records of brokers that stand beside it in the partition's items."""
    found = []
    for hop in step.hops:
        if hop.changes:
            at = hop.item
            before = pairs[at - 1][1] if at and isinstance(pairs[at - 1][0], BrokerEvent) else None
            following = pairs[at + 1] if at + 1 < len(pairs) else None
            after = following[1] if following and isinstance(following[0], BrokerEvent) else None
            found.append(_Explained(pairs[at][1], hop.causes, before, after, partition))
    return found


__all__ = ["Pending", "Variant"]
