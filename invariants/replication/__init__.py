"""What must hold of the replication of partitions."""

from invariants.replication.cluster import INVARIANTS

__all__ = ["INVARIANTS"]
