"""Messages in flight as part of the state: each possible message has a number, and a bit or a count in the state."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, cast

from highwater.model.language import graph, mutation
from highwater.model.language.errors import fail, meant, place
from highwater.model.language.graph import BOOL, INT, Node
from highwater.model.language.state import READ, Next
from highwater.model.language.tracing import Check, current, require
from highwater.model.language.types import (
    Array,
    Index,
    IntType,
    Leaf,
    Number,
    Set,
    Struct,
    StructValue,
    Truth,
    Type,
    Value,
    all_of,
    any_of,
    total,
)


def count_of(type: Type) -> int:
    """The number of combinations of scalars of a type. If it has options or sequences, not all are values."""
    return prod(leaf.high - leaf.low + 1 for leaf in type.layout)


def number_of(type: Type, nodes: Sequence[Node]) -> Node:
    """The number of the combination of these scalars, from 0 to ``count_of(type) - 1``, as a node.

    The scalars must be inside the type.
    """
    result = graph.ZERO
    for leaf, node in zip(type.layout, nodes, strict=True):
        digit = graph.sub(node, graph.const(leaf.low, INT)) if leaf.sort == INT else _as_int(leaf, node)
        result = graph.add(graph.mul(result, graph.const(leaf.high - leaf.low + 1, INT)), digit)
    return result


def _as_int(leaf: Leaf, node: Node) -> Node:
    """A bool or the bits of a set as an int."""
    bits = (
        [node] if leaf.sort == BOOL else [graph.member(graph.const(i, INT), node) for i in range(leaf.bits)]
    )
    return _sum(graph.select(bit, graph.const(1 << i, INT), graph.ZERO) for i, bit in enumerate(bits))


def _sum(nodes: Iterable[Node]) -> Node:
    return functools.reduce(graph.add, nodes, graph.ZERO)


def scalars_at(type: Type, number: int) -> list[int]:
    """The combination of scalars that has this number (the inverse of ``number_of``)."""
    found: list[int] = []
    for leaf in reversed(type.layout):
        number, digit = divmod(number, leaf.high - leaf.low + 1)
        found.append(leaf.low + digit)
    return found[::-1]


def value_at(type: Type, number: int) -> Any:
    """The symbolic constant of this type that has this number."""
    found = zip(scalars_at(type, number), type.layout, strict=True)
    return type.wrap([graph.const(scalar, leaf.sort) for scalar, leaf in found])


# Messages in flight: a set of structs of several kinds, as a part of the state.
#
# The state has a bit for each possible message, or with ``duplicates`` a number of copies. So no message is
# overwritten, the width of a state is known, and equal sets are equal states. Messages have no order.

MOST = 1 << 14
"""The maximum number of possible messages of a kind."""

_WORD = 62


@dataclass(frozen=True)
class MessageKind(Array):
    """The type of the messages of one kind in flight: a bit for each possible message, packed in words.

    With ``copies``, it is instead an array with the number of copies of each possible message.
    """

    message: Struct
    copies: bool

    def __str__(self) -> str:
        return f"messages of kind {self.message.name}"

    @property
    def count(self) -> int:
        """The number of combinations of the scalars of a message."""
        return count_of(self.message)

    @cached_property
    def possible(self) -> list[int]:
        """The numbers of the messages: of the combinations of scalars that are values."""
        every = ((number, tuple(scalars_at(self.message, number))) for number in range(self.count))
        return [number for number, found in every if self.message.encode(self.message.decode(found)) == found]

    @property
    def width(self) -> int:
        """The number of possible messages in one element of the array: the bits of a word; 1 with ``copies``."""
        return 1 if self.copies else cast(Set, self.element).index.size

    def there(self, nodes: Sequence[Node], number: int) -> Number:
        """The number of copies in flight of the message with this number."""
        if self.copies:
            return Number(None, (nodes[number],))
        bit = graph.member(graph.const(number % self.width, INT), nodes[number // self.width])
        return total([Truth(None, (bit,))])

    def decode(self, scalars: Sequence[int]) -> tuple[dict[str, Any], ...]:
        """The messages in flight as dicts of their fields; a message with several copies is repeated."""
        found: list[dict[str, Any]] = []
        for word, value in enumerate(scalars):
            times = [value] if self.copies else [value >> bit & 1 for bit in range(self.width)]
            for bit, often in enumerate(times):
                if often:
                    found += [value_at(self.message, word * self.width + bit)._plain()] * often
        return tuple(found)

    def _scalars(self, plain: Any) -> Sequence[int | Node]:
        if not isinstance(plain, (list, tuple)):
            return super()._scalars(plain)
        words = [0] * self.index.size
        for item in plain:
            number = number_of(self.message, self.message.lift(item).nodes)
            if not number.is_const:
                raise fail("a set of messages is given by plain ones; others are sent, s.next.….send(…)")
            word, bit = divmod(number.value, self.width)
            if words[word] >> bit & 1 and not self.copies:
                raise fail(f"{item!r} stands twice in a set of messages")
            words[word] += 1 << bit
        return words

    def constants(self) -> Iterator[StructValue]:
        """All possible messages of this kind."""
        return (value_at(self.message, number) for number in self.possible)


class Messages(Struct):
    """The type of a set of messages in flight; each kind of message has named fields.

    If ``duplicates`` is not 0, a message can have up to this many copies. A step that adds a further copy is pruned at
    the scenario's bound ``bound``; without a bound, the step is an error. Raises LanguageError if a kind has too many
    possible messages.
    """

    def __init__(self, /, duplicates: int = 0, bound: str | None = None, **kinds: Mapping[str, Type]) -> None:
        self.kinds: dict[str, Struct] = {}
        fields: dict[str, Type] = {}
        for name, parts in kinds.items():
            if not isinstance(parts, Mapping):
                raise fail(
                    f"the kind {name!r} of Messages is a dict of its fields' names and types, not {parts!r}"
                )
            if hasattr(SentMessages, name) or hasattr(NextMessages, name):
                raise fail(f"Messages cannot have a kind {name!r}: they have an attribute of this name")
            self.kinds[name] = message = Struct(name, **parts)
            fields[name] = _kind(message, duplicates, bound)
        super().__init__("Messages", **fields)

    def constants(self) -> Iterator[StructValue]:
        """All possible messages, kind by kind, for use as the domain of an action's parameter."""
        return (message for name in self.kinds for message in self.of(name).constants())

    def of(self, kind: str) -> MessageKind:
        """The type of the messages of one kind, for use as the domain of an action's parameter.

        Raises LanguageError if the kind is unknown.
        """
        if kind not in self.kinds:
            raise fail(
                f"there are no messages {kind!r}; there are {', '.join(self.kinds)}{meant(kind, self.kinds)}"
            )
        return cast(MessageKind, self.fields[kind])

    @property
    def bits(self) -> int:
        """The number of bits that the messages take in a packed state."""
        return sum(leaf.bits for leaf in self.leaves(""))

    def wrap(self, nodes: Sequence[Node]) -> SentMessages:  # noqa: D102
        return SentMessages(self, tuple(nodes))

    def zero(self) -> SentMessages:
        """The set without any message in flight."""
        none: SentMessages = self.lift({})
        return none

    def _scalars(self, fields: Any) -> Sequence[int | Node]:
        """The scalars of a dict from kinds to messages. A missing kind has no messages."""
        return super()._scalars(
            {**dict.fromkeys(self.kinds, ()), **fields} if isinstance(fields, Mapping) else fields
        )

    def read(self, message: object, fields: Mapping[str, object]) -> tuple[MessageKind, dict[str, Value]]:
        """The message kind and the field values in the arguments of a call such as ``has(message, **fields)``.

        ``message`` is the name of a kind, or a symbolic message without ``fields``. Raises LanguageError if the kind or
        a field is unknown.
        """
        if isinstance(message, StructValue):
            kind = self.of(message.type.name)
            if message.type != kind.message or fields:
                raise fail(f"a {message.describe()} is none of these messages, or has fields beside it")
            return kind, {name: getattr(message, name) for name in kind.message.fields}
        if not isinstance(message, str):
            raise fail(
                f'a message is named by its kind first: write ("{next(iter(self.kinds))}", …), not {message!r}'
            )
        kind = self.of(message)
        return kind, {name: kind.message.field(name)[1].lift(value) for name, value in fields.items()}


