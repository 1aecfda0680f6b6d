"""Every standard scenario on Spark, with levels of both kinds, is what the native search finds. Slow."""

from __future__ import annotations

import pytest

from checker import counterexample, native, scenarios
from tests.spark.conftest import scenario
from tests.spark.test_search import same_counts

STANDARD = sorted(name for name, (_, standard) in scenarios.titles().items() if standard)


@pytest.mark.slow
@pytest.mark.parametrize("name", STANDARD)
def test_a_standard_scenario(on_spark, name):
    model, options = scenario(name)
    expected = native.search(model, options)
    # The largest levels are the cluster's: those of a size that is left to it by the usual limit, or a few.
    small = min(200_000, max(500, expected.distinct_states // 12))
    found = on_spark(model, options, small=small)
    same_counts(found, expected)
    counterexample.follow_all(model, found.violations)
