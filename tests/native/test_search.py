"""The native search and walks agree with interpreter, reference search and arithmetic, and respect their limits."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from highwater.checker.engines import reference
from highwater.checker.engines.native import search, simulate, worker
from highwater.checker.engines.native.instructions import Evaluation
from highwater.checker.engines.native.ir import FunctionText
from highwater.checker.engines.native.kernels import combine
from highwater.checker.engines.native.machine import Effort, Machine
from highwater.checker.engines.native.program import Program
from highwater.checker.engines.state_graph import Layout
from highwater.checker.scenarios.search import (
    DEADLOCK,
    EngineError,
    Progress,
    SearchOptions,
    SimulationOptions,
)
from highwater.language import Protocol, State, Struct, action, invariant, require, step_property, where
from highwater.model.language import LanguageError, Model
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import BoundError, Interpreter
from highwater.model.language.types import Int
from tests import models, zoo
from tests.language.random_protocols import a_protocol
from tests.native.on_disk import assert_same
from tests.slow import all_but, often, slow


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("truncation/kip-101", {"max_records": 1}),
        ("truncation/kip-320", {"max_records": 1}),
        ("truncation/reach", {"max_records": 1}),
        pytest.param(
            "replication/large-operator",
            {"brokers": 2, "replication_factor": 2, "initial_isr": 2, "elections": 0},
            marks=slow("the reference is slow; the fast test_spill.py has its number of states"),
        ),
    ],
)
def test_same_result_as_the_reference(name: str, settings: dict[str, int]) -> None:
    """Pruned steps, as in kip-320, are no deadlocks."""
    model = models.scenario_model(name, **settings)
    plain = reference.search(model, SearchOptions(deadlock=True))
    for workers in (1, 3):
        assert_same(search(model, SearchOptions(workers=workers, deadlock=True)), plain)


def test_counts_of_mathematics_through_growth_and_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_FIRST_SLOTS", 1 << 16)
    found = search(zoo.counters(4, 20, zoo.never_all_at_top), SearchOptions())
    assert (found.distinct_states, found.depth) == (21**4, 4 * 20 + 1)
    assert found.generated_states == 1 + 4 * 20 * 21**3
    (violation,) = found.violations
    assert violation.depth == 4 * 20 + 1
    assert found.table_bytes >= 8 * 21**4


def test_too_little_memory_ends_the_search_with_a_partial_result() -> None:
    found = search(zoo.counters(4, 60), SearchOptions(memory_bytes=40 << 20, workers=1, on_disk=False))
    assert found.stopped_by == "memory"
    assert 1_000_000 < found.distinct_states < 61**4
    assert found.spilled_bytes > 1 << 20
    with pytest.raises(EngineError, match="too few"):
        search(zoo.counters(2, 2), SearchOptions(memory_bytes=1 << 20))


def test_limits() -> None:
    by_states = search(zoo.counters(5, 30), SearchOptions(limit_states=100_000))
    assert by_states.stopped_by == "states"
    assert 100_000 < by_states.distinct_states < 31**5
    by_time = search(zoo.counters(5, 30), SearchOptions(limit_seconds=0.01))
    assert by_time.stopped_by == "seconds"
    assert by_time.distinct_states < 31**5


@pytest.mark.parametrize("engine", [search, reference.search])
def test_deadlock(engine: object) -> None:
    model = zoo.counters(2, 5)
    found = engine(model, SearchOptions(deadlock=True))  # type: ignore[operator]
    (violation,) = found.violations
    assert (violation.property, violation.depth) == (DEADLOCK, 11)
    assert engine(model, SearchOptions()).violations == []  # type: ignore[operator]


def test_an_undeclared_bound_is_an_error_that_names_action_field_and_place() -> None:
    model = Model(zoo.Everything({"nodes": 2}, {"undeclared"}))
    with pytest.raises(BoundError, match=r"zoo\.py:\d+: add\(amount=-?\d\): number leaves -5\.\.5"):
        search(model, SearchOptions())


def test_symmetry_saves_states_and_keeps_verdicts() -> None:
    plain = search(zoo.counters(3, 9, zoo.never_all_at_top), SearchOptions())
    reduced = search(zoo.counters(3, 9, zoo.never_all_at_top), SearchOptions(symmetry=True))
    assert plain.distinct_states == 10**3
    assert reduced.distinct_states == 10 * 11 * 12 // 6  # multisets of three values
    assert [(v.property, v.depth) for v in plain.violations] == [
        (v.property, v.depth) for v in reduced.violations
    ]


def test_symmetry_is_refused_for_an_asymmetric_property() -> None:
    with pytest.raises(EngineError, match="first_leads"):
        search(zoo.counters(3, 9, zoo.first_leads), SearchOptions(symmetry=True))
    with pytest.raises(LanguageError, match="no symmetric index"):
        search(models.everything(), SearchOptions(symmetry=True))


def test_progress_and_the_collision_probability_are_reported() -> None:
    seen: list[Progress] = []
    found = search(zoo.counters(4, 20), SearchOptions(), seen.append)
    assert seen
    assert [p.distinct_states for p in seen] == sorted(p.distinct_states for p in seen)
    assert seen[-1].distinct_states == found.distinct_states
    assert seen[-1].queue == 0
    pairs = 21**4 * (21**4 - 1) / 2
    assert found.collision_probability == pytest.approx(pairs / 2**64, rel=1e-6)


# --- random walks -------------------------------------------------------------------------------------


def test_walks_do_not_depend_on_the_number_of_workers() -> None:
    model = models.scenario_model("truncation/kip-320")
    one, three = (
        simulate(model, SimulationOptions(walks=3000, depth=40, seed=11, workers=w)) for w in (1, 3)
    )
    other = simulate(model, SimulationOptions(walks=3000, depth=40, seed=12))
    for part in ("walks", "generated_states", "depth", "actions", "cut", "premises"):
        assert getattr(one, part) == getattr(three, part), part
    assert one.actions != other.actions
    assert one.generated_states == one.walks + sum(one.actions.values())


def test_every_walk_of_counters_is_as_long_as_it_must_be() -> None:
    model = Model(zoo.Counters({"counters": 3, "top": 4}), [])
    found = simulate(model, SimulationOptions(walks=500, depth=100))
    assert (found.walks, found.generated_states, found.depth) == (500, 500 * 13, 13)
    assert found.violations == []
    stuck = simulate(model, SimulationOptions(walks=500, depth=100, deadlock=True))
    assert [(v.property, v.depth) for v in stuck.violations] == [(DEADLOCK, 13)]


def test_an_undeclared_bound_is_an_error() -> None:
    with pytest.raises(BoundError, match="number leaves"):
        simulate(Model(zoo.Everything({"nodes": 2}, {"undeclared"})), SimulationOptions(depth=50))


def test_every_step_is_as_likely_as_the_others() -> None:
    found = simulate(Model(zoo.Dice()), SimulationOptions(walks=6000, depth=2, seed=5))
    assert sum(found.actions.values()) == 6000
    assert set(found.actions) == {"one", "two", "three"}
    assert all(1800 < count < 2200 for count in found.actions.values())  # six standard deviations


# --- kernels compute with machine words ---------------------------------------------------------------


MOST = (1 << 31) - 1


class Large(Protocol):
    """A number whose square fits in a word, and whose fourth power does not."""

    name = "large"
    power = 2

    def define(self) -> Struct:
        return Struct("State", number=Int(0, MOST))

    def initial(self) -> list[dict[str, Any]]:
        return [{"number": 0}]

    @action("")
    def go(self, s: Any) -> None:
        power = s.number
        for _ in range(self.power - 1):
            power = power * s.number
        require("it is small", power < 10)
        s.next.number = s.number + 1


class TooLarge(Large):
    power = 3


@invariant("")
def cubes_are_small(m: Any, s: Any) -> Any:
    return s.number * s.number * s.number < 1000


@step_property("")
def cubes_rise(m: Any, before: Any, after: Any) -> Any:
    return before.number * before.number * before.number <= after.number * after.number * after.number


@pytest.mark.parametrize(
    ("model", "who"),
    [
        (lambda: Model(TooLarge()), "go()"),
        (lambda: Model(Large(), [cubes_are_small]), "property cubes_are_small"),
        (lambda: Model(Large(), step_properties=[cubes_rise]), "property cubes_rise"),
    ],
    ids=["an action", "a property", "a property of steps"],
)
def test_numbers_that_may_not_fit_are_refused(model: Any, who: str) -> None:
    with pytest.raises(EngineError) as refused:
        search(model(), SearchOptions())
    assert str(refused.value) == f"{who} computes with numbers or sets that may need more than 62 bits"


def test_an_expression_on_many_states_that_may_need_more() -> None:
    model = Model(Large(), [cubes_are_small])
    with pytest.raises(EngineError, match="an expression computes with numbers or sets"):
        Evaluation(Layout(model.leaves), [model.properties[0].node])


# --- the same steps from the same states --------------------------------------------------------------


def steps_of(model: Model, interpreter: Interpreter, state: Scalars) -> object:
    """The interpreter's steps from a state as (instance number, next state), or the error."""
    numbers = {id(instance): i for i, instance in enumerate(model.instances)}
    try:
        found = [(numbers[id(s.instance)], s.state) for s in interpreter.steps(state) if s.state is not None]
    except BoundError:
        return "bound error"
    return sorted(found)


