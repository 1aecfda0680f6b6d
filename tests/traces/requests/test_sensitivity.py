"""Changes of single fields of recorded request logs are noticed."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.slow import slow
from tests.traces.kafka.made import needs_clusters_4_2
from tests.traces.requests.sensitivity import SEEN, UNSEEN, noticed

pytestmark = needs_clusters_4_2

SAME = frozenset({"order"})
"""Two proposals of a leader for different partitions can come in either order; fetches cannot."""
EXPECTED = 0.9
"""Of all changes, those that leave the meaning as it was included: docs/replay.md lists what is not seen, and why."""


def test_changes_are_noticed() -> None:
    """A few of the smallest recording; the rest in the slow tests."""
    counted = Counter(how for _, _, how in noticed("unclean-requests-elr", range(12)))
    assert sum(counted[how] for how in SEEN) >= 10, counted


@slow("500 changes of each recording, each judged by itself")
@pytest.mark.parametrize(
    "name", ["requests-elr", "mixed-requests-elr-4", "mixed-requests-elr-6", "unclean-requests-elr"]
)
def test_five_hundred_changes_are_noticed(name: str) -> None:
    found = list(noticed(name, range(500)))
    unseen = [changed for _, changed, how in found if how == UNSEEN and changed.what not in SAME]
    assert len(unseen) <= (1 - EXPECTED) * len(found), [(c.what, c.before, c.after) for c in unseen]
