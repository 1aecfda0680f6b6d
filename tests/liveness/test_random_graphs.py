"""Verdicts on random graphs agree with enumeration; the interpreter confirms each reported run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings

from highwater.checker.engines import by_name as engines
from highwater.checker.engines.liveness import violating_run
from highwater.checker.engines.state_graph import Explored
from highwater.checker.report.counterexample import follow_all
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language.graph import Node
from highwater.model.language.interpreter import compile_nodes
from highwater.model.language.liveness import Fairness, Kind
from tests.liveness.graphs import Graph, Said, graphs, model_of, violated_cases
from tests.slow import often


class Plain(Explored):
    """A graph whose expressions are interpreted: compiling does not pay for a few states."""

    def evaluate_all(self, nodes: list[Node]) -> list[np.ndarray]:
        judge = compile_nodes(nodes)
        rows = [judge(self.scalars(i)) for i in range(len(self.states))]
        return [np.array(column) for column in zip(*rows, strict=True)]


NONE = (None, None, None, None)
STRAYS = Graph(
    # From the loop 0 ⇄ 1 a step leads to 2 and back. The strongly fair step to the goal is enabled only in
    # 2. A run that stays in 0 and 1 is fair; one that visits 2 again and again is not.
    states=4,
    moves=(((1, 0, None, None), NONE), ((None, None, 3, None), NONE), ((None, 2, 0, None), NONE)),
    kind=Kind.ALWAYS_EVENTUALLY,
    cases=(Said(frozenset(), frozenset({3})),),
    fair=(Fairness(("move0",)), Fairness(("move1",), strong=True)),
)


DETOUR = Graph(
    # 0 ⇄ 1 ⇄ 2: the loop between 0 and 1 keeps the goal; a loop through 2 does not.
    states=3,
    moves=(((1, 0, None), (None, 2, 1)),),
    kind=Kind.EVENTUALLY_ALWAYS,
    cases=(Said(frozenset({0}), frozenset({0, 1})),),
    fair=(Fairness(("move0",)),),
)


LATER = Graph(
    # The premise holds only in 1, but matters only in the initial state 0.
    states=2,
    moves=(((1, None), (None, None)),),
    kind=Kind.EVENTUALLY,
    cases=(Said(frozenset({1}), frozenset()),),
    fair=(),
)
EITHER = Graph(
    # 0 ⇄ 1: the goal holds only in 0 and does not last; the alternative goal does.
    states=2,
    moves=(((1, 0), (None, None)),),
    kind=Kind.EVENTUALLY_ALWAYS,
    cases=(Said(frozenset({0}), frozenset({0}), frozenset({0, 1})),),
    fair=(),
)


def check(graph: Graph) -> None:
    model = model_of(graph)
    explored = Plain(**vars(engines.explore("interpreter")(model, SearchOptions(), None)))
    found = violating_run(explored, model.liveness[0]).violation
    assert (set() if found is None else {found.case, *found.others}) == violated_cases(graph)
    if found is not None:
        (told,) = follow_all(model, [found])  # raises if it is no run, or is not fair
        assert told.loop is not None
        assert told.steps[-1].state == told.steps[told.loop.start].state
        assert told.parameters == {"case": found.case}
        assert told.others == tuple({"case": other} for other in found.others)


@settings(max_examples=often(50, 3_000))
@example(STRAYS)
@example(DETOUR)
@example(LATER)
@example(EITHER)
@given(graphs())
def test_a_run_is_found_where_there_is_one_and_it_is_real(graph: Graph) -> None:
    check(graph)


@settings(max_examples=3)
@given(graphs())
def test_the_native_graph_gives_the_same_verdict(graph: Graph) -> None:
    model = model_of(graph)
    explored = engines.explore("native")(model, SearchOptions(workers=1), None)
    found = violating_run(explored, model.liveness[0]).violation
    assert (set() if found is None else {found.case, *found.others}) == violated_cases(graph)


@pytest.mark.parametrize(("by", "groups"), [(None, 2), (("choice",), 2), ((), 1)])
def test_each_choice_of_parameters_is_fair_for_itself_unless_grouped(by: Any, groups: Any) -> None:
    there = ((1, 0, None, None), (1, 0, None, None))
    graph = replace(STRAYS, moves=(there, there), fair=(Fairness(("move0",), by=by),))
    assert len(model_of(graph).liveness[0].groups) == groups
