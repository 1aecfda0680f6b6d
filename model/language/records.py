"""Options and structs: their types, and their symbolic values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from highwater.model.language import graph, mutation
from highwater.model.language.any_size import plain_size
from highwater.model.language.errors import LanguageError, fail, meant, place
from highwater.model.language.graph import BOOL, INT, Leaf, Node
from highwater.model.language.scalar_types import NumberType
from highwater.model.language.scalars import Number, Truth, Type, Value, is_type, of_one_kind, where


class OptionValue(Value):
    """A symbolic value of type Option: a value, or none."""

    __slots__ = ()
    type: Option
    _is_option = True

    @property
    def is_some(self) -> Truth:
        """True if there is a value."""
        return Truth(None, (self.type.present(self.nodes),))

    @property
    def is_none(self) -> Truth:
        """True if there is no value."""
        return ~self.is_some

    @property
    def value(self) -> Any:
        """The value; if there is none, the zero of its type. Check ``is_some`` first."""
        return self.type.content(self.nodes)

    def is_(self, other: object) -> Truth:
        """True if there is a value and it equals ``other``."""
        return self == self.type.some(other)

    def or_(self, other: Any) -> Any:
        """The value, or ``other`` if there is none: ``s.ballot.or_(-1) < b``."""
        value = self.value
        if isinstance(value, Number) and isinstance(other, int) and not isinstance(other, bool):
            value = Number(None, value.nodes)  # ``other`` may be outside the type
        return where(self.is_some, value, other)

    def _instead(self, symbol: str, other: object) -> str:
        return ": under .is_some take its .value"


@dataclass(frozen=True)
class Option(Type):
    """The type of optional values.

    For a number type with the least value ``low``, none is coded as ``low - 1``. For other types, the first scalar is
    true if there is a value.
    """

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
            return [Leaf(path, INT, leaf.low - 1, leaf.high, leaf.bound)]
        return [Leaf(path + "?", BOOL, 0, 1), *inner]

    def wrap(self, nodes: Sequence[Node]) -> OptionValue:  # noqa: D102
        return OptionValue(self, tuple(nodes))

    def present(self, nodes: Sequence[Node]) -> Node:
        """The condition that an option with these scalars has a value."""
        if self._number:
            return graph.not_(graph.eq(nodes[0], graph.const(self._number.low - 1, INT)))
        return nodes[0]

    def content(self, nodes: Sequence[Node]) -> Any:
        """The value of an option with these scalars; if there is none, the zero of ``content_type``."""
        if self._number:
            zero = self._number.zero().nodes[0]
            return self._number.wrap(
                [graph.select(self.present(nodes), _at_least(nodes[0], self._number.low), zero)]
            )
        return self.content_type.wrap(nodes[1:])

    def some(self, plain: object) -> OptionValue:
        """The option that has this value."""
        content = self.content_type.lift(plain)
        if self._number:
            node, low, high = content.nodes[0], self._number.low, plain_size(self._number.high)
            if (
                node.low < low
            ):  # the number would be read as none; a number above ``high`` makes a write report it
                node = graph.select(graph.le(graph.const(low, INT), node), node, graph.const(high + 1, INT))
            return self.wrap([node])
        return self.wrap([graph.TRUE, *content.nodes])

    def none(self) -> OptionValue:
        """The option without a value."""
        if self._number:
            return self.wrap([graph.const(self._number.low - 1, INT)])
        return self.wrap([graph.FALSE, *self.content_type.zero().nodes])

    def scalars(self, plain: object) -> Sequence[int | Node]:  # noqa: D102
        if plain is None:
            return self.none().nodes
        if isinstance(plain, OptionValue):
            if plain.type != self and not self._same_code(plain.type):
                raise self._wrong(plain)
            return plain.nodes
        content = self.content_type.scalars(plain)
        if self._number:
            return self.some(plain).nodes if isinstance(content[0], Node) else content
        return (1, *content)

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


class StructValue(Value):
    """A symbolic value of type Struct, with its fields as attributes.

    A field cannot have the name of an attribute of this class: ``Struct`` refuses it.
    """

    __slots__ = ()
    type: Struct

    def __getattr__(self, name: str) -> Any:
        """The value of the field of this name."""
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self.type.absent:
            return self.type.absent[name].zero()
        place, field = self.type.field(name)
        return field.wrap(self.nodes[place])

    def replace(self, /, **fields: object) -> StructValue:
        """A copy in which the given fields have new values."""
        nodes = list(self.nodes)
        for name, value in fields.items():
            if name in self.type.absent:
                self.type.absent[name].lift(value)
                continue
            place, field = self.type.field(name)
            nodes[place] = field.lift(value).nodes
        after = tuple(nodes)
        if mutation.active is not None:
            after = mutation.replaced(after, self.nodes, self._places(fields))
        return StructValue(self.type, after)

    def _places(self, fields: Iterable[str]) -> dict[str, slice]:
        return {name: self.type.field(name)[0] for name in fields if name not in self.type.absent}


@dataclass(frozen=True)
class Only:
    """A field that a struct has only if ``when`` is true. ``when`` depends on rules or parameters.

    An absent field takes no room in a state and is not shown. A read returns the zero of its type, and a write has no
    effect. A protocol's functions therefore need no special case.
    """

    type: Type
    when: bool


class Struct(Type):
    """The type of structs with named fields. A call makes a symbolic value; plain values are dicts.

    A field is declared by its type, or by its type and its meaning, which ``highwater show PROTOCOL`` lists. ``fields``
    has the types of the present fields, ``absent`` the types of the fields that ``Only`` leaves out.
    """

    _written = ": write dict(field=value, …)"

    def __init__(self, type_name: str, /, **fields: Type | Only | tuple[Type | Only, str]) -> None:
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
        for name, declared in fields.items():
            given, self.meanings[name] = declared if isinstance(declared, tuple) else (declared, "")
            type_ = given.type if isinstance(given, Only) else given
            is_type(type_, f"field {name!r} of {type_name}")
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

    @property
    def declared_fields(self) -> dict[str, tuple[Only, str]]:
        """The fields as another struct can declare them, absent ones last."""
        every = {**self.fields, **self.absent}
        return {name: (Only(every[name], name in self.fields), self.meanings[name]) for name in every}

    def field(self, name: str) -> tuple[slice, Type]:
        """The positions of a field's scalars in a value, and the field's type.

        Raises LanguageError for an unknown field.
        """
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
        """Make a symbolic value with these field values. Only absent fields can be omitted."""
        made: StructValue = self.lift(fields)
        return made

    def _scalars(self, fields: Any) -> Sequence[int | Node]:
        if not isinstance(fields, Mapping) or not all(isinstance(name, str) for name in fields):
            raise self._wrong(fields)
        missing = [n for n in self.fields if n not in fields]
        unknown = [n for n in fields if n not in self.fields and n not in self.absent]
        if missing or unknown:
            what = " and ".join(
                f"{verb} {', '.join(names)}"
                for verb, names in (("needs", missing), ("has no", unknown))
                if names
            )
            raise fail(f"{self.name} {what}{self._written}")
        for name, type_ in self.absent.items():
            if name in fields:
                type_.scalars(fields[name])
        found: list[int | Node] = []
        for name, type_ in self.fields.items():
            try:
                found += type_.scalars(fields[name])
            except LanguageError as wrong:
                raise LanguageError(f"{self.name}.{name}: {wrong.message}", wrong.place) from None
        return found

    def decode(self, scalars: Sequence[int]) -> dict[str, Any]:  # noqa: D102
        return {name: type_.decode(scalars[self._places[name]]) for name, type_ in self.fields.items()}

    def zero(self) -> StructValue:  # noqa: D102
        return self(**{name: type_.zero() for name, type_ in self.fields.items()})
