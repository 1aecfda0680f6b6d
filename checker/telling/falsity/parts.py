"""The part of a property that is false: a walk down its source, always into what makes it false."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from highwater.checker.base import words
from highwater.checker.telling.falsity.items import items_of
from highwater.checker.telling.falsity.known import Known
from highwater.checker.telling.falsity.source import Body, NotReadable, Term, read
from highwater.model.language import tracing, values
from highwater.model.language.interpreter import differences
from highwater.model.language.model import Model, Scalars
from highwater.model.language.state import State
from highwater.model.language.values import StructValue, Value

_DEEP = 14
"""So many calls and connectives are followed; below them an expression is told whole."""
_INSTANCES = 4
"""So many of the values for which a quantifier fails are told."""
_LISTED = 8
_LONG = 400
_WIDE = 90
_QUESTIONS = ("is_some", "is_none", "is_empty")


@dataclass(frozen=True)
class PropertyPart:
    """A part of a property: what is said of it, the expression with its values in it and as it is written.

    ``holds`` is what it came to, ``values`` are those of the expressions in it, ``parts`` what it comes from. What is
    only ``given`` is no fault: the premise of what is false.
    """

    says: str
    text: str = ""
    written: str = ""
    holds: bool = False
    place: str | None = None
    values: tuple[tuple[str, str], ...] = ()
    parts: tuple[PropertyPart, ...] = ()
    given: bool = False

    def as_data(self) -> dict[str, Any]:
        """The part as a page has it."""
        return {
            "says": self.says,
            "text": self.text,
            "written": self.written,
            "holds": self.holds,
            "place": self.place,
            "values": [list(pair) for pair in self.values],
            "parts": [part.as_data() for part in self.parts],
        }

    def leaves(self, given: bool = False) -> Iterator[tuple[PropertyPart, bool]]:
        """The parts that come from no others, and whether they are only given."""
        given = given or self.given
        if not self.parts and self.text:
            yield self, given
        for part in self.parts:
            yield from part.leaves(given)

    def choices(self) -> Iterator[str]:
        """For which values it is false, from the outermost quantifier on."""
        if self.says.startswith("for "):
            yield self.says.removeprefix("for ").removesuffix(":")
        for part in self.parts:
            if not part.given:
                yield from part.choices()


def false_part(
    model: Model,
    function: Callable[..., Any],
    *states: Scalars,
    goal: bool = False,
    chosen: Mapping[str, Any] | None = None,
) -> PropertyPart | None:
    """Why a property's function is false; None where its source is not there, or where it is true.

    It is given the state, or of a property of steps both states; ``chosen`` are the values of its parameters, as the
    language has them. With ``goal`` it is the last of what the function returns, as in a leads-to.
    """
    protocol = model.protocol
    inputs = (model.inputs,) if len(states) == 1 else (model.inputs, model.after)
    symbolic = [State(protocol.state, list(nodes)) for nodes in inputs]
    function = inspect.unwrap(function)
    with tracing.tracing(protocol.on, enabled=model.enabled):
        try:
            names = [n for n in inspect.signature(function).parameters if n not in (chosen or {})]
            given = dict(zip(names, (protocol, *symbolic), strict=True)) | dict(chosen or {})
            body = read(function, given, {}, Known([scalar for state in states for scalar in state]))
            term = body.returned
            if goal and isinstance(term.expression, ast.Tuple):
                term = term.part(term.expression.elts[-1])
            return _Walk().why(term, False, _DEEP) if _truth(term) is False else None
        except (NotReadable, ValueError):
            return None


def _truth(term: Term) -> bool | None:
    """Whether an expression holds; None where it is no condition."""
    try:
        return term.scope.known.truth(term.value())
    except Exception:
        return None


class _Walk:
    """Down the source: ``why`` an expression came to a truth."""

    def why(self, term: Term, value: bool, deep: int) -> PropertyPart:
        """The part of an expression that makes it true, or false."""
        node = term.expression
        if deep and isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Invert, ast.Not)):
            inner = node.operand
            if isinstance(inner, (ast.Name, ast.Call, ast.BinOp)) and self._opens(term.part(inner)):
                return self.why(term.part(inner), not value, deep - 1)
        if deep and (operands := _operands(node)):
            return self._operands(term, operands, value, deep)
        if deep and isinstance(node, ast.Name) and node.id in term.scope.origins:
            return self.why(term.scope.origins[node.id], value, deep - 1)
        if deep and isinstance(node, ast.Call) and (found := self._call(term, node, value, deep)) is not None:
            return found
        return _leaf(term, value)

    def _opens(self, term: Term) -> bool:
        """Whether there is anything to be said of what stands under a negation besides that it is so."""
        node = term.expression
        if isinstance(node, ast.Name):
            return node.id in term.scope.origins and self._opens(term.scope.origins[node.id])
        if isinstance(node, ast.Call):
            return _called(term, node) in _WORDS or not isinstance(node.func, ast.Attribute)
        return True

    def _operands(
        self, term: Term, found: tuple[bool, list[ast.expr]], value: bool, deep: int
    ) -> PropertyPart:
        conjunction, operands = found
        parts = [term.part(o) for o in operands]
        decisive = [p for p in parts if _truth(p) is value] if conjunction is not value else parts
        if not decisive:
            return _leaf(term, value)
        if len(decisive) == 1:
            return self.why(decisive[0], value, deep - 1)
        kept = decisive[:1] if value and not conjunction else decisive
        says = (
            "all of these hold:" if value else "these are false:" if conjunction else "none of these holds:"
        )
        return PropertyPart(says, holds=value, parts=tuple(self.why(p, value, deep - 1) for p in kept))

    def _call(self, term: Term, node: ast.Call, value: bool, deep: int) -> PropertyPart | None:
        function = _called(term, node)
        if function in (values.all_of, values.any_of) and len(node.args) == 1:
            return self._quantifier(term, node.args[0], function is values.all_of, value, deep)
        if function is tracing.implies and len(node.args) == 2:
            premise, conclusion = (term.part(a) for a in node.args)
            if value:
                return _leaf(term, True)
            return PropertyPart("", parts=(
                replace(_titled("it holds that", self.why(premise, True, 2)), given=True),
                _titled("but not that", self.why(conclusion, False, deep - 1)),
            ))  # fmt: skip
        if function is tracing.under and len(node.args) == 2:
            return self.why(term.part(node.args[1]), value, deep - 1)
        if function is values.where and len(node.args) == 3:
            condition = term.part(node.args[0])
            chosen = node.args[1] if _truth(condition) else node.args[2]
            holds = bool(_truth(condition))
            where = replace(_titled("where", self.why(condition, holds, 2)), given=True)
            return PropertyPart("", holds=value, parts=(where, self.why(term.part(chosen), value, deep - 1)))
        if value and deep <= 2:
            return None
        return self._function(term, node, function, value, deep)

    def _function(
        self, term: Term, node: ast.Call, function: Any, value: bool, deep: int
    ) -> PropertyPart | None:
        """A function of the protocol or of its properties: what it returned, in its own source."""
        function = getattr(function, "function", function)
        module = getattr(function, "__module__", None) or ""
        if not callable(function) or module.startswith("highwater.model.language") or module == "builtins":
            return None
        try:
            body = _enter(term, node, function)
        except (NotReadable, TypeError):
            return None
        if _truth(body.returned) is not value:
            return None
        inner = self.why(body.returned, value, deep - 1)
        text, written = term.text, term.written
        if len(text) > _WIDE:  # the arguments come back below, where they matter
            text, written = ast.unparse(node.func), ""
        return PropertyPart("", text, written, value, body.place, parts=(inner,))

    def _quantifier(
        self, term: Term, items: ast.expr, every: bool, value: bool, deep: int
    ) -> PropertyPart | None:
        found = items_of(term.part(items))
        if found is None:
            return None
        if every is value:  # all of them hold, or none does: there is no one that tells
            if value:
                return self._all_hold(items, found, deep)
            shown = found[:_INSTANCES]
            parts = [_titled(said, self.why(item, False, deep - 1)) for said, item in shown]
            rest = f", and {len(found) - len(shown)} more" if len(found) > len(shown) else ""
            return PropertyPart(
                f"there is none{rest}:" if found else "there is nothing to choose from", parts=tuple(parts)
            )
        decisive = [(said, item) for said, item in found if _truth(item) is value]
        if not decisive:
            return None
        (said, item), others = decisive[0], [s for s, _ in decisive[1:] if s]
        also = ""
        if others and not value:
            more = f" and {len(others) - _INSTANCES} more" if len(others) > _INSTANCES else ""
            also = f" (also for {'; '.join(others[:_INSTANCES])}{more})"
        inner = self.why(item, value, deep - 1)
        return _titled(f"for {said}{also}:" if said else "", inner)

    def _all_hold(self, items: ast.expr, found: list[tuple[str, Term]], deep: int) -> PropertyPart | None:
        """Each of a few conditions that are listed; those that a loop goes through are told by the loop."""
        if not isinstance(items, (ast.List, ast.Tuple)) or len(items.elts) > _LISTED:
            return None
        return PropertyPart(
            "all of these hold:", holds=True, parts=tuple(self.why(i, True, deep - 1) for _, i in found)
        )


_WORDS: tuple[Any, ...] = (values.all_of, values.any_of, tracing.implies, tracing.under, values.where)


def _titled(says: str, part: PropertyPart) -> PropertyPart:
    """A part with something said before it."""
    if not part.says and says:
        return replace(part, says=says)
    return PropertyPart(says, holds=part.holds, parts=(part,)) if says else part


def _operands(node: ast.expr) -> tuple[bool, list[ast.expr]] | None:
    """Whether it is a conjunction, and its operands; None for what is neither that nor a disjunction."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
        kind = type(node.op)

        def flat(inner: ast.expr) -> list[ast.expr]:
            if isinstance(inner, ast.BinOp) and isinstance(inner.op, kind):
                return [*flat(inner.left), *flat(inner.right)]
            return [inner]

        return kind is ast.BitAnd, flat(node)
    if isinstance(node, ast.BoolOp):
        return isinstance(node.op, ast.And), node.values
    return None


