"""Fingerprints collide no more often than random ones, however similar the states are."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from highwater.checker.engines.native.ir import FunctionText
from highwater.checker.engines.native.kernels import combine
from highwater.checker.engines.native.machine import Effort, Machine

COUNT = 1 << 18
EXPECTED = COUNT * (COUNT - 1) / 2 / 2**32
"""Expected number of equal pairs among random 32-bit numbers: 8."""
MOST = 25
"""At least this many occur at random once in a million."""


def fingerprints(states: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Fingerprints of rows of words, computed by the kernels' own code."""
    count, width = states.shape
    f = FunctionText("void @all(ptr %states, ptr %out, i64 %count)")
    f.jump("loop")
    f.start("loop")
    f.do("%i = phi i64 [ 0, %entry ], [ %next, %loop ]")
    row = f.at("%states", f.op(f"mul i64 %i, {width}"))
    f.store(combine(f, [f.load(f.at(row, w)) for w in range(width)]), f.at("%out", "%i"))
    f.do("%next = add i64 %i, 1")
    f.branch(f.op("icmp ult i64 %next, %count"), "loop", "done")
    f.start("done")
    found = np.empty(count, dtype=np.uint64)
    states = np.ascontiguousarray(states)
    machine = Machine(f.end(), Effort.QUICK)  # keeps the machine code alive
    machine.function("all", 3)(states.ctypes.data, found.ctypes.data, count)
    return found


def equal_pairs(values: NDArray[np.uint64]) -> int:
    counts = np.unique(values, return_counts=True)[1]
    return int((counts * (counts - 1) // 2).sum())


def alike(kind: str, width: int) -> NDArray[np.uint64]:
    """States that differ in few bits."""
    number = np.arange(COUNT, dtype=np.uint64)
    states = np.zeros((COUNT, width), dtype=np.uint64)
    if kind == "a counter in the low bits":
        states[:, 0] = number
    elif kind == "a counter in the high bits":
        states[:, -1] = number << np.uint64(46)
    elif kind == "small numbers in all words":
        for word in range(width):
            states[:, word] = (number >> np.uint64(word * 18 // width)) & np.uint64(63)
        states[:, 0] |= number << np.uint64(20)
    else:  # two words swapped
        states[:, 0] = number & np.uint64(511)
        states[:, width - 1] |= (number >> np.uint64(9)) << np.uint64(9 if width == 1 else 0)
    return states


@pytest.mark.parametrize("width", [1, 2, 7])
@pytest.mark.parametrize(
    "kind",
    [
        "a counter in the low bits",
        "a counter in the high bits",
        "small numbers in all words",
        "numbers that change places",
    ],
)
def test_alike_states_have_fingerprints_like_random_ones(kind: str, width: int) -> None:
    found = fingerprints(alike(kind, width))
    for shift in (0, 8, 16, 24, 32):
        pairs = equal_pairs(found >> np.uint64(shift) & np.uint64(0xFFFFFFFF))
        assert pairs < MOST, f"bits from {shift} on"


def test_a_bit_of_a_state_changes_half_of_the_fingerprint() -> None:
    rng = np.random.default_rng(1)
    states = rng.integers(0, 1 << 63, (400, 5), dtype=np.uint64)
    before = fingerprints(states)
    places = [(word, bit) for word in range(5) for bit in range(64)]
    changed = np.repeat(states[np.newaxis], len(places), axis=0)
    for number, (word, bit) in enumerate(places):
        changed[number, :, word] ^= np.uint64(1 << bit)
    after = fingerprints(changed.reshape(-1, 5)).reshape(len(places), -1)
    flipped = np.bitwise_count(before ^ after).mean(axis=1)
    assert 30 < flipped.min() < flipped.max() < 34
