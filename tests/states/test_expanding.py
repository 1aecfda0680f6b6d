"""Steps that executors write into tables, by fingerprint, equal the native engine's, by number."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the extra 'tables' is not installed")

from highwater.checker.engines.native.state_graph import explore
from highwater.checker.engines.spark.request import ModelRequest
from highwater.checker.scenarios.search import SearchOptions
from highwater.checker.tables.expanding import TableProgram
from tests import models


def test_steps_are_those_of_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compares all steps, computed in slices, with their source states and pruned steps."""
    monkeypatch.setattr("highwater.checker.tables.expanding.states_at_once", lambda instances: 50)
    model = models.scenario_model("truncation/kip-101", max_records=1, max_leader_epoch=0)
    program = TableProgram(model, ModelRequest.of(model, symmetry=False, deadlock=True))
    graph = explore(model, SearchOptions(workers=1))
    states = np.array(
        [program.layout.pack(graph.scalars(n)) for n in range(len(graph.states))], dtype=np.uint64
    ).reshape(len(graph.states), -1)
    assert len(states) > 120
    fingerprints, numbers = program.fingerprints(states), np.arange(len(states)) + 1000
    slices, counts, rows = [], [], []
    for here, found in program.steps(numbers, states):
        slices.append(here)
        counts += found.steps.tolist()
        rows += found.rows[:, :3].tolist()
    assert [here.start for here in slices] == [*range(0, len(states), 50)]
    assert counts == np.diff(graph.offsets).tolist()
    expected = [
        (int(fingerprints[target]), source + 1000, instance)
        for source in range(len(states))
        for target, instance in zip(
            graph.targets[graph.offsets[source] : graph.offsets[source + 1]].tolist(),
            graph.instances[graph.offsets[source] : graph.offsets[source + 1]].tolist(),
            strict=True,
        )
    ]
    assert sorted(map(tuple, rows)) == sorted(expected)
