"""What must hold of the replication of partitions."""

from highwater.invariants.replication import commits, steps
from highwater.invariants.replication.cluster import INVARIANTS
from highwater.invariants.replication.liveness import LIVENESS

STEP_PROPERTIES = (*steps.OF_EPOCHS, *commits.STEPS)

__all__ = ["INVARIANTS", "LIVENESS", "STEP_PROPERTIES"]
