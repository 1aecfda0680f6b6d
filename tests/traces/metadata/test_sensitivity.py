"""Single changes of the recorded metadata logs: replay reports each one, or there is a reason why it cannot."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import pytest

from highwater.traces.kafka.metadata_log import open_metadata_log
from highwater.traces.metadata.replay import replay_metadata
from highwater.traces.reports.report import Report
from tests.slow import often, slow
from tests.traces.kafka.made import CLUSTERS_4_2, NAMES_4_2, needs_clusters_4_2
from tests.traces.metadata.accounts import (
    ANOTHER,
    SAME,
    is_reported,
    reason,
    replayed,
    shared,
)
from tests.traces.metadata.mutations import (
    Log,
    Mutation,
    fields,
    fields_of_snapshots,
    read,
    whole_records,
)

pytestmark = needs_clusters_4_2

SAMPLED = ("down-elr-hard-021", "minisr-broker-elr", "reassigns-elr", "restarts-noelr")
TRIED, REPORTED, AT, EARLIER, LATER = "tried", "reported", "in the changed batch", "earlier", "later"


def log_of(name: str) -> Log:
    return read(CLUSTERS_4_2 / name / "__cluster_metadata-0")


def chosen(log: Log, sample: int) -> list[Mutation]:
    """At most ``sample`` single changes of each kind, always the same ones."""
    by_kind: dict[str, list[Mutation]] = defaultdict(list)
    for mutation in chain(fields(log), fields_of_snapshots(log), whole_records(log)):
        by_kind[mutation.kind].append(mutation)
    draw = random.Random(1)
    drawn = (draw.sample(m, min(sample, len(m))) for m in by_kind.values())
    return list(chain.from_iterable(drawn))


def position(mutation: Mutation, log: Log, first: int) -> str:
    """The place of the first entry, relative to the change; a removed record shows at the next one."""
    for batch in log.batches:
        within = batch.base_offset <= mutation.offset <= batch.last_offset
        if within and batch.base_offset <= first <= batch.last_offset + 1:
            return AT
    return AT if first in (mutation.offset, mutation.last) else LATER if first > mutation.offset else EARLIER


def measure(names: Iterable[str], sample: int, folder: Path) -> Counter[str]:
    """Outcomes of the changes of some clusters' logs, with snapshots and without; unaccounted ones by their text."""
    found: Counter[str] = Counter()
    with shared():
        for name in names:
            full = log_of(name)
            for log in (full, full.without_snapshots()) if full.snapshots else (full,):
                original = replayed(log, folder)
                assert not original.report.unexplained_count
                for mutation in chosen(log, sample):
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
    ("names", "sample"),
    [
        (SAMPLED, 1),
        pytest.param(NAMES_4_2, often(4, 10), marks=slow("every cluster; fast: four")),
    ],
    ids=["some", "all"],
)
def test_a_change_is_reported_where_it_is_or_has_a_known_reason(
    tmp_path: Path, names: Iterable[str], sample: int
) -> None:
    found = measure(names, sample, tmp_path)
    assert found[TRIED] > 150
    assert not [text for text in found if text.startswith("unaccounted")]
    assert found[REPORTED] > 0.8 * found[TRIED]
    assert found[EARLIER] == 0
    assert found[AT] > 0.85 * (found[AT] + found[LATER])


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
