"""Types: finite sets of values, each with a fixed layout of scalars (leaves) and a width in bits.

A type can lift a plain Python value, wrap nodes into a symbolic value, and turn scalars back into a
plain, readable value. Types are compared by structure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from highwater.model.language import graph, values
from highwater.model.language.errors import LanguageError, NoSuchAttribute, fail, meant, place
from highwater.model.language.graph import BITS, BOOL, INT, Node
from highwater.model.language.values import Value

Hits = tuple[tuple[int, Node], ...]
"""Where a place in the state can be: the offset of its first scalar, and the condition under which it is there."""


@dataclass(frozen=True)
class Leaf:
    """One scalar of a layout: its path (``replicas[1].hw``), sort, interval, and the bound that it declares.

    ``bound`` names the scenario's bound whose crossing cuts a step; None means that leaving the interval
    is an error in the protocol. ``limit`` is the bound's own end where the type was widened (see ``widening``).
    """

    path: str
    sort: str
    low: int
    high: int
    bound: str | None = None
    limit: int | None = None

    @property
    def bits(self) -> int:
        """Width in a packed state: enough for every value of the interval, stored from ``low``; 0 for a constant."""
        return (self.high - self.low).bit_length()

    def left_by(self, node: Node) -> Node:
        """Whether a value that is written here is none of its type; false where its interval says that it is one."""
        if node.low >= self.low and node.high <= self.high:
            return graph.FALSE
        if self.sort == INT:
            return graph.not_(graph.within(node, self.low, self.high))
        fits = graph.intersection(node, graph.const(self.high, self.sort))
        return graph.not_(graph.eq(fits, node))


_widening: ContextVar[bool] = ContextVar("widening", default=False)


@contextmanager
def widening() -> Iterator[None]:
    """While inside, a type that declares a bound has room for one value, or one element, beyond it."""
    token = _widening.set(True)
    try:
        yield
    finally:
        _widening.reset(token)


class Type:
    """Base of all types."""

    is_counted = False
    """Whether its plain values are whole numbers, to be added and compared with others."""

    def goes_with(self, other: Type | None) -> bool:
        """Whether a value of this type can stand beside one of the other (None: the result of arithmetic)."""
        return self == other

    @cached_property
    def leaf_count(self) -> int:
        """How many scalars a value has."""
        return len(self.leaves(""))

    def leaves(self, path: str) -> list[Leaf]:
        """The scalars of a value at a path, in order."""
        raise NotImplementedError

    def wrap(self, nodes: Sequence[Node]) -> Any:
        """The symbolic value made of these nodes."""
        raise NotImplementedError

    def place(self, old: Value, start: int, hits: Hits, at: tuple[Node, ...]) -> Any:
        """A place for a value of this type in the state after a step; the arguments are those of ``Next``."""
        from highwater.model.language.tracing import Next

        return Next(old, self, start, hits, at)

    def lift(self, plain: object) -> Any:
        """A symbolic value of this type from a plain or a symbolic one."""
        raise NotImplementedError

    def decode(self, scalars: Sequence[int]) -> Any:
        """The plain, readable value that these scalars stand for."""
        raise NotImplementedError

    def zero(self) -> Any:
        """The value that stands where there is none."""
        raise NotImplementedError

    def encode(self, plain: object) -> tuple[int, ...]:
        """The scalars of a plain value."""
        nodes = self.lift(plain).nodes
        for leaf, node in zip(self.leaves(""), nodes, strict=True):
            if not node.is_const:
                raise fail(f"{plain!r} is not a plain value")
            if not leaf.low <= node.value <= leaf.high:
                raise fail(
                    f"{node.value} is outside {leaf.low}..{leaf.high}{leaf.path and f' of {leaf.path}'}"
                )
        return tuple(n.value for n in nodes)

    def constants(self) -> Iterator[Any]:
        """All values, for the types that a parameter of an action can have."""
        raise fail(f"{self} cannot be enumerated; use an Index, Enum, Int, Bool, Set or Option of these")

    def _wrong(self, plain: object) -> Exception:
        shown = plain.describe() if isinstance(plain, Value) else repr(plain)
        return fail(f"expected {self}, not {shown}")


def _is_type(given: object, what: str) -> None:
    if not isinstance(given, Type):
        raise fail(f"{what} needs a type, not {given!r}")


def _is_index(given: object, what: str) -> None:
    if not isinstance(given, (Index, Enum)):
        raise fail(f"{what} needs an Index or an Enum, not {given!r}")


@dataclass(frozen=True)
class BoolType(Type):
    """A truth value."""

    def __str__(self) -> str:
        return "Bool"

    def leaves(self, path: str) -> list[Leaf]:  # noqa: D102
        return [Leaf(path, BOOL, 0, 1)]

    def wrap(self, nodes: Sequence[Node]) -> values.Truth:  # noqa: D102
        return values.Truth(self, tuple(nodes))

    def lift(self, plain: object) -> values.Truth:  # noqa: D102
        return self.wrap(values.as_bool(plain).nodes)

    def decode(self, scalars: Sequence[int]) -> bool:  # noqa: D102
        return bool(scalars[0])

    def zero(self) -> values.Truth:  # noqa: D102
        return self.lift(False)

    def constants(self) -> Iterator[values.Truth]:  # noqa: D102
        return (self.lift(v) for v in (False, True))


class _Number(Type):
    """Types with one int scalar. ``low`` and ``high`` are inclusive."""

    low: int
    high: int
    is_counted = True

    def goes_with(self, other: Type | None) -> bool:
        return not isinstance(other, Enum)

    def wrap(self, nodes: Sequence[Node]) -> values.Number:
        return values.Number(self, tuple(nodes))

    def zero(self) -> values.Number:
        return self.wrap([graph.const(min(max(0, self.low), self.high), INT)])

    def constants(self) -> Iterator[values.Number]:
        return (self.wrap([graph.const(v, INT)]) for v in range(self.low, self.high + 1))

    def lift(self, plain: object) -> values.Number:
        if isinstance(plain, values.Number):
            if plain.type is not self and not values._of_one_kind(self, plain.type):
                raise self._wrong(plain)
            return self.wrap(plain.nodes)
        number = self._number(plain)
        if number is None:
            raise self._wrong(plain)
        if not self.low <= number <= self.high:
            raise fail(f"{plain!r} is not a value of {self}")
        return self.wrap([graph.const(number, INT)])

    def _number(self, plain: object) -> int | None:
        return plain if isinstance(plain, int) and not isinstance(plain, bool) else None

    def decode(self, scalars: Sequence[int]) -> Any:
        return scalars[0]


@dataclass(frozen=True)
class IntType(_Number):
    """A whole number from ``low`` to ``high`` inclusive; ``bound`` names the scenario's bound that cuts there."""

    low: int
    high: int
    bound: str | None = None
    limit: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        for number in (self.low, self.high):
            if not isinstance(number, int) or isinstance(number, bool):
                raise fail(f"the limits of an Int are whole numbers, not {number!r}")
        if self.low > self.high:
            raise fail(f"{self} has no value")
        if self.bound and _widening.get():
            object.__setattr__(self, "limit", self.high)
            object.__setattr__(self, "high", self.high + 1)

    def __str__(self) -> str:
        return f"Int({self.low}..{self.high})"

    def leaves(self, path: str) -> list[Leaf]:  # noqa: D102
        return [Leaf(path, INT, self.low, self.high, self.bound, self.limit)]


