"""How sensitive the replay of logs of Kafka 4.2.1 is: as ``test_sensitivity`` asks it of older ones, by more kinds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from highwater.traces.kafka.values import decode
from tests.slow import slow
from tests.traces.kafka.made import needs_clusters_4_2
from tests.traces.metadata.accounts import TIMES, is_uncleared, reason, replayed, shared
from tests.traces.metadata.corruptions import (
    ANOTHER_FEATURE,
    CLEAR_GONE,
    CLEAR_MOVED,
    CLEARED,
    CONTROLLERS,
    LEVEL_SET,
    SUPPORTED,
    TIME,
    TWICE,
    UNDEFINED,
    UNKNOWN_BROKER,
    UNKNOWN_RECORD,
    corruptions,
)
from tests.traces.metadata.mutations import CLEAR, Log, read
from tests.traces.metadata.sensitivity import (
    ALL_4_2,
    EARLIER,
    MEASURED_4_2,
    REPORTED,
    SAMPLE_4_2,
    TRIED,
    Tally,
    chosen,
    folder_of,
    measure,
    measure_all,
    mutations,
    table,
)

pytestmark = needs_clusters_4_2

SAMPLED = ("4.2-down-elr-hard-021", "4.2-minisr-broker-elr", "4.2-reassigns-elr", "4.2-restarts-noelr")
ADDED = {
    ANOTHER_FEATURE, CLEARED, CLEAR_GONE, CLEAR_MOVED, CONTROLLERS, LEVEL_SET, SUPPORTED, TIME, TWICE, UNDEFINED,
    UNKNOWN_BROKER, UNKNOWN_RECORD,
}  # fmt: skip


@pytest.fixture(scope="module")
def sampled() -> Tally:
    """A change of each kind, of a few clusters."""
    tally = Tally()
    for name in SAMPLED:
        tally += measure(name, sample=1)
    return tally


def test_each_unreported_change_is_accounted_for(sampled: Tally) -> None:
    total = sampled.total(True) + sampled.total(False)
    assert total[TRIED] > 200
    assert sampled.unaccounted == []


def test_what_changes_the_meaning_is_reported(sampled: Tally) -> None:
    total = sampled.total(True) + sampled.total(False)
    assert total[REPORTED] > 170
    assert sampled.missed == []
    assert total[EARLIER] == 0


def log_of(name: str) -> Log:
    return read(folder_of(name))


def test_changes_of_what_is_new_are_tried() -> None:
    kinds = {m.kind for m in mutations(log_of("4.2-minisr-broker-elr"), corrupted=True)}
    assert {"another topic's ELR cleared", "eligible.leader.replicas.version", *ADDED} <= kinds
    assert not ADDED & {m.kind for m in mutations(log_of("4.2-minisr-broker-elr"))}


def test_each_added_change_makes_another_log() -> None:
    log = log_of("4.2-minisr-broker-elr")
    for mutation in corruptions(log):
        assert mutation.make() != log, mutation


def test_a_time_has_its_reason_only_where_nothing_else_changes(tmp_path: Path) -> None:
    log = log_of("4.2-minisr-broker-elr")
    with shared():
        original = replayed(log, tmp_path)
        time = next(m for m in corruptions(log) if m.kind == TIME)
        assert reason(time, log, original, replayed(time.make(), tmp_path)) == (TIMES, "")
        other = next(m for m in chosen(log, 1) if m.kind == "ISR member dropped")
        passed_off = replace(other, kind=TIME)
        assert reason(passed_off, log, original, replayed(other.make(), tmp_path)) == ("", "a time counts")


def test_a_min_isr_that_clears_nothing_is_seen_without_the_replay() -> None:
    """The account has its own look at it: records of a min ISR and those that clear, batch by batch."""
    log = log_of("4.2-minisr-broker-elr")
    assert not is_uncleared(log)
    tried = 0
    for number, batch in enumerate(log.batches):
        kept = [v for v in batch.values if batch.control or decode(v or b"").type != CLEAR]
        if len(kept) < len(batch.values):
            batches = (*log.batches[:number], batch._replace(values=kept), *log.batches[number + 1 :])
            assert is_uncleared(replace(log, batches=batches))
            tried += 1
    assert tried == 6


@slow("so many of each kind of change in every cluster; a sample of these is fast")
def test_all_sampled_changes_of_all_clusters() -> None:
    """So many of each kind; the file has these very figures."""
    tally = measure_all(ALL_4_2, SAMPLE_4_2)
    assert (tally.unaccounted, tally.missed) == ([], [])
    assert table(tally) == MEASURED_4_2.read_text(encoding="utf-8")
