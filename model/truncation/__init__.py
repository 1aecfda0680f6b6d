"""The protocol ``truncation``: log truncation, as published in TLA+, with a switch for each rule.

In: parameters and rules. Out: the protocol. It shares nothing with ``replication``, so that peers can compare counts.
"""

from highwater.model.truncation.protocol import Truncation

PROTOCOL = Truncation

__all__ = ["PROTOCOL", "Truncation"]
