"""Properties checked on observed partitions, besides the controller's invariants.

They are not invariants of the protocol: an operator's unclean election, or more failures than the topic tolerates,
violates them without breaking a rule. Operators still need to know.
"""

from __future__ import annotations

import re
from collections.abc import Set

from highwater.invariants import statements
from highwater.invariants.statements import statement
from highwater.model.language import Invariant, Number, State, Truth, invariant, size
from highwater.model.replication import logs
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.types import LeaderRecoveryState


@invariant("966.13, 704.1")
def leader_elected_cleanly(m: Controller, s: State) -> Truth:
    """The leader was elected from the ISR or the ELR.

    A leader from outside both lacks the records committed without it, and the followers truncate to its log. The
    metadata log shows such a leader as RECOVERING. The violation ends when the leader has recovered.
    """
    return s.partition.leader_recovery_state == LeaderRecoveryState.RECOVERED


@statements.leader_completeness.seen("966.6")
def leader_completeness(m: Controller, s: State) -> Truth:
    """Checks that the leader is in ``complete``, because a metadata log has no partition logs.

    An ISR member that restarted uncleanly may have lost the end of its log; if it leads, the loss is final.
    """
    return statements.leader_completeness(s.partition.leader.is_some, s.complete.has(s.partition.leader))


@invariant("966.13")
def somebody_is_electable(m: Controller, s: State) -> Truth:
    """The ISR has a member, or an ELR member is a replica, so the partition can have a leader without loss.

    Otherwise the partition waits for an unclean election, an unclean recovery, or its last known leader. The controller
    elects only replicas; after a reassignment the ELR can have other brokers.
    """
    return ~(s.partition.isr | s.partition.elr & m.assigned(s.partition)).is_empty


@invariant("966.19")
def has_min_isr(m: Controller, s: State) -> Truth:
    """The ISR has at least min ISR members.

    Otherwise acks=all writes are refused and the HWM does not advance (966.1).
    """
    return size(s.partition.isr) >= m.min_isr(s)


@invariant("966.19")
def has_more_than_min_isr(m: Controller, s: State) -> Truth:
    """The ISR has more than min ISR members.

    Otherwise acks=all writes stop as soon as one more member leaves (966.1).
    """
    return size(s.partition.isr) > m.min_isr(s)


@invariant("966.19")
def has_leader(m: Controller, s: State) -> Truth:
    """The partition has a leader; otherwise it is unavailable."""
    return s.partition.leader.is_some


@statement("966.1")
def hwm_stands_under_min_isr(isr_size: Number, min_isr: Number) -> Truth:
    """The HWM does not advance while the committed ISR has fewer than min ISR members."""
    return logs.gate_is_open(isr_size, min_isr)


@statement("B4")
def hwm_waits_for_isr(leo: Number, hwm: Number) -> Truth:
    """A leader's HWM does not exceed the LEO of any ISR member."""
    return logs.is_held(leo, hwm)


@statement("B5")
def isr_joined_caught_up(leo: Number, hwm: Number, epoch_start: Number) -> Truth:
    """A replica joins the ISR only once its LEO has reached the leader's HWM and LESO."""
    return logs.has_caught_up(leo, hwm, epoch_start)


FINDINGS = (leader_elected_cleanly, leader_completeness, somebody_is_electable)
"""Properties whose violation is reported."""

CONDITIONS = (has_min_isr, has_more_than_min_isr, has_leader)
"""Properties whose violation is measured by its duration."""

OF_BROKERS = (
    statements.leader_completeness,
    statements.committed_records_survive,
    statements.electable_completeness,
    statements.consumers_read_consistently,
    statements.hwm_never_moves_back,
    hwm_stands_under_min_isr,
    hwm_waits_for_isr,
    isr_joined_caught_up,
)
"""Statements checked on brokers' logs."""

OF_REQUESTS = (
    isr_joined_caught_up,
    statements.leader_answers_in_its_epoch,
    statements.stale_epochs_are_refused,
    statements.proposals_name_fetched_epochs,
    statements.one_proposal_is_under_way,
    statements.acknowledged_has_copies,
)
"""Statements checked on the request logs of brokers and controllers."""


def is_guaranteed(found: Invariant, rules: Set[str]) -> bool:
    """True if a version of Kafka with these rules guarantees the property.

    If all rule numbers of a property are from KIP-966, only a version with the ELR guarantees it. Every version
    guarantees the other properties.
    """
    by_kip_966 = all(re.match(r"\s*966\.", part) for part in found.source.split(","))
    return not by_kip_966 or "eligible_leader_replicas" in rules
