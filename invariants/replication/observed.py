"""What is asked of a partition that was observed, besides the invariants of the controller.

These are no invariants of the protocol: an operator who prefers availability, or more failures than a topic
is made for, break them in keeping with every rule. Who runs the cluster wants to know all the same.
"""

from __future__ import annotations

import re
from collections.abc import Set

from highwater.invariants import statements
from highwater.model.language import State, invariant, size
from highwater.model.language.protocol import Invariant
from highwater.model.language.values import Truth
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.types import LeaderRecoveryState


@invariant("966.13, 704.1")
def leader_elected_cleanly(m: Controller, s: State) -> Truth:
    """The leader was elected from the ISR or the ELR.

    A leader from outside both lacks what was committed without it, and the others truncate to its log.
    """
    return s.partition.leader_recovery_state == LeaderRecoveryState.RECOVERED


@statements.leader_completeness.seen("966.6")
def leader_completeness(m: Controller, s: State) -> Truth:
    """As far as that is known without its log.

    A member of the ISR that restarted uncleanly may have lost the end of its log; as leader it makes that final.
    """
    return statements.leader_completeness(s.partition.leader.is_some, s.complete.has(s.partition.leader))


@invariant("966.13")
def somebody_is_electable(m: Controller, s: State) -> Truth:
    """Somebody is in the ISR or the ELR, so that the partition can have a leader without loss.

    Else it waits for an unclean election, an unclean recovery, or its last known leader.
    """
    return ~(s.partition.isr | s.partition.elr).is_empty


@invariant("966.19")
def has_min_isr(m: Controller, s: State) -> Truth:
    """The ISR has min ISR members; else acks=all is refused, and the HWM stands still (966.1)."""
    return size(s.partition.isr) >= m.min_isr(s)


@invariant("966.19")
def has_leader(m: Controller, s: State) -> Truth:
    """The partition has a leader; else it can be neither written nor read."""
    return s.partition.leader.is_some


FINDINGS = (leader_elected_cleanly, leader_completeness, somebody_is_electable)
"""What is a finding wherever it does not hold."""

CONDITIONS = (has_min_isr, has_leader)
"""What is measured by how long it does not hold."""

OF_BROKERS = (
    statements.leader_completeness,
    statements.committed_records_survive,
    statements.electable_completeness,
    statements.consumers_read_consistently,
    statements.hwm_never_moves_back,
    statements.hwm_stands_under_min_isr,
    statements.hwm_waits_for_isr,
    statements.isr_joined_caught_up,
)
"""What the logs of brokers are asked."""

OF_REQUESTS = (
    statements.hwm_never_moves_back,
    statements.hwm_stands_under_min_isr,
    statements.hwm_waits_for_isr,
    statements.isr_joined_caught_up,
    statements.leader_answers_in_its_epoch,
    statements.stale_epochs_are_refused,
    statements.proposals_name_fetched_epochs,
    statements.one_proposal_is_under_way,
    statements.acknowledged_has_copies,
)
"""What the request logs of brokers and controllers are asked."""


def is_promised(found: Invariant, rules: Set[str]) -> bool:
    """Whether a version with these rules answers for a property.

    A property that other proposals ask for too is promised without the ELR as well.
    """
    by_kip_966 = all(re.match(r"\s*966\.", part) for part in found.source.split(","))
    return not by_kip_966 or "eligible_leader_replicas" in rules
