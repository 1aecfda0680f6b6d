"""Changes of single fields of recorded request logs are noticed."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from tests.slow import often, slow
from tests.traces.kafka.made import needs_clusters_4_2
from tests.traces.requests.sameness import SAME as SAME_MEANING
from tests.traces.requests.sameness import computed
from tests.traces.requests.sensitivity import SEEN, UNSEEN, Recording, noticed

pytestmark = needs_clusters_4_2

SAME = frozenset({"order"})
"""Two proposals of a leader for different partitions can come in either order; fetches cannot."""
EXPECTED = 0.9
"""Of all changes, also those that keep the meaning: docs/replay-background.md lists what is not seen."""


READ = tomllib.loads(Path(__file__).with_name("unseen.toml").read_text("utf-8"))["unseen"]
"""What was read by hand, as no computation says why it is not seen."""


def test_what_was_read_by_hand_could_not_be_computed() -> None:
    """And what could be is: a proposal that is refused for something else, two that are not about the same."""
    recording = Recording("mixed-requests-elr-4")
    by_hand = [one["seed"] for one in READ if one["recording"] == recording.name]
    assert [computed(recording, recording.log.change(seed)) for seed in by_hand] == [None] * len(by_hand)
    found = {seed: computed(recording, recording.log.change(seed)) for seed in (109, 112, 483, 32, 427)}
    assert {seed: reason in SAME_MEANING for seed, reason in found.items()} == {
        109: True, 112: True, 483: True, 32: True, 427: False,
    }  # fmt: skip
    assert all(found.values())


@slow("hundreds of changes of two larger recordings, each judged by itself")
@pytest.mark.parametrize("name", ["mixed-requests-elr-4", "mixed-requests-elr-6"])
def test_of_changes_that_mean_something_else_95_percent_are_noticed(name: str) -> None:
    """Each that is not seen has a reason, computed or read; 95 % of those that change the meaning are noticed."""
    recording = Recording(name)
    read = {one["seed"]: one["same"] for one in READ if one["recording"] == name}
    seen = same = 0
    seeds = range(0, 500, often(5, 1))
    for seed, changed, how in noticed(name, seeds):
        if how == UNSEEN:
            reason = computed(recording, changed)
            assert reason or seed in read, (seed, changed.what, changed.before, changed.after)
            same += reason in SAME_MEANING if reason else read[seed]
        else:
            seen += 1
    assert seen >= 0.95 * (len(seeds) - same), (seen, same)


def test_changes_are_noticed() -> None:
    """A few of the smallest recording; the rest in the slow tests."""
    counted = Counter(how for _, _, how in noticed("unclean-requests-elr", range(12)))
    assert sum(counted[how] for how in SEEN) >= 10, counted


@slow("hundreds of changes of each recording, each judged by itself")
@pytest.mark.parametrize("name", ["requests-elr", "unclean-requests-elr"])
def test_five_hundred_changes_are_noticed(name: str) -> None:
    found = list(noticed(name, range(0, 500, often(2, 1))))
    unseen = [changed for _, changed, how in found if how == UNSEEN and changed.what not in SAME]
    assert len(unseen) <= (1 - EXPECTED) * len(found), [(c.what, c.before, c.after) for c in unseen]
