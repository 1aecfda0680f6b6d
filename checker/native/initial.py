"""The initial states, packed: many of them are made as columns, without a Python value for each."""

from __future__ import annotations

import numpy as np

from highwater.checker.native.evaluation import Evaluation
from highwater.checker.native.layout import Layout, Words
from highwater.checker.native.machine import Effort
from highwater.checker.search import EngineError
from highwater.model.language.errors import LanguageError, place_of
from highwater.model.language.graph import TRUE
from highwater.model.language.initial import Family
from highwater.model.language.model import NO_STATE, Model

_AT_ONCE, _MOST = 1 << 20, 1 << 27


def initial_words(model: Model, layout: Layout) -> Words:
    """The packed initial states of a model, each once, in the order of ``Model.initial``.

    EngineError where the condition on them is beyond compiled code.
    """
    start = model.start
    if start is None or start.candidates < 64:
        rows = [layout.pack(s) for s in model.initial]
        return np.array(rows, dtype=np.uint64).reshape(len(rows), layout.words)
    holds = None if start.condition is TRUE else Evaluation(layout, [start.condition], Effort.QUICK)
    found = [np.empty((0, layout.words), dtype=np.uint64)]
    for family in start.families:
        for first in range(0, family.count, _AT_ONCE):
            words = _packed(family, layout, np.arange(first, min(first + _AT_ONCE, family.count)))
            found.append(words if holds is None else words[holds(words)[0]])
            if (count := sum(map(len, found))) > _MOST:
                raise EngineError(f"there are more than {count:,} initial states, and {_MOST:,} are the most")
    words = np.concatenate(found)
    if len(start.families) > 1:
        _, places = np.unique(words, axis=0, return_index=True)
        words = words[np.sort(places)]
    if not len(words):
        raise LanguageError(NO_STATE, place_of(model.protocol.initially))
    return np.ascontiguousarray(words)


def _packed(family: Family, layout: Layout, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Words:
    """The states with these numbers, the last part changing fastest."""
    words = np.tile(layout.pack(family.scalars), (len(numbers), 1))
    for part in reversed(family.parts):
        chosen = numbers % len(part.choices)
        numbers = numbers // len(part.choices)
        for i in range(len(part.choices[0])):
            slot = layout.slots[part.start + i]
            codes = np.array([choice[i] - slot.low for choice in part.choices], dtype=np.uint64)
            column = words[:, slot.word]
            column &= np.uint64(~slot.mask & (1 << 64) - 1)
            column |= codes[chosen] << np.uint64(slot.shift)
    return words


__all__ = ["initial_words"]
