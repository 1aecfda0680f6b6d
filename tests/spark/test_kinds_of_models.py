"""Other models on the cluster: symmetry, deadlocks, a user's file, values that leave their types. Slow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.engines import native
from highwater.checker.report import counterexample
from highwater.checker.scenarios.search import SearchResult
from tests.checker.conftest import COUNTER
from tests.slow import slow
from tests.spark.conftest import scenario
from tests.spark.test_search import same_counts

pytestmark = slow("searches on Spark; fast for common kinds of models")


@pytest.fixture
def own(tmp_path: Path) -> Any:
    def write(text: str) -> str:
        (tmp_path / "counter.py").write_text(COUNTER)
        (tmp_path / "counter.toml").write_text(f'protocol = "counter.py"\nprofile = "plain"\n{text}')
        return str(tmp_path / "counter.toml")

    return write


def test_symmetry(on_spark: Callable[..., SearchResult]) -> None:
    model, options = scenario("truncation/kip-320")
    options = replace(options, symmetry=True)
    expected = native.search(model, options)
    assert expected.distinct_states < native.search(model, replace(options, symmetry=False)).distinct_states
    same_counts(on_spark(model, options, small=expected.distinct_states // 12), expected)


def test_a_protocol_of_ones_own_with_a_violation_and_a_deadlock(
    on_spark: Callable[..., SearchResult], own: Any
) -> None:
    model, options = scenario(own("deadlock = true\n[parameters]\ntop = 8\n"))
    expected = native.search(model, options)
    assert {v.property for v in expected.violations} == {"below_seven", "deadlock"}
    found = on_spark(model, options, small=1)
    same_counts(found, expected)
    assert found.violations == expected.violations
    counterexample.follow_all(model, found.violations)
