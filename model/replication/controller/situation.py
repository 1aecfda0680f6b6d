"""What the controller decides by: one partition, the brokers, and the two settings of its topic."""

from __future__ import annotations

from dataclasses import dataclass

from highwater.model.language import ArrayValue, Number, StructValue, Truth, where
from highwater.model.replication.controller.types import ElectionType


@dataclass(frozen=True)
class Situation:
    """What every rule about a change of a partition is asked with: all as it is before the change."""

    partition: StructValue
    registrations: ArrayValue
    min_isr: Number
    """The effective min ISR (966.2)."""
    unclean_election: Truth
    """unclean.leader.election.enable of the topic."""

    @property
    def election(self) -> Number:
        """966.15. The kind of election that the controller runs by itself: UNCLEAN where the topic allows it."""
        return where(self.unclean_election, ElectionType.UNCLEAN, ElectionType.ONLINE)
