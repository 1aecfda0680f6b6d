"""A function's source beside a run of it: the expression that it returned, and what its names stood for then."""

from __future__ import annotations

import ast
import copy
import inspect
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from highwater.checker.telling.falsity.known import Known
from highwater.model.language.errors import shortened
from highwater.model.language.state import State
from highwater.model.language.values import Value


class NotReadable(Exception):
    """A function whose source is not there, or is not one that an expression can be found in."""


@dataclass(frozen=True)
class NameScope:
    """What names stand for: their values, the expressions that gave them (``origins``), loop values (``bound``)."""

    names: Mapping[str, Any]
    known: Known
    origins: Mapping[str, Term] = field(default_factory=dict)
    bound: Mapping[str, str] = field(default_factory=dict)

    def with_bound(self, found: Mapping[str, Any], origins: Mapping[str, Term]) -> NameScope:
        """The scope inside a comprehension, for one choice of its variables."""
        own = {name: said for name, value in found.items() if (said := plain(value))}
        outer = {name: said for name, said in self.bound.items() if name not in found}
        before = {name: term for name, term in self.origins.items() if name not in found}
        return NameScope({**self.names, **found}, self.known, {**before, **origins}, {**outer, **own})


@dataclass(frozen=True)
class Term:
    """An expression of the source and the scope in which it stands."""

    expression: ast.expr
    scope: NameScope

    def value(self) -> Any:
        """What it comes to. It is the protocol's own source, which has been run already."""
        code = compile(ast.Expression(self.expression), "<property>", "eval")
        return eval(code, dict(self.scope.names))

    def part(self, expression: ast.expr) -> Term:
        """A part of it."""
        return Term(expression, self.scope)

    @property
    def written(self) -> str:
        """As the source has it."""
        return ast.unparse(self.expression)

    @property
    def text(self) -> str:
        """With what its names stand for in their places, as far as these are expressions or plain values."""
        return ast.unparse(ast.fix_missing_locations(_Resolved(self.scope).visit(_copy(self.expression))))


@dataclass(frozen=True)
class Body:
    """What a call of a function returned: the expression, and the place of the function."""

    returned: Term
    place: str | None


def plain(value: object) -> str | None:
    """A loop variable's value as text, where it is known; None for what has no short text."""
    if isinstance(value, Value):
        found = value._plain() if all(n.is_const for n in value.nodes) and len(value.nodes) == 1 else None
        return None if found is None or isinstance(found, (list, dict)) else str(found)
    return repr(value) if isinstance(value, (int, str, bool)) else None


