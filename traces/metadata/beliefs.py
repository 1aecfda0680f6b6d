"""Beliefs: the sets of model states that fit what was observed of a partition, and the steps between them.

Brokers are slots here: 0, 1, … in the order of the replicas, and after them brokers that are still in some other
field. So partitions that differ in the numbers of their brokers only have the same beliefs. Epochs are
relative (``actions``). A belief holds the states of several sets of rules side by side where the log does not
say which of them was in force.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import Any, NamedTuple

from highwater.model.language.interpreter import differences
from highwater.model.language.model import Scalars
from highwater.model.replication.controller.types import NO_LEADER
from highwater.traces.decisions import decisions
from highwater.traces.metadata.actions import MAX_BROKERS, Choice, ControllerActions, controller_actions

Slots = tuple[int, ...]
Rules = frozenset[str]
Tagged = tuple[int, Scalars]
"""A state, and the number of the set of rules under which it was reached."""

NEAREST = 5
"""So many actions that came near are told of a record that nothing explains."""


@dataclass(frozen=True)
class Observed:
    """A partition as the metadata log has it, brokers as slots.

    ``bumped``: the leader epoch grew in the last step; ``repeated``: fields that its record holds as they were, which
    no decision writes.

    ``last_known`` is the field LastKnownElr, whatever a version keeps in it. Sets are in ascending order.
    """

    replicas: Slots
    isr: Slots
    elr: Slots = ()
    last_known: Slots = ()
    leader: int = NO_LEADER
    recovery: str = "RECOVERED"
    adding: Slots = ()
    removing: Slots = ()
    bumped: bool = False
    repeated: tuple[str, ...] = ()

    def used(self) -> Slots:
        """The slots that occur: the replicas in their order, then the others."""
        others = {*self.isr, *self.elr, *self.last_known, *self.adding, *self.removing, self.leader}
        return (*self.replicas, *sorted(others - {*self.replicas, NO_LEADER}))

    def renamed(self, new: Mapping[int, int]) -> Observed:
        """With other slots."""

        def ascending(slots: Slots) -> Slots:
            return tuple(sorted(new.get(s, NO_LEADER) for s in slots))

        return Observed(
            tuple(new[s] for s in self.replicas),
            ascending(self.isr),
            ascending(self.elr),
            ascending(self.last_known),
            new.get(self.leader, NO_LEADER),
            self.recovery,
            ascending(self.adding),
            ascending(self.removing),
        )


class Flags(NamedTuple):
    """What the metadata log has of a broker's registration, apart from its epoch."""

    registered: bool = False
    fenced: bool = False
    in_controlled_shutdown: bool = False

    @classmethod
    def of(cls, registration: Mapping[str, Any]) -> Flags:
        """Those of a registration as the model has it."""
        return cls(registration["registered"], registration["fenced"], registration["in_controlled_shutdown"])

    def to_plain(self) -> dict[str, Any]:
        """As the model has it, with an epoch of 0: epochs are relative."""
        return {
            "registered": self.registered,
            "epoch": 0,
            "fenced": self.fenced,
            "in_controlled_shutdown": self.in_controlled_shutdown,
        }


NO_FLAGS = Flags()
"""Those of a broker that is not registered."""


@dataclass(frozen=True)
class Event:
    """Something observed that concerns a partition.

    ``after`` is the partition after the record that belongs to it, None where none does. ``kind`` is
    "change" for a record on its own; the name of one of the model's actions for what happened to a broker
    (``slot``, with its ``flags`` after it); "settings" for the configuration (``min_isr``, ``unclean``, and the number
    of replicas of the topic's ``first`` partition, 0 for that itself; ``of_min_isr``: a record of min.insync.replicas
    says so); "unregister" for a broker that is removed. ``records``: so often the same record stands there;
    ``assigns``: it says in which log directories the replicas are.
    """

    kind: str
    after: Observed | None = None
    slot: int = 0
    flags: Flags = NO_FLAGS
    min_isr: int = 1
    unclean: bool = False
    first: int = 0
    of_min_isr: bool = False
    records: int = 1
    assigns: bool = False


@dataclass(frozen=True)
class Near:
    """An action that came near to an event that nothing explains; brokers as slots."""

    choice: Choice
    parameters: tuple[str, ...]
    refused_by: tuple[str, ...]
    passed: tuple[str, ...]
    differences: Mapping[str, tuple[Any, Any]]


