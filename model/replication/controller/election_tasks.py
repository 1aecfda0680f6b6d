"""Elections that somebody asks for, and those that the controller runs now and then."""

from __future__ import annotations

from highwater.model.language import ArrayValue, Number, StructValue, Truth, where
from highwater.model.replication.controller.elections import preferred_leads
from highwater.model.replication.controller.partition_change import partition_change
from highwater.model.replication.controller.types import ElectionType, Terms


def elect_leader(
    t: Terms, partition: StructValue, registrations: ArrayValue, election: Number, min_isr: Number
) -> StructValue:
    """966.17. The record of an election on request, PREFERRED or UNCLEAN, that passed the checks."""
    return partition_change(t, partition, min_isr, t.acceptable(partition, registrations), election)


def maybe_elect_unclean_leader(
    t: Terms, partition: StructValue, registrations: ArrayValue, min_isr: Number, unclean_election: Truth
) -> StructValue:
    """966.15, 966.16. The periodic task: a partition without a leader, whose topic allows it, elects uncleanly.

    An operator may have allowed it when the partition was leaderless already, and no broker comes or goes after that.
    """
    record = elect_leader(t, partition, registrations, ElectionType.UNCLEAN, min_isr)
    return where(partition.leader.is_none & unclean_election, record, t.record.zero())


def maybe_balance_leader(
    t: Terms, partition: StructValue, registrations: ArrayValue, min_isr: Number
) -> StructValue:
    """966.17. The periodic task: a partition that another than its preferred replica leads tries to elect that one."""
    record = elect_leader(t, partition, registrations, ElectionType.PREFERRED, min_isr)
    return where(~preferred_leads(partition), record, t.record.zero())
