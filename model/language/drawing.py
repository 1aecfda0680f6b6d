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
    """A lane of the drawing: one party, or with ``{}`` in its title one party for each value of an index.

    ``called`` lists the words by which sentences name the party, with ``{}`` for the index value. ``state`` is the
    field with the party's own state, an array over the index. A party that is ``outside`` has no state: its exchanges
    begin and end within a step, so only pages have a lane for it.
    """

    title: str
    called: tuple[str, ...]
    index: str = ""
    state: str = ""
    outside: bool = False


@dataclass(frozen=True)
class Message:
    """How a field of the state holds messages in flight, or queues of them.

    ``to`` is the field of a message with the receiver, or the title of a lane; empty: the receiver is the index value
    of the element. ``shows`` are the fields of a message that pages show. ``also`` are further state fields of the
    same form; a message that moves between these fields stays one message.
    """

    title: str
    to: str = ""
    shows: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Delivery:
    """A value that an action passes from one party to another within one step, without a message field.

    ``sender`` and ``receiver`` are a lane's title, or a parameter of the action. With ``left``, an array of the
    state, the sender is the step that last changed the element at the parameter ``by``. Such a value can be read
    repeatedly.
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
    """A chart of the role that each value of ``index`` has in every state.

    The first band is drawn on the lanes, further bands beside them.
    """

    title: str
    index: str
    signs: tuple[Sign, ...]


@dataclass(frozen=True)
class Log:
    """A sequence in the state that is drawn as cells, one for each element.

    ``path`` names the field, without indices. With an array on the path there is one log for each value of its index.
    ``marks`` maps titles, such as HWM, to the paths of offsets in the log. ``shows`` are the fields of a record that
    pages show; empty: all.
    """

    title: str
    path: str
    marks: Mapping[str, str] = field(default_factory=dict)
    shows: tuple[str, ...] = ()


@dataclass(frozen=True)
class Drawing:
    """The elements of a run that pages draw: lanes, messages, listed changes, logs and bands.

    ``messages`` is keyed by the state field that holds the messages, ``deliveries`` by the action. ``tells`` lists
    paths without indices, such as ``partition.isr``, whose changes are listed, with the fields below them. A part
    that names a field which the scenario's state lacks is left out.
    """

    lanes: tuple[Lane, ...]
    messages: Mapping[str, Message] = field(default_factory=dict)
    tells: tuple[str, ...] = ()
    logs: tuple[Log, ...] = ()
    bands: tuple[Band, ...] = ()
    deliveries: Mapping[str, Delivery] = field(default_factory=dict)
