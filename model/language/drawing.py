"""The drawing of a protocol's runs: lanes, messages between lanes, and changes that a page lists.

A drawing is optional, and no engine reads it. A step appears in the lane that its sentence names first. A step sends
a message by writing it into a field that the drawing lists; an arrow goes from that step's lane to the receiver's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from highwater.model.language.errors import fail


@dataclass(frozen=True)
class Lane:
    """A party; with ``{}`` in its title, one party for each value of an index.

    ``called`` are the words by which sentences name it, with ``{}`` for the value. ``state`` is the party's own field
    of the state, an array over the index. A party that is ``outside`` has no part of the state: its exchanges begin
    and end within a step, so only pages have a lane for it.
    """

    title: str
    called: tuple[str, ...]
    index: str = ""
    state: str = ""
    outside: bool = False


@dataclass(frozen=True)
class Message:
    """A field of the state whose elements are messages in flight, or queues of them.

    ``to`` names the message's field with the receiver, or the title of a lane; empty: the receiver is the index value
    of the element. ``shows`` are the message's fields that pages show. ``also`` are other fields of the same form; a
    message that moves between them stays one message.
    """

    title: str
    to: str = ""
    shows: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Delivery:
    """A value that an action passes from one party to another without a field for messages.

    ``sender`` and ``receiver`` are a lane's title, or a parameter of the action. One step sends and receives it. With
    ``left``, an array of the state, the sender is the step that last changed the element at parameter ``by``, and the
    value can be read repeatedly.
    """

    title: str
    sender: str
    receiver: str
    left: str = ""
    by: str = ""


SIGNS = ("down", "leader", "isr", "elr", "fenced", "known")
"""The possible positions of an index value in a band, by precedence; a value without any of them is out.

``down``: not running; ``known``: the last known ELR or leader."""


@dataclass(frozen=True)
class Sign:
    """The field that gives values of a band's index one of the SIGNS: a path without indices (``partition.isr``).

    An array on the path has an element for each value of the band's index. The field is a set or a sequence of
    values, an optional value, or a truth value. With ``among``, it is an enumeration whose value is one of these
    members.
    """

    name: str
    path: str
    among: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.name not in SIGNS:
            raise fail(f"there is no sign {self.name!r}; there are {', '.join(SIGNS)}")


@dataclass(frozen=True)
class Band:
    """The positions of each index value, in every state. The first band is drawn on the lanes, others beside them."""

    title: str
    index: str
    signs: tuple[Sign, ...]


@dataclass(frozen=True)
class Log:
    """A sequence that is drawn as cells; with an array on the path, one sequence for each value of its index.

    Paths are without indices. ``marks`` are offsets in it by their titles, such as HWM; its end is LEO. ``shows`` are
    the fields of a record that pages show; empty: all.
    """

    title: str
    path: str
    marks: Mapping[str, str] = field(default_factory=dict)
    shows: tuple[str, ...] = ()


@dataclass(frozen=True)
class Drawing:
    """Lanes, messages by the field of the state that holds them, and the fields whose changes are listed.

    A field of ``tells`` is a path without indices, such as ``partition.isr``, and includes the fields below it. Logs
    and bands are for pages. ``deliveries`` are by the name of the action. A part that names a field which a scenario's
    state lacks is left out.
    """

    lanes: tuple[Lane, ...]
    messages: Mapping[str, Message] = field(default_factory=dict)
    tells: tuple[str, ...] = ()
    logs: tuple[Log, ...] = ()
    bands: tuple[Band, ...] = ()
    deliveries: Mapping[str, Delivery] = field(default_factory=dict)
