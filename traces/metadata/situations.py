"""Situations: what each observation makes of what is believed of a partition, explained once and then looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from model.language.interpreter import differences
from model.replication.controller.types import NO_LEADER
from traces.metadata.beliefs import Belief, Beliefs, Flags
from traces.metadata.explanation import Explanation
from traces.metadata.slots import FIELDS, Brokers, in_slots, named, with_brokers
from traces.metadata.steps import BrokerEvent, Change, Hop, Item, Settings, Situation, Step, key_of
from traces.observed import PartitionState

FlagsOf = Callable[[int], Flags]
MAX_SITUATIONS, MAX_STEPS, MAX_BELIEFS = 250_000, 600_000, 100_000
"""So many are kept; where there are more, the tables begin anew."""
MAX_RECORDS = 50_000
"""So many different records are kept decoded."""
_Pattern = tuple[tuple[Hop, tuple[int, ...]], ...]
"""The hops of a step, each with the slots before the step (new brokers last) in the order after the hop."""


class Situations:
    """All situations of one replay."""

    def __init__(
        self, beliefs: Beliefs, decode: Callable[[bytes], Mapping[str, Any]], flags: FlagsOf
    ) -> None:
        self.beliefs, self._decode, self._flags = beliefs, decode, flags
        self._interned: dict[tuple[Belief, Brokers], Situation] = {}
        self._brokers: dict[Brokers, Brokers] = {}
        self._made = self._steps = 0
        self._patterns: dict[tuple[Belief, tuple[Any, ...], tuple[Flags, ...]], _Pattern] = {}
        self._records: dict[bytes, Mapping[str, Any]] = {}

    def __len__(self) -> int:
        """How many situations there were so far; one that was forgotten counts again."""
        return self._made

    def _forget(self) -> None:
        """Begin all tables anew, so that memory is bounded; what is needed again is explained again."""
        for situation in self._interned.values():
            situation.steps.clear()
        for table in (self._interned, self._brokers, self._patterns, self._records):
            table.clear()
        self._steps = 0
        self.beliefs.forget()

    def situation(self, belief: Belief, brokers: Brokers) -> Situation:
        """The one situation with this belief and these brokers."""
        key = (belief, brokers)
        if key not in self._interned:
            if len(self._interned) >= MAX_SITUATIONS or len(self.beliefs) >= MAX_BELIEFS:
                self._forget()
            self._made += 1
            self._interned[key] = Situation(belief, self._brokers.setdefault(brokers, brokers))
        return self._interned[key]

    def initial(
        self, state: PartitionState, settings: Settings, tags: Iterable[int] | None = None
    ) -> Situation:
        """What is believed of a partition of which only its state and what its settings can be are known."""
        observed, brokers = in_slots(state)
        belief = self.beliefs.initial(
            observed,
            [self._flags(b) for b in brokers],
            settings.min_isr,
            settings.unclean,
            settings.first,
            tags,
        )
        return self.situation(belief, brokers)

    def adopted(self, situation: Situation) -> Situation:
        """A situation of other rules under these: every set of rules comes into question again."""
        old = situation.belief
        tags = range(len(self.beliefs.rules))
        states = frozenset((tag, state) for tag in tags for _, state in old.states)
        return self.situation(self.beliefs.belief(old.slots, states, old.observed), situation.brokers)

    def wrong_creation(self, state: PartitionState) -> dict[str, tuple[Any, Any]]:
        """What of a new partition is not as it is created: its active replicas are the ISR, the first one leads."""
        observed, brokers = in_slots(state)
        created = self.beliefs.created(observed.replicas, [self._flags(b) for b in brokers])
        wrong = differences(with_brokers(created, brokers).to_json(), state.to_json())
        return {name: pair for name, pair in wrong.items() if name != "isr" or set(pair[0]) != set(pair[1])}

    def step(self, situation: Situation, items: Sequence[Item]) -> Step:
        """What follows from what was observed, in this order and in one batch of the log.

        Raises CannotFollow.
        """
        key = key_of(items)
        step = situation.steps.get(key)
        if step is None:
            step = self._by_pattern(situation, items)
            # A broker that is new to the partition comes with flags of its own, which the key does not have.
            if set(step.after.brokers) <= set(situation.brokers):
                if self._steps >= MAX_STEPS:
                    self._forget()
                self._steps += 1
                situation.steps[key] = step
        return step

    def _by_pattern(self, situation: Situation, items: Sequence[Item]) -> Step:
        """Explain items, or see that the same was explained for a partition with other brokers."""
        new = self._new_brokers(situation, items)
        brokers = situation.brokers + new
        by_slots = self._by_slots(brokers, items)
        if by_slots is None:
            return Explanation(self, situation, items).step()
        key = (situation.belief, by_slots, tuple([self._flags(b) for b in new]))
        pattern = self._patterns.get(key)
        if pattern is not None:
            return self._like(pattern, situation, brokers)
        step = Explanation(self, situation, items).step()
        if all(hop.candidates is None for hop in step.hops):
            slots = {broker: slot for slot, broker in enumerate(brokers)}
            orders = tuple(tuple(slots[b] for b in hop.situation.brokers) for hop in step.hops)
            self._patterns[key] = tuple(zip(step.hops, orders, strict=True))
        return step

    def _like(self, pattern: _Pattern, situation: Situation, brokers: Brokers) -> Step:
        """The step of a pattern, with these brokers for its slots."""
        hops = []
        after = situation
        for hop, order in pattern:
            after = self.situation(hop.situation.belief, tuple([brokers[slot] for slot in order]))
            hops.append(Hop(hop.item, after, hop.changes, hop.bumps, hop.causes, hop.findings))
        return Step(situation, after, tuple(hops))

    def _new_brokers(self, situation: Situation, items: Sequence[Item]) -> Brokers:
        """The brokers that a lone change brings into the partition; they get the next slots."""
        if len(items) > 1 or not isinstance(items[0], Change):
            return ()
        record = self.record(items[0].raw)
        if "replicas" not in record:
            return ()
        return tuple(sorted({*named(record)}.difference(situation.brokers)))

    def _by_slots(self, brokers: Brokers, items: Sequence[Item]) -> tuple[Any, ...] | None:
        """Items with slots for brokers; None where a broker has none."""
        slots = {broker: slot for slot, broker in enumerate(brokers)}
        slots[NO_LEADER] = NO_LEADER
        found: list[Any] = []
        try:
            for item in items:
                if isinstance(item, Change):
                    record = self.record(item.raw)
                    if "replicas" in record:
                        # What a reassignment writes depends on the order of the brokers' numbers, too.
                        found.append(tuple(sorted(range(len(brokers)), key=brokers.__getitem__)))
                    for name in FIELDS:
                        if record.get(name) is not None:
                            found.append((name, tuple([slots[b] for b in record[name]])))
                    leader = record.get("leader")
                    found.append(
                        (None if leader is None else slots[leader], record.get("leaderRecoveryState"))
                    )
                elif isinstance(item, BrokerEvent):
                    found.append((item.kind, slots[item.broker], item.flags))
                else:
                    found.append(item)
        except KeyError:
            return None
        return tuple(found)

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


__all__ = ["MAX_BELIEFS", "MAX_SITUATIONS", "MAX_STEPS", "FlagsOf", "Situations"]
