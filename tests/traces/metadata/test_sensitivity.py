"""Single changes of the recorded metadata logs: replay reports each one, or there is a reason why it cannot."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from highwater.traces.kafka.metadata_log import Gap, open_metadata_log
from highwater.traces.metadata.replay import replay_metadata
from highwater.traces.reports.report import Report
from tests.slow import WHOLE, often, slow
from tests.traces.clusters import CLUSTERS, SCENARIOS, needs_clusters
from tests.traces.kafka.made import CLUSTERS_4_2, NAMES_4_2, needs_clusters_4_2
from tests.traces.metadata.accounts import (
    ANOTHER,
    SAME,
    is_reported,
    reason,
    replayed,
    shared,
)
from tests.traces.metadata.corruptions import TIME, corruptions
from tests.traces.metadata.mutations import (
    Log,
    Mutation,
    fields,
    fields_of_snapshots,
    read,
    whole_records,
)

pytestmark = [needs_clusters, needs_clusters_4_2]

SAMPLED = ("down-elr-hard-021", "minisr-elr", "reassigns-elr", "restarts-noelr")
SAMPLED_4_2 = ("down-elr-hard-021", "minisr-broker-elr", "reassigns-elr")
TRIED, REPORTED, AT, EARLIER, LATER = "tried", "reported", "in the changed batch", "earlier", "later"


def log_of(name: str, clusters: Path = CLUSTERS) -> Log:
    return read(clusters / name / "__cluster_metadata-0")


def mutations(log: Log, *, corrupted: bool = False) -> Iterator[Mutation]:
    """All single changes of a log; ``corrupted``: also the kinds for Kafka 4.2.1."""
    more = corruptions(log) if corrupted else iter(())
    return chain(fields(log), fields_of_snapshots(log), whole_records(log), more)


def chosen(log: Log, sample: int | None, *, corrupted: bool = False) -> list[Mutation]:
    """At most ``sample`` changes of each kind, always the same ones."""
    by_kind: dict[str, list[Mutation]] = defaultdict(list)
    for mutation in mutations(log, corrupted=corrupted):
        by_kind[mutation.kind].append(mutation)
    draw = random.Random(1)
    drawn = (m if sample is None else draw.sample(m, min(sample, len(m))) for m in by_kind.values())
    return list(chain.from_iterable(drawn))


def position(mutation: Mutation, log: Log, first: int) -> str:
    """The place of the first entry, relative to the change; a removed record shows at the next one."""
    for batch in log.batches:
        within = batch.base_offset <= mutation.offset <= batch.last_offset
        if within and batch.base_offset <= first <= batch.last_offset + 1:
            return AT
    return AT if first in (mutation.offset, mutation.last) else LATER if first > mutation.offset else EARLIER


def measure(clusters: Path, names: tuple[str, ...], sample: int | None, folder: Path) -> Counter[str]:
    """Outcomes of the changes of some clusters' logs, with snapshots and without; unaccounted ones by their text."""
    found: Counter[str] = Counter()
    with shared():
        for name in names:
            full = log_of(name, clusters)
            for log in (full, full.without_snapshots()) if full.snapshots else (full,):
                original = replayed(log, folder)
                assert not original.report.unexplained_count
                for mutation in chosen(log, sample, corrupted=clusters == CLUSTERS_4_2):
                    changed = replayed(mutation.make(), folder)
                    found[TRIED] += 1
                    if is_reported(mutation, original, changed):
                        found[REPORTED] += 1
                        if changed.first is not None:
                            found[position(mutation, log, changed.first)] += 1
                    else:
                        why = reason(mutation, original, changed)
                        found[
                            why if why in (SAME, ANOTHER) else f"unaccounted: {name}, {mutation}: {why}"
                        ] += 1
    return found


@pytest.mark.parametrize(
    ("clusters", "names", "sample"),
    [
        (CLUSTERS, SAMPLED, 1),
        (CLUSTERS_4_2, SAMPLED_4_2, 1),
        pytest.param(
            CLUSTERS, tuple(SCENARIOS), None if WHOLE else 3, marks=slow("every cluster; fast: four")
        ),
        pytest.param(CLUSTERS_4_2, tuple(NAMES_4_2), often(4, 10), marks=slow("every cluster; fast: four")),
    ],
    ids=["2024", "4.2", "2024-all", "4.2-all"],
)
def test_a_change_is_reported_where_it_is_or_has_a_known_reason(
    tmp_path: Path, clusters: Path, names: tuple[str, ...], sample: int | None
) -> None:
    found = measure(clusters, names, sample, tmp_path)
    assert found[TRIED] > 200
    assert not [text for text in found if text.startswith("unaccounted")]
    assert found[REPORTED] > 0.8 * found[TRIED]
    assert found[EARLIER] == 0
    assert found[AT] > 0.85 * (found[AT] + found[LATER])


@pytest.mark.parametrize("name", SAMPLED)
def test_a_recorded_log_is_written_byte_for_byte(name: str, tmp_path: Path) -> None:
    log = log_of(name)
    assert read(log.write(tmp_path)) == log
    segment = f"{0:020}.log"
    assert (tmp_path / segment).read_bytes() == (
        CLUSTERS / name / "__cluster_metadata-0" / segment
    ).read_bytes()


def test_each_change_makes_another_log_and_is_written_as_it_is(tmp_path: Path) -> None:
    old, new = log_of("minisr-elr"), log_of("minisr-broker-elr", CLUSTERS_4_2)
    for mutation in (*fields(old), *whole_records(old), *corruptions(new)):
        assert mutation.make() not in (old, new), mutation
    for mutation in whole_records(log_of("down-elr-hard-210").without_snapshots()):
        made = mutation.make()
        written = [
            (b.base_offset, b.last_offset, list(b.offsets), b.values)
            for found in open_metadata_log(made.write(tmp_path)).batches()
            if not isinstance(found, Gap)
            for b in [found[1]]
        ]
        assert written == [(b.base_offset, b.last_offset, list(b.offsets), b.values) for b in made.batches]


def test_shared_tables_give_the_same_reports(tmp_path: Path) -> None:
    """The reports are also the same for a replay that ends at its first entry."""
    log = log_of("reassigns-elr").without_snapshots()
    found = chosen(log, 1)[::3]
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


def test_a_change_of_time_is_excused_only_if_nothing_else_changes(tmp_path: Path) -> None:
    log = log_of("minisr-broker-elr", CLUSTERS_4_2)
    with shared():
        original = replayed(log, tmp_path)
        time = next(m for m in corruptions(log) if m.kind == TIME)
        assert reason(time, original, replayed(time.make(), tmp_path)) == SAME
        other = next(m for m in chosen(log, 1) if m.kind == "ISR member dropped")
        passed_off = replace(other, kind=TIME)
        assert reason(passed_off, original, replayed(other.make(), tmp_path)) == "a time counts"
