"""Recordings of controller operations: reading, changing and making them."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from highwater.traces.operations.decide import decide
from highwater.traces.operations.read_recording import OUTSIDE, Operation, RecordingMeta
from highwater.traces.operations.replay import rules_in_force
from highwater.traces.operations.state import ControllerState
from highwater.traces.reading import Place
from tests import recordings

needs_recordings = recordings.needs("traces/kafka/controller")


def lines_of(path: Path) -> list[dict[str, Any]]:
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    return [json.loads(line) for line in text.splitlines()]


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


# --- random changes -------------------------------------------------------------------------------------

FieldPath = tuple[str | int, ...]


def fields_of(value: Any, path: FieldPath = ()) -> Iterator[FieldPath]:
    """The path of every scalar and every list in a JSON value."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from fields_of(item, (*path, name))
    elif isinstance(value, list):
        yield path
        for i, item in enumerate(value):
            yield from fields_of(item, (*path, i))
    else:
        yield path


def name_of(path: FieldPath) -> str:
    """The field's name without indexes: ``records[].data.isr`` for ``records[0].data.isr``."""
    name = ""
    for part in path:
        name += "[]" if isinstance(part, int) else f".{part}" if name else str(part)
    return name


def is_outside(name: str) -> bool:
    return any(name == o or name.startswith((f"{o}.", f"{o}[")) for o in OUTSIDE)


def get(value: Any, path: FieldPath) -> Any:
    for part in path:
        value = value[part]
    return value


def put(value: Any, path: FieldPath, new: Any) -> None:
    get(value, path[:-1])[path[-1]] = new


def another(rng: random.Random, value: Any) -> Any:
    """A random variation of a value, mostly of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice([-2, -1, 1, 2, 1000])
    if isinstance(value, str):
        return rng.choice([value + "x", value[:-1] if value else "x", "NONE", "RECOVERING", "true"])
    if value is None:
        return rng.choice([0, "t0", [0]])
    if not value:
        return [0]
    at = rng.randrange(len(value))
    return rng.choice(
        [value[:at] + value[at + 1 :], [*value[:at], *value[at:][:1], *value[at:]], value[::-1]]
    )


# --- recordings made by the model -----------------------------------------------------------------------


@dataclass
class Recorder:
    """Records the model's own decisions in the format of the recordings."""

    elr: bool = True
    brokers: int = 3
    rules: dict[str, bool] = field(default_factory=dict)
    metadata_version: tuple[int, int, int] = (4, 0, 3)

    def __post_init__(self) -> None:
        self.meta = RecordingMeta(self.elr, self.metadata_version, False, self.brokers, 1000)
        self.model = ControllerState.at_start(self.meta, rules_in_force(self.meta, rules=self.rules).rules)
        self.lines: list[dict[str, Any]] = [{"meta": self._meta()}]
        self.now = 0

    def _meta(self) -> dict[str, Any]:
        return {
            "format": "controller-oracle-1", "mode": "made", "seed": 0, "randomOps": 0, "kafkaCommit": "none",
            "elrEnabled": self.elr, "metadataVersion": "{}.{}-IV{}".format(*self.metadata_version),
            "cleanAwareRegistration": False, "extras": False, "sessionTimeoutMs": 1000, "brokers": self.brokers,
            "topics": 1, "partitionsPerTopic": 1, "replicationFactor": self.brokers, "minIsr": 2,
        }  # fmt: skip

    @property
    def partition(self) -> dict[str, Any]:
        return next(iter(self.model.recorded_form()["partitions"].values()))

    def do(self, name: str, after_ms: int = 10, **arguments: Any) -> str:
        """Run one operation on the model and record it; returns the model's error code."""
        self.now += after_ms
        offset = 100 if self.model.next_offset is None else self.model.next_offset
        step = len(self.lines) - 1
        response = {"topicId": "topic"} if name == "createTopic" else None
        place = Place(Path("made"), step + 2)
        op = Operation(
            step + 2, place, step, self.now, offset, name, arguments, "NONE", response, [], {}, {}
        )  # fmt: skip
        outcome = decide(self.model, op)
        state = self.model.recorded_form()
        if name == "registerBroker":
            arguments = {**arguments, **outcome.annotations}
        records = [
            {"type": kind, "version": version, "data": data | self._outside(kind)}
            for group in outcome.records for kind, version, data in group
        ]  # fmt: skip
        line: dict[str, Any] = {
            "i": step, "op": {"name": name, **arguments}, "timeMs": self.now, "nextOffset": offset,
            "error": outcome.error, "response": self._response(outcome.response), "records": records,
            "partitions": [
                {"topic": "t0", "partition": int(key.rsplit("-", 1)[1]), **value}
                for key, value in state["partitions"].items()
            ],
            "brokers": [{"id": b, **value, "processAlive": True} for b, value in state["brokers"].items()],
        }  # fmt: skip
        if line["response"] is None:
            del line["response"]
        self.lines.append(line)
        return outcome.error

    @staticmethod
    def _response(response: dict[str, Any] | None) -> dict[str, Any] | None:
        if response and "results" in response:
            found = []
            for key, error in response["results"].items():
                topic, number = key.rsplit("-", 1)
                found.append({"topic": topic, "partition": int(number), "error": error})
            return {"results": found}
        return response

    @staticmethod
    def _outside(kind: str) -> dict[str, Any]:
        if kind == "PARTITION_RECORD":
            return {"directories": []}
        if kind == "REGISTER_BROKER_RECORD":
            return {"isMigratingZkBroker": False, "endPoints": [], "features": [], "rack": "", "logDirs": []}
        return {}

    # --- shorthands for operations ---

    def register(self, broker: int, incarnation: str, previous: int = -1, after_ms: int = 10) -> str:
        return self.do(
            "registerBroker", after_ms, broker=broker, incarnation=incarnation, newIncarnation=True,
            previousBrokerEpoch=previous, previousEpochMatches=False, kind="made",
        )  # fmt: skip

    def epoch(self, broker: int) -> int:
        epoch: int = self.model.registrations[broker]["epoch"]
        return epoch

    def heartbeat(
        self, broker: int, fence: bool = False, stop: bool = False, epoch: int | None = None
    ) -> str:
        return self.do(
            "brokerHeartbeat", broker=broker, brokerEpoch=self.epoch(broker) if epoch is None else epoch,
            currentMetadataOffset=(self.model.next_offset or 100) - 1, wantFence=fence, wantShutDown=stop, kind="made",
        )  # fmt: skip

    def configure(self, kind: str, resource: str, key: str, value: str | None) -> str:
        return self.do("incrementalAlterConfigs", resourceType=kind, resource=resource, key=key, value=value)

    def alter(self, isr: list[int], **changes: Any) -> str:
        p = self.partition
        leader = max(0, p["leader"])
        arguments = {
            "topic": "t0", "partition": 0, "requestVersion": 3, "broker": leader, "brokerEpoch": self.epoch(leader),
            "leaderEpoch": p["leaderEpoch"], "partitionEpoch": p["partitionEpoch"], "kind": "made",
            "newIsr": [{"id": b, "epoch": self.epoch(b)} for b in isr], "leaderRecoveryState": "RECOVERED",
        }  # fmt: skip
        return self.do("alterPartition", **(arguments | changes))


