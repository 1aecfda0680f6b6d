"""A standard scenario of each kind on Spark, on driver and cluster, equals the native search. Slow."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.checker.engines import native
from highwater.checker.report import counterexample
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.search import SearchResult
from tests.native.on_disk import assert_same
from tests.slow import slow
from tests.spark.conftest import scenario

CHOSEN = (
    "truncation/kip-101",  # violated
    "replication/controller/small",
    "replication/large-messages",
    "quorum/large-elections",
    "zookeeper/large-failover",
)
"""Scenarios of each protocol, with and without violations; the kernels are the native search's."""


def test_they_are_standard_and_of_every_protocol() -> None:
    assert all(scenario_files.titles()[name][1] for name in CHOSEN)
    assert {scenario_files.find(name).definition.name for name in CHOSEN} == {
        scenario.definition.name for scenario in scenario_files.standard()
    } - {"promise"}  # the abstract protocol, which is small


@slow("complete searches on Spark; fast for small ones")
@pytest.mark.parametrize("name", CHOSEN)
def test_a_standard_scenario(on_spark: Callable[..., SearchResult], tmp_path: Path, name: str) -> None:
    model, options = scenario(name)
    expected = native.search(model, options)
    alone = on_spark(model, options, checkpoint=tmp_path / "levels", small=1 << 40)
    assert_same(alone, expected)
    files = sorted((tmp_path / "levels").glob("level-*.json"))
    manifests = [json.loads(p.read_text().splitlines()[0]) for p in files]  # the second line is a digest
    sizes = sorted((sum(count for _, _, count, *_ in m["parts"]) for m in manifests), reverse=True)
    assert sum(sizes) == expected.distinct_states
    # The two largest levels run on the cluster, and the driver takes over again.
    found = on_spark(model, options, small=sizes[1])
    assert_same(found, expected)
    assert found.spilled_bytes > 0
    counterexample.follow_all(model, found.violations)
