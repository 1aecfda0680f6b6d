"""The protocol ``zookeeper``: the control plane in ZooKeeper mode, as far as KIP-380 needs it.

In: parameters and rules. Out: the protocol. It knows nothing of KRaft.
"""

from highwater.model.zookeeper import brokers, controller
from highwater.model.zookeeper.cluster import DRAWING, Cluster


class ZooKeeperMode(Cluster):
    """ZooKeeper, controllers, brokers of one partition, and the control requests between them."""

    name = "zookeeper"
    modules = (brokers, controller)
    drawing = DRAWING


PROTOCOL = ZooKeeperMode

__all__ = ["PROTOCOL", "ZooKeeperMode"]
