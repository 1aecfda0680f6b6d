"""The model's actions, with their parameters, that can be behind what was observed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from highwater.model.replication.controller.types import NO_LEADER
from highwater.traces.metadata.beliefs.actions import MAX_BROKERS, Choice, ControllerActions
from highwater.traces.metadata.beliefs.observations import Event, Observed, Slots

BROKER_ACTIONS = frozenset({"fence", "fence_again", "unfence", "start_controlled_shutdown", "register"})
ENVIRONMENT = frozenset({"unregister", "set", "list_directories"})
"""What happens without a rule of the protocol: a broker is removed, a setting is set to what it was or unset, a broker
that is registered lists other log directories."""


def may_cause(actions: ControllerActions, choice: Choice, event: Event) -> bool:
    """Whether an action can be behind an event: some go with a record of their own, which the partition's is not."""
    if choice.action == "change_min_isr" and "min_isr_change_clears_elr" in actions.rules:
        return event.of_min_isr
    return True


def likely(before: Observed, event: Event) -> Iterator[Choice]:
    """The actions, with their parameters, that are likely to explain an event."""
    match event.kind:
        case "fence" | "unfence" | "start_controlled_shutdown" | "unregister" | "lose_directory":
            yield Choice(event.kind, (event.slot,))
        case "fence_again":
            yield Choice("fence_again", (event.slot,))
            # Without a rule for it, that is what comes nearest.
            yield Choice("fence", (event.slot,))
        case "assigned_offline":
            yield Choice("lose_directory", (event.slot,))
        case "list_directories":
            yield Choice("list_directories")
        case "register":
            yield Choice("register", (event.slot, False))
            yield Choice("register", (event.slot, True))
        case "settings":
            yield Choice("change_min_isr", (held(event.min_isr),))
            if event.after is None:
                yield Choice("set")
        case _:
            yield from _of_a_change(before, event)


def rounds(before: Observed, event: Event) -> Iterator[list[Choice]]:
    """The actions that can explain an event: the likely ones, and only if none of them does, the others."""
    yield list(likely(before, event))
    if event.kind != "change" or event.assigned is not None:
        return
    others = [Choice("alter_partition", (isr, None)) for isr in _subsets(before.replicas)]
    # To the replicas that it has: nothing is moved, and a leader can be elected.
    yield [*others, Choice("reassign", (before.replicas,))]
    if event.is_last:
        used = before.used()
        yield [Choice("register_in_part", (slot, clean)) for slot in used for clean in (False, True)]


def _of_a_change(before: Observed, event: Event) -> Iterator[Choice]:
    """The actions that can change a partition without a broker or a setting having changed."""
    after = event.after
    assert after is not None
    if event.assigned is not None:
        # Nothing else says in which directories the replicas are, while they stay the same.
        yield from (Choice("assign_directory", (slot,)) for slot in event.assigned)
        return
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


def _subsets(slots: Slots) -> Iterator[Slots]:
    for size in range(len(slots) + 1):
        yield from combinations(sorted(slots), size)


def held(min_insync_replicas: int) -> int:
    """A setting as the model holds it: more than there can be replicas is as good as that many."""
    return max(1, min(min_insync_replicas, MAX_BROKERS))


__all__ = ["BROKER_ACTIONS", "ENVIRONMENT", "held", "likely", "may_cause", "rounds"]