@dataclass(frozen=True)
class Index(_Number):
    """A finite set of interchangeable-looking things (brokers, partitions): ``0 .. size-1``.

    Iterating gives its values as constants, known while tracing. ``name`` is how texts call one.
    """

    name: str
    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise fail(f"Index {self.name!r} needs at least one value")

    @property
    def low(self) -> int:  # type: ignore[override]
        """Always 0."""
        return 0

    @property
    def high(self) -> int:  # type: ignore[override]
        """The last index."""
        return self.size - 1

    def goes_with(self, other: Type | None) -> bool:
        """An index goes with numbers, and with values of an index of the same name (which may be a part of it)."""
        return not isinstance(other, (Enum, Index)) or self.name == other.name

    def __str__(self) -> str:
        return f"Index({self.name}, {self.size})"

    def __iter__(self) -> Iterator[values.Number]:
        return self.constants()

    def key(self, i: int) -> int:
        """What an element over this index is called in a path."""
        return i

    def leaves(self, path: str) -> list[Leaf]:  # noqa: D102
        return [Leaf(path, INT, 0, self.size - 1)]


@dataclass(frozen=True)
class Enum(_Number):
    """An enumeration; its members are attributes (``Error.NONE``) and plain values are their names.

    A number in the place of the members makes so many, called after it: ``Enum("p", 3)`` has p1, p2 and p3. Iterating
    gives the members as constants. An Array or a Set can be over one.
    """

    name: str
    members: tuple[str, ...]
    is_counted = False

    def goes_with(self, other: Type | None) -> bool:
        """Members stand beside members of the same enumeration only."""
        return self == other

    def __init__(self, name: str, members: Sequence[str] | str | int) -> None:
        if isinstance(members, int):
            members = [f"{name}{i}" for i in range(1, members + 1)]
        names = tuple(members.split()) if isinstance(members, str) else tuple(members)
        taken = {*dir(Enum), *Enum.__dataclass_fields__}
        for member in names:
            if not isinstance(member, str):
                raise fail(f"the members of Enum {name} are names, not {member!r}")
            if member in taken or member.startswith("_"):
                raise fail(
                    f"{member!r} cannot be a member of Enum {name}: every Enum has an attribute of this name"
                )
        if not names or len(set(names)) < len(names):
            raise fail(f"Enum {name} needs members with different names, not {' '.join(names) or 'none'}")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "members", names)

    @property
    def low(self) -> int:  # type: ignore[override]
        """Always 0."""
        return 0

    @property
    def high(self) -> int:  # type: ignore[override]
        """The last member's number."""
        return len(self.members) - 1

    @property
    def size(self) -> int:
        """How many members there are."""
        return len(self.members)

    def __iter__(self) -> Iterator[values.Number]:
        return self.constants()

    def __str__(self) -> str:
        return f"Enum({self.name})"

    def __getattr__(self, name: str) -> values.Number:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self.members:
            hint = meant(name, self.members) or f"; it has {', '.join(self.members)}"
            raise NoSuchAttribute(f"Enum {self.name} has no member {name!r}{hint}", place())
        return self.lift(name)

    def leaves(self, path: str) -> list[Leaf]:  # noqa: D102
        return [Leaf(path, INT, 0, self.high)]

    def key(self, i: int) -> str:
        """What an element over this enumeration is called in a path, and as a key of a plain value."""
        return self.members[i]

    def _number(self, plain: object) -> int | None:
        return self.members.index(plain) if isinstance(plain, str) and plain in self.members else None

    def decode(self, scalars: Sequence[int]) -> str:  # noqa: D102
        return self.members[scalars[0]]


