"""What a traced action comes to: the guards that are asked, the scalars that are written, the checks that stop it."""

from __future__ import annotations

from dataclasses import replace

from highwater.model.language import graph, partial
from highwater.model.language.conjuncts import conjuncts
from highwater.model.language.graph import Node
from highwater.model.language.tracing import Check, Guard, Trace
from highwater.model.language.types import Leaf


def bound_checks(trace: Trace, leaves: list[Leaf]) -> list[Check]:
    """The conditions under which the writes of a trace leave their types, declared bounds and errors alike.

    An index that a guard keeps inside is none of them. Dividing by zero is one: ``guards_asked`` lets a step that has
    to know a guard without a meaning get so far.
    """
    guarded = conjuncts(g.node for g in trace.guards)
    checks = [c for c in trace.checks if graph.not_(c.node) not in guarded]
    return _defined(trace, [*checks, *_leaving(trace, leaves)], guarded)


def _defined(trace: Trace, checks: list[Check], guarded: set[Node]) -> list[Check]:
    """The checks, each false where it has no meaning, and one more: that all which the step needs to know has one."""
    guards = [g.node for g in trace.guards]
    needed = [c.node for c in checks] + [w.node for w in trace.writes.values()]
    unknown = partial.undefined_any(guards)
    rest = graph.any_(n for n in map(partial.undefined, needed) if graph.not_(n) not in guarded)
    without = graph.or_(unknown, rest)
    if without is graph.FALSE:
        return checks
    known = graph.not_(unknown)
    checks = [replace(c, node=graph.and_(known, partial.where_defined(c.node))) for c in checks]
    divides = Check(0, without, None, "// or % by zero", partial.place_in([*guards, *needed]))
    return [*(c for c in checks if c.node is not graph.FALSE), divides]


def guards_asked(trace: Trace) -> tuple[Guard, ...]:
    """The guards that are not known to hold. One without a meaning lets the step pass, which is then an error."""
    asked = (replace(g, node=graph.or_(g.node, partial.undefined(g.node))) for g in trace.guards)
    return tuple(g for g in asked if g.node is not graph.TRUE)


def _leaving(trace: Trace, leaves: list[Leaf]) -> list[Check]:
    checks: list[Check] = []
    for number, write in sorted(trace.writes.items()):
        leaf = leaves[number]
        outside = leaf.left_by(write.node)
        if outside is not graph.FALSE:
            message = f"{leaf.path} leaves {leaf.low}..{leaf.high}"
            checks.append(Check(number, outside, leaf.bound, message, write.place))
    return checks
