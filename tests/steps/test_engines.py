"""All engines agree on step properties that hold or fail, and on random ones."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import event, given, note, settings
from hypothesis import strategies as st

from highwater.checker.engines import native, reference
from highwater.checker.engines.native.program import Program
from highwater.checker.engines.native.state_graph import explore
from highwater.checker.engines.solver import bounded
from highwater.checker.engines.state_graph import Explored
from highwater.checker.report import counterexample
from highwater.checker.scenarios.search import EngineError, SearchOptions, SearchResult, SimulationOptions
from highwater.model.language import (
    Int,
    Model,
    Protocol,
    State,
    StepProperty,
    Struct,
    action,
    implies,
    require,
    step_properties,
    step_property,
    where,
)
from highwater.model.language.interpreter import BoundError, Interpreter, compile_nodes
from tests.language.random_protocols import Expression, Stated, a_plain, a_protocol, shown
from tests.language.test_random_protocols import traced
from tests.native.on_disk import PARTS, assert_same, manifest, on_disk, part, small_batches
from tests.steps.ledger import DEPTHS, Ledger, ledger, one_value_at_a_time, values_never_fall

ONE = SearchOptions(workers=1)
ALL = replace(ONE, all_states=True)


def depths(found: SearchResult) -> dict[str, int]:
    return {v.property: v.depth for v in found.violations}


def differences(found: SearchResult, expected: SearchResult) -> list[str]:
    """The parts of a result in which two engines differ."""
    told = [part for part in PARTS if getattr(found, part) != getattr(expected, part)]
    return told + ["violations"] * (depths(found) != depths(expected))


@pytest.fixture(scope="module")
def model() -> Model:
    return ledger()


@pytest.fixture(scope="module")
def expected(model: Model) -> SearchResult:
    return reference.search(model, ALL)


def test_the_reference_finds_shortest_runs(model: Model, expected: SearchResult) -> None:
    assert depths(expected) == DEPTHS
    examples = counterexample.follow_all(model, expected.violations)
    assert [e.name for e in examples] == ["values_never_fall", "term_never_falls", "one_value_at_a_time"]
    assert all(e.of_step for e in examples)
    assert expected.premises["nothing_to_say"] == 0
    assert 0 < expected.premises["leaders_have_terms"] < expected.premises["something_happens"]


@pytest.mark.parametrize("workers", [1, 3])
def test_the_native_search_agrees(model: Model, expected: SearchResult, workers: int) -> None:
    found = native.search(model, replace(ALL, workers=workers))
    assert differences(found, expected) == []
    counterexample.follow_all(model, found.violations)


def test_the_search_on_disk_agrees(
    model: Model, expected: SearchResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_batches(monkeypatch)
    found = on_disk(model, slots=1 << 9, workers=1, all_states=True)
    assert found.spilled_bytes > 0
    assert differences(found, expected) == []
    counterexample.follow_all(model, found.violations)


def test_z3_finds_the_same_depths(model: Model) -> None:
    some = ledger("values_never_fall", "leaders_have_terms", "something_happens", nodes=2)
    found = bounded.check(some, 7)
    assert depths(found) == depths(reference.search(some, ALL)) == {"values_never_fall": 6}
    counterexample.follow_all(some, found.violations)


def test_walks_end_with_the_step_that_violates() -> None:
    for name in DEPTHS:
        model = ledger(name)
        found = native.simulate(model, SimulationOptions(walks=20_000, depth=60, workers=1, seed=1))
        assert [v.property for v in found.violations] == [name]
        counterexample.follow_all(model, found.violations)
    holds = native.simulate(
        ledger("something_happens", "leaders_have_terms"), SimulationOptions(walks=50, workers=1)
    )
    assert not holds.violations
    assert holds.premises["leaders_have_terms"] > 0


def test_all_end_early_when_nothing_is_left_to_decide() -> None:
    model = Model(Ledger(), step_properties=[values_never_fall, one_value_at_a_time])
    for search in (reference.search, native.search):
        assert search(model, ONE).stopped_by == "violation"
        first = search(model, replace(ONE, stop_at_first=True))
        assert depths(first) == {"values_never_fall": 6}


# --- steps to visited states -------------------------------------------------------------------------------


@step_property("test")
def never_down(m: Any, before: State, after: State) -> Any:
    return before.n <= after.n


@step_property("test")
def never_still(m: Any, before: State, after: State) -> Any:
    return before.n != after.n


class Wheel(Protocol):
    """A number that wraps around: only the step to the initial state decreases it; ``stay`` changes nothing."""

    name = "wheel"
    step_properties = (never_down, never_still)

    def define(self) -> Struct:
        return Struct("State", n=Int(0, 3), other=Int(0, 1))

    @action()
    def up(self, s: State) -> None:
        require("below", s.n < 3)
        s.next.n = s.n + 1

    @action()
    def round(self, s: State) -> None:
        require("at the top", s.n == 3)
        s.next.n = 0

    @action()
    def stay(self, s: State) -> None:
        s.next.n = where(s.n == 3, 3, s.n)


def wheel() -> Model:
    return Model(Wheel(), step_properties=Wheel.step_properties)


def test_a_step_to_a_visited_state_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    model = wheel()
    small_batches(monkeypatch)
    for found in (
        reference.search(model, ONE),
        native.search(model, ONE),
        native.search(model, replace(ONE, workers=2)),
        on_disk(model, slots=1 << 9, workers=1),
        bounded.check(model, 6),
    ):
        assert depths(found) == {"never_down": 5}
        assert found.violations[0].path == (0, 0, 0, 1)
        assert [s.action for s in counterexample.follow_all(model, found.violations)[0].steps][-1] == "round"


def test_a_step_that_changes_nothing_is_not_checked() -> None:
    """``stay`` would violate ``never_still``; it is checked because it writes what the property reads."""
    model = wheel()
    assert 2 in model.step_properties[1].asked
    found = reference.search(model, ALL)
    assert "never_still" not in depths(found)
    assert found.premises["never_still"] == 8  # all steps of actions that can change the number
    assert differences(native.search(model, ALL), found) == []


# --- large properties ----------------------------------------------------------------------------------------


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Model:
    """The same model; only properties of changes count as large."""
    monkeypatch.setattr(step_properties, "LARGE", 0)
    found = ledger()
    large = {p.name for p in found.step_properties if p.is_large}
    assert large == {"leaders_have_terms"}
    return found


@pytest.mark.parametrize("workers", [1, 2])
def test_large_properties_are_checked_separately(apart: Model, expected: SearchResult, workers: int) -> None:
    assert differences(native.search(apart, replace(ALL, workers=workers)), expected) == []


def test_a_large_property_that_is_violated(monkeypatch: pytest.MonkeyPatch) -> None:
    @step_property("test")
    def leaders_go_by_terms(m: Ledger, before: State, after: State) -> Any:
        return implies(after.leader != before.leader, after.term == before.term + 2)

    wrong = Model(Ledger(), step_properties=[leaders_go_by_terms])
    told = reference.search(wrong, ALL)
    assert depths(told) == {"leaders_go_by_terms": 2}
    monkeypatch.setattr(step_properties, "LARGE", 0)
    large = Model(Ledger(), step_properties=[leaders_go_by_terms])
    assert large.step_properties[0].is_large
    assert differences(native.search(large, ALL), told) == []


def test_at_most_64_step_properties_are_supported() -> None:
    many = [replace(never_down, name=f"never_down_{i}") for i in range(65)]
    assert len(native.search(Model(Wheel(), step_properties=many[:64]), ALL).violations) == 64
    with pytest.raises(EngineError, match="at most 64"):
        native.search(Model(Wheel(), step_properties=many), ONE)


# --- step properties with symmetry are checked on real steps from one state of each equivalence class ----


WITH = SearchOptions(workers=1, symmetry=True, all_states=True)


@step_property("test")
def the_first_never_falls(m: Any, before: State, after: State) -> Any:
    """The property is not symmetric: renaming nodes changes it."""
    return before.values[0] <= after.values[0]


def test_the_same_depths_with_fewer_states(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ledger()
    whole, found = native.search(model, replace(WITH, symmetry=False)), native.search(model, WITH)
    assert found.distinct_states < whole.distinct_states / 3
    assert {v.property: v.depth for v in found.violations} == DEPTHS
    counterexample.follow_all(model, found.violations)  # runs contain real states, not renamed ones
    small_batches(monkeypatch)
    kept = on_disk(model, slots=1 << 9, workers=1, symmetry=True, all_states=True)
    assert (kept.distinct_states, kept.premises) == (found.distinct_states, found.premises)
    assert {v.property: v.depth for v in kept.violations} == DEPTHS


def test_an_asymmetric_property_is_refused() -> None:
    model = Model(Ledger(), step_properties=[the_first_never_falls])
    with pytest.raises(EngineError, match="property the_first_never_falls differs under node 0 ↔"):
        native.search(model, WITH)


# --- violated step properties in checkpoints ----------------------------------------------------------


def test_earlier_violations_are_reported_after_a_resume(tmp_path: Path) -> None:
    model = ledger()
    whole = native.search(model, SearchOptions(workers=1, all_states=True))
    first = part(model, "in memory", tmp_path, 80, resume=False, all_states=True)
    assert first.stopped_by == "states"
    assert {v.property for v in first.violations} == {"values_never_fall"}
    assert manifest(tmp_path)["found"]
    found = part(model, "in memory", tmp_path, all_states=True)
    assert_same(found, whole)
    assert found.violations == whole.violations
    counterexample.follow_all(model, found.violations)
    again = part(model, "in memory", tmp_path, all_states=True)  # on a complete search
    assert {v.property: v.depth for v in again.violations} == DEPTHS


# --- a column of transitions, an attribute of networkx's edges ----------------------------------------


pq = pytest.importorskip("pyarrow.parquet", reason="the extra 'tables' is not installed")

from highwater.checker.engines.columns import TRANSITIONS  # noqa: E402
from highwater.checker.tables import count_tables, write  # noqa: E402


def expected_edges(explored: Explored) -> list[set[str]]:
    """The violations of each step of the graph, by the interpreter."""
    model, found = explored.model, []
    interpreter = Interpreter(model)
    for source, instance in zip(explored.sources.tolist(), explored.instances.tolist(), strict=True):
        before = explored.scalars(source)
        after = interpreter.step(before, instance).state
        assert after is not None
        found.append(set(interpreter.broken(before, after)))
    return found


def written(explored: Explored, place: Path) -> tuple[list[dict[str, Any]], dict[str, int]]:
    write(explored, place, 2, None)
    counted = count_tables(place, explored.model, 0, None)
    return pq.read_table(place / TRANSITIONS).to_pylist(), counted.violations


@pytest.mark.parametrize("symmetry", [False, True])
def test_the_table_of_transitions(tmp_path: Path, symmetry: bool) -> None:
    """With symmetry, the target may be a renaming of the state that the step leads to."""
    model = ledger()
    explored = explore(model, SearchOptions(workers=1, symmetry=symmetry))
    rows, counts = written(explored, tmp_path)
    names = [p.name for p in model.step_properties]
    assert [{n for n in names if not row[n]} for row in rows] == expected_edges(explored)
    assert {name for name, count in counts.items() if count} == set(DEPTHS)
    assert sum(counts.values()) == sum(map(len, expected_edges(explored)))


# --- random step properties ---------------------------------------------------------------------------


EXAMPLES = int(os.environ.get("HIGHWATER_RANDOM_PROTOCOLS", "16"))
"""The number of random protocols."""


def conditions(stated: Stated) -> list[Expression]:
    return [stated.invariant, *stated.guards]


def properties(stated: Stated, rng: Random) -> list[StepProperty]:
    """Random step properties: a condition before implies one after, or values stay or grow."""

    def follows(one: Expression, other: Expression) -> Any:
        return lambda m, before, after: implies(one.symbolic(before), other.symbolic(after))

    def stays(value: Expression) -> Any:
        return lambda m, before, after: value.symbolic(before) == value.symbolic(after)

    def grows(number: Expression) -> Any:
        return lambda m, before, after: number.symbolic(before) <= number.symbolic(after)

    pairs = [(rng.choice(conditions(stated)), rng.choice(conditions(stated))) for _ in range(3)]
    found = [follows(*pair) for pair in pairs]
    found += [stays(value) for type_, value in stated.functions if type_ is not None]
    found += [grows(number) for type_, number in stated.functions if type_ is None]
    named = [StepProperty(f"random_{i}", function, "") for i, function in enumerate(found)]
    whole = StepProperty("nothing_changes", lambda m, before, after: before == after, "")
    return [*named, StepProperty("something_changes", lambda m, before, after: before != after, ""), whole]


def drawn(seed: int) -> tuple[Model, Stated, Random]:
    rng = Random(seed)
    stated = a_protocol(rng)
    note(str(stated))
    model = traced(lambda: Model(stated.protocol(), step_properties=properties(stated, rng)))
    return model, stated, rng


def disagreements(seed: int) -> int:
    """The number of times that an instance's expression differs from the property on the two states."""
    model, stated, rng = drawn(seed)
    interpreter, wrong = Interpreter(model), 0
    says = [compile_nodes([n for j in own for n in (j.node, j.premise)]) for own in model.judged]
    for _ in range(6):
        state = stated.state.encode(shown(stated.state, a_plain(rng, stated.state)))
        with suppress(BoundError):
            for number in interpreter.enabled(state):
                after = interpreter.step(state, number).state
                if after is None:
                    continue
                broken, met = (
                    set(interpreter.broken(state, after)),
                    interpreter.step_premises(state, number, after),
                )
                event("violated" if broken else "holds")
                values = says[number](state)
                names = [model.step_properties[j.number].name for j in model.judged[number]]
                wrong += broken != {n for n, holds in zip(names, values[::2], strict=True) if not holds}
                said = {j.number for j, m in zip(model.judged[number], values[1::2], strict=True) if m}
                wrong += said != {i for i, m in enumerate(met) if m}
                wrong += ("nothing_changes" in broken) != (state != after)
                wrong += "something_changes" in broken
    return wrong


@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 1 << 60))
def test_an_instance_s_expression_agrees_with_the_property_on_states(seed: int) -> None:
    assert not disagreements(seed)


@settings(max_examples=max(4, EXAMPLES // 8))
@given(seed=st.integers(0, 1 << 60))
def test_kernels_say_the_same(seed: int) -> None:
    model, stated, rng = drawn(seed)
    interpreter, program = Interpreter(model), Program(model, common=rng.random() < 0.5)
    for _ in range(6):
        state = stated.state.encode(shown(stated.state, a_plain(rng, stated.state)))
        try:
            steps = program.steps(state)
        except BoundError:
            continue
        for (_, after), (_, broken) in zip(steps, program.broken(state), strict=True):
            assert broken == interpreter.broken(state, after)
