"""What each observation makes of what is believed of a partition: explained once, and then looked up.

A partition's situation is a belief, and a roster of the brokers that its slots stand for. An item is said in slots
once for each roster; what it makes of a belief is found once for each belief. Both tables are small, however many
partitions and records there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from highwater.model.language.interpreter import differences
from highwater.model.replication.controller.types import NO_LEADER
from highwater.traces.metadata.beliefs.belief_states import Belief, Beliefs
from highwater.traces.metadata.beliefs.explanation import Explanation
from highwater.traces.metadata.beliefs.observations import Flags
from highwater.traces.metadata.beliefs.slots import FIELDS, Brokers, in_slots, named, with_brokers
from highwater.traces.metadata.beliefs.transitions import (
    BrokerEvent,
    Change,
    InSlots,
    Item,
    Roster,
    Settings,
    Step,
)
from highwater.traces.reports.observed import PartitionState

FlagsOf = Callable[[int], Flags]
MAX_STEPS, MAX_BELIEFS, MAX_ITEMS = 600_000, 100_000, 1_000_000
"""So many are kept; where there are more, the tables begin anew."""
MAX_RECORDS = 50_000
"""So many different records are kept decoded."""


class Situations:
    """The tables of one replay."""

    def __init__(
        self, beliefs: Beliefs, decode: Callable[[bytes], Mapping[str, Any]], flags: FlagsOf
    ) -> None:
        self.beliefs, self._decode, self._flags = beliefs, decode, flags
        self._rosters: dict[Brokers, Roster] = {}
        self._in_slots: dict[Any, InSlots] = {}
        self._records: dict[bytes, Mapping[str, Any]] = {}
        self._items = self._steps = 0
        self.explained = 0

    def _forget(self) -> None:
        """Begin all tables anew, so that memory is bounded; what is needed again is explained again."""
        for roster in self._rosters.values():
            roster.items.clear()
        for table in (self._rosters, self._in_slots, self._records):
            table.clear()
        self._items = self._steps = 0
        self.beliefs.forget()

    def roster(self, brokers: Brokers) -> Roster:
        """The one roster of these brokers."""
        found = self._rosters.get(brokers)
        if found is None:
            found = self._rosters[brokers] = Roster(brokers)
        return found

    # --- what a partition begins with -------------------------------------------------------------------

    def initial(
        self,
        state: PartitionState,
        settings: Settings,
        tags: Iterable[int] | None = None,
        offline: Iterable[int] = (),
    ) -> tuple[Belief, Roster]:
        """What is believed of a partition of which only its state and what its settings can be are known.

        ``offline`` are the replicas in log directories that are offline. Raises CannotFollow.
        """
        observed, brokers = in_slots(state)
        observed = replace(observed, offline=tuple(sorted(brokers.index(broker) for broker in offline)))
        belief = self.beliefs.initial(
            observed,
            [self._flags(b) for b in brokers],
            settings.min_isr,
            settings.unclean,
            settings.first,
            tags,
        )
        return belief, self.roster(brokers)

    def adopted(self, belief: Belief, before: Situations, offline: Iterable[int]) -> Belief:
        """A belief of other rules under these: every set of rules comes into question again.

        ``offline`` are the slots of replicas in log directories that are offline, under these rules.
        """
        return self.beliefs.adopted(belief, before.beliefs, tuple(sorted(offline)))

    def wrong_creation(self, state: PartitionState) -> dict[str, tuple[Any, Any]]:
        """What of a new partition is not as it is created: its active replicas are the ISR, the first one leads."""
        observed, brokers = in_slots(state)
        created = self.beliefs.created(observed.replicas, [self._flags(b) for b in brokers])
        if created == observed and not state.leader_epoch and not state.partition_epoch:
            return {}
        wrong = differences(with_brokers(created, brokers).to_json(), state.to_json())
        return {name: pair for name, pair in wrong.items() if name != "isr" or set(pair[0]) != set(pair[1])}

    # --- steps ------------------------------------------------------------------------------------------

    def step(
        self, belief: Belief, roster: Roster, items: Sequence[Item], is_last: bool = False
    ) -> tuple[Step, Brokers]:
        """What follows from what was observed, in this order and in one batch of the log.

        Also the brokers of the slots that the step's hops speak of. ``is_last``: the controller that wrote the batch
        wrote nothing after it. Raises CannotFollow.
        """
        if len(self.beliefs) >= MAX_BELIEFS or self._steps >= MAX_STEPS or self._items >= MAX_ITEMS:
            self._forget()
        brokers = roster.brokers
        new = self._new_brokers(roster, items)
        if new:
            brokers += new
            flags = tuple([self._flags(b) for b in new])
            keys: list[InSlots | None] = [self._said(self._content(Roster(brokers), items[0]), flags)]
        else:
            keys = [self._item(roster, item) for item in items]
        # A broker that comes into the partition among other items has flags of its own, which no key has.
        key: Any = None if None in keys else keys[0] if len(keys) == 1 else tuple(keys)
        step = belief.steps.get(key)
        if step is None:
            self.explained += 1
            explanation = Explanation(self, belief, roster.brokers, items, is_last)
            step, brokers = explanation.step(), explanation.all_brokers
            if key is not None and step.is_explained and not is_last:
                self._steps += 1
                belief.steps[key] = step
        return step, brokers

    def _item(self, roster: Roster, item: Item) -> InSlots | None:
        """An item in slots; None where it names a broker that has no slot."""
        name = item.raw if isinstance(item, Change) and item.placed is None else item
        found = roster.items.get(name)
        if found is None:
            found = self._said(self._content(roster, item))
            if found is not None:
                self._items += 1
                roster.items[name] = found
        return found

    def _said(self, content: Any, *more: Any) -> InSlots | None:
        """The one object that stands for a content."""
        if content is None:
            return None
        key = (content, more)
        found = self._in_slots.get(key)
        if found is None:
            found = self._in_slots[key] = InSlots()
        return found

    def _new_brokers(self, roster: Roster, items: Sequence[Item]) -> Brokers:
        """The brokers that a lone change brings into the partition; they get the next slots."""
        item = items[0]
        if len(items) > 1 or not isinstance(item, Change) or item.raw in roster.items:
            return ()
        return tuple(sorted({*named(self.record(item.raw))}.difference(roster.brokers)))

    def _content(self, roster: Roster, item: Item) -> Any:
        """What an item says, with slots for brokers; None where a broker has none."""
        slots = roster.slots
        if isinstance(item, Settings):
            return item
        if isinstance(item, BrokerEvent):
            said_of = (item.kind, slots.get(item.broker), item.flags, item.offline)
            return said_of if item.broker in slots else None
        record = self.record(item.raw)
        said: list[Any] = []
        if not slots.keys() >= {*named(record)}:
            return None
        if "replicas" in record:
            # What a reassignment writes depends on the order of the brokers' numbers, too.
            said.append(tuple(sorted(slots.values(), key=roster.brokers.__getitem__)))
        for name in FIELDS:
            if record.get(name) is not None:
                said.append((name, tuple([slots.get(b, NO_LEADER) for b in record[name]])))
        leader = record.get("leader")
        said.append(
            (None if leader is None else slots.get(leader, NO_LEADER), record.get("leaderRecoveryState"))
        )
        if item.placed is not None:
            said.append((tuple([slots[b] for b in item.placed.assigned]), item.placed.wrong))
        return tuple(said)

    def flags(self, broker: int) -> Flags:
        """What is known of a broker's registration now."""
        return self._flags(broker)

    def record(self, raw: bytes) -> Mapping[str, Any]:
        """The fields of a PartitionChangeRecord."""
        found = self._records.get(raw)
        if found is None:
            if len(self._records) >= MAX_RECORDS:
                self._records.clear()
            found = self._records[raw] = self._decode(raw)
        return found


__all__ = ["MAX_BELIEFS", "MAX_ITEMS", "MAX_STEPS", "FlagsOf", "Situations"]
