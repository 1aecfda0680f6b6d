"""Step properties on Spark: on driver and cluster, and in resumed searches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from highwater.checker.engines import native
from highwater.checker.report import counterexample
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from tests.native.on_disk import assert_same
from tests.steps.ledger import DEPTHS, ledger

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