@dataclass(frozen=True)
class Set(Type):
    """A set over an index, or of members of an enumeration; decoded values are lists in order."""

    index: Index | Enum

    def __post_init__(self) -> None:
        _is_index(self.index, "Set")

    def __str__(self) -> str:
        return f"Set({self.index.name})"

    def leaves(self, path: str) -> list[Leaf]:  # noqa: D102
        return [Leaf(path, BITS, 0, (1 << self.index.size) - 1)]

    def wrap(self, nodes: Sequence[Node]) -> values.SetValue:  # noqa: D102
        return values.SetValue(self, tuple(nodes))

    def lift(self, plain: object) -> values.SetValue:  # noqa: D102
        if isinstance(plain, values.SetValue):
            if plain.type != self:
                raise self._wrong(plain)
            return plain
        if isinstance(plain, (set, frozenset, list, tuple, range)):
            result = self.zero()
            for item in plain:
                result = result.with_(item)
            return result
        raise self._wrong(plain)

    def decode(self, scalars: Sequence[int]) -> list[Any]:  # noqa: D102
        return [self.index.key(i) for i in range(self.index.size) if scalars[0] >> i & 1]

    def zero(self) -> values.SetValue:  # noqa: D102
        return self.wrap([graph.const(0, BITS)])

    def all(self) -> values.SetValue:
        """The set of all indices."""
        return self.wrap([graph.const((1 << self.index.size) - 1, BITS)])

    def of(self, condition: Any) -> values.SetValue:
        """The set of those indices for which ``condition(i)`` holds."""
        return values.members(self.index, condition, self)

    def constants(self) -> Iterator[values.SetValue]:  # noqa: D102
        return (self.wrap([graph.const(v, BITS)]) for v in range(1 << self.index.size))


