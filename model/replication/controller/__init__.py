"""The controller of KRaft mode: its rules as functions, and an explorable protocol made of them."""

from highwater.model.replication.controller.protocol import Controller

PROTOCOL = Controller

__all__ = ["PROTOCOL", "Controller"]
