"""Every standard scenario on Spark, with levels of both kinds, is what the native search finds. Slow."""

from __future__ import annotations

import json

import pytest

from highwater.checker import counterexample, native, scenarios
from tests.spark.conftest import scenario
from tests.spark.test_search import same_counts

STANDARD = sorted(name for name, (_, standard) in scenarios.titles().items() if standard)


@pytest.mark.slow
@pytest.mark.parametrize("name", STANDARD)
def test_a_standard_scenario(on_spark, tmp_path, name):
    model, options = scenario(name)
    expected = native.search(model, options)
    alone = on_spark(model, options, checkpoint=tmp_path / "levels", small=1 << 40)
    same_counts(alone, expected)
    manifests = [json.loads(p.read_text()) for p in sorted((tmp_path / "levels").glob("level-*.json"))]
    sizes = sorted((m["count"] for m in manifests), reverse=True)
    assert sum(sizes) == expected.distinct_states
    # The two largest levels are the cluster's, and what follows is the driver's again.
    found = on_spark(model, options, small=sizes[1])
    same_counts(found, expected)
    assert found.spilled_bytes > 0
    counterexample.follow_all(model, found.violations)
