"""What was found of all mutants, over all scenarios; and the file that keeps it."""

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
    ELSEWHERE,
    EQUAL,
    KILLED,
    NEARBY,
    SURVIVED,
    UNFINISHED,
    Count,
    MutantResult,
)
from highwater.model.language.mutation import Mutant

WITHIN, REDUNDANT, LISTED = "within", "redundant", "listed"
"""Verdicts on mutants that survived: it reaches no state that the protocol does not; besides, from every state it
reaches the same ones; somebody has given a reason."""
_FORMAT: Final = "highwater mutants 1"
_DIGEST = "sha256"


class ScenarioResults(Struct):
    """What one scenario said, of its invariants or of its liveness: results by the numbers that its model gives."""

    digest: str
    results: dict[int, MutantResult] = field(default_factory=dict)


class Size(Struct, frozen=True, forbid_unknown_fields=True):
    """How many states a scenario has as it is; None: more than ``limit``. ``digest`` is that of its kernels."""

    digest: str
    states: Count | None
    limit: Count | None

    def is_known(self, digest: str, limit: int | None) -> bool:
        """Whether this answers the question for kernels and a limit."""
        if digest != self.digest:
            return False
        return self.states is not None or (
            limit is not None and self.limit is not None and limit <= self.limit
        )


@dataclass
class KeptFile:
    """What a file keeps: sizes by scenario, parts by scenario and name."""

    sizes: dict[str, Size] = dataclasses.field(default_factory=dict)
    parts: dict[tuple[str, str], ScenarioResults] = dataclasses.field(default_factory=dict)


class _Content(Struct, forbid_unknown_fields=True):
    """The same as JSON."""

    format: Literal["highwater mutants 1"]
    scenarios: dict[str, dict[str, ScenarioResults]]
    sizes: dict[str, Size] = {}


@dataclass
class Record:
    """What is known of one mutant: the actions that it changes, and what each scenario said, in their order."""

    mutant: Mutant
    protocol: str
    actions: set[str] = dataclasses.field(default_factory=set)
    results: dict[tuple[int, str], MutantResult] = dataclasses.field(default_factory=dict)
    reason: str | None = None

    @property
    def killed(self) -> tuple[tuple[int, str], MutantResult] | None:
        """The first scenario that kills it."""
        return next(((k, r) for k, r in sorted(self.results.items()) if r.kind == KILLED), None)

    @property
    def is_within(self) -> bool:
        """Whether it has other steps, and none of them leads to a state that the protocol does not reach."""
        return self._found in (WITHIN, REDUNDANT)

    @property
    def is_hole(self) -> bool:
        """Whether it changes a step, and nothing notices."""
        return self._found not in (KILLED, EQUAL, REDUNDANT)

    @property
    def verdict(self) -> str:
        """What came of it: ``listed`` and other words for holes, or one of these.

        ``killed``; ``equal`` where no scenario has another step; ``redundant`` where other steps do what
        its own do not.
        """
        return LISTED if self.is_hole and self.reason is not None else self._found

    @property
    def _found(self) -> str:
        whole = [r for r in self.results.values() if r.how != NEARBY]
        kinds = {r.kind for r in whole}
        if kinds <= {EQUAL}:
            nearby = [r for r in self.results.values() if r.how == NEARBY]
            elsewhere = any(r.differs is not None for r in nearby)  # where not all is known
            return EQUAL if kinds and not elsewhere else UNFINISHED
        found = next(k for k in (KILLED, UNFINISHED, SURVIVED) if k in kinds)
        # Of others not all states were seen, as they end where they are to be violated.
        known = [r for r in whole if r.kind == SURVIVED and r.new is not None]
        if found != SURVIVED or not known or any(r.new for r in known):
            return found
        return REDUNDANT if all(r.how == ELSEWHERE for r in known) else WITHIN

    @property
    def differing(self) -> list[tuple[tuple[int, str], MutantResult]]:
        """What those scenarios said in which it has another step, in their order."""
        other = [(key, r) for key, r in sorted(self.results.items()) if r.kind != EQUAL]
        return [(key, r) for key, r in other if r.how != NEARBY or r.differs is not None]


def read(path: Path) -> KeptFile:
    """What a file keeps; nothing without a file. InputError where it is not ours."""
    try:
        content = untrusted.read_json(path)
    except FileNotFoundError:
        return KeptFile()
    except InputError as wrong:
        said = str(wrong).removeprefix(f"{path}: ")
        raise InputError(f"{path}: not what highwater mutate keeps: {said}") from None
    try:
        digest = content.pop(_DIGEST, None)  # one that was written before has none
        if digest is not None and digest != _digest(content):
            raise ValueError("it is damaged")
        found = msgspec.convert(content, _Content, str_keys=True)
    except (AttributeError, TypeError, ValueError) as wrong:
        raise InputError(f"{path}: not what highwater mutate keeps: {wrong}") from None
    parts = ((scenario, name, part) for scenario, of in found.scenarios.items() for name, part in of.items())
    return KeptFile(found.sizes, {(scenario, name): part for scenario, name, part in parts})


def write(path: Path, kept: KeptFile) -> None:
    """Keep this in a file: written beside it, and renamed. InputError where it cannot be written."""
    found = _Content(_FORMAT, {}, dict(sorted(kept.sizes.items())))
    for (scenario, name), part in sorted(kept.parts.items()):
        ordered = ScenarioResults(part.digest, dict(sorted(part.results.items())))
        found.scenarios.setdefault(scenario, {})[name] = ordered
    content = msgspec.to_builtins(found, str_keys=True)
    text = json.dumps({**content, _DIGEST: _digest(content)}, indent=1)
    write_text("--keep", path, text + "\n")


def _digest(content: Mapping[str, Any]) -> str:
    """Of what a file says, however it is set."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
