"""Random small protocols, each written twice: in the language, and in plain Python.

An expression is a pair of independent functions, of symbolic values and of plain ones (int, bool, str,
frozenset, None, dict, list). On plain values, an intermediate value outside its type raises Overflow: the
language checks types only on write.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from random import Random
from typing import Any, cast

from highwater.model.language import (
    Array,
    Bool,
    Enum,
    Index,
    Int,
    Option,
    Protocol,
    Seq,
    Set,
    State,
    Struct,
    action,
    all_of,
    any_of,
    first,
    free,
    greatest,
    implies,
    invariant,
    least,
    least_by,
    one_of,
    otherwise,
    require,
    size,
    total,
    when,
    where,
)
from highwater.model.language import containers as words
from highwater.model.language.types import BoolType, IntType, Type


class Overflow(Exception):
    """An intermediate value is outside its type."""


class Outside(Exception):
    """A write outside an array or past the end of a sequence."""


@dataclass(frozen=True)
class Expression:
    """The same expression twice: on an object with fields as attributes, and on a dict of plain fields."""

    text: str
    symbolic: Callable[[Any], Any]
    plain: Callable[[Mapping[str, Any]], Any]


Draw = Callable[[], Expression]


def applied(name: str, symbolic: Any, plain: Any, *of: Expression) -> Expression:
    """A function of expressions. Without ``plain``, the symbolic function also computes on plain values."""
    computes = plain or symbolic
    return Expression(
        f"{name}({', '.join(e.text for e in of)})",
        lambda s: symbolic(*(e.symbolic(s) for e in of)),
        lambda p: computes(*(e.plain(p) for e in of)),
    )


def option(name: str, symbolic: Any, plain: Any, *parts: Draw) -> Draw:
    """The same, for parts that are drawn only if this option is chosen."""
    return lambda: applied(name, symbolic, plain, *(part() for part in parts))


COMPARISONS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
JOINS = {"&": operator.and_, "|": operator.or_, "^": operator.xor, "==": operator.eq}


# --- plain values -------------------------------------------------------------------------------------

NODE, DISK = Index("node", 3), Index("disk", 2)
COLOUR, SHAPE = Enum("Colour", "RED GREEN BLUE"), Enum("Shape", "ROUND LONG")


def a_type(rng: Random, depth: int = 2) -> Type:
    def inner() -> Type:
        return a_type(rng, depth - 1)

    def content() -> Type:
        found = inner()
        return content() if isinstance(found, Option) else found

    simple: list[Callable[[], Type]] = [
        lambda: Bool,
        lambda: Int(rng.randint(-2, 0), rng.randint(0, 3), bound=rng.choice([None, "top"])),
        lambda: NODE,
        lambda: DISK,
        lambda: COLOUR,
        lambda: SHAPE,
        lambda: Set(NODE),
        lambda: Set(DISK),
        lambda: Set(COLOUR),
    ]
    nested: list[Callable[[], Type]] = [
        lambda: Option(content()),
        lambda: Array(rng.choice(cast(list[Index | Enum], [NODE, DISK, SHAPE])), inner()),
        lambda: Struct(rng.choice(["Pair", "Other"]), first=inner(), last=inner()),
        lambda: Seq(inner(), rng.randint(1, 3), bound=rng.choice([None, "log"])),
    ]
    return rng.choice(simple + nested * 2 if depth else simple)()


def a_plain(rng: Random, type: Type) -> Any:
    match type:
        case BoolType():
            return rng.random() < 0.5
        case IntType() | Index():
            return rng.randint(type.low, type.high)
        case Enum():
            return rng.choice(type.members)
        case Set():
            return frozenset(i for i in keys(type.index) if rng.random() < 0.5)
        case Option():
            return None if rng.random() < 0.3 else a_plain(rng, type.content_type)
        case Array():
            return each(type, lambda _: a_plain(rng, type.element))
        case Struct():
            return {n: a_plain(rng, t) for n, t in type.fields.items()}
        case Seq():
            return [a_plain(rng, type.element) for _ in range(rng.randint(0, type.maximum))]
    raise AssertionError(type)


def keys(index: Index | Enum) -> list[Any]:
    return list(index.members) if isinstance(index, Enum) else list(range(index.size))


def each(type: Array, element: Callable[[Any], Any]) -> Any:
    """The array of ``element(key)``: a list, or a dict if the index is an enumeration."""
    found = {key: element(key) for key in keys(type.index)}
    return found if isinstance(type.index, Enum) else list(found.values())


def elements(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


def zero(type: Type) -> Any:
    """The default value of a type."""
    match type:
        case BoolType():
            return False
        case IntType():
            return min(max(0, type.low), type.high)
        case Index():
            return 0
        case Enum():
            return type.members[0]
        case Set():
            return frozenset()
        case Option():
            return None
        case Array():
            return each(type, lambda _: zero(type.element))
        case Struct():
            return {n: zero(t) for n, t in type.fields.items()}
        case Seq():
            return []
    raise AssertionError(type)


def shown(type: Type, value: Any) -> Any:
    """A plain value as the language decodes it: a set as a sorted list."""
    match type:
        case Set():
            return sorted(value, key=keys(type.index).index)
        case Option():
            return None if value is None else shown(type.content_type, value)
        case Array():
            return each(type, lambda key: shown(type.element, value[key]))
        case Seq():
            return [shown(type.element, v) for v in value]
        case Struct():
            return {n: shown(t, value[n]) for n, t in type.fields.items()}
    return value


def left(type: Type, value: Any) -> Iterator[str | None]:
    """The declared bound (or None) of each part of a value that is outside its type."""
    match type:
        case IntType():
            if not type.low <= value <= type.high:
                yield type.bound
        case Index():
            if not 0 <= value < type.size:
                yield None
        case Option():
            if value is not None:
                yield from left(type.content_type, value)
        case Array():
            for v in elements(value):
                yield from left(type.element, v)
        case Struct():
            for n, t in type.fields.items():
                yield from left(t, value[n])
        case Seq():
            if len(value) > type.maximum:
                yield type.bound
            for v in value[: type.maximum]:
                yield from left(type.element, v)


# --- expressions ----------------------------------------------------------------------------------------


class Expressions:
    """Draws random expressions over some fields."""

    def __init__(self, rng: Random, fields: Mapping[str, Type]) -> None:
        self.rng, self.fields = rng, fields

    def one_of(self, options: list[Draw]) -> Expression:
        return self.rng.choice(options)()

    def routes(self, type: Type) -> Iterator[tuple[tuple[Any, ...], Type]]:
        """Each path into a value of the type, with the type found there."""
        yield (), type
        inner: list[tuple[Any, Type]] = []
        match type:
            case Struct():
                inner = [(("field", n), t) for n, t in type.fields.items()]
            case Array():
                inner = [(("at", type), type.element)]
            case Seq():
                inner = [(("element", type), type.element), (("last", type), type.element)]
            case Option():
                inner = [(("value", type), type.content_type)]
        for step, part in inner:
            for steps, found in self.routes(part):
                yield (step, *steps), found

    def reads(self, wanted: Callable[[Type], bool], depth: int) -> list[Draw]:
        """Reads, also inside of fields, of types that satisfy ``wanted``."""
        return [
            partial(self._read, name, steps, depth)
            for name, type in self.fields.items()
            for steps, found in self.routes(type)
            if wanted(found) and (depth > 0 or not any(kind in ("at", "element") for kind, _ in steps))
        ]

    def _read(self, name: str, steps: tuple[Any, ...], depth: int) -> Expression:
        e = Expression(f"s.{name}", lambda s: getattr(s, name), lambda p: p[name])
        for kind, what in steps:
            e = getattr(self, f"_{kind}")(e, what, depth)
        return e

    def _field(self, of: Expression, name: str, depth: int) -> Expression:
        return applied(f".{name}", lambda x: getattr(x, name), lambda x: x[name], of)

    def _at(self, of: Expression, type: Array, depth: int) -> Expression:
        def plain(items: Any, position: Any) -> Any:
            return items[position] if position in keys(type.index) else zero(type.element)

        return applied("at", lambda items, i: items[i], plain, of, self.index(type.index, depth - 1))

    def _element(self, of: Expression, type: Seq, depth: int) -> Expression:
        def plain(items: list[Any], position: int) -> Any:
            return items[position] if 0 <= position < len(items) else zero(type.element)

        return applied("at", lambda items, i: items[i], plain, of, self.number(depth - 1))

    def _last(self, of: Expression, type: Seq, depth: int) -> Expression:
        return applied("last", lambda x: x.last, lambda x: x[-1] if x else zero(type.element), of)

    def _value(self, of: Expression, type: Option, depth: int) -> Expression:
        return applied("value", lambda x: x.value, lambda x: zero(type.content_type) if x is None else x, of)

    def index(self, index: Index | Enum, depth: int) -> Expression:
        """An expression that can index an array over ``index``."""
        if isinstance(index, Enum):
            return self.value(index, depth)
        return self.one_of([lambda: self.value(index, depth)] * 3 + [lambda: self.number(depth)])

    def number(self, depth: int) -> Expression:
        """An integer expression of any size."""
        if depth <= 0:
            n = self.rng.randint(0, 3)
            reads = self.counts(0)[:3]
            return self.one_of([lambda: Expression(str(n), lambda s: n, lambda p: n), *reads * 2])
        a = b = partial(self.number, depth - 1)
        divisor = partial(self.counted, depth - 1)
        c = partial(self.condition, depth - 1)
        options = [
            option("+", operator.add, None, a, b),
            option("-", operator.sub, None, a, b),
            option("*", lambda x, y: 0 + x * y, None, a, b),
            option("//", operator.floordiv, _divided(operator.floordiv), a, divisor),
            option("%", operator.mod, _divided(operator.mod), a, divisor),
            option("-", lambda x: 0 - x, None, a),
            option("least", least, min, a, b),
            option("greatest", greatest, max, a, b),
            option("total", lambda x, y: total([x, y]), lambda x, y: int(x) + int(y), c, c),
            *self.counts(depth) * 2,
        ]
        for type in self.all_types((Set, Seq)):
            options.append(option("size", size, len, partial(self.value, type, depth - 1)))
        return self.one_of(options)

    def counts(self, depth: int) -> list[Draw]:
        """Reads of numbers. ``0 + index`` is a number that combines with other indices."""
        return self.reads(lambda t: isinstance(t, IntType), depth) + [
            option("0 +", lambda x: 0 + x, lambda x: x, read)
            for read in self.reads(lambda t: isinstance(t, Index), depth)
        ]

    def counted(self, depth: int) -> Expression:
        """A number that tracing does not know, if there is one; used as divisor."""
        return self.one_of(self.counts(depth) or [lambda: self.number(depth)])

    def all_types(self, kinds: tuple[Any, ...]) -> list[Type]:
        found: dict[Type, None] = {}
        for type in self.fields.values():
            found |= {t: None for _, t in self.routes(type) if isinstance(t, kinds)}
        return list(found)

    def condition(self, depth: int) -> Expression:
        reads = self.reads(lambda t: isinstance(t, BoolType), depth)
        if depth <= 0:
            b = self.rng.random() < 0.5
            return self.one_of([lambda: Expression(str(b), lambda s: b, lambda p: b), *reads[:3] * 2])
        n = partial(self.number, depth - 1)
        c: Draw = lambda: self.lifted(self.condition(depth - 1))  # noqa: E731
        options = [
            *(option(name, compare, None, n, n) for name, compare in COMPARISONS.items()),
            *(option(name, join, None, c, c) for name, join in JOINS.items()),
            option("~", lambda x: ~x, operator.not_, c),
            option("implies", implies, lambda x, y: not x or y, c, c),
            option("all_of", lambda x, y: all_of([x, y]), lambda x, y: x and y, c, c),
            option("any_of", lambda x, y: any_of([x, y]), lambda x, y: x or y, c, c),
            *reads * 2,
        ]
        for type in self.all_types((Type,)):
            options += self._about(type, depth)
        return self.one_of(options)

    def lifted(self, of: Expression) -> Expression:
        """The same expression, symbolic even if constant."""
        return Expression(of.text, lambda s: Bool.lift(of.symbolic(s)), of.plain)

    def _about(self, type: Type, depth: int) -> list[Draw]:
        v = partial(self.value, type, depth - 1)
        lift = type.lift
        options = [
            option("==", lambda x, y: lift(x) == y, operator.eq, v, v),
            option("!=", lambda x, y: lift(x) != y, operator.ne, v, v),
            option("in_", lambda x, y, z: lift(x).in_(y, z), lambda x, y, z: x in (y, z), v, v, v),
        ]
        if isinstance(type, Set):
            i = partial(self.index, type.index, depth - 1)
            options += [
                option("<=", lambda x, y: lift(x) <= y, operator.le, v, v),
                option(">", lambda x, y: lift(x) > y, operator.gt, v, v),
                option("is_empty", lambda x: lift(x).is_empty, operator.not_, v),
                option("has", lambda x, i: lift(x).has(i), operator.contains, v, i),
            ]
        if isinstance(type, Option):
            content = partial(self.value, type.content_type, depth - 1)
            options += [
                option("is_some", lambda x: lift(x).is_some, lambda x: x is not None, v),
                option("is_none", lambda x: lift(x).is_none, lambda x: x is None, v),
                option("is_", lambda x, y: lift(x).is_(y), operator.eq, v, content),
            ]
        if isinstance(type, Seq):
            e = partial(self.value, type.element, depth - 1)
            options += [
                option("is_empty", lambda x: lift(x).is_empty, operator.not_, v),
                option("has", lambda x, y: lift(x).has(y), operator.contains, v, e),
                option("is_distinct", lambda x: words.is_distinct(lift(x)), _distinct, v),
                option(
                    "every",
                    lambda x, y: words.every_element(lift(x), lambda z: z == y),
                    lambda x, y: all(z == y for z in x),
                    v,
                    e,
                ),
            ]
        return options

    def value(self, type: Type, depth: int, *, whole: bool = False) -> Expression:
        """An expression of a type. ``whole``: it is written as a whole, so it may leave its type."""
        if isinstance(type, BoolType):
            return self.condition(depth)
        constant = a_plain(self.rng, type)
        options: list[Draw] = [
            lambda: Expression(repr(constant), lambda s: _lifted(type, constant), lambda p: constant),
            *self.reads(lambda t: t == type, depth) * 2,
        ]
        if depth > 0:
            options += self._made(type, depth)
        e = self.one_of(options)
        return e if whole else Expression(e.text, e.symbolic, lambda p: _inside(type, e.plain(p)))

    def _made(self, type: Type, depth: int) -> list[Draw]:
        v = partial(self.value, type, depth - 1)
        options: list[Draw] = [lambda: self._where(type, depth)]
        match type:
            case IntType():
                options += [option("int", type.lift, lambda x: x, partial(self.number, depth - 1))] * 4
            case Set():
                i = partial(self.value, type.index, depth - 1)
                options += [
                    option("|", operator.or_, None, v, v),
                    option("&", operator.and_, None, v, v),
                    option("-", operator.sub, None, v, v),
                    option("^", operator.xor, None, v, v),
                    option("with_", lambda x, y: x.with_(y), lambda x, y: x | {y}, v, i),
                    option("without", lambda x, y: x.without(y), lambda x, y: x - {y}, v, i),
                    option("of", lambda x, y: type.of(lambda j: x.has(j) & ~y.has(j)), operator.sub, v, v),
                ]
            case Option() if isinstance(type.content_type, (Index, Enum)) and self.rng.random() < 0.6:
                index = type.content_type
                options += [lambda: self._first(index, depth), *[lambda: self._least_by(index, depth)] * 2]
            case Option():
                inner = partial(self.value, type.content_type, depth - 1)
                options.append(option("some", type.some, lambda x: x, inner))
            case Array():
                element, at = (partial(self.value, t, depth - 1) for t in (type.element, type.index))
                options += [
                    option("set", lambda a, i, x: a.set(i, x), _replaced, v, at, element),
                    option("fill", type.fill, lambda x: each(type, lambda _: x), element),
                ]
            case Struct():
                name = self.rng.choice(list(type.fields))
                parts = {n: self.value(t, depth - 1) for n, t in type.fields.items()}
                options += [
                    option(
                        f"replace {name}",
                        lambda x, y: x.replace(**{name: y}),
                        lambda x, y: {**x, name: y},
                        v,
                        lambda: parts[name],
                    ),
                    lambda: applied(
                        str(type),
                        lambda *given: type(**dict(zip(parts, given, strict=True))),
                        lambda *given: dict(zip(parts, given, strict=True)),
                        *parts.values(),
                    ),
                ]
            case Seq():
                element, n = partial(self.value, type.element, depth - 1), partial(self.number, depth - 1)
                others = lambda x, y: [z for z in x if z != y]  # noqa: E731
                options += [
                    option("append", lambda x, y: x.append(y), lambda x, y: [*x, y], v, element),
                    option("truncate", lambda x, n: x.truncate(n), _truncated, v, n),
                    option("+", operator.add, None, v, v),
                    option("tail", lambda x: x.tail, _tail, v),
                    option("drop", lambda x, n: x.drop(n), _dropped, v, n),
                    option("filter", lambda x, y: x.filter(lambda z: z != y), others, v, element),
                ]
        return options

    def _first(self, index: Index | Enum, depth: int) -> Expression:
        """``first``: the first index value that equals ``x`` or is in a set."""
        x, among = self.value(index, depth - 1), self.value(Set(index), depth - 1)
        return applied(
            "first",
            lambda x, y: first(index, lambda i: (i == x) | Set(index).lift(y).has(i)),
            lambda x, y: next((i for i in keys(index) if i == x or i in y), None),
            x,
            among,
        )

    def _least_by(self, index: Index | Enum, depth: int) -> Expression:
        """``least_by``: the element of a set with the least number."""
        numbers, among = [self.number(depth - 1) for _ in keys(index)], self.value(Set(index), depth - 1)
        order = keys(index)
        return Expression(
            f"least_by({[n.text for n in numbers]}, {among.text})",
            lambda s: least_by(
                index,
                lambda i: numbers[i.node.value].symbolic(s),
                among=Set(index).lift(among.symbolic(s)).has,
            ),
            lambda p: min(
                (i for i in order if i in among.plain(p)),
                key=lambda i: [n.plain(p) for n in numbers][order.index(i)],
                default=None,
            ),
        )

    def _where(self, type: Type, depth: int) -> Expression:
        c, a, b = self.condition(depth - 1), self.value(type, depth - 1), self.value(type, depth - 1)
        return Expression(
            f"where({c.text}, {a.text}, {b.text})",
            lambda s: where(c.symbolic(s), a.symbolic(s), b.symbolic(s)),
            lambda p: a.plain(p) if c.plain(p) else b.plain(p),
        )


def _lifted(type: Type, constant: Any) -> Any:
    return type.lift(shown(type, constant))


def _inside(type: Type, value: Any) -> Any:
    if any(True for _ in left(type, value)):
        raise Overflow
    return value


def _divided(operation: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """The operation; division by zero raises Overflow, whereas the language raises only if the value is used."""

    def plain(x: int, y: int) -> int:
        if y == 0:
            raise Overflow
        return operation(x, y)

    return plain


def _distinct(items: list[Any]) -> bool:
    return not any(items[i] == items[j] for i in range(len(items)) for j in range(i))


def _replaced(items: Any, at: Any, value: Any) -> Any:
    if isinstance(items, dict):
        return {**items, at: value}
    return [value if i == at else old for i, old in enumerate(items)]


def _tail(items: list[Any]) -> list[Any]:
    if not items:
        raise Overflow
    return items[1:]


def _dropped(items: list[Any], at: int) -> list[Any]:
    return [item for i, item in enumerate(items) if i != at]


def _truncated(items: list[Any], length: int) -> list[Any]:
    if length < 0:
        raise Overflow
    return items[:length]


# --- protocols ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Assignment:
    """An assignment to a place of ``s.next``."""

    field: str
    steps: tuple[tuple[str, Any], ...]  # ("field", name) or ("at", Expression)
    type: Type
    value: Expression
    condition: Expression | None = None
    """The assignment is made only under this condition, if any."""

    @property
    def text(self) -> str:
        path = "".join(f".{x}" if kind == "field" else f"[{x.text}]" for kind, x in self.steps)
        under = f"when({self.condition.text}): " if self.condition else ""
        return f"{under}s.next.{self.field}{path} = {self.value.text}"

    def is_made(self, before: Mapping[str, Any]) -> bool:
        return self.condition is None or self.condition.plain(before)

    def places(self, before: Mapping[str, Any]) -> tuple[Any, ...]:
        """The path of the written place."""
        return self.field, *(x if kind == "field" else x.plain(before) for kind, x in self.steps)

    def made(self, before: Mapping[str, Any]) -> list[Assignment]:
        return [self] if self.is_made(before) else []

    def write(self, s: State) -> None:
        if self.condition is None:
            self._write(s)
        else:
            with when(self.condition.symbolic(s)):
                self._write(s)

    def _write(self, s: State) -> None:
        target, last = cast(Any, s.next), cast(tuple[str, Any], ("field", self.field))
        for step in self.steps:
            target = getattr(target, last[1]) if last[0] == "field" else target[last[1].symbolic(s)]
            last = step
        if last[0] == "field":
            setattr(target, last[1], self.value.symbolic(s))
        else:
            target[last[1].symbolic(s)] = self.value.symbolic(s)

    def apply(self, before: Mapping[str, Any], after: dict[str, Any]) -> None:
        """Apply to plain values. Raises Outside if the place does not exist."""
        places = self.places(before)
        target: Any = after
        for place in places[:-1]:
            target = target[_there(target, place)]
        target[_there(target, places[-1])] = self.value.plain(before)


@dataclass(frozen=True)
class Chain:
    """``when … otherwise …``: the first branch whose condition holds; only the last may lack one."""

    branches: tuple[Assignment, ...]

    @property
    def text(self) -> str:
        return " otherwise ".join(a.text for a in self.branches)

    def made(self, before: Mapping[str, Any]) -> list[Assignment]:
        """The chosen branch, if any."""
        return [a for a in self.branches if a.is_made(before)][:1]

    def write(self, s: State) -> None:
        for number, branch in enumerate(self.branches):
            condition = True if branch.condition is None else branch.condition.symbolic(s)
            with otherwise(condition) if number else when(condition):
                branch._write(s)


def _there(target: Any, place: Any) -> Any:
    if isinstance(target, list) and not 0 <= place < len(target):
        raise Outside
    return place


@dataclass(frozen=True)
class Stated:
    """A protocol in the language, with its parts as plain expressions."""

    protocol: type[Protocol]
    state: Struct
    guards: tuple[Expression, ...]
    ways: Mapping[tuple[tuple[str, Any], ...], tuple[Assignment | Chain, ...]]
    """The step's choices, by name and value → its writes."""
    invariant: Expression
    functions: tuple[tuple[Type | None, Expression], ...]

    def __str__(self) -> str:
        fields = ", ".join(f"{n}: {t!r}" for n, t in self.state.fields.items())
        lines = [f"require {g.text}" for g in self.guards]
        lines += [f"{dict(way)}: {a.text}" for way, written in self.ways.items() for a in written]
        return "\n".join(
            [fields, *lines, f"invariant {self.invariant.text}", *(e.text for _, e in self.functions)]
        )


