"""Random small protocols, each written twice: in the language, and in plain Python.

An expression is a pair of independent functions, of symbolic values and of plain ones (int, bool, str,
frozenset, None, dict, list). On plain values, an intermediate value outside its type raises Overflow: the
language checks types only on write.
"""

from __future__ import annotations

import copy
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

    def one_of(self, options: list[Callable[[], Expression]]) -> Expression:
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

    def reads(self, wanted: Callable[[Type], bool], depth: int) -> list[Callable[[], Expression]]:
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
        return Expression(
            f"{of.text}.{name}", lambda s: getattr(of.symbolic(s), name), lambda p: of.plain(p)[name]
        )

    def _at(self, of: Expression, type: Array, depth: int) -> Expression:
        i = self.index(type.index, depth - 1)

        def plain(p: Any) -> Any:
            position, items = i.plain(p), of.plain(p)
            return items[position] if position in keys(type.index) else zero(type.element)

        return Expression(f"{of.text}[{i.text}]", lambda s: of.symbolic(s)[i.symbolic(s)], plain)

    def _element(self, of: Expression, type: Seq, depth: int) -> Expression:
        i = self.number(depth - 1)

        def plain(p: Any) -> Any:
            position, items = i.plain(p), of.plain(p)
            return items[position] if 0 <= position < len(items) else zero(type.element)

        return Expression(f"{of.text}[{i.text}]", lambda s: of.symbolic(s)[i.symbolic(s)], plain)

    def _last(self, of: Expression, type: Seq, depth: int) -> Expression:
        def plain(p: Any) -> Any:
            items = of.plain(p)
            return items[-1] if items else zero(type.element)

        return Expression(f"{of.text}.last", lambda s: of.symbolic(s).last, plain)

    def _value(self, of: Expression, type: Option, depth: int) -> Expression:
        def plain(p: Any) -> Any:
            value = of.plain(p)
            return zero(type.content_type) if value is None else value

        return Expression(f"{of.text}.value", lambda s: of.symbolic(s).value, plain)

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
        options = [
            lambda: _two(a(), b(), "+", lambda x, y: x + y),
            lambda: _two(a(), b(), "-", lambda x, y: x - y),
            lambda: _two(a(), b(), "*", lambda x, y: 0 + x * y),
            lambda: _two(
                a(), self.counted(depth - 1), "//", lambda x, y: x // y, _divided(lambda x, y: x // y)
            ),
            lambda: _two(a(), self.counted(depth - 1), "%", lambda x, y: x % y, _divided(lambda x, y: x % y)),
            lambda: _one(a(), "-", lambda x: 0 - x),
            lambda: _two(a(), b(), "least", least, min),
            lambda: _two(a(), b(), "greatest", greatest, max),
            lambda: self._total(depth),
            *self.counts(depth) * 2,
        ]
        for type in self.all_types((Set, Seq)):
            options.append(partial(lambda t: _one(self.value(t, depth - 1), "size", size, len), type))
        return self.one_of(options)

    def counts(self, depth: int) -> list[Callable[[], Expression]]:
        """Reads of numbers. ``0 + index`` is a number that combines with other indices."""
        return self.reads(lambda t: isinstance(t, IntType), depth) + [
            lambda read=read: _one(read(), "0 +", lambda x: 0 + x, lambda x: x)
            for read in self.reads(lambda t: isinstance(t, Index), depth)
        ]

    def counted(self, depth: int) -> Expression:
        """A number that tracing does not know, if there is one; used as divisor."""
        return self.one_of(self.counts(depth) or [lambda: self.number(depth)])

    def _total(self, depth: int) -> Expression:
        a, b = self.condition(depth - 1), self.condition(depth - 1)
        return _two(a, b, "total", lambda x, y: total([x, y]), lambda x, y: int(x) + int(y))

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
        c: Callable[[], Expression] = lambda: self.lifted(self.condition(depth - 1))  # noqa: E731
        options: list[Callable[[], Expression]] = [
            lambda: _two(n(), n(), "<", lambda x, y: x < y),
            lambda: _two(n(), n(), "<=", lambda x, y: x <= y),
            lambda: _two(n(), n(), ">", lambda x, y: x > y),
            lambda: _two(n(), n(), ">=", lambda x, y: x >= y),
            lambda: _two(n(), n(), "==", lambda x, y: x == y),
            lambda: _two(n(), n(), "!=", lambda x, y: x != y),
            lambda: _two(c(), c(), "&", lambda x, y: x & y),
            lambda: _two(c(), c(), "|", lambda x, y: x | y),
            lambda: _two(c(), c(), "^", lambda x, y: x ^ y),
            lambda: _two(c(), c(), "==", lambda x, y: x == y),
            lambda: _one(c(), "~", lambda x: ~x, lambda x: not x),
            lambda: _two(c(), c(), "implies", implies, lambda x, y: not x or y),
            lambda: _two(c(), c(), "all_of", lambda x, y: all_of([x, y]), lambda x, y: x and y),
            lambda: _two(c(), c(), "any_of", lambda x, y: any_of([x, y]), lambda x, y: x or y),
            *reads * 2,
        ]
        for type in self.all_types((Type,)):
            options += self._about(type, depth)
        return self.one_of(options)

    def lifted(self, of: Expression) -> Expression:
        """The same expression, symbolic even if constant."""
        return Expression(of.text, lambda s: Bool.lift(of.symbolic(s)), of.plain)

    def _about(self, type: Type, depth: int) -> list[Callable[[], Expression]]:
        v = partial(self.value, type, depth - 1)
        options: list[Callable[[], Expression]] = [
            lambda: _two(v(), v(), "==", lambda x, y: type.lift(x) == y, lambda x, y: x == y),
            lambda: _two(v(), v(), "!=", lambda x, y: type.lift(x) != y, lambda x, y: x != y),
            lambda: _three(
                v(), v(), v(), "in_", lambda x, y, z: type.lift(x).in_(y, z), lambda x, y, z: x in (y, z)
            ),
        ]
        if isinstance(type, Set):
            t = type
            options += [
                lambda: _two(v(), v(), "<=", lambda x, y: t.lift(x) <= y, lambda x, y: x <= y),
                lambda: _two(v(), v(), ">", lambda x, y: t.lift(x) > y, lambda x, y: x > y),
                lambda: _one(v(), "is_empty", lambda x: t.lift(x).is_empty, lambda x: not x),
                lambda: _two(
                    v(),
                    self.index(t.index, depth - 1),
                    "has",
                    lambda x, i: t.lift(x).has(i),
                    lambda x, i: i in x,
                ),
            ]
        if isinstance(type, Option):
            o = type
            options += [
                lambda: _one(v(), "is_some", lambda x: o.lift(x).is_some, lambda x: x is not None),
                lambda: _one(v(), "is_none", lambda x: o.lift(x).is_none, lambda x: x is None),
                lambda: _two(
                    v(),
                    self.value(o.content_type, depth - 1),
                    "is_",
                    lambda x, y: o.lift(x).is_(y),
                    lambda x, y: x == y,
                ),
            ]
        if isinstance(type, Seq):
            q = type
            e = partial(self.value, q.element, depth - 1)
            options += [
                lambda: _one(v(), "is_empty", lambda x: q.lift(x).is_empty, lambda x: not x),
                lambda: _two(v(), e(), "has", lambda x, y: q.lift(x).has(y), lambda x, y: y in x),
                lambda: _one(v(), "is_distinct", lambda x: words.is_distinct(q.lift(x)), _distinct),
                lambda: _two(
                    v(), e(), "every",
                    lambda x, y: words.every_element(q.lift(x), lambda z: z == y), lambda x, y: all(z == y for z in x),
                ),
            ]  # fmt: skip
        return options

    def value(self, type: Type, depth: int, *, whole: bool = False) -> Expression:
        """An expression of a type. ``whole``: it is written as a whole, so it may leave its type."""
        if isinstance(type, BoolType):
            return self.condition(depth)
        constant = a_plain(self.rng, type)
        options: list[Callable[[], Expression]] = [
            lambda: Expression(repr(constant), lambda s: _lifted(type, constant), lambda p: constant),
            *self.reads(lambda t: t == type, depth) * 2,
        ]
        if depth > 0:
            options += self._made(type, depth)
        e = self.one_of(options)
        return e if whole else Expression(e.text, e.symbolic, lambda p: _inside(type, e.plain(p)))

    def _made(self, type: Type, depth: int) -> list[Callable[[], Expression]]:
        v = partial(self.value, type, depth - 1)
        options: list[Callable[[], Expression]] = [lambda: self._where(type, depth)]
        match type:
            case IntType():
                options += [lambda: _one(self.number(depth - 1), "int", type.lift, lambda x: x)] * 4
            case Set():
                i = partial(self.value, type.index, depth - 1)
                options += [
                    lambda: _two(v(), v(), "|", lambda x, y: x | y),
                    lambda: _two(v(), v(), "&", lambda x, y: x & y),
                    lambda: _two(v(), v(), "-", lambda x, y: x - y),
                    lambda: _two(v(), v(), "^", lambda x, y: x ^ y),
                    lambda: _two(v(), i(), "with_", lambda x, y: x.with_(y), lambda x, y: x | {y}),
                    lambda: _two(v(), i(), "without", lambda x, y: x.without(y), lambda x, y: x - {y}),
                    lambda: _two(
                        v(),
                        v(),
                        "of",
                        lambda x, y: type.of(lambda j: x.has(j) & ~y.has(j)),
                        lambda x, y: x - y,
                    ),
                ]
            case Option() if isinstance(type.content_type, (Index, Enum)) and self.rng.random() < 0.6:
                index = type.content_type
                options += [lambda: self._first(index, depth), *[lambda: self._least_by(index, depth)] * 2]
            case Option():
                options.append(lambda: self.value(type.content_type, depth - 1))
                inner = options[-1]
                options[-1] = lambda: _one(inner(), "some", type.some, lambda x: x)
            case Array():
                element = partial(self.value, type.element, depth - 1)
                options += [
                    lambda: _three(
                        v(),
                        self.value(type.index, depth - 1),
                        element(),
                        "set",
                        lambda a, i, x: a.set(i, x),
                        _replaced,
                    ),
                    lambda: _one(element(), "fill", type.fill, lambda x: each(type, lambda _: x)),
                ]
            case Struct():
                name = self.rng.choice(list(type.fields))
                parts = {n: self.value(t, depth - 1) for n, t in type.fields.items()}
                options += [
                    lambda: _two(
                        v(), parts[name], f"replace {name}",
                        lambda x, y: x.replace(**{name: y}), lambda x, y: {**x, name: y},
                    ),
                    lambda: Expression(
                        f"{type}({', '.join(e.text for e in parts.values())})",
                        lambda s: type(**{n: e.symbolic(s) for n, e in parts.items()}),
                        lambda p: {n: e.plain(p) for n, e in parts.items()},
                    ),
                ]  # fmt: skip
            case Seq():
                element = partial(self.value, type.element, depth - 1)
                options += [
                    lambda: _two(v(), element(), "append", lambda x, y: x.append(y), lambda x, y: [*x, y]),
                    lambda: _two(v(), self.number(depth - 1), "truncate", lambda x, n: x.truncate(n), _truncated),
                    lambda: _two(v(), v(), "+", lambda x, y: x + y),
                    lambda: _one(v(), "tail", lambda x: x.tail, _tail),
                    lambda: _two(v(), self.number(depth - 1), "drop", lambda x, n: x.drop(n), _dropped),
                    lambda: _two(
                        v(), element(), "filter",
                        lambda x, y: x.filter(lambda z: z != y), lambda x, y: [z for z in x if z != y],
                    ),
                ]  # fmt: skip
        return options

    def _first(self, index: Index | Enum, depth: int) -> Expression:
        """``first``: the first index value that equals ``x`` or is in a set."""
        x, among = self.value(index, depth - 1), self.value(Set(index), depth - 1)
        return _two(
            x,
            among,
            "first",
            lambda x, y: first(index, lambda i: (i == x) | Set(index).lift(y).has(i)),
            lambda x, y: next((i for i in keys(index) if i == x or i in y), None),
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


def _one(a: Expression, name: str, symbolic: Any, plain: Any = None) -> Expression:
    plain = plain or symbolic
    return Expression(f"{name}({a.text})", lambda s: symbolic(a.symbolic(s)), lambda p: plain(a.plain(p)))


def _two(a: Expression, b: Expression, name: str, symbolic: Any, plain: Any = None) -> Expression:
    plain = plain or symbolic
    return Expression(
        f"({a.text} {name} {b.text})",
        lambda s: symbolic(a.symbolic(s), b.symbolic(s)),
        lambda p: plain(a.plain(p), b.plain(p)),
    )


def _three(a: Expression, b: Expression, c: Expression, name: str, symbolic: Any, plain: Any) -> Expression:
    return Expression(
        f"{name}({a.text}, {b.text}, {c.text})",
        lambda s: symbolic(a.symbolic(s), b.symbolic(s), c.symbolic(s)),
        lambda p: plain(a.plain(p), b.plain(p), c.plain(p)),
    )


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


def a_start(rng: Random, type: Type) -> tuple[Any, list[Any]]:
    """A random value of ``initial`` for a type, with all plain values that it stands for."""
    kind = rng.choice(["free", "free", "some", "one", "inside", "inside", "inside"])
    if kind == "inside" and isinstance(type, Struct):
        told = {n: a_start(rng, t) for n, t in type.fields.items() if rng.random() < 0.8}
        parts = [told[n][1] if n in told else [zero(t)] for n, t in type.fields.items()]
        rows = [dict(zip(type.fields, row, strict=True)) for row in _few(product(*parts))]
        return {n: given for n, (given, _) in told.items()}, rows
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
        told = {n: a_start(rng, t) for n, t in fields.items() if rng.random() < 0.9}
        parts = [told[n][1] if n in told else [zero(t)] for n, t in fields.items()]
        states += [dict(zip(fields, row, strict=True)) for row in _few(product(*parts))]
        given.append({n: g for n, (g, _) in told.items()})

    class Begins(Protocol):
        name = "begins"

        def define(self) -> Struct:
            return state

        def initial(self) -> list[dict[str, Any]]:
            return given

        def initially(self, s: State) -> Any:
            return condition.symbolic(s)

    return Begun(Begins, state, [s for s in states if condition.plain(s)], given, condition)
