"""The packed initial states of a model."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from highwater.checker.engines.native.instructions import Evaluation
from highwater.checker.engines.state_graph import Layout, Words
from highwater.checker.scenarios.search import EngineError
from highwater.model.language import LanguageError, Model
from highwater.model.language.errors import place_of
from highwater.model.language.graph import TRUE
from highwater.model.language.initial import FreePart, InitialFamily
from highwater.model.language.model import NO_STATE

# The packed initial states. Large families are built as columns, without a Python value for each state.

_AT_ONCE, _MOST = 1 << 20, 1 << 27
_PART = 1 << 16
"""The least number of states per thread that evaluates the condition on initial states."""


def initial_words(model: Model, layout: Layout) -> Words:
    """The packed initial states of a model without duplicates, in the order of ``Model.initial``.

    Raises EngineError if there are too many initial states, or the condition on them cannot be compiled. Raises
    LanguageError if there is no initial state.
    """
    start = model.start
    if start is None or start.candidates < 64:
        rows = [layout.pack(s) for s in model.initial]
        return np.array(rows, dtype=np.uint64).reshape(len(rows), layout.words)
    holds = None if start.condition is TRUE else Evaluation(layout, [start.condition])
    found = [np.empty((0, layout.words), dtype=np.uint64)]
    for family in start.families:
        for words in _blocks(family, layout):
            found += [words] if holds is None else _selected(holds, words)
            if (count := sum(map(len, found))) > _MOST:
                raise EngineError(f"there are more than {count:,} initial states, and {_MOST:,} are the most")
    words = np.concatenate(found)
    if len(start.families) > 1:
        _, places = np.unique(words, axis=0, return_index=True)
        words = words[np.sort(places)]
    if not len(words):
        raise LanguageError(NO_STATE, place_of(model.protocol.initially))
    return np.ascontiguousarray(words)


def _selected(holds: Evaluation, words: Words) -> list[Words]:
    """The states for which the condition holds, in order. All cores evaluate the condition."""
    parts = np.array_split(words, max(1, min(len(words) // _PART, len(os.sched_getaffinity(0)))))
    with ThreadPoolExecutor(len(parts)) as pool:
        return list(pool.map(lambda part: np.compress(holds(part)[0], part, axis=0), parts))


def _blocks(family: InitialFamily, layout: Layout) -> Iterator[Words]:
    """Yield the states of a family in blocks.

    Each free part has its own bits in a state, and several bit patterns to choose from. All other bits are fixed.
    The states are all combinations of choices; the choice of the last free part changes fastest.
    """
    patterns = [_patterns(part, layout) for part in family.parts]
    fixed = layout.pack(family.scalars) & ~np.bitwise_or.reduce(
        [_mask(part, layout) for part in family.parts] or [np.zeros(layout.words, dtype=np.uint64)]
    )
    last = fixed.reshape(1, -1)
    while patterns and len(last) * len(patterns[-1]) <= _AT_ONCE:
        last = _product(patterns.pop(), last)
    if not patterns:
        yield last
        return
    split = patterns.pop()
    size = max(1, _AT_ONCE // len(last))
    for first in itertools.product(*patterns):
        rest = last | np.bitwise_or.reduce([np.zeros_like(fixed), *first])
        for start in range(0, len(split), size):
            yield _product(split[start : start + size], rest)


def _product(outer: Words, inner: Words) -> Words:
    """Each pattern of ``outer`` combined with each pattern of ``inner``; ``inner`` changes fastest."""
    return (outer[:, None, :] | inner[None, :, :]).reshape(-1, inner.shape[1])


def _mask(part: FreePart, layout: Layout) -> Words:
    found = np.zeros(layout.words, dtype=np.uint64)
    for i in range(len(part.choices[0])):
        slot = layout.slots[part.start + i]
        found[slot.word] |= np.uint64(slot.mask)
    return found


def _patterns(part: FreePart, layout: Layout) -> Words:
    """The packed bits of each choice of a free part, with shape (choices, words)."""
    found = np.zeros((len(part.choices), layout.words), dtype=np.uint64)
    for i in range(len(part.choices[0])):
        slot = layout.slots[part.start + i]
        codes = np.array([choice[i] - slot.low for choice in part.choices], dtype=np.uint64)
        found[:, slot.word] |= codes << np.uint64(slot.shift)
    return found
