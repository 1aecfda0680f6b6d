"""How far a leader's high watermark can move. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.model.language import Number, SeqValue, greatest, total, where


def replicated_offset(ends: Sequence[Number], count: int) -> Number:
    """The greatest of these offsets that at least ``count`` of them have reached; −1 where fewer than that are known.

    An offset that is not known is −1.
    """
    reached = [where(total(other >= end for other in ends) >= count, end, -1) for end in ends]
    return greatest(reached[0], *reached[1:])


def epoch_start(log: SeqValue, epoch: Number) -> Number:
    """Where a leader's epoch starts on its log: one past the last record of an earlier one."""
    return total((log.length > i) & (log.at(i).epoch < epoch) for i in range(log.type.maximum))