class Belief:
    """A set of tagged states, all with the same observed partition and registrations.

    ``violated`` are the names of properties that hold in no state, ``doubtful`` of those that hold in some only;
    ``tags`` the numbers of the sets of rules under which something fits. ``steps`` is for who looks up what was
    explained already.
    """

    __slots__ = (
        "_next", "doubtful", "leaderless", "observed", "slots", "states", "steps", "tags", "under_min_isr", "violated",
    )  # fmt: skip

    def __init__(
        self,
        slots: int,
        states: frozenset[Tagged],
        observed: Observed,
        violated: frozenset[str],
        doubtful: frozenset[str],
    ) -> None:
        self.slots, self.states, self.observed = slots, states, observed
        self.violated, self.doubtful = violated, doubtful
        self.tags = frozenset(tag for tag, _ in states)
        self.under_min_isr, self.leaderless = "has_min_isr" in violated, "has_leader" in violated
        self.steps: dict[Any, Any] = {}
        self._next: dict[Event, tuple[frozenset[Tagged], frozenset[str]]] = {}


class Beliefs:
    """All beliefs of one replay. ``rules`` are the sets of rules that can have been in force."""

    def __init__(self, rules: tuple[Rules, ...]) -> None:
        self.rules = rules
        self._interned: dict[tuple[int, frozenset[Tagged]], Belief] = {}
        self._initial: dict[Any, Belief] = {}
        self._others: dict[tuple[Belief, Any], Belief] = {}
        self._created: dict[tuple[Slots, tuple[Flags, ...]], Observed] = {}

    def actions(self, tag: int, slots: int) -> ControllerActions:
        """The actions for one set of rules."""
        return controller_actions(slots, self.rules[tag])

    def has_rule(self, name: str) -> bool:
        """Whether every set of rules has a rule."""
        return all(name in rules for rules in self.rules)

    def has_action(self, name: str) -> bool:
        """Whether every set of rules has an action."""
        return all(name in self.actions(tag, 1).names() for tag in range(len(self.rules)))

    # --- making beliefs -----------------------------------------------------------------------------

    def initial(
        self,
        observed: Observed,
        flags: Iterable[Flags],
        min_isr: Iterable[int],
        unclean: Iterable[bool],
        first: int,
        tags: Iterable[int] | None = None,
    ) -> Belief:
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
    ) -> Belief:
        registrations = [f.to_plain() for f in flags]
        slots = len(registrations)
        states = set()
        for tag in tags:
            actions = self.actions(tag, slots)
            for setting in min_isr:
                for allowed in unclean:
                    plain = {
                        "registrations": registrations,
                        "partition": self._by_rules(observed, tag),
                        "min_insync_replicas": _held(setting),
                        "unclean_election": allowed,
                        "first_partition_replicas": first,
                        "complete": sorted({*observed.isr, *observed.elr}),
                        "diminished": True,
                    }
                    states.add((tag, actions.encode(plain)))
        return self.belief(slots, frozenset(states), observed)

    def _by_rules(self, observed: Observed, tag: int) -> dict[str, Any]:
        """The partition as the model has it; which of two things LastKnownElr holds goes by the rules."""
        return self._plain(observed, "last_known_leader" in self.rules[tag] and len(observed.last_known) == 1)

    def _plain(self, observed: Observed, is_leader: bool) -> dict[str, Any]:
        """The partition as the model has it; ``is_leader``: LastKnownElr holds the last known leader."""
        return {
            "replicas": list(observed.replicas),
            "adding": list(observed.adding),
            "removing": list(observed.removing),
            "isr": list(observed.isr),
            "elr": list(observed.elr),
            "last_known_elr": [] if is_leader else [s for s in observed.last_known if s != NO_LEADER],
            "last_known_leader": observed.last_known[0] if is_leader else None,
            "leader": None if observed.leader == NO_LEADER else observed.leader,
            "leader_epoch": 0,
            "partition_epoch": 0,
            "leader_recovery_state": observed.recovery,
        }

    def created(self, replicas: Slots, flags: Iterable[Flags]) -> Observed:
        """A new partition with these replicas."""
        key = (replicas, tuple(flags))
        if key not in self._created:
            registrations = [f.to_plain() for f in key[1]]
            new = decisions(len(registrations), self.rules[0]).new_partition(
                replicas=list(replicas), registrations=registrations
            )
            self._created[key] = self.observe({"partition": new})
        return self._created[key]

    def belief(self, slots: int, states: frozenset[Tagged], observed: Observed) -> Belief:
        """The one belief with these states; the observed partition goes with them."""
        key = (slots, states)
        if key not in self._interned:
            observed = replace(observed, bumped=False, repeated=())
            found = [self.actions(tag, slots).violated(state) for tag, state in states]
            violated = frozenset.intersection(*found) if found else frozenset()
            doubtful = frozenset(chain.from_iterable(found)) - violated
            self._interned[key] = Belief(slots, states, observed, violated, doubtful)
        return self._interned[key]

    def __len__(self) -> int:
        """How many beliefs are kept."""
        return len(self._interned)

    def forget(self) -> None:
        """Begin all tables anew. Beliefs that are still in use stay what they are."""
        for belief in self._interned.values():
            belief._next.clear()
            belief.steps.clear()
        for table in (self._interned, self._initial, self._others, self._created):
            table.clear()

    # --- steps --------------------------------------------------------------------------------------

    def step(self, belief: Belief, event: Event) -> tuple[frozenset[Tagged], frozenset[str]]:
        """The states after an event, with the names of the actions that lead there; none where nothing explains it."""
        if event not in belief._next:
            belief._next[event] = self._step(belief, event)
        return belief._next[event]

    def _step(self, belief: Belief, event: Event) -> tuple[frozenset[Tagged], frozenset[str]]:
        found: set[Tagged] = set()
        names: set[str] = set()
        expected = {tag: self._expected(tag, belief, event) for tag in belief.tags}
        for choices in self._rounds(belief, event):
            for tag, state in belief.states:
                actions = self.actions(tag, belief.slots)
                for choice in choices:
                    after = self._take(actions, state, choice, event, expected[tag])
                    if after is not None:
                        found.add((tag, after))
                        names.add(choice.action)
            if found:
                break
        return frozenset(found), frozenset(names)

    def _expected(self, tag: int, belief: Belief, event: Event) -> frozenset[Scalars]:
        """The partition after an event, as the scalars that it can be: LastKnownElr can hold one of two things."""
        after = belief.observed if event.after is None else event.after
        if after.repeated:
            return frozenset()
        actions = self.actions(tag, belief.slots)
        found = set()
        for is_leader in (False, True) if len(after.last_known) == 1 else (False,):
            if is_leader or NO_LEADER not in after.last_known:
                plain = self._plain(after, is_leader)
                records = 0 if event.after is None else event.records
                plain["leader_epoch"], plain["partition_epoch"] = records * int(after.bumped), records
                found.add(actions.encode_partition(plain))
        return frozenset(found)

    def _rounds(self, belief: Belief, event: Event) -> Iterator[list[Choice]]:
        """The actions that can explain an event: the likely ones, and only if none of them does, the others."""
        yield list(_choices(belief, event))
        if event.kind == "change":
            yield [Choice("alter_partition", (isr, None)) for isr in _subsets(belief.observed.replicas)]

    def _take(
        self,
        actions: ControllerActions,
        state: Scalars,
        choice: Choice,
        event: Event,
        expected: frozenset[Scalars],
    ) -> Scalars | None:
        """The state after an action that agrees with the event; None where the action does not."""
        if choice.action in ENVIRONMENT and choice.action not in actions.names():
            return self._without_rule(actions, state, choice, event)
        if choice.action not in actions.names() or not _may_cause(actions, choice, event):
            return None
        compiled = actions.compiled(choice)
        if compiled is None or not compiled.enabled(state):
            return None
        scalars = compiled.after(state)
        if scalars[actions.partition] not in expected:
            return None
        if event.kind in BROKER_ACTIONS and actions.flags(scalars, event.slot) != event.flags:
            return None
        if event.kind == "settings":
            after = actions.decode(scalars)
            _set(after, event)
            scalars = actions.encode(after)
        return actions.without_epochs(scalars)

    def _without_rule(
        self, actions: ControllerActions, state: Scalars, choice: Choice, event: Event
    ) -> Scalars | None:
        """What happens to the state's surroundings, and changes no partition."""
        plain = actions.decode(state)
        if choice.action == "unregister":
            plain["registrations"][event.slot] = Flags().to_plain()
        else:
            decided = event.of_min_isr and "min_isr_change_clears_elr" in actions.rules
            if decided or plain["min_insync_replicas"] != _held(event.min_isr):
                return None
            _set(plain, event)
        return actions.encode(plain) if event.after is None else None

    def observe(self, plain: Mapping[str, Any]) -> Observed:
        """A state as the metadata log would have it."""
        p = plain["partition"]
        last_known = p["last_known_elr"]
        if not last_known and p["last_known_leader"] is not None:
            last_known = [p["last_known_leader"]]
        return Observed(
            tuple(p["replicas"]),
            tuple(p["isr"]),
            tuple(p["elr"]),
            tuple(last_known),
            NO_LEADER if p["leader"] is None else p["leader"],
            p["leader_recovery_state"],
            tuple(p["adding"]),
            tuple(p["removing"]),
            p["leader_epoch"] > 0,
        )

    def nearest(self, belief: Belief, event: Event) -> list[Near]:
        """The actions that came nearest to an event that nothing explains, the nearest first."""
        expected = event.after if event.after is not None else belief.observed
        near: dict[Choice, Near] = {}
        for tag, state in sorted(belief.states):
            actions = self.actions(tag, belief.slots)
            for choice in _choices(belief, event):
                compiled = actions.compiled(choice) if choice.action in actions.names() else None
                if compiled is None:
                    continue
                refused = compiled.refusals(state)
                after = actions.decode(compiled.after(state))
                wrong = differences(vars(self.observe(after)), vars(expected))
                if event.kind in BROKER_ACTIONS:
                    flags = Flags.of(after["registrations"][event.slot])
                    wrong |= differences(flags._asdict(), event.flags._asdict(), "registration")
                if event.after is not None and not after["partition"]["partition_epoch"]:
                    wrong["record"] = ("none", "written")
                if event.after is None and after["partition"]["partition_epoch"]:
                    wrong["record"] = ("written", "none")
                passed = tuple(g for g in compiled.guards() if g not in refused)
                found = Near(choice, tuple(compiled.instance.parameters), refused, passed, wrong)
                if choice not in near or _distance(found) < _distance(near[choice]):
                    near[choice] = found
        return sorted(near.values(), key=_distance)[:NEAREST]

    # --- other rules ----------------------------------------------------------------------------------

    def adopted(self, belief: Belief, before: Beliefs) -> Belief:
        """A belief of other rules under these: every set of rules comes into question again."""
        states = set()
        for tag, state in belief.states:
            old = before.actions(tag, belief.slots)
            for new in range(len(self.rules)):
                actions = self.actions(new, belief.slots)
                if actions.paths == old.paths:
                    states.add((new, state))
                    continue
                plain = old.decode(state)
                plain["partition"] = self._by_rules(belief.observed, new)
                states.add((new, actions.encode(plain)))
        return self.belief(belief.slots, frozenset(states), belief.observed)

    # --- other slots ----------------------------------------------------------------------------------

    def widened(self, belief: Belief, flags: Iterable[Flags]) -> Belief:
        """The same with more brokers, of which these flags are known."""
        key = (belief, tuple(flags))
        if key not in self._others:
            self._others[key] = self._widened(belief, [f.to_plain() for f in key[1]])
        return self._others[key]

    def _widened(self, belief: Belief, more: list[dict[str, Any]]) -> Belief:
        slots = belief.slots + len(more)
        states = set()
        for tag, state in belief.states:
            plain = self.actions(tag, belief.slots).decode(state)
            plain["registrations"] = [*plain["registrations"], *more]
            if "elr_entries" in plain:
                plain["elr_entries"] = [*plain["elr_entries"], *(0 for _ in more)]
            states.add((tag, self.actions(tag, slots).encode(plain)))
        return self.belief(slots, frozenset(states), belief.observed)

    def renumbered(self, belief: Belief, order: Slots) -> Belief:
        """The same with other slots: ``order`` has the old slots in their new order. What is not in it is dropped."""
        if order == tuple(range(belief.slots)):
            return belief
        key = (belief, order)
        if key not in self._others:
            self._others[key] = self._renumbered(belief, order)
        return self._others[key]

    def _renumbered(self, belief: Belief, order: Slots) -> Belief:
        new = {slot: position for position, slot in enumerate(order)}
        observed = belief.observed.renamed(new)
        states = set()
        for tag, state in belief.states:
            plain = self.actions(tag, belief.slots).decode(state)
            for name in ("registrations", "elr_entries"):
                if name in plain:
                    plain[name] = [plain[name][slot] for slot in order]
            plain["complete"] = sorted(new[s] for s in plain["complete"] if s in new)
            plain["partition"] = self._by_rules(observed, tag)
            states.add((tag, self.actions(tag, len(order)).encode(plain)))
        return self.belief(len(order), frozenset(states), observed)

    # --- what a belief says ---------------------------------------------------------------------------

    def values(self, belief: Belief, name: str) -> set[Any]:
        """What a variable of the state can be: its values in all states that fit."""
        return {
            _hashable(self.actions(tag, belief.slots).decode(state)[name]) for tag, state in belief.states
        }

    def flags(self, belief: Belief) -> list[Flags]:
        """The registrations of the slots."""
        tag, state = next(iter(belief.states))
        return [Flags.of(r) for r in self.actions(tag, belief.slots).decode(state)["registrations"]]


