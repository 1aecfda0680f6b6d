"""The automaton of partitions: what observations make of a belief state is explained once, and then looked up.

Its states are belief states, its symbols observations with slots for brokers. An observation gets its symbol once for
each binding of slots to brokers, and a belief state its transition once for each word of symbols. Both tables are
small, however many partitions and records there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from highwater.model.language.interpreter import differences
from highwater.model.replication.controller.types import NO_LEADER
from highwater.traces.metadata.beliefs.belief_states import BeliefStates
from highwater.traces.metadata.beliefs.explanation import Explanation, Grounds
from highwater.traces.metadata.beliefs.observations import (
    BrokerChange,
    Brokers,
    Change,
    Flags,
    Observation,
    TopicSettings,
)
from highwater.traces.metadata.beliefs.slots import (
    FIELDS,
    Binding,
    Symbol,
    content,
    in_slots,
    named,
    with_brokers,
)
from highwater.traces.metadata.beliefs.transitions import BeliefState, Transition, Word
from highwater.traces.reports.observed import PartitionState

FlagsOf = Callable[[int], Flags]
MAX_TRANSITIONS, MAX_BELIEFS, MAX_SYMBOLS = 600_000, 100_000, 1_000_000
"""So many are kept; where there are more, the tables begin anew."""
MAX_RECORDS = 50_000
"""So many different records are kept decoded."""


class Automaton:
    """The tables of one replay."""

    def __init__(
        self, beliefs: BeliefStates, decode: Callable[[bytes], Mapping[str, Any]], flags: FlagsOf
    ) -> None:
        self.beliefs, self._decode = beliefs, decode
        self._grounds = Grounds(beliefs, self.record, flags)
        self._bindings: dict[Brokers, Binding] = {}
        self._by_content: dict[Any, Symbol] = {}
        self._records: dict[bytes, Mapping[str, Any]] = {}
        self._symbols = self._transitions = 0
        self.explained = 0

    def _forget(self) -> None:
        """Begin all tables anew, so that memory is bounded; what is needed again is explained again."""
        for binding in self._bindings.values():
            binding.symbols.clear()
        for table in (self._bindings, self._by_content, self._records):
            table.clear()
        self._symbols = self._transitions = 0
        self.beliefs.forget()

    def binding(self, brokers: Brokers) -> Binding:
        """The one binding of slots to these brokers."""
        found = self._bindings.get(brokers)
        if found is None:
            found = self._bindings[brokers] = Binding(brokers)
        return found

    # --- what a partition begins with -------------------------------------------------------------------

    def initial(
        self,
        state: PartitionState,
        settings: TopicSettings,
        tags: Iterable[int] | None = None,
        offline: Iterable[int] = (),
    ) -> tuple[BeliefState, Binding]:
        """What is believed of a partition of which only its state and what its settings can be are known.

        ``offline`` are the replicas in log directories that are offline. Raises CannotFollow.
        """
        observed, brokers = in_slots(state)
        observed = replace(observed, offline=tuple(sorted(brokers.index(broker) for broker in offline)))
        belief = self.beliefs.initial(
            observed,
            [self._grounds.flags(b) for b in brokers],
            settings.min_isr,
            settings.unclean,
            settings.first,
            tags,
        )
        return belief, self.binding(brokers)

    def adopted(self, belief: BeliefState, before: Automaton, offline: Iterable[int]) -> BeliefState:
        """A belief of other rules under these: every set of rules comes into question again.

        ``offline`` are the slots of replicas in log directories that are offline, under these rules.
        """
        return self.beliefs.adopted(belief, before.beliefs, tuple(sorted(offline)))

    def wrong_creation(self, state: PartitionState) -> dict[str, tuple[Any, Any]]:
        """What of a new partition is not as it is created: its active replicas are the ISR, the first one leads."""
        observed, brokers = in_slots(state)
        created = self.beliefs.created(observed.replicas, [self._grounds.flags(b) for b in brokers])
        if created == observed and not state.leader_epoch and not state.partition_epoch:
            return {}
        wrong = differences(with_brokers(created, brokers).to_json(), state.to_json())
        return {name: pair for name, pair in wrong.items() if name != "isr" or set(pair[0]) != set(pair[1])}

    # --- transitions --------------------------------------------------------------------------------------

    def transition(
        self,
        belief: BeliefState,
        binding: Binding,
        observations: Sequence[Observation],
        is_last: bool = False,
    ) -> tuple[Transition, Brokers]:
        """What follows from what was observed, in this order and in one batch of the log.

        Also the brokers of the slots that the transition's spans speak of. ``is_last``: the controller that wrote
        the batch wrote nothing after it. Raises CannotFollow.
        """
        full = self._transitions >= MAX_TRANSITIONS or self._symbols >= MAX_SYMBOLS
        if full or len(self.beliefs) >= MAX_BELIEFS:
            self._forget()
        brokers = binding.brokers
        new = self._new_brokers(binding, observations)
        if new:
            brokers += new
            flags = tuple([self._grounds.flags(b) for b in new])
            symbols = [self._of(self._content(Binding(brokers), observations[0]), flags)]
        else:
            symbols = [self._symbol(binding, observation) for observation in observations]
        # A broker that comes into the partition among other observations has flags of its own, which no symbol has.
        known = [symbol for symbol in symbols if symbol is not None]
        word: Word | None = None
        if len(known) == len(symbols):
            word = known[0] if len(known) == 1 else tuple(known)
        found = None if word is None else belief.transitions.get(word)
        if found is None:
            self.explained += 1
            explanation = Explanation(self._grounds, belief, binding.brokers, observations, is_last)
            found, brokers = explanation.transition(), explanation.all_brokers
            if word is not None and found.is_explained and not is_last:
                self._transitions += 1
                belief.transitions[word] = found
        return found, brokers

    def _symbol(self, binding: Binding, observation: Observation) -> Symbol | None:
        """The symbol of an observation; None where it names a broker that has no slot."""
        name = content(observation)
        found = binding.symbols.get(name)
        if found is None:
            found = self._of(self._content(binding, observation))
            if found is not None:
                self._symbols += 1
                binding.symbols[name] = found
        return found

    def _of(self, content: Any, *more: Any) -> Symbol | None:
        """The one symbol of a content."""
        if content is None:
            return None
        key = (content, more)
        found = self._by_content.get(key)
        if found is None:
            found = self._by_content[key] = Symbol()
        return found

    def _new_brokers(self, binding: Binding, observations: Sequence[Observation]) -> Brokers:
        """The brokers that a lone change brings into the partition; they get the next slots."""
        observation = observations[0]
        if len(observations) > 1 or not isinstance(observation, Change) or observation.raw in binding.symbols:
            return ()
        return tuple(sorted({*named(self.record(observation.raw))}.difference(binding.brokers)))

    def _content(self, binding: Binding, observation: Observation) -> Any:
        """What an observation says, with slots for brokers; None where a broker has none."""
        slots = binding.slots
        if isinstance(observation, TopicSettings):
            return observation
        if isinstance(observation, BrokerChange):
            slot = slots.get(observation.broker)
            return None if slot is None else (observation.kind, slot, observation.flags, observation.offline)
        record = self.record(observation.raw)
        parts: list[Any] = []
        if not slots.keys() >= {*named(record)}:
            return None
        if "replicas" in record:
            # What a reassignment writes depends on the order of the brokers' numbers, too.
            parts.append(tuple(sorted(slots.values(), key=binding.brokers.__getitem__)))
        for name in FIELDS:
            if record.get(name) is not None:
                parts.append((name, tuple([slots.get(b, NO_LEADER) for b in record[name]])))
        leader = record.get("leader")
        parts.append(
            (None if leader is None else slots.get(leader, NO_LEADER), record.get("leaderRecoveryState"))
        )
        if observation.placed is not None:
            parts.append((tuple([slots[b] for b in observation.placed.assigned]), observation.placed.wrong))
        return tuple(parts)

    def record(self, raw: bytes) -> Mapping[str, Any]:
        """The fields of a PartitionChangeRecord."""
        found = self._records.get(raw)
        if found is None:
            if len(self._records) >= MAX_RECORDS:
                self._records.clear()
            found = self._records[raw] = self._decode(raw)
        return found
