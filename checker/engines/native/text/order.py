"""An order of graph nodes that does not depend on what a process traced before.

Nodes are numbered as they are made, in a table that all models of a process share, and operands that may change places
stand in the order of their numbers. So one model has other numbers in another process. Text that is to be the same
everywhere, as a cache of machine code asks for, goes by a node's content instead.
"""

from __future__ import annotations

from highwater.model.language.graph import Node

_COMMUTATIVE = frozenset({"and", "or", "eq", "add", "mul", "min", "max", "union", "intersection"})
_ranks: dict[int, int] = {}
_ordered: dict[int, tuple[Node, ...]] = {}
"""By the number of a node, as the table of nodes is for the life of the process."""


def operands(node: Node) -> tuple[Node, ...]:
    """A node's arguments; those that may change places in an order that is the same in every process.

    Two operands with one rank keep their places: then a text may differ, and is only compiled once more.
    """
    args = node.args
    if len(args) != 2 or node.op not in _COMMUTATIVE:
        return args
    found = _ordered.get(node.id)
    if found is None:
        found = _ordered[node.id] = (args[1], args[0]) if _rank(args[1]) < _rank(args[0]) else args
    return found


def _rank(node: Node) -> int:
    """A number made of a node's content alone: of integers, whose hashes are the same in every process."""
    found = _ranks.get(node.id)
    if found is not None:
        return found
    stack = [node]
    while stack:
        top = stack[-1]
        missing = [a for a in top.args if a.id not in _ranks]
        if missing:
            stack += missing
            continue
        stack.pop()
        parts = [_ranks[a.id] for a in top.args]
        if top.op in _COMMUTATIVE:
            parts.sort()
        name = int.from_bytes(f"{top.op} {top.sort}".encode(), "big")
        _ranks[top.id] = hash((name, top.value, top.low, top.high, *parts))
    return _ranks[node.id]
