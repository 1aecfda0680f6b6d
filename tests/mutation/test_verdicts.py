"""The four verdicts: for each mutant of a small protocol, and for a larger one against the interpreter."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.comparing.gate.entries import NUMBERS
from highwater.checker.comparing.gate.entries import _found as gate_facts
from highwater.checker.comparing.mutation import examining
from highwater.checker.comparing.mutation.examining import (
    EQUIVALENT,
    HOLDS,
    KILLED,
    LEAVES,
    LIMIT,
    NOT_COMPARED,
    NOTICED,
    SAME_COUNTS,
    SURVIVED,
    VIOLATED,
    Examination,
    MutantResult,
    Record,
    counts_of,
)
from highwater.checker.comparing.mutation.report import source_of
from highwater.checker.engines import native, reference
from highwater.checker.scenarios.request import asked
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import BoundError, interpreter_of
from highwater.model.language.model import Model
from highwater.model.language.mutated import MutatedModel
from highwater.model.language.mutation import Mutant
from tests.models import scenario_model
from tests.mutation import library
from tests.mutation.small import COUNTER, LAMP, at


def examination(directory: Path, source: str, name: str, scenario: str = "") -> Examination:
    """The examination of a scenario outside of the project."""
    (directory / f"{name}.py").write_text(source)
    file = directory / f"{name}.toml"
    file.write_text(f'protocol = "{name}.py"\n{scenario}')
    return Examination(asked(str(file)))


def compared(found: Examination, limit_states: int | None = None) -> dict[int, MutantResult]:
    results: dict[int, MutantResult] = {}
    found.safety(found.mutants, results.__setitem__, limit_states)
    assert results.keys() == found.mutants.keys()
    return results


def named(found: Examination, results: dict[int, MutantResult]) -> dict[tuple[str, str, str], Any]:
    """The results as (kind, text, change) → verdict and reason."""
    return {(m.kind, m.name or source_of(m), m.change): _plain(results[n]) for n, m in found.mutants.items()}


def _plain(result: MutantResult) -> tuple[Any, ...]:
    if result.kind == NOTICED:
        return NOTICED, result.count, result.expected, result.found
    return tuple(x for x in (result.kind, result.how, result.property, result.depth) if x is not None)


def test_a_limit_ends_the_comparison(tmp_path: Path) -> None:
    """Within the limit, only violations and smaller state counts are detected."""
    found = examination(tmp_path, LAMP, "lamp")
    whole, some = named(found, compared(found)), named(found, compared(found, limit_states=6))
    assert whole["guard", "it is on", "dropped"] == (KILLED, VIOLATED, "it_is_seen_by_its_light", 2)
    assert whole["branch", "where(s.on, Side.LEFT, Side.RIGHT)", "where: swapped"] == (SURVIVED, SAME_COUNTS)
    assert {verdict for verdict, *_ in whole.values()} == {KILLED, NOTICED, EQUIVALENT, SURVIVED}
    for mutant, (verdict, *why) in whole.items():
        if verdict == NOTICED and why[0] == "distinct_states" and why[2] <= 6:
            assert some[mutant] == (NOTICED, "distinct_states", None, why[2])
        else:
            assert some[mutant] == (whole[mutant] if verdict == KILLED else (SURVIVED, LIMIT))


def test_an_expected_violation_that_does_not_come(tmp_path: Path) -> None:
    """The protocol's search stops at the violation; mutants without it may use all states."""
    text = LAMP.replace("return ~s.seen | s.on", "return ~s.seen")
    found = examination(tmp_path, text, "lamp", '[expect]\nviolated = ["it_is_seen_by_its_light"]\n')
    plain = named(found, compared(found))
    for mutant in (("write", "s.next.seen", "dropped"), ("write", "s.next.on", "dropped")):
        assert plain[mutant][:3] == (KILLED, HOLDS, "it_is_seen_by_its_light")
    assert plain["guard", "it is on", "dropped"] == (NOTICED, "distinct_states", 6, 4)
    assert plain["operation", "s.seen & s.on", "and: left only"] == (EQUIVALENT,)


def test_an_expected_violation_that_comes_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol's search stops after 3 of its 8 states; a mutant without the violation may use all."""
    monkeypatch.setattr(examining, "_TIMES", 1)
    monkeypatch.setattr(examining, "_MORE", 0)
    found = examination(tmp_path, COUNTER, "counter", '[expect]\nviolated = ["it_stays_down"]\n')
    found.states = 8
    assert named(found, compared(found))["write", "s.next.up", "dropped"] == (
        KILLED,
        HOLDS,
        "it_stays_down",
        4,
    )


