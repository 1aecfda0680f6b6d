"""What must hold of the replication of partitions."""
