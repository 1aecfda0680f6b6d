"""Elections that somebody asks for, and those that the controller runs now and then."""

from __future__ import annotations

from highwater.model.language import Number, StructValue, where
from highwater.model.replication.controller.elections import preferred_leads
from highwater.model.replication.controller.partition_change import partition_change
from highwater.model.replication.controller.situation import Situation
from highwater.model.replication.controller.types import ElectionType, Terms


def elect_leader(t: Terms, now: Situation, election: Number) -> StructValue:
    """966.17. The record of an election on request, PREFERRED or UNCLEAN, that passed the checks."""
    return partition_change(t, now, election)


def maybe_elect_unclean_leader(t: Terms, now: Situation) -> StructValue:
    """966.15, 966.16. The periodic task: a partition without a leader, whose topic allows it, elects uncleanly.

    An operator may have allowed it when the partition was leaderless already, and no broker comes or goes after that.
    """
    record = elect_leader(t, now, ElectionType.UNCLEAN)
    return where(now.partition.leader.is_none & now.unclean_election, record, t.record.zero())


def maybe_balance_leader(t: Terms, now: Situation) -> StructValue:
    """966.17. The periodic task: a partition that another than its preferred replica leads tries to elect that one."""
    record = elect_leader(t, now, ElectionType.PREFERRED)
    return where(~preferred_leads(now.partition), record, t.record.zero())
