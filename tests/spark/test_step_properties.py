"""Properties of steps on Spark: levels of the driver and of the cluster, kept and gone on with."""

from __future__ import annotations

import pytest

from highwater.checker import counterexample, native
from highwater.checker.search import SearchOptions
from highwater.checker.spark.program import RowBuffers
from tests.spark.test_search import same_counts
from tests.steps.ledger import DEPTHS, ledger

ALL = SearchOptions(workers=1, all_states=True)


@pytest.mark.parametrize("small", [1, 60, 200_000])
def test_spark_finds_the_steps_that_violate(on_spark, small):
    """The first levels are the driver's, the others the cluster's; a violation is found by either."""
    model = ledger()
    found = on_spark(model, ALL, small=small)
    same_counts(found, native.search(model, ALL))
    assert {v.property: v.depth for v in found.violations} == DEPTHS
    counterexample.follow_all(model, found.violations)


def test_a_violation_that_was_found_is_kept(on_spark, tmp_path):
    model, place = ledger(), tmp_path / "levels"
    on_spark(model, ALL, checkpoint=place, limit_states=120)
    found = on_spark(model, ALL, checkpoint=place, resume=True, small=1)
    same_counts(found, native.search(model, ALL))
    counterexample.follow_all(model, found.violations)


def test_a_task_that_keeps_what_it_found_to_itself(on_spark, monkeypatch):
    """Planted in the driver's half, which is this process."""
    model = ledger()
    monkeypatch.setattr(RowBuffers, "violated_by_steps", lambda self: {})
    assert not on_spark(model, ALL).violations
