"""Types made of others: sets, options, arrays, structs, sequences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from highwater.model.language import graph
from highwater.model.language.composites import (
    ArrayValue,
    OptionValue,
    SeqValue,
    SetValue,
    StructValue,
    members,
)
from highwater.model.language.errors import LanguageError, fail, meant, place
from highwater.model.language.graph import BITS, BOOL, INT, Node
from highwater.model.language.scalar_types import (
    Enum,
    Index,
    Leaf,
    NumberType,
    Type,
    is_index,
    is_type,
    is_widened,
)
from highwater.model.language.scalars import Value, of_one_kind


@dataclass(frozen=True)
class Set(Type):
    """A set over an index, or of members of an enumeration; decoded values are lists in order."""

    index: Index | Enum

    def __post_init__(self) -> None:
        is_index(self.index, "Set")

    def __str__(self) -> str:
        return f"Set({self.index.name})"

    def leaves(self, path: str) -> list[Leaf]:  # noqa: D102
        return [Leaf(path, BITS, 0, (1 << self.index.size) - 1)]

    def wrap(self, nodes: Sequence[Node]) -> SetValue:  # noqa: D102
        return SetValue(self, tuple(nodes))

    def lift(self, plain: object) -> SetValue:  # noqa: D102
        if isinstance(plain, SetValue):
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

    def zero(self) -> SetValue:  # noqa: D102
        return self.wrap([graph.const(0, BITS)])

    def all(self) -> SetValue:
        """The set of all indices."""
        return self.wrap([graph.const((1 << self.index.size) - 1, BITS)])

    def of(self, condition: Any) -> SetValue:
        """The set of those indices for which ``condition(i)`` holds."""
        return members(self.index, condition, self)

    def constants(self) -> Iterator[SetValue]:  # noqa: D102
        return (self.wrap([graph.const(v, BITS)]) for v in range(1 << self.index.size))


@dataclass(frozen=True)
class Option(Type):
    """A value or none. Over a number the code one below its interval means none; else a flag comes first."""

    content_type: Type

    def __post_init__(self) -> None:
        is_type(self.content_type, "Option")

    def __str__(self) -> str:
        return f"Option({self.content_type})"

    @property
    def _number(self) -> NumberType | None:
        return self.content_type if isinstance(self.content_type, NumberType) else None

    def leaves(self, path: str) -> list[Leaf]:  # noqa: D102
        inner = self.content_type.leaves(path)
        if self._number:
            (leaf,) = inner
            return [Leaf(path, INT, leaf.low - 1, leaf.high, leaf.bound, leaf.limit)]
        return [Leaf(path + "?", BOOL, 0, 1), *inner]

    def wrap(self, nodes: Sequence[Node]) -> OptionValue:  # noqa: D102
        return OptionValue(self, tuple(nodes))

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

    def some(self, plain: object) -> OptionValue:
        """A value that is there."""
        content = self.content_type.lift(plain)
        if self._number:
            node, low, high = content.nodes[0], self._number.low, self._number.high
            if node.low < low:  # would be read as none: made to leave the type instead, which a write reports
                node = graph.select(graph.le(graph.const(low, INT), node), node, graph.const(high + 1, INT))
            return self.wrap([node])
        return self.wrap([graph.TRUE, *content.nodes])

    def none(self) -> OptionValue:
        """No value."""
        if self._number:
            return self.wrap([graph.const(self._number.low - 1, INT)])
        return self.wrap([graph.FALSE, *self.content_type.zero().nodes])

    def lift(self, plain: object) -> OptionValue:  # noqa: D102
        if plain is None:
            return self.none()
        if isinstance(plain, OptionValue):
            if plain.type != self and not self._same_code(plain.type):
                raise self._wrong(plain)
            return self.wrap(plain.nodes)
        return self.some(plain)

    def _same_code(self, other: Option) -> bool:
        mine, theirs = self._number, other._number
        return (
            mine is not None and theirs is not None and mine.low == theirs.low and of_one_kind(mine, theirs)
        )

    def decode(self, scalars: Sequence[int]) -> Any:  # noqa: D102
        if self._number:
            return None if scalars[0] < self._number.low else self._number.decode(scalars)
        return self.content_type.decode(scalars[1:]) if scalars[0] else None

    def zero(self) -> OptionValue:  # noqa: D102
        return self.none()

    def constants(self) -> Iterator[OptionValue]:  # noqa: D102
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
        is_index(self.index, "Array")
        is_type(self.element, "Array")

    def __str__(self) -> str:
        return f"Array({self.index.name}, {self.element})"

    def leaves(self, path: str) -> list[Leaf]:  # noqa: D102
        keys = [self.index.key(i) for i in range(self.index.size)]
        return [leaf for key in keys for leaf in self.element.leaves(f"{path}[{key}]")]

    def wrap(self, nodes: Sequence[Node]) -> ArrayValue:  # noqa: D102
        return ArrayValue(self, tuple(nodes))

    def lift(self, plain: object) -> ArrayValue:  # noqa: D102
        if isinstance(plain, ArrayValue):
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

    def fill(self, plain: object) -> ArrayValue:
        """The array with the same element everywhere."""
        return self.lift([plain] * self.index.size)

    def of(self, element: Any) -> ArrayValue:
        """The array whose element at each index ``i`` is ``element(i)``."""
        return self.lift([element(i) for i in self.index])

    def decode(self, scalars: Sequence[int]) -> Any:  # noqa: D102
        width = self.element.leaf_count
        found = [self.element.decode(scalars[i * width : (i + 1) * width]) for i in range(self.index.size)]
        return dict(zip(self.index.members, found, strict=True)) if isinstance(self.index, Enum) else found

    def zero(self) -> ArrayValue:  # noqa: D102
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
        self.meanings: dict[str, str] = {}
        self._places: dict[str, slice] = {}
        for name in fields:
            if name.startswith("_") or hasattr(StructValue, name):
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
            self._places[name] = slice(start, start := start + type_.leaf_count)

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

    def about(self, /, **meanings: str) -> Struct:
        """The same struct, with what fields mean and in which unit: ``highwater show PROTOCOL`` lists it."""
        for name in meanings:
            if name not in self.fields and name not in self.absent:
                self.field(name)
        self.meanings = meanings
        return self

    def field(self, name: str) -> tuple[slice, Type]:
        """Which scalars of a value are a field's, and its type."""
        try:
            return self._places[name], self.fields[name]
        except KeyError:
            known = ", ".join(self.fields) or "none"
            raise fail(
                f"{self.name} has no field {name!r}; it has {known}{meant(name, self.fields)}"
            ) from None

    def leaves(self, path: str) -> list[Leaf]:  # noqa: D102
        dot = "." if path else ""
        return [leaf for name, type_ in self.fields.items() for leaf in type_.leaves(f"{path}{dot}{name}")]

    def wrap(self, nodes: Sequence[Node]) -> StructValue:  # noqa: D102
        return StructValue(self, tuple(nodes))

    def __call__(self, /, **fields: object) -> StructValue:
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

    def lift(self, plain: object) -> StructValue:  # noqa: D102
        if isinstance(plain, StructValue):
            if plain.type != self:
                raise self._wrong(plain)
            return plain
        if isinstance(plain, Mapping) and all(isinstance(name, str) for name in plain):
            return self(**plain)
        raise self._wrong(plain)

    def decode(self, scalars: Sequence[int]) -> dict[str, Any]:  # noqa: D102
        return {name: type_.decode(scalars[self._places[name]]) for name, type_ in self.fields.items()}

    def zero(self) -> StructValue:  # noqa: D102
        return self(**{name: type_.zero() for name, type_ in self.fields.items()})


