"""Replication of partitions in KRaft mode: the whole protocol, at the level of messages."""

from highwater.model.replication import (
    clients,
    control,
    fetching,
    isr,
    lifecycle,
    metadata,
    recovery,
)
from highwater.model.replication.cluster import Cluster
from highwater.model.replication.drawing import DRAWING


class Replication(Cluster):
    """KRaft data replication: controller, brokers, producers, and what goes wrong between them.

    Its steps are in the modules that it names; how far a leader's high watermark goes, in ``high_watermark``.
    """

    name = "replication"
    modules = (control, lifecycle, metadata, fetching, isr, clients, recovery)
    drawing = DRAWING
    symmetric = ("broker",)


PROTOCOL = Replication
