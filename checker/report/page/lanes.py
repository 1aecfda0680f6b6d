"""The lanes of a run's chart, one for each party, and the messages between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from highwater.checker.base.text import say
from highwater.model.language import Array, Drawing, Enum, Index, Lane, Message, Option, Protocol, Seq, Struct
from highwater.model.language.types import Type

# A step's sentence names its lane, and changes of the state show sent messages. The protocol's drawing
# (``highwater.model.language.drawing``) names lanes and messages; without it there is one lane.

_NOWHERE = Drawing((Lane("the system", ()),))


@dataclass(frozen=True)
class InFlight:
    """A message in flight in a state: the field and element that hold it, and its receiver's lane.

    ``title`` is the kind of message, ``shown`` are the fields that a chart shows, and ``known_by`` distinguishes the
    message from others.
    """

    field: str
    element: int
    receiver: int
    title: str
    shown: tuple[str, ...]
    known_by: Any


@dataclass(frozen=True)
class Delivered:
    """A delivery that a step makes from one lane to another.

    ``left`` is the element of the state that held the delivered value, as (field, index). It is None if the step itself
    sent the value.
    """

    title: str
    sender: int
    receiver: int
    left: tuple[str, int] | None


class Lanes:
    """The lanes of one protocol's chart, one for each party. Lanes are numbered from 0.

    With ``outside``, parties that are not part of the state also have lanes.
    """

    def __init__(self, protocol: Protocol, *, outside: bool = False) -> None:
        self.type = protocol.state
        self._domains = {a.name: a.domains for a in protocol.actions()}
        self.drawing = protocol.drawing or _NOWHERE
        self.titles: list[str] = []
        self.called: list[tuple[str, int]] = []
        self.first: dict[str, int] = {}  # by an index or the title of a single lane: its first lane
        self.outside: set[int] = set()
        for lane in self.drawing.lanes:
            if lane.outside and not outside:
                continue
            self.first[lane.index or lane.title] = len(self.titles)
            index = getattr(protocol, lane.index) if lane.index else None
            for value in [""] if index is None else [str(v) for v in range(count(index))]:
                self.called += [(name.format(value), len(self.titles)) for name in lane.called]
                if lane.outside:
                    self.outside.add(len(self.titles))
                self.titles.append(lane.title.format(value))

    def named(self, sentence: str) -> list[int]:
        """The lanes that a sentence names, in the order of the sentence."""
        found = []
        for name, lane in self.called:
            if match := re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sentence):
                found.append((match.start(), lane))
        return list(dict.fromkeys(lane for _, lane in sorted(found)))

    def lane(self, sentence: str) -> int | None:
        """The lane that a step's sentence names first; None if it names none.

        If the drawing has no names for its lanes, the result is lane 0.
        """
        if not self.called:
            return 0
        return next(iter(self.named(sentence)), None)

    def in_flight(self, state: Mapping[str, Any]) -> Iterator[InFlight]:
        """The messages in flight in a state, also in the further fields of a kind (``Message.also``)."""
        for name, message in self.drawing.messages.items():
            for field in (name, *message.also):
                yield from self._in_field(state, name, message, field)

    def delivered(self, action: str, parameters: Mapping[str, Any]) -> Delivered | None:
        """The delivery that a step makes, according to the protocol's drawing; None if the action delivers nothing."""
        found = self.drawing.deliveries.get(action)
        if found is None:
            return None

        def party(name: str) -> int:
            return (
                self.first.get(name, 0)
                if name not in parameters
                else (self.first[self._domains[action][name]] + int(parameters[name]))
            )

        left = (found.left, int(parameters[found.by])) if found.left in self.type.fields else None
        return Delivered(found.title, party(found.sender), party(found.receiver), left)

    def _in_field(
        self, state: Mapping[str, Any], name: str, message: Message, field: str
    ) -> Iterator[InFlight]:
        array = self.type.fields.get(field)
        if array is not None:
            assert isinstance(array, Array)
            content = content_type(array.element)
            values = state[field]
            for i, value in enumerate(values.values() if isinstance(values, dict) else values):
                queued = isinstance(value, list)
                for one in value if queued else [value]:
                    if one is not None:
                        receiver = self._receiver(message, array, i, content, one)
                        said = _shown(message, content, one)
                        # A reader cannot tell queued messages apart if their shown fields are equal.
                        known_by = [one[shown] for shown in message.shows or one] if queued else one
                        yield InFlight(name, i, receiver, message.title, said, known_by)

    def _receiver(
        self, message: Message, array: Array, index: int, type: Struct, value: Mapping[str, Any]
    ) -> int:
        if not message.to:
            return self.lane_of(array.index, index)
        if message.to in self.first:
            return self.first[message.to]
        return self.lane_of(type.fields[message.to], value[message.to])

    def lane_of(self, index: Type, value: int | str) -> int:
        """The lane of the party with this value of an index."""
        assert isinstance(index, (Index, Enum))
        number = (
            index.members.index(value) if isinstance(index, Enum) and isinstance(value, str) else int(value)
        )
        return self.first[index.name] + number


def count(index: object) -> int:
    """The number of values of an index."""
    assert isinstance(index, (Index, Enum))
    return index.size


def content_type(element: Type) -> Struct:
    """The type of the message in an element of the state: a struct, an Option of one, or a sequence of them."""
    if isinstance(element, Option):
        element = element.content_type
    elif isinstance(element, Seq):
        element = element.element
    assert isinstance(element, Struct)
    return element


def _shown(message: Message, type: Struct, value: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(
        f"{name} {say(type.fields[name], value[name])}"
        for name in (message.shows or type.fields)
        if value[name] is not None and value[name] is not False
    )


def tells(drawing: Drawing, path: str) -> bool:
    """True if the drawing selects changes at this path of the state."""
    bare = re.sub(r"\[\w+\]", "", path)
    return any(bare == told or bare.startswith(f"{told}.") for told in drawing.tells)
