"""The automaton of belief states: each transition is explained once by the model's actions, and then looked up.

Its states are belief states. Its symbols are observations with slots in place of brokers, and a word is the symbols of
one batch about one partition. Two tables are filled when needed: the symbol of each observation under a binding of
slots to brokers, and the transition of each belief state by a word. Partitions share their entries.

``Explanation`` finds the controller's decisions that lead to the observations of one batch about a partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile
from typing import Any, NamedTuple

from highwater.invariants.replication.observed import CONDITIONS
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import differences
from highwater.model.language.tracker import Nearest
from highwater.model.replication.controller.types import NO_LEADER
from highwater.traces.metadata.beliefs import updates
from highwater.traces.metadata.beliefs.belief_states import (
    FIELDS,
    TOO_MANY,
    BeliefState,
    BeliefStates,
    Binding,
    CannotFollow,
    Span,
    Symbol,
    Transition,
    Word,
    content,
    in_slots,
    merged,
    named,
    with_brokers,
)
from highwater.traces.metadata.beliefs.controller_stepper import MAX_BROKERS
from highwater.traces.metadata.beliefs.evidence import (
    LEADING,
    BrokerChange,
    Brokers,
    Change,
    Evidence,
    Flags,
    Observation,
    Observed,
    TopicSettings,
    after_evidence,
)
from highwater.traces.metadata.beliefs.updates import add_nearest, updated
from highwater.traces.reports.findings import Candidate
from highwater.traces.reports.observed import PartitionState

# --- automaton -------------------------------------------------------------------------------------------

FlagsOf = Callable[[int], Flags]
MAX_TRANSITIONS, MAX_BELIEFS, MAX_SYMBOLS = 600_000, 100_000, 1_000_000
"""If a table reaches its maximum, all tables are cleared."""
MAX_RECORDS = 50_000
"""The most decoded records in the cache."""


class _Decoded(NamedTuple):
    """A PartitionChangeRecord, the brokers that it names, and the names of the fields that list brokers."""

    fields: Mapping[str, Any]
    names: frozenset[int]
    sets: tuple[str, ...]


class Automaton:
    """The automaton of one replay: it looks up transitions, and explains those that are not in its tables."""

    def __init__(
        self, beliefs: BeliefStates, decode: Callable[[bytes], Mapping[str, Any]], flags: FlagsOf
    ) -> None:
        self.beliefs, self._decode = beliefs, decode
        self._grounds = Grounds(beliefs, self.record, flags)
        self._bindings: dict[Brokers, Binding] = {}
        self._by_content: dict[Any, Symbol] = {}
        self._records: dict[bytes, _Decoded] = {}
        self._symbols = self._transitions = 0
        self.explained = 0

    def _forget(self) -> None:
        """Clear all tables, to bound the memory. Transitions that occur again are explained again."""
        for binding in self._bindings.values():
            binding.symbols.clear()
        for table in (self._bindings, self._by_content, self._records):
            table.clear()
        self._symbols = self._transitions = 0
        self.beliefs.forget()

    def binding(self, brokers: Brokers) -> Binding:
        """The binding of slots to these brokers; the same object for equal brokers."""
        found = self._bindings.get(brokers)
        if found is None:
            found = self._bindings[brokers] = Binding(brokers)
        return found

    # --- initial beliefs -------------------------------------------------------------------

    def initial(
        self,
        state: PartitionState,
        settings: TopicSettings,
        offline: Iterable[int] = (),
    ) -> tuple[BeliefState, Binding]:
        """The belief state and the binding of a partition with this recorded state and these possible settings.

        ``offline`` are the replicas in offline log directories. Raises CannotFollow if no state of the model has this
        recorded state.
        """
        observed, brokers = in_slots(state)
        observed = replace(observed, offline=tuple(sorted(brokers.index(broker) for broker in offline)))
        belief = self.beliefs.initial(
            observed,
            [self._grounds.flags(b) for b in brokers],
            settings.min_isr,
            settings.unclean,
            settings.first,
        )
        return belief, self.binding(brokers)

    def adopted(self, belief: BeliefState, before: Automaton, offline: Iterable[int]) -> BeliefState:
        """A belief state of the automaton ``before``, adapted to this automaton.

        ``offline`` are the slots of replicas in offline log directories, if the rules depend on directories.
        """
        return self.beliefs.adopted(belief, before.beliefs, tuple(sorted(offline)))

    def wrong_creation(self, state: PartitionState) -> dict[str, tuple[Any, Any]]:
        """The fields in which a recorded new partition differs from the one that the controller creates.

        Each field has the controller's value and the recorded value.

        In a created partition the active replicas are the ISR, and the first of them leads.
        """
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
        """The transition by the observations of one batch, in order, and the brokers of its spans' slots.

        ``is_last``: the controller that wrote the batch wrote nothing after it. Raises CannotFollow if the model
        cannot represent the partition after an observation.
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
        # If one of several observations adds a broker, the broker has no slot: nothing can be looked up.
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
        """The symbol of an observation under a binding; None if it names a broker that has no slot."""
        name = content(observation)
        found = binding.symbols.get(name)
        if found is None:
            found = self._of(self._content(binding, observation))
            if found is not None:
                self._symbols += 1
                binding.symbols[name] = found
        return found

    def _of(self, content: Any, *more: Any) -> Symbol | None:
        """The symbol of a content together with ``more``: one object for equal values. None if the content is None."""
        if content is None:
            return None
        key = (content, more)
        found = self._by_content.get(key)
        if found is None:
            found = self._by_content[key] = Symbol()
        return found

    def _new_brokers(self, binding: Binding, observations: Sequence[Observation]) -> Brokers:
        """The brokers that a change adds to the partition; they get the next slots.

        Empty if the change is not the only observation, or if it adds no broker.
        """
        observation = observations[0]
        if len(observations) > 1 or not isinstance(observation, Change) or observation.raw in binding.symbols:
            return ()
        names = self._decoded(observation.raw).names
        return () if names.issubset(binding.slots) else tuple(sorted(names.difference(binding.brokers)))

    def _content(self, binding: Binding, observation: Observation) -> Any:
        """The content of an observation, with slots instead of brokers; None if a broker has no slot."""
        slots = binding.slots
        if isinstance(observation, TopicSettings):
            return observation
        if isinstance(observation, BrokerChange):
            slot = slots.get(observation.broker)
            return None if slot is None else (observation.kind, slot, observation.flags, observation.offline)
        record, names, sets = self._decoded(observation.raw)
        parts: list[Any] = []
        if not slots.keys() >= names:
            return None
        if "replicas" in record:
            # The record of a reassignment also depends on the order of the brokers' ids.
            parts.append(tuple(sorted(slots.values(), key=binding.brokers.__getitem__)))
        for name in sets:
            parts.append((name, tuple([slots.get(b, NO_LEADER) for b in record[name]])))
        leader = record.get("leader")
        parts.append(
            (None if leader is None else slots.get(leader, NO_LEADER), record.get("leaderRecoveryState"))
        )
        if observation.placed is not None:
            parts.append((tuple([slots[b] for b in observation.placed.assigned]), observation.placed.wrong))
        return tuple(parts)

    def record(self, raw: bytes) -> Mapping[str, Any]:
        """The decoded fields of a PartitionChangeRecord. They are cached."""
        return self._decoded(raw).fields

    def _decoded(self, raw: bytes) -> _Decoded:
        found = self._records.get(raw)
        if found is None:
            if len(self._records) >= MAX_RECORDS:
                self._records.clear()
            fields = self._decode(raw)
            sets = tuple(name for name in FIELDS if fields.get(name) is not None)
            found = self._records[raw] = _Decoded(fields, frozenset(named(fields)), sets)
        return found


