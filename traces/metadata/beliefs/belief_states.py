"""All belief states of one replay: how they are made, and made anew for other slots and under other rules.

Partitions that differ in the numbers of their brokers only have the same belief states, as brokers are slots here.
Epochs are relative (``actions``). A belief state holds the model states of several sets of rules side by side where the
log does not say which of them was in force.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain
from typing import Any

from highwater.model.language.model import Scalars
from highwater.traces.metadata.beliefs.actions import ControllerStepper, controller_stepper
from highwater.traces.metadata.beliefs.evidence import Observed, Slots
from highwater.traces.metadata.beliefs.hypotheses import held
from highwater.traces.metadata.beliefs.observations import Flags
from highwater.traces.metadata.beliefs.transitions import BeliefState, Tagged
from highwater.traces.rules.decisions import decisions

Rules = frozenset[str]


class BeliefStates:
    """Makes and keeps them. ``rules`` are the sets of rules that can have been in force."""

    def __init__(self, rules: tuple[Rules, ...]) -> None:
        self.rules = rules
        self._interned: dict[tuple[int, frozenset[Tagged]], BeliefState] = {}
        self._initial: dict[Any, BeliefState] = {}
        self._derived: dict[tuple[BeliefState, Any], BeliefState] = {}
        self._created: dict[tuple[Slots, tuple[Flags, ...]], Observed] = {}

    def actions(self, tag: int, slots: int) -> ControllerStepper:
        """The actions for one set of rules."""
        return controller_stepper(slots, self.rules[tag])

    def has_rule(self, name: str) -> bool:
        """Whether every set of rules has a rule."""
        return all(name in rules for rules in self.rules)

    def has_action(self, name: str) -> bool:
        """Whether every set of rules has an action."""
        return all(self.actions(tag, 1).has(name) for tag in range(len(self.rules)))

    # --- making beliefs -----------------------------------------------------------------------------

    def initial(
        self,
        observed: Observed,
        flags: Iterable[Flags],
        min_isr: Iterable[int],
        unclean: Iterable[bool],
        first: int,
        tags: Iterable[int] | None = None,
    ) -> BeliefState:
        """What is believed of a partition of which only its state is known: in each combination that is possible.

        Supposed is that what can be elected holds what was committed.
        """
        tags = tuple(range(len(self.rules)) if tags is None else sorted(tags))
        key = (observed, tuple(flags), tuple(min_isr), tuple(unclean), first, tags)
        if key not in self._initial:
            self._initial[key] = self._begin(*key)
        return self._initial[key]

    def _begin(
        self,
        observed: Observed,
        flags: tuple[Flags, ...],
        min_isr: tuple[int, ...],
        unclean: tuple[bool, ...],
        first: int,
        tags: tuple[int, ...],
    ) -> BeliefState:
        registrations = [f.to_plain() for f in flags]
        slots = len(registrations)
        states = set()
        for tag in tags:
            actions = self.actions(tag, slots)
            for setting in min_isr:
                for allowed in unclean:
                    plain = {
                        "registrations": registrations,
                        "partition": self._partition(observed, tag),
                        "min_insync_replicas": held(setting),
                        "unclean_election": allowed,
                        "first_partition_replicas": first,
                        "complete": sorted({*observed.isr, *observed.elr}),
                        "diminished": True,
                    }
                    states.add((tag, actions.encode(plain)))
        return self.belief(slots, frozenset(states), observed)

    def _partition(self, observed: Observed, tag: int) -> dict[str, Any]:
        """The partition as the model has it; which of two things LastKnownElr holds goes by the rules."""
        return observed.to_plain("last_known_leader" in self.rules[tag] and len(observed.last_known) == 1)

    def created(self, replicas: Slots, flags: Iterable[Flags]) -> Observed:
        """A new partition with these replicas."""
        key = (replicas, tuple(flags))
        if key not in self._created:
            registrations = [f.to_plain() for f in key[1]]
            new = decisions(len(registrations), self.rules[0]).new_partition(
                replicas=list(replicas), registrations=registrations
            )
            self._created[key] = Observed.of(new)
        return self._created[key]

    def belief(self, slots: int, states: frozenset[Tagged], observed: Observed) -> BeliefState:
        """The one belief with these states; the observed partition goes with them."""
        key = (slots, states)
        if key not in self._interned:
            observed = observed.settled()
            found = [self.actions(tag, slots).violated(state) for tag, state in states]
            violated = frozenset.intersection(*found) if found else frozenset()
            doubtful = frozenset(chain.from_iterable(found)) - violated
            astray = any(self._goes_astray(tag, slots, state, observed) for tag, state in states)
            self._interned[key] = BeliefState(slots, states, observed, violated, doubtful, astray)
        return self._interned[key]

    def _goes_astray(self, tag: int, slots: int, state: Scalars, observed: Observed) -> bool:
        entries = self.actions(tag, slots).entries(state)
        return any(number != (slot in observed.elr) for slot, number in enumerate(entries))

    def derived(self, belief: BeliefState, by: Any, make: Callable[[], BeliefState]) -> BeliefState:
        """What a belief state becomes ``by`` something that no observation says; made once."""
        key = (belief, by)
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    def __len__(self) -> int:
        """How many beliefs are kept."""
        return len(self._interned)

    def forget(self) -> None:
        """Begin all tables anew. Belief states that are still in use stay what they are."""
        for belief in self._interned.values():
            belief.updates.clear()
            belief.transitions.clear()
        for table in (self._interned, self._initial, self._derived, self._created):
            table.clear()

    # --- other rules ----------------------------------------------------------------------------------

    def adopted(self, belief: BeliefState, before: BeliefStates, offline: Slots) -> BeliefState:
        """A belief of other rules under these: every set of rules comes into question again.

        ``offline`` are the replicas in log directories that are offline, under these rules.
        """
        states, observed = set(), replace(belief.observed, offline=offline)
        for tag, state in belief.states:
            old = before.actions(tag, belief.slots)
            for new in range(len(self.rules)):
                actions = self.actions(new, belief.slots)
                if actions.paths == old.paths and observed == belief.observed:
                    states.add((new, state))
                    continue
                plain = old.decode(state)
                plain["partition"] = self._partition(observed, new)
                states.add((new, actions.encode(plain)))
        return self.belief(belief.slots, frozenset(states), observed)

    # --- other slots ----------------------------------------------------------------------------------

    def widened(self, belief: BeliefState, flags: Iterable[Flags]) -> BeliefState:
        """The same with more brokers, of which these flags are known."""
        more = tuple(flags)
        return self.derived(belief, more, lambda: self._widened(belief, [f.to_plain() for f in more]))

    def _widened(self, belief: BeliefState, more: list[dict[str, Any]]) -> BeliefState:
        slots = belief.slots + len(more)
        states = set()
        for tag, state in belief.states:
            plain = self.actions(tag, belief.slots).decode(state)
            plain["registrations"] = [*plain["registrations"], *more]
            if "elr_entries" in plain:
                plain["elr_entries"] = [*plain["elr_entries"], *(0 for _ in more)]
            states.add((tag, self.actions(tag, slots).encode(plain)))
        return self.belief(slots, frozenset(states), belief.observed)

    def renumbered(self, belief: BeliefState, order: Slots) -> BeliefState:
        """The same with other slots: ``order`` has the old slots in their new order. What is not in it is dropped."""
        if order == tuple(range(belief.slots)):
            return belief
        return self.derived(belief, order, lambda: self._renumbered(belief, order))

    def _renumbered(self, belief: BeliefState, order: Slots) -> BeliefState:
        new = {slot: position for position, slot in enumerate(order)}
        observed = belief.observed.renamed(new)
        states = set()
        for tag, state in belief.states:
            plain = self.actions(tag, belief.slots).decode(state)
            for name in ("registrations", "elr_entries"):
                if name in plain:
                    plain[name] = [plain[name][slot] for slot in order]
            plain["complete"] = sorted(new[s] for s in plain["complete"] if s in new)
            plain["partition"] = self._partition(observed, tag)
            states.add((tag, self.actions(tag, len(order)).encode(plain)))
        return self.belief(len(order), frozenset(states), observed)

    # --- what a belief says ---------------------------------------------------------------------------

    def values(self, belief: BeliefState, name: str) -> set[Any]:
        """What a variable of the state can be: its values in all states that fit."""
        return {
            _hashable(self.actions(tag, belief.slots).decode(state)[name]) for tag, state in belief.states
        }

    def flags(self, belief: BeliefState) -> list[Flags]:
        """The registrations of the slots."""
        tag, state = next(iter(belief.states))
        return [Flags.of(r) for r in self.actions(tag, belief.slots).decode(state)["registrations"]]


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
