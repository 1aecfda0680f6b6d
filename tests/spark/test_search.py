"""The search on Spark agrees with the native one, for levels on driver and cluster, step properties and scenarios."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.checker.base.problems import InputError
from highwater.checker.engines import native
from highwater.checker.report import counterexample
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from tests.native.on_disk import assert_same
from tests.slow import slow
from tests.spark.conftest import scenario
from tests.steps.ledger import DEPTHS, ledger


def test_levels_of_the_driver_and_of_the_cluster(on_spark: Callable[..., SearchResult]) -> None:
    model, options = scenario("truncation/kip-279", "max_records=1")
    found, expected = on_spark(model, options, small=1_000), native.search(model, options)
    assert (found.distinct_states, found.depth) == (9_841, 18)
    assert_same(found, expected)
    counterexample.follow_all(model, found.violations)
    # If all levels run on the driver, the run equals the native search's.
    assert on_spark(model, options).violations == expected.violations != []


def test_a_counterexample_of_the_cluster_is_a_shortest_run(on_spark: Callable[..., SearchResult]) -> None:
    model, options = scenario("truncation/kip-101", "max_records=1")
    expected = native.search(model, options)
    (depth,) = {v.depth for v in expected.violations}
    found = on_spark(model, options, small=500, stop_at_first=True)
    assert found.stopped_by == "violation"
    assert [v.depth for v in counterexample.follow_all(model, found.violations)] == [depth]


def test_without_memory_for_tables_they_are_read_from_files(on_spark: Callable[..., SearchResult]) -> None:
    model, options = scenario("truncation/kip-320", "max_records=1")
    found = on_spark(model, options, small=1_500, memory_bytes=1)
    assert found.table_bytes == 0  # no task left its table to the next
    assert_same(found, native.search(model, options))


def test_a_search_goes_on_from_the_last_committed_level(
    on_spark: Callable[..., SearchResult], tmp_path: Path
) -> None:
    model, options = scenario("truncation/kip-320", "max_records=1")
    expected = native.search(model, options)
    place = tmp_path / "levels"
    first = on_spark(model, options, checkpoint=place, limit_states=expected.distinct_states // 2)
    assert first.stopped_by == "states"
    assert first.distinct_states < expected.distinct_states
    # As if killed while committing a level: its files exist, its manifest does not.
    last = sorted(place.glob("level-*.json"))[-1]
    last.rename(place / f".{last.name}.0123456789abcdef.new")
    left = place / "states" / f"{last.stem}-all-0123456789ab.parquet"
    left.write_bytes(b"cut off")
    found = on_spark(model, options, checkpoint=place, resume=True, small=800)
    assert_same(found, expected)
    assert not left.exists()
    # And once more, on a complete search.
    assert_same(on_spark(model, options, checkpoint=place, resume=True), expected)


def test_only_the_same_search_goes_on(on_spark: Callable[..., SearchResult], tmp_path: Path) -> None:
    model, options = scenario("truncation/kip-320", "max_records=1")
    place = tmp_path / "levels"
    on_spark(model, options, checkpoint=place, limit_states=10)
    other, _ = scenario("truncation/kip-320", "max_records=2")
    with pytest.raises(InputError, match="other parameters: max_records was 1, is 2"):
        on_spark(other, options, checkpoint=place, resume=True)
    with pytest.raises(InputError, match="other deadlock"):
        on_spark(model, options, checkpoint=place, resume=True, deadlock=True)
    with pytest.raises(InputError, match="other rules"):
        on_spark(scenario("truncation/kip-279", "max_records=1")[0], options, checkpoint=place, resume=True)


# --- a standard scenario of each kind on spark, on driver and cluster, equals the native search -------


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


# --- step properties on spark -------------------------------------------------------------------------


ALL = SearchOptions(workers=1, all_states=True)


def test_spark_finds_the_steps_that_violate(on_spark: Callable[..., SearchResult]) -> None:
    """The first levels run on the driver, the others on the cluster; both find violations."""
    model = ledger()
    found = on_spark(model, ALL, small=60)
    assert_same(found, native.search(model, ALL))
    assert {v.property: v.depth for v in found.violations} == DEPTHS
    counterexample.follow_all(model, found.violations)


def test_a_violation_that_was_found_is_kept(on_spark: Callable[..., SearchResult], tmp_path: Path) -> None:
    model, place = ledger(), tmp_path / "levels"
    on_spark(model, ALL, checkpoint=place, limit_states=120)
    found = on_spark(model, ALL, checkpoint=place, resume=True, small=1)
    assert_same(found, native.search(model, ALL))
    counterexample.follow_all(model, found.violations)
