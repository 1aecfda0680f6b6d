"""The chart of a run as data: the party of each step, messages from send to receipt, bands and logs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from highwater.checker.base import text
from highwater.checker.base.text import say
from highwater.checker.report.page.run import Shown
from highwater.model.language import (
    Array,
    Band,
    Drawing,
    Enum,
    Index,
    Lane,
    Log,
    Message,
    Model,
    Option,
    Protocol,
    Seq,
    Sign,
    Struct,
    graph,
)
from highwater.model.language.model import Instance
from highwater.model.language.types import Type

TAKEN, LOST, UNDER_WAY, WITHIN = "taken", "lost", "under way", "within"
"""The fate of a message: read by a step; gone without being read; still in flight; sent and read by one step."""


@dataclass
class Arrow:
    """A message of a run, from the state in which it was sent to the state in which it is gone.

    ``start`` and ``end`` are numbers of states, counted from 0; ``end`` None: the message is still in flight.
    """

    message: InFlight
    sender: int
    start: int
    end: int | None = None
    fate: str = UNDER_WAY

    def as_data(self) -> dict[str, Any]:
        """The arrow as plain data for a page."""
        return {
            "title": self.message.title,
            "shown": list(self.message.shown),
            "from": self.sender,
            "to": self.message.receiver,
            "start": self.start,
            "end": self.end,
            "fate": self.fate,
        }


def chart(lanes: Lanes, steps: Sequence[Shown], states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Everything that a page draws of a run, as plain data. ``places`` has the lane of each step, or null."""
    places = [None if i == 0 else lanes.lane(step.sentence) for i, step in enumerate(steps)]
    found = [arrow.as_data() for arrow in arrows(lanes, steps, states, places)]
    found += _deliveries(lanes, steps, states)
    found += [_within(lanes, i, step) for i, step in enumerate(steps) if len(_ends(lanes, i, step)) == 2]
    return {
        "lanes": [[title, i in lanes.outside] for i, title in enumerate(lanes.titles)],
        "places": places,
        "arrows": found,
        "bands": [b for band in lanes.drawing.bands if (b := _band(lanes, band, states)) is not None],
        "logs": [log for each in lanes.drawing.logs for log in _logs(lanes, each, states)],
    }


def arrows(
    lanes: Lanes, steps: Sequence[Shown], states: Sequence[Mapping[str, Any]], places: Sequence[int | None]
) -> Iterable[Arrow]:
    """The messages of a run, each from its sending to its end.

    Messages in the initial state were sent earlier, by an unknown sender. If a run has two outcomes, a message has an
    arrow for each outcome that ends it; if neither outcome ends it, the message is in flight.
    """
    waiting = [Arrow(m, m.receiver, 0) for m in lanes.in_flight(states[0])]
    open_at = {0: waiting}
    begun, ended = list(waiting), []
    for i, step in enumerate(steps[1:], 1):
        left = list(lanes.in_flight(states[i]))
        still = []
        for arrow in open_at[step.base or 0]:
            if arrow.message in left:
                left.remove(arrow.message)
                still.append(arrow)
            else:
                read = step.instance is not None and _reads(step.model, step.instance, arrow.message)
                ended.append((arrow, i, TAKEN if read else LOST))
        sender = places[i] or 0
        new = [Arrow(m, m.receiver if step.instance is None else sender, i) for m in left]
        begun += new
        open_at[i] = still + new
    for arrow in begun:
        ends = [replace(arrow, end=i, fate=fate) for gone, i, fate in ended if gone is arrow]
        yield from ends or [arrow]


