"""The recorded clusters of Kafka 4.2.1: every change is explained by its rules, and their findings are these."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from highwater.traces.kafka.metadata_log import DUMP, LOG
from highwater.traces.replay import replay as replay_input
from tests.traces.kafka.made import CLUSTERS_4_2, NAMES_4_2, needs_clusters_4_2
from tests.traces.metadata.test_recorded_clusters import Found, replay, said

pytestmark = needs_clusters_4_2

ON, OFF = "kafka_4_2", "kafka_4_2_elr_off"

# The members of ISR and ELR that a reassignment makes go come into the ELR, though they are no replicas any more; with
# fewer replicas than min.insync.replicas their number is min ISR (966.2), which the ISR has: no ELR should be there.
_REASSIGNED = ("elr_within_replicas", "elr_only_under_min_isr", "electable_completeness")

FINDINGS: dict[str, Found] = {
    # ELR [0], and 0 is the last known leader. 0 comes back after kill -9, and its registration takes it out of the ELR
    # (90): nobody can be elected cleanly. It dies again before it is unfenced, and is not elected, as it was in 2024.
    # An operator asks for an unclean election, and 1 is elected (116), which a crash had taken out of the ELR.
    "deadleader-elr": {
        (90, "somebody_is_electable", "t1-0", True),
        (116, "leader_elected_cleanly", "t1-0", True),
    },
    # The registration of 1 empties the ELR, and in the same change the last known leader 0 is elected, which has come
    # back uncleanly, too (62 took it out of the ELR).
    "down-elr-hard-021": {(92, "leader_elected_cleanly", "t1-0", True)},
    # The same with 0 last: its own registration empties the ELR. Being fenced it is not elected by that, as it was in
    # 2024, but when it is unfenced.
    "down-elr-hard-120": {
        (98, "somebody_is_electable", "t1-0", True),
        (102, "leader_elected_cleanly", "t1-0", True),
    },
    "down-elr-hard-210": {
        (118, "somebody_is_electable", "t1-0", True),
        (123, "leader_elected_cleanly", "t1-0", True),
    },
    # SIGTERM: the restarts are clean, and nobody leaves the ELR.
    "down-elr-soft-120": set(),
    # Unclean election is allowed, and 2, neither in the ISR nor in the ELR [0, 1], is elected when it is unfenced.
    "down-elr-unclean-210": {(78, "leader_elected_cleanly", "t1-0", True)},
    # ELR off: that an ISR of one holds alone what is committed breaks no promise.
    "down-noelr-210": set(),
    "minisr-broker-elr": set(),
    # min.insync.replicas 2 → 1 clears the ELR (what in 2024 lost records), the lone leader 0 dies, and is then all
    # that is in the ELR; its registration empties it. As last known leader it is elected all the same.
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
    # t1-2 is reduced to broker 0. min.insync.replicas of t1 is lowered while t1-0 and t1-2 have no leader (199), which
    # clears the ELR. An operator asks for the unclean election of 1 (235).
    "mixed-requests-elr-6": {
        *((137, name, "t1-2", True) for name in _REASSIGNED),
        (199, "somebody_is_electable", "t1-0", True),
        (199, "somebody_is_electable", "t1-2", True),
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
    # 2 is elected uncleanly, as the topic allows; later 0, as an operator asks for it.
    "unclean-requests-elr": {
        (65, "leader_elected_cleanly", "t1-0", True),
        (139, "leader_elected_cleanly", "t1-0", True),
    },
}

LOST: dict[str, list[tuple[int, str]]] = {
    "down-elr-unclean-210": [(78, "54 committed records (offsets 36–89) are lost")],
    "mixed-requests-elr-6": [(235, "24 committed records (offsets 280–303) are lost")],
    "unclean-requests-elr": [
        (65, "67 committed records (offsets 36–102) are lost"),
        (139, "54 committed records (offsets 219–272) are lost"),
    ],
}
"""What a new leader lacked, by the brokers' logs."""


@pytest.fixture
def dumps(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A directory with the dumps of a scenario and nothing else."""
    for dump in (CLUSTERS_4_2 / request.param).glob("dump-*.txt.gz"):
        (tmp_path / dump.name).symlink_to(dump)
    return tmp_path


def test_every_cluster_is_in_the_table() -> None:
    assert sorted(FINDINGS) == NAMES_4_2


@pytest.mark.parametrize("scenario", NAMES_4_2)
def test_every_change_is_explained(scenario: str) -> None:
    binary = CLUSTERS_4_2 / scenario / "__cluster_metadata-0"
    kind, report = replay(binary)
    assert kind == LOG
    assert (report.unexplained_count, report.unexplained) == (0, [])
    assert (report.doubts, report.unreliable_count, report.damage) == ([], 0, [])
    assert report.profile == (OFF if "-noelr" in scenario else ON)
    assert min(report.records, report.changes, report.partitions) > 0
    assert report.figures.get("snapshots compared", 0) == len(list(binary.glob("*.checkpoint")))


@pytest.mark.parametrize("scenario", NAMES_4_2)
def test_findings(scenario: str) -> None:
    _, report = replay(CLUSTERS_4_2 / scenario / "__cluster_metadata-0")
    found = [(f.position["offset"], f.property, f.partition, f.certain) for f in report.findings]
    assert len(found) == sum(report.findings_count.values())
    assert sorted(found) == sorted(FINDINGS[scenario])


@pytest.mark.parametrize(
    ("scenario", "dumps"), [(s, s) for s in NAMES_4_2], indirect=["dumps"], ids=NAMES_4_2
)
def test_the_dumps_say_the_same(scenario: str, dumps: Path) -> None:
    _, binary = replay(CLUSTERS_4_2 / scenario / "__cluster_metadata-0")
    kind, text = replay(dumps)
    assert kind == DUMP
    assert json.dumps(said(text)).replace(".txt.gz", "") == json.dumps(said(binary))


@pytest.mark.parametrize("scenario", NAMES_4_2)
def test_losses_are_told_with_their_numbers(scenario: str) -> None:
    """Where records were lost, and nowhere else; as many as nobody has who was told that they were written."""
    cluster = CLUSTERS_4_2 / scenario
    logs = [log for log in sorted(cluster.glob("logs/node*/*.log.gz")) if log.name != "raft.log.gz"]
    report = replay_input(cluster / "__cluster_metadata-0", broker_logs=logs)
    told = [f for f in report.findings if f.property == "leader_completeness"]
    assert [(f.position["offset"], f.at_risk.split(";")[0]) for f in told] == LOST.get(scenario, [])
    assert all(f.certain and f.reliable for f in told)
    lost = sum(p["lost"] for p in json.loads((cluster / "losscheck.json").read_text()).values())
    assert sum(int(f.at_risk.split()[0]) for f in told) == lost
