"""Where the first partition of a topic gets fewer replicas, min.insync.replicas means less for the topic's others."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.traces.kafka.values import encode
from highwater.traces.replay import replay
from tests.generation.batches import encode_batch

TOPIC = "AAAAAAAAAAAAAAAAAAAAAQ"
BROKERS = [0, 1, 2]


def beginning() -> list[bytes]:
    """Three brokers that are active, and two partitions on all of them, with min.insync.replicas 3 and ELR on."""
    values = [
        encode("FEATURE_LEVEL_RECORD", 0, {"name": name, "featureLevel": level})
        for name, level in (("metadata.version", 25), ("eligible.leader.replicas.version", 1))
    ]
    for broker in BROKERS:
        names = {"brokerId": broker, "brokerEpoch": len(values)}
        whole = {
            "isMigratingZkBroker": False, "incarnationId": f"AAAAAAAAAAAAAAAAAAAA{'BCD'[broker]}w", "endPoints": [],
            "features": [], "rack": None, "fenced": True, "inControlledShutdown": False, "logDirs": [],
        }  # fmt: skip
        values.append(encode("REGISTER_BROKER_RECORD", 3, names | whole))
        values.append(encode("BROKER_REGISTRATION_CHANGE_RECORD", 0, names | {"fenced": -1}, lenient=True))
    values.append(encode("TOPIC_RECORD", 0, {"name": "t", "topicId": TOPIC}))
    setting = {"resourceType": 2, "resourceName": "t", "name": "min.insync.replicas", "value": "3"}
    values.append(encode("CONFIG_RECORD", 0, setting))
    for number in (0, 1):
        created = {
            "partitionId": number, "topicId": TOPIC, "replicas": BROKERS, "isr": BROKERS, "removingReplicas": [],
            "addingReplicas": [], "leader": 0, "leaderEpoch": 0, "partitionEpoch": 0,
        }  # fmt: skip
        values.append(encode("PARTITION_RECORD", 0, created))
    return values


@pytest.mark.parametrize("fewer", [True, False], ids=["fewer replicas", "as many"])
def test_a_shrink_goes_by_the_first_partitions_replicas(tmp_path: Path, fewer: bool) -> None:
    """An ISR of two leaves nobody in the ELR where two are enough, and only there."""
    smaller = {"topicId": TOPIC, "isr": [0, 1]}
    changes = [smaller | {"partitionId": 0, "replicas": [0, 1]}] * fewer + [smaller | {"partitionId": 1}]
    values = beginning() + [encode("PARTITION_CHANGE_RECORD", 2, c, lenient=True) for c in changes]
    batches = [encode_batch(offset, 1, 1000, [value]) for offset, value in enumerate(values)]
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join(batches))
    found = [entry for entry in replay(path).unexplained if entry.partition == "t-1"]
    assert [entry.position["offset"] for entry in found] == ([] if fewer else [len(values) - 1])
    if found:
        assert dict(found[0].candidates[0].differences) == {"eligibleLeaderReplicas": ([2], [])}
