"""The page that shows runs: its data, computed with the interpreter, and its HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from highwater.checker.base.files import refuse_unwritable, write_text
from highwater.checker.base.text import change, say, settings
from highwater.checker.report.falsity import PropertyPart, false_part
from highwater.checker.report.page.chart import Lanes, chart, tells
from highwater.checker.report.page.run import Shown, ShownRun
from highwater.checker.scenarios.request import Request
from highwater.model.language import Array, Enum, Index, Messages, Model, Protocol, Rulebook, Struct, graph
from highwater.model.language.graph import Node
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import BoundError, Interpreter, interpreter_of
from highwater.model.language.model import Instance
from highwater.model.language.refinement import Refinement
from highwater.model.language.rulebook import numbers
from highwater.model.language.types import Type
from highwater.traces.reports.page import as_json, policy, signs, told_rules
from highwater.traces.reports.text import count


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
    """The scenario and its settings as pairs (title, text), for the head of a page."""
    on = [name for name, is_on in request.rules.items() if is_on]
    off = [name for name, is_on in request.rules.items() if not is_on]
    return [
        ("scenario", request.scenario.name),
        ("what it is", request.scenario.title),
        ("protocol", request.scenario.definition.name),
        ("profile", request.profile or "all rules"),
        ("parameters", settings(request.parameters)),
        ("rules on", ", ".join(on) or "none"),
        ("rules off", ", ".join(off) or "none"),
    ]


def _run(run: ShownRun, named: set[str]) -> dict[str, Any]:
    model = run.model
    lanes = _lanes(run.drawn, run)
    states = [model.decode(step.state) for step in run.steps]
    texts = Texts()
    named.update(numbers(run.source))
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
        "why": {str(i): _part(part) for i, part in _why(run)},
        "steps": [_step(step, named) for step in run.steps],
        "chart": chart(lanes, run.steps, states),
        **tables(lanes, states, texts),
        "choices": choices(model, run.steps),
        "texts": list(texts),
        "markdown": "\n".join(markdown(run)) + "\n",
    }


def _why(run: ShownRun) -> Iterator[tuple[int, PropertyPart]]:
    """For each state in which the property is false: its index in ``run.steps``, and the part that makes it false.

    Yields nothing for deadlocks and refinements.
    """
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
    """The condition of the run's property, and True if it is a condition on steps.

    For deadlocks and refinements the condition is constant true.
    """
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


def _part(part: PropertyPart) -> dict[str, Any]:
    """A part of a property as plain data: its innermost parts with their values, and the whole part."""
    leaves = [[leaf.text, leaf.holds, [list(v) for v in leaf.values], given] for leaf, given in part.leaves()]
    return {"leaves": leaves, "whole": msgspec.to_builtins(part)}


def _lanes(protocol: Protocol, run: ShownRun) -> Lanes:
    """The lanes for a run. Outside parties have lanes only if the run names one of them."""
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


POSSIBLE = 0
"""The fate of an enabled instance. Other fates: n if guard n refuses it, −n if it is pruned at bound n, both from 1."""


class Choices:
    """Computes the fate of each instance of one model in a state: a number as described at ``POSSIBLE``."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.interpreter = interpreter_of(model)
        names = dict.fromkeys(g.name for i in model.instances for g in i.guards)
        self.guards = {name: number for number, name in enumerate(names, 1)}
        self.bounds: dict[str, int] = {}

    def fates(self, state: Scalars) -> list[int]:
        """The fate of each instance in a state, in the model's order."""
        holds = iter(self.interpreter.guards(state))
        found = []
        for number, instance in enumerate(self.model.instances):
            answers = [next(holds) for _ in instance.guards]
            refused = next((g.name for g, yes in zip(instance.guards, answers, strict=True) if not yes), None)
            found.append(self._taken(state, number) if refused is None else self.guards[refused])
        return found

    def _taken(self, state: Scalars, number: int) -> int:
        try:
            cut = self.interpreter.step(state, number).cut
        except BoundError:
            cut = "the type of a field"
        return POSSIBLE if cut is None else -self.bounds.setdefault(cut, len(self.bounds) + 1)


