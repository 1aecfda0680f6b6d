"""Replication of partitions in KRaft mode: the whole protocol, at the level of messages."""

from highwater.model.replication.drawing import DRAWING
from highwater.model.replication.recovery import Recovery


class Replication(Recovery):
    """KRaft data replication: controller, brokers, producers, and what goes wrong between them."""

    name = "replication"
    drawing = DRAWING


PROTOCOL = Replication

__all__ = ["PROTOCOL", "Replication"]
