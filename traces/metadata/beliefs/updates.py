"""Belief updates: the model states after evidence, the nearest misses, and the controller's index of ELR members.

An entry can remain in the index after its broker has left the ELR. If the broker then joins and leaves the ELR again,
Kafka turns the surplus entry into one for the topic's partition 0 (``elr_index_entries``): the entry goes astray.
"""

from __future__ import annotations

from dataclasses import asdict
from itertools import product
from typing import Any

from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import differences
from highwater.model.language.tracker import Nearest
from highwater.model.replication.controller.types import NO_LEADER
from highwater.traces.metadata.beliefs.belief_states import (
    BeliefState,
    BeliefStates,
    Update,
    candidate,
)
from highwater.traces.metadata.beliefs.controller_stepper import (
    MAX_ENTRIES,
    ControllerStepper,
    Hypothesis,
)
from highwater.traces.metadata.beliefs.evidence import (
    BROKER_ACTIONS,
    ENVIRONMENT,
    Brokers,
    Evidence,
    Flags,
    Observed,
    Slots,
    after_evidence,
    held,
    likely,
    may_cause,
    rounds,
)
from highwater.traces.reports.findings import Candidate
from highwater.traces.rules.decisions import decisions

# --- updates ---------------------------------------------------------------------------------------------

_LISTING = frozenset({"register", "lose_directory"})
"""Kinds of evidence in which a broker lists its log directories."""


def updated(beliefs: BeliefStates, belief: BeliefState, evidence: Evidence) -> Update:
    """The model states after evidence, with the actions that lead to them; empty if nothing explains it. Cached."""
    if evidence not in belief.updates:
        belief.updates[evidence] = _updated(beliefs, belief, evidence)
    return belief.updates[evidence]


def _updated(beliefs: BeliefStates, belief: BeliefState, evidence: Evidence) -> Update:
    found: set[Scalars] = set()
    names: set[str] = set()
    actions = beliefs.actions(belief.slots)
    expected = _expected(actions, belief, evidence)
    for hypotheses in rounds(belief.observed, evidence):
        for state in belief.states:
            for hypothesis in hypotheses:
                after = _take(actions, state, belief, hypothesis, evidence, expected)
                if after is not None:
                    found.add(after)
                    names.add(hypothesis.action)
        if found:
            break
    return frozenset(found), frozenset(names)


def _expected(actions: ControllerStepper, belief: BeliefState, evidence: Evidence) -> frozenset[Scalars]:
    """The possible scalars of the partition after evidence.

    There are two if LastKnownElr can be read in two ways: as a member, or as the last known leader.
    """
    after = after_evidence(belief.observed, evidence)
    if after.repeated or after.misplaced:
        return frozenset()
    found = set()
    for is_leader in (False, True) if len(after.last_known_elr) == 1 else (False,):
        if is_leader or NO_LEADER not in after.last_known_elr:
            plain = after.to_plain(is_leader)
            records = 0 if evidence.after is None else evidence.records
            plain["leader_epoch"], plain["partition_epoch"] = records * int(after.bumped), records
            found.add(actions.encode_partition(plain))
    return frozenset(found)


def _take(
    actions: ControllerStepper,
    state: Scalars,
    belief: BeliefState,
    hypothesis: Hypothesis,
    evidence: Evidence,
    expected: frozenset[Scalars],
) -> Scalars | None:
    """The state after an action; None if the action does not agree with the evidence."""
    if hypothesis.action in ENVIRONMENT and not actions.has(hypothesis.action):
        return _without_rule(actions, state, belief, hypothesis, evidence)
    if not actions.has(hypothesis.action) or not may_cause(actions, hypothesis, evidence):
        return None
    scalars = actions.after(hypothesis, state)
    if scalars is None:
        return None
    if evidence.kind in _LISTING and not (evidence.kind == "lose_directory" and evidence.offline):
        # The broker alone decides which directories it lists.
        scalars = actions.with_offline(scalars, after_evidence(belief.observed, evidence).offline)
    if scalars[actions.partition] not in expected:
        return None
    if evidence.kind in BROKER_ACTIONS and actions.flags(scalars, evidence.slot) != evidence.flags:
        return None
    if evidence.kind == "settings":
        after = actions.decode(scalars)
        _set(after, evidence)
        scalars = actions.encode(after)
    return actions.without_epochs(scalars)


def _without_rule(
    actions: ControllerStepper,
    state: Scalars,
    belief: BeliefState,
    hypothesis: Hypothesis,
    evidence: Evidence,
) -> Scalars | None:
    """The state after an event for which the rules have no action; None if it does not agree with the evidence."""
    plain = actions.decode(state)
    if hypothesis.action == "unregister":
        plain["registrations"][evidence.slot] = Flags().to_plain()
    elif hypothesis.action == "list_directories":
        plain["partition"]["offline"] = list(after_evidence(belief.observed, evidence).offline)
    else:
        decided = evidence.of_min_isr and "min_isr_change_clears_elr" in actions.rules
        if decided or plain["min_insync_replicas"] != held(evidence.min_isr):
            return None
        _set(plain, evidence)
    return actions.encode(plain) if evidence.after is None else None


