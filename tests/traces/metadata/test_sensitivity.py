"""The recorded metadata logs conform to the rules of their version; replay reports single changes of them."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.kafka.batches import RecordBatch
from highwater.traces.kafka.metadata_log import PARTITION, Gap, open_metadata_log
from highwater.traces.kafka.values import MetadataRecord, decode, encode
from highwater.traces.replay import replay
from tests.generation.batches import encode_batch
from tests.generation.records import ELR, METADATA, MIN_ISR
from tests.slow import often, slow
from tests.traces.kafka.made import CLUSTERS_4_2, NAMES_4_2, needs_clusters_4_2
from tests.traces.metadata.made_logs import report_on

pytestmark = needs_clusters_4_2

Log = list[RecordBatch]
Changed = tuple[str, range, Log]
"""The kind of a change, the offsets at which it shows, and the changed log."""
SETS = ("isr", "eligibleLeaderReplicas", "lastKnownElr", "replicas", "addingReplicas", "removingReplicas")
LEVELS = {METADATA: (1, 7, 11, 12, 15, 20, 22, 23, 24, 25), ELR: (0, 1)}


def others(record: MetadataRecord, brokers: list[int]) -> Iterator[tuple[str, Any]]:
    """Other values of a record's fields, each by the field's name; None leaves a field out."""
    data, is_change = record.data, record.type == "PARTITION_CHANGE_RECORD"
    for name, now in data.items():
        if name in SETS and now is not None:
            yield from ((name, [m for m in now if m != member]) for member in now)
            yield from ((name, [*now, other]) for other in brokers if other not in now)
        elif name in ("leader", "brokerId"):
            yield from ((name, other) for other in (*brokers, -1) if other != now)
        elif name in ("brokerEpoch", "leaderEpoch", "partitionEpoch"):
            yield from ((name, now - 1), (name, now + 1))
        elif name in ("fenced", "inControlledShutdown"):
            yield from ((name, type(now)(other)) for other in (-1, 0, 1) if other != now)
        elif name == "value" and data["name"] == MIN_ISR:
            yield from ((name, other) for other in ("1", "2", "3", None) if other != now)
        elif name == "featureLevel":
            yield from ((name, level) for level in LEVELS.get(data["name"], ()) if level != now)
        if is_change and name in (*SETS, "leader", "leaderRecoveryState"):
            yield name, None


def changes(log: Log) -> Iterator[Changed]:
    """Each change of one field of one record; each record left out, or written twice; neighbours swapped."""
    placed = [
        (number, place, decode(value))
        for number, batch in enumerate(log) if not batch.control
        for place, value in enumerate(batch.values) if value is not None
    ]  # fmt: skip
    brokers = sorted({r.data["brokerId"] for *_, r in placed if r.type == "REGISTER_BROKER_RECORD"})
    for at, (number, place, record) in enumerate(placed):
        batch = log[number]
        values, around = batch.values, range(batch.base_offset, batch.last_offset + 2)
        for name, other in others(record, brokers):
            data = record.data | {name: other}
            if other is None and name != "value":
                del data[name]
            value = encode(record.type, record.version, data, lenient=True)
            if value != values[place]:
                changed = batch._replace(values=[*values[:place], value, *values[place + 1 :]])
                yield f"{record.type} {name}", around, [*log[:number], changed, *log[number + 1 :]]
        for copies in (0, 2):
            changed = batch._replace(
                values=[*values[:place], *[values[place]] * copies, *values[place + 1 :]]
            )
            yield f"{copies} times {record.type}", around, [*log[:number], changed, *log[number + 1 :]]
        if at + 1 < len(placed) and placed[at + 1][0] == number:
            pair = [values[place + 1], values[place]]
            changed = batch._replace(values=[*values[:place], *pair, *values[place + 2 :]])
            yield f"{record.type} later", around, [*log[:number], changed, *log[number + 1 :]]


def written(log: Log, path: Path) -> Path:
    """Write a log without gaps in its offsets."""
    content, offset = b"", 0
    for batch in log:
        keys = batch.keys if batch.control else None
        content += encode_batch(
            offset, batch.leader_epoch, batch.timestamp, batch.values, control=batch.control, keys=keys
        )
        offset += len(batch.values)
    path.write_bytes(content)
    return path


def recorded(name: str) -> Log:
    """The batches of a recorded cluster."""
    items = open_metadata_log(CLUSTERS_4_2 / name / PARTITION).batches()
    return [item[1] for item in items if not isinstance(item, Gap)]


@pytest.mark.parametrize(
    ("name", "sample"),
    [
        ("reassigns-elr", 1), ("restarts-noelr", 1),
        *(pytest.param(n, often(3, 10), marks=slow("every cluster; fast: two")) for n in NAMES_4_2),
    ],
)  # fmt: skip
def test_a_change_is_reported_where_it_is(name: str, sample: int, tmp_path: Path) -> None:
    """Some changes make another history that the protocol allows: a decision explains each of its states."""
    log, draw, found = recorded(name), random.Random(name), Counter[str]()
    profile = replay(written(log, tmp_path / "log")).profile
    by_kind: dict[str, list[Changed]] = defaultdict(list)
    for one in changes(log):
        by_kind[one[0]].append(one)
    for kind in by_kind.values():
        for _, around, changed in draw.sample(kind, min(sample, len(kind))):
            report = replay(written(changed, tmp_path / "log"), timelines=True)
            is_reported = report.unexplained_count or report.doubts or report.profile != profile
            found["reported" if is_reported else "not reported"] += 1
            states = [state for timeline in report.timelines.values() for state in timeline.changes]
            assert is_reported or None not in [state.cause for state in states]
            if report.unexplained:
                first = report.unexplained[0].position["offset"]
                assert first >= around[0]
                found["there" if first in around else "later"] += 1
    assert found["reported"] > 3 * found["not reported"]
    assert found["there"] > 2 * found["later"]


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
