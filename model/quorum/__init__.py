"""The KRaft metadata quorum, as far as KIP-1166 needs it: how the high watermark reaches every replica."""

from model.quorum.drawing import DRAWING
from model.quorum.elections import Elections


class Quorum(Elections):
    """Voters and observers of the metadata log: appends, fetches that park, commits, elections."""

    name = "quorum"
    drawing = DRAWING


PROTOCOL = Quorum

__all__ = ["PROTOCOL", "Quorum"]
