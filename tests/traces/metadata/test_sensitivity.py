"""The recorded metadata logs conform to the rules of their version; replay reports single changes of them."""

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
from tests.traces.metadata.made_logs import report_on
from tests.traces.metadata.mutations import (
    ANOTHER,
    SAME,
    Log,
    Mutation,
    fields,
    fields_of_snapshots,
    is_reported,
    read,
    reason,
    replayed,
    shared,
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


# --- each recorded cluster, and a table of its findings -----------------------------------------------


PROFILES = ("kafka_4_2_elr_off", "kafka_4_2")
"""The profiles of the clusters with ELR off and on."""

Found = set[tuple[int, str, str, bool]]

# The members of ISR and ELR that a reassignment makes go come into the ELR, though they are no replicas any more; with
# fewer replicas than min.insync.replicas their number is min ISR (966.2), which the ISR has: no ELR should be there.
_REASSIGNED = ("elr_within_replicas", "elr_only_under_min_isr", "electable_completeness")

FINDINGS: dict[str, Found] = {
    # ELR [0], and 0 is the last known leader. 0 comes back after kill -9, and its registration takes it out of the ELR
    # (90): no broker can be elected cleanly. It dies again before it is unfenced, and is not elected.
    # An operator requests an unclean election, and 1 is elected (116), which a crash had taken out of the ELR.
    "deadleader-elr": {
        (90, "somebody_is_electable", "t1-0", True),
        (116, "leader_elected_cleanly", "t1-0", True),
    },
    # The registration of 1 empties the ELR, and in the same change the last known leader 0 is elected, which has come
    # back uncleanly, too (62 took it out of the ELR).
    "down-elr-hard-021": {(92, "leader_elected_cleanly", "t1-0", True)},
    # The same with 0 last: its own registration empties the ELR. It is elected when it is unfenced, not
    # while it is fenced.
    "down-elr-hard-120": {
        (98, "somebody_is_electable", "t1-0", True),
        (102, "leader_elected_cleanly", "t1-0", True),
    },
    "down-elr-hard-210": {
        (118, "somebody_is_electable", "t1-0", True),
        (123, "leader_elected_cleanly", "t1-0", True),
    },
    # SIGTERM: the restarts are clean, and no broker leaves the ELR.
    "down-elr-soft-120": set(),
    # Unclean election is allowed, and 2, neither in the ISR nor in the ELR [0, 1], is elected when it is unfenced.
    "down-elr-unclean-210": {(78, "leader_elected_cleanly", "t1-0", True)},
    # ELR off: an ISR with one member breaks no property, although no other replica has all committed records.
    "down-noelr-210": set(),
    "minisr-broker-elr": set(),
    # min.insync.replicas 2 → 1 clears the ELR, the lone leader 0 dies, and is then the
    # only member of the ELR; its registration empties it. As last known leader it is elected all the same.
    "minisr-loss-elr": {
        (167, "somebody_is_electable", "t1-0", True),
        (175, "leader_elected_cleanly", "t1-0", True),
    },
    "mixed-elr-1": set(),
    # min.insync.replicas of t1 is raised while t1-0 has no leader: its ELR is all that it has, and is cleared (98).
    # The registration of 1 empties the ELR of t1-1, and elects the last known leader 3, which has come back uncleanly,
    # too; by two records, as 1 has two entries in the index (171, 172).
    "mixed-elr-8": {
        (98, "somebody_is_electable", "t1-0", True),
        (172, "leader_elected_cleanly", "t1-1", True),
    },
    "mixed-requests-elr-4": set(),
    # t1-2 is reduced to broker 0, whose unclean registration takes it out of the ELR (167): the ELR keeps 2 and 3,
    # which are no replicas. min.insync.replicas of t1 is lowered while t1-0 has no leader (199), which clears the ELR.
    # An operator requests the unclean election of 1 (235).
    "mixed-requests-elr-6": {
        *((137, name, "t1-2", True) for name in _REASSIGNED),
        (167, "somebody_is_electable", "t1-2", True),
        (199, "somebody_is_electable", "t1-0", True),
        (235, "leader_elected_cleanly", "t1-0", True),
    },
    "quickrestart-elr": set(),
    "raft3-elr": set(),
    # t1-1 is reduced to broker 2, and later to 0 and 1.
    "reassigns-elr": {(offset, name, "t1-1", True) for offset in (84, 133) for name in _REASSIGNED},
    # t1-0 is reduced to broker 3.
    "requests-elr": {(228, name, "t1-0", True) for name in _REASSIGNED},
    "restarts-elr": set(),
    "restarts-noelr": set(),
    "restarts-snap-elr": set(),
    # 2 is elected uncleanly, as the topic allows; later 0, as an operator requests it.
    "unclean-requests-elr": {
        (65, "leader_elected_cleanly", "t1-0", True),
        (139, "leader_elected_cleanly", "t1-0", True),
    },
}


def test_every_cluster_is_in_the_table() -> None:
    assert sorted(FINDINGS) == NAMES_4_2


@pytest.mark.parametrize("name", FINDINGS)
def test_every_change_conforms_and_the_findings_are_in_the_table(name: str) -> None:
    binary = CLUSTERS_4_2 / name / "__cluster_metadata-0"
    report = report_on(binary)
    assert (report.unexplained_count, report.unexplained) == (0, [])
    assert (report.doubts, report.unreliable_count, report.damage) == ([], 0, [])
    assert report.profile == PROFILES["-noelr" not in name]
    assert min(report.records, report.changes, report.partitions) > 0
    assert report.figures.get("snapshots compared", 0) == len(list(binary.glob("*.checkpoint")))
    assert report.skipped.get("NO_OP_RECORD"), "skipped records are counted"
    found = [(f.position["offset"], f.property, f.partition, f.certain) for f in report.findings]
    assert len(found) == sum(report.findings_count.values())
    assert sorted(found) == sorted(FINDINGS[name])
