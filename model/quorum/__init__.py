"""The KRaft metadata quorum, as far as KIP-1166 needs it: how the high watermark reaches every replica."""

from highwater.model.quorum import ballots, elections, fetching, leadership
from highwater.model.quorum.cluster import Cluster
from highwater.model.quorum.drawing import DRAWING


class Quorum(Cluster):
    """Voters and observers of the metadata log: appends, fetches that park, commits, elections."""

    name = "quorum"
    modules = (leadership, fetching, elections, ballots)
    drawing = DRAWING


PROTOCOL = Quorum

__all__ = ["PROTOCOL", "Quorum"]
