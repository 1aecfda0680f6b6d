"""The page's data: everything that it shows of runs, computed from the interpreter's states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from highwater.checker.asking.request import Request
from highwater.checker.base import words
from highwater.checker.telling.charts.lanes import Lanes
from highwater.checker.telling.charts.sequence_chart import SequenceChart
from highwater.checker.telling.falsity import PropertyPart, false_part
from highwater.checker.telling.page.chart import chart
from highwater.checker.telling.page.choices import choices
from highwater.checker.telling.page.markdown import markdown
from highwater.checker.telling.page.shown import Shown, ShownRun
from highwater.checker.telling.page.table import Texts, tables
from highwater.model.language import graph
from highwater.model.language.graph import Node
from highwater.model.language.protocol import Protocol
from highwater.model.language.refinement import Refinement
from highwater.model.language.rulebook import Rulebook, numbers
from highwater.traces.reports.embedding import told_rules


def content(title: str, runs: Sequence[ShownRun], about: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
    """The data of a page with these runs: ``{"title", "about", "rules", "runs"}``."""
    named: set[str] = set()
    shown = [_run(run, named) for run in runs]
    books = [r.drawn.rulebook for r in runs]
    book = next((b for b in books if isinstance(b, Rulebook)), None)
    return {
        "title": title,
        "about": [list(pair) for pair in about],
        "rules": {} if book is None else told_rules(book, named),
        "runs": shown,
    }


def about(request: Request) -> list[tuple[str, str]]:
    """What was asked: the scenario and how it was set up."""
    on = [name for name, is_on in request.rules.items() if is_on]
    off = [name for name, is_on in request.rules.items() if not is_on]
    return [
        ("scenario", request.scenario.name),
        ("what it is", request.scenario.title),
        ("protocol", request.scenario.definition.name),
        ("profile", request.profile or "all rules"),
        ("parameters", words.settings(request.parameters)),
        ("rules on", ", ".join(on) or "none"),
        ("rules off", ", ".join(off) or "none"),
    ]


def _run(run: ShownRun, named: set[str]) -> dict[str, Any]:
    model = run.model
    lanes = _lanes(run.drawn, run)
    states = [model.decode(step.state) for step in run.steps]
    texts = Texts()
    named.update(numbers(run.source))
    mermaid = None if run.example is None or run.left_out else SequenceChart(run.drawn).mermaid(run.example)
    return {
        "title": run.title,
        "subtitle": run.subtitle,
        "name": run.name,
        "source": run.source,
        "meaning": run.meaning,
        "sides": None if run.sides is None else list(run.sides),
        "leftOut": run.left_out,
        "loop": None
        if run.loop is None
        else {
            "start": run.loop.start,
            "due": run.loop.due,
            "kind": run.loop.kind,
            "fair": list(run.loop.fairness),
        },
        "falseAt": list(run.false_at),
        "why": {str(i): _told(part) for i, part in _why(run)},
        "steps": [_step(step, named) for step in run.steps],
        "chart": chart(lanes, run.steps, states),
        **tables(lanes, states, texts),
        "choices": choices(model, run.steps),
        "texts": list(texts),
        "mermaid": mermaid,
        "markdown": "\n".join(markdown(run, mermaid)) + "\n",
    }


def _why(run: ShownRun) -> Iterator[tuple[int, PropertyPart]]:
    """For each state in which the property is false, the part of it that is."""
    model = run.model
    node, of_step = _condition(run)
    for i in run.false_at:
        states, base = [run.steps[i].state], run.steps[i].base
        if of_step and base is not None:
            states.insert(0, run.steps[base].state)
        if node is graph.TRUE or (of_step and base is None):
            continue
        part = false_part(model, node, *states)
        if part is not None:
            yield i, part


def _condition(run: ShownRun) -> tuple[Node, bool]:
    """The condition that is false, and whether it is one of steps; true for a refinement or deadlock."""
    for live in run.model.liveness:
        if live.name == run.name:
            wanted = run.example.parameters if run.example is not None else {}
            case = next((case for case in live.cases if case.parameters == wanted), live.cases[0])
            return graph.any_(case.goals), False
    for prop in run.model.properties:
        if prop.name == run.name:
            return prop.node, False
    for step in run.model.step_properties:
        if step.name == run.name and not isinstance(step.stated, Refinement):
            return step.node, True
    return graph.TRUE, False


def _told(part: PropertyPart) -> dict[str, Any]:
    """A part in short, its leaves with their values, and whole."""
    leaves = [[leaf.text, leaf.holds, [list(v) for v in leaf.values], given] for leaf, given in part.leaves()]
    return {"leaves": leaves, "whole": part.as_data()}


def _lanes(protocol: Protocol, run: ShownRun) -> Lanes:
    """The lanes; of parties outside only where the run names one."""
    lanes = Lanes(protocol, outside=True)
    named = {lane for step in run.steps[1:] for lane in lanes.named(step.sentence)[:2]}
    return lanes if named & lanes.outside else Lanes(protocol)


def _step(step: Shown, named: set[str]) -> dict[str, Any]:
    action = step.instance.action if step.instance else None
    if action is not None:
        named.update(numbers(action.source))
    return {
        "number": step.number,
        "sentence": step.sentence,
        "base": step.base,
        "note": step.note,
        "action": str(step.instance) if step.instance else "",
        "source": action.source if action else "",
        "meaning": action.meaning if action else "",
        "instance": None if step.instance is None else step.model.instances.index(step.instance),
    }
