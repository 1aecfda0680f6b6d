"""The protocol ``replication.topic``: the controller and a topic of two partitions on the same brokers."""

from highwater.model.replication.topic.protocol import Topic

PROTOCOL = Topic

__all__ = ["PROTOCOL", "Topic"]
