"""How sensitive the replay of logs of Kafka 4.2.1 is: as ``test_sensitivity`` asks it of the older ones."""

from __future__ import annotations

import pytest

from tests.slow import slow
from tests.traces.kafka.made import NAMES_4_2, needs_clusters_4_2
from tests.traces.metadata.sensitivity import (
    EARLIER,
    REPORTED,
    TRIED,
    Tally,
    folder_of,
    measure,
    mutations,
    read,
)

pytestmark = needs_clusters_4_2

SAMPLED = (
    "4.2-down-elr-hard-021", "4.2-minisr-broker-elr", "4.2-mixed-elr-8", "4.2-reassigns-elr", "4.2-restarts-noelr",
)  # fmt: skip


@pytest.fixture(scope="module")
def sampled() -> Tally:
    """Some changes of each kind, of a few clusters."""
    tally = Tally()
    for name in SAMPLED:
        tally += measure(name, sample=2)
    return tally


def test_each_unreported_change_is_accounted_for(sampled: Tally) -> None:
    total = sampled.total(True) + sampled.total(False)
    assert total[TRIED] > 600
    assert sampled.unaccounted == []


def test_what_changes_the_meaning_is_reported(sampled: Tally) -> None:
    total = sampled.total(True) + sampled.total(False)
    assert total[REPORTED] > 500
    assert len(sampled.missed) <= 0.01 * total[REPORTED]
    assert total[EARLIER] == 0


def test_changes_of_what_is_new_are_tried() -> None:
    kinds = {m.kind for m in mutations(read(folder_of("4.2-minisr-broker-elr")))}
    assert {"another topic's ELR cleared", "eligible.leader.replicas.version"} <= kinds


@slow("every change of every recorded cluster; the fast tests have some")
@pytest.mark.parametrize("name", NAMES_4_2)
def test_all_changes(name: str) -> None:
    """Every change of every cluster."""
    tally = measure(f"4.2-{name}")
    assert tally.unaccounted == []
    assert len(tally.missed) <= 0.01 * (tally.total(True) + tally.total(False))[REPORTED]
