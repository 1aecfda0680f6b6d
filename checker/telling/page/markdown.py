"""A run as Markdown: what is violated, the steps with what they change, and the chart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from highwater.checker.base import words
from highwater.checker.telling.charts.sequence_chart import tells
from highwater.checker.telling.page.shown import ShownRun
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.types import Type


def markdown(run: ShownRun, mermaid: str | None) -> Iterator[str]:
    """The lines of a run: what the protocol wants told of the changes, or all of them."""
    source = f" ({_escaped(run.source)})" if run.source else ""
    yield f"**{_escaped(run.title)}**{source}, {_escaped(run.subtitle)}."
    if run.meaning:
        yield ""
        yield f"> {_escaped(run.meaning)}"
    yield ""
    yield "| | what happens | what changes |"
    yield "| ---: | --- | --- |"
    interpreter, type, drawing = Interpreter(run.model), run.drawn.state, run.drawn.drawing
    told_all = drawing is not None and not drawing.tells
    for i, step in enumerate(run.steps):
        again = " (from here on for ever)" if run.loop and i == run.loop.start + 1 else ""
        told = ""
        if step.base is not None:
            changes = interpreter.changes(run.steps[step.base].state, step.state)
            wanted = {
                path: pair
                for path, pair in changes.items()
                if drawing is None or told_all or tells(drawing, path)
            }
            told = "<br/>".join(_code(_change(type, path, *pair)) for path, pair in wanted.items())
        yield f"| {step.number} | {_escaped(step.sentence)}{again} | {told or _escaped(step.note)} |"
    if mermaid:
        yield ""
        yield "```mermaid"
        yield mermaid.rstrip("\n")
        yield "```"


def _change(type: Type, path: str, before: Any, after: Any) -> str:
    inner = words.at(type, path)
    return f"{path} {words.say(inner, before)} → {words.say(inner, after)}"


def _escaped(text: str) -> str:
    """A text that Markdown takes for nothing but text."""
    one_line = " ".join(text.split())
    return re.sub(r"([\\`*_{}\[\]<>#|!&~])", r"\\\1", one_line)


def _code(text: str) -> str:
    """A text as code in the cell of a table."""
    one_line = " ".join(text.split()).replace("|", "\\|")
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", one_line)), default=0))
    space = " " if len(ticks) > 1 else ""
    return f"{ticks}{space}{one_line}{space}{ticks}"
