"""Replication of partitions in KRaft mode: the whole protocol, at the level of messages."""

from highwater.model.replication.protocol import PROTOCOL, Replication

__all__ = ["PROTOCOL", "Replication"]
