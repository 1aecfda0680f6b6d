"""Beliefs: the sets of model states that fit what was observed of a partition, and the steps between them.

Brokers are slots here: 0, 1, … in the order of the replicas, and after them brokers that are still in some other
field. So partitions that differ in the numbers of their brokers only have the same beliefs. Epochs are
relative (``actions``). A belief holds the states of several sets of rules side by side where the log does not
say which of them was in force.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain, product
from typing import Any

from highwater.model.language.interpreter import differences
from highwater.model.language.model import Scalars
from highwater.model.replication.controller.types import NO_LEADER
from highwater.traces.metadata.beliefs.actions import (
    MAX_ENTRIES,
    Choice,
    ControllerActions,
    controller_actions,
)
from highwater.traces.metadata.beliefs.hypotheses import (
    BROKER_ACTIONS,
    ENVIRONMENT,
    held,
    likely,
    may_cause,
    rounds,
)
from highwater.traces.metadata.beliefs.observations import Event, Flags, Near, Observed, Slots, after_event
from highwater.traces.rules.decisions import decisions

Rules = frozenset[str]
Tagged = tuple[int, Scalars]
"""A state, and the number of the set of rules under which it was reached."""

NEAREST = 5
"""So many actions that came near are told of a record that nothing explains."""


class Belief:
    """A set of tagged states, all with the same observed partition and registrations.

    ``violated`` are the names of properties that hold in no state, ``doubtful`` of those that hold in some only;
    ``tags`` the numbers of the sets of rules under which something fits. ``is_indexed_astray``: the controller's index
    of ELR members can have other entries than one for each member. ``steps`` is for who looks up what was
    explained already.
    """

    __slots__ = (
        "_next", "doubtful", "is_indexed_astray", "leaderless", "observed", "slots", "states", "steps", "tags",
        "under_min_isr", "violated",
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
                        "min_insync_replicas": held(setting),
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
            "offline": list(observed.offline),
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
            observed = observed.settled()
            found = [self.actions(tag, slots).violated(state) for tag, state in states]
            violated = frozenset.intersection(*found) if found else frozenset()
            doubtful = frozenset(chain.from_iterable(found)) - violated
            astray = any(self._goes_astray(tag, slots, state, observed) for tag, state in states)
            self._interned[key] = Belief(slots, states, observed, violated, doubtful, astray)
        return self._interned[key]

    def _goes_astray(self, tag: int, slots: int, state: Scalars, observed: Observed) -> bool:
        entries = self.actions(tag, slots).entries(state)
        return any(number != (slot in observed.elr) for slot, number in enumerate(entries))

    def after_failover(self, belief: Belief) -> Belief:
        """What is believed under another controller: any entry of the index that no member has can be forgotten."""
        key = (belief, "failover")
        if key not in self._others:
            states = set()
            for tag, state in belief.states:
                actions = self.actions(tag, belief.slots)
                known = enumerate(actions.entries(state))
                left = [range(min(n, slot in belief.observed.elr), n + 1) for slot, n in known]
                states |= {(tag, actions.with_entries(state, entries)) for entries in product(*left)}
            self._others[key] = self.belief(belief.slots, frozenset(states), belief.observed)
        return self._others[key]

    def astray(self, before: Belief, after: Belief, slot: int, later: int | None) -> frozenset[int]:
        """How many entries of a slot's broker can have gone astray in a step: those beyond the first, as it leaves.

        ``later`` is its slot after the step, None where it has none.
        """
        is_member = later in after.observed.elr
        if slot not in before.observed.elr or is_member:
            return frozenset((0,))
        left = {0} if later is None else self._entries(after, later)
        # A change that passes the index by leaves the entries as they were.
        found = self._entries(before, slot) if 0 in left else {0}
        return frozenset(self._gone_astray(entries) for entries in found)

    def _entries(self, belief: Belief, slot: int) -> set[int]:
        """How often a slot's broker can be in the index."""
        found = (self.actions(tag, belief.slots).entries(state) for tag, state in belief.states)
        return {entries[slot] if entries else 0 for entries in found}

    def _gone_astray(self, entries: int) -> int:
        found = decisions(1, self.rules[0]).entries_after(entries=entries, was_member=True, is_member=False)
        astray: int = found["astray"]
        return astray

    def concerned(self, belief: Belief) -> Slots:
        """The slots that are in a field of the partition, or in the controller's index of its ELR."""
        used = belief.observed.used()
        if not belief.is_indexed_astray:
            return used
        others = {*range(belief.slots)} - {*used}
        return (*used, *(slot for slot in sorted(others) if self._entries(belief, slot) != {0}))

    def with_astray(self, belief: Belief, slot: int, numbers: frozenset[int]) -> Belief:
        """The topic's first partition, to which so many entries of a slot's broker have come."""
        key = (belief, (slot, numbers))
        if key not in self._others:
            states = set()
            for tag, state in belief.states:
                actions = self.actions(tag, belief.slots)
                entries = list(actions.entries(state))
                for number in numbers:
                    more = [*entries[:slot], min(entries[slot] + number, MAX_ENTRIES), *entries[slot + 1 :]]
                    states.add((tag, actions.with_entries(state, tuple(more))))
            self._others[key] = self.belief(belief.slots, frozenset(states), belief.observed)
        return self._others[key]

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
        for choices in rounds(belief.observed, event):
            for tag, state in belief.states:
                actions = self.actions(tag, belief.slots)
                for choice in choices:
                    after = self._take(actions, state, belief, choice, event, expected[tag])
                    if after is not None:
                        found.add((tag, after))
                        names.add(choice.action)
            if found:
                break
        return frozenset(found), frozenset(names)

    def _expected(self, tag: int, belief: Belief, event: Event) -> frozenset[Scalars]:
        """The partition after an event, as the scalars that it can be: LastKnownElr can hold one of two things."""
        after = after_event(belief.observed, event)
        if after.repeated or after.misplaced:
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

    def _take(
        self,
        actions: ControllerActions,
        state: Scalars,
        belief: Belief,
        choice: Choice,
        event: Event,
        expected: frozenset[Scalars],
    ) -> Scalars | None:
        """The state after an action that agrees with the event; None where the action does not."""
        if choice.action in ENVIRONMENT and choice.action not in actions.names():
            return self._without_rule(actions, state, belief, choice, event)
        if choice.action not in actions.names() or not may_cause(actions, choice, event):
            return None
        compiled = actions.compiled(choice)
        if compiled is None or not compiled.enabled(state):
            return None
        scalars = compiled.after(state)
        if event.kind in _LISTING and not (event.kind == "lose_directory" and event.offline):
            # Which directories a broker lists is its own affair.
            scalars = actions.with_offline(scalars, after_event(belief.observed, event).offline)
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
        self, actions: ControllerActions, state: Scalars, belief: Belief, choice: Choice, event: Event
    ) -> Scalars | None:
        """What happens to the state's surroundings, and changes no partition."""
        plain = actions.decode(state)
        if choice.action == "unregister":
            plain["registrations"][event.slot] = Flags().to_plain()
        elif choice.action == "list_directories":
            plain["partition"]["offline"] = list(after_event(belief.observed, event).offline)
        else:
            decided = event.of_min_isr and "min_isr_change_clears_elr" in actions.rules
            if decided or plain["min_insync_replicas"] != held(event.min_isr):
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
            tuple(p.get("offline", ())),
            p["leader_epoch"] > 0,
        )

    def nearest(self, belief: Belief, event: Event) -> list[Near]:
        """The actions that came nearest to an event that nothing explains, the nearest first."""
        expected = after_event(belief.observed, event)
        near: dict[Choice, Near] = {}
        for tag, state in sorted(belief.states):
            actions = self.actions(tag, belief.slots)
            for choice in likely(belief.observed, event):
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

    def adopted(self, belief: Belief, before: Beliefs, offline: Slots) -> Belief:
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
                plain["partition"] = self._by_rules(observed, new)
                states.add((new, actions.encode(plain)))
        return self.belief(belief.slots, frozenset(states), observed)

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


_LISTING = frozenset({"register", "lose_directory"})
"""Kinds of events in which a broker lists the log directories that it has."""


def _set(plain: dict[str, Any], event: Event) -> None:
    plain["unclean_election"], plain["first_partition_replicas"] = event.unclean, event.first


def _distance(near: Near) -> int:
    return len(near.refused_by) + len(near.differences)


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


__all__ = ["Belief", "Beliefs", "Tagged"]
