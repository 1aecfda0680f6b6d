"""The protocol ``replication.topic``: the controller and a topic of two partitions on the same brokers.

In: parameters and rules of the controller. Out: the protocol. It may import the controller, and no message or log.
"""

from highwater.model.replication.topic.protocol import Topic

PROTOCOL = Topic

__all__ = ["PROTOCOL", "Topic"]
