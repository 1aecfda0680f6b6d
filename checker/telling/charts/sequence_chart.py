"""A counterexample as a sequence chart, in Mermaid's text: lanes, notes for what happens, arrows for messages.

It is drawn from the run alone: sentences say where a step happens, changes of the state say what was sent and what
became different (``highwater.checker.telling.charts.lanes``).
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Sequence

from highwater.checker.base import words
from highwater.checker.telling.charts.lanes import Lanes
from highwater.checker.telling.counterexample import Counterexample, Step
from highwater.model.language.drawing import Drawing
from highwater.model.language.protocol import Protocol

_WIDTH = 44


class SequenceChart:
    """The chart of runs of one protocol. A lane is known by its place, counted from 0."""

    def __init__(self, protocol: Protocol) -> None:
        self.lanes = Lanes(protocol)

    def mermaid(self, example: Counterexample) -> str:
        """The chart of a run as the text of a Mermaid sequenceDiagram; steps have the numbers of the told run."""
        lines = ["sequenceDiagram"]
        lines += [f"    participant L{i} as {escape(title)}" for i, title in enumerate(self.lanes.titles)]
        for number, (before, step) in enumerate(itertools.pairwise(example.steps), 2):
            if example.loop and number == example.loop.start + 2:
                lines.append("    loop for ever")
            lane = self.lane(step)
            place = self._span() if lane is None else f"L{lane}"
            told = self.told(step, lane)
            note = [f"{number}. {step.sentence}", *told]
            lines.append(f"    Note over {place}: {_paragraphs(note)}")
            for message in self.lanes.sent(before.state, step.state):
                lines.append(f"    L{lane or 0}-)L{message.receiver}: {escape(str(message))}")
            if handed := self.lanes.delivered(step.action, step.parameters):
                lines.append(f"    L{handed.sender}-)L{handed.receiver}: {escape(handed.title)}")
        if example.loop and example.loop.start < len(example.steps) - 1:
            lines.append("    end")
        how = f" by step {example.depth}" if example.of_step else ""
        meaning = f"{example.called} {example.outcome}{how}: {example.meaning}"
        lines.append(f"    Note over {self._span()}: {_paragraphs([meaning], 2 * _WIDTH)}")
        return "\n".join(lines) + "\n"

    def _span(self) -> str:
        last = len(self.lanes.titles) - 1
        return f"L0,L{last}" if last else "L0"

    def lane(self, step: Step) -> int | None:
        """The lane that a step's sentence names first; None where it names none."""
        return self.lanes.lane(step.sentence)

    def told(self, step: Step, lane: int | None) -> list[str]:
        """What changed of that which the protocol wants told, a text for each; what is the lane's own comes bare."""
        own = "" if lane is None else self.lanes.own[lane]
        texts = []
        for path, (before, after) in step.changes.items():
            if not tells(self.lanes.drawing, path):
                continue
            inner = words.at(self.lanes.type, path)
            name = path.removeprefix(f"{own}.") if own and path.startswith(own) else path
            texts.append(f"{name} {words.say(inner, before)} → {words.say(inner, after)}")
        return texts


def tells(drawing: Drawing, path: str) -> bool:
    """Whether a protocol wants told what changes at a path of the state."""
    bare = re.sub(r"\[\w+\]", "", path)
    return any(bare == told or bare.startswith(f"{told}.") for told in drawing.tells)


def escape(text: str) -> str:
    """A text that Mermaid takes for nothing but text: ``;`` and ``#`` by their codes, on one line, no ``end``."""
    coded = re.sub(r"[#;<>]", lambda found: f"#{ord(found[0])};", " ".join(text.split()))
    return re.sub(r"\bend\b", "e#110;d", coded)


def _paragraphs(texts: Sequence[str], width: int = _WIDTH) -> str:
    """Texts as lines of a note, folded."""
    folded = [line for text in texts for line in textwrap.wrap(text, width, break_on_hyphens=False)]
    return "<br/>".join(escape(line) for line in folded)