def choices(model: Model, steps: Sequence[Shown]) -> dict[str, Any]:
    """The fate of each instance in each state as plain data, for the page.

    The data has the form ``{"instances": [[action, parameters, sentence]], "guards", "bounds", "states",
    "known"}``. ``states`` has for each state a flat list: instance, fate, instance, fate, …. The first list has all
    instances; each later list has only those with a new fate. For a state of another model, the list is empty, and
    ``known`` has false.
    """
    found = Choices(model)
    states: list[list[int]] = []
    before: list[int] = []
    for step in steps:
        if step.model is not model:  # an outcome under other rules: its instances differ
            states.append([])
            continue
        fates = found.fates(step.state)
        changed = [(i, fate) for i, fate in enumerate(fates) if not before or before[i] != fate]
        states.append([number for pair in changed for number in pair])
        before = fates
    return {
        "instances": [[i.action.name, parameters(i), i.sentence] for i in model.instances],
        "guards": list(found.guards),
        "bounds": list(found.bounds),
        "states": states,
        "known": [step.model is model for step in steps],
    }


def parameters(instance: Instance) -> str:
    """The parameter values of an instance as text; empty if it has none."""
    return settings(instance.parameters)


def markdown(run: ShownRun) -> Iterator[str]:
    """The lines of a run in Markdown.

    The protocol's drawing selects the changes; if it selects no paths, all changes are listed.
    """
    source = f" ({_escaped(run.source)})" if run.source else ""
    yield f"**{_escaped(run.title)}**{source}, {_escaped(run.subtitle)}."
    if run.meaning:
        yield ""
        yield f"> {_escaped(run.meaning)}"
    yield ""
    yield "| | what happens | what changes |"
    yield "| ---: | --- | --- |"
    interpreter, type, drawing = Interpreter(run.model), run.drawn.state, run.drawn.drawing
    whole = drawing is not None and not drawing.tells
    for i, step in enumerate(run.steps):
        again = " (from here on forever)" if run.loop and i == run.loop.start + 1 else ""
        text = ""
        if step.base is not None:
            changes = interpreter.changes(run.steps[step.base].state, step.state)
            wanted = {
                path: pair
                for path, pair in changes.items()
                if drawing is None or whole or tells(drawing, path)
            }
            text = "<br/>".join(_code(change(type, path, pair)) for path, pair in wanted.items())
        yield f"| {step.number} | {_escaped(step.sentence)}{again} | {text or _escaped(step.note)} |"


def _escaped(text: str) -> str:
    """The text with every sign escaped that has a meaning in Markdown."""
    one_line = " ".join(text.split())
    return re.sub(r"([\\`*_{}\[\]<>#|!&~])", r"\\\1", one_line)


def _code(text: str) -> str:
    """The text as Markdown code for the cell of a table."""
    one_line = " ".join(text.split()).replace("|", "\\|")
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", one_line)), default=0))
    space = " " if len(ticks) > 1 else ""
    return f"{ticks}{space}{one_line}{space}{ticks}"


Place = tuple[str, str, int]
"""A cell of a state's tables: the table's index ("" for fields without index), the row's label, the column."""


def tables(lanes: Lanes, states: Sequence[Mapping[str, Any]], number_of: Texts) -> dict[str, Any]:
    """The tables of states as plain data: their layout, and the text of each cell in each state.

    The data has the form ``{"tables": [{"title", "columns", "rows": [[label, drawn, constant, cells]]}], "states"}``.

    - ``cells`` has for each column of the row the number of a cell, or null.
    - ``drawn`` is true if the drawing selects changes of the row.
    - ``constant`` is true if each cell of the row has the same text in all states.
    - ``states`` has for each state a list: for each cell, the number of its text in ``number_of``.
    """
    columns = [dict(cells(lanes.type, state)) for state in states]
    places = list(columns[0])
    numbers = {place: i for i, place in enumerate(places)}
    texts = [[number_of(column[place]) for place in places] for column in columns]
    found: dict[str, dict[str, Any]] = {}
    for place in places:
        index, label, column = place
        table = found.setdefault(index, {"title": index, "columns": _columns(lanes, index), "rows": {}})
        row = table["rows"].setdefault(label, [None] * max(1, len(table["columns"])))
        row[column] = numbers[place]
    for table in found.values():
        table["rows"] = [
            [label, tells(lanes.drawing, label), all(_same(texts, cell) for cell in row), row]
            for label, row in table["rows"].items()
        ]
    ordered = sorted(found.values(), key=lambda table: not table["title"])
    return {"tables": ordered, "states": texts}


class Texts(dict[str, int]):
    """Texts, each with the number that stands for it in the data."""

    def __call__(self, text: str) -> int:
        """The number of a text, which is added if it is new."""
        return self.setdefault(text, len(self))


