"""The protocol ``replication``: partitions in KRaft mode, at the level of messages."""

from highwater.model.replication import (
    clients,
    control,
    fetching,
    isr,
    lifecycle,
    metadata,
    recovery,
)
from highwater.model.replication.advice import PROCEDURES
from highwater.model.replication.cluster import Cluster
from highwater.model.replication.drawing import DRAWING


class Replication(Cluster):
    """KRaft data replication: the controller, brokers, producers, and the faults between them.

    ``modules`` have the actions. The module ``high_watermark`` computes a leader's HWM.
    """

    name = "replication"
    modules = (control, lifecycle, metadata, fetching, isr, clients, recovery)
    drawing = DRAWING
    procedures = PROCEDURES
    symmetric = ("broker",)


PROTOCOL = Replication
