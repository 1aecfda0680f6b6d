"""Replication of partitions in KRaft mode."""
