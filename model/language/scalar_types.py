"""Types of one scalar: truth values, whole numbers, indices, members of an enumeration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from highwater.model.language import any_size, graph
from highwater.model.language.any_size import AnySize, plain_size
from highwater.model.language.errors import NoSuchAttribute, fail, meant, place
from highwater.model.language.graph import BOOL, INT, Leaf, Node
from highwater.model.language.scalars import (
    Number,
    Truth,
    Type,
    as_bool,
    of_one_kind,
)


@dataclass(frozen=True)
class BoolType(Type):
    """The type of truth values."""

    def __str__(self) -> str:
        return "Bool"

    def leaves(self, path: str) -> list[Leaf]:  # noqa: D102
        return [Leaf(path, BOOL, 0, 1)]

    def wrap(self, nodes: Sequence[Node]) -> Truth:  # noqa: D102
        return Truth(self, tuple(nodes))

    def scalars(self, plain: object) -> Sequence[Node]:  # noqa: D102
        return as_bool(plain).nodes

    def decode(self, scalars: Sequence[int]) -> bool:  # noqa: D102
        return bool(scalars[0])

    def zero(self) -> Truth:  # noqa: D102
        return self.wrap([graph.FALSE])

    def __call__(self) -> NoReturn:
        """Raises LanguageError: ``Bool`` is a type already."""
        raise fail("Bool is a type already: write it without ()")

    def constants(self) -> Iterator[Truth]:  # noqa: D102
        return (self.wrap([v]) for v in (graph.FALSE, graph.TRUE))


class NumberType(Type):
    """The base of types with one int scalar, from ``low`` to ``high`` inclusive."""

    low: int
    high: int
    is_counted = True

    def goes_with(self, other: Type | None) -> bool:  # noqa: D102
        return not isinstance(other, Enum)

    def wrap(self, nodes: Sequence[Node]) -> Number:  # noqa: D102
        return Number(self, tuple(nodes))

    def zero(self) -> Number:  # noqa: D102
        return self.wrap([graph.const(min(max(0, self.low), plain_size(self.high)), INT)])

    def constants(self) -> Iterator[Number]:  # noqa: D102
        return (self.wrap([graph.const(v, INT)]) for v in range(self.low, self.high + 1))

    def scalars(self, plain: object) -> Sequence[int | Node]:  # noqa: D102
        if isinstance(plain, Number):
            if not of_one_kind(self, plain.type):
                raise self._wrong(plain)
            return plain.nodes
        number = self._number(plain)
        if number is None:
            raise self._wrong(plain)
        if not self.low <= number <= plain_size(self.high):
            raise fail(f"{plain!r} is not a value of {self}")
        return (number,)

    def encode(self, plain: object) -> tuple[int, ...]:  # noqa: D102
        if (
            type(plain) is int and self.is_counted and self.low <= plain <= plain_size(self.high)
        ):  # often in replay
            return (plain,)
        return super().encode(plain)

    def _number(self, plain: object) -> int | None:
        return plain if isinstance(plain, int) and not isinstance(plain, bool) else None

    def decode(self, scalars: Sequence[int]) -> Any:  # noqa: D102
        return scalars[0]


@dataclass(frozen=True)
class IntType(NumberType):
    """The type of whole numbers from ``low`` to ``high`` inclusive.

    A step that writes another number is pruned at the scenario's bound ``bound``; if ``bound`` is None, the step is an
    error. If ``names`` is an index, a number from 0 on stands for a value of this index, and a negative number for
    none. Symmetry reduction then renames the numbers with the index values.
    """

    low: int
    high: int
    bound: str | None = None
    names: Index | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.high, AnySize):
            return
        for number in (self.low, self.high):
            if not isinstance(number, int) or isinstance(number, bool):
                raise fail(f"the limits of an Int are whole numbers, not {number!r}")
        if self.low > self.high:
            raise fail(f"{self} has no value")

    def __str__(self) -> str:
        return f"Int({self.low}..{'any' if isinstance(self.high, AnySize) else self.high})"

    def leaves(self, path: str) -> list[Leaf]:  # noqa: D102
        return [Leaf(path, INT, self.low, plain_size(self.high), self.bound)]


@dataclass(frozen=True)
class Index(NumberType):
    """A finite set of similar things (brokers, partitions), numbered ``0 .. size-1``.

    Iteration gives the index values as constants. ``name`` is the word for one thing, such as "broker".
    """

    name: str
    size: int
    _written = ": for the number of another index's value write x + 0"

    def __post_init__(self) -> None:
        if self.is_any_size:
            return
        if not isinstance(self.name, str) or not isinstance(self.size, int) or isinstance(self.size, bool):
            raise fail(
                f'an Index has a name and a size: write Index("broker", 3), not {self.name!r}, {self.size!r}'
            )
        if self.size < 1:
            raise fail(f"Index {self.name!r} needs at least one value")

    @property
    def low(self) -> int:  # type: ignore[override]
        """The least value, which is always 0."""
        return 0

    @property
    def is_any_size(self) -> bool:
        """True if the size is not known (``any_size``)."""
        return isinstance(self.size, AnySize)

    @property
    def high(self) -> int:  # type: ignore[override]
        """The greatest value of the index; an ``AnySize`` if the size is not known."""
        return self.size - 1

    def goes_with(self, other: Type | None) -> bool:
        """True if ``other`` is an index with the same name, or neither an index nor an enumeration."""
        return not isinstance(other, (Enum, Index)) or self.name == other.name

    def __str__(self) -> str:
        return f"Index({self.name}, {'any' if self.is_any_size else self.size})"

    def __iter__(self) -> Iterator[Number]:
        return self.constants()

    def variable(self) -> Number:
        """A new variable of a quantifier, for an index of any size."""
        return self.wrap([any_size.variable(plain_size(self.high))])

    def constants(self) -> Iterator[Number]:
        """All values as constants; one variable if the size is not known."""
        if self.is_any_size:
            yield self.variable()
        else:
            yield from super().constants()

    def key(self, i: int) -> int:
        """The index value ``i`` as it appears in paths and plain values: the number itself."""
        return i

    def leaves(self, path: str) -> list[Leaf]:  # noqa: D102
        return [Leaf(path, INT, 0, plain_size(self.high))]


@dataclass(frozen=True)
class Enum(NumberType):
    """An enumeration; its members are attributes (``Error.NONE``) and plain values are the members' names.

    With a number instead of members, the names are numbered: ``Enum("p", 3)`` has p1, p2 and p3. Iteration gives the
    members as constants. An enumeration can be the index of an Array or a Set.
    """

    name: str
    members: tuple[str, ...]
    is_counted = False

    def goes_with(self, other: Type | None) -> bool:
        """True only if ``other`` is the same enumeration."""
        return self == other

    def __init__(self, name: str, members: Sequence[str] | str | int) -> None:
        if not isinstance(name, str) or isinstance(members, (bool, float)):
            raise fail(
                f'an Enum has a name and members: write Enum("Error", "NONE FENCED"), not {name!r}, {members!r}'
            )
        if isinstance(members, int):
            members = [f"{name}{i}" for i in range(1, members + 1)]
        names = tuple(members.split()) if isinstance(members, str) else tuple(members)
        taken = {*dir(Enum), *Enum.__dataclass_fields__}
        for member in names:
            if not isinstance(member, str):
                raise fail(f"the members of Enum {name} are names, not {member!r}")
            if "," in member:
                raise fail(
                    f"{member!r} is no name for a member of Enum {name}: separate names by blanks only"
                )
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
        """The least value, which is always 0."""
        return 0

    @property
    def high(self) -> int:  # type: ignore[override]
        """The number of the last member."""
        return len(self.members) - 1

    @property
    def _written(self) -> str:  # type: ignore[override]
        """How to write a member, or convert another value to one."""
        members = " or ".join(map(repr, self.members[:3]))
        return f": write a member such as {members}, or cases((condition, member), …, otherwise=member)"

    @property
    def size(self) -> int:
        """The number of members."""
        return len(self.members)

    def __iter__(self) -> Iterator[Number]:
        return self.constants()

    def __str__(self) -> str:
        return f"Enum({self.name})"

    def __getattr__(self, name: str) -> Number:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self.members:
            hint = meant(name, self.members) or f"; it has {', '.join(self.members)}"
            raise NoSuchAttribute(f"Enum {self.name} has no member {name!r}{hint}", place())
        return self.wrap([graph.const(self.members.index(name), INT)])

    def leaves(self, path: str) -> list[Leaf]:  # noqa: D102
        return [Leaf(path, INT, 0, self.high)]

    def key(self, i: int) -> str:
        """The member with number ``i`` as it appears in paths and plain values: its name."""
        return self.members[i]

    def _number(self, plain: object) -> int | None:
        return self.members.index(plain) if isinstance(plain, str) and plain in self.members else None

    def decode(self, scalars: Sequence[int]) -> str:  # noqa: D102
        return self.members[scalars[0]]


def is_index(given: object, what: str) -> None:
    """Raises LanguageError if ``given`` is no Index or Enum; ``what`` names the enclosing type in the message."""
    if not isinstance(given, (Index, Enum)):
        shown = given if isinstance(given, Type) else repr(given)
        raise fail(
            f'{what} needs an Index or an Enum, not {shown}: write Index("name", 3), or Messages for structs'
        )


Bool = BoolType()


Int = IntType
