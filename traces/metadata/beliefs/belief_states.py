"""Belief states of partitions: sets of model states, the transitions between them, and the brokers of their slots.

Brokers are slots here, so partitions that differ only in the ids of their brokers share belief states. Epochs are
relative (``evidence``). ``BeliefStates`` makes all belief states under one set of rules, and converts them to other
slots or rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any

from highwater.model.language.initial import Scalars
from highwater.model.replication.controller.types import NO_LEADER
from highwater.traces.metadata.beliefs.controller_stepper import (
    MAX_BROKERS,
    ControllerStepper,
    controller_stepper,
)
from highwater.traces.metadata.beliefs.evidence import (
    SETS,
    Brokers,
    Change,
    Evidence,
    Flags,
    Observation,
    Observed,
    Placed,
    Slots,
    held,
)
from highwater.traces.reports.findings import Candidate
from highwater.traces.reports.observed import PartitionState
from highwater.traces.rules.decisions import decisions

# --- slots -----------------------------------------------------------------------------------------------

Content = Observation | bytes
RECOVERY = ("RECOVERED", "RECOVERING")
NO_REPLICA = "it has no replica"
TOO_MANY = f"more than {MAX_BROKERS} brokers are concerned with it"


class Symbol:
    """An observation with slots for brokers. Symbols are compared by identity, so that lookups are fast."""

    __slots__ = ()


class Binding:
    """The brokers of a belief state's slots, and the symbols of observations under it."""

    __slots__ = ("brokers", "slots", "symbols")

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.slots = {broker: slot for slot, broker in enumerate(brokers)}
        self.symbols: dict[Content, Symbol] = {}


def content(observation: Observation) -> Content:
    """The key by which an observation is looked up. The key of a change without log directories is its bytes."""
    if isinstance(observation, Change) and observation.placed is None:
        return observation.raw
    return observation


class CannotFollow(Exception):
    """The recorded partition is no state of the model. The message is the reason."""


FIELDS = {
    "isr": "isr",
    "eligibleLeaderReplicas": "elr",
    "lastKnownElr": "last_known_elr",
    "replicas": "replicas",
    "addingReplicas": "adding",
    "removingReplicas": "removing",
}


def named(record: Mapping[str, Any]) -> Iterable[int]:
    """The brokers that a change record names, possibly repeated."""
    for name in FIELDS:
        yield from (b for b in record.get(name) or () if b >= 0)
    if record.get("leader", NO_LEADER) >= 0:
        yield record["leader"]


def merged(
    before: Observed, record: Mapping[str, Any], slots: Mapping[int, int], placed: Placed | None = None
) -> Observed:
    """The partition after a change record. A record with the field leader, even if it is −1, raises the leader epoch.

    ``placed`` are the record's changes of log directories. Raises CannotFollow if the result is no partition. Unlike
    the model's ``merge``, this function is the same under all rules; the model's results are compared with its
    result.
    """
    changed: dict[str, Any] = {"bumped": "leader" in record}
    repeated = []
    for name, target in FIELDS.items():
        if record.get(name) is not None:
            members = tuple(slots.get(b, NO_LEADER) for b in record[name])
            _check_members(name, members)
            changed[target] = members if target == "replicas" else tuple(sorted(members))
            # The order of larger sets is not kept, so a set that is written again can have another order.
            if changed[target] == getattr(before, target) and (target == "replicas" or len(members) < 2):
                repeated.append(name)
    if "leader" in record:
        changed["leader"] = slots.get(record["leader"])
    if "leaderRecoveryState" in record:
        if record["leaderRecoveryState"] not in (0, 1):
            raise CannotFollow(f"leaderRecoveryState {record['leaderRecoveryState']}")
        changed["leader_recovery_state"] = RECOVERY[record["leaderRecoveryState"]]
        if changed["leader_recovery_state"] == before.leader_recovery_state:
            repeated.append("leaderRecoveryState")
    moved = set() if placed is None else {slots[broker] for broker in placed.assigned}
    changed["misplaced"] = placed is not None and placed.wrong
    remaining = {*changed.get("replicas", before.replicas)} - moved
    changed["offline"] = tuple(slot for slot in before.offline if slot in remaining)
    return replace(before, repeated=tuple(repeated), **changed)


def _check_members(name: str, members: Slots) -> None:
    if name == "replicas" and not members:
        raise CannotFollow(NO_REPLICA)
    if len(set(members)) != len(members):
        raise CannotFollow(f"{name} has a broker twice")
    if NO_LEADER in members and (name != "lastKnownElr" or len(members) > 1):
        raise CannotFollow(f"{name} has a broker that cannot be one")