def add_nearest(
    nearest: Nearest[Candidate],
    beliefs: BeliefStates,
    belief: BeliefState,
    evidence: Evidence,
    reading: int,
    brokers: Brokers,
) -> None:
    """Add the likely hypotheses to those that come nearest to evidence that nothing explains.

    ``reading`` is the number of the evidence, if an observation has several. ``brokers`` are those of the slots.
    """
    expected = after_evidence(belief.observed, evidence)
    hypotheses = list(dict.fromkeys(likely(belief.observed, evidence)))
    actions = beliefs.actions(belief.slots)
    for state in sorted(belief.states):
        for position, hypothesis in enumerate(hypotheses):
            step = actions.step(hypothesis)
            if step is None:
                continue
            refused = step.refusals(state)
            after = actions.decode(step.after(state))
            wrong = differences(asdict(Observed.of(after["partition"])), asdict(expected))
            if evidence.kind in BROKER_ACTIONS:
                flags = Flags.of(after["registrations"][evidence.slot])
                wrong |= differences(flags._asdict(), evidence.flags._asdict(), "registration")
            if evidence.after is not None and not after["partition"]["partition_epoch"]:
                wrong["record"] = ("none", "written")
            if evidence.after is None and after["partition"]["partition_epoch"]:
                wrong["record"] = ("written", "none")
            passed = tuple(g for g in step.guards if g not in refused)
            parameters = dict(zip(step.instance.parameters, hypothesis.values, strict=True))
            found = Candidate(hypothesis.action, parameters, refused, passed, wrong)
            nearest.add((reading, position), len(refused) + len(wrong), candidate(found, brokers))


def _set(plain: dict[str, Any], evidence: Evidence) -> None:
    plain["unclean_election"], plain["first_partition_replicas"] = evidence.unclean, evidence.first


# --- elr index -------------------------------------------------------------------------------------------


def after_failover(beliefs: BeliefStates, belief: BeliefState) -> BeliefState:
    """The belief state under a new controller. Its index may lack the entries of brokers outside the ELR."""

    def make() -> BeliefState:
        states: set[Scalars] = set()
        actions = beliefs.actions(belief.slots)
        for state in belief.states:
            known = enumerate(actions.entries(state))
            left = [range(min(n, slot in belief.observed.elr), n + 1) for slot, n in known]
            states |= {actions.with_entries(state, entries) for entries in product(*left)}
        return beliefs.belief(belief.slots, frozenset(states), belief.observed)

    return beliefs.derived(belief, "failover", make)


def astray(
    beliefs: BeliefStates, before: BeliefState, after: BeliefState, slot: int, later: int | None
) -> frozenset[int]:
    """The possible numbers of index entries that a slot's broker leaves behind when it leaves the ELR.

    ``later`` is the broker's slot in the belief state ``after``, None if it has none.
    """
    is_member = later in after.observed.elr
    if slot not in before.observed.elr or is_member:
        return frozenset((0,))
    left = {0} if later is None else _entries(beliefs, after, later)
    # A change that does not update the index leaves the entries as they were.
    found = _entries(beliefs, before, slot) if 0 in left else {0}
    return frozenset(_gone_astray(beliefs, entries) for entries in found)


def _entries(beliefs: BeliefStates, belief: BeliefState, slot: int) -> set[int]:
    """The possible numbers of index entries of a slot's broker."""
    found = map(beliefs.actions(belief.slots).entries, belief.states)
    return {entries[slot] if entries else 0 for entries in found}


def _gone_astray(beliefs: BeliefStates, entries: int) -> int:
    gone: int = decisions(1, beliefs.rules).gone_astray(entries=entries)
    return gone


def concerned(beliefs: BeliefStates, belief: BeliefState) -> Slots:
    """The slots that a field of the partition names, then those with possible entries in the controller's index."""
    used = belief.observed.used()
    if not belief.is_indexed_astray:
        return used
    others = {*range(belief.slots)} - {*used}
    return (*used, *(slot for slot in sorted(others) if _entries(beliefs, belief, slot) != {0}))


def with_astray(
    beliefs: BeliefStates, belief: BeliefState, slot: int, numbers: frozenset[int]
) -> BeliefState:
    """The belief state of a topic's first partition after the broker of ``slot`` may have got more index entries.

    ``numbers`` are the possible numbers of additional entries.
    """

    def make() -> BeliefState:
        states: set[Scalars] = set()
        actions = beliefs.actions(belief.slots)
        for state in belief.states:
            entries: Scalars = actions.entries(state)
            for number in numbers:
                more = (*entries[:slot], min(entries[slot] + number, MAX_ENTRIES), *entries[slot + 1 :])
                states.add(actions.with_entries(state, more))
        return beliefs.belief(belief.slots, frozenset(states), belief.observed)

    return beliefs.derived(belief, (slot, numbers), make)
