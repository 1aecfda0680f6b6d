"""Kafka's promise to its clients."""

from highwater.model.promise.protocol import PROTOCOL, Promise

__all__ = ["PROTOCOL", "Promise"]
