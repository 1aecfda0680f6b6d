"""The search on Spark agrees with the native one on small scenarios, for levels on driver and cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.checker.base.problems import InputError
from highwater.checker.engines import native
from highwater.checker.report import counterexample
from highwater.checker.scenarios.search import SearchResult
from tests.native.on_disk import assert_same
from tests.spark.conftest import scenario


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
