"""The KRaft metadata quorum, as far as KIP-1166 needs it: how the high watermark (HWM) reaches every replica.

In: parameters and rules. Out: the protocol. It shares the functions on logs with ``replication``.
"""

from highwater.model.quorum import elections, leadership
from highwater.model.quorum.cluster import DRAWING, Cluster


class Quorum(Cluster):
    """Voters and observers of the metadata log: appends, fetches that park, commits, elections."""

    name = "quorum"
    modules = (leadership, elections)
    drawing = DRAWING


PROTOCOL = Quorum

__all__ = ["PROTOCOL", "Quorum"]
