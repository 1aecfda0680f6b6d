"""How sensitive the replay of metadata logs is: single changes of the recorded logs, and what is said of each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from highwater.traces.kafka.metadata_log import Gap, open_metadata_log
from highwater.traces.metadata.replay import replay_metadata
from highwater.traces.reports.report import Report
from tests.slow import WHOLE, slow
from tests.traces.clusters import CLUSTERS, SCENARIOS, needs_clusters
from tests.traces.metadata.accounts import TORN, is_torn, replayed, shared
from tests.traces.metadata.mutations import Log, fields, read
from tests.traces.metadata.orders import whole_records
from tests.traces.metadata.sensitivity import (
    AT,
    EARLIER,
    LATER,
    MEASURED,
    REPORTED,
    SAME_BATCH,
    TRIED,
    Tally,
    chosen,
    measure,
    measure_all,
    mutations,
    position,
    table,
)

pytestmark = needs_clusters

SAMPLED = ("down-elr-hard-021", "minisr-elr", "reassigns-elr", "restarts-noelr")


def log_of(name: str) -> Log:
    return read(CLUSTERS / name / "__cluster_metadata-0")


@pytest.fixture(scope="module")
def sampled() -> Tally:
    """Some changes of each kind, of a few clusters."""
    tally = Tally()
    for name in SAMPLED:
        tally += measure(name, sample=2)
    return tally


def test_each_unreported_change_is_accounted_for(sampled: Tally) -> None:
    total = sampled.total(True) + sampled.total(False)
    assert total[TRIED] > 300
    assert sampled.unaccounted == []


def test_what_changes_the_meaning_is_reported(sampled: Tally) -> None:
    total = sampled.total(True) + sampled.total(False)
    assert total[REPORTED] > 300
    assert len(sampled.missed) <= 0.01 * total[REPORTED]


def test_nothing_is_reported_before_it_happens(sampled: Tally) -> None:
    total = sampled.total(True) + sampled.total(False)
    assert total[EARLIER] == 0
    assert total[AT] + total[SAME_BATCH] > 0.9 * (total[AT] + total[SAME_BATCH] + total[LATER])


def test_what_is_reported_later_was_explained_until_then(tmp_path: Path) -> None:
    """The first entry stands where the log first contradicts itself: what is before it can have happened.

    But which rules were in force is asked of each partition apart, and of all together only at the end of the log,
    in an entry without an offset.
    """
    log = log_of("minisr-elr").without_snapshots()
    tried = 0
    with shared():
        for mutation in chosen(log, 12):
            made = mutation.make()
            first = replayed(made, tmp_path).first
            if first is None or position(mutation, log, first) != LATER:
                continue
            until = replace(made, batches=tuple(b for b in made.batches if b.last_offset < first))
            assert any(mutation.offset <= b.last_offset for b in until.batches)
            assert replayed(until, tmp_path).first is None, mutation
            tried += 1
    assert tried > 10


def test_changes_of_every_kind_are_tried() -> None:
    kinds = {m.kind for name in ("minisr-elr", "down-elr-hard-021") for m in mutations(log_of(name))}
    assert {
        *(f"{name} member {how}" for name in ("ISR", "ELR", "lastKnownElr") for how in ("added", "dropped")),
        *("leader swapped", "leader set to -1", "leader field dropped", "leader field added"),
        *("ELR field dropped", "lastKnownElr field dropped", "lastKnownElr changed"),
        *("leaderEpoch off by one", "partitionEpoch off by one", "leaderRecoveryState"),
        *("broker epoch off by one", "broker epoch of another", "fenced flipped"),
        *("inControlledShutdown flipped", "replicas in another order", "replicas changed"),
        *("adding changed", "removing changed", "min.insync.replicas", "metadata.version"),
        *("record removed, gap", "record removed, gap within the batch", "record removed, renumbered"),
        *("record twice", "swapped within a batch", "swapped across batches"),
    } <= kinds


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_log_that_is_written_again_is_the_same(name: str, tmp_path: Path) -> None:
    log = log_of(name)
    assert read(log.write(tmp_path)) == log
    written = (tmp_path / f"{0:020}.log").read_bytes()
    assert written == (CLUSTERS / name / "__cluster_metadata-0" / f"{0:020}.log").read_bytes()


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_decision_of_a_recorded_log_is_torn(name: str, tmp_path: Path) -> None:
    """Else the account of a change could be that of the log itself."""
    log = log_of(name)
    assert not is_torn(log, replayed(log, tmp_path))


def test_each_change_makes_another_log() -> None:
    log = log_of("minisr-elr")
    for mutation in (*fields(log), *whole_records(log)):
        assert mutation.make() != log, mutation


def test_each_changed_log_is_written_as_it_is(tmp_path: Path) -> None:
    for mutation in whole_records(log_of("down-elr-hard-210").without_snapshots()):
        made = mutation.make()
        written = read_anyhow(made.write(tmp_path))
        assert written == [(b.base_offset, b.last_offset, list(b.offsets), b.values) for b in made.batches]


def read_anyhow(folder: Path) -> list[object]:
    """The batches of a log, with gaps or without."""
    return [
        (b.base_offset, b.last_offset, list(b.offsets), b.values)
        for found in open_metadata_log(folder).batches()
        if not isinstance(found, Gap)
        for b in [found[1]]
    ]


def test_sharing_makes_no_difference(tmp_path: Path) -> None:
    """What is shared between replays changes none of their reports; nor does ending at the first entry."""
    log = log_of("reassigns-elr").without_snapshots()
    found = chosen(log, 1)
    with shared():
        apart = [replayed(m.make(), tmp_path) for m in found]
    for mutation, quick in zip(found, apart, strict=True):
        for file in tmp_path.iterdir():
            file.unlink()
        report = Report("made", "metadata log", "")
        replay_metadata(open_metadata_log(mutation.make().write(tmp_path)), report)
        assert bool(report.unexplained_count) == bool(quick.report.unexplained_count), mutation
        if report.unexplained:
            assert report.unexplained[0].to_json() == quick.report.unexplained[0].to_json(), mutation
        else:
            assert (report.profile, report.rules) == (quick.report.profile, quick.report.rules)


@slow("so many of each kind of change in every cluster; the fast tests have some")
def test_all_changes_of_all_clusters() -> None:
    """So many of each kind; every change is asked where everything is, and the file has these very figures."""
    tally = measure_all(SCENARIOS, None if WHOLE else 6)
    assert tally.unaccounted == []
    for snapshots in (True, False):
        total = tally.total(snapshots)
        assert total[EARLIER] == 0
        assert total[REPORTED] >= 0.99 * (total[REPORTED] + total[TORN])
    if WHOLE:
        assert table(tally) == MEASURED.read_text(encoding="utf-8")