def a_protocol(rng: Random, depth: int = 3) -> Stated:
    fields = {f"f{i}": a_type(rng) for i in range(rng.randint(1, 4))}
    fields["count"] = Int(0, 3)
    make = Expressions(rng, fields)
    guards = tuple(make.condition(depth) for _ in range(rng.choice([0, 0, 1, 2])))
    ways = {way: _written(make, fields, depth) for way in rng.choice(WAYS)}
    holds = make.condition(depth)
    functions: list[tuple[Type | None, Expression]] = [(None, make.number(depth))]
    functions += [(t, make.value(t, depth, whole=True)) for t in make.all_types((Type,))[:3]]

    @invariant("random")
    def property(m: Any, s: State) -> Any:
        return holds.symbolic(s)

    class Random(Protocol):
        name = "random"
        invariants = (property,)

        def define(self) -> Struct:
            return Struct("State", **fields)

        def initial(self) -> list[dict[str, Any]]:
            return [shown(self.state, zero(self.state))]

        @action()
        def step(self, s: State) -> None:
            for number, guard in enumerate(guards):
                require(f"guard {number}", guard.symbolic(s))
            way: tuple[tuple[str, Any], ...] = ()
            while way not in ways:
                name = CHOICES[len(way)]
                options = dict.fromkeys(w[len(way)][1] for w in ways if w[: len(way)] == way)
                way += ((name, one_of(name, list(options))),)
            for assignment in ways[way]:
                assignment.write(s)

    return Stated(Random, Struct("State", **fields), guards, ways, holds, tuple(functions))


