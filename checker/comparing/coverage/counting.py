"""Asking expressions in many states, and counting how often they hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from highwater.checker.engines.layout import Layout, Words
from highwater.checker.engines.native.code.machine import Effort
from highwater.checker.engines.native.evaluation import Evaluation
from highwater.model.language.graph import Node

TOGETHER = 128
"""So many expressions are compiled at a time."""
MANY = 1 << 18
"""From so many states on it pays to compile with care."""
STATES = 1 << 14
"""So many states are asked at a time: the answers of both are in memory together."""


def count(layout: Layout, nodes: Sequence[Node], states: Words) -> list[int]:
    """In how many packed states each expression holds. EngineError where one may need more than 62 bits."""
    known: dict[int, int] = {}
    distinct = {node.id: node for node in nodes}
    for node in list(distinct.values()):
        if node.is_const:
            known[node.id] = len(states) if node.value else 0
            del distinct[node.id]
    # Expressions of one instance have much in common: together they are compiled once.
    waiting = list(distinct.values())
    effort = Effort.USUAL if len(states) >= MANY else Effort.QUICK
    for start in range(0, len(waiting), TOGETHER):
        some = waiting[start : start + TOGETHER]
        asked, totals = Evaluation(layout, some, effort), np.zeros(len(some), dtype=np.int64)
        for first in range(0, len(states), STATES):
            columns = asked(states[first : first + STATES])
            totals += [np.count_nonzero(column) for column in columns]
        known |= {node.id: int(total) for node, total in zip(some, totals, strict=True)}
    return [known[node.id] for node in nodes]