def _deliveries(
    lanes: Lanes, steps: Sequence[Shown], states: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """The deliveries of steps as plain data.

    If the delivering step sent the value, the delivery starts at this step. Otherwise it starts at the last step that
    wrote the delivered element.
    """
    for i, step in enumerate(steps):
        if step.instance is None or step.base is None:
            continue
        found = lanes.delivered(step.instance.action.name, step.instance.parameters)
        if found is None:
            continue
        start = i if found.left is None else _written(steps, states, step.base, *found.left)
        yield {
            "title": found.title,
            "shown": [],
            "from": found.sender,
            "to": found.receiver,
            "start": start,
            "end": i,
            "fate": WITHIN if start == i else TAKEN,
        }


def _written(
    steps: Sequence[Shown], states: Sequence[Mapping[str, Any]], at: int, field: str, element: int
) -> int:
    """The number of the last step up to state ``at`` that changed an element of an array.

    If no step changed the element, the number of the first state.
    """

    def value(i: int) -> Any:
        array = states[i][field]
        return (list(array.values()) if isinstance(array, Mapping) else array)[element]

    while (base := steps[at].base) is not None and value(base) == value(at):
        at = base
    return at


def _reads(model: Model, instance: Instance, message: InFlight) -> bool:
    """True if a step reads the content of a message, not only its presence."""
    element = model.protocol.state.fields[message.field]
    assert isinstance(element, Array)
    prefix = f"{message.field}[{message.element}]"
    own = {i for i, leaf in enumerate(model.leaves) if leaf.path.startswith(prefix)}
    content = {
        i
        for i in own
        if model.leaves[i].path.startswith(f"{prefix}.") or "[" in model.leaves[i].path[len(prefix) :]
    }
    nodes = [g.node for g in instance.guards] + [
        w.node for leaf, w in instance.writes.items() if leaf not in own
    ]
    read = {n.value for n in graph.reachable(nodes) if n.op == "input"}
    return bool(read & (_contents(element.element, content, own)))


def _contents(element: Type, content: set[int], own: set[int]) -> set[int]:
    """The scalars of a message, without a scalar that only marks its presence.

    ``own`` are all scalars of the message, and ``content`` those of its fields or elements.
    """
    return content if isinstance(element, (Option, Seq)) and content else own


def _ends(lanes: Lanes, i: int, step: Shown) -> list[int]:
    """The first two lanes that a step's sentence names, if one of them belongs to an outside party; else empty.

    Such a step passes something between the two parties.
    """
    if i == 0 or not lanes.outside:
        return []
    named = lanes.named(step.sentence)[:2]
    return named if set(named) & lanes.outside else []


def _within(lanes: Lanes, i: int, step: Shown) -> dict[str, Any]:
    sender, receiver = _ends(lanes, i, step)
    return {"title": "", "shown": [], "from": sender, "to": receiver, "start": i, "end": i, "fate": WITHIN}


def _band(lanes: Lanes, band: Band, states: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """A band as plain data: for each state and each lane, the name of a sign, or "".

    None if the state lacks the band's fields, or the band's index has no lanes.
    """
    signs = [sign for sign in band.signs if _type_at(lanes.type, sign.path) is not None]
    if not signs or band.index not in lanes.first:
        return None
    first = lanes.first[band.index]
    size = _size(lanes, band.index)
    values = [
        [next((sign.name for sign in signs if _has(lanes, sign, state, i)), "") for i in range(size)]
        for state in states
    ]
    return {"title": band.title, "first": first, "signs": values}


def _size(lanes: Lanes, index: str) -> int:
    """The number of lanes of an index."""
    following = sorted([*lanes.first.values(), len(lanes.titles)])
    return following[following.index(lanes.first[index]) + 1] - lanes.first[index]


def _has(lanes: Lanes, sign: Sign, state: Mapping[str, Any], i: int) -> bool:
    """True if the value ``i`` of a band's index has this sign in a state."""
    value = _value_at(lanes.type, state, sign.path, i)
    if sign.among:
        return value in sign.among
    if isinstance(value, bool):
        return value
    if isinstance(value, list):
        return i in value
    return bool(value == i)


def _logs(lanes: Lanes, log: Log, states: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The logs that a drawing describes, as plain data, with their records and marks in each state.

    If the path of the log goes through an array, there is one log for each element of the array.
    """
    type_ = _type_at(lanes.type, log.path)
    if type_ is None:
        return
    assert isinstance(type_, Seq)
    index = _array_on(lanes.type, log.path)
    for i in [0] if index is None else range(index.index.size):
        lane = None
        if index is not None and index.index.name in lanes.first:
            lane = lanes.lane_of(index.index, i)
        marks = {name: path for name, path in log.marks.items() if _type_at(lanes.type, path) is not None}
        yield {
            "title": log.title.format(i),
            "lane": lane,
            "size": type_.maximum,
            "shows": list(log.shows),
            "states": [
                [
                    [
                        _record(type_.element, log, record)
                        for record in _value_at(lanes.type, state, log.path, i)
                    ],
                    [[name, _value_at(lanes.type, state, path, i)] for name, path in marks.items()],
                ]
                for state in states
            ],
        }


def _record(type: Type, log: Log, record: Any) -> list[str]:
    if not isinstance(type, Struct):
        return [text.say(type, record)]
    return [text.say(type.fields[name], record[name]) for name in (log.shows or type.fields)]


@cache
def _names(path: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", path))


def _type_at(type: Type, path: str) -> Type | None:
    """The type of the value at a path without indices; None if the state has no such path."""
    for name in _names(path):
        if isinstance(type, Array):
            type = type.element
        if not isinstance(type, Struct) or name not in type.fields:
            return None
        type = type.fields[name]
    return type.element if isinstance(type, Array) else type


def _array_on(type: Type, path: str) -> Array | None:
    """The array that a path without indices goes through or ends at; None if there is none."""
    for name in _names(path):
        if isinstance(type, Array):
            return type
        assert isinstance(type, Struct)
        type = type.fields[name]
    return type if isinstance(type, Array) else None


def _value_at(type: Type, value: Any, path: str, i: int) -> Any:
    """The value at a path without indices; an array on the path is read at the index ``i``."""
    for name in _names(path):
        type, value = _element(type, value, i)
        assert isinstance(type, Struct)
        type, value = type.fields[name], value[name]
    return _element(type, value, i)[1]


def _element(type: Type, value: Any, i: int) -> tuple[Type, Any]:
    """The type and value of element ``i`` of an array. A value of any other type is returned unchanged."""
    if not isinstance(type, Array):
        return type, value
    return type.element, (list(value.values()) if isinstance(value, Mapping) else value)[i]


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
                        text = _shown(message, content, one)
                        # A reader cannot tell queued messages apart if their shown fields are equal.
                        known_by = [one[shown] for shown in message.shows or one] if queued else one
                        yield InFlight(name, i, receiver, message.title, text, known_by)

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
    return any(bare == read or bare.startswith(f"{read}.") for read in drawing.tells)
