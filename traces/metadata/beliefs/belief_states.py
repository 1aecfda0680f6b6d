"""What is believed of partitions: sets of model states, and the brokers that their slots stand for.

Slots and the brokers that they stand for: a partition in both, and after a record, which names brokers.

Belief states, and the transitions between them: what the observations of one batch make of one, in spans.

All belief states of one replay: how they are made, and made anew for other slots and under other rules.

Partitions that differ in the numbers of their brokers only have the same belief states, as brokers are slots here.
Epochs are relative (``actions``). A belief state holds the model states of several sets of rules side by side where the
log does not say which of them was in force.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from highwater.model.language.initial import Scalars
from highwater.model.replication.controller.types import NO_LEADER
from highwater.traces.metadata.beliefs.evidence import (
    MAX_BROKERS,
    SETS,
    Brokers,
    Change,
    ControllerStepper,
    Evidence,
    Flags,
    NearMiss,
    Observation,
    Observed,
    Placed,
    Slots,
    controller_stepper,
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
    """An observation with slots for brokers. Two are the same only where they are the same object, to be found fast."""

    __slots__ = ()


class Binding:
    """The brokers that the slots of a belief state stand for, and the symbols of observations that name them."""

    __slots__ = ("brokers", "slots", "symbols")

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.slots = {broker: slot for slot, broker in enumerate(brokers)}
        self.symbols: dict[Content, Symbol] = {}


def content(observation: Observation) -> Content:
    """What an observation is looked up by: a change that says nothing of log directories by its bytes alone."""
    if isinstance(observation, Change) and observation.placed is None:
        return observation.raw
    return observation


class CannotFollow(Exception):
    """What was recorded of a partition is not a state that the model has; the message says why."""


FIELDS = {
    "isr": "isr",
    "eligibleLeaderReplicas": "elr",
    "lastKnownElr": "last_known_elr",
    "replicas": "replicas",
    "addingReplicas": "adding",
    "removingReplicas": "removing",
}


def named(record: Mapping[str, Any]) -> Iterable[int]:
    """The brokers that a record names."""
    for name in FIELDS:
        yield from (b for b in record.get(name) or () if b >= 0)
    if record.get("leader", NO_LEADER) >= 0:
        yield record["leader"]


def merged(
    before: Observed, record: Mapping[str, Any], slots: Mapping[int, int], placed: Placed | None = None
) -> Observed:
    """The partition after a record, which holds what changed; the leader epoch grows when the leader is in it.

    ``placed`` is what the record says of log directories. Raises CannotFollow where that is no partition.
    """
    changed: dict[str, Any] = {"bumped": "leader" in record}
    repeated = []
    for name, target in FIELDS.items():
        if record.get(name) is not None:
            members = tuple(slots.get(b, NO_LEADER) for b in record[name])
            _check_members(name, members)
            changed[target] = members if target == "replicas" else tuple(sorted(members))
            # Of larger sets the order is not kept, and one that is written anew can have another.
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


def in_slots(state: PartitionState) -> tuple[Observed, Brokers]:
    """A partition in slots, and the brokers of the slots. Raises CannotFollow for an impossible partition."""
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
    """A partition with the numbers of its brokers, without epochs; sets in the order of the replicas."""
    members: dict[str, Any] = {
        name: tuple([NO_LEADER if s == NO_LEADER else brokers[s] for s in getattr(observed, name)])
        for name in ("replicas", *SETS)
    }
    leader = None if observed.leader is None else brokers[observed.leader]
    return PartitionState(**members, leader=leader, leader_recovery_state=observed.leader_recovery_state)


def candidate(near: NearMiss, brokers: Brokers) -> Candidate:
    """What came near, with brokers instead of slots."""

    def readable(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return [readable(v) for v in value]
        is_slot = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(brokers)
        return brokers[value] if is_slot else value

    parameters = {
        name: value if name in ("clean", "value", "stale") else readable(value)
        for name, value in zip(near.parameters, near.hypothesis.values, strict=True)
    }
    changes: dict[str, Any] = {
        _RECORDED.get(path, path): tuple(NO_LEADER if value is None else readable(value) for value in pair)
        for path, pair in near.differences.items()
    }
    return Candidate(near.hypothesis.action, parameters, near.refused_by, near.passed, changes)


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

Tagged = tuple[int, Scalars]
"""A model state, and the number of the set of rules under which it was reached."""
Update = tuple[frozenset[Tagged], frozenset[str]]
"""The model states after evidence, and the names of the actions that lead there."""
Word = Symbol | tuple[Symbol, ...]
"""What a transition is looked up by: the symbol of an observation, or those of several in their order."""


class BeliefState:
    """A set of tagged model states, all with the same observed partition and registrations.

    ``violated`` are the names of properties that hold in no state, ``doubtful`` of those that hold in some only;
    ``tags`` the numbers of the sets of rules under which something fits. ``is_indexed_astray``: the controller's index
    of ELR members can have other entries than one for each member. ``transitions`` are those that
    were explained already, ``updates`` what was made of evidence already; who explains keeps both.
    """

    __slots__ = (
        "doubtful", "is_indexed_astray", "leaderless", "observed", "slots", "states", "tags", "transitions",
        "under_min_isr", "updates", "violated",
    )  # fmt: skip

    def __init__(
        self,
        slots: int,
        states: frozenset[Tagged],
        observed: Observed,
        violated: frozenset[str],
        doubtful: frozenset[str],
        is_indexed_astray: bool = False,
    ) -> None:
        self.slots, self.states, self.observed = slots, states, observed
        self.is_indexed_astray = is_indexed_astray
        self.violated, self.doubtful = violated, doubtful
        self.tags = frozenset(tag for tag, _ in states)
        self.under_min_isr, self.leaderless = "has_min_isr" in violated, "has_leader" in violated
        self.transitions: dict[Word, Transition] = {}
        self.updates: dict[Evidence, Update] = {}


@dataclass(frozen=True)
class Span:
    """A part of a transition: its last observation, by its place, and the belief state after it.

    ``order`` has the slots before the transition, and after them those of brokers that are new to the partition, in the
    order in which they are then. ``changes`` is 1 where a record of the partition is in it, ``bumps`` 1 where it ends
    the leader epoch. ``findings`` are properties that do not hold any more, each with whether that is certain.
    ``before`` and ``candidates`` are there where nothing explains an observation.
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
        """The actions that explain it, in words; None where none does."""
        return " or ".join(sorted(self.causes)) or None