BROKER_ACTIONS = frozenset({"fence", "fence_again", "unfence", "start_controlled_shutdown", "register"})
ENVIRONMENT = frozenset({"unregister", "set"})
"""What happens without a rule of the protocol: a broker is removed, a setting is set to what it was or unset."""


def _may_cause(actions: ControllerActions, choice: Choice, event: Event) -> bool:
    """Whether an action can be behind an event: some go with a record of their own, which the partition's is not."""
    if choice.action == "change_min_isr" and "min_isr_change_clears_elr" in actions.rules:
        return event.of_min_isr
    return True


def _choices(belief: Belief, event: Event) -> Iterator[Choice]:
    """The actions, with their parameters, that are likely to explain an event."""
    match event.kind:
        case "fence" | "unfence" | "start_controlled_shutdown" | "unregister":
            yield Choice(event.kind, (event.slot,))
        case "fence_again":
            yield Choice("fence_again", (event.slot,))
            # Without a rule for it, that is what comes nearest.
            yield Choice("fence", (event.slot,))
        case "register":
            yield Choice("register", (event.slot, False))
            yield Choice("register", (event.slot, True))
        case "settings":
            yield Choice("change_min_isr", (_held(event.min_isr),))
            if event.after is None:
                yield Choice("set")
        case _:
            yield from _of_a_change(belief, event)


