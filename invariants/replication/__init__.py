"""What must hold of the replication of partitions."""

from highwater.invariants.replication.cluster import INVARIANTS
from highwater.invariants.replication.liveness import LIVENESS

__all__ = ["INVARIANTS", "LIVENESS"]
