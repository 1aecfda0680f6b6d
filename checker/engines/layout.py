"""Packing: where each scalar of a state lies in its 64-bit words."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from highwater.checker.asking.search import EngineError
from highwater.model.language.initial import Scalars
from highwater.model.language.types import Leaf

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Slot:
    """A scalar's place: ``bits`` bits from bit ``shift`` of word ``word``; it is stored less ``low``."""

    word: int
    shift: int
    bits: int
    low: int

    @property
    def mask(self) -> int:
        """The bits of the word that the scalar takes."""
        return ((1 << self.bits) - 1) << self.shift


class Layout:
    """The places of all scalars: each in the first word that has room, none across two words."""

    def __init__(self, leaves: Sequence[Leaf]) -> None:
        used: list[int] = []
        self.slots: list[Slot] = []
        for leaf in leaves:
            if leaf.bits > 62:
                raise EngineError(
                    f"{leaf.path} needs {leaf.bits} bits; the native engine packs at most 62 in one field"
                )
            word = next((w for w, bits in enumerate(used) if bits + leaf.bits <= 64), len(used))
            if word == len(used):
                used.append(0)
            self.slots.append(Slot(word, used[word], leaf.bits, leaf.low))
            used[word] += leaf.bits
        self.words = max(1, len(used))
        self.bits = sum(used)

    def twice(self) -> Layout:
        """The places of the scalars of two states, one behind the other: those before a step and after it."""
        both = copy(self)
        both.slots = self.slots + [replace(slot, word=slot.word + self.words) for slot in self.slots]
        both.words, both.bits = 2 * self.words, 2 * self.bits
        return both

    def pack(self, state: Sequence[int]) -> Words:
        """The words of a state."""
        words = [0] * self.words
        for slot, value in zip(self.slots, state, strict=True):
            words[slot.word] |= (value - slot.low) << slot.shift
        return np.array(words, dtype=np.uint64)

    def unpack(self, words: Words) -> Scalars:
        """The scalars of a packed state."""
        plain = [int(w) for w in words]
        return tuple((plain[s.word] >> s.shift & ((1 << s.bits) - 1)) + s.low for s in self.slots)