CHOICES = ("which", "then")
WAYS: list[list[tuple[tuple[str, Any], ...]]] = [
    [()],
    [()],
    [(("which", "a"),), (("which", "b"),)],
    [(("which", 0), ("then", False)), (("which", 0), ("then", True)), (("which", 1),)],
]
"""Possible sets of choices of a step. In the last, one value of the first choice leads to a second choice."""


def _written(make: Expressions, fields: Mapping[str, Type], depth: int) -> tuple[Assignment | Chain, ...]:
    """A step's writes: some fields twice, at other indices or in other branches."""
    written = [name for name in fields if make.rng.random() < 0.6]
    written += [name for name in written if make.rng.random() < 0.3]
    return tuple(
        _chain(make, fields, name, depth)
        if make.rng.random() < 0.25
        else _assignment(make, name, fields[name], depth)
        for name in written
    )


def _chain(make: Expressions, fields: Mapping[str, Type], name: str, depth: int) -> Chain:
    """The first branch writes the field, further ones it or another; the last may lack a condition."""
    names = [name, *(make.rng.choice([name, *fields]) for _ in range(make.rng.randint(1, 2)))]
    branches = [
        replace(_assignment(make, n, fields[n], depth - 1), condition=make.condition(depth - 1))
        for n in names
    ]
    if make.rng.random() < 0.5:
        branches[-1] = replace(branches[-1], condition=None)
    return Chain(tuple(branches))