def _called(term: Term, node: ast.Call) -> Any:
    try:
        return term.part(node.func).value()
    except Exception:
        return None


def _enter(term: Term, node: ast.Call, function: Callable[..., Any]) -> Body:
    """Run a function again with the arguments of a call, which are known by their expressions inside it."""
    if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
        raise NotReadable
    signature = inspect.signature(function)
    given = {
        "args": [term.part(a) for a in node.args],
        "kwargs": {k.arg: term.part(k.value) for k in node.keywords},
    }
    bound = signature.bind(*given["args"], **given["kwargs"])  # type: ignore[arg-type]
    terms: dict[str, Term] = dict(bound.arguments)
    if not all(isinstance(t, Term) for t in terms.values()):
        raise NotReadable
    arguments = {name: t.value() for name, t in terms.items()}
    owner = getattr(function, "__self__", None)
    plain_function = getattr(function, "__func__", function)
    if owner is not None:
        first = next(iter(inspect.signature(plain_function).parameters))
        arguments = {first: owner, **arguments}
        assert isinstance(node.func, ast.Attribute)
        terms = {first: term.part(node.func.value), **terms}
    return read(inspect.unwrap(plain_function), arguments, terms, term.scope.known)


# --- leaves -------------------------------------------------------------------------------------------------------