@lru_cache(maxsize=10_000)
def in_slots(state: PartitionState) -> tuple[Observed, Brokers]:
    """A partition with slots for brokers, and the slots' brokers. Raises CannotFollow for an impossible partition."""
    others = {b for name in SETS for b in getattr(state, name)}
    if state.leader is not None:
        others.add(state.leader)
    brokers = (*state.replicas, *sorted(others - {*state.replicas, NO_LEADER}))
    if len(brokers) > MAX_BROKERS:
        raise CannotFollow(TOO_MANY)
    if any(b < 0 for b in brokers):
        raise CannotFollow("a broker with a negative number")
    slots = {broker: slot for slot, broker in enumerate(brokers)}
    sets: dict[str, Any] = {
        name: tuple(sorted(slots.get(b, NO_LEADER) for b in getattr(state, name))) for name in SETS
    }
    observed = Observed(
        tuple(slots[b] for b in state.replicas),
        **sets,
        leader=None if state.leader is None else slots[state.leader],
        leader_recovery_state=state.leader_recovery_state,
    )
    for name in ("replicas", *FIELDS):
        _check_members(name, getattr(observed, FIELDS[name]))
    return observed, brokers


def with_brokers(observed: Observed, brokers: Brokers) -> PartitionState:
    """The partition with broker ids instead of slots, sets in the order of slots, leader and partition epoch 0."""
    members: dict[str, Any] = {
        name: tuple([NO_LEADER if s == NO_LEADER else brokers[s] for s in getattr(observed, name)])
        for name in ("replicas", *SETS)
    }
    leader = None if observed.leader is None else brokers[observed.leader]
    return PartitionState(**members, leader=leader, leader_recovery_state=observed.leader_recovery_state)


