"""What is seen to hold, or never to hold, by the parts of conditions alone."""

from __future__ import annotations

from collections.abc import Iterable

from highwater.model.language import graph
from highwater.model.language.graph import Node


def conjuncts(roots: Iterable[Node]) -> set[Node]:
    """All that holds where these conditions hold, as far as it is one of their parts."""
    found, stack = {graph.TRUE}, list(roots)
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            if node.op == "and":
                stack.extend(node.args)
    return found


def contradict(roots: Iterable[Node]) -> bool:
    """Whether these are seen never to hold together: one is another's negation, or a number has two values."""
    parts = conjuncts(roots)
    values: dict[Node, int] = {}
    for part in parts:
        if part is graph.FALSE or graph.not_(part) in parts:
            return True
        if part.op == "eq" and part.args[1].is_const:
            value = part.args[1].value
            if values.setdefault(part.args[0], value) != value:
                return True
    return False
