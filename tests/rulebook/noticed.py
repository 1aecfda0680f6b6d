"""Compute which names in `model/audit.toml` notice a mistake: ``python -m tests.rulebook.noticed [RULE…]``.

For each sentence, operations in the functions that state it are changed one at a time, as by ``highwater mutate``. A
scenario notices if ``check`` then fails there: a property is violated, or an expected violation or goal is missing. A
property notices if it is violated in a standard scenario. Another number of states is not enough. With RULE, only the
sentences of these rules are computed.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from highwater.checker.base.problems import InputError
from highwater.checker.comparing import mutants
from highwater.checker.comparing.mutants import KILLED, Examination, MutantResult
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.scenario_files import Scenario
from highwater.model.language import LanguageError
from highwater.model.language.mutation import Mutant
from highwater.model.language.rulebook import AuditedSentence
from highwater.model.rulebook import AUDIT

BASELINE = Path(__file__).parents[2] / ".highwater" / "gate.toml"
MOST_STATES, MOST_SCENARIOS = 40_000, 8
"""The size of the scenarios in which a property is tried, and how many are tried, the smallest first."""

MOST_MORE = 1_000_000
"""The states after which a mutant is given up that lacks an expected violation."""


@dataclass(frozen=True)
class Notice:
    """A mutant that a name of the audit notices, and where."""

    scenario: str
    property: str
    place: str
    change: str

    def __str__(self) -> str:
        return f"{self.property} in {self.scenario}: {self.place} {self.change}"


class _Found(Exception):
    """Ends a comparison at the first mutant that is killed."""


def functions(sentence: AuditedSentence) -> set[tuple[str, str]]:
    """The (module, function) pairs of the places of a sentence; "" for a module that the audit does not name."""
    found = set()
    for name in sentence.at:
        *modules, function = [part for part in name.split(".") if part.islower()]
        found.add((modules[-1] if modules else "", function))
    return found


def is_in(mutant: Mutant, places: set[tuple[str, str]]) -> bool:
    """True if the mutant is in one of these functions."""
    module = Path(mutant.place.rpartition(":")[0]).stem
    within = {part for part in mutant.within.split(".") if part != "<locals>"}
    return any(function in within and name in ("", module) for name, function in places)


def trials(name: str, sentence: AuditedSentence) -> Iterator[Scenario]:
    """The scenarios in which a name of the audit can notice a mistake; for a property, with this property alone."""
    if "/" in name:
        yield scenario_files.find(name)
        return
    facts = tomllib.loads(BASELINE.read_text())["scenarios"]
    fitting = []
    for scenario in scenario_files.standard():
        stated = scenario.definition
        checked = {p.name for p in (*stated.invariants, *stated.step_properties)}
        checked |= {p.name for p in stated.liveness}
        if name in scenario.expectation.reachable or (name in checked and not scenario.expectation.violated):
            known = facts.get(scenario.name, {})
            states = known.get("distinct_states", MOST_STATES)
            if states < MOST_STATES and known.get("premises", {}).get(name, 1):
                fitting.append((states, scenario))
    for _, scenario in sorted(fitting, key=lambda f: f[0])[:MOST_SCENARIOS]:
        goal = name in scenario.expectation.reachable
        yield replace(scenario, properties=() if goal else (name,))


def notices(name: str, sentence: AuditedSentence) -> Notice | None:
    """The first mutant of the sentence's functions that the name of the audit notices; None if there is none."""
    for scenario in trials(name, sentence):
        found = killed(scenario, functions(sentence), name)
        if found is not None:
            return found
    return None


def killed(scenario: Scenario, places: set[tuple[str, str]], name: str = "/") -> Notice | None:
    """The first mutant in ``places`` with which ``check`` fails in a scenario, by ``name`` if it is a property."""
    try:
        examination = Examination(Request.of(scenario, Overrides()).without_symmetry())
    except (InputError, LanguageError):
        return None
    numbers = [n for n, mutant in examination.mutants.items() if is_in(mutant, places)]
    found: list[Notice] = []

    def report(number: int, result: MutantResult) -> None:
        told = (result.property or "").split(", ")
        if result.kind == KILLED and ("/" in name or name in told):
            mutant = examination.mutants[number]
            place = f"{Path(mutant.place).name} {mutant.within}"
            found.append(Notice(scenario.name, result.property or "", place, mutant.change))
            raise _Found

    liveness = {p.name for p in scenario.definition.liveness}
    lives = liveness & set(scenario.properties or ())
    for compare in (examination.safety, *([examination.liveness] if lives else [])):
        try:
            if numbers:
                compare(numbers, report, MOST_MORE)
        except _Found:
            return found[0]
        except (InputError, LanguageError):
            continue
    return None


def suggested(sentence: AuditedSentence) -> Notice | None:
    """A notice for a sentence of which nothing in the audit notices a mistake, in the smallest scenarios."""
    facts = tomllib.loads(BASELINE.read_text())["scenarios"]
    for scenario in sorted(
        scenario_files.standard(), key=lambda s: facts.get(s.name, {}).get("distinct_states", MOST_STATES)
    ):
        states = facts.get(scenario.name, {}).get("distinct_states", MOST_STATES)
        safe = scenario.properties is None or "step_properties" in scenario.properties
        if 500 < states < MOST_STATES and safe and (found := killed(scenario, functions(sentence))):
            return found
    return None


def computed(sentences: Iterator[AuditedSentence]) -> Iterator[tuple[AuditedSentence, str, Notice | None]]:
    """For each name in the audit of these sentences, what it notices."""
    for sentence in sentences:
        for name in sentence.noticed:
            yield sentence, name, notices(name, sentence)


def main(rules: list[str]) -> int:
    """Print who notices each sentence's mistakes. Returns 1 if some name of the audit notices nothing."""
    mutants._MORE = MOST_MORE
    silent = 0
    for sentence, name, notice in computed(s for s in AUDIT if s.noticed and (not rules or s.rule in rules)):
        silent += notice is None
        said = notice or f"NOTHING, but {suggested(sentence)}"
        print(f"{sentence.rule} {sentence.says[:50]!r} {name}: {said}", flush=True)
    return int(silent > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
