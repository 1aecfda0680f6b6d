"""The protocol ``truncation``: log truncation, as published in TLA+, with a switch for each rule."""

from highwater.model.truncation.protocol import Truncation

PROTOCOL = Truncation

__all__ = ["PROTOCOL", "Truncation"]
