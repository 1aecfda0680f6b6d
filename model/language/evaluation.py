"""The graph's nodes as plain Python: one function from the scalars of a state to values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from highwater.model.language import graph
from highwater.model.language.graph import Node

_PYTHON: dict[str, str] = {
    "not": "not {0}",
    "and": "{0} and {1}",
    "or": "{0} or {1}",
    "eq": "{0} == {1}",
    "lt": "{0} < {1}",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "floordiv": "{0} // {1} if {1} else 0",
    "mod": "{0} % {1} if {1} else 0",
    "min": "{0} if {0} < {1} else {1}",
    "max": "{1} if {0} < {1} else {0}",
    "select": "{1} if {0} else {2}",
    "union": "{0} | {1}",
    "intersection": "{0} & {1}",
    "difference": "{0} & ~{1}",
    "singleton": "1 << {0}",
    "member": "{1} >> {0} & 1 == 1",
    "count": "{0}.bit_count()",
}


Values = tuple[Any, ...]
"""Values of nodes: numbers, sets as their bits, and truth values as bools."""
Evaluate = Callable[[Sequence[int]], Values]
"""From the scalars of a state to values."""


def values_of(roots: Sequence[Node], scalars: Sequence[int]) -> Values:
    """The values of these nodes in one state: sooner than by a compiled function, which pays the second time."""
    values: dict[int, int] = {}
    for node in graph.reachable(roots):
        if node.op == "const":
            values[node.id] = bool(node.value) if node.sort == graph.BOOL else node.value
        elif node.op == "input":
            values[node.id] = scalars[node.value] != 0 if node.sort == graph.BOOL else scalars[node.value]
        else:
            values[node.id] = _operation(node.op)(*[values[a.id] for a in node.args])
    return tuple([values[root.id] for root in roots])


@functools.cache
def _operation(op: str) -> Callable[..., int]:
    """An operation as a function of its arguments' values."""
    operands = [f"a{number}" for number in range(3)]
    function: Callable[..., int] = eval(f"lambda a0, a1=None, a2=None: {_PYTHON[op].format(*operands)}")
    return function  # of a text of this module alone


def compile_nodes(roots: Sequence[Node]) -> Evaluate:
    """A Python function from the scalars of a state to the values of these nodes (bools as bools)."""
    lines = ["def evaluate(s):"]
    for node in graph.reachable(roots):
        if node.op == "const":
            text = str(bool(node.value)) if node.sort == graph.BOOL else str(node.value)
        elif node.op == "input":
            text = f"s[{node.value}] != 0" if node.sort == graph.BOOL else f"s[{node.value}]"
        else:
            text = _PYTHON[node.op].format(*(f"v{a.id}" for a in node.args))
        lines.append(f"    v{node.id} = {text}")
    lines.append(f"    return ({''.join(f'v{r.id},' for r in roots)})")
    scope: dict[str, Any] = {}
    exec(compile("\n".join(lines), "<graph>", "exec"), scope)  # generated from the graph alone
    function: Evaluate = scope["evaluate"]
    return function
