"""The states just outside a scenario's bounds: looked at, and not gone on from.

A step that crosses a bound is cut, so no invariant is asked of the state that it leads to. In a model whose types were
widened (``types.widening``) there is room for that state. Here its steps are told to start inside the bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from highwater.model.language import graph
from highwater.model.language.graph import INT, Node
from highwater.model.language.model import Instance, Model
from highwater.model.language.tracing import Check, Guard
from highwater.model.language.types import Leaf


def beyond(leaves: Sequence[Leaf], nodes: Sequence[Node]) -> Node:
    """Whether a state, given by its scalars, is outside the bounds that its types were widened from."""
    return graph.any_(_over(leaf, node) for leaf, node in zip(leaves, nodes, strict=True))


def confine(model: Model) -> Node:
    """Let steps of a widened model start inside the bounds only; gives whether a state is outside.

    What is an error inside the bounds is none in a step that crosses one: it is cut there, as without widening.
    """
    outside = beyond(model.leaves, model.inputs)
    inside = Guard("the state is inside the bounds", graph.not_(outside))
    model.instances = [_confined(model.leaves, instance, inside) for instance in model.instances]
    model.bounds = sorted({c.bound for i in model.instances for c in i.checks if c.bound})
    return outside


def _confined(leaves: Sequence[Leaf], instance: Instance, inside: Guard) -> Instance:
    errors = [check for check in instance.checks if check.bound is None]
    crossing = [
        Check(
            number,
            graph.and_(error.node, _over(leaves[number], write.node)),
            leaves[number].bound,
            *told(error),
        )
        for error in errors
        for number, write in instance.writes.items()
        if leaves[number].limit is not None
    ]
    checks = (*instance.checks, *(check for check in crossing if check.node is not graph.FALSE))
    return replace(instance, guards=(inside, *instance.guards), checks=checks)


def told(check: Check) -> tuple[str, str | None]:
    """What a check says, and where."""
    return check.message, check.place


def _over(leaf: Leaf, node: Node) -> Node:
    if leaf.limit is None:
        return graph.FALSE
    return graph.lt(graph.const(leaf.limit, INT), node)