def made(**settings: Any) -> Recorder:
    """A recording with every operation except the expiry of a session."""
    r = Recorder(**settings)
    for b in range(r.brokers):
        r.register(b, f"first-{b}")
        r.heartbeat(b)
    r.do("createTopic", topic="t0", assignments=[[0, 1, 2]], configs={"min.insync.replicas": "2"})
    r.alter([0, 1])
    r.alter([0])
    r.alter([0, 1], brokerEpoch=1)
    r.alter([0, 0])
    r.alter([0, 1], leaderEpoch=7)
    r.do("electLeaders", type="PREFERRED", topic="t0", partition=0)
    r.heartbeat(0, fence=True)
    r.register(1, "second-1", after_ms=5)
    r.register(1, "second-1", r.epoch(1), after_ms=1500)
    r.heartbeat(1)
    r.heartbeat(0)
    r.do("electLeaders", type="UNCLEAN", topic=None, partition=None)
    for value in ("1", "3", None):
        r.configure("TOPIC", "t0", "min.insync.replicas", value)
    r.configure("BROKER", "", "min.insync.replicas", "2")
    r.alter([0, 1, 2])
    r.do("alterPartitionReassignments", topic="t0", partition=0, replicas=[1, 2], kind="made")
    r.do("alterPartitionReassignments", topic="t0", partition=0, replicas=None, kind="made")
    r.do("maybeBalancePartitionLeaders")
    r.heartbeat(r.partition["leader"], stop=True)
    r.configure("TOPIC", "t0", "unclean.leader.election.enable", "true")
    r.do("maybeElectUncleanLeaders")
    r.heartbeat(2, epoch=3)
    return r
