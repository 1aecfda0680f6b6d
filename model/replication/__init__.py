"""The protocol ``replication``: partitions in KRaft mode, at the level of messages."""

from highwater.model.replication.protocol import PROTOCOL, Replication

__all__ = ["PROTOCOL", "Replication"]
