"""Hypotheses: the model's actions, with their parameters, that can explain an observation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from highwater.model.replication.controller.types import NO_LEADER
from highwater.traces.metadata.beliefs.actions import MAX_BROKERS, ControllerStepper, Hypothesis
from highwater.traces.metadata.beliefs.evidence import Evidence, Observed, Slots

BROKER_ACTIONS = frozenset({"fence", "fence_again", "unfence", "start_controlled_shutdown", "register"})
ENVIRONMENT = frozenset({"unregister", "set", "list_directories"})
"""What happens without a rule of the protocol: a broker is removed, a setting is set to what it was or unset, a broker
that is registered lists other log directories."""


def may_cause(actions: ControllerStepper, hypothesis: Hypothesis, evidence: Evidence) -> bool:
    """Whether an action can be behind evidence: some go with a record of their own, which the partition's is not."""
    if hypothesis.action == "change_min_isr" and "min_isr_change_clears_elr" in actions.rules:
        return evidence.of_min_isr
    return True


def likely(before: Observed, evidence: Evidence) -> Iterator[Hypothesis]:
    """The actions, with their parameters, that are likely to explain evidence."""
    match evidence.kind:
        case "fence" | "unfence" | "start_controlled_shutdown" | "unregister" | "lose_directory":
            yield Hypothesis(evidence.kind, (evidence.slot,))
        case "fence_again":
            yield Hypothesis("fence_again", (evidence.slot,))
            # Without a rule for it, that is what comes nearest.
            yield Hypothesis("fence", (evidence.slot,))
        case "assigned_offline":
            yield Hypothesis("lose_directory", (evidence.slot,))
        case "list_directories":
            yield Hypothesis("list_directories")
        case "register":
            yield Hypothesis("register", (evidence.slot, False))
            yield Hypothesis("register", (evidence.slot, True))
        case "settings":
            yield Hypothesis("change_min_isr", (held(evidence.min_isr),))
            if evidence.after is None:
                yield Hypothesis("set")
        case _:
            yield from _of_a_change(before, evidence)


def rounds(before: Observed, evidence: Evidence) -> Iterator[list[Hypothesis]]:
    """The actions that can explain evidence: the likely ones, and only if none of them does, the others."""
    yield list(likely(before, evidence))
    if evidence.kind != "change" or evidence.assigned is not None:
        return
    others = [Hypothesis("alter_partition", (isr, None)) for isr in _subsets(before.replicas)]
    # To the replicas that it has: nothing is moved, and a leader can be elected.
    yield [*others, Hypothesis("reassign", (before.replicas,))]
    if evidence.is_last:
        used = before.used()
        yield [Hypothesis("register_in_part", (slot, clean)) for slot in used for clean in (False, True)]


def _of_a_change(before: Observed, evidence: Evidence) -> Iterator[Hypothesis]:
    """The actions that can change a partition without a broker or a setting having changed."""
    after = evidence.after
    assert after is not None
    if evidence.assigned is not None:
        # Nothing else says in which directories the replicas are, while they stay the same.
        yield from (Hypothesis("assign_directory", (slot,)) for slot in evidence.assigned)
        return
    # A leader may propose what is then the ISR; where that completes a reassignment, also who goes.
    for leaving in _subsets(before.removing):
        yield Hypothesis("alter_partition", (tuple(sorted({*after.isr, *leaving})), None))
    yield Hypothesis("elect_leader", ("PREFERRED",))
    yield Hypothesis("elect_leader", ("UNCLEAN",))
    yield Hypothesis("maybe_elect_unclean_leader")
    yield Hypothesis("maybe_balance_leader")
    if after.leader != NO_LEADER:
        yield Hypothesis("recover_uncleanly", (after.leader,))
    if after.replicas != before.replicas or after.adding or after.removing:
        targets = {after.replicas, tuple(s for s in after.replicas if s not in after.removing)}
        yield from (Hypothesis("reassign", (target,)) for target in sorted(targets))
    if before.adding or before.removing:
        yield Hypothesis("cancel_reassignment")


def _subsets(slots: Slots) -> Iterator[Slots]:
    for size in range(len(slots) + 1):
        yield from combinations(sorted(slots), size)


def held(min_insync_replicas: int) -> int:
    """A setting as the model holds it: more than there can be replicas is as good as that many."""
    return max(1, min(min_insync_replicas, MAX_BROKERS))
