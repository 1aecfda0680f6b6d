"""What must hold of the replication of partitions."""

from invariants.replication.cluster import INVARIANTS
from invariants.replication.liveness import LIVENESS

__all__ = ["INVARIANTS", "LIVENESS"]
