"""Replication of partitions in KRaft mode: the whole protocol, at the level of messages."""

from model.replication.clients import Clients


class Replication(Clients):
    """KRaft data replication: controller, brokers, producers, and what goes wrong between them."""

    name = "replication"


PROTOCOL = Replication

__all__ = ["PROTOCOL", "Replication"]
