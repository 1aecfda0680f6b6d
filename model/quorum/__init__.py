"""The KRaft metadata quorum, as far as KIP-1166 needs it: how the high watermark reaches every replica."""

from highwater.model.quorum.drawing import DRAWING
from highwater.model.quorum.elections import Elections


class Quorum(Elections):
    """Voters and observers of the metadata log: appends, fetches that park, commits, elections."""

    name = "quorum"
    drawing = DRAWING


PROTOCOL = Quorum

__all__ = ["PROTOCOL", "Quorum"]
