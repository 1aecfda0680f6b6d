"""The KRaft controller: its rules as functions, and a protocol that explores its decisions."""

from highwater.model.replication.controller.protocol import Controller

PROTOCOL = Controller

__all__ = ["PROTOCOL", "Controller"]
