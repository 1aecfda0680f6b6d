"""How runs of a protocol are drawn: who has a lane, what travels between lanes, which changes are worth a word.

It is optional, and no engine reads it. A step is placed by its sentence: it happens in the lane that the
sentence names first. A message is what a step leaves in a field that the protocol calls one: it goes from the
lane of that step to its receiver's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from highwater.model.language.errors import fail


@dataclass(frozen=True)
class Lane:
    """A party, or with ``{}`` in its title one party for each value of an index.

    ``called`` are the words by which sentences name it, with ``{}`` for the value. ``state`` is the field of the
    state, an array over the index, that is the party's own. Who is ``outside`` has no part of the state: what passes
    between such a party and another one is over within a step, so only pages have a lane for it.
    """

    title: str
    called: tuple[str, ...]
    index: str = ""
    state: str = ""
    outside: bool = False


@dataclass(frozen=True)
class Message:
    """What one element of a field holds while it is under way: a message, or a queue of them.

    ``to`` names the field of the message that says whose it is, or the title of a lane; empty: it is for the
    value whose element it is. ``shows`` are the fields of the message that a reader wants to see. ``also`` are other
    fields of the same form, in which the same message can wait: it is one as long as it is in any of them.
    """

    title: str
    to: str = ""
    shows: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Delivery:
    """What an action hands from one party to another, where no field holds it as a message that is used up.

    ``sender`` and ``receiver`` are a lane's title, or a parameter of the action. It is sent and taken by one step; or,
    with ``left``, an array of the state, it was sent by the step that last changed the element that the parameter
    ``by`` names, and can be taken again.
    """

    title: str
    sender: str
    receiver: str
    left: str = ""
    by: str = ""


SIGNS = ("down", "leader", "isr", "elr", "fenced", "known")
"""How a value of an index can stand in a band, what goes before the others first; one that is nothing of these is out.

``down`` does not run; ``known`` is the last known ELR or leader.
"""


@dataclass(frozen=True)
class Sign:
    """What gives a value of a band's index one of the SIGNS: a field, by its path without indices (``partition.isr``).

    An array on the way has an element for each value of the band's index. The field is a set or a sequence of
    values, a value or none, a truth, or, with ``among``, an enumeration that is one of these members.
    """

    name: str
    path: str
    among: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.name not in SIGNS:
            raise fail(f"there is no sign {self.name!r}; there are {', '.join(SIGNS)}")


@dataclass(frozen=True)
class Band:
    """Where each value of an index stands, from state to state. The first band is drawn on the lanes, others beside."""

    title: str
    index: str
    signs: tuple[Sign, ...]


@dataclass(frozen=True)
class Log:
    """A sequence that is drawn as cells, one for each value of an index where an array is on the way.

    Paths are without indices. ``marks`` are offsets in it by their titles, such as HWM; its end is LEO. ``shows`` are
    the fields of a record that a reader wants to see; empty: all.
    """

    title: str
    path: str
    marks: Mapping[str, str] = field(default_factory=dict)
    shows: tuple[str, ...] = ()


@dataclass(frozen=True)
class Drawing:
    """Lanes, messages by the field of the state that holds them, and the fields whose changes are told.

    A field of ``tells`` is a path without indices, such as ``partition.isr``; with it all below it are told. Logs and
    bands are for pages. ``deliveries`` are by the name of the action. What names a field that a scenario's state has
    not is left out.
    """

    lanes: tuple[Lane, ...]
    messages: Mapping[str, Message] = field(default_factory=dict)
    tells: tuple[str, ...] = ()
    logs: tuple[Log, ...] = ()
    bands: tuple[Band, ...] = ()
    deliveries: Mapping[str, Delivery] = field(default_factory=dict)
