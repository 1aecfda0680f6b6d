"""Verdicts on random graphs against enumeration; every run that is found is looked at by the interpreter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings

from highwater.checker import engines
from highwater.checker.counterexample import follow_all
from highwater.checker.explored import Explored
from highwater.checker.liveness import violating_run
from highwater.checker.search import SearchOptions
from highwater.model.language.graph import Node
from highwater.model.language.interpreter import compile_nodes
from highwater.model.language.liveness import Fairness, Kind
from tests.liveness.graphs import Graph, graphs, is_violated, model_of
from tests.slow import slow


class Plain(Explored):
    """A graph on which expressions are evaluated by the interpreter: nothing is compiled for a few states."""

    def evaluate_all(self, nodes: list[Node]) -> list[np.ndarray]:
        judge = compile_nodes(nodes)
        rows = [judge(self.scalars(i)) for i in range(len(self.states))]
        return [np.array(column) for column in zip(*rows, strict=True)]


NONE = (None, None, None, None)
STRAYS = Graph(
    # Out of 0 ⇄ 1 leads a way to 2 and back; only in 2 the strongly fair step to the goal can be taken. A run that
    # stays in 0 and 1 is fair, one that comes to 2 again and again is not.
    states=4,
    moves=(((1, 0, None, None), NONE), ((None, None, 3, None), NONE), ((None, 2, 0, None), NONE)),
    kind=Kind.ALWAYS_EVENTUALLY,
    premise=frozenset(),
    goal=frozenset({3}),
    fair=(Fairness(("move0",)), Fairness(("move1",), strong=True)),
)


def check(graph: Graph) -> None:
    model = model_of(graph)
    explored = Plain(**vars(engines.explore("interpreter")(model, SearchOptions(), None)))
    found = violating_run(explored, model.liveness[0]).violation
    assert (found is not None) == is_violated(graph)
    if found is not None:
        (told,) = follow_all(model, [found])  # raises where the run is none, or is not fair
        assert told.loop is not None
        assert told.steps[-1].state == told.steps[told.loop.start].state


@settings(max_examples=80, deadline=None)
@example(STRAYS)
@given(graphs())
def test_a_run_is_found_where_there_is_one_and_it_is_real(graph: Graph):
    check(graph)


@slow("3,000 random graphs; the fast test draws 80")
@settings(max_examples=3_000, deadline=None)
@given(graphs())
def test_a_run_is_found_where_there_is_one_on_many_more_graphs(graph: Graph):
    check(graph)


@settings(max_examples=3, deadline=None)
@given(graphs())
def test_the_native_graph_gives_the_same_verdict(graph: Graph):
    model = model_of(graph)
    explored = engines.explore("native")(model, SearchOptions(workers=1), None)
    assert (violating_run(explored, model.liveness[0]).violation is not None) == is_violated(graph)


@pytest.mark.parametrize(("by", "groups"), [(None, 2), (("choice",), 2), ((), 1)])
def test_each_choice_of_parameters_is_fair_for_itself_unless_grouped(by, groups):
    there = ((1, 0, None, None), (1, 0, None, None))
    graph = replace(STRAYS, moves=(there, there), fair=(Fairness(("move0",), by=by),))
    assert len(model_of(graph).liveness[0].groups) == groups
