"""What symbolic values come to in one state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from highwater.model.language import graph, partial
from highwater.model.language.evaluation import compile_nodes
from highwater.model.language.graph import Node
from highwater.model.language.values import Truth, Value


class Known:
    """The values of expressions in a state. Each node is evaluated once."""

    def __init__(self, state: Sequence[int]) -> None:
        self.state = state
        self._found: dict[int, int] = {}

    def value(self, value: Value) -> Value:
        """The same value with constants for its scalars."""
        if any(not n.is_const and n.id not in self._found for n in value.nodes):
            # What it is made of is asked for next: all of it is evaluated at once.
            nodes = [n for n in graph.reachable(value.nodes) if not n.is_const and n.id not in self._found]
            found = compile_nodes(nodes)(self.state)
            self._found |= {n.id: int(v) for n, v in zip(nodes, found, strict=True)}
        return type(value)(value.type, tuple(map(self._constant, value.nodes)))

    def _constant(self, node: Node) -> Node:
        return node if node.is_const else graph.const(self._found[node.id], node.sort)

    def truth(self, value: object) -> bool | None:
        """Whether a condition holds; not where it has no meaning. None for what is no condition."""
        if isinstance(value, bool):
            return value
        if not isinstance(value, Truth):
            return None
        return bool(self.value(Truth(None, (partial.where_defined(value.nodes[0]),))).nodes[0].value)

    def plain(self, value: Value) -> Any:
        """The plain value."""
        return self.value(value)._plain()