def _kind(message: Struct, duplicates: int, bound: str | None) -> MessageKind:
    count = count_of(message)
    if count > MOST:
        sizes = " × ".join(f"{name} {count_of(type_):,}" for name, type_ in message.fields.items())
        raise fail(
            f"there are {count:,} different messages {message.name!r}, and {MOST:,} are the most ({sizes}): make a "
            "type smaller, leave out a field that the receiver can read elsewhere, or keep one message per pair: "
            "Array(node, Array(node, Option(Struct(…))))"
        )
    if duplicates:
        return MessageKind(Index(message.name, count), IntType(0, duplicates, bound), message, True)
    words = -(-count // _WORD)
    return MessageKind(Index("word", words), Set(Index(message.name, -(-count // words))), message, False)


class SentMessages(StructValue):
    """The messages in flight in a state, with the reading methods ``has``, ``count`` and ``all``.

    ``Messages.read`` explains their arguments. An omitted field can have any value.
    """

    __slots__ = ()
    type: Messages

    def __getattr__(self, name: str) -> Any:
        """The messages of one kind. Raises LanguageError for a writing method, such as ``send``."""
        if name in ("send", "receive", "discard"):
            raise fail(f"the state before a step never changes: write s.next.….{name}(…)")
        return super().__getattr__(name)

    def has(self, message: object, /, **fields: object) -> Truth:
        """True if a message of this kind with these field values is in flight."""
        kind, wanted = self.type.read(message, fields)
        if len(wanted) < len(kind.message.fields):
            return any_of(often > 0 for _, often in self._fitting(message, fields))
        return self._has(kind, kind.message(**wanted))

    def _has(self, kind: MessageKind, message: StructValue) -> Truth:
        place, _ = self.type.field(kind.message.name)
        number = number_of(kind.message, message.nodes)
        found = graph.FALSE
        for i, word in enumerate(self.nodes[place]):
            at = graph.sub(number, graph.const(i * kind.width, INT))
            if kind.copies:
                here = graph.and_(graph.eq(at, graph.const(0, INT)), graph.lt(graph.const(0, INT), word))
            else:
                here = graph.member(at, word)
            found = graph.or_(found, here)
        scalars = zip(kind.message.layout, message.nodes, strict=True)
        outside = graph.any_(leaf.left_by(node) for leaf, node in scalars)
        return Truth(None, (graph.and_(found, graph.not_(outside)),))

    def count(self, message: object, /, **fields: object) -> Number:
        """The number of messages in flight of this kind with these field values, including copies."""
        return Number(None, (_sum(often.node for _, often in self._fitting(message, fields)),))

    def all(self, kind: str, /, **fields: object) -> list[tuple[StructValue, Truth]]:
        """Each possible message of this kind, with the condition that it has these field values and is in flight."""
        return [(message, often > 0) for message, often in self._fitting(kind, fields)]

    def _fitting(self, message: object, fields: Mapping[str, object]) -> Iterator[tuple[StructValue, Number]]:
        """Each possible message of this kind, with the number of its copies in flight.

        The number is 0 in states in which the message does not have these field values.
        """
        kind, wanted = self.type.read(message, fields)
        place, _ = self.type.field(kind.message.name)
        nodes = self.nodes[place]
        for number in kind.possible:
            found = value_at(kind.message, number)
            same = all_of(getattr(found, name) == value for name, value in wanted.items())
            if same.node is not graph.FALSE:
                often = kind.there(nodes, number).node
                yield found, Number(None, (graph.select(same.node, often, graph.const(0, INT)),))


class NextMessages(Next):
    """The messages in flight after a step; ``send``, ``receive`` and ``discard`` are applied in order."""

    _type: Messages

    def __getattr__(self, name: str) -> Any:
        """The messages of one kind, for a write. Raises LanguageError for a reading method, such as ``has``."""
        if name in SentMessages.__dict__ and not name.startswith("_"):
            raise fail(READ)
        return super().__getattr__(name)

    def send(self, message: object, /, **fields: object) -> None:
        """Add a message. Without ``duplicates``, a second copy of a message in flight changes nothing."""
        self._change(message, fields, lambda word, bit: graph.union(word, bit), 1)

    def receive(self, message: object, /, **fields: object) -> None:
        """Remove a message, and add the guard that the message is in flight."""
        kind, wanted = self._type.read(message, fields)
        name = f"a message {kind.message.name} is there"
        require(name, cast(SentMessages, self._now()).has(kind.message.name, **wanted))
        self.discard(message, **fields)

    def discard(self, message: object, /, **fields: object) -> None:
        """Remove a message if it is in flight. With ``duplicates``, remove one copy."""
        self._change(message, fields, lambda word, bit: graph.difference(word, bit), -1)

    def _now(self) -> Value:
        result = None
        for offset, condition in self._hits or ((0, graph.TRUE),):
            start = self._start + offset
            nodes = self._old.nodes[start : start + self._type.leaf_count]
            if result is not None:
                nodes = tuple(graph.select(condition, a, b) for a, b in zip(nodes, result.nodes, strict=True))
            result = self._type.wrap(nodes)
        assert result is not None
        return result

    def _change(
        self, message: object, fields: Mapping[str, object], bits: Callable[[Node, Node], Node], step: int
    ) -> None:
        kind, given = self._type.read(message, fields)
        if missing := [name for name in kind.message.fields if name not in given]:
            raise fail(f"a message {kind.message.name} has the fields {', '.join(missing)}, too")
        value = kind.message(**given)
        trace = current("s.next")
        for leaf, node in zip(kind.message.leaves(kind.message.name), value.nodes, strict=True):
            if (outside := leaf.left_by(node)) is not graph.FALSE:
                text = f"{leaf.path} of a message leaves {leaf.low}..{leaf.high}"
                trace.checks.append(
                    Check(self._start, graph.and_(trace.when, outside), leaf.bound, text, place())
                )
        number = number_of(kind.message, value.nodes)
        start = self._type.field(kind.message.name)[0].start

        def new(i: int, before: Node) -> Node:
            if kind.copies:
                changed = graph.add(before, graph.const(step, INT))
                changed = changed if step > 0 else graph.max_(changed, graph.const(0, INT))
                return graph.select(graph.eq(number, graph.const(i, INT)), changed, before)
            low, high = i * kind.width, (i + 1) * kind.width - 1
            at = graph.sub(number, graph.const(low, INT))
            at = graph.min_(graph.max_(at, graph.const(0, INT)), graph.const(kind.width - 1, INT))
            bit = graph.singleton(at, kind.width)
            return graph.select(graph.within(number, low, high), bits(before, bit), before)

        changed = new
        if mutation.active is not None:
            frame = mutation.text_frame()

            def changed(i: int, before: Node) -> Node:
                return mutation.written(new(i, before), before, frame)

        Next(self._old, kind, self._start + start, self._hits, self._at)._scalars(changed, adds=True)


Messages.next_class = NextMessages