def _of_a_change(belief: Belief, event: Event) -> Iterator[Choice]:
    """The actions that can change a partition without a broker or a setting having changed."""
    after, before = event.after, belief.observed
    assert after is not None
    # A leader may propose what is then the ISR; where that completes a reassignment, also who goes.
    for leaving in _subsets(before.removing):
        yield Choice("alter_partition", (tuple(sorted({*after.isr, *leaving})), None))
    yield Choice("elect_leader", ("PREFERRED",))
    yield Choice("elect_leader", ("UNCLEAN",))
    yield Choice("maybe_elect_unclean_leader")
    yield Choice("maybe_balance_leader")
    if after.leader != NO_LEADER:
        yield Choice("recover_uncleanly", (after.leader,))
    if after.replicas != before.replicas or after.adding or after.removing:
        targets = {after.replicas, tuple(s for s in after.replicas if s not in after.removing)}
        yield from (Choice("reassign", (target,)) for target in sorted(targets))
    if before.adding or before.removing:
        yield Choice("cancel_reassignment")
    if event.assigns:
        yield from (Choice("assign_directory", (slot,)) for slot in before.replicas)


def _subsets(slots: Slots) -> Iterator[Slots]:
    for size in range(len(slots) + 1):
        yield from combinations(sorted(slots), size)


def _set(plain: dict[str, Any], event: Event) -> None:
    plain["unclean_election"], plain["first_partition_replicas"] = event.unclean, event.first


def _held(min_insync_replicas: int) -> int:
    """A setting as the model holds it: more than there can be replicas is as good as that many."""
    return max(1, min(min_insync_replicas, MAX_BROKERS))


def _distance(near: Near) -> int:
    return len(near.refused_by) + len(near.differences)


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


__all__ = ["Belief", "Beliefs", "Event", "Flags", "Near", "Observed", "Slots", "Tagged"]