def test_steps_that_only_one_count_or_none_shows(tmp_path: Path) -> None:
    """One mutant disables a step that was pruned; another takes another instance between the same states."""
    found = examination(tmp_path, COUNTER, "counter", "properties = []\n")
    plain = named(found, compared(found))
    assert plain["operation", "s.count <= 3", "<=: <"] == (NOTICED, "cut.top", 6, 4)
    assert plain["operation", "s.side == side", "==: !="] == (SURVIVED, SAME_COUNTS)


@pytest.mark.parametrize("name", ["truncation/kip-320", "quorum/small-elections", "truncation/kip-101"])
def test_the_counts_are_those_of_the_gate(name: str) -> None:
    """Compares all numbers of the scenario in the baseline, by name."""
    model = scenario_model(name)
    result = native.search(model, SearchOptions(workers=1))
    violated = {v.property: v.depth for v in result.violations}
    facts = gate_facts(model, result, violated, symmetry=False, deadlock=False)
    numbers = {
        f"{table}.{one}" if isinstance(found, dict) else table: count
        for table in NUMBERS
        if (found := facts.get(table)) is not None
        for one, count in (found.items() if isinstance(found, dict) else [("", found)])
    }
    own = counts_of(result)
    assert {count: own[count] for count in numbers} == numbers
    assert [count for count in own.keys() - numbers if own[count]] == []


def steps_of(model: MutatedModel) -> dict[Scalars, tuple[int, list[Any]]]:
    """Each reachable state of the protocol, without the mutant's fields: its depth and its steps, breadth first."""
    found = dict[Scalars, tuple[int, list[Any]]]()
    level, depth = {state[: model.own_leaves] for state in model.initial}, 1
    while level:
        found |= {state: (depth, _steps(model, state, 0)) for state in level}
        reached = {step for state in level for _, step in found[state][1] if isinstance(step, tuple)}
        level, depth = reached - found.keys(), depth + 1
    return found


def _steps(model: MutatedModel, state: Scalars, mutant: int) -> list[Any]:
    interpreter, found = interpreter_of(model), list[Any]()
    whole = (*state, *model.constants(mutant))
    for number in interpreter.enabled(whole):
        name = str(model.instances[number])
        try:
            step = interpreter.step(whole, number)
        except BoundError:
            found.append((name, "leaves its type"))
        else:
            found.append((name, step.cut or (step.state and step.state[: model.own_leaves])))
    return sorted(found, key=lambda one: one[0])


def by_the_reference(model: Model, differs: int | None, counts: dict[str, int]) -> tuple[Any, ...]:
    """The verdict on a mutant by definition, from the interpreter's search."""
    if differs is None:
        return (EQUIVALENT,)
    try:
        result = reference.search(model, SearchOptions(workers=1, stop_at_first=True))
        if result.violations:
            depth, name = min((v.depth, v.property) for v in result.violations)
            return KILLED, VIOLATED, name, depth
    except BoundError:
        return KILLED, LEAVES
    own = counts_of(result)
    for count, expected in counts.items():
        if own[count] != expected:
            return NOTICED, count, expected, own[count]
    return SURVIVED, SAME_COUNTS


@pytest.mark.parametrize("properties", ["", "properties = []\n"], ids=["with properties", "without"])
def test_every_mutant_of_the_library(tmp_path: Path, properties: str) -> None:
    """More than a hundred mutants, with a limit that no search reaches."""
    shutil.copy(library.__file__, tmp_path / "library.py")
    source = Path(library.__file__).read_text()
    found = examination(tmp_path, source, "library", f"{properties}[parameters]\nmost = 1\n")
    model = found.model
    plain, counts = steps_of(model), counts_of(reference.search(at(model, 0), SearchOptions(workers=1)))
    for number, result in compared(found).items():
        others = (depth for state, (depth, steps) in plain.items() if _steps(model, state, number) != steps)
        differs = next(others, None)
        assert result.differs == differs, found.mutants[number]
        expected = by_the_reference(at(model, number), differs, counts)
        assert _plain(result)[: len(expected)] == expected, found.mutants[number]


def test_verdicts_over_several_scenarios() -> None:
    """Kills take precedence over count differences, and one difference rules out equivalence."""
    mutant = Mutant("model/x.py:1", 1, (0, 1), "act", "guard", "dropped", "a guard", "")
    cases = {
        (): NOT_COMPARED,
        (EQUIVALENT, EQUIVALENT): EQUIVALENT,
        (EQUIVALENT, SURVIVED): SURVIVED,
        (SURVIVED, NOTICED, EQUIVALENT): NOTICED,
        (NOTICED, EQUIVALENT, KILLED, SURVIVED): KILLED,
    }
    for kinds, verdict in cases.items():
        results = {(number, "s"): MutantResult(kind) for number, kind in enumerate(kinds)}
        record = Record(mutant, "x", results=results)
        assert record.verdict == verdict
        assert len(record.deciding) == Counter(kinds)[verdict]
