"""What followed each action in the recorded clusters was among the outcomes and states of its plan."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.plan.recorded import follow
from tests.slow import all_but
from tests.traces.kafka.made import CLUSTERS_4_2, NAMES_4_2, needs_clusters_4_2

FAST = ("down-elr-unclean-210", "minisr-loss-elr", "reassigns-elr", "requests-elr")


@needs_clusters_4_2
@pytest.mark.parametrize("name", all_but(FAST, NAMES_4_2, "every recording, where the fast tests have four"))
def test_nothing_happened_that_no_plan_foresaw(name: str) -> None:
    found = follow(CLUSTERS_4_2 / name, 2)
    assert found.moments
    assert found.states
    assert found.missed == []
    assert found.unforeseen == []
    if name == "down-elr-unclean-210":
        assert found.outcomes == Counter({"min-isr": 3, "offline": 2, "unclean": 1, "lost": 1})
