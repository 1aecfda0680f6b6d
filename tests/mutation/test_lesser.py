"""What is said of a mutant that reaches nothing else, held against an enumeration by the interpreter."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from highwater.checker.asking import scenarios
from highwater.checker.asking.request import Overrides, Request
from highwater.checker.comparing.mutation import lesser
from highwater.checker.comparing.mutation.examining import (
    ELSEWHERE,
    EQUAL,
    KILLED,
    NEVER,
    SURVIVED,
    Examination,
    MutantResult,
)
from highwater.checker.comparing.mutation.findings import REDUNDANT, WITHIN, Record
from highwater.model.language.interpreter import BoundError, Interpreter
from highwater.model.language.model import Model, Scalars
from highwater.model.language.mutated import chosen
from highwater.model.language.mutation import Mutant
from tests.mutation import library

TEXT = """protocol = "library.py"
properties = []

[parameters]
most = 1
"""
Graph = dict[Scalars, set[Scalars]]


@pytest.fixture(scope="module")
def examination(tmp_path_factory: pytest.TempPathFactory) -> Examination:
    """The small protocol, without properties: nothing but its steps tells a mutant."""
    file = tmp_path_factory.mktemp("lesser") / "library.toml"
    shutil.copy(library.__file__, file.with_suffix(".py"))
    file.write_text(TEXT, encoding="utf-8")
    return Examination(Request.of(scenarios.find(str(file)), Overrides()))


def graph_of(model: Model) -> tuple[Graph, set[Any], set[str]] | None:
    """The steps that change something, those that are cut, and the actions taken; None where a type is left."""
    interpreter, cut, actions = Interpreter(model), set(), set()
    left = list(model.initial)
    steps: Graph = {state: set() for state in left}
    while left:
        state = left.pop()
        for number in interpreter.enabled(state):
            try:
                step = interpreter.step(state, number)
            except BoundError:
                return None
            actions.add(model.instances[number].action.name)
            if step.state is None:
                cut.add((state, number))
                continue
            if step.state not in steps:
                steps[step.state] = set()
                left.append(step.state)
            if step.state != state:
                steps[state].add(step.state)
    return steps, cut, actions


def closure(steps: Graph) -> dict[Scalars, set[Scalars]]:
    """From each state all that is reached."""
    found = {}
    for state in steps:
        seen, left = {state}, [state]
        while left:
            new = steps[left.pop()] - seen
            seen |= new
            left += new
        found[state] = seen
    return found


def within(examination: Examination) -> Iterator[tuple[int, Any]]:
    """The mutants that differ and reach no other state, with their graphs."""
    plain = graph_of(chosen(examination.model, 0))
    assert plain is not None
    for number in examination.mutants:
        own = graph_of(chosen(examination.model, number))
        if own is not None and own[0].keys() <= plain[0].keys():
            yield number, own


def test_it_says_what_an_enumeration_says(examination: Examination) -> None:
    plain = graph_of(chosen(examination.model, 0))
    assert plain is not None
    everywhere = closure(plain[0])
    mutants = dict(within(examination))
    said: dict[int, MutantResult] = {}
    assert examination.lesser(mutants, said.__setitem__, None) is None
    kinds = set()
    for number, (steps, cut, actions) in mutants.items():
        found = said[number]
        kinds.add((found.kind, found.how))
        if found.kind == EQUAL:
            assert (steps, cut) == plain[:2]
            continue
        assert found.lost == len(plain[0]) - len(steps)
        if found.kind == KILLED:
            assert found.how == NEVER
            assert found.property in plain[2] - actions
        else:
            same = cut == plain[1] and closure(steps) == everywhere
            assert (found.how == ELSEWHERE) == same, examination.mutants[number]
    assert {(EQUAL, None), (SURVIVED, None), (SURVIVED, ELSEWHERE), (KILLED, NEVER)} <= kinds


def test_a_way_that_is_not_there_is_noticed(
    examination: Examination, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lesser._Ways, "go", lambda self, steps: True)
    with pytest.raises(AssertionError):
        test_it_says_what_an_enumeration_says(examination)


def test_a_way_round_is_followed_to_its_end() -> None:
    """0 to 1 to 2 to 3, and nothing back."""
    ways = lesser._Ways(np.array([0 * 4 + 1, 1 * 4 + 2, 2 * 4 + 3]), 4)
    assert ways.go(np.array([0 * 4 + 3, 1 * 4 + 3]))
    assert not ways.go(np.array([0 * 4 + 3, 3 * 4 + 0]))
    assert ways.go(np.array([], dtype=np.int64))


def test_redundant_is_what_each_scenario_says() -> None:
    """Where one of them has another step, and says nothing of others that lead there, it is a hole."""
    mutant = Mutant("model/x.py:1", 1, (0, 1), "act", "guard", "dropped", "a guard", "")
    redundant = MutantResult(SURVIVED, ELSEWHERE, new=0, lost=0)
    results = {
        (0, "a"): MutantResult(EQUAL),
        (1, "b"): redundant,
        (2, "b"): MutantResult(SURVIVED),
    }  # of liveness
    assert Record(mutant, "x", results=results).verdict == REDUNDANT
    lost = MutantResult(SURVIVED, new=0, lost=3)
    assert Record(mutant, "x", results={**results, (3, "c"): lost}).verdict == WITHIN
    assert Record(mutant, "x", results=results).is_hole is False