class Transition:
    """What one or more observations make of a belief state.

    ``is_plain`` where there is nothing to report: no finding, nothing unexplained, the same brokers, and as many
    replicas. ``moves`` where the slots stand for other brokers afterwards.
    """

    __slots__ = ("after", "bumps", "changes", "is_plain", "moves", "spans")

    def __init__(self, before: BeliefState, spans: tuple[Span, ...]) -> None:
        self.spans = spans
        self.after = after = spans[-1].belief
        self.changes = sum([s.changes for s in spans])
        self.bumps = sum([s.bumps for s in spans])
        self.moves = spans[-1].order != tuple(range(before.slots))
        self.is_plain = (
            not self.moves
            and all(not s.findings and s.candidates is None for s in spans)
            and before.under_min_isr == after.under_min_isr
            and before.leaderless == after.leaderless
            # What was a member of the ELR, and no replica, can become one again: the slots stay, the replicas do not.
            and len(before.observed.replicas) == len(after.observed.replicas)
            and before.tags == after.tags
            and not (before.is_indexed_astray and before.observed.elr != after.observed.elr)
        )

    @property
    def is_explained(self) -> bool:
        """Whether every observation is explained."""
        return all(s.candidates is None for s in self.spans)


# --- belief states ---------------------------------------------------------------------------------------

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
        return observed.to_plain("last_known_leader" in self.rules[tag] and len(observed.last_known_elr) == 1)

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
