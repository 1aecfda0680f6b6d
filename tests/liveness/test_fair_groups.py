"""More fairness groups than a word has bits: each stays distinct, weak or strong."""

from __future__ import annotations

import numpy as np
import pytest

from highwater.checker.engines.liveness.fairness import FairGroups
from highwater.model.language.liveness import FairGroup


def groups_of(bits: np.ndarray) -> set[int]:
    """The numbers of the bits that are set in a row of words."""
    return {64 * w + b for w, word in enumerate(bits.tolist()) for b in range(64) if word >> b & 1}


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 130])
def test_groups_stay_distinct(count: int) -> None:
    """A ring of states; the step from each state is the only one of its fairness group."""
    groups = tuple(FairGroup(f"group {g}", g % 3 == 0, frozenset({g})) for g in range(count))
    offsets, numbers = np.arange(count + 1), np.arange(count)
    targets = (numbers + 1) % max(count, 2)
    none = np.zeros(count + 1, dtype=np.int64)
    fair = FairGroups(groups, offsets, targets, numbers, none, none[:0], {count - 1: numbers != count - 1})
    strong = {g for g in range(count) if g % 3 == 0}
    assert (groups_of(fair.strong), groups_of(fair.weak)) == (strong, set(range(count)) - strong)
    # The last group counts as enabled everywhere except in its step's state.
    assert [groups_of(row) for row in fair.enabled] == [{g} if g < count - 1 else set() for g in range(count)]
    assert [groups_of(row) for row in fair.of_step(numbers, numbers)] == [
        groups_of(row) for row in fair.enabled
    ]
