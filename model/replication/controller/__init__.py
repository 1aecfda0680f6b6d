"""The KRaft controller: its rules as functions, and a protocol that explores its decisions.

In: a ControllerContext and a request. Out: Handled (checks, record and error). It knows no broker's log and no message
in flight.
"""

from highwater.model.replication.controller.protocol import Controller

PROTOCOL = Controller

__all__ = ["PROTOCOL", "Controller"]
