"""The protocol ``replication``: partitions in KRaft mode, at the level of messages.

In: parameters and rules. Out: the protocol. Brokers and messages are here; the controller's decisions are in
``controller``, which the actions of ``control`` call.
"""

from highwater.model.replication.protocol import PROTOCOL, Replication

__all__ = ["PROTOCOL", "Replication"]