def native_steps_of(program: Program, state: Scalars) -> object:
    try:
        return sorted(program.steps(state))
    except BoundError:
        return "bound error"


def disagreements(model: Model, program: Program, count: int) -> list[Scalars]:
    """Of ``count`` random states, half of them reachable, those on which the engines disagree."""
    interpreter = Interpreter(model)
    states = [*models.reachable_states(model, count // 2), *models.arbitrary_states(model, count // 2)]
    return [
        state
        for state in states
        if steps_of(model, interpreter, state) != native_steps_of(program, state)
        or interpreter.violated(state) != program.violated(state)
    ]


QUICK = {
    "truncation/kip-101",
    "truncation/kip-320",
    "replication/controller/small",
    "replication/recovery-operator",
    "replication/large-reassign-cancel",
    "replication/large-fencing",
    "replication/large-messages",
}
"""Scenarios that together have every action of the large protocols; the others differ in rules."""


@pytest.mark.parametrize(
    "name",
    all_but(
        QUICK,
        sorted({*QUICK, *models.one_of_each(QUICK)[:: often(8, 1)]}),
        "a model for every eighth set of rules, or for each; the fast ones have every action",
    ),
)
def test_engines_agree_on_every_scenario(name: str) -> None:
    """Uses the common kernel; compiled code is compared on every operation below."""
    model = models.scenario_model(name)
    assert disagreements(model, Program(model, common=True), 600) == []


@pytest.mark.usefixtures("compiled_anew")
@pytest.mark.parametrize(
    ("nodes", "common"),
    [
        (2, True),
        pytest.param(3, False, marks=slow("compiled code; a fast test of random protocols has it, too")),
        pytest.param(5, True, marks=slow("larger values of each type; fast with two nodes")),
        pytest.param(5, False, marks=slow("larger values of each type; fast with two nodes")),
    ],
)
def test_engines_agree_on_every_type_and_operation(nodes: int, common: bool) -> None:
    model = models.everything(nodes=nodes)
    program = Program(model, effort=Effort.FULL, common=common)
    assert not models.bounded(model)  # pruned steps and errors are compared too
    assert disagreements(model, program, often(600, 4000)) == []
    states = list(models.arbitrary_states(model, 600))
    outcomes = [steps_of(model, Interpreter(model), state) for state in states[:300]]
    assert "bound error" in outcomes
    assert any(outcome != "bound error" for outcome in outcomes)


@pytest.mark.usefixtures("compiled_anew")
@settings(max_examples=12)
@given(seed=st.integers(0, 1 << 60))
def test_engines_agree_on_random_protocols(seed: int) -> None:
    stated = a_protocol(Random(seed))
    try:
        model = Model(stated.protocol(), stated.protocol.invariants)
    except LanguageError:  # a constant outside its type, or two writes that always conflict
        reject()
    for program in (Program(model, common=True), *(Program(model, effort=effort) for effort in Effort)):
        assert disagreements(model, program, 100) == []


class Far(Protocol):
    """A number of more than 32 bits."""

    def define(self) -> Struct:
        return Struct("State", far=Int(1 << 40, (1 << 40) + 9))

    def initial(self) -> list[dict[str, Any]]:
        return [{"far": 1 << 40}]

    @action()
    def up(self, s: State) -> None:
        s.next.far = where(s.far % 10 == 0, s.far + 4, 1 << 40)


def test_numbers_that_no_instruction_has_room_for() -> None:
    model = Model(Far())
    assert disagreements(model, Program(model, common=True), 20) == []


# --- fingerprints collide no more often than random ones ----------------------------------------------


def fingerprints(states: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Fingerprints of rows of words, computed by the kernels' own code."""
    count, width = states.shape
    f = FunctionText("void @all(ptr %states, ptr %out, i64 %count)")
    f.jump("loop")
    f.start("loop")
    f.do("%i = phi i64 [ 0, %entry ], [ %next, %loop ]")
    row = f.at("%states", f.op(f"mul i64 %i, {width}"))
    f.store(combine(f, [f.load(f.at(row, w)) for w in range(width)]), f.at("%out", "%i"))
    f.do("%next = add i64 %i, 1")
    f.branch(f.op("icmp ult i64 %next, %count"), "loop", "done")
    f.start("done")
    found = np.empty(count, dtype=np.uint64)
    states = np.ascontiguousarray(states)
    machine = Machine(f.end())  # keeps the machine code alive
    machine.function("all", 3)(states.ctypes.data, found.ctypes.data, count)
    return found


def test_a_bit_of_a_state_changes_half_of_the_fingerprint() -> None:
    rng = np.random.default_rng(1)
    states = rng.integers(0, 1 << 63, (400, 5), dtype=np.uint64)
    before = fingerprints(states)
    places = [(word, bit) for word in range(5) for bit in range(64)]
    changed = np.repeat(states[np.newaxis], len(places), axis=0)
    for number, (word, bit) in enumerate(places):
        changed[number, :, word] ^= np.uint64(1 << bit)
    after = fingerprints(changed.reshape(-1, 5)).reshape(len(places), -1)
    flipped = np.bitwise_count(before ^ after).mean(axis=1)
    assert 30 < flipped.min() < flipped.max() < 34
