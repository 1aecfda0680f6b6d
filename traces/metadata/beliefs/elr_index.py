"""The controller's index of ELR members, whose entries can outlive membership: what it can hold, by belief state.

An entry that goes astray counts for the topic's first partition from then on.
"""

from __future__ import annotations

from itertools import product

from highwater.model.language.model import Scalars
from highwater.traces.metadata.beliefs.actions import MAX_ENTRIES
from highwater.traces.metadata.beliefs.belief_states import BeliefStates
from highwater.traces.metadata.beliefs.evidence import Slots
from highwater.traces.metadata.beliefs.transitions import BeliefState, Tagged
from highwater.traces.rules.decisions import decisions


def after_failover(beliefs: BeliefStates, belief: BeliefState) -> BeliefState:
    """What is believed under another controller: any entry of the index that no member has can be forgotten."""

    def make() -> BeliefState:
        states: set[Tagged] = set()
        for tag, state in belief.states:
            actions = beliefs.actions(tag, belief.slots)
            known = enumerate(actions.entries(state))
            left = [range(min(n, slot in belief.observed.elr), n + 1) for slot, n in known]
            states |= {(tag, actions.with_entries(state, entries)) for entries in product(*left)}
        return beliefs.belief(belief.slots, frozenset(states), belief.observed)

    return beliefs.derived(belief, "failover", make)


def astray(
    beliefs: BeliefStates, before: BeliefState, after: BeliefState, slot: int, later: int | None
) -> frozenset[int]:
    """How many entries of a slot's broker can have gone astray between two belief states: those beyond the first.

    They do so as it leaves the ELR. ``later`` is its slot afterwards, None where it has none.
    """
    is_member = later in after.observed.elr
    if slot not in before.observed.elr or is_member:
        return frozenset((0,))
    left = {0} if later is None else _entries(beliefs, after, later)
    # A change that passes the index by leaves the entries as they were.
    found = _entries(beliefs, before, slot) if 0 in left else {0}
    return frozenset(_gone_astray(beliefs, entries) for entries in found)


def _entries(beliefs: BeliefStates, belief: BeliefState, slot: int) -> set[int]:
    """How often a slot's broker can be in the index."""
    found = (beliefs.actions(tag, belief.slots).entries(state) for tag, state in belief.states)
    return {entries[slot] if entries else 0 for entries in found}


def _gone_astray(beliefs: BeliefStates, entries: int) -> int:
    found = decisions(1, beliefs.rules[0]).entries_after(entries=entries, was_member=True, is_member=False)
    gone: int = found["astray"]
    return gone


def concerned(beliefs: BeliefStates, belief: BeliefState) -> Slots:
    """The slots that are in a field of the partition, or in the controller's index of its ELR."""
    used = belief.observed.used()
    if not belief.is_indexed_astray:
        return used
    others = {*range(belief.slots)} - {*used}
    return (*used, *(slot for slot in sorted(others) if _entries(beliefs, belief, slot) != {0}))


def with_astray(
    beliefs: BeliefStates, belief: BeliefState, slot: int, numbers: frozenset[int]
) -> BeliefState:
    """The topic's first partition, to which so many entries of a slot's broker have come."""

    def make() -> BeliefState:
        states: set[Tagged] = set()
        for tag, state in belief.states:
            actions = beliefs.actions(tag, belief.slots)
            entries: Scalars = actions.entries(state)
            for number in numbers:
                more = (*entries[:slot], min(entries[slot] + number, MAX_ENTRIES), *entries[slot + 1 :])
                states.add((tag, actions.with_entries(state, more)))
        return beliefs.belief(belief.slots, frozenset(states), belief.observed)

    return beliefs.derived(belief, (slot, numbers), make)
