"""The protocol ``promise``: what Kafka promises to the clients of a partition."""

from highwater.model.promise.protocol import PROTOCOL, Promise

__all__ = ["PROTOCOL", "Promise"]
