"""What is asked of an action in two revisions, as expressions over one state: is it possible, and where it leads."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.model.language import graph
from highwater.model.language.graph import Node
from highwater.model.language.model import Instance

Pairs = Sequence[tuple[Instance | None, Instance | None]]
"""The instances of an action before and now, with the same values of its parameters."""


def instances_of_both(
    before: list[Instance], after: list[Instance]
) -> list[tuple[Instance | None, Instance | None]]:
    """The instances of an action in both revisions, by the values of their parameters in order."""
    old = {_values(i): i for i in before}
    new = {_values(i): i for i in after}
    return [(old.get(key), new.get(key)) for key in dict.fromkeys([*old, *new])]


def _values(instance: Instance) -> str:
    return repr([list(v) if isinstance(v, tuple) else v for v in instance.parameters.values()])


def questions_of_both(
    a: Instance | None, b: Instance | None, inputs: Sequence[Node]
) -> tuple[Node, Node, Node]:
    """Whether a step is possible now only, before only, or leads elsewhere."""
    before, after = (graph.FALSE if i is None else i.leads_on for i in (a, b))
    both = graph.and_(before, after)
    return (
        graph.and_(after, graph.not_(before)),
        graph.and_(before, graph.not_(after)),
        graph.FALSE if a is None or b is None else graph.and_(both, leads_elsewhere(a, b, inputs)),
    )


def leads_elsewhere(a: Instance, b: Instance, inputs: Sequence[Node]) -> Node:
    """Whether two steps from one state lead to different ones."""
    return graph.any_(
        graph.not_(graph.eq(*(i.writes[leaf].node if leaf in i.writes else inputs[leaf] for i in (a, b))))
        for leaf in sorted({*a.writes, *b.writes})
    )
