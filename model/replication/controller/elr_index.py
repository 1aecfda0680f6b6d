"""The controller's index from a broker to the partitions whose ELR it is in, as a number of entries each.

The controller goes by the index when a broker registers uncleanly or is removed, and changes a partition once for each
entry. Where every change of an ELR passes through the index there is one entry for a member and none for others. With
``cleared_elr_stays_indexed`` a change of min.insync.replicas does not pass through it, so that entries stay, and a
broker that enters the ELR again has two.
"""

from __future__ import annotations

from highwater.model.language import where
from highwater.model.language.values import Number, Truth
from highwater.model.replication.controller.types import Terms


def entries_after(entries: Number, was_member: Truth, is_member: Truth) -> tuple[Number, Number]:
    """The entries of a broker for a partition after a change of the partition's ELR, and those that go astray.

    Kafka takes all entries of the partition out of an array that it makes one shorter, so that for each entry beyond
    the first one of the topic's partition 0 is left, the place's initial value.
    """
    leaves = was_member & ~is_member
    astray = where(leaves & (entries > 1), entries - 1, 0)
    enters = where(~was_member & is_member, entries + 1, entries)
    return where(leaves, 0, enters), astray


def visits(t: Terms, entries: Number, is_member: Truth) -> Number:
    """How often a partition is changed because of a broker in its ELR: once for each entry."""
    if t.on("cleared_elr_stays_indexed"):
        return entries
    return where(is_member, 1, 0)
