"""A run read back from its JSON: so that reasons can be added to it, and pages made of it, without another run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct, convert

import highwater
from highwater.checker.base import untrusted
from highwater.checker.base.problems import InputError
from highwater.checker.comparing.mutation.examining import Count, MutantResult
from highwater.checker.comparing.mutation.findings import Record
from highwater.checker.comparing.mutation.run import Findings
from highwater.model.language.mutation import Mutant

_ROOT = Path(highwater.__file__).parents[1]


def read(path: Path) -> Findings:
    """What ``highwater mutate --json`` wrote; InputError where it is not that. Reasons are left out."""
    try:
        content = untrusted.read_json(path)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except InputError as wrong:
        said = str(wrong).removeprefix(f"{path}: ")
        raise InputError(f"{path}: not what highwater mutate writes: {said}") from None
    try:
        return _findings(convert(content, _Content))
    except (AttributeError, KeyError, TypeError, ValueError) as wrong:
        raise InputError(f"{path}: not what highwater mutate writes: {wrong}") from None


class _Scenario(Struct):
    name: str
    states: Count | None


class _Mutant(Struct):
    place: str
    last_line: int
    columns: tuple[int, int]
    within: str
    protocol: str
    actions: set[str]
    kind: str
    name: str
    change: str
    results: list[dict[str, Any]]


class _Content(Struct):
    scenarios: list[_Scenario]
    mutants: list[_Mutant]
    notes: list[str]
    seconds: float
    processor_seconds: float
    interrupted: bool


def _findings(told: _Content) -> Findings:
    sizes = {s.name: s.states for s in told.scenarios}
    found = Findings(
        scenarios=list(sizes),
        sizes=sizes,
        notes=told.notes,
        seconds=told.seconds,
        processor_seconds=told.processor_seconds,
        interrupted=told.interrupted,
    )
    for one in told.mutants:
        path = str(_ROOT / one.place.rpartition(":")[0])
        mutant = Mutant(
            one.place, one.last_line, one.columns, one.within, one.kind, one.change, one.name, path
        )
        found.records[mutant] = record = Record(mutant, one.protocol, one.actions)
        for position, result in enumerate(
            one.results
        ):  # a scenario is there twice where liveness was asked too
            scenario = result.pop("scenario")
            if scenario not in sizes:
                raise ValueError(f"{scenario!r} is none of the scenarios")
            record.results[position, scenario] = convert(result, MutantResult)
    return found