def _leaf(term: Term, value: bool) -> PropertyPart:
    """An expression that is told whole, with the values of what is in it."""
    shown = tuple(dict.fromkeys(_values(term)))
    return PropertyPart("", _short(term.text), _short(term.written), value, values=shown)


def _values(term: Term) -> Iterator[tuple[str, str]]:
    node = term.expression
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
        sides = [_value(term.part(n)) for n in (node.left, node.comparators[0])]
        if all(isinstance(side, StructValue) for side in sides):
            yield from _unlike(term, node, sides)
            return
    for part in _known_parts(node):
        inner = term.part(part)
        said = _said(_value(inner))
        text = inner.text
        if said is not None and text != said and not text.lstrip("-").isdigit() and not text.startswith("'"):
            yield _short(text), _short(said)


def _unlike(term: Term, node: ast.Compare, sides: list[Any]) -> Iterator[tuple[str, str]]:
    """The fields in which two structs differ."""
    left, right = (term.part(n).text for n in (node.left, node.comparators[0]))
    for path, (a, b) in differences(sides[0]._plain(), sides[1]._plain()).items():
        inner = words.at(sides[0].type, path)
        yield _short(f"{left}.{path}"), words.say(inner, a)
        yield _short(f"{right}.{path}"), words.say(inner, b)


def _known_parts(node: ast.expr) -> Iterator[ast.expr]:
    """The expressions whose values say why: operands, receivers, arguments; and paths in them."""
    if isinstance(node, ast.Compare):
        below: list[ast.expr] = [node.left, *node.comparators]
    elif isinstance(node, ast.Call):
        receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        below = [*receiver, *node.args]
    elif isinstance(node, ast.BinOp):
        below = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp):
        yield from _known_parts(node.operand)
        return
    elif isinstance(node, ast.Attribute):
        if node.attr not in _QUESTIONS:
            yield node
        if node.attr in (*_QUESTIONS, "value", "length", "last", "head"):
            yield node.value
        return
    elif isinstance(node, (ast.Name, ast.Subscript)):
        yield node
        return
    else:
        return
    for part in below:
        if not isinstance(part, ast.Constant):
            if not isinstance(part, ast.UnaryOp):
                yield part
            if not isinstance(part, (ast.Name, ast.Subscript)):
                yield from _known_parts(part)


def _value(term: Term) -> Any:
    """What an expression comes to in the state, where it comes to anything."""
    try:
        value = term.value()
        return term.scope.known.value(value) if isinstance(value, Value) else value
    except Exception:
        return None


def _said(value: Any) -> str | None:
    """A value in words; None for what is none of the language's."""
    if isinstance(value, StructValue):
        return None  # a reader wants the field, which stands beside it
    if isinstance(value, (bool, int)):
        return "true" if value is True else "false" if value is False else str(value)
    if not isinstance(value, Value):
        return None
    found = value._plain()
    if value.type is None:
        return _said(found)
    return words.say(value.type, found)


def _short(text: str) -> str:
    return text if len(text) <= _LONG else text[:_LONG] + "…"
