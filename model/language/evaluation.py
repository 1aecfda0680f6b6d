"""The graph's nodes as plain Python: one function from the scalars of a state to values."""

from __future__ import annotations

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


Evaluate = Callable[[Sequence[int]], tuple[Any, ...]]
"""From the scalars of a state to values."""


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
