"""Whether an election was needed: it ends a leader epoch, and an unclean one loses records (966.13)."""

from __future__ import annotations

from highwater.model.language import Number, SetValue, StructValue, Truth
from highwater.model.language.sequences import members_of
from highwater.model.replication.controller import elections
from highwater.model.replication.controller.types import ElectionType, Terms


def is_needless(
    t: Terms,
    old: StructValue,
    new: StructValue,
    live: SetValue,
    electable: SetValue,
    election: Number | None = None,
) -> Truth:
    """966.13, 966.17. Whether a decision changes leaders without need.

    ``live`` are the brokers that may lead after it, ``electable`` those that hold what is committed; ``election`` is
    the one that was asked for. Without need are: that the leader does not lead on though it is a live member of the ISR
    and nobody asked for another; that nobody leads, or who is not electable, though a live replica is electable.
    """
    candidates = electable & live & members_of(new.replicas, t.brokers)
    before, after = old.leader, new.leader
    changes = before != after
    ended = before.is_some & (candidates & old.isr).has(before)
    if election is not None:
        ended = ended & ~(
            (election == ElectionType.PREFERRED) & after.is_some & elections.preferred_leads(new)
        )
    passed_over = ~candidates.is_empty & ~candidates.has(after)
    return changes & (ended | passed_over)