def cells(type: Struct, state: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """Every cell of a state with its text. The list of cells depends only on the type."""
    for name, inner in type.fields.items():
        value = state[name]
        if isinstance(inner, Messages):
            for kind, own in inner.fields.items():
                yield ("", f"{name}.{kind}", 0), say(own, value[kind])
        elif isinstance(inner, Array):
            items = value.values() if isinstance(value, Mapping) else value
            for i, item in enumerate(items):
                for label, text in _below(name, inner.element, item):
                    yield (inner.index.name, label, i), text
        else:
            for label, text in _below(name, inner, value):
                yield ("", label, 0), text


def _below(label: str, type: Type, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(type, Struct):
        for name, inner in type.fields.items():
            yield from _below(f"{label}.{name}", inner, value[name])
    elif isinstance(type, Array) and isinstance(type.element, Struct):
        for i, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _below(f"{label}[{i}]", type.element, item)
    else:
        yield label, say(type, value)


def _columns(lanes: Lanes, index: str) -> list[str]:
    """The heads of a table's columns: the titles of the index's lanes or, if it has no lanes, its values."""
    if not index:
        return []
    found = _index(lanes.type, index)
    if index in lanes.first:
        return [lanes.titles[lanes.lane_of(found, i)] for i in range(found.size)]
    return [f"{index} {found.key(i)}" for i in range(found.size)]


def _index(type: Struct, name: str) -> Index | Enum:
    """The index type with this name; if several have it, the largest."""
    own = [i.index for i in type.fields.values() if isinstance(i, Array) and i.index.name == name]
    return max(own, key=lambda index: index.size)


def _same(texts: Sequence[Sequence[int]], cell: int | None) -> bool:
    return cell is None or len({column[cell] for column in texts}) == 1


# The output of ``--html``: a page to step through runs. Without a run, no page is written.


class PageOutput:
    """The target of ``--html``.

    The constructor checks that the target can be written, so that a long search does not end without its page.
    """

    def __init__(self, target: str | None) -> None:
        self.target = target
        if target is not None:
            refuse_unwritable("--html", target)

    def write(self, request: Request, runs: Sequence[ShownRun], none: str) -> str:
        """Write the page of a scenario's runs, and return a line about it for the terminal.

        If ``runs`` is empty, no page is written, and the line gives the reason ``none``.
        """
        return self.write_about(request.scenario.title or request.scenario.name, about(request), runs, none)

    def write_about(
        self, title: str, about: Sequence[tuple[str, str]], runs: Sequence[ShownRun], none: str
    ) -> str:
        """Write a page of runs, and return a line with the number of runs.

        If ``runs`` is empty, no page is written, and the line gives the reason ``none``. ``about`` are pairs (title,
        text) about all runs.
        """
        assert self.target is not None
        if not runs:
            return f"--html {self.target}: not written, as {none}"
        write_page(self.target, title, runs, about)
        return f"--html {self.target}: {count(len(runs), 'run')} to step through"


_HERE = Path(__file__).parent


def page(data: Mapping[str, Any], *, style: str = "", script: str = "", asks: bool = False) -> str:
    """The HTML of a page. Data never becomes HTML, because the page's script only sets texts.

    ``style`` and ``script`` are added to the page, the script before the script that draws runs. ``asks`` allows the
    page to send requests, but only to its own server.
    """
    text = (_HERE / "run.html").read_text(encoding="utf-8")
    own = {name: (_HERE / name).read_text(encoding="utf-8") for name in ("run.css", "drawing.js", "run.js")}
    style = signs() + own["run.css"] + style
    script = own["drawing.js"] + script + own["run.js"]
    text = text.replace("{{style}}", style, 1).replace("{{script}}", script, 1)
    text = text.replace("{{policy}}", policy(text, asks=asks), 1)
    plain = "\n\n".join(run["markdown"] for run in data["runs"])
    text = text.replace("{{plain}}", html.escape(plain, quote=True), 1)
    before, _, after = text.rpartition("{{data}}")
    return f"{before}{as_json(data)}{after}"


def write_page(target: str, title: str, runs: Sequence[ShownRun], about: Sequence[tuple[str, str]]) -> None:
    """Write a page of runs to the file of ``--html``. Raises InputError if the file cannot be written."""
    write_text("--html", target, page(content(title, runs, about)))
