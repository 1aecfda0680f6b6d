"""The protocol ``promise``: what Kafka promises to the clients of a partition.

In: parameters. Out: the protocol that ``replication`` implements. It knows no broker.
"""

from highwater.model.promise.protocol import PROTOCOL, Promise

__all__ = ["PROTOCOL", "Promise"]
