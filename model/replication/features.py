"""The operator turns features on and off: the metadata version and two flags (966.18).

Nothing is told to brokers, and no partition changes by it: what is recorded of the ELR is there until the next change.
"""

from __future__ import annotations

from highwater.model.language import State, Truth, action, as_bool, require, spend, where
from highwater.model.replication import levels
from highwater.model.replication.cluster import Cluster
from highwater.model.replication.control import merged
from highwater.model.replication.controller.eligible_leader_replicas import cleared


@action("966.18", says="the metadata version is downgraded; the ELR feature ends")
def downgrade(m: Cluster, s: State) -> None:
    """The ELR fields are ignored from now on, and vanish with the next change of the partition.

    Clean shutdowns are told from unclean ones no more (966.12); unclean recovery has a flag of its own. The
    gate of the HWM stays (966.18): it is a rule of brokers, behind no feature.
    """
    spend(s, "downgrades")
    require("the version has the ELR", s.elr_level)
    turn_elr(m, s, False)
    s.next.elr_level = False


@action("966.18, 584.1", says="the metadata version is upgraded; the ELR feature begins")
def upgrade(m: Cluster, s: State) -> None:
    """The ELR starts empty, and is recorded from the next change on: nobody knows who held everything until now.

    In Kafka 4.2 it is the level of the feature that goes up, as often as it has gone down.
    """
    require("the version changes", levels.level_changes(m.p))
    if not m.on("leftover_elr_elects"):
        spend(s, "upgrades")
    require("the version lacks the ELR", ~s.elr_level)
    turn_elr(m, s, s.elr_flag if m.p.flag_changes else True)
    s.next.elr_level = True


@action("966.18", says="eligible.leader.replicas.enabled is changed")
def change_elr_flag(m: Cluster, s: State) -> None:
    """The ELR ends, or begins, and nothing else: clean shutdowns go by the metadata version."""
    spend(s, "flag_changes")
    turn_elr(m, s, ~s.elr_flag & s.elr_level if levels.level_changes(m.p) else ~s.elr_flag)
    s.next.elr_flag = ~s.elr_flag


@action("966.14, 966.18", rule="unclean_recovery", says="unclean.recovery.manager.enabled is changed")
def change_recovery_flag(m: Cluster, s: State) -> None:
    """Unclean recovery takes the place of unclean election, or does no more, with the ELR or without it.

    What was asked of replicas is forgotten.
    """
    spend(s, "flag_changes")
    s.next.recovery_flag = ~s.recovery_flag
    if m.p.recovery:
        for b in m.broker:
            s.next.log_infos[b] = None


def turn_elr(m: Cluster, s: State, on: Truth | bool) -> None:
    """The ELR begins, ends, or is as it was: whether it is on from now on."""
    require("every partition has a leader", s.partition.leader.is_some, rule="level_changes_with_leader")
    begins = on & ~levels.has_elr(m, s)
    empties = as_bool(m.on("level_change_empties_elr")) | (begins & m.on("elr_begins_empty"))
    record = where(empties, cleared(m.t, s.partition), m.t.record.zero())
    partition = merged(m, s, record)
    s.next.partition = partition
    if levels.remembers_whole(m):
        s.next.elr_is_whole = levels.is_whole(m, s, partition) & on