@dataclass(frozen=True)
class Option(Type):
    """A value or none. Over a number the code one below its interval means none; else a flag comes first."""

    content_type: Type

    def __post_init__(self) -> None:
        _is_type(self.content_type, "Option")

    def __str__(self) -> str:
        return f"Option({self.content_type})"

    @property
    def _number(self) -> _Number | None:
        return self.content_type if isinstance(self.content_type, _Number) else None

    def leaves(self, path: str) -> list[Leaf]:  # noqa: D102
        inner = self.content_type.leaves(path)
        if self._number:
            (leaf,) = inner
            return [Leaf(path, INT, leaf.low - 1, leaf.high, leaf.bound, leaf.limit)]
        return [Leaf(path + "?", BOOL, 0, 1), *inner]

    def wrap(self, nodes: Sequence[Node]) -> values.OptionValue:  # noqa: D102
        return values.OptionValue(self, tuple(nodes))

    def present(self, nodes: Sequence[Node]) -> Node:
        """Whether there is a value, as a node."""
        if self._number:
            return graph.not_(graph.eq(nodes[0], graph.const(self._number.low - 1, INT)))
        return nodes[0]

    def content(self, nodes: Sequence[Node]) -> Any:
        """The value, or its type's zero."""
        if self._number:
            zero = self._number.zero().nodes[0]
            return self._number.wrap(
                [graph.select(self.present(nodes), _at_least(nodes[0], self._number.low), zero)]
            )
        return self.content_type.wrap(nodes[1:])

    def some(self, plain: object) -> values.OptionValue:
        """A value that is there."""
        content = self.content_type.lift(plain)
        if self._number:
            node, low, high = content.nodes[0], self._number.low, self._number.high
            if node.low < low:  # would be read as none: made to leave the type instead, which a write reports
                node = graph.select(graph.le(graph.const(low, INT), node), node, graph.const(high + 1, INT))
            return self.wrap([node])
        return self.wrap([graph.TRUE, *content.nodes])

    def none(self) -> values.OptionValue:
        """No value."""
        if self._number:
            return self.wrap([graph.const(self._number.low - 1, INT)])
        return self.wrap([graph.FALSE, *self.content_type.zero().nodes])

    def lift(self, plain: object) -> values.OptionValue:  # noqa: D102
        if plain is None:
            return self.none()
        if isinstance(plain, values.OptionValue):
            if plain.type != self and not self._same_code(plain.type):
                raise self._wrong(plain)
            return self.wrap(plain.nodes)
        return self.some(plain)

    def _same_code(self, other: Option) -> bool:
        mine, theirs = self._number, other._number
        return (
            mine is not None
            and theirs is not None
            and mine.low == theirs.low
            and values._of_one_kind(mine, theirs)
        )

    def decode(self, scalars: Sequence[int]) -> Any:  # noqa: D102
        if self._number:
            return None if scalars[0] < self._number.low else self._number.decode(scalars)
        return self.content_type.decode(scalars[1:]) if scalars[0] else None

    def zero(self) -> values.OptionValue:  # noqa: D102
        return self.none()

    def constants(self) -> Iterator[values.OptionValue]:  # noqa: D102
        yield self.none()
        for value in self.content_type.constants():
            yield self.some(value)


def _at_least(node: Node, low: int) -> Node:
    return graph.max_(node, graph.const(low, INT))


