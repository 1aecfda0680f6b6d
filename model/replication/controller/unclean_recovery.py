"""KIP-966, second phase: recovery of a partition that has no clean candidate, by the length of its replicas' logs."""

from __future__ import annotations

from highwater.model.language import ArrayValue, Checks, Number, SetValue, StructValue, Truth, size, where
from highwater.model.language.sequences import members_of
from highwater.model.replication.controller.situation import Situation
from highwater.model.replication.controller.types import (
    Error,
    LeaderRecoveryState,
    RecoveryStrategy,
    Terms,
    written,
)


def mapped_strategy(unclean_election: Truth | bool) -> Number:
    """966.16. What unclean.leader.election.enable is as a strategy: false is Balanced, true is Aggressive."""
    return where(unclean_election, RecoveryStrategy.AGGRESSIVE, RecoveryStrategy.BALANCED)


def may_recover(
    t: Terms,
    partition: StructValue,
    registrations: ArrayValue,
    strategy: Number,
    keeps_last: Truth | bool = False,
) -> Truth:
    """966.13, steps 3 and 4. Whether the controller may elect a leader now by an unclean recovery of its own.

    There is no leader, and no ISR or ELR member that is live. Aggressive does not wait; Balanced waits for
    the ELR, and without one until every last known ELR member is live: the longest log among those that are asked is
    the best only if the one that was longest has been asked. None waits for the operator. ``keeps_last``: without the
    ELR the last member stays in the ISR; Aggressive does not wait for it, Balanced does.
    """
    active = t.active(registrations)
    aggressive = strategy == RecoveryStrategy.AGGRESSIVE
    complete_and_live = (partition.isr | partition.elr) & active
    nobody = partition.isr.is_empty | (keeps_last & aggressive)
    stuck = partition.leader.is_none & complete_and_live.is_empty & nobody
    all_are_there = partition.elr.is_empty & (partition.last_known_elr <= active)
    balanced = (strategy == RecoveryStrategy.BALANCED) & all_are_there
    return stuck & (balanced | aggressive)


def request_checks(t: Terms, partition: StructValue, balanced: bool = False) -> Checks:
    """966.17. Whether a DESIGNATION or LONGEST_LOG election is possible: only where there is no leader.

    ``balanced``: LONGEST_LOG_BALANCED, which waits for the ELR as the strategy Balanced does.
    """
    checks = Checks(Error.NONE, on=t.on)
    checks.check("there is no leader", partition.leader.is_none, Error.ELECTION_NOT_NEEDED)
    if balanced:
        no_elr, waits = partition.elr.is_empty, "balanced_election_waits_for_elr"
        checks.check("the ELR is empty", no_elr, Error.ELIGIBLE_LEADERS_NOT_AVAILABLE, rule=waits)
    return checks


def compared_logs(partition: StructValue, unfenced: SetValue, balanced: bool) -> SetValue:
    """966.17. Whose logs a LONGEST_LOG election compares.

    BALANCED: the last known ELR, fenced or not. If a fenced member has the best log, the partition waits for that
    member. AGGRESSIVE: the unfenced replicas.
    """
    return partition.last_known_elr if balanced else unfenced


def recover(t: Terms, now: Situation, winner: Number) -> StructValue:
    """966.14. The record that makes a live replica leader, by what the replicas said of their logs.

    What they said is in no metadata, so the winner is an argument: any live replica can have it.
    """
    partition = now.partition
    alone, nobody = t.brokers.zero().with_(winner), t.brokers.zero()
    possible = members_of(partition.replicas, t.brokers) & t.active(now.registrations)
    leader, known_leader = partition.leader.type.some(winner), partition.last_known_leader
    forgets = (size(alone) >= now.min_isr) & ~partition.last_known_elr.is_empty
    if not t.on("last_known_elr") and t.on("elr_off_forgets_last_known"):
        forgets = ~partition.last_known_elr.is_empty
    recovering, elr_changes = LeaderRecoveryState.RECOVERING, ~partition.elr.is_empty
    record = t.record(
        replicas=None,
        adding=None,
        removing=None,
        isr=alone,
        elr=written(t, "elr", elr_changes, nobody),
        last_known_elr=written(t, "last_known_elr", forgets, nobody),
        last_known_leader=written(t, "last_known_leader", known_leader.is_some, known_leader.type.none()),
        leader=written(t, "leader", True, leader),
        leader_recovery_state=written(
            t, "leader_recovery_state", partition.leader_recovery_state != recovering, recovering
        ),
        assigns=False,
        fails=False,
    )
    return where(possible.has(winner), record, t.record.zero())
