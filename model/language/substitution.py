"""Expressions made again: with other operands, or with something else in the place of inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from highwater.model.language import graph
from highwater.model.language.graph import Node

OPERATIONS: dict[str, Callable[..., Node]] = {
    "not": graph.not_,
    "and": graph.and_,
    "or": graph.or_,
    "eq": graph.eq,
    "lt": graph.lt,
    "add": graph.add,
    "sub": graph.sub,
    "mul": graph.mul,
    "floordiv": graph.floordiv,
    "mod": graph.mod,
    "min": graph.min_,
    "max": graph.max_,
    "select": graph.select,
    "union": graph.union,
    "intersection": graph.intersection,
    "difference": graph.difference,
    "member": graph.member,
    "count": graph.count,
}
"""What makes an expression of its operands, by its name; a singleton needs the size of its index besides."""


def made_of(op: str, operands: Sequence[Node], size: int) -> Node:
    """An expression of these operands; ``size`` is that of a singleton's index. KeyError: no such one."""
    if op == "singleton":
        return graph.singleton(operands[0], size)
    return OPERATIONS[op](*operands)


def substituted(roots: Iterable[Node], inputs: Mapping[int, Node]) -> list[Node]:
    """The expressions with these in the place of the inputs of these numbers; the other inputs stay."""
    roots = list(roots)
    known: dict[Node, Node] = {}
    for node in graph.reachable(roots):
        if node.op == "input":
            known[node] = inputs.get(node.value, node)
        elif node.is_const:
            known[node] = node
        else:
            known[node] = remade(node, known)
    return [known[root] for root in roots]


def remade(node: Node, known: Mapping[Node, Node]) -> Node:
    """An expression with what its operands have become; itself where they are as they were."""
    operands = [known[a] for a in node.args]
    same = all(a is b for a, b in zip(operands, node.args, strict=True))
    return node if same else made_of(node.op, operands, graph.size_of(node))


def inputs_of(roots: Iterable[Node]) -> set[int]:
    """The numbers of the inputs that expressions are made of."""
    return {node.value for node in graph.reachable(roots) if node.op == "input"}
