"""The control plane in ZooKeeper mode, as far as KIP-380 needs it."""

from highwater.model.zookeeper.controller import ControlPlane
from highwater.model.zookeeper.drawing import DRAWING


class ZooKeeperMode(ControlPlane):
    """ZooKeeper, controllers, brokers of one partition, and the control requests between them."""

    name = "zookeeper"
    drawing = DRAWING


PROTOCOL = ZooKeeperMode

__all__ = ["PROTOCOL", "ZooKeeperMode"]
