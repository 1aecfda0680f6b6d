"""Generated request logs in the form of Kafka's request logger, with their metadata log.

``RequestLogs`` writes any lines, valid or not. ``write_fetches`` writes a healthy cluster with any number of
fetches.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TextIO

from highwater.traces.kafka.codec import uuid_text
from highwater.traces.kafka.values import LATEST, encode
from tests.generation import records
from tests.generation.writing import LogWriter

TOPIC, TOPIC_ID = "t1", "AAAAAAAAAAAAAAAAAAAABQ"
NODES = 9000
"""Broker N listens at port NODES + N, and its controller listener is CONTROLLER."""
CONTROLLER = 100
START_MS = 1_795_300_000_000
_NAMES = {0: "PRODUCE", 1: "FETCH", 56: "ALTER_PARTITION", 62: "BROKER_REGISTRATION", 63: "BROKER_HEARTBEAT"}
_VERSIONS = {0: 13, 1: 18, 56: 3, 62: 4, 63: 1}
Members = Sequence[tuple[int, int]]


class Partition(NamedTuple):
    topic: str = TOPIC
    topic_id: str = TOPIC_ID
    number: int = 0


FIRST = Partition()


class RequestLogs:
    """A context manager that writes a cluster's metadata log and request logs into a directory.

    ``now`` is the time in ms, which the caller advances. A request is answered ``took`` ms after it arrived.
    """

    def __init__(self, directory: Path) -> None:
        self.directory, self.now, self.took = directory, START_MS, 2.0
        self.metadata = LogWriter(_made(directory / "__cluster_metadata-0"), 1 << 30)
        self._files: dict[int, TextIO] = {}
        self._numbers: dict[str, int] = {}
        self._sessions: dict[tuple[int, int], int] = {}
        self.counts: Counter[int] = Counter()
        """API key → number of written lines."""

    def __enter__(self) -> RequestLogs:
        self.metadata.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, wrong: BaseException | None, where: TracebackType | None
    ) -> None:
        self.metadata.__exit__(kind, wrong, where)
        for file in self._files.values():
            file.close()

    # --- metadata -------------------------------------------------------------------------------------

    def records(self, *decided: tuple[str, Mapping[str, Any]]) -> None:
        """Append the records of one decision."""
        values = [encode(name, LATEST[name], dict(data), lenient=True) for name, data in decided]
        self.metadata.append(values, self.now)
        self.metadata.flush()

    def register(self, broker: int) -> int:
        """Register and unfence a broker; returns its broker epoch, the registration's offset."""
        epoch = self.metadata.offset
        self.records(("REGISTER_BROKER_RECORD", registration(broker, epoch)))
        self.records(
            ("BROKER_REGISTRATION_CHANGE_RECORD", {"brokerId": broker, "brokerEpoch": epoch, "fenced": -1})
        )
        return epoch

    def begin(
        self, brokers: Iterable[int], replicas: Sequence[int], isr: Sequence[int], min_isr: int
    ) -> dict[int, int]:
        """Start a Kafka 4.2 cluster with one partition, led by the first replica; returns broker → epoch."""
        epochs = self.start(brokers)
        self.now += 1000
        self.create(FIRST, replicas, isr, min_isr)
        self.now += 1000
        return epochs

    def start(self, brokers: Iterable[int]) -> dict[int, int]:
        """Start a Kafka 4.2 cluster without partitions; returns broker → epoch."""
        features = {records.METADATA: 29, records.ELR: 1}
        levels = [("FEATURE_LEVEL_RECORD", {"name": n, "featureLevel": v}) for n, v in features.items()]
        self.records(*levels, ("CONFIG_RECORD", setting(4, "", "2")))
        return {broker: self.register(broker) for broker in brokers}

    def create(self, of: Partition, replicas: Sequence[int], isr: Sequence[int], min_isr: int) -> None:
        """Create a topic with one partition, led by the first replica."""
        partition = records.partition_data(of.number, of.topic_id, replicas, isr=list(isr), directories=[])
        self.records(
            ("TOPIC_RECORD", {"name": of.topic, "topicId": of.topic_id}),
            ("CONFIG_RECORD", setting(2, of.topic, str(min_isr))),
            ("CLEAR_ELR_RECORD", {"topicName": of.topic}),
            ("PARTITION_RECORD", partition),
        )

    # --- requests -------------------------------------------------------------------------------------

    def line(
        self, node: int, api: int, client: str, request: Mapping[str, Any], response: Mapping[str, Any],
        took: float | None = None,
    ) -> None:  # fmt: skip
        """Write a request to a node, answered now."""
        took = self.took if took is None else took
        self.counts[api] += 1
        number = self._numbers[client] = self._numbers.get(client, -1) + 1
        body = {
            "isForwarded": False,
            "requestHeader": {
                "requestApiKey": api, "requestApiVersion": _VERSIONS[api], "correlationId": number, "clientId": client,
                "requestApiKeyName": _NAMES[api],
            },
            "request": request,
            "response": response,
            "connection": f"127.0.0.1:{NODES + node}-127.0.0.1:50000-0-0",
            "totalTimeMs": took, "requestQueueTimeMs": 0.0, "localTimeMs": took, "remoteTimeMs": 0.0,
            "throttleTimeMs": 0, "responseQueueTimeMs": 0.0, "sendTimeMs": 0.0,
            "securityProtocol": "PLAINTEXT", "principal": "User:ANONYMOUS", "listener": "PLAINTEXT",
        }  # fmt: skip
        self.text(node, json.dumps(body, separators=(",", ":")))

    def text(self, node: int, body: str) -> None:
        """Write any text as a line at the current time."""
        at = datetime.fromtimestamp(self.now // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        head = f"[{at},{self.now % 1000:03}] DEBUG Completed request:"
        self._file(node).write(f"{head}{body} (kafka.request.logger)\n")

    def _file(self, node: int) -> TextIO:
        if node not in self._files:
            path = _made(self.directory / "logs" / f"node{node}") / "kafka-request.log"
            self._files[node] = path.open("w", encoding="utf-8")
        return self._files[node]

    def fetch(
        self, leader: int, follower: int, broker_epoch: int, leader_epoch: int, offset: int, last_epoch: int, hwm: int,
        size: int = 0, diverging: tuple[int, int] | None = None, error: int = 0, of: Partition = FIRST,
    ) -> None:  # fmt: skip
        session = self._sessions[(leader, follower)] = self._sessions.get((leader, follower), -1) + 1
        asked = {
            "partition": of.number, "currentLeaderEpoch": leader_epoch, "fetchOffset": offset,
            "lastFetchedEpoch": last_epoch, "logStartOffset": 0, "partitionMaxBytes": 1048576,
        }  # fmt: skip
        answer: dict[str, Any] = {
            "partitionIndex": of.number, "errorCode": error, "highWatermark": hwm, "lastStableOffset": hwm,
            "logStartOffset": 0, "abortedTransactions": None, "preferredReadReplica": -1, "recordsSizeInBytes": size,
        }  # fmt: skip
        if diverging is not None:
            answer["divergingEpoch"] = {"epoch": diverging[0], "endOffset": diverging[1]}
        number = 1000 + follower
        request = {
            "replicaState": {"replicaId": follower, "replicaEpoch": broker_epoch}, "maxWaitMs": 500, "minBytes": 1,
            "sessionId": number if session else 0, "sessionEpoch": session,
            "topics": [{"topicId": of.topic_id, "partitions": [asked]}], "forgottenTopicsData": [],
        }  # fmt: skip
        response = {
            "throttleTimeMs": 0, "errorCode": 0, "sessionId": number,
            "responses": [{"topicId": of.topic_id, "partitions": [answer]}],
        }  # fmt: skip
        self.line(leader, 1, f"broker-{follower}-fetcher-0", request, response)

    def produce(
        self, leader: int, offset: int, error: int = 0, acks: int = -1, took: float | None = None,
        of: Partition = FIRST,
    ) -> None:  # fmt: skip
        request = {"transactionalId": None, "acks": acks, "timeoutMs": 2000, "topicData": [
            {"topicId": of.topic_id, "partitionData": [{"index": of.number, "recordsSizeInBytes": 70}]}]}  # fmt: skip
        answer = {"index": of.number, "errorCode": error, "baseOffset": offset, "logStartOffset": 0}
        response = {
            "responses": [{"topicId": of.topic_id, "partitionResponses": [answer]}],
            "throttleTimeMs": 0,
        }
        self.line(leader, 0, "producer-1", request, response, took)

    def alter(
        self, leader: int, broker_epoch: int, leader_epoch: int, partition_epoch: int, members: Members,
        answer: tuple[int, int, Sequence[int], int] | int, took: float | None = None, recovering: bool = False,
        of: Partition = FIRST,
    ) -> None:  # fmt: skip
        """An AlterPartition and its response: (leader, leader epoch, ISR, partition epoch), or an error."""
        proposed = {
            "partitionIndex": of.number, "leaderEpoch": leader_epoch, "partitionEpoch": partition_epoch,
            "leaderRecoveryState": int(recovering),
            "newIsrWithEpochs": [{"brokerId": b, "brokerEpoch": e} for b, e in members],
        }  # fmt: skip
        error = answer if isinstance(answer, int) else 0
        after = (0, 0, (), 0) if isinstance(answer, int) else answer
        decided = {
            "partitionIndex": of.number, "errorCode": error, "leaderId": after[0], "leaderEpoch": after[1],
            "isr": list(after[2]), "leaderRecoveryState": 0, "partitionEpoch": after[3],
        }  # fmt: skip
        request = {"brokerId": leader, "brokerEpoch": broker_epoch,
                   "topics": [{"topicId": of.topic_id, "partitions": [proposed]}]}  # fmt: skip
        response = {
            "throttleTimeMs": 0,
            "errorCode": 0,
            "topics": [{"topicId": of.topic_id, "partitions": [decided]}],
        }
        self.line(CONTROLLER, 56, str(leader), request, response, took)

    def heartbeat(self, broker: int, broker_epoch: int, metadata_offset: int) -> None:
        """A heartbeat of a broker that has replayed the metadata log up to an offset."""
        request = {"brokerId": broker, "brokerEpoch": broker_epoch, "currentMetadataOffset": metadata_offset,
                   "wantFence": False, "wantShutDown": False}  # fmt: skip
        response = {
            "throttleTimeMs": 0,
            "errorCode": 0,
            "isCaughtUp": True,
            "isFenced": False,
            "shouldShutDown": False,
        }
        self.line(CONTROLLER, 63, str(broker), request, response)


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def setting(kind: int, resource: str, min_isr: str) -> dict[str, Any]:
    return records.setting_data(records.MIN_ISR, min_isr, resource, kind)


def registration(broker: int, epoch: int) -> dict[str, Any]:
    """The data of a record that registers a fenced broker."""
    return records.registration_data(
        broker, epoch, uuid_text(epoch.to_bytes(16)), endPoints=records.endpoint("127.0.0.1", NODES + broker),
        features=records.supported({records.METADATA: (7, 29), records.ELR: (0, 1)}),
    )  # fmt: skip


def write_fetches(directory: Path, fetches: int, followers: Iterable[int] = (2, 3)) -> int:
    """Write a leader's log with fetches of one batch each, and the writes; returns the line count."""
    chosen, leader, lines = list(followers), 1, 0
    with RequestLogs(directory) as made:
        epochs = made.begin([leader, *chosen], [leader, *chosen], [leader, *chosen], 2)
        offset = done = 0
        while done < fetches:
            for follower in chosen:
                made.now += 3
                # The last follower's fetch advances the HWM.
                hwm = offset if follower == chosen[-1] else max(0, offset - 1)
                made.fetch(leader, follower, epochs[follower], 0, offset, -1 if offset == 0 else 0, hwm, 70)
                done += 1
            if offset:
                made.now += 1
                made.produce(leader, offset - 1, took=4.0)
                lines += 1
            offset += 1
    return lines + done
