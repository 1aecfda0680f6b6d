"""Runs of the replication model, written as the request logs and the metadata log that Kafka would have written."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from highwater.model.language.function import Function
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Model
from highwater.model.replication import logs
from highwater.model.replication.protocol import Replication
from highwater.model.replication.rules import PROFILES
from tests.generation.requests import TOPIC, TOPIC_ID, RequestLogs, registration, setting

STEP_MS = 1000
"""A step takes longer than the clocks of two nodes may be apart."""
AFTER = 25
"""So many lines are behind a run in each node's log, so that what was under way is over."""
Step = tuple[str, Mapping[str, Any]]


_TYPES = Replication({"brokers": 3, "records": 4}, PROFILES["kafka_4_2"].rules)
_DIVERGES = Function(
    lambda log, offset, last: logs.diverges(log, offset, last),
    log=_TYPES.log,
    offset=_TYPES.offset,
    last=_TYPES.some_epoch,
)


def parted(log: Any, offset: int, last: int | None) -> bool:
    """B3, as the model has it: whether a fetch is not on a log."""
    found: bool = _DIVERGES(log=log, offset=offset, last=last)
    return found


def model(rules_off: Sequence[str] = (), rules_on: Sequence[str] = (), **parameters: int) -> Interpreter:
    """The protocol as Kafka 4.2 has it, less some rules, and with others."""
    given = {"brokers": 3, "records": 2, "min_isr": 2, **parameters}
    return Interpreter(
        Model(Replication(given, (PROFILES["kafka_4_2"].rules | set(rules_on)) - set(rules_off)))
    )


def scripted(interpreter: Interpreter, steps: Sequence[Step]) -> list[tuple[Step, dict[str, Any]]]:
    """The states that these steps lead through, each behind its step; the first has none."""
    state = interpreter.model.first_initial
    found: list[tuple[Step, dict[str, Any]]] = [(("", {}), interpreter.model.decode(state))]
    for name, parameters in steps:
        numbers = [
            n for n, i in enumerate(interpreter.model.instances)
            if i.action.name == name and all(i.parameters[k] == v for k, v in parameters.items())
        ]  # fmt: skip
        enabled = [n for n in numbers if n in interpreter.enabled(state)]
        assert enabled, (
            name,
            parameters,
            interpreter.refusals(state, interpreter.model.instances[numbers[0]]),
        )
        after = interpreter.step(state, enabled[0]).state
        assert after is not None
        found.append(
            (
                (name, dict(interpreter.model.instances[enabled[0]].parameters)),
                interpreter.model.decode(after),
            )
        )
        state = after
    return found


def walked(interpreter: Interpreter, seed: int, length: int) -> list[tuple[Step, dict[str, Any]]]:
    """A random run."""
    chosen, state = random.Random(seed), interpreter.model.first_initial
    found: list[tuple[Step, dict[str, Any]]] = [(("", {}), interpreter.model.decode(state))]
    for _ in range(length):
        by_name: dict[str, list[int]] = {}
        for number in interpreter.enabled(state):
            by_name.setdefault(interpreter.model.instances[number].action.name, []).append(number)
        number = chosen.choice(by_name[chosen.choice(sorted(by_name))])
        after = interpreter.step(state, number).state
        if after is None:
            continue
        instance = interpreter.model.instances[number]
        found.append(((instance.action.name, dict(instance.parameters)), interpreter.model.decode(after)))
        state = after
    return found


