"""The search on Spark against the native one, on small scenarios; levels of both kinds."""

from __future__ import annotations

from checker import counterexample, native
from checker.search import SearchResult
from model.language.interpreter import Interpreter
from tests.spark.conftest import scenario

COUNTS = ("distinct_states", "generated_states", "depth", "cut", "actions", "premises", "stopped_by")


def same_counts(found: SearchResult, expected: SearchResult) -> None:
    for part in COUNTS:
        assert getattr(found, part) == getattr(expected, part), part
    assert {v.property: v.depth for v in found.violations} == {
        v.property: v.depth for v in expected.violations
    }


def test_a_search_with_levels_of_the_driver_and_of_the_cluster(on_spark):
    model, options = scenario("truncation/kip-279")
    found = on_spark(model, options, small=4_500)
    assert (found.distinct_states, found.depth) == (60_106, 22)
    same_counts(found, native.search(model, options))
    counterexample.follow_all(model, found.violations)


def test_small_levels_find_the_same_counterexample_as_the_native_search(on_spark):
    model, options = scenario("truncation/kip-101")
    found, expected = on_spark(model, options), native.search(model, options)
    same_counts(found, expected)
    assert found.violations == expected.violations != []


def test_a_counterexample_across_levels_of_the_cluster_is_a_run(on_spark):
    model, options = scenario("truncation/kip-101", "max_records=1")
    found = on_spark(model, options, small=100, stop_at_first=True)
    assert found.violations
    interpreter = Interpreter(model)
    for violation in found.violations:
        counterexample.follow(model, interpreter, violation)
