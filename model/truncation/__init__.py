"""The protocol ``truncation``: log truncation, as published in TLA+, with its rules as switches."""

from highwater.model.truncation.protocol import Truncation

PROTOCOL = Truncation

__all__ = ["PROTOCOL", "Truncation"]
