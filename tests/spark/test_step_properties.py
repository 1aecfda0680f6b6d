"""Step properties on Spark: on driver and cluster, and in resumed searches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from highwater.checker.engines import native
from highwater.checker.report import counterexample
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from tests.native.on_disk import assert_same
from tests.slow import slow
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


@pytest.mark.parametrize(
    "symmetry", [False, pytest.param(True, marks=slow("two more searches; fast without symmetry"))]
)
def test_tables_of_both_engines_say_the_same_of_steps(
    on_spark: Callable[..., SearchResult], tmp_path: Path, symmetry: Any
) -> None:
    from highwater.checker.engines.native.state_graph import explore
    from highwater.checker.engines.spark.request import SparkOptions
    from highwater.checker.tables import spark, writing
    from tests.spark.conftest import MASTER

    model, places = ledger(), [tmp_path / "spark", tmp_path / "native"]
    options = SearchOptions(workers=1, symmetry=symmetry, all_states=True)
    for place in places:
        place.mkdir()
    found = spark.write(model, options, SparkOptions(MASTER, small=30), places[0], None)
    own = writing.write(explore(model, options), places[1], 1, None)
    assert (found.states, found.transitions) == (own.states, own.transitions)
    assert found.violations == own.violations
    assert {name for name, count in found.violations.items() if count} == set(DEPTHS)
    names = [p.name for p in model.step_properties]
    rows = [
        Counter((r["sentence"], *(r[n] for n in names)) for r in pq.read_table(p / "transitions").to_pylist())
        for p in places
    ]
    assert rows[0] == rows[1]
