"""Log truncation: the small protocol that is published in TLA+, here with its rules as switches."""

from highwater.model.truncation.protocol import Truncation

PROTOCOL = Truncation

__all__ = ["PROTOCOL", "Truncation"]
