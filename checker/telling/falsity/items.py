"""What a quantifier goes over: the expression for each element, and what tells it from the others."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from highwater.checker.telling.falsity.source import NameScope, Term


def items_of(term: Term) -> list[tuple[str, Term]] | None:
    """What a quantifier goes over: each as what tells it from the others, and the expression for it."""
    node = term.expression
    if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
        found = []
        for scope in _choices(term.scope, node.generators):
            new = {n: v for n, v in scope.bound.items() if term.scope.bound.get(n) != v or n in _names(node)}
            found.append((", ".join(f"{n} = {v}" for n, v in new.items()), Term(node.elt, scope)))
        return found
    if isinstance(node, (ast.List, ast.Tuple)):
        return [("", term.part(item)) for item in node.elts]
    if isinstance(node, ast.Name) and node.id in term.scope.origins:
        return items_of(term.scope.origins[node.id])
    return None


def _names(node: ast.GeneratorExp | ast.ListComp) -> set[str]:
    return {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}


def _choices(scope: NameScope, generators: list[ast.comprehension]) -> Iterator[NameScope]:
    """The scopes inside a comprehension."""
    if not generators:
        yield scope
        return
    first, *rest = generators
    origins = _element_origins(Term(first.iter, scope))
    for number, item in enumerate(Term(first.iter, scope).value()):
        own, known = dict[str, Any](), dict[str, Term]()
        _bind(first.target, item, origins(number), own, known)
        inner = scope.with_bound(own, known)
        if all(Term(condition, inner).value() for condition in first.ifs):
            yield from _choices(inner, rest)


def _bind(target: ast.expr, item: Any, origin: Any, own: dict[str, Any], known: dict[str, Term]) -> None:
    if isinstance(target, ast.Name):
        own[target.id] = item
        if isinstance(origin, Term) and not _is_known(origin):
            known[target.id] = origin
    elif isinstance(target, (ast.Tuple, ast.List)):
        for i, inner in enumerate(target.elts):
            below = origin[i] if isinstance(origin, list) and i < len(origin) else None
            if isinstance(origin, Term) and isinstance(origin.expression, ast.Tuple):
                below = origin.part(origin.expression.elts[i])
            _bind(inner, item[i], below, own, known)


def _is_known(term: Term) -> bool:
    """Whether an expression is a loop's variable or a constant: then its value says more."""
    node = term.expression
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in term.scope.bound)


def _element_origins(term: Term) -> Callable[[int], Any]:
    """The expression of an element of what is gone through, by its number: a Term, or a list of them for a tuple."""
    node = term.expression
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "zip":
        inner = [items_of(term.part(a)) for a in node.args]
        return lambda i: [x[i][1] if x is not None and i < len(x) else None for x in inner]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "enumerate":
        found = items_of(term.part(node.args[0]))
        return lambda i: [None, found[i][1] if found is not None and i < len(found) else None]
    listed = None if isinstance(node, ast.Call) else items_of(term)
    return lambda i: listed[i][1] if listed is not None and i < len(listed) else None
