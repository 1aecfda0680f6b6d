"""Verdicts on random graphs against enumeration; every run that is found is looked at by the interpreter."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from checker import engines
from checker.counterexample import follow_all
from checker.explored import Explored
from checker.liveness import violating_run
from checker.search import SearchOptions
from model.language.graph import Node
from model.language.interpreter import compile_nodes
from tests.liveness.graphs import Graph, graphs, is_violated, model_of


class Plain(Explored):
    """A graph on which expressions are evaluated by the interpreter: nothing is compiled for a few states."""

    def evaluate_all(self, nodes: list[Node]) -> list[np.ndarray]:
        judge = compile_nodes(nodes)
        rows = [judge(self.scalars(i)) for i in range(len(self.states))]
        return [np.array(column) for column in zip(*rows, strict=True)]


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_a_run_is_found_where_there_is_one_and_it_is_real(graph: Graph):
    model = model_of(graph)
    explored = Plain(**vars(engines.explore("interpreter")(model, SearchOptions(), None)))
    found = violating_run(explored, model.liveness[0]).violation
    assert (found is not None) == is_violated(graph)
    if found is not None:
        (example,) = follow_all(model, [found])  # raises where the run is none, or is not fair
        assert example.loop is not None
        assert example.steps[-1].state == example.steps[example.loop.start].state


@settings(max_examples=6, deadline=None)
@given(graphs())
def test_the_native_graph_gives_the_same_verdict(graph: Graph):
    model = model_of(graph)
    explored = engines.explore("native")(model, SearchOptions(workers=1), None)
    assert (violating_run(explored, model.liveness[0]).violation is not None) == is_violated(graph)
