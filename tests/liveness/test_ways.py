"""Paths through graphs agree with networkx: shortest, real, and inside of the allowed states."""

from __future__ import annotations

from random import Random

import networkx as nx
import numpy as np
import pytest

from highwater.checker.engines.liveness.fairness import Flags, States, StepTable, nearest, spread

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


def test_a_path_to_a_wanted_state_is_shortest() -> None:
    found = {True: 0, False: 0}
    for seed in SEEDS:
        rng = Random(seed)
        steps = a_graph(rng)
        edges, size = listed(steps), size_of(steps)
        inside, wanted = flags(rng, size, 0.8), flags(rng, size, 0.2)
        start = rng.randrange(size)
        inside[start] = True
        ends = [
            d
            for d, w in zip(distances(edges, inside, _from(start, size)), wanted, strict=True)
            if w and d >= 0
        ]
        found[bool(ends)] += 1
        if not ends:
            with pytest.raises(AssertionError, match="reach each other"):
                _nearest(steps, start, inside, wanted)
            continue
        way = _nearest(steps, start, inside, wanted)
        assert len(way) == min(ends)
        at = start
        for number in way:
            source, target = edges[number]
            assert source == at
            assert inside[target]
            at = target
        assert wanted[at]
    assert min(found.values()) > 30


def _from(start: int, size: int) -> list[int]:
    return [0 if state == start else -1 for state in range(size)]


def _nearest(steps: StepTable, start: int, inside: Flags, wanted: Flags) -> list[int]:
    def of(which: Flags) -> object:
        def asked(states: States) -> Flags:
            return which[states]

        return asked

    return nearest(steps, start, of(inside), of(wanted))  # type: ignore[arg-type]
