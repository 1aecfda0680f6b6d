from __future__ import annotations

import pytest

from tests.slow import often, slow
from tests.traces.kafka.made import needs_clusters_4_2
from tests.traces.requests.sensitivity import UNSEEN, noticed

pytestmark = needs_clusters_4_2

EXPECTED = 0.95
"""Detected share of all changes."""


@slow("hundreds of changes of each recording, each replayed alone")
@pytest.mark.parametrize(
    "name", ["requests-elr", "unclean-requests-elr", "mixed-requests-elr-4", "mixed-requests-elr-6"]
)
def test_changes_of_checked_fields_are_noticed(name: str) -> None:
    found = list(noticed(name, range(0, 500, often(5, 1))))
    unseen = [changed for _, changed, how in found if how == UNSEEN]
    assert len(unseen) <= (1 - EXPECTED) * len(found), [(c.what, c.before, c.after) for c in unseen]