class Written:
    """Writes a run. Brokers and offsets are the model's; broker epochs are the offsets of the registrations."""

    def __init__(self, directory: Path, states: Sequence[tuple[Step, dict[str, Any]]]) -> None:
        self.epochs: dict[tuple[int, int], int] = {}
        self.written: dict[int, float] = {}
        with RequestLogs(directory) as self.made:
            first = states[0][1]
            partition = first["partition"]
            brokers = range(len(first["brokers"]))
            for b in brokers:  # so that the logs go back to before the partition was created
                self.made.produce(b, -1, error=45)
            begun = self.made.begin(
                brokers, partition["replicas"], partition["isr"], first["min_insync_replicas"]
            )
            self.epochs |= {(b, 0): epoch for b, epoch in begun.items()}
            for (_, before), (step, after) in itertools.pairwise(states):
                self.made.now += STEP_MS
                self._metadata(before, after)
                self.made.now += 5
                self._step(step, before, after)
            for _ in range(AFTER):
                self.made.now += 300
                for b in brokers:
                    self.made.produce(b, -1, error=45)

    def _step(self, step: Step, before: dict[str, Any], after: dict[str, Any]) -> None:
        name, at = step
        if name in ("write_acks_all", "write_acks_one"):
            self.written[at["value"]] = self.made.now
            if name == "write_acks_one":
                log = after["brokers"][at["leader"]]["log"]
                self.made.produce(at["leader"], len(log) - 1, acks=1)
        elif name == "acknowledge":
            log = before["brokers"][at["leader"]]["log"]
            offset = next(i for i, record in enumerate(log) if record["value"] == at["value"])
            self.made.produce(at["leader"], offset, took=self.made.now - self.written[at["value"]])
        elif name == "answer_fetch":
            self._answered(at["leader"], at["f"], before, after)
        elif name == "refuse_fetch":
            self._refused(at["f"], before)
        elif name == "handle_alter_partition":
            self._decided(at["b"], before, after)

    def _fetch(self, f: int, state: dict[str, Any]) -> tuple[dict[str, Any], tuple[int, int, int, int]]:
        request = state["fetch_requests"][f]
        last = -1 if request["last_epoch"] is None else request["last_epoch"]
        return request, (
            self.epochs[(f, request["broker_epoch"])],
            request["leader_epoch"],
            request["offset"],
            last,
        )

    def _answered(self, leader: int, f: int, before: dict[str, Any], after: dict[str, Any]) -> None:
        request, sent = self._fetch(f, before)
        answer = after["fetch_responses"][f]
        log, diverging = before["brokers"][leader]["log"], None
        if answer is None and parted(log, request["offset"], request["last_epoch"]):
            return  # it reached nobody, and noted nothing
        if answer is not None and answer["diverging"]:
            diverging = (-1 if answer["epoch"] is None else answer["epoch"], answer["end"])
        size = 70 * (diverging is None and len(log) > request["offset"])
        hwm = after["brokers"][leader]["hwm"] if answer is None else answer["hwm"]
        self.made.fetch(leader, f, *sent, hwm=hwm, size=size, diverging=diverging)

    def _refused(self, f: int, before: dict[str, Any]) -> None:
        request, sent = self._fetch(f, before)
        leader = before["brokers"][request["leader"]]
        if leader["status"] not in ("RUNNING", "SHUTTING_DOWN"):
            return
        ahead = leader["view"]["leader_epoch"] - request["leader_epoch"]
        self.made.fetch(
            request["leader"], f, *sent, hwm=-1, error=74 if ahead > 0 else 75 if ahead < 0 else 6
        )

    def _decided(self, b: int, before: dict[str, Any], after: dict[str, Any]) -> None:
        sent, partition = before["alter_requests"][b], after["partition"]
        members = [
            (m, -1 if (e := sent["epochs"][m]) is None else self.epochs[(m, e)]) for m in sorted(sent["isr"])
        ]
        answer = after["alter_responses"][b]
        if answer is None:
            return
        isr = sorted(partition["isr"])
        told: Any = (partition["leader"], partition["leader_epoch"], isr, partition["partition_epoch"])
        if answer["outcome"] == "REVERT":
            told = 107
        elif answer["outcome"] == "KEEP":
            now = before["registrations"][b]["epoch"]
            told = 95 if sent["leader_epoch"] == before["partition"]["leader_epoch"] else 74
            told = told if now == sent["broker_epoch"] else 77
        epoch = self.epochs[(b, sent["broker_epoch"])]
        self.made.alter(b, epoch, sent["leader_epoch"], sent["partition_epoch"], members, told)

    # --- the metadata log -----------------------------------------------------------------------------

    def _metadata(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        records: list[tuple[str, dict[str, Any]]] = []
        if before["min_insync_replicas"] != after["min_insync_replicas"]:
            records.append(("CONFIG_RECORD", setting(2, TOPIC, str(after["min_insync_replicas"]))))
            records.append(("CLEAR_ELR_RECORD", {"topicName": TOPIC}))
        change = self._change(before["partition"], after["partition"])
        if change and not records:
            records.append(("PARTITION_CHANGE_RECORD", {"partitionId": 0, "topicId": TOPIC_ID, **change}))
        for b, (old, new) in enumerate(zip(before["registrations"], after["registrations"], strict=True)):
            if old["epoch"] != new["epoch"]:
                epoch = self.epochs[(b, new["epoch"])] = self.made.metadata.offset
                records.append(("REGISTER_BROKER_RECORD", registration(b, epoch)))
            elif old != new:
                told = {"brokerId": b, "brokerEpoch": self.epochs[(b, new["epoch"])]}
                if old["fenced"] != new["fenced"]:
                    told["fenced"] = 1 if new["fenced"] else -1
                if new["in_controlled_shutdown"] and not old["in_controlled_shutdown"]:
                    told["inControlledShutdown"] = 1
                # A fencing is written behind what it does to partitions, the rest before it.
                at = len(records) if told.get("fenced") == 1 else 0
                records.insert(at, ("BROKER_REGISTRATION_CHANGE_RECORD", told))
        if records:
            self.made.records(*records)

    def _change(self, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
        names = {"isr": "isr", "elr": "eligibleLeaderReplicas", "leader": "leader", "replicas": "replicas"}
        found: dict[str, Any] = {}
        for name, written in names.items():
            value, old = after[name], before[name]
            if value != old or (name == "leader" and before["leader_epoch"] != after["leader_epoch"]):
                found[written] = (-1 if value is None else value) if name == "leader" else sorted(value)
        if before["last_known_leader"] != after["last_known_leader"]:
            known = after["last_known_leader"]
            found["lastKnownElr"] = [] if known is None else [known]
        if before["leader_recovery_state"] != after["leader_recovery_state"]:
            found["leaderRecoveryState"] = int(after["leader_recovery_state"] == "RECOVERING")
        return found
