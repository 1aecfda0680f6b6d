"""Expressions on many states: the graph's nodes compiled into one loop over packed states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwater.checker.engines.layout import Layout, Words
from highwater.checker.engines.native.code.machine import Effort, Machine
from highwater.checker.engines.native.text.ir import FunctionText, ValueScope
from highwater.checker.engines.state_graph import Explored
from highwater.model.language.graph import BOOL, Node


class Evaluation:
    """Compiled expressions. Raises EngineError where one may need more than 62 bits."""

    def __init__(self, layout: Layout, nodes: Sequence[Node], effort: Effort = Effort.USUAL) -> None:
        self._kinds = [np.bool_ if n.sort == BOOL else np.int64 for n in nodes]
        self._machine = Machine(_text(layout, nodes), effort)
        self._function = self._machine.function("evaluate", 3)

    def __call__(self, states: Words) -> list[NDArray[Any]]:
        """The values on packed states: bools, or int64 for numbers and for sets (as bits)."""
        states = np.ascontiguousarray(states)
        found: list[NDArray[Any]] = [np.empty(len(states), dtype=kind) for kind in self._kinds]
        outputs = np.array([column.ctypes.data for column in found], dtype=np.uint64)
        self._function(states.ctypes.data, len(states), outputs.ctypes.data)
        return found


def evaluated(graph: Explored, nodes: Sequence[Node]) -> list[NDArray[Any]]:
    """The values of expressions on every state of an explored graph, compiled together. Raises as ``Evaluation``."""
    return Evaluation(graph.layout, nodes)(graph.states)


def _text(layout: Layout, nodes: Sequence[Node]) -> str:
    """``@evaluate(states, count, outputs)``: the address of a column for each expression is in ``outputs``."""
    f = FunctionText("void @evaluate(ptr %states, i64 %count, ptr %outputs)")
    columns = [f.op(f"load ptr, ptr {f.at('%outputs', i)}, align 8") for i in range(len(nodes))]
    with f.each(0, "%count") as index:
        state = f.at("%states", f.op(f"mul i64 {index}, {layout.words}"))
        scope = ValueScope(f, layout, [f.load(f.at(state, w)) for w in range(layout.words)])
        for node, column, value in zip(nodes, columns, scope.values(nodes), strict=True):
            if node.sort == BOOL:
                place = f.op(f"getelementptr inbounds i8, ptr {column}, i64 {index}")
                f.do(f"store i8 {f.op(f'zext i1 {value} to i8')}, ptr {place}, align 1")
            else:
                f.store(value, f.at(column, index))
    return f.end()
