"""What all types have: a layout of scalars (leaves), and a way from plain values to scalars and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from highwater.model.language import graph
from highwater.model.language.errors import fail
from highwater.model.language.graph import INT, Node
from highwater.model.language.scalars import Value

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


def is_widened() -> bool:
    """Whether types that declare a bound have room beyond it now."""
    return _widening.get()


class Type:
    """Base of all types."""

    is_counted = False
    """Whether its plain values are whole numbers, to be added and compared with others."""

    next_class: ClassVar[type[Any] | None] = None
    """What stands for such a value in the state after a step, where that is more than ``state.Next``."""

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


def is_type(given: object, what: str) -> None:
    """LanguageError where this is no type; ``what`` needs one."""
    if not isinstance(given, Type):
        raise fail(f"{what} needs a type, not {given!r}")
