"""The results of all mutants over all scenarios, and the file that keeps them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, field

from highwater.checker.base import untrusted
from highwater.checker.base.output import write_text
from highwater.checker.base.problems import InputError
from highwater.checker.comparing.mutation.examining import (
    EQUIVALENT,
    KILLED,
    NOTICED,
    SURVIVED,
    MutantResult,
)
from highwater.model.language.mutation import Mutant

_FORMAT: Final = "highwater mutants 2"


class ScenarioResults(Struct, forbid_unknown_fields=True):
    """The results of one part of a scenario, by the mutants' numbers in its model."""

    digest: str
    results: dict[int, MutantResult] = field(default_factory=dict)


Parts = dict[tuple[str, str], ScenarioResults]
"""Results by scenario and part."""


class _Content(Struct, forbid_unknown_fields=True):
    """The kept file as JSON; ``sha256`` is the digest of ``scenarios``."""

    format: Literal["highwater mutants 2"]
    sha256: str
    scenarios: dict[str, dict[str, ScenarioResults]]


@dataclass
class Record:
    """One mutant, the actions that it changes, and its results by position and name of the scenario."""

    mutant: Mutant
    protocol: str
    actions: set[str] = dataclasses.field(default_factory=set)
    results: dict[tuple[int, str], MutantResult] = dataclasses.field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """One of the four verdicts. A mutant that no scenario compared survived."""
        kinds = {r.kind for r in self.results.values()}
        if kinds == {EQUIVALENT}:
            return EQUIVALENT
        return next((kind for kind in (KILLED, NOTICED) if kind in kinds), SURVIVED)

    @property
    def deciding(self) -> list[tuple[str, MutantResult]]:
        """The scenarios with the mutant's verdict, and their results, in order."""
        ordered = sorted(self.results.items())
        return [(scenario, r) for (_, scenario), r in ordered if r.kind == self.verdict]


def read(path: Path) -> Parts:
    """Read a kept file; empty if there is none. Raises InputError if ``highwater mutate`` did not write it."""
    try:
        content = untrusted.read_json(path)
    except FileNotFoundError:
        return {}
    except InputError as wrong:
        reason = str(wrong).removeprefix(f"{path}: ")
        raise InputError(f"{path}: not what highwater mutate keeps: {reason}") from None
    try:
        found = msgspec.convert(content, _Content, str_keys=True)
        if found.sha256 != _digest(content["scenarios"]):
            raise ValueError("it is damaged")
    except (AttributeError, TypeError, ValueError) as wrong:
        raise InputError(f"{path}: not what highwater mutate keeps: {wrong}") from None
    return {(scenario, name): part for scenario, of in found.scenarios.items() for name, part in of.items()}


def write(path: Path, parts: Parts) -> None:
    """Write a kept file: beside the old one, then renamed. Raises InputError if it cannot be written."""
    scenarios: dict[str, dict[str, ScenarioResults]] = {}
    for (scenario, name), part in sorted(parts.items()):
        ordered = ScenarioResults(part.digest, dict(sorted(part.results.items())))
        scenarios.setdefault(scenario, {})[name] = ordered
    plain = msgspec.to_builtins(scenarios, str_keys=True)
    text = json.dumps({"format": _FORMAT, "sha256": _digest(plain), "scenarios": plain}, indent=1)
    write_text("--keep", path, text + "\n")


def _digest(content: Mapping[str, Any]) -> str:
    """A digest of the content, whatever its layout as text."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