# --- explanation -----------------------------------------------------------------------------------------

LIMIT_STATES = 4
MEASURED = frozenset(p.name for p in CONDITIONS)
"""Properties whose violation is no finding. The report shows for how long they did not hold."""
ELECTIONS = frozenset({"leader_elected_cleanly", "leader_completeness"})
"""Properties of an election: each election that violates them is a finding of its own."""


class Grounds(NamedTuple):
    """The inputs of explanations: all belief states, the decoder of changes, and the flags of brokers."""

    beliefs: BeliefStates
    record: Callable[[bytes], Mapping[str, Any]]
    flags: Callable[[int], Flags]


@dataclass
class _Boundary:
    """The possible states between two observations, and the brokers of their slots.

    ``causes`` are the actions that explain the last observation, ``of_change`` those that explain the last change.
    """

    slots: int
    states: frozenset[Scalars]
    observed: Observed
    brokers: Brokers
    causes: set[str]
    of_change: set[str]
    before: tuple[Mapping[str, Any], ...] = ()
    candidates: tuple[Candidate, ...] | None = None


class Explanation:
    """Finds the transition by the observations of one batch.

    A partition's record belongs to the decision about a broker or a setting next to it, or is a decision of its own.
    The possible states are carried from the boundary of one observation to the next.
    ``is_last``: the controller that wrote the batch wrote nothing after it.
    """

    def __init__(
        self,
        grounds: Grounds,
        belief: BeliefState,
        brokers: Brokers,
        observations: Sequence[Observation],
        is_last: bool = False,
    ) -> None:
        self.grounds, self.beliefs, self.observations = grounds, grounds.beliefs, observations
        self.is_last = is_last
        self.belief, self.brokers = belief, brokers
        self.all_brokers = brokers
        """The brokers before the observations, followed by those that the observations add."""

    def transition(self) -> Transition:
        """Find the transition by the observations. Raises CannotFollow."""
        count = len(self.observations)
        reached = {0: _boundary(self.belief, self.brokers, set(), set())}
        jumped: set[int] = set()
        spans: list[Span] = []
        last, before = 0, self.belief
        for index in range(count + 1):
            here = reached.get(index)
            if here is None:
                continue
            if index and index not in jumped:
                after = self._belief(here)
                spans.append(self._span(last, index, here, before, after))
                last, before = index, after
                here.of_change = set()
            if index == count:
                break
            for length, decision, record in self._alternatives(index):
                found = self._apply(here, decision, record, max(length - 1, 1))
                if found is not None:
                    jumped.update(range(index + 1, index + length))
                    _join(reached, index + length, found)
            if max(reached) == index:
                reached[index + 1] = self._adopt(here, index)
        return Transition(self.belief, tuple(spans))

    def _alternatives(self, index: int) -> list[tuple[int, Observation, Change | None]]:
        """The possible readings of the observation at an index.

        Each reading has the number of observations that it covers, the observation that is the decision, and the
        record that this decision writes (None: no record).
        """
        observation = self.observations[index]
        if isinstance(observation, Change):
            found: list[tuple[int, Observation, Change | None]] = [(1, observation, observation)]
            # One decision can write the same record several times.
            rest = list(dropwhile(lambda other: other == observation, self.observations[index:]))
            if rest and isinstance(rest[0], BrokerChange) and rest[0].kind in LEADING:
                found.insert(0, (len(self.observations) - index - len(rest) + 1, rest[0], observation))
            return found
        following = self.observations[index + 1] if index + 1 < len(self.observations) else None
        found = [(1, observation, None)]
        leads = isinstance(observation, BrokerChange) and observation.kind in LEADING
        if isinstance(following, Change) and not leads:
            found.insert(0, (2, observation, following))
        return found

    def _belief(self, here: _Boundary) -> BeliefState:
        return self.beliefs.belief(here.slots, here.states, here.observed)

    def _apply(
        self, here: _Boundary, observation: Observation, record: Change | None, records: int
    ) -> _Boundary | None:
        """The boundary after an observation whose record is written ``records`` times; None if nothing explains it."""
        if isinstance(observation, BrokerChange) and observation.broker not in here.brokers:
            # The partition lost this broker earlier in the batch, or never had it.
            if observation.kind == "unfence" and record is not None:
                return self._by_another(here, observation, record)
            return None if record else _boundary(self._belief(here), here.brokers, set(), here.of_change)
        belief, brokers, possible = self._evidence(here, observation, record, records)
        states: set[Scalars] = set()
        causes: set[str] = set()
        for evidence in possible:
            found, names = updated(self.beliefs, belief, evidence)
            states |= found
            causes |= names
        if not states:
            return None
        if isinstance(observation, BrokerChange) and observation.kind == "assigned_offline":
            # The event belongs to the assignment of a directory, and has no record of a broker.
            causes = {"assign_directory"}
        observed = after_evidence(belief.observed, possible[0])
        after = self.beliefs.belief(belief.slots, frozenset(states), observed)
        return self._in_order(after, brokers, observed, causes, causes if record else here.of_change)

    def _by_another(self, here: _Boundary, observation: BrokerChange, record: Change) -> _Boundary | None:
        """The boundary after a record that the unfencing of a broker outside the partition caused."""
        belief = self.beliefs.widened(self._belief(here), [observation.flags._replace(fenced=True)])
        wider = _boundary(belief, (*here.brokers, observation.broker), here.causes, here.of_change)
        self.all_brokers += () if observation.broker in self.all_brokers else (observation.broker,)
        return self._apply(wider, observation, record, 1)

    def _in_order(
        self, belief: BeliefState, brokers: Brokers, observed: Observed, causes: set[str], of_change: set[str]
    ) -> _Boundary:
        order = updates.concerned(self.beliefs, belief)
        ordered = self.beliefs.renumbered(belief, order)
        return _boundary(ordered, tuple(brokers[s] for s in order), set(causes), set(of_change))

    def _evidence(
        self, here: _Boundary, observation: Observation, record: Change | None, records: int = 1
    ) -> tuple[BeliefState, Brokers, list[Evidence]]:
        """The possible evidence that an observation gives, in slots.

        Returns the belief state, which gets slots for brokers that are new; the brokers of its slots; and the
        evidence.
        """
        belief, brokers = self._belief(here), here.brokers
        written = None if record is None else self.grounds.record(record.raw)
        concerned = {*named(written)} if written else set()
        if isinstance(observation, BrokerChange):
            concerned.add(observation.broker)
        new = tuple(sorted(concerned - set(brokers)))
        if len(brokers) + len(new) > MAX_BROKERS:
            raise CannotFollow(TOO_MANY)
        if new:
            belief, brokers = (
                self.beliefs.widened(belief, [self.grounds.flags(b) for b in new]),
                brokers + new,
            )
            self.all_brokers += tuple(b for b in new if b not in self.all_brokers)
        if written and "replicas" in written:
            # A reassignment writes some brokers in the order of their ids: slots need the same order.
            order = tuple(sorted(range(len(brokers)), key=lambda slot: brokers[slot]))
            belief, brokers = self.beliefs.renumbered(belief, order), tuple(sorted(brokers))
        slots = {broker: slot for slot, broker in enumerate(brokers)}
        placed = None if record is None else record.placed
        after = None if written is None else merged(belief.observed, written, slots, placed)
        if isinstance(observation, BrokerChange):
            slot = slots[observation.broker]
            flags, offline = observation.flags, observation.offline
            return (
                belief,
                brokers,
                [Evidence(observation.kind, after, slot, flags, records=records, offline=offline)],
            )
        if isinstance(observation, TopicSettings):
            first, of_min_isr = observation.first, observation.of_min_isr
            possible = [
                Evidence("settings", after, min_isr=m, unclean=u, first=first, of_min_isr=of_min_isr)
                for m in observation.min_isr
                for u in observation.unclean
            ]
            return belief, brokers, possible
        assigned = None
        if placed is not None and written is not None and "replicas" not in written:
            assigned = tuple(slots[broker] for broker in placed.assigned)
        return belief, brokers, [Evidence("change", after, assigned=assigned, is_last=self.is_last)]

    # --- unexplained observations ------------------------------------------------------------------------

    def _adopt(self, here: _Boundary, index: int) -> _Boundary:
        """The boundary after an observation that nothing explains: replay continues from the observed partition."""
        observation = self.observations[index]
        record = observation if isinstance(observation, Change) else None
        nearest: Nearest[Candidate] = Nearest()
        for reading, (_, decision, belonging) in enumerate(self._alternatives(index)):
            belief, brokers, possible = self._evidence(here, decision, belonging)
            add_nearest(nearest, self.beliefs, belief, possible[0], reading, brokers)
        belief, brokers, possible = self._evidence(here, observation, record)
        flags = self.beliefs.flags(belief)
        if isinstance(observation, BrokerChange):
            flags[possible[0].slot] = observation.flags
        after = after_evidence(belief.observed, possible[0])
        min_isr, unclean, (first, *_) = (
            sorted(self.beliefs.values(belief, name))
            for name in ("min_insync_replicas", "unclean_election", "first_partition_replicas")
        )
        if isinstance(observation, TopicSettings):
            min_isr, unclean, first = list(observation.min_isr), list(observation.unclean), observation.first
        adopted = self.beliefs.initial(after.settled(), flags, min_isr, unclean, first)
        boundary = self._in_order(adopted, brokers, after, set(), set())
        boundary.before = self._states_before(here)
        boundary.candidates = tuple(nearest.ranked())
        return boundary

    def _states_before(self, here: _Boundary) -> tuple[Mapping[str, Any], ...]:
        """A few of the possible states before the observation, in readable form."""
        found = []
        for scalars in sorted(here.states)[:LIMIT_STATES]:
            plain = self.beliefs.actions(here.slots).decode(scalars)
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

    # --- spans -----------------------------------------------------------------------------------

    def _span(self, first: int, end: int, here: _Boundary, before: BeliefState, after: BeliefState) -> Span:
        changed = [i for i in range(first, end) if isinstance(self.observations[i], Change)]
        bumps, elected = 0, False
        for i in changed:
            observation = self.observations[i]
            assert isinstance(observation, Change)
            leader = self.grounds.record(observation.raw).get("leader")
            bumps += leader is not None
            elected |= leader not in (None, NO_LEADER)
        return Span(
            changed[-1] if changed else end - 1,
            after,
            tuple(self.all_brokers.index(broker) for broker in here.brokers),
            len(changed),
            bumps,
            frozenset(here.of_change if changed else here.causes),
            _findings(before, after, elected),
            here.before,
            here.candidates,
        )


def _boundary(belief: BeliefState, brokers: Brokers, causes: set[str], of_change: set[str]) -> _Boundary:
    return _Boundary(belief.slots, belief.states, belief.observed, brokers, causes, of_change)


def _join(reached: dict[int, _Boundary], index: int, found: _Boundary) -> None:
    """Add ``found`` to ``reached``. Two boundaries with one index become one, with the states and causes of both."""
    known = reached.setdefault(index, found)
    if known is not found:
        known.states |= found.states
        known.causes |= found.causes
        known.of_change |= found.of_change


def _findings(before: BeliefState, after: BeliefState, elected: bool) -> tuple[tuple[str, bool], ...]:
    """The properties that stop holding, each with True if that is certain, and False if it is only possible.

    If a leader was elected, properties in ``ELECTIONS`` that failed before are reported again.
    """
    found = []
    for name in sorted(after.violated | after.doubtful):
        certain = name in after.violated
        known = name in before.violated or (not certain and name in before.doubtful)
        if name not in MEASURED and (not known or (elected and name in ELECTIONS)):
            found.append((name, certain))
    return tuple(found)