@dataclass(frozen=True)
class Array(Type):
    """A total map from an index to elements; plain values are lists.

    Over an enumeration they are dicts from the members' names, and a list has an element for each member in order.
    """

    index: Index | Enum
    element: Type

    def __post_init__(self) -> None:
        _is_index(self.index, "Array")
        _is_type(self.element, "Array")

    def __str__(self) -> str:
        return f"Array({self.index.name}, {self.element})"

    def leaves(self, path: str) -> list[Leaf]:  # noqa: D102
        keys = [self.index.key(i) for i in range(self.index.size)]
        return [leaf for key in keys for leaf in self.element.leaves(f"{path}[{key}]")]

    def wrap(self, nodes: Sequence[Node]) -> values.ArrayValue:  # noqa: D102
        return values.ArrayValue(self, tuple(nodes))

    def lift(self, plain: object) -> values.ArrayValue:  # noqa: D102
        if isinstance(plain, values.ArrayValue):
            if plain.type != self:
                raise self._wrong(plain)
            return plain
        if isinstance(plain, (list, tuple, Mapping)):
            return self.wrap([node for item in self.items(plain) for node in self.element.lift(item).nodes])
        raise self._wrong(plain)

    def items(self, plain: Sequence[Any] | Mapping[Any, Any]) -> Sequence[Any]:
        """The elements of a plain value in their order; LanguageError where there are not as many as there are."""
        if isinstance(plain, Mapping):
            if not isinstance(self.index, Enum):
                raise self._wrong(plain)
            if set(plain) != set(self.index.members):
                known, given = ", ".join(self.index.members), ", ".join(map(str, plain))
                raise fail(f"{self} has the elements {known}, not {given}")
            return [plain[name] for name in self.index.members]
        if len(plain) != self.index.size:
            raise fail(f"{self} has {self.index.size} elements, not {len(plain)}")
        return plain

    def fill(self, plain: object) -> values.ArrayValue:
        """The array with the same element everywhere."""
        return self.lift([plain] * self.index.size)

    def of(self, element: Any) -> values.ArrayValue:
        """The array whose element at each index ``i`` is ``element(i)``."""
        return self.lift([element(i) for i in self.index])

    def decode(self, scalars: Sequence[int]) -> Any:  # noqa: D102
        width = self.element.leaf_count
        found = [self.element.decode(scalars[i * width : (i + 1) * width]) for i in range(self.index.size)]
        return dict(zip(self.index.members, found, strict=True)) if isinstance(self.index, Enum) else found

    def zero(self) -> values.ArrayValue:  # noqa: D102
        return self.fill(self.element.zero())


@dataclass(frozen=True)
class Only:
    """A field that a struct has only ``when`` something holds that is known while tracing: a rule, a parameter.

    Where it does not hold, the field takes no room in a state and is not shown; it reads as its type's zero, and what
    is written to it is dropped. So the functions of a protocol need not ask.
    """

    type: Type
    when: bool


