"""Where Spark's hash partitioner sends a number, so that each bucket can have a partition of its own."""

from __future__ import annotations

_BITS = (1 << 32) - 1
_SEED = 42


def _mix(block: int, state: int) -> int:
    block = block * 0xCC9E2D51 & _BITS
    block = (block << 15 | block >> 17) & _BITS
    state ^= block * 0x1B873593 & _BITS
    state = (state << 13 | state >> 19) & _BITS
    return (state * 5 + 0xE6546B64) & _BITS


def partition(number: int, count: int) -> int:
    """The partition, of so many, for a 64-bit column: MurmurHash3 (32 bits, seed 42) modulo their count."""
    state = _mix(number >> 32 & _BITS, _mix(number & _BITS, _SEED)) ^ 8
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = (state ^ state >> shift) * factor & _BITS
    state ^= state >> 16
    return (state - (1 << 32) if state >> 31 else state) % count


def partition_keys(count: int) -> tuple[int, ...]:
    """For each partition the least number that goes there.

    Should Spark ever hash otherwise, some partitions get two buckets and some none, and a level is slower.
    """
    found: dict[int, int] = {}
    number = 0
    while len(found) < count:
        found.setdefault(partition(number, count), number)
        number += 1
    return tuple(found[p] for p in range(count))
