"""Conditions on a state that a user types: ``brokers[1].hwm < brokers[0].hwm and partition.elr.is_empty``.

The text is parsed, never executed. Names are fields of the state, indices, enumerations and parameters of the
protocol, and variables of ``any(… for b in broker)``. Operators have the meaning that they have in protocols, so a
condition means the same here as in a property. The grammar is a subset of Python's expressions:

* numbers, text (a member of an enumeration), ``true``, ``false``, ``none`` (or ``True`` …), ``[0, 2]`` for a set;
* ``.field``, ``[index]``, and the attributes and methods in ``ATTRIBUTES`` and ``METHODS``;
* ``+ - * // %``, comparisons (also ``a < b < c``), ``in``, ``is none``, ``and``, ``or``, ``not``, ``| & -`` of sets;
* ``size(set)``, ``any(… for i in index)``, ``all(… for i in index)``, ``count(… for i in index)``,
  ``enabled("action", parameter=value)``.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from highwater.checker.base.problems import InputError
from highwater.errors import unknown
from highwater.model.language import (
    Enum,
    Index,
    LanguageError,
    Model,
    State,
    Struct,
    Truth,
    all_of,
    any_of,
    as_bool,
    graph,
    size,
    total,
)
from highwater.model.language.graph import Node
from highwater.model.language.tracing import tracing
from highwater.model.language.types import Type, Value

LONGEST = 2_000
"""The most characters of a condition."""
ATTRIBUTES = frozenset({"is_none", "is_some", "is_empty", "value", "length", "last", "head"})
METHODS = frozenset({"has", "is_", "or_", "in_", "without", "with_", "count"})
_CONSTANTS = {"true": True, "false": False, "none": None}
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def condition(model: Model, text: str) -> Node:
    """Parse a condition to an expression over the model's scalars.

    Raises InputError if the text is not a condition.
    """
    found = _read(model, text)
    if not isinstance(found, (Truth, bool)):
        raise InputError(f"{_short(text)!r} is a value, not a condition: compare it with something")
    return as_bool(found).node


def value(model: Model, text: str) -> tuple[Type | None, tuple[Node, ...]]:
    """Parse a text to a value of the state: its type, and an expression for each of its scalars.

    The type is None if the text computes a number or a condition, as ``size(set)`` does, instead of reading a value.
    Raises InputError if the text is invalid.
    """
    found = _read(model, text)
    if isinstance(found, bool):
        found = as_bool(found)
    if not isinstance(found, Value):
        raise InputError(f"{_short(text)!r} reads nothing from the state")
    return found.type, found.nodes


def _read(model: Model, text: str) -> Any:
    if len(text) > LONGEST:
        raise InputError(f"a condition has {LONGEST:,} characters at most; this one has {len(text):,}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as wrong:
        where = f" at character {wrong.offset}" if isinstance(wrong, SyntaxError) and wrong.offset else ""
        raise InputError(f"{_short(text)!r} is no condition{where}") from None
    with tracing(model.protocol.on, enabled=model.enabled):
        reading = _Reading(model)
        try:
            return reading.of(tree)
        except RecursionError:
            raise InputError(f"{_short(text)!r} is nested too deeply") from None
        except LanguageError as wrong:
            raise InputError(f"{_short(text)!r}: {wrong.message}") from None
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as wrong:
            # The types do not fit, as in a text plus a number.
            raise InputError(f"{_short(text)!r} does not fit together: {wrong}") from None


class _Reading:
    """Converts the syntax tree of a text to symbolic values."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._state = State(model.protocol.state, model.inputs)
        domains = {
            name: found for name, found in vars(model.protocol).items() if isinstance(found, Index | Enum)
        }
        self._domains: dict[str, Index | Enum] = domains
        self._bound: dict[str, Any] = {}

    def of(self, tree: ast.expr) -> Any:
        """The value of a part of the syntax tree. Raises InputError if the part is not in the grammar."""
        make = getattr(self, f"_{type(tree).__name__.lower()}", None)
        if make is None:
            raise _refuse(tree, "has no meaning here")
        return make(tree)

    def _constant(self, tree: ast.Constant) -> Any:
        if tree.value is None or isinstance(tree.value, bool | int | str):
            return tree.value
        raise _refuse(tree, "is no number, text, true, false or none")

    def _name(self, tree: ast.Name) -> Any:
        name = tree.id
        if name in self._bound:
            return self._bound[name]
        if name in self._model.protocol.state.fields:
            return getattr(self._state, name)
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name in self._domains:
            return self._domains[name]
        if name in self._model.protocol.parameters:
            return getattr(self._model.protocol.p, name)
        known = [*self._model.protocol.state.fields, *self._domains, *self._bound]
        raise InputError(unknown("name", name, known))

    def _list(self, tree: ast.List) -> list[Any]:
        return [self.of(item) for item in tree.elts]

    _tuple = _set = _list

    def _attribute(self, tree: ast.Attribute) -> Any:
        of, name = self.of(tree.value), tree.attr
        if isinstance(of, Enum) and name in of.names:
            return getattr(of, name)
        fields = of.type.fields if isinstance(of, Value) and isinstance(of.type, Struct) else {}
        if name in fields or (isinstance(of, Value) and name in ATTRIBUTES):
            return getattr(of, name)
        raise _refuse(
            tree, f"there is no .{name} here; there is {', '.join([*fields] or sorted(ATTRIBUTES))}"
        )

    def _subscript(self, tree: ast.Subscript) -> Any:
        of = self.of(tree.value)
        if not isinstance(of, Value) or isinstance(tree.slice, ast.Slice):
            raise _refuse(tree, "has no elements")
        return of[self.of(tree.slice)]  # type: ignore[index]

    def _binop(self, tree: ast.BinOp) -> Any:
        if type(tree.op) not in _ARITHMETIC:
            raise _refuse(tree, "is an operator that there is not")
        return _ARITHMETIC[type(tree.op)](self.of(tree.left), self.of(tree.right))

    def _unaryop(self, tree: ast.UnaryOp) -> Any:
        inner = self.of(tree.operand)
        if isinstance(tree.op, ast.Not):
            return ~as_bool(inner)
        if isinstance(tree.op, ast.USub):
            return -inner
        raise _refuse(tree, "is an operator that there is not")

    def _boolop(self, tree: ast.BoolOp) -> Truth:
        parts = [as_bool(self.of(part)) for part in tree.values]
        return all_of(parts) if isinstance(tree.op, ast.And) else any_of(parts)

    def _compare(self, tree: ast.Compare) -> Truth:
        sides = [self.of(side) for side in (tree.left, *tree.comparators)]
        return all_of(
            as_bool(self._compared(tree, op, a, b))
            for op, a, b in zip(tree.ops, sides, sides[1:], strict=False)
        )

    def _compared(self, tree: ast.Compare, op: ast.cmpop, a: Any, b: Any) -> Any:
        if type(op) in _COMPARISONS:
            return _COMPARISONS[type(op)](a, b)
        if isinstance(op, ast.Is | ast.IsNot) and b is None and isinstance(a, Value):
            return a.is_none if isinstance(op, ast.Is) else a.is_some  # type: ignore[attr-defined]
        if isinstance(op, ast.In | ast.NotIn):
            among = a.in_(*b) if isinstance(b, list) else b.has(a)
            return among if isinstance(op, ast.In) else ~among
        raise _refuse(tree, "compares with `is` what is not none")

    def _call(self, tree: ast.Call) -> Any:
        if isinstance(tree.func, ast.Name):
            return self._function(tree, tree.func.id)
        if isinstance(tree.func, ast.Attribute) and tree.func.attr in METHODS and not tree.keywords:
            of = self.of(tree.func.value)
            method = getattr(of, tree.func.attr, None) if isinstance(of, Value) else None
            if method is not None:
                return method(*(self.of(a) for a in tree.args))
        raise _refuse(tree, f"is called; there is {', '.join(f'.{m}()' for m in sorted(METHODS))}")

    def _function(self, tree: ast.Call, name: str) -> Any:
        if name == "enabled" and len(tree.args) == 1:
            chosen = {k.arg: self.of(k.value) for k in tree.keywords if k.arg}
            return self._model.enabled(str(self.of(tree.args[0])), chosen)
        if len(tree.args) != 1 or tree.keywords:
            raise _refuse(tree, "takes one argument")
        (argument,) = tree.args
        if name == "size":
            return size(self.of(argument))
        if name in ("any", "all", "count") and isinstance(argument, ast.GeneratorExp):
            parts = [as_bool(part) for part in self._each(argument)]
            if name == "count":
                return total(parts)
            return any_of(parts) if name == "any" else all_of(parts)
        raise _refuse(tree, "is called; there is size, any, all, count, enabled")

    def _each(self, tree: ast.GeneratorExp) -> list[Any]:
        """For each value ``i`` of an index, the condition before ``for`` in ``… for i in index [if …]``.

        If there is an ``if``, each condition is conjoined with the filter after ``if``. Values of ``i`` for which the
        filter is constant false are left out.
        """
        (loop, *more) = tree.generators
        over = self.of(loop.iter)
        if more or not isinstance(loop.target, ast.Name) or not isinstance(over, Index | Enum):
            known = ", ".join(self._domains) or "none"
            raise _refuse(tree, f"goes over one index or enumeration of the protocol: {known}")
        found, name, before = [], loop.target.id, dict(self._bound)
        for constant in over.constants():
            self._bound[name] = constant
            wanted = all_of([as_bool(self.of(part)) for part in loop.ifs])
            if wanted.node is not graph.FALSE:
                found.append(as_bool(self.of(tree.elt)) & wanted)
        self._bound = before
        return found


def _refuse(tree: ast.expr, what: str) -> InputError:
    return InputError(f"{_short(ast.unparse(tree))!r} {what}")


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"
