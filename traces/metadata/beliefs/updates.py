"""Belief updates: the model states after evidence, and the hypotheses that came near where nothing explains it."""

from __future__ import annotations

from typing import Any

from highwater.model.language.interpreter import differences
from highwater.model.language.model import Scalars
from highwater.model.replication.controller.types import NO_LEADER
from highwater.traces.metadata.beliefs.actions import ControllerStepper, Hypothesis
from highwater.traces.metadata.beliefs.belief_states import BeliefStates
from highwater.traces.metadata.beliefs.evidence import (
    Evidence,
    NearMiss,
    Observed,
    after_evidence,
)
from highwater.traces.metadata.beliefs.hypotheses import (
    BROKER_ACTIONS,
    ENVIRONMENT,
    held,
    likely,
    may_cause,
    rounds,
)
from highwater.traces.metadata.beliefs.observations import Flags
from highwater.traces.metadata.beliefs.transitions import BeliefState, Tagged, Update

NEAREST = 5
"""So many hypotheses that came near are reported of a record that nothing explains."""
_LISTING = frozenset({"register", "lose_directory"})
"""Kinds of evidence in which a broker lists the log directories that it has."""


def updated(beliefs: BeliefStates, belief: BeliefState, evidence: Evidence) -> Update:
    """The model states after evidence, with the actions that lead there; none where nothing explains it."""
    if evidence not in belief.updates:
        belief.updates[evidence] = _updated(beliefs, belief, evidence)
    return belief.updates[evidence]


def _updated(beliefs: BeliefStates, belief: BeliefState, evidence: Evidence) -> Update:
    found: set[Tagged] = set()
    names: set[str] = set()
    expected = {tag: _expected(beliefs.actions(tag, belief.slots), belief, evidence) for tag in belief.tags}
    for hypotheses in rounds(belief.observed, evidence):
        for tag, state in belief.states:
            actions = beliefs.actions(tag, belief.slots)
            for hypothesis in hypotheses:
                after = _take(actions, state, belief, hypothesis, evidence, expected[tag])
                if after is not None:
                    found.add((tag, after))
                    names.add(hypothesis.action)
        if found:
            break
    return frozenset(found), frozenset(names)


def _expected(actions: ControllerStepper, belief: BeliefState, evidence: Evidence) -> frozenset[Scalars]:
    """The partition after evidence, as the scalars that it can be: LastKnownElr can hold one of two things."""
    after = after_evidence(belief.observed, evidence)
    if after.repeated or after.misplaced:
        return frozenset()
    found = set()
    for is_leader in (False, True) if len(after.last_known) == 1 else (False,):
        if is_leader or NO_LEADER not in after.last_known:
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
    """The state after an action that agrees with the evidence; None where the action does not."""
    if hypothesis.action in ENVIRONMENT and not actions.has(hypothesis.action):
        return _without_rule(actions, state, belief, hypothesis, evidence)
    if not actions.has(hypothesis.action) or not may_cause(actions, hypothesis, evidence):
        return None
    step = actions.taken(hypothesis)
    if step is None or not step.enabled(state):
        return None
    scalars = step.after(state)
    if evidence.kind in _LISTING and not (evidence.kind == "lose_directory" and evidence.offline):
        # Which directories a broker lists is its own affair.
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
    """What happens to the state's surroundings, and changes no partition."""
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


def nearest(beliefs: BeliefStates, belief: BeliefState, evidence: Evidence) -> list[NearMiss]:
    """The hypotheses that came nearest to evidence that nothing explains, the nearest first."""
    expected = after_evidence(belief.observed, evidence)
    near: dict[Hypothesis, NearMiss] = {}
    for tag, state in sorted(belief.states):
        actions = beliefs.actions(tag, belief.slots)
        for hypothesis in likely(belief.observed, evidence):
            step = actions.taken(hypothesis)
            if step is None:
                continue
            refused = step.refusals(state)
            after = actions.decode(step.after(state))
            wrong = differences(vars(Observed.of(after["partition"])), vars(expected))
            if evidence.kind in BROKER_ACTIONS:
                flags = Flags.of(after["registrations"][evidence.slot])
                wrong |= differences(flags._asdict(), evidence.flags._asdict(), "registration")
            if evidence.after is not None and not after["partition"]["partition_epoch"]:
                wrong["record"] = ("none", "written")
            if evidence.after is None and after["partition"]["partition_epoch"]:
                wrong["record"] = ("written", "none")
            passed = tuple(g for g in step.guards if g not in refused)
            found = NearMiss(hypothesis, tuple(step.instance.parameters), refused, passed, wrong)
            if hypothesis not in near or _distance(found) < _distance(near[hypothesis]):
                near[hypothesis] = found
    return sorted(near.values(), key=_distance)[:NEAREST]


def _set(plain: dict[str, Any], evidence: Evidence) -> None:
    plain["unclean_election"], plain["first_partition_replicas"] = evidence.unclean, evidence.first


def _distance(near: NearMiss) -> int:
    return len(near.refused_by) + len(near.differences)