def candidate(near: Candidate, brokers: Brokers) -> Candidate:
    """A candidate for reports, with brokers instead of slots and with the names of recorded fields."""

    def readable(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return [readable(v) for v in value]
        is_slot = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(brokers)
        return brokers[value] if is_slot else value

    parameters = {
        name: value if name in ("clean", "value", "stale") else readable(value)
        for name, value in near.parameters.items()
    }
    changes: dict[str, Any] = {
        _RECORDED.get(path, path): tuple(NO_LEADER if value is None else readable(value) for value in pair)
        for path, pair in near.differences.items()
    }
    return replace(near, parameters=parameters, differences=changes)


_RECORDED = {
    "elr": "eligibleLeaderReplicas",
    "last_known_elr": "lastKnownElr",
    "adding": "addingReplicas",
    "removing": "removingReplicas",
    "leader_recovery_state": "leaderRecoveryState",
    "bumped": "leader epoch grows",
    "repeated": "written as it was",
    "misplaced": "directories that no decision writes",
}


# --- transitions -----------------------------------------------------------------------------------------

Update = tuple[frozenset[Scalars], frozenset[str]]
"""The model states after evidence, and the names of the actions that lead there."""
Word = Symbol | tuple[Symbol | None, ...] | None
"""The lookup key of a transition: the symbol of one observation, or those of several in their order."""


class BeliefState:
    """A set of model states that share the observed partition and the registrations.

    ``violated`` names the properties that hold in no state, ``doubtful`` those that hold in some states only.
    ``is_indexed_astray``: the controller's index of ELR members may have surplus or missing entries. ``transitions``
    and ``updates`` are caches.
    """

    __slots__ = (
        "doubtful", "is_indexed_astray", "leaderless", "observed", "slots", "states", "transitions", "under_min_isr",
        "updates", "violated",
    )  # fmt: skip

    def __init__(
        self,
        slots: int,
        states: frozenset[Scalars],
        observed: Observed,
        violated: frozenset[str],
        doubtful: frozenset[str],
        is_indexed_astray: bool = False,
    ) -> None:
        self.slots, self.states, self.observed = slots, states, observed
        self.is_indexed_astray = is_indexed_astray
        self.violated, self.doubtful = violated, doubtful
        self.under_min_isr, self.leaderless = "has_min_isr" in violated, "has_leader" in violated
        self.transitions: dict[Word, Transition] = {}
        self.updates: dict[Evidence, Update] = {}


@dataclass(frozen=True)
class Span:
    """A part of a transition: the position of its last observation, and the belief state after it.

    ``order`` has, for each slot after the span, the broker's slot before the transition; brokers that the transition
    adds have the next slots there. ``changes`` is the number of the partition's records in the span; ``bumps`` of them
    raise the leader epoch. ``findings`` are properties that stop holding, each with True if that is certain.
    ``before`` and ``candidates`` are set if nothing explains the observation.
    """

    last: int
    belief: BeliefState
    order: Slots
    changes: int = 0
    bumps: int = 0
    causes: frozenset[str] = frozenset()
    findings: tuple[tuple[str, bool], ...] = ()
    before: tuple[Mapping[str, Any], ...] = ()
    candidates: tuple[Candidate, ...] | None = None

    @property
    def cause(self) -> str | None:
        """The names of the actions that explain the span; None if none does."""
        return " or ".join(sorted(self.causes)) or None


class Transition:
    """The change of a belief state by one or more observations, in spans.

    ``is_plain``: there is nothing to report, and brokers and the number of replicas stay the same. ``is_timed``: a time
    under min ISR or without a leader begins or ends. ``moves``: the slots stand for other brokers afterwards.
    """

    __slots__ = ("after", "bumps", "changes", "is_plain", "is_timed", "moves", "spans")

    def __init__(self, before: BeliefState, spans: tuple[Span, ...]) -> None:
        self.spans = spans
        self.after = after = spans[-1].belief
        self.changes = sum([s.changes for s in spans])
        self.bumps = sum([s.bumps for s in spans])
        self.moves = spans[-1].order != tuple(range(before.slots))
        self.is_plain = (
            not self.moves
            and all(not s.findings and s.candidates is None for s in spans)
            # If an ELR member becomes a replica again, the slots stay and the replicas change.
            and len(before.observed.replicas) == len(after.observed.replicas)
            and not (before.is_indexed_astray and before.observed.elr != after.observed.elr)
        )
        self.is_timed = (before.under_min_isr, before.leaderless) != (after.under_min_isr, after.leaderless)

    @property
    def is_explained(self) -> bool:
        """True if every observation is explained."""
        return all(s.candidates is None for s in self.spans)


# --- belief states ---------------------------------------------------------------------------------------


class BeliefStates:
    """Creates belief states under a set of rules, one object for each content."""

    def __init__(self, rules: frozenset[str]) -> None:
        self.rules = rules
        self._interned: dict[tuple[int, frozenset[Scalars]], BeliefState] = {}
        self._initial: dict[Any, BeliefState] = {}
        self._derived: dict[tuple[BeliefState, Any], BeliefState] = {}
        self._created: dict[tuple[Slots, tuple[Flags, ...]], Observed] = {}

    def actions(self, slots: int) -> ControllerStepper:
        """The controller's actions for this number of brokers."""
        return controller_stepper(slots, self.rules)

    def has_action(self, name: str) -> bool:
        """True if the rules have this action."""
        return self.actions(1).has(name)

    # --- making beliefs -----------------------------------------------------------------------------

    def initial(
        self,
        observed: Observed,
        flags: Iterable[Flags],
        min_isr: Iterable[int],
        unclean: Iterable[bool],
        first: int,
    ) -> BeliefState:
        """The belief state of a partition: a model state for each possible combination of settings.

        ``flags`` are those of the slots' brokers, and ``first`` is as in ``TopicSettings``. Members of the ISR and ELR
        are assumed to hold every committed record.
        """
        key = (observed, tuple(flags), tuple(min_isr), tuple(unclean), first)
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
    ) -> BeliefState:
        registrations = [f.to_plain() for f in flags]
        slots = len(registrations)
        states = set()
        for setting in min_isr:
            for allowed in unclean:
                plain = {
                    "registrations": registrations,
                    "partition": self._partition(observed),
                    "min_insync_replicas": held(setting),
                    "unclean_election": allowed,
                    "first_partition_replicas": first,
                    "complete": sorted({*observed.isr, *observed.elr}),
                    "diminished": True,
                }
                states.add(self.actions(slots).encode(plain))
        return self.belief(slots, frozenset(states), observed)

    def _partition(self, observed: Observed) -> dict[str, Any]:
        """The observed partition as plain fields of the model's state; the rules determine how LastKnownElr is read."""
        return observed.to_plain("last_known_leader" in self.rules and len(observed.last_known_elr) == 1)

    def created(self, replicas: Slots, flags: Iterable[Flags]) -> Observed:
        """The partition that the controller creates with these replicas, whose brokers have these flags."""
        key = (replicas, tuple(flags))
        if key not in self._created:
            registrations = [f.to_plain() for f in key[1]]
            new = decisions(len(registrations), self.rules).new_partition(
                replicas=list(replicas), registrations=registrations
            )
            self._created[key] = Observed.of(new)
        return self._created[key]

    def belief(self, slots: int, states: frozenset[Scalars], observed: Observed) -> BeliefState:
        """The belief state with these states and the observed partition that they share.

        Equal states give the same object.
        """
        key = (slots, states)
        if key not in self._interned:
            observed = observed.settled()
            actions = self.actions(slots)
            found = [actions.violated(state) for state in states]
            violated = frozenset.intersection(*found) if found else frozenset()
            doubtful = frozenset(chain.from_iterable(found)) - violated
            astray = any(
                number != (slot in observed.elr)
                for state in states
                for slot, number in enumerate(actions.entries(state))
            )
            self._interned[key] = BeliefState(slots, states, observed, violated, doubtful, astray)
        return self._interned[key]

    def derived(self, belief: BeliefState, by: Any, make: Callable[[], BeliefState]) -> BeliefState:
        """The belief state that ``make`` computes from ``belief``; cached under the key (``belief``, ``by``)."""
        key = (belief, by)
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    def __len__(self) -> int:
        """The number of belief states in the tables."""
        return len(self._interned)

    def forget(self) -> None:
        """Clear all tables. Belief states that are still in use stay valid."""
        for belief in self._interned.values():
            belief.updates.clear()
            belief.transitions.clear()
        for table in (self._interned, self._initial, self._derived, self._created):
            table.clear()

    # --- other rules ----------------------------------------------------------------------------------

    def adopted(self, belief: BeliefState, before: BeliefStates, offline: Slots) -> BeliefState:
        """A belief state of ``before``, converted to these rules.

        ``offline`` are the replicas in offline log directories, if the rules depend on directories.
        """
        states, observed = set(), replace(belief.observed, offline=offline)
        old, new = before.actions(belief.slots), self.actions(belief.slots)
        if new.paths == old.paths and observed == belief.observed:
            return self.belief(belief.slots, belief.states, observed)
        for state in belief.states:
            plain = old.decode(state)
            plain["partition"] = self._partition(observed)
            states.add(new.encode(plain))
        return self.belief(belief.slots, frozenset(states), observed)

    # --- other slots ----------------------------------------------------------------------------------

    def widened(self, belief: BeliefState, flags: Iterable[Flags]) -> BeliefState:
        """The belief state with new slots at the end: one for each item of ``flags``, for a broker with these flags."""
        more = tuple(flags)
        return self.derived(belief, more, lambda: self._widened(belief, [f.to_plain() for f in more]))

    def _widened(self, belief: BeliefState, more: list[dict[str, Any]]) -> BeliefState:
        slots = belief.slots + len(more)
        states = set()
        for state in belief.states:
            plain = self.actions(belief.slots).decode(state)
            plain["registrations"] = [*plain["registrations"], *more]
            if "elr_entries" in plain:
                plain["elr_entries"] = [*plain["elr_entries"], *(0 for _ in more)]
            states.add(self.actions(slots).encode(plain))
        return self.belief(slots, frozenset(states), belief.observed)

    def renumbered(self, belief: BeliefState, order: Slots) -> BeliefState:
        """The belief state whose slots are the old slots in ``order``; other slots are dropped."""
        if order == tuple(range(belief.slots)):
            return belief
        return self.derived(belief, order, lambda: self._renumbered(belief, order))

    def _renumbered(self, belief: BeliefState, order: Slots) -> BeliefState:
        new = {slot: position for position, slot in enumerate(order)}
        observed = belief.observed.renamed(new)
        before, after, partition = (
            self.actions(belief.slots),
            self.actions(len(order)),
            self._partition(observed),
        )
        states = frozenset(after.renumbered(before, state, order, partition) for state in belief.states)
        return self.belief(len(order), states, observed)

    # --- contents of a belief ---------------------------------------------------------------------------

    def values(self, belief: BeliefState, name: str) -> set[Any]:
        """The values that a state variable has in the states of a belief state."""
        return {_hashable(self.actions(belief.slots).decode(state)[name]) for state in belief.states}

    def flags(self, belief: BeliefState) -> list[Flags]:
        """The registration flags of each slot's broker, which all states share."""
        state = next(iter(belief.states))
        return [Flags.of(r) for r in self.actions(belief.slots).decode(state)["registrations"]]


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
