"""The format ``highwater-trace-1``: a run of the model, or of anybody's system, as lines of JSON.

The first line says which protocol the run is held against; each later one is an observed step. The form is in
``trace.schema.json`` and explained in ``docs/trace-format.md``. What is read here is the form alone; what the
names and values mean is for the model (``steps.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from highwater.traces.reading.errors import printable
from highwater.traces.reading.fields import (
    INT64,
    Fields,
    Form,
    Place,
    Reader,
    choice,
    read_form,
    texts,
    whole,
)
from highwater.traces.reading.lines import read_lines

FORMAT = "highwater-trace-1"
MAX_HIDDEN = 100
"""The most unobserved steps that a trace may suppose before each line."""
MAX_OBSERVED = 10_000
"""The most paths that a trace may name as observed."""
STARTS = ("initial", "given")


@dataclass(frozen=True)
class TraceMeta:
    """The first line of a trace.

    ``rules`` are switched over the profile (None: every rule on). ``observed`` are the paths of the state that
    lines tell about (None: all). ``hidden_steps`` is how many unobserved steps may come before each line.
    ``start`` is "initial" for a run from the beginning, "given" where the first line holds the state that
    the rest goes on from.
    """

    place: Place
    protocol: str
    scenario: str | None = None
    profile: str | None = None
    rules: Mapping[str, bool] = field(default_factory=dict)
    parameters: Mapping[str, int] = field(default_factory=dict)
    start: str = "initial"
    observed: tuple[str, ...] | None = None
    hidden_steps: int = 0


@dataclass(frozen=True)
class StepLine:
    """An observed step, as it stands in the file; ``time_ms`` is not looked at. Step 0 is the state at the start."""

    place: Place
    step: int
    time_ms: int | None
    action: str | None
    parameters: Mapping[str, Any]
    state: Any
    changes: Mapping[str, Any] | None
    has_state: bool


@dataclass(frozen=True)
class RunTrace:
    """A trace that is open: its first line, and the others, which can be read once."""

    path: Path
    meta: TraceMeta
    lines: Iterator[StepLine]


def is_run_trace(first: Any) -> bool:
    """Whether a file with this first line, parsed, is a trace in this format."""
    meta = first.get("meta") if isinstance(first, dict) else None
    return isinstance(meta, dict) and meta.get("format") == FORMAT


def read_run(path: Path) -> RunTrace:
    """Open a trace; its lines are read as they are asked for, in bounded memory.

    Raises TraceError, now or then, where the file is no trace or a line has not the form that it should have.
    """
    source = read_lines(path)
    first_number, first = next(source)
    return RunTrace(path, _meta(Place(path, first_number), first), _lines(path, source))


def _meta(place: Place, first: dict[str, Any]) -> TraceMeta:
    meta = Fields(place, first, ("meta",)).raw("meta")
    found = read_form(place.at("meta"), meta, _META, _META_OPTIONAL)
    said = {name: value for name, value in found.items() if name not in ("format", "about")}
    return TraceMeta(place.at("meta"), **said)


def _lines(path: Path, source: Iterator[tuple[int, dict[str, Any]]]) -> Iterator[StepLine]:
    last: int | None = None
    place = Place(path, 1)
    for line_number, raw in source:
        place = Place(path, line_number)
        fields = Fields(place, raw, ("step",), _LINE_OPTIONAL)
        step = fields.number("step", 0, INT64)
        expected = (0, 1) if last is None else (last + 1,)
        if step not in expected:
            numbers = " or ".join(map(str, expected))
            raise place.at("step").wrong(f"expected {numbers}, not {step}: steps are counted one by one")
        last = step
        yield _line(place, step, fields)
    if last is None:
        raise place.wrong("no line follows: the trace has no steps")


def _line(place: Place, step: int, fields: Fields) -> StepLine:
    action = fields.text("action") if "action" in fields else None
    parameters = _object(fields, "parameters")
    if parameters and action is None:
        raise place.at("parameters").wrong("parameters of no action")
    changes = _object(fields, "changes") if "changes" in fields else None
    if step == 0 and action is not None:
        raise place.at("action").wrong("step 0 is the state at the start: no action led to it")
    if step == 0 and changes is not None:
        raise place.at("changes").wrong("step 0 is the state at the start: nothing was before it")
    return StepLine(
        place,
        step,
        fields.number("time_ms", -INT64, INT64) if "time_ms" in fields else None,
        action,
        parameters,
        fields.raw("state") if "state" in fields else None,
        changes,
        "state" in fields,
    )


def _object(fields: Fields, name: str) -> dict[str, Any]:
    """An object from names to values; empty where there is none."""
    if name not in fields:
        return {}
    value = fields.raw(name)
    if not isinstance(value, dict):
        raise fields.place.at(name).wrong("expected an object")
    return value


def _named(read: Reader) -> Reader:
    """An object from names, which can be any text, to values that are read so."""

    def by_name(fields: Fields, name: str) -> dict[str, Any]:
        place, given = fields.place.at(name), _object(fields, name)
        return {
            key: read(Fields(place, {shown: value}, (shown,)), shown)
            for key, value in given.items()
            for shown in (printable(key, 60),)
        }

    return by_name


def _observed(fields: Fields, name: str) -> tuple[str, ...]:
    found = tuple(texts(fields, name))
    if len(found) > MAX_OBSERVED:
        raise fields.place.at(name).wrong(f"more than {MAX_OBSERVED} paths")
    return found


_META: Form = {"format": choice(FORMAT), "protocol": Fields.text}
_META_OPTIONAL: Form = {
    "scenario": Fields.text_or_null,
    "profile": Fields.text_or_null,
    "rules": _named(Fields.flag),
    "parameters": _named(whole(-INT64, INT64)),
    "start": choice(*STARTS),
    "observed": _observed,
    "hidden_steps": whole(0, MAX_HIDDEN),
    "about": Fields.raw,
}
_LINE_OPTIONAL = ("time_ms", "action", "parameters", "state", "changes", "about")
