"""How runs of a protocol are drawn: who has a lane, what travels between lanes, which changes are worth a word.

It is optional, and no engine reads it. A step is placed by its sentence: it happens in the lane that the
sentence names first. A message is what a step leaves in a field that the protocol calls one: it goes from the
lane of that step to its receiver's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Lane:
    """A party, or with ``{}`` in its title one party for each value of an index.

    ``called`` are the words by which sentences name it, with ``{}`` for the value. ``state`` is the field of the
    state, an array over the index, that is the party's own.
    """

    title: str
    called: tuple[str, ...]
    index: str = ""
    state: str = ""


@dataclass(frozen=True)
class Message:
    """What one element of a field holds while it is under way: a message, or a queue of them.

    ``to`` names the field of the message that says whose it is, or the title of a lane; empty: it is for the
    value whose element it is. ``shows`` are the fields of the message that a reader wants to see.
    """

    title: str
    to: str = ""
    shows: tuple[str, ...] = ()


@dataclass(frozen=True)
class Drawing:
    """Lanes, messages by the field of the state that holds them, and the fields whose changes are told.

    A field of ``tells`` is a path without indices, such as ``partition.isr``; with it all below it are told.
    """

    lanes: tuple[Lane, ...]
    messages: Mapping[str, Message] = field(default_factory=dict)
    tells: tuple[str, ...] = ()


__all__ = ["Drawing", "Lane", "Message"]
