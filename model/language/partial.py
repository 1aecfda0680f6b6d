"""Where an expression has no meaning: it divides by zero.

Engines compute 0 there. So that this is never taken for an answer, whoever asks for an expression asks for
``undefined`` too: a step whose guards or writes need such a value is an error, and a property that needs one does not
hold. A value that is not needed does no harm: ``where(d == 0, 0, n // d)`` and ``(d != 0) & (n // d > 1)`` are fine.
"""

from __future__ import annotations

from collections.abc import Iterable

from highwater.model.language import graph
from highwater.model.language.graph import BOOL, FALSE, INT, Node

_known: dict[int, Node] = {}
_places: dict[int, str | None] = {}


def note(node: Node, place: str | None) -> Node:
    """The node; an error that it leads to is told with this place, the first line that states it."""
    _places.setdefault(node.id, place)
    return node


def undefined(root: Node) -> Node:
    """Whether an expression has no meaning in a state, as an expression that always has one.

    Of ``and`` and ``or`` one side is enough, whichever it is, where it decides alone.
    """
    if not root.divides:
        return FALSE
    if root.id not in _known:
        for node in graph.reachable([root]):
            if node.id not in _known:
                _known[node.id] = _of(node)
    return _known[root.id]


def undefined_any(roots: Iterable[Node]) -> Node:
    """Whether one of these has no meaning."""
    return graph.any_(undefined(root) for root in roots)


def place_in(roots: Iterable[Node]) -> str | None:
    """The line of the first division by what can be zero."""
    for node in graph.reachable(roots):
        if node.op in graph.PARTIAL and node.args[1].low <= 0 <= node.args[1].high:
            return _places.get(node.id)
    return None


def _of(node: Node) -> Node:
    parts = [_known[a.id] for a in node.args]
    if node.op == "select":
        condition, yes, no = parts
        return graph.or_(condition, graph.select(node.args[0], yes, no))
    found = graph.any_(parts)
    if found is FALSE and node.op not in graph.PARTIAL:
        return FALSE
    if node.op in ("and", "or"):
        decides = [a if node.op == "or" else graph.not_(a) for a in node.args]
        alone = [graph.and_(graph.not_(u), d) for u, d in zip(parts, decides, strict=True)]
        return graph.and_(found, graph.not_(graph.any_(alone)))
    if node.op in graph.PARTIAL:
        return graph.or_(found, graph.eq(node.args[1], graph.const(0, INT)))
    return found


def where_defined(node: Node) -> Node:
    """A condition that also says that it has a meaning."""
    assert node.sort == BOOL
    return graph.and_(node, graph.not_(undefined(node)))
