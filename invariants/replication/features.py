"""What the controller remembers of a partition, and when, while features are turned on and off (966.18)."""

from __future__ import annotations

from highwater.model.language import State, implies, size
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import Truth
from highwater.model.replication import Replication


@step_property("966.4, 966.10, 966.11, 966.18")
def remembered_only_while_due(m: Replication, before: State, after: State) -> Truth:
    """What a change of the partition leaves remembered is due.

    ELR and last known ELR only while the ISR is under min ISR, a last known leader only while there is no leader, and
    while the ELR is off none of them: nobody keeps them true, and they would count when it is on again.
    """
    old, new = before.partition, after.partition
    on = m.has_elr(before)
    nobody = new.elr.is_empty & new.last_known_elr.is_empty
    due = nobody | (on & (size(new.isr) < m.min_isr(after)))
    leader_due = new.last_known_leader.is_none | (on & new.leader.is_none)
    return implies(old.partition_epoch != new.partition_epoch, due & leader_due)


STEPS = (remembered_only_while_due,)
"""The properties of steps."""