def read(
    function: Callable[..., Any], arguments: Mapping[str, Any], origins: Mapping[str, Term], known: Known
) -> Body:
    """Run a function with these arguments and find what it returned in its source. Raises NotReadable."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        raise NotReadable
    definition = _definition(function)
    frame = _run(function, code, arguments)
    line = frame.line - code.co_firstlineno + 1
    returns = [n for n in _own_nodes(definition) if isinstance(n, ast.Return) and n.value is not None]
    found = next((r for r in returns if r.lineno <= line <= (r.end_lineno or r.lineno)), None)
    if found is None or found.value is None:
        raise NotReadable
    closure = inspect.getclosurevars(function).nonlocals
    names = {**function.__globals__, **closure, **frame.names}
    scope = _assigned(definition, NameScope(names, known, dict(origins)))
    return Body(Term(found.value, scope), shortened(f"{code.co_filename}:{code.co_firstlineno}"))


@dataclass
class _Frame:
    names: dict[str, Any] = field(default_factory=dict)
    line: int = 0


def _run(function: Callable[..., Any], code: CodeType, arguments: Mapping[str, Any]) -> _Frame:
    """Call it, and keep its names as they were when it returned."""
    found = _Frame()
    depth = 0

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal depth
        if frame.f_code is code and event in ("call", "return"):
            depth += 1 if event == "call" else -1
            if event == "return" and depth == 0:
                found.names, found.line = dict(frame.f_locals), frame.f_lineno

    former = sys.getprofile()
    if former is not None and not callable(former):
        raise NotReadable  # a profiler of C is at work, which could not be put back
    sys.setprofile(watch)
    try:
        function(**arguments)
    finally:
        sys.setprofile(former)
    if not found.line:
        raise NotReadable
    return found


def _definition(function: Callable[..., Any]) -> ast.FunctionDef:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):
        raise NotReadable from None
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        raise NotReadable
    return tree.body[0]


def _own_nodes(definition: ast.FunctionDef) -> list[ast.AST]:
    """The nodes of a function without those of functions inside it."""
    found: list[ast.AST] = []
    stack: list[ast.AST] = list(definition.body)
    while stack:
        node = stack.pop()
        found.append(node)
        if not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            stack.extend(ast.iter_child_nodes(node))
    return found


def _assigned(definition: ast.FunctionDef, scope: NameScope) -> NameScope:
    """The scope with the names that are assigned once, where the expression still comes to what the name stands for."""
    expressions: dict[str, list[ast.expr | None]] = {}
    for node in _own_nodes(definition):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                _targets(target, node.value, expressions)
        elif isinstance(node, (ast.AugAssign, ast.For, ast.NamedExpr)):
            _targets(node.target, None, expressions)
    origins = {name: term for name, term in scope.origins.items() if name not in expressions}
    inside = NameScope(
        scope.names, scope.known, origins
    )  # which is filled: one such name may stand for others
    for name, (only, *others) in expressions.items():
        if only is None or others or name in scope.origins:
            continue
        its_own = any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(only))
        if not its_own and _same(Term(only, inside), scope.names.get(name)):
            origins[name] = Term(only, inside)
    return inside


def _targets(target: ast.expr, value: ast.expr | None, found: dict[str, list[ast.expr | None]]) -> None:
    if isinstance(target, ast.Name):
        found.setdefault(target.id, []).append(value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        values = (
            value.elts
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
            else None
        )
        for i, inner in enumerate(target.elts):
            _targets(inner, values[i] if values else None, found)


def _same(term: Term, value: object) -> bool:
    try:
        return _alike(term.value(), value)
    except Exception:
        return False


def _alike(a: object, b: object) -> bool:
    if isinstance(a, Value) and isinstance(b, Value):
        return a.nodes == b.nodes
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_alike, a, b))
    return a is b


class _Resolved(ast.NodeTransformer):
    """Names replaced by what they stand for; those of comprehensions inside stay."""

    def __init__(self, scope: NameScope, hidden: frozenset[str] = frozenset()) -> None:
        self.scope, self.hidden = scope, hidden

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A name."""
        if node.id in self.hidden:
            return node
        if node.id in self.scope.bound:
            return ast.Name(self.scope.bound[node.id], ast.Load())
        if node.id in self.scope.origins:
            origin = self.scope.origins[node.id]
            resolved: ast.expr = _Resolved(origin.scope).visit(_copy(origin.expression))
            return resolved
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """A field; one of the state is told without the state's name, where there is only one state."""
        of, states = node.value, sum(isinstance(value, State) for value in self.scope.names.values())
        if (
            isinstance(of, ast.Name)
            and of.id not in self.hidden
            and isinstance(self.scope.names.get(of.id), State)
            and states == 1
        ):
            return ast.Name(node.attr, ast.Load())
        return ast.Attribute(self.visit(of), node.attr, ast.Load())

    def _comprehension(self, node: Any) -> ast.expr:
        own = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
        inside = _Resolved(self.scope, self.hidden | own)
        resolved: ast.expr = ast.NodeTransformer.generic_visit(inside, node)  # type: ignore[assignment]
        return resolved

    visit_GeneratorExp = visit_ListComp = visit_SetComp = _comprehension

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        """A lambda: its own parameters stay."""
        inside = _Resolved(self.scope, self.hidden | {a.arg for a in node.args.args})
        return ast.Lambda(node.args, inside.visit(node.body))


def _copy(expression: ast.expr) -> ast.expr:
    return copy.deepcopy(expression)
