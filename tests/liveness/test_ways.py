"""Paths through graphs agree with networkx; liveness of replication holds and needs each assumption."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import example, given, settings

from docs.pages import kept
from docs.pages.liveness import LIVELOCKS, Livelock
from highwater.checker.engines import by_name as engines
from highwater.checker.engines.fairness import Flags, StepTable, spread
from highwater.checker.engines.liveness import violating_run
from highwater.checker.engines.state_graph import Explored
from highwater.checker.report.counterexample import follow_all
from highwater.checker.scenarios.search import SearchOptions
from highwater.invariants.replication import LIVENESS
from highwater.invariants.replication.controller import LIVENESS as CONTROLLER_LIVENESS
from highwater.model.language.graph import Node
from highwater.model.language.interpreter import compile_nodes
from highwater.model.language.liveness import Fairness, Kind
from tests.docs.generated import generated
from tests.liveness.graphs import Graph, Said, graphs, model_of, violated_cases
from tests.slow import often, slow

SEEDS = range(250)


def a_graph(rng: Random) -> StepTable:
    """A random graph, with dead ends, self-loops and parallel steps."""
    size = rng.randint(1, 12)
    counts = [rng.choice([0, 0, 1, 2, 4]) for _ in range(size)]
    targets = [rng.randrange(size) for _ in range(sum(counts))]
    return StepTable(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), np.array(targets, dtype=np.uint32)
    )


def size_of(steps: StepTable) -> int:
    return len(steps.offsets) - 1


def listed(steps: StepTable) -> list[tuple[int, int]]:
    sources = [s for s in range(size_of(steps)) for _ in range(steps.offsets[s], steps.offsets[s + 1])]
    return list(zip(sources, steps.targets.tolist(), strict=True))


def flags(rng: Random, size: int, share: float) -> Flags:
    return np.array([rng.random() < share for _ in range(size)], dtype=np.bool_)


def distances(edges: list[tuple[int, int]], within: Flags, start_distance: list[int]) -> list[int]:
    """Each state's distance by networkx, where a path to a start adds the start's own distance."""
    graph = nx.DiGraph()
    graph.add_nodes_from(np.flatnonzero(within).tolist())
    graph.add_edges_from((s, t) for s, t in edges if within[s] and within[t])
    found = [-1] * len(within)
    for start, before in enumerate(start_distance):
        if before >= 0 and within[start]:
            for state, length in nx.single_source_shortest_path_length(graph, start).items():
                if found[state] < 0 or before + length < found[state]:
                    found[state] = before + length
    return found


def test_how_far_states_are_and_the_ways_to_them() -> None:
    waits = 0
    for seed in SEEDS:
        rng = Random(seed)
        steps = a_graph(rng)
        edges, within = listed(steps), flags(rng, size_of(steps), 0.8)
        starts = [rng.choice([-1, -1, 0, 1, 2, 7]) for _ in within]
        tree = spread(steps, within, np.array(starts, dtype=np.int32))
        wanted = distances(edges, within, starts)
        assert tree.distance.tolist() == wanted
        waits += any(a > 3 for a in wanted)
        for state in np.flatnonzero(tree.distance >= 0).tolist():
            at, way = tree.way(state)
            assert starts[at] + len(way) == wanted[state]
            for number in way:
                source, target = edges[number]
                assert source == at
                assert within[target]
                at = target
            assert at == state
    assert waits > 20, "a start that is further than all that is reached is begun from all the same"


# --- verdicts on random graphs agree with enumeration; the interpreter confirms each reported run -----


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


# --- liveness of replication --------------------------------------------------------------------------


def page() -> str:
    return generated("liveness.md")


@slow("traces the hundreds of models of the liveness page")
def test_every_assumption_is_needed_in_some_scenario() -> None:
    """Each row of the page comes from a run that the interpreter confirmed."""
    rows = re.findall(r"^\| `(\w+)` \| (?!nothing)(.*?) \| (\d+) \| \d+ \|$", page(), re.M)
    needed = {(name, fairness) for name, fairness, _ in rows}
    assert needed == {(p.name, str(f)) for p in (*LIVENESS, *CONTROLLER_LIVENESS) for f in p.fair}


@pytest.mark.parametrize("livelock", LIVELOCKS.values(), ids=lambda found: found.property)
def test_a_planted_livelock_is_found_with_a_loop_that_is_real(livelock: Livelock) -> None:
    """The interpreter confirms that the loop closes, is fair and misses the goal."""
    with kept.in_mode(kept.Mode.AFRESH):
        run = livelock.run()
    assert run.loop is not None
    loop = run.steps[run.loop.start :]
    assert len(loop) > 2
    assert loop[0].state == loop[-1].state
    assert all(step.changes for step in loop[1:])
