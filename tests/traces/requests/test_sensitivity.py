"""Changes of single fields of recorded request logs are noticed."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.slow import often, slow
from tests.traces.kafka.made import needs_clusters_4_2
from tests.traces.requests.sensitivity import SEEN, UNSEEN, noticed

pytestmark = needs_clusters_4_2

ORDER = "order"
"""Two proposals of a leader for different partitions can come in either order; fetches cannot."""
EXPECTED = 0.9
"""Of all changes, also those that keep the meaning: docs/replay-background.md lists what is not seen."""


def test_changes_are_noticed() -> None:
    """A few changes of the smallest recording; the slow test has the others."""
    counted = Counter(how for _, _, how in noticed("unclean-requests-elr", range(12)))
    assert sum(counted[how] for how in SEEN) >= 10, counted


@slow("hundreds of changes of each recording, each judged by itself")
@pytest.mark.parametrize(
    "name", ["requests-elr", "unclean-requests-elr", "mixed-requests-elr-4", "mixed-requests-elr-6"]
)
def test_nine_of_ten_changes_are_noticed(name: str) -> None:
    found = list(noticed(name, range(0, 500, often(5, 1))))
    unseen = [changed for _, changed, how in found if how == UNSEEN and changed.what != ORDER]
    assert len(unseen) <= (1 - EXPECTED) * len(found), [(c.what, c.before, c.after) for c in unseen]
