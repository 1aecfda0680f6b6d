"""Finding what explains items that one batch holds about a partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from typing import TYPE_CHECKING, Any

from highwater.invariants.replication.observed import CONDITIONS
from highwater.traces.metadata.beliefs.actions import MAX_BROKERS
from highwater.traces.metadata.beliefs.belief_states import Belief, Tagged
from highwater.traces.metadata.beliefs.observations import Event, Observed, after_event
from highwater.traces.metadata.beliefs.slots import (
    TOO_MANY,
    Brokers,
    CannotFollow,
    candidate,
    merged,
    named,
    with_brokers,
)
from highwater.traces.metadata.beliefs.transitions import (
    LEADING,
    BrokerEvent,
    Change,
    Hop,
    Item,
    Settings,
    Step,
)
from highwater.traces.reports.findings import Candidate

if TYPE_CHECKING:
    from highwater.traces.metadata.beliefs.automaton import Situations

LIMIT_CANDIDATES = 5
LIMIT_STATES = 4
MEASURED = frozenset(p.name for p in CONDITIONS)
"""Properties that are no findings: what is told of them is for how long they did not hold."""
ELECTIONS = frozenset({"leader_elected_cleanly", "leader_completeness"})
"""Properties that are about an election, so that each election that breaks them is a finding of its own."""


@dataclass
class _Boundary:
    """What can be between two items: the states that fit, and the brokers of their slots; all agree on the rest.

    ``causes`` are the actions of the last item, ``of_change`` those that explain the last change of the hop.
    """

    slots: int
    states: frozenset[Tagged]
    observed: Observed
    brokers: Brokers
    causes: set[str]
    of_change: set[str]
    before: tuple[Mapping[str, Any], ...] = ()
    candidates: tuple[Candidate, ...] | None = None


class Explanation:
    """Finds what items in one batch lead to.

    A record of the partition belongs to the decision about a broker, or about the settings, that stands beside
    it, or it is a decision of its own. What can be is carried along from the boundary of one item to the next.
    ``is_last``: the controller that wrote the batch wrote nothing after it.
    """

    def __init__(
        self,
        situations: Situations,
        belief: Belief,
        brokers: Brokers,
        items: Sequence[Item],
        is_last: bool = False,
    ) -> None:
        self.all, self.beliefs, self.items = situations, situations.beliefs, items
        self.is_last = is_last
        self.belief, self.brokers = belief, brokers
        self.all_brokers = brokers
        """The brokers before the items, and after them those that the items bring in."""

    def step(self) -> Step:
        """What the items lead to. Raises CannotFollow."""
        count = len(self.items)
        reached = {0: _boundary(self.belief, self.brokers, set(), set())}
        jumped: set[int] = set()
        hops: list[Hop] = []
        last, before = 0, self.belief
        for index in range(count + 1):
            here = reached.get(index)
            if here is None:
                continue
            if index and index not in jumped:
                after = self._belief(here)
                hops.append(self._hop(last, index, here, before, after))
                last, before = index, after
                here.of_change = set()
            if index == count:
                break
            for length, event, record in self._alternatives(index):
                found = self._apply(here, event, record, max(length - 1, 1))
                if found is not None:
                    jumped.update(range(index + 1, index + length))
                    _join(reached, index + length, found)
            if max(reached) == index:
                reached[index + 1] = self._adopt(here, index)
        return Step(self.belief, tuple(hops))

    def _alternatives(self, index: int) -> list[tuple[int, Item, Change | None]]:
        """What the item at an index can be: how many items it takes, the item, the record that belongs to it."""
        item = self.items[index]
        if isinstance(item, Change):
            found: list[tuple[int, Item, Change | None]] = [(1, item, item)]
            # One decision can write the same record several times.
            rest = list(dropwhile(lambda other: other == item, self.items[index:]))
            if rest and isinstance(rest[0], BrokerEvent) and rest[0].kind in LEADING:
                found.insert(0, (len(self.items) - index - len(rest) + 1, rest[0], item))
            return found
        following = self.items[index + 1] if index + 1 < len(self.items) else None
        found = [(1, item, None)]
        leads = isinstance(item, BrokerEvent) and item.kind in LEADING
        if isinstance(following, Change) and not leads:
            found.insert(0, (2, item, following))
        return found

    def _belief(self, here: _Boundary) -> Belief:
        return self.beliefs.belief(here.slots, here.states, here.observed)

    def _apply(self, here: _Boundary, item: Item, record: Change | None, records: int) -> _Boundary | None:
        """What an item leads to, with the record that belongs to it and how often; None where nothing explains it."""
        if isinstance(item, BrokerEvent) and item.broker not in here.brokers:
            # The partition has lost this broker earlier in the batch, so it is not concerned; or it never had it.
            if item.kind == "unfence" and record is not None:
                return self._by_another(here, item, record)
            return None if record else _boundary(self._belief(here), here.brokers, set(), here.of_change)
        belief, brokers, events = self._events(here, item, record, records)
        states: set[Tagged] = set()
        causes: set[str] = set()
        for event in events:
            found, names = self.beliefs.step(belief, event)
            states |= found
            causes |= names
        if not states:
            return None
        if isinstance(item, BrokerEvent) and item.kind == "assigned_offline":
            # It belongs to the assignment, and no record of a broker goes with it.
            causes = {"assign_directory"}
        observed = after_event(belief.observed, events[0])
        after = self.beliefs.belief(belief.slots, frozenset(states), observed)
        return self._in_order(after, brokers, observed, causes, causes if record else here.of_change)

    def _by_another(self, here: _Boundary, item: BrokerEvent, record: Change) -> _Boundary | None:
        """What a record leads to that a broker's unfencing brought about which the partition does not have."""
        belief = self.beliefs.widened(self._belief(here), [item.flags._replace(fenced=True)])
        wider = _boundary(belief, (*here.brokers, item.broker), here.causes, here.of_change)
        self.all_brokers += () if item.broker in self.all_brokers else (item.broker,)
        return self._apply(wider, item, record, 1)

    def _in_order(
        self, belief: Belief, brokers: Brokers, observed: Observed, causes: set[str], of_change: set[str]
    ) -> _Boundary:
        order = self.beliefs.concerned(belief)
        ordered = self.beliefs.renumbered(belief, order)
        return _boundary(ordered, tuple(brokers[s] for s in order), set(causes), set(of_change))

    def _events(
        self, here: _Boundary, item: Item, record: Change | None, records: int = 1
    ) -> tuple[Belief, Brokers, list[Event]]:
        """The events that an item can be, in slots; with the belief widened by brokers that are new to it."""
        belief, brokers = self._belief(here), here.brokers
        written = None if record is None else self.all.record(record.raw)
        concerned = {*named(written)} if written else set()
        if isinstance(item, BrokerEvent):
            concerned.add(item.broker)
        new = tuple(sorted(concerned - set(brokers)))
        if len(brokers) + len(new) > MAX_BROKERS:
            raise CannotFollow(TOO_MANY)
        if new:
            belief, brokers = self.beliefs.widened(belief, [self.all.flags(b) for b in new]), brokers + new
            self.all_brokers += tuple(b for b in new if b not in self.all_brokers)
        if written and "replicas" in written:
            # A reassignment writes some brokers in the order of their numbers: slots have to go by that, too.
            order = tuple(sorted(range(len(brokers)), key=lambda slot: brokers[slot]))
            belief, brokers = self.beliefs.renumbered(belief, order), tuple(sorted(brokers))
        slots = {broker: slot for slot, broker in enumerate(brokers)}
        placed = None if record is None else record.placed
        after = None if written is None else merged(belief.observed, written, slots, placed)
        if isinstance(item, BrokerEvent):
            slot = slots[item.broker]
            event = Event(item.kind, after, slot, item.flags, records=records, offline=item.offline)
            return belief, brokers, [event]
        if isinstance(item, Settings):
            return (
                belief,
                brokers,
                [
                    Event(
                        "settings", after, min_isr=m, unclean=u, first=item.first, of_min_isr=item.of_min_isr
                    )
                    for m in item.min_isr
                    for u in item.unclean
                ],
            )
        assigned = None
        if placed is not None and written is not None and "replicas" not in written:
            assigned = tuple(slots[broker] for broker in placed.assigned)
        return belief, brokers, [Event("change", after, assigned=assigned, is_last=self.is_last)]

    # --- what nothing explains ------------------------------------------------------------------------

    def _adopt(self, here: _Boundary, index: int) -> _Boundary:
        """Go on from what was observed, after an item that nothing explains."""
        item = self.items[index]
        record = item if isinstance(item, Change) else None
        candidates: list[Candidate] = []
        for _, event, belonging in self._alternatives(index):
            belief, brokers, events = self._events(here, event, belonging)
            for near in self.beliefs.nearest(belief, events[0]):
                candidates.append(candidate(near, brokers))
        candidates.sort(key=lambda c: len(c.differences) + len(c.refused_by))
        belief, brokers, events = self._events(here, item, record)
        flags = self.beliefs.flags(belief)
        if isinstance(item, BrokerEvent):
            flags[events[0].slot] = item.flags
        after = after_event(belief.observed, events[0])
        min_isr, unclean, (first, *_) = (
            sorted(self.beliefs.values(belief, name))
            for name in ("min_insync_replicas", "unclean_election", "first_partition_replicas")
        )
        if isinstance(item, Settings):
            min_isr, unclean, first = list(item.min_isr), list(item.unclean), item.first
        adopted = self.beliefs.initial(
            after.settled(),
            flags,
            min_isr,
            unclean,
            first,
            {tag for tag, _ in belief.states},
        )
        boundary = self._in_order(adopted, brokers, after, set(), set())
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
                    "partition": with_brokers(here.observed, here.brokers).to_json(),
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

    def _hop(self, first: int, end: int, here: _Boundary, before: Belief, after: Belief) -> Hop:
        changed = [i for i in range(first, end) if isinstance(self.items[i], Change)]
        bumps = 0
        for i in changed:
            item = self.items[i]
            assert isinstance(item, Change)
            bumps += "leader" in self.all.record(item.raw)
        return Hop(
            changed[-1] if changed else end - 1,
            after,
            tuple(self.all_brokers.index(broker) for broker in here.brokers),
            len(changed),
            bumps,
            frozenset(here.of_change if changed else here.causes),
            _findings(before, after, bumps > 0),
            here.before,
            here.candidates,
        )


def _boundary(belief: Belief, brokers: Brokers, causes: set[str], of_change: set[str]) -> _Boundary:
    return _Boundary(belief.slots, belief.states, belief.observed, brokers, causes, of_change)


def _join(reached: dict[int, _Boundary], index: int, found: _Boundary) -> None:
    """Several ways can lead to the same boundary; what fits is what fits on any of them."""
    known = reached.setdefault(index, found)
    if known is not found:
        known.states |= found.states
        known.causes |= found.causes
        known.of_change |= found.of_change


def _findings(before: Belief, after: Belief, elected: bool) -> tuple[tuple[str, bool], ...]:
    """The properties that do not hold any more, or not for certain; of an election also those that did not before."""
    found = []
    for name in sorted(after.violated | after.doubtful):
        certain = name in after.violated
        known = name in before.violated or (not certain and name in before.doubtful)
        if name not in MEASURED and (not known or (elected and name in ELECTIONS)):
            found.append((name, certain))
    return tuple(found)


__all__ = ["Explanation"]
