"""Traces written from runs of the model, and an independent check that a trace is a run."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from highwater.checker.engines import by_name as engines
from highwater.checker.scenarios import catalogue
from highwater.checker.scenarios.request import Request, asked
from highwater.checker.scenarios.search import SearchOptions, ViolatingRun
from highwater.model.language.errors import LanguageError
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Model
from highwater.traces.reports.report import Report
from highwater.traces.runs import random_walk, replay_run
from highwater.traces.runs.writing import meta_of, step_lines

Lines = list[dict[str, Any]]


@cache
def request_of(scenario: str) -> Request:
    return asked(scenario)


@cache
def model_of(scenario: str) -> Model:
    return request_of(scenario).model()


def lines_of_run(scenario: str, initial: Any, path: Iterable[int], whole: bool = False) -> Lines:
    request, model = request_of(scenario), model_of(scenario)
    first = meta_of(
        model, protocol=request.scenario.definition.name, scenario=scenario, profile=request.profile
    )
    return json.loads(json.dumps([first, *step_lines(model, initial, path, whole=whole)]))


def walk_of(scenario: str, depth: int = 25, seed: int = 0, whole: bool = False) -> Lines:
    walk = random_walk(model_of(scenario), depth, seed)
    return lines_of_run(scenario, walk.initial, walk.path, whole)


@cache
def violation_of(scenario: str) -> ViolatingRun:
    options = SearchOptions(workers=1, stop_at_first=True, symmetry=request_of(scenario).symmetry)
    return engines.search("native")(model_of(scenario), options, None).violations[0]


def counterexample_of(scenario: str, whole: bool = False) -> Lines:
    violation = violation_of(scenario)
    return lines_of_run(scenario, violation.initial, violation.path, whole)


def good_run() -> Lines:
    """A run of 12 lines after the first one."""
    return walk_of("truncation/kip-101", depth=12)


def bad_run() -> Lines:
    """The lines of ``good_run``, of which the last does not conform."""
    lines = good_run()
    assert (lines[-1]["action"], lines[-1]["step"]) == ("follower_fetch", 11)
    lines[-1]["changes"]["next_record_id"] = 0
    return lines


def write(path: Path, lines: Lines) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def replayed(folder: Path, lines: Lines, **arguments: Any) -> Report:
    return replay_run(write(folder / "run.ndjson", lines), **arguments)


# --- the independent check ------------------------------------------------------------------------------


@cache
def _built(protocol: str, profile: str | None, rules: str, parameters: str) -> tuple[Model, Interpreter]:
    definition = catalogue.load(protocol)
    kind = definition.protocol
    on = set(kind.rules if profile is None else kind.profiles[profile].rules)
    for name, is_on in json.loads(rules).items():
        on = on | {name} if is_on else on - {name}
    model = Model(kind(json.loads(parameters), on), definition.invariants)
    return model, Interpreter(model)


def is_run(lines: Lines) -> bool:
    """True if a trace with whole states or all changes is a run of the model without a violation.

    The language decodes the states, and every instance is tried at each step. Missing fields match any value.
    """
    meta = lines[0]["meta"]
    model, interpreter = _built(
        meta["protocol"],
        meta.get("profile"),
        json.dumps(meta.get("rules", {})),
        json.dumps(meta.get("parameters", {})),
    )
    codes = {code for code in model.initial if agrees(model, code, lines[1]["state"])}
    for line in lines[2:]:
        if not codes or any(interpreter.violated(code) for code in codes):
            return False
        codes = {
            step.state
            for code in codes
            for step in interpreter.steps(code)
            if step.state is not None
            and line.get("action", step.instance.action.name) == step.instance.action.name
            and all(same(step.instance.parameters.get(k), v) for k, v in line.get("parameters", {}).items())
            and (
                agrees(model, step.state, line["state"])
                if "state" in line
                else step.state == wanted(model, code, line)
            )
        }
    return bool(codes) and not any(interpreter.violated(code) for code in codes)


def agrees(model: Model, code: Any, recorded: Any) -> bool:
    """True if a state has every recorded field's value."""
    return code_of(model, completed(recorded, model.decode(code))) == code


def completed(recorded: Any, plain: Any) -> Any:
    if isinstance(recorded, dict) and isinstance(plain, dict):
        return {**plain, **{k: completed(v, plain.get(k)) for k, v in recorded.items()}}
    if isinstance(recorded, list) and isinstance(plain, list) and len(recorded) == len(plain):
        return [completed(a, b) for a, b in zip(recorded, plain, strict=True)]
    return recorded


def wanted(model: Model, code: Any, line: dict[str, Any]) -> Any:
    """The state after applying the line's changes to ``code``, or None if they do not apply."""
    try:
        return code_of(model, changed(model.decode(code), line["changes"]))
    except (KeyError, IndexError, TypeError):
        return None


def code_of(model: Model, plain: Any) -> Any:
    """Encode a decoded state; None if it is invalid."""
    try:
        return model.protocol.state.encode(plain)
    except (LanguageError, KeyError, IndexError, TypeError):
        return None


def same(plain: Any, recorded: Any) -> bool:
    """True if two parameter values are equal; 1 and true differ."""
    return json.dumps(plain) == json.dumps(recorded)


def changed(plain: Any, changes: dict[str, Any]) -> Any:
    plain = copy.deepcopy(plain)
    for path, value in changes.items():
        *way, last = [int(p) if p.isdigit() else p for p in re.findall(r"\w+", path)]
        place = plain
        for part in way:
            place = place[part]
        place[last] = value
    return plain
