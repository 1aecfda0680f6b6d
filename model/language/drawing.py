"""How pages draw a protocol's runs: lanes, messages between lanes, and a list of changes.

A drawing is optional, and no engine reads it. A page shows a step in the lane that the step's sentence names first.
If a step writes a message into a field that the drawing lists, an arrow goes from the step's lane to the receiver's
lane.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from highwater.model.language.errors import fail


@dataclass(frozen=True)
class Lane:
    """A lane for one party, such as the controller. With ``{}`` in the title, one lane for each value of ``index``.

    * ``called``: the names of the party in sentences, with ``{}`` for the index value.
    * ``outside``: True for a party without state, such as clients. A page has the lane only if a sentence names the
      party.
    """

    title: str
    called: tuple[str, ...]
    index: str = ""
    outside: bool = False


@dataclass(frozen=True)
class Message:
    """A state field that holds messages in flight, or queues of messages.

    * ``to``: the message field that names the receiver, or a lane's title. If empty, the array index of the message
      is the receiver.
    * ``shows``: the message fields that pages show; empty: all.
    * ``also``: other state fields of the same type to which a message in flight can move, such as ``late_fetches``.
    """

    title: str
    to: str = ""
    shows: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Delivery:
    """A value that an action passes from one party to another within one step, without a message field.

    ``sender`` and ``receiver`` are each a lane's title or a parameter of the action. If ``left`` names a state array,
    the value waits in an element of it and can be read repeatedly. ``by`` names the action's parameter that is the
    element's index. The arrow then starts at the step that last changed this element.
    """

    title: str
    sender: str
    receiver: str
    left: str = ""
    by: str = ""


SIGNS = ("down", "leader", "isr", "elr", "fenced", "known")
"""The roles that a band can show for an index value. ``down``: not running; ``known``: in the last known ELR."""


@dataclass(frozen=True)
class Sign:
    """The state field that determines which index values have the role ``name`` (one of ``SIGNS``) in a band.

    ``path`` is the field's path without indices (``partition.isr``). An array on the path is indexed by the band's
    index. The field is a set or sequence of index values, an optional index value, or a Bool. With ``among`` the field
    is an enumeration, and a member in ``among`` gives the role.
    """

    name: str
    path: str
    among: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.name not in SIGNS:
            raise fail(f"there is no sign {self.name!r}; there are {', '.join(SIGNS)}")


@dataclass(frozen=True)
class Band:
    """A chart that shows the role of each value of ``index`` in every state of a run.

    The role is the name of the first sign that applies. Pages draw the first band of a drawing on the lanes, the second
    band beside the lanes, and no further bands.
    """

    title: str
    index: str
    signs: tuple[Sign, ...]


@dataclass(frozen=True)
class Log:
    """A sequence in the state that is drawn as cells, one for each element.

    ``path`` is the field's path without indices. An array on the path gives one log for each index value. ``marks``
    maps titles, such as HWM, to the paths of offsets in the log. ``shows`` lists the record fields that pages show;
    empty: all.
    """

    title: str
    path: str
    marks: Mapping[str, str] = field(default_factory=dict)
    shows: tuple[str, ...] = ()


@dataclass(frozen=True)
class Drawing:
    """How pages draw the runs of a protocol: lanes, messages, listed changes, logs and bands.

    ``messages`` is keyed by the state field that holds the messages, ``deliveries`` by the action. ``tells`` has
    paths without indices, such as ``partition.isr``: pages list changes of these fields and of the fields inside them;
    empty: all changes. Pages omit every part whose field the scenario's state lacks.
    """

    lanes: tuple[Lane, ...]
    messages: Mapping[str, Message] = field(default_factory=dict)
    tells: tuple[str, ...] = ()
    logs: tuple[Log, ...] = ()
    bands: tuple[Band, ...] = ()
    deliveries: Mapping[str, Delivery] = field(default_factory=dict)