class Struct(Type):
    """A record with named fields. Calling it makes a value; plain values are dicts.

    ``fields`` are those that are there, ``absent`` those that ``Only`` leaves out.
    """

    def __init__(self, type_name: str, /, **fields: Type | Only) -> None:
        self.name = type_name
        self.fields: dict[str, Type] = {}
        self.absent: dict[str, Type] = {}
        self.declared = place()
        self._starts: dict[str, int] = {}
        for name in fields:
            if name.startswith("_") or hasattr(values.StructValue, name):
                raise fail(
                    f"{type_name} cannot have a field {name!r}: every value of a Struct has an attribute of this name"
                    if not name.startswith("_")
                    else f"{type_name} cannot have a field {name!r}: names of fields begin with a letter"
                )
        start = 0
        for name, given in fields.items():
            type_ = given.type if isinstance(given, Only) else given
            if not isinstance(type_, Type):
                raise fail(f"field {name!r} of {type_name} needs a type, not {type_!r}")
            if isinstance(given, Only) and not given.when:
                self.absent[name] = type_
                continue
            self.fields[name] = type_
            self._starts[name] = start
            start += type_.leaf_count

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Value):
            raise fail(f"{self.name} is a type: it is not to be compared with a {other.describe()}")
        return self is other or (
            isinstance(other, Struct)
            and self.name == other.name
            and list(self.fields.items()) == list(other.fields.items())
        )

    def __hash__(self) -> int:
        return hash((self.name, *self.fields))

    def __str__(self) -> str:
        return self.name

    def field(self, name: str) -> tuple[int, Type]:
        """Where a field's scalars start, and its type."""
        try:
            return self._starts[name], self.fields[name]
        except KeyError:
            known = ", ".join(self.fields) or "none"
            raise fail(
                f"{self.name} has no field {name!r}; it has {known}{meant(name, self.fields)}"
            ) from None

    def leaves(self, path: str) -> list[Leaf]:  # noqa: D102
        dot = "." if path else ""
        return [leaf for name, type_ in self.fields.items() for leaf in type_.leaves(f"{path}{dot}{name}")]

    def wrap(self, nodes: Sequence[Node]) -> values.StructValue:  # noqa: D102
        return values.StructValue(self, tuple(nodes))

    def __call__(self, /, **fields: object) -> values.StructValue:
        """A value; every field is given, but for those that are absent."""
        missing = [n for n in self.fields if n not in fields]
        unknown = [n for n in fields if n not in self.fields and n not in self.absent]
        if missing or unknown:
            what = " and ".join(
                f"{verb} {', '.join(names)}"
                for verb, names in (("needs", missing), ("has no", unknown))
                if names
            )
            raise fail(f"{self.name} {what}")
        for name, type_ in self.absent.items():
            if name in fields:
                type_.lift(fields[name])
        nodes: list[Node] = []
        for name, type_ in self.fields.items():
            try:
                nodes += type_.lift(fields[name]).nodes
            except LanguageError as wrong:
                raise LanguageError(f"{self.name}.{name}: {wrong.message}", wrong.place) from None
        return self.wrap(nodes)

    def lift(self, plain: object) -> values.StructValue:  # noqa: D102
        if isinstance(plain, values.StructValue):
            if plain.type != self:
                raise self._wrong(plain)
            return plain
        if isinstance(plain, Mapping) and all(isinstance(name, str) for name in plain):
            return self(**plain)
        raise self._wrong(plain)

    def decode(self, scalars: Sequence[int]) -> dict[str, Any]:  # noqa: D102
        return {
            name: type_.decode(scalars[(start := self._starts[name]) : start + type_.leaf_count])
            for name, type_ in self.fields.items()
        }

    def zero(self) -> values.StructValue:  # noqa: D102
        return self(**{name: type_.zero() for name, type_ in self.fields.items()})


@dataclass(frozen=True)
class Seq(Type):
    """A sequence of at most ``maximum`` elements; ``bound`` names the scenario's bound that cuts there."""

    element: Type
    maximum: int
    bound: str | None = None
    limit: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        _is_type(self.element, "Seq")
        if not isinstance(self.maximum, int) or isinstance(self.maximum, bool) or self.maximum < 0:
            raise fail(f"the maximum of a Seq is a whole number, not {self.maximum!r}")
        if self.bound and _widening.get():
            object.__setattr__(self, "limit", self.maximum)
            object.__setattr__(self, "maximum", self.maximum + 1)

    def __str__(self) -> str:
        return f"Seq({self.element}, {self.maximum})"

    def leaves(self, path: str) -> list[Leaf]:  # noqa: D102
        items = [leaf for i in range(self.maximum) for leaf in self.element.leaves(f"{path}[{i}]")]
        return [Leaf(f"{path}.length", INT, 0, self.maximum, self.bound, self.limit), *items]

    def wrap(self, nodes: Sequence[Node]) -> values.SeqValue:  # noqa: D102
        return values.SeqValue(self, tuple(nodes))

    def lift(self, plain: object) -> values.SeqValue:  # noqa: D102
        if isinstance(plain, values.SeqValue):
            if plain.type != self:
                raise self._wrong(plain)
            return plain
        if not isinstance(plain, (list, tuple)):
            raise self._wrong(plain)
        if len(plain) > self.maximum:
            raise fail(f"{self} cannot hold {len(plain)} elements")
        padding = self.element.zero().nodes * (self.maximum - len(plain))
        nodes = [node for item in plain for node in self.element.lift(item).nodes]
        return self.wrap([graph.const(len(plain), INT), *nodes, *padding])

    def decode(self, scalars: Sequence[int]) -> list[Any]:  # noqa: D102
        width = self.element.leaf_count
        return [self.element.decode(scalars[1 + i * width : 1 + (i + 1) * width]) for i in range(scalars[0])]

    def zero(self) -> values.SeqValue:  # noqa: D102
        return self.lift([])


Bool = BoolType()
Int = IntType
