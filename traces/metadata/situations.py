"""Situations: what is believed of a partition whose brokers have these numbers, and what each observation makes of it.

A situation is a belief and the brokers that its slots stand for. Every partition in the same situation goes on in
the same way, so each observation is explained once in each situation, and looked up from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from invariants.replication.observed import CONDITIONS
from model.language.interpreter import differences
from model.replication.controller import batches
from model.replication.controller.types import NO_LEADER
from traces.metadata.actions import MAX_BROKERS
from traces.metadata.beliefs import Belief, Beliefs, Event, Flags, Near, Observed, Slots, Tagged
from traces.observed import PartitionState
from traces.report import Candidate

Brokers = tuple[int, ...]
FlagsOf = Callable[[int], Flags]
RECOVERY = ("RECOVERED", "RECOVERING")
MAX_SITUATIONS, MAX_STEPS, MAX_BELIEFS = 250_000, 600_000, 100_000
"""So many are kept; where there are more, the tables begin anew."""


class Change(NamedTuple):
    """A PartitionChangeRecord, as bytes without the partition that it names."""

    raw: bytes


@dataclass(frozen=True, eq=False)
class BrokerEvent:
    """Something that happened to a broker: one of the model's actions, or "unregister"; its flags after it.

    Two of them are the same only where they are the same object, so that they are looked up fast.
    """

    kind: str
    broker: int
    flags: Flags


class Settings(NamedTuple):
    """The topic's configuration from now on: what min.insync.replicas and unclean election can be.

    ``first`` is the number of replicas of the topic's first partition, 0 for the first partition itself.
    """

    min_isr: tuple[int, ...]
    unclean: tuple[bool, ...]
    first: int = 0


Item = Change | BrokerEvent | Settings


def key_of(items: Sequence[Item]) -> Any:
    """What a step is looked up by: a lone change by its bytes."""
    if len(items) > 1:
        return tuple(items)
    item = items[0]
    return item.raw if item.__class__ is Change else item


_ORDER = {
    "fence": batches.FENCING,
    "unfence": batches.UNFENCING,
    "start_controlled_shutdown": batches.CONTROLLED_SHUTDOWN,
    "register": batches.REGISTRATION,
}
_LEADING = frozenset(kind for kind, order in _ORDER.items() if order[-1] == batches.BROKER)
"""The decisions whose changes of partitions stand before the record of the broker."""


class CannotFollow(Exception):
    """What was recorded of a partition is not a state that the model has; the message says why."""


@dataclass(frozen=True)
class Hop:
    """A part of a step: up to which item it goes, and the situation then.

    ``changes`` is 1 where a record of the partition is in it, ``bumps`` 1 where it ends the leader epoch.
    ``findings`` are properties that do not hold any more, each with whether that is certain. ``before`` and
    ``candidates`` are there where nothing explains the item.
    """

    item: int
    situation: Situation
    changes: int = 0
    bumps: int = 0
    cause: str | None = None
    findings: tuple[tuple[str, bool], ...] = ()
    before: tuple[Mapping[str, Any], ...] = ()
    candidates: tuple[Candidate, ...] | None = None

    @property
    def state(self) -> PartitionState:
        """What is observed then, without epochs."""
        return self.situation.state


class Step:
    """What one or more observations make of a situation; ``notable`` where there is more to do than to go on."""

    __slots__ = ("after", "bumps", "changes", "hops", "notable")

    def __init__(self, before: Situation, after: Situation, hops: tuple[Hop, ...]) -> None:
        self.after, self.hops = after, hops
        self.changes = sum([h.changes for h in hops])
        self.bumps = sum([h.bumps for h in hops])
        self.notable = (
            any(h.findings or h.candidates is not None for h in hops)
            or before.under_min_isr != after.under_min_isr
            or before.leaderless != after.leaderless
        )


class Situation:
    """A belief, and the brokers that its slots stand for. ``steps`` holds what was explained already (``key_of``).

    Situations of one replay with the same brokers have the same tuple of them.
    """

    __slots__ = ("belief", "brokers", "leaderless", "steps", "under_min_isr")

    def __init__(self, belief: Belief, brokers: Brokers) -> None:
        self.belief, self.brokers = belief, brokers
        self.under_min_isr = "has_min_isr" in belief.violated
        self.leaderless = "has_leader" in belief.violated
        self.steps: dict[Any, Step] = {}

    @property
    def state(self) -> PartitionState:
        """What is observed of the partition, without its epochs; members in the order of the replicas."""
        return _state(self.belief.observed, self.brokers)


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
        observed, brokers = _observed(state)
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
        observed, brokers = _observed(state)
        created = self.beliefs.created(observed.replicas, [self._flags(b) for b in brokers])
        wrong = differences(_state(created, brokers).to_json(), state.to_json())
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
        in_slots = self._in_slots(brokers, items)
        if in_slots is None:
            return _Explanation(self, situation, items).step()
        key = (situation.belief, in_slots, tuple([self._flags(b) for b in new]))
        pattern = self._patterns.get(key)
        if pattern is not None:
            return self._like(pattern, situation, brokers)
        step = _Explanation(self, situation, items).step()
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
            hops.append(Hop(hop.item, after, hop.changes, hop.bumps, hop.cause, hop.findings))
        return Step(situation, after, tuple(hops))

    def _new_brokers(self, situation: Situation, items: Sequence[Item]) -> Brokers:
        """The brokers that a lone change brings into the partition; they get the next slots."""
        if len(items) > 1 or not isinstance(items[0], Change):
            return ()
        record = self.record(items[0].raw)
        if "replicas" not in record:
            return ()
        return tuple(sorted({*_named(record)}.difference(situation.brokers)))

    def _in_slots(self, brokers: Brokers, items: Sequence[Item]) -> tuple[Any, ...] | None:
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
                    for name in _FIELDS:
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


_Pattern = tuple[tuple[Hop, tuple[int, ...]], ...]
"""The hops of a step, each with the slots before the step (new brokers last) in the order after the hop."""
MAX_RECORDS = 50_000
"""So many different records are kept decoded."""


@dataclass
class _Boundary:
    """What can be between two items: the states that fit, and the brokers of their slots; all agree on the rest."""

    slots: int
    states: frozenset[Tagged]
    observed: Observed
    brokers: Brokers
    causes: set[str]
    before: tuple[Mapping[str, Any], ...] = ()
    candidates: tuple[Candidate, ...] | None = None


class _Explanation:
    """Finds what items in one batch lead to.

    A record of the partition belongs to the decision about a broker, or about the settings, that stands beside
    it, or it is a decision of its own. What can be is carried along from the boundary of one item to the next.
    """

    def __init__(self, situations: Situations, situation: Situation, items: Sequence[Item]) -> None:
        self.all, self.beliefs, self.start, self.items = situations, situations.beliefs, situation, items

    def step(self) -> Step:
        start, count = self.start, len(self.items)
        reached = {0: _boundary(start.belief, start.brokers, set())}
        jumped: set[int] = set()
        hops: list[Hop] = []
        last, situation = 0, start
        for index in range(count + 1):
            here = reached.get(index)
            if here is None:
                continue
            if index and index not in jumped:
                after = self.all.situation(self._belief(here), here.brokers)
                hops.append(self._hop(last, index, here, situation, after))
                last, situation = index, after
            if index == count:
                break
            for length, event, record in self._alternatives(index):
                found = self._apply(here, event, record)
                if found is not None:
                    jumped.update(range(index + 1, index + length))
                    _join(reached, index + length, found)
            if max(reached) == index:
                reached[index + 1] = self._adopt(here, index)
        return Step(start, situation, tuple(hops))

    def _alternatives(self, index: int) -> list[tuple[int, Item, Change | None]]:
        """What the item at an index can be: how many items it takes, the item, the record that belongs to it."""
        item = self.items[index]
        following = self.items[index + 1] if index + 1 < len(self.items) else None
        if isinstance(item, Change):
            found: list[tuple[int, Item, Change | None]] = [(1, item, item)]
            if isinstance(following, BrokerEvent) and following.kind in _LEADING:
                found.insert(0, (2, following, item))
            return found
        found = [(1, item, None)]
        leads = isinstance(item, BrokerEvent) and item.kind in _LEADING
        if isinstance(following, Change) and not leads:
            found.insert(0, (2, item, following))
        return found

    def _belief(self, here: _Boundary) -> Belief:
        return self.beliefs.belief(here.slots, here.states, here.observed)

    def _apply(self, here: _Boundary, item: Item, record: Change | None) -> _Boundary | None:
        """What an item leads to, with the record that belongs to it; None where nothing explains it."""
        if isinstance(item, BrokerEvent) and item.broker not in here.brokers:
            # The partition has lost this broker earlier in the batch, so it is not concerned.
            return None if record else _boundary(self._belief(here), here.brokers, set())
        belief, brokers, events = self._events(here, item, record)
        states: set[Tagged] = set()
        causes: set[str] = set()
        for event in events:
            found, names = self.beliefs.step(belief, event)
            states |= found
            causes |= names
        if not states:
            return None
        observed = events[0].after or belief.observed
        after = self.beliefs.belief(belief.slots, frozenset(states), observed)
        return self._in_order(after, brokers, observed, causes)

    def _in_order(self, belief: Belief, brokers: Brokers, observed: Observed, causes: set[str]) -> _Boundary:
        order = observed.used()
        return _boundary(self.beliefs.renumbered(belief, order), tuple(brokers[s] for s in order), causes)

    def _events(
        self, here: _Boundary, item: Item, record: Change | None
    ) -> tuple[Belief, Brokers, list[Event]]:
        """The events that an item can be, in slots; with the belief widened by brokers that are new to it."""
        belief, brokers = self._belief(here), here.brokers
        written = None if record is None else self.all.record(record.raw)
        named = {*_named(written)} if written else set()
        if isinstance(item, BrokerEvent):
            named.add(item.broker)
        new = tuple(sorted(named - set(brokers)))
        if len(brokers) + len(new) > MAX_BROKERS:
            raise CannotFollow(TOO_MANY)
        if new:
            belief, brokers = self.beliefs.widened(belief, [self.all.flags(b) for b in new]), brokers + new
        if written and "replicas" in written:
            # A reassignment writes some brokers in the order of their numbers: slots have to go by that, too.
            order = tuple(sorted(range(len(brokers)), key=lambda slot: brokers[slot]))
            belief, brokers = self.beliefs.renumbered(belief, order), tuple(sorted(brokers))
        slots = {broker: slot for slot, broker in enumerate(brokers)}
        after = None if written is None else _merged(belief.observed, written, slots)
        if isinstance(item, BrokerEvent):
            return belief, brokers, [Event(item.kind, after, slots[item.broker], item.flags)]
        if isinstance(item, Settings):
            return (
                belief,
                brokers,
                [
                    Event("settings", after, min_isr=m, unclean=u, first=item.first)
                    for m in item.min_isr
                    for u in item.unclean
                ],
            )
        return belief, brokers, [Event("change", after)]

    # --- what nothing explains ------------------------------------------------------------------------

    def _adopt(self, here: _Boundary, index: int) -> _Boundary:
        """Go on from what was observed, after an item that nothing explains."""
        item = self.items[index]
        record = item if isinstance(item, Change) else None
        candidates: list[Candidate] = []
        for _, event, belonging in self._alternatives(index):
            belief, brokers, events = self._events(here, event, belonging)
            for near in self.beliefs.nearest(belief, events[0]):
                candidates.append(_candidate(near, brokers))
        candidates.sort(key=lambda c: len(c.differences) + len(c.refused_by))
        belief, brokers, events = self._events(here, item, record)
        flags = self.beliefs.flags(belief)
        if isinstance(item, BrokerEvent):
            flags[events[0].slot] = item.flags
        after = events[0].after or belief.observed
        min_isr, unclean, (first, *_) = (
            sorted(self.beliefs.values(belief, name))
            for name in ("min_insync_replicas", "unclean_election", "first_partition_replicas")
        )
        if isinstance(item, Settings):
            min_isr, unclean, first = list(item.min_isr), list(item.unclean), item.first
        adopted = self.beliefs.initial(
            replace(after, bumped=False), flags, min_isr, unclean, first, {tag for tag, _ in belief.states}
        )
        boundary = self._in_order(adopted, brokers, after, set())
        boundary.before = self._states_before(here)
        boundary.candidates = tuple(candidates[:LIMIT_CANDIDATES])
        return boundary

    def _states_before(self, here: _Boundary) -> tuple[Mapping[str, Any], ...]:
        """The states that fitted before, readable; the first few."""
        found = []
        for tag, scalars in sorted(here.states)[:LIMIT_STATES]:
            plain = self.beliefs.actions(tag, here.slots).decode(scalars)
            found.append(
                {
                    "partition": _state(here.observed, here.brokers).to_json(),
                    "brokers": {
                        str(broker): {
                            "fenced": r["fenced"],
                            "inControlledShutdown": r["in_controlled_shutdown"],
                        }
                        for broker, r in zip(here.brokers, plain["registrations"], strict=True)
                    },
                    "min.insync.replicas": plain["min_insync_replicas"],
                    "unclean.leader.election.enable": plain["unclean_election"],
                    "holds every committed record": [here.brokers[s] for s in plain["complete"]],
                }
            )
        return tuple(found)

    # --- what follows -----------------------------------------------------------------------------------

    def _hop(self, first: int, end: int, here: _Boundary, before: Situation, after: Situation) -> Hop:
        changed = [i for i in range(first, end) if isinstance(self.items[i], Change)]
        bumps = 0
        for i in changed:
            item = self.items[i]
            assert isinstance(item, Change)
            bumps += "leader" in self.all.record(item.raw)
        return Hop(
            changed[-1] if changed else end - 1,
            after,
            len(changed),
            bumps,
            " or ".join(sorted(here.causes)) or None,
            _findings(before.belief, after.belief, bumps > 0),
            here.before,
            here.candidates,
        )


TOO_MANY = f"more than {MAX_BROKERS} brokers are concerned with it"
LIMIT_CANDIDATES = 5
LIMIT_STATES = 4
MEASURED = frozenset(p.name for p in CONDITIONS)
"""Properties that are no findings: what is told of them is for how long they did not hold."""
ELECTIONS = frozenset({"leader_elected_cleanly", "leader_is_complete"})
"""Properties that are about an election, so that each election that breaks them is a finding of its own."""


def _boundary(belief: Belief, brokers: Brokers, causes: set[str]) -> _Boundary:
    return _Boundary(belief.slots, belief.states, belief.observed, brokers, causes)


def _join(reached: dict[int, _Boundary], index: int, found: _Boundary) -> None:
    """Several ways can lead to the same boundary; what fits is what fits on any of them."""
    known = reached.setdefault(index, found)
    if known is not found:
        known.states |= found.states
        known.causes |= found.causes


def _findings(before: Belief, after: Belief, elected: bool) -> tuple[tuple[str, bool], ...]:
    """The properties that do not hold any more, or not for certain; of an election also those that did not before."""
    found = []
    for name in sorted(after.violated | after.doubtful):
        certain = name in after.violated
        known = name in before.violated or (not certain and name in before.doubtful)
        if name not in MEASURED and (not known or (elected and name in ELECTIONS)):
            found.append((name, certain))
    return tuple(found)


_FIELDS = {
    "isr": "isr",
    "eligibleLeaderReplicas": "elr",
    "lastKnownElr": "last_known",
    "replicas": "replicas",
    "addingReplicas": "adding",
    "removingReplicas": "removing",
}


def _named(record: Mapping[str, Any]) -> Iterable[int]:
    """The brokers that a record names."""
    for name in _FIELDS:
        yield from (b for b in record.get(name) or () if b >= 0)
    if record.get("leader", NO_LEADER) >= 0:
        yield record["leader"]


def _merged(before: Observed, record: Mapping[str, Any], slots: Mapping[int, int]) -> Observed:
    """The partition after a record, which holds what changed; the leader epoch grows when the leader is in it."""
    changed: dict[str, Any] = {"bumped": "leader" in record}
    for name, target in _FIELDS.items():
        if record.get(name) is not None:
            members = tuple(slots.get(b, NO_LEADER) for b in record[name])
            _check_members(name, members)
            changed[target] = members if target == "replicas" else tuple(sorted(members))
    if "leader" in record:
        changed["leader"] = slots.get(record["leader"], NO_LEADER)
    if "leaderRecoveryState" in record:
        if record["leaderRecoveryState"] not in (0, 1):
            raise CannotFollow(f"leaderRecoveryState {record['leaderRecoveryState']}")
        changed["recovery"] = RECOVERY[record["leaderRecoveryState"]]
    return replace(before, **changed)


def _check_members(name: str, members: Slots) -> None:
    if len(set(members)) != len(members):
        raise CannotFollow(f"{name} has a broker twice")
    if NO_LEADER in members and (name != "lastKnownElr" or len(members) > 1):
        raise CannotFollow(f"{name} has a broker that cannot be one")


def _observed(state: PartitionState) -> tuple[Observed, Brokers]:
    """A partition in slots, and the brokers of the slots."""
    others = {*state.isr, *state.elr, *state.last_known_elr, *state.adding, *state.removing}
    if state.leader is not None:
        others.add(state.leader)
    brokers = (*state.replicas, *sorted(others - {*state.replicas, NO_LEADER}))
    if len(brokers) > MAX_BROKERS:
        raise CannotFollow(TOO_MANY)
    slots = {broker: slot for slot, broker in enumerate(brokers)}
    if any(b < 0 for b in brokers):
        raise CannotFollow("a broker with a negative number")

    def ascending(ids: Iterable[int]) -> Slots:
        members = tuple(sorted(slots.get(b, NO_LEADER) for b in ids))
        _check_members("lastKnownElr" if members == (NO_LEADER,) else "a list", members)
        return members

    _check_members("replicas", tuple(slots[b] for b in state.replicas))

    return Observed(
        tuple(slots[b] for b in state.replicas),
        ascending(state.isr),
        ascending(state.elr),
        ascending(state.last_known_elr),
        NO_LEADER if state.leader is None else slots[state.leader],
        state.leader_recovery_state,
        ascending(state.adding),
        ascending(state.removing),
    ), brokers


def _state(observed: Observed, brokers: Brokers) -> PartitionState:
    def ids(slots: Slots) -> tuple[int, ...]:
        return tuple(NO_LEADER if s == NO_LEADER else brokers[s] for s in slots)

    return PartitionState(
        ids(observed.replicas),
        ids(observed.isr),
        ids(observed.elr),
        ids(observed.last_known),
        None if observed.leader == NO_LEADER else brokers[observed.leader],
        0,
        0,
        observed.recovery,
        ids(observed.adding),
        ids(observed.removing),
    )


def _candidate(near: Near, brokers: Brokers) -> Candidate:
    """What came near, with brokers instead of slots."""

    def named(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return [named(v) for v in value]
        is_slot = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(brokers)
        return brokers[value] if is_slot else value

    parameters = {
        name: value if name in ("clean", "value", "stale") else named(value)
        for name, value in zip(near.parameters, near.choice.values, strict=True)
    }
    changes = {
        _RECORDED.get(path, path): (named(model), named(seen))
        for path, (model, seen) in near.differences.items()
    }
    return Candidate(near.choice.action, parameters, near.refused_by, near.passed, changes)


_RECORDED = {
    "elr": "eligibleLeaderReplicas",
    "last_known": "lastKnownElr",
    "adding": "addingReplicas",
    "removing": "removingReplicas",
    "recovery": "leaderRecoveryState",
    "bumped": "leader epoch grows",
}

__all__ = [
    "BrokerEvent", "CannotFollow", "Change", "FlagsOf", "Hop", "Item", "Settings", "Situation", "Situations", "Step",

]  # fmt: skip
