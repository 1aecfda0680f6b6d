"""Steps that Spark writes into tables, by fingerprint, equal the native engine's, by number."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the extra 'tables' is not installed")

from highwater.checker.engines.native.state_graph import explore
from highwater.checker.engines.spark.program import TableProgram
from highwater.checker.engines.spark.request import ModelRequest
from highwater.checker.scenarios.search import SearchOptions
from tests import models


def test_steps_are_those_of_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compares all steps, computed in slices."""
    monkeypatch.setattr("highwater.checker.engines.spark.program.states_at_once", lambda instances: 50)
    model = models.scenario_model("truncation/kip-101", max_records=1, max_leader_epoch=0)
    program = TableProgram(model, ModelRequest.of(model, symmetry=False, deadlock=True, tables=True))
    graph = explore(model, SearchOptions(workers=1))
    assert len(graph.states) > 120
    fingerprints = program.fingerprints(graph.states)
    found = np.concatenate(list(program.steps(graph.states)))
    columns = fingerprints[graph.sources], fingerprints[graph.targets], graph.instances
    expected = np.stack([np.asarray(column, dtype=np.uint64) for column in columns], axis=1)
    assert sorted(found[:, :3].tolist()) == sorted(expected.tolist())