def _assignment(make: Expressions, name: str, type: Type, depth: int) -> Assignment:
    steps: list[tuple[str, Any]] = []
    while make.rng.random() < 0.6:
        if isinstance(type, Struct):
            field = make.rng.choice(list(type.fields))
            steps.append(("field", field))
            type = type.fields[field]
        elif isinstance(type, Array):
            steps.append(("at", make.index(type.index, depth - 1)))
            type = type.element
        elif isinstance(type, Seq):
            steps.append(("at", make.number(depth - 1)))
            type = type.element
        else:
            break
    condition = make.condition(depth - 1) if make.rng.random() < 0.4 else None
    return Assignment(name, tuple(steps), type, make.value(type, depth, whole=True), condition)


def _meet(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """True if one path is a prefix of the other."""
    return all(a == b for a, b in zip(one, other, strict=False))


def _is_out(assignment: Assignment, before: Mapping[str, Any]) -> bool:
    try:
        assignment.apply(before, copy.deepcopy(dict(before)))
    except Outside:
        return True
    return False


def expected(stated: Stated, before: Mapping[str, Any], way: tuple[tuple[str, Any], ...]) -> tuple[str, Any]:
    """The result of a step with these choices: ``refused``, ``cut``, ``error``, or ``leads`` with the state.

    ``cut or error``: the place is outside, and the value would also have left its type.
    """
    if not all(guard.plain(before) for guard in stated.guards):
        return "refused", None
    after, wrong = copy.deepcopy(dict(before)), set[str | None]()
    made = [a for item in stated.ways[way] for a in item.made(before)]
    if any(_meet(a.places(before), b.places(before)) for i, a in enumerate(made) for b in made[:i]):
        leaves = any(bound for a in made for bound in left(a.type, a.value.plain(before)))
        return "cut or error" if leaves or any(_is_out(a, before) for a in made) else "error", None
    for assignment in made:
        try:
            assignment.apply(before, after)
        except Outside:
            wrong.add(None)
            if any(bound for bound in left(assignment.type, assignment.value.plain(before))):
                return "cut or error", None
    wrong |= set(left(stated.state, after))
    if wrong - {None}:
        return "cut", None
    return ("error", None) if wrong else ("leads", shown(stated.state, after))


# --- initial states -------------------------------------------------------------------------------------

MOST_STATES = 500


def every(type: Type) -> list[Any]:
    """All plain values of a type. Raises Overflow if there are too many."""
    match type:
        case BoolType():
            found: list[Any] = [False, True]
        case IntType() | Index():
            found = list(range(type.low, type.high + 1))
        case Enum():
            found = list(type.members)
        case Set():
            some = product([False, True], repeat=len(keys(type.index)))
            found = [frozenset(k for k, i in zip(keys(type.index), s, strict=True) if i) for s in some]
        case Option():
            found = [None, *every(type.content_type)]
        case Array():
            rows = _few(product(every(type.element), repeat=len(keys(type.index))))
            found = [
                dict(zip(keys(type.index), r, strict=True)) if isinstance(type.index, Enum) else list(r)
                for r in rows
            ]
        case Struct():
            rows = _few(product(*map(every, type.fields.values())))
            found = [dict(zip(type.fields, row, strict=True)) for row in rows]
        case Seq():
            found = [
                list(r) for n in range(type.maximum + 1) for r in _few(product(every(type.element), repeat=n))
            ]
        case _:
            raise AssertionError(type)
    return list(_few(iter(found)))


def _few(values: Iterator[Any]) -> Iterator[Any]:
    for number, value in enumerate(values):
        if number == MOST_STATES:
            raise Overflow
        yield value


def _starts(
    rng: Random, fields: Mapping[str, Type], share: float
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Random values of ``initial`` for about this share of the fields, with all rows that they stand for."""
    told = {n: a_start(rng, t) for n, t in fields.items() if rng.random() < share}
    parts = [told[n][1] if n in told else [zero(t)] for n, t in fields.items()]
    rows = [dict(zip(fields, row, strict=True)) for row in _few(product(*parts))]
    return {n: given for n, (given, _) in told.items()}, rows


def a_start(rng: Random, type: Type) -> tuple[Any, list[Any]]:
    """A random value of ``initial`` for a type, with all plain values that it stands for."""
    kind = rng.choice(["free", "free", "some", "one", "inside", "inside", "inside"])
    if kind == "inside" and isinstance(type, Struct):
        return _starts(rng, type.fields, 0.8)
    if kind == "inside" and isinstance(type, Array):
        each_ = [a_start(rng, type.element) for _ in keys(type.index)]
        rows = list(_few(product(*(values for _, values in each_))))
        given = [g for g, _ in each_]
        if isinstance(type.index, Enum):
            return dict(zip(keys(type.index), given, strict=True)), [
                dict(zip(keys(type.index), row, strict=True)) for row in rows
            ]
        return given, [list(row) for row in rows]
    if kind == "free":
        return free, every(type)
    if kind == "some":
        values = [a_plain(rng, type) for _ in range(rng.randint(1, 3))]
        return free(*(shown(type, value) for value in values)), values
    value = a_plain(rng, type)
    return shown(type, value), [value]


@dataclass(frozen=True)
class Begun:
    """A protocol with its expected initial states as plain values."""

    protocol: type[Protocol]
    state: Struct
    states: list[dict[str, Any]]
    given: list[Any]
    condition: Expression


def a_beginning(rng: Random) -> Begun:
    """Random ``initial`` and ``initially``. Raises Overflow if there are too many initial states."""
    fields = {f"f{i}": a_type(rng) for i in range(rng.randint(1, 3))}
    state = Struct("State", **fields)
    condition = Expressions(rng, fields).condition(2)
    if rng.random() < 0.3:
        condition = Expression("True", lambda s: True, lambda p: True)
    given, states = [], []
    for _ in range(rng.randint(1, 2)):
        told, rows = _starts(rng, fields, 0.9)
        states += rows
        given.append(told)

    class Begins(Protocol):
        name = "begins"

        def define(self) -> Struct:
            return state

        def initial(self) -> list[dict[str, Any]]:
            return given

        def initially(self, s: State) -> Any:
            return condition.symbolic(s)

    return Begun(Begins, state, [s for s in states if condition.plain(s)], given, condition)
