"""A counterexample as a sequence chart, in Mermaid's text: lanes, notes for what happens, arrows for messages.

It is drawn from the run alone: sentences say where a step happens, changes of the state say what was sent and what
became different. What a protocol declares of its drawing (``highwater.model.language.drawing``) names lanes and
messages; without it there is one lane.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from highwater.checker import words
from highwater.checker.counterexample import Counterexample, Step
from highwater.model.language.drawing import Drawing, Lane, Message
from highwater.model.language.protocol import Protocol
from highwater.model.language.types import Array, Enum, Index, Option, Seq, Struct, Type

_WIDTH = 44
_NOWHERE = Drawing((Lane("the system", ()),))


class SequenceChart:
    """The chart of runs of one protocol. A lane is known by its place, counted from 0."""

    def __init__(self, protocol: Protocol) -> None:
        self.type = protocol.state
        self.drawing = protocol.drawing or _NOWHERE
        self.titles: list[str] = []
        self.called: list[tuple[str, int]] = []
        self.own: list[str] = []  # the path of the part of the state that is the lane's own
        self.first: dict[str, int] = {}  # an index, or the title of a single lane: the first lane of it
        for lane in self.drawing.lanes:
            self.first[lane.index or lane.title] = len(self.titles)
            index = getattr(protocol, lane.index) if lane.index else None
            for value in [""] if index is None else [str(v) for v in range(_count(index))]:
                self.called += [(name.format(value), len(self.titles)) for name in lane.called]
                self.own.append(f"{lane.state}[{value}]" if lane.state else "")
                self.titles.append(lane.title.format(value))

    def mermaid(self, example: Counterexample) -> str:
        """The chart of a run as the text of a Mermaid sequenceDiagram; steps have the numbers of the told run."""
        lines = ["sequenceDiagram"]
        lines += [f"    participant L{i} as {escape(title)}" for i, title in enumerate(self.titles)]
        for number, (before, step) in enumerate(itertools.pairwise(example.steps), 2):
            if example.loop and number == example.loop.start + 2:
                lines.append("    loop for ever")
            lane = self.lane(step)
            place = self._span() if lane is None else f"L{lane}"
            told = self.told(step, lane)
            note = [f"{number}. {step.sentence}", *told]
            lines.append(f"    Note over {place}: {_paragraphs(note)}")
            for receiver, text in self.sent(before.state, step.state):
                lines.append(f"    L{lane or 0}-)L{receiver}: {escape(text)}")
        if example.loop and example.loop.start < len(example.steps) - 1:
            lines.append("    end")
        how = f" by step {example.depth}" if example.of_step else ""
        meaning = f"{example.called} is violated{how}: {example.meaning}"
        lines.append(f"    Note over {self._span()}: {_paragraphs([meaning], 2 * _WIDTH)}")
        return "\n".join(lines) + "\n"

    def _span(self) -> str:
        last = len(self.titles) - 1
        return f"L0,L{last}" if last else "L0"

    def lane(self, step: Step) -> int | None:
        """The lane that a step's sentence names first; None where it names none."""
        found = []
        for name, lane in self.called:
            if match := re.search(rf"(?<!\w){re.escape(name)}(?!\w)", step.sentence):
                found.append((match.start(), lane))
        if not self.called:
            return 0
        return min(found)[1] if found else None

    def sent(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
        """The messages that a step left under way: the receiver's lane and what is in them."""
        for name, message in self.drawing.messages.items():
            array = self.type.fields.get(name)
            if array is None:
                continue
            assert isinstance(array, Array)
            content = _content_type(array.element)
            olds, news = (list(x.values()) if isinstance(x, dict) else x for x in (before[name], after[name]))
            for i, (old, new) in enumerate(zip(olds, news, strict=True)):
                for value in _added(message, old, new):
                    receiver = self._receiver(message, array, i, content, value)
                    yield receiver, _content(message, content, value)

    def _receiver(
        self, message: Message, array: Array, index: int, type: Struct, value: Mapping[str, Any]
    ) -> int:
        if not message.to:
            return self._lane_of(array.index, index)
        if message.to in self.first:
            return self.first[message.to]
        return self._lane_of(type.fields[message.to], value[message.to])

    def _lane_of(self, index: Type, value: int | str) -> int:
        assert isinstance(index, (Index, Enum))
        number = (
            index.members.index(value) if isinstance(index, Enum) and isinstance(value, str) else int(value)
        )
        return self.first[index.name] + number

    def told(self, step: Step, lane: int | None) -> list[str]:
        """What changed of that which the protocol wants told, a text for each; what is the lane's own comes bare."""
        own = "" if lane is None else self.own[lane]
        texts = []
        for path, (before, after) in step.changes.items():
            if not self._tells(path):
                continue
            inner = words.at(self.type, path)
            name = path.removeprefix(f"{own}.") if own and path.startswith(own) else path
            texts.append(f"{name} {words.say(inner, before)} → {words.say(inner, after)}")
        return texts

    def _tells(self, path: str) -> bool:
        bare = re.sub(r"\[\d+\]", "", path)
        return any(bare == told or bare.startswith(f"{told}.") for told in self.drawing.tells)


def escape(text: str) -> str:
    """A text that Mermaid takes for nothing but text: ``;`` and ``#`` by their codes, on one line, no ``end``."""
    coded = re.sub(r"[#;<>]", lambda found: f"#{ord(found[0])};", " ".join(text.split()))
    return re.sub(r"\bend\b", "e#110;d", coded)


def _paragraphs(texts: Sequence[str], width: int = _WIDTH) -> str:
    """Texts as lines of a note, folded."""
    folded = [line for text in texts for line in textwrap.wrap(text, width, break_on_hyphens=False)]
    return "<br/>".join(escape(line) for line in folded)


def _content_type(element: Type) -> Struct:
    """The type of the messages that an element holds: one, one or none, or a queue of them."""
    if isinstance(element, Option):
        element = element.content_type
    elif isinstance(element, Seq):
        element = element.element
    assert isinstance(element, Struct)
    return element


def _added(message: Message, old: Any, new: Any) -> list[Mapping[str, Any]]:
    """The messages that came; in a queue those that a reader can tell from what was there, wherever they stand."""
    if not isinstance(new, list):
        return [new] if new is not None and new != old else []
    left = [_shown(message, value) for value in old]
    found = []
    for value in new:
        if (shown := _shown(message, value)) in left:
            left.remove(shown)
        else:
            found.append(value)
    return found


def _shown(message: Message, value: Mapping[str, Any]) -> list[Any]:
    return [value[name] for name in message.shows or value]


def _content(message: Message, type: Struct, value: Mapping[str, Any]) -> str:
    shown = [
        f"{name} {words.say(type.fields[name], value[name])}"
        for name in (message.shows or type.fields)
        if value[name] is not None and value[name] is not False
    ]
    return f"{message.title}: {', '.join(shown)}" if shown else message.title


def _count(index: object) -> int:
    assert isinstance(index, (Index, Enum))
    return index.size


__all__ = ["SequenceChart", "escape"]