@dataclass(frozen=True)
class Seq(Type):
    """A sequence of at most ``maximum`` elements; ``bound`` names the scenario's bound that cuts there.

    One that ``ascends`` has values of an index in ascending order, each once: it stands for a set, and does so when
    they are renamed.
    """

    element: Type
    maximum: int
    bound: str | None = None
    ascends: bool = field(default=False, compare=False)
    limit: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        is_type(self.element, "Seq")
        if not isinstance(self.maximum, int) or isinstance(self.maximum, bool) or self.maximum < 0:
            raise fail(f"the maximum of a Seq is a whole number, not {self.maximum!r}")
        if self.bound and is_widened():
            object.__setattr__(self, "limit", self.maximum)
            object.__setattr__(self, "maximum", self.maximum + 1)

    def __str__(self) -> str:
        return f"Seq({self.element}, {self.maximum})"

    def leaves(self, path: str) -> list[Leaf]:  # noqa: D102
        items = [leaf for i in range(self.maximum) for leaf in self.element.leaves(f"{path}[{i}]")]
        return [Leaf(f"{path}.length", INT, 0, self.maximum, self.bound, self.limit), *items]

    def wrap(self, nodes: Sequence[Node]) -> SeqValue:  # noqa: D102
        return SeqValue(self, tuple(nodes))

    def lift(self, plain: object) -> SeqValue:  # noqa: D102
        if isinstance(plain, SeqValue):
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

    def zero(self) -> SeqValue:  # noqa: D102
        return self.lift([])
