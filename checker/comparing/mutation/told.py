"""A run read back from its JSON: so that reasons can be added to it, and pages made of it, without another run."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import highwater
from highwater.checker.base import untrusted
from highwater.checker.base.problems import InputError
from highwater.checker.comparing.mutation.findings import Record, result
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
        return _findings(content)
    except (AttributeError, KeyError, TypeError, ValueError) as wrong:
        raise InputError(f"{path}: not what highwater mutate writes: {wrong}") from None


def _findings(content: dict[str, Any]) -> Findings:
    sizes = {_of(str, s["name"]): _size(s["states"]) for s in content["scenarios"]}
    found = Findings(
        scenarios=list(sizes),
        sizes=sizes,
        notes=[_of(str, note) for note in content["notes"]],
        seconds=float(content["seconds"]),
        processor_seconds=float(content["processor_seconds"]),
        interrupted=_of(bool, content["interrupted"]),
    )
    for told in content["mutants"]:
        record = _record(told, sizes)
        found.records[record.mutant] = record
    return found


def _record(told: dict[str, Any], known: Collection[str]) -> Record:
    texts = (_of(str, told[key]) for key in ("place", "within", "kind", "change", "name"))
    place, within, kind, change, name = texts
    first, end = (_of(int, column) for column in told["columns"])
    file = place.rpartition(":")[0]
    mutant = Mutant(
        place, _of(int, told["last_line"]), (first, end), within, kind, change, name, str(_ROOT / file)
    )
    record = Record(mutant, _of(str, told["protocol"]), {_of(str, action) for action in told["actions"]})
    for position, one in enumerate(
        told["results"]
    ):  # a scenario stands there twice where liveness was asked too
        scenario = _of(str, one["scenario"])
        if scenario not in known:
            raise ValueError(f"{scenario!r} is none of the scenarios")
        rest = {key: value for key, value in one.items() if key != "scenario"}
        record.results[position, scenario] = result(rest)
    return record


def _of(kind: type[Any], value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{value!r} is no {kind.__name__}")
    return value


def _size(value: Any) -> int | None:
    return None if value is None else _of(int, value)
