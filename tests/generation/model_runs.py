"""Runs of the replication model, written as Kafka's request logs and metadata log."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from highwater.model.language.function import Function
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Model
from highwater.model.replication import logs
from highwater.model.replication.protocol import Replication
from highwater.model.replication.rules import PROFILES
from tests.generation.requests import FIRST, Partition, RequestLogs, registration, setting

STEP_MS = 1000
"""ms of a step: longer than the clock difference between two nodes."""
AFTER = 25
"""Idle lines at the end of each node's log, so that earlier requests are complete."""
_UP = ("RUNNING", "SHUTTING_DOWN")
Step = tuple[str, Mapping[str, Any]]
Run = list[tuple[Step, dict[str, Any]]]
"""The states of a run, each with the step that led to it; the initial one has an empty step."""


_TYPES = Replication({"brokers": 3, "records": 4}, PROFILES["kafka_4_2"].rules)
_DIVERGES = Function(
    lambda log, offset, last: logs.diverges(log, offset, last),
    log=_TYPES.log,
    offset=_TYPES.offset,
    last=_TYPES.some_epoch,
)


def parted(log: Any, offset: int, last: int | None) -> bool:
    """True if a fetch position is not on the log, by the model's B3."""
    found: bool = _DIVERGES(log=log, offset=offset, last=last)
    return found


def model(rules_off: Sequence[str] = (), rules_on: Sequence[str] = (), **parameters: int) -> Interpreter:
    """Kafka 4.2's profile without ``rules_off`` and with ``rules_on``."""
    given = {"brokers": 3, "records": 2, "min_isr": 2, **parameters}
    return Interpreter(
        Model(Replication(given, (PROFILES["kafka_4_2"].rules | set(rules_on)) - set(rules_off)))
    )


def scripted(interpreter: Interpreter, steps: Sequence[Step]) -> Run:
    """The run of these steps from the initial state."""
    state = interpreter.model.first_initial
    found: Run = [(("", {}), interpreter.model.decode(state))]
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


class Walk:
    """A random run: each step draws one of the enabled actions, then one of its instances.

    ``prompt``: writes are acknowledged as soon as possible and in offset order, as Kafka does.
    """

    def __init__(self, interpreter: Interpreter, seed: int, prompt: bool = False) -> None:
        self._interpreter, self._chosen, self._prompt = interpreter, random.Random(seed), prompt
        self._state = interpreter.model.first_initial
        self.run: Run = [(("", {}), interpreter.model.decode(self._state))]

    def step(self, names: frozenset[str] | None = None) -> bool:
        """Take a random step, of the actions ``names`` if given; returns False if none is enabled."""
        interpreter = self._interpreter
        by_name: dict[str, list[int]] = {}
        for number in interpreter.enabled(self._state):
            name = interpreter.model.instances[number].action.name
            if names is None or name in names:
                by_name.setdefault(name, []).append(number)
        if not by_name:
            return False
        if self._prompt and "acknowledge" in by_name:
            number = min(by_name["acknowledge"], key=self._offset)
        else:
            number = self._chosen.choice(by_name[self._chosen.choice(sorted(by_name))])
        after = interpreter.step(self._state, number).state
        if after is not None:
            instance = interpreter.model.instances[number]
            step = (instance.action.name, dict(instance.parameters))
            self.run.append((step, interpreter.model.decode(after)))
            self._state = after
        return True

    def _offset(self, number: int) -> int:
        """The offset of the record that the step acknowledges."""
        at = self._interpreter.model.instances[number].parameters
        log = self.run[-1][1]["brokers"][at["leader"]]["log"]
        return next(i for i, record in enumerate(log) if record["value"] == at["value"])


def walked(interpreter: Interpreter, seed: int, length: int) -> Run:
    walk = Walk(interpreter, seed)
    for _ in range(length):
        walk.step()
    return walk.run


@dataclass
class Place:
    """Maps a run of the model to a real partition: brokers, offsets and epochs.

    ``offset`` is the first offset of the run, ``last_epoch`` the epoch of the record before it, −1 for none.
    A model record stands for a batch; ``sizes`` has the batches' record counts in order (1 if missing).
    ``leader_epoch`` and ``partition_epoch`` are added to the model's epochs.
    """

    of: Partition = FIRST
    brokers: Sequence[int] = range(64)
    offset: int = 0
    sizes: Sequence[int] = ()
    leader_epoch: int = 0
    partition_epoch: int = 0
    last_epoch: int = -1

    def at(self, offset: int) -> int:
        """The real offset of a model offset."""
        return self.offset + sum(self.sizes[:offset]) + max(0, offset - len(self.sizes))

    def nodes(self, slots: Iterable[int]) -> list[int]:
        return sorted(self.brokers[slot] for slot in slots)

    def node(self, slot: int | None) -> int:
        return -1 if slot is None else self.brokers[slot]

    def epoch(self, epoch: int | None) -> int:
        """The real leader epoch; for None, that of the record before the run."""
        return self.last_epoch if epoch is None else self.leader_epoch + epoch


class Telling:
    """Writes steps of a run to logs. ``epochs``: (slot, model's broker epoch) → broker epoch."""

    def __init__(self, made: RequestLogs, place: Place, epochs: Mapping[tuple[int, int], int]) -> None:
        self.made, self.place, self.epochs = made, place, dict(epochs)
        self.waiting: dict[int, tuple[float, int, int]] = {}
        """Value of an unacknowledged write → (time written, leader's slot, offset)."""

    def tell(self, step: Step, before: dict[str, Any], after: dict[str, Any]) -> None:
        """Write a step's records to the metadata log and its requests to a request log."""
        self._metadata(before, after)
        self.made.now += 5
        self._step(step, before, after)
        self._given_up(after)

    def _step(self, step: Step, before: dict[str, Any], after: dict[str, Any]) -> None:
        (name, at), place = step, self.place
        if name in ("write_acks_all", "write_acks_one"):
            offset = len(after["brokers"][at["leader"]]["log"]) - 1
            if name == "write_acks_one":
                self.made.produce(place.node(at["leader"]), place.at(offset), acks=1, of=place.of)
            else:
                self.waiting[at["value"]] = self.made.now, at["leader"], offset
        elif name == "acknowledge":
            log = before["brokers"][at["leader"]]["log"]
            offset = next(i for i, record in enumerate(log) if record["value"] == at["value"])
            took = self.made.now - self.waiting.pop(at["value"])[0]
            self.made.produce(place.node(at["leader"]), place.at(offset), took=took, of=place.of)
        elif name == "answer_fetch":
            self._answered(at["leader"], at["f"], before, after)
        elif name == "refuse_fetch":
            self._refused(at["f"], before)
        elif name == "handle_alter_partition":
            self._decided(at["b"], before, after)

    def _given_up(self, after: dict[str, Any]) -> None:
        """A deposed leader answers the clients that wait for it; a leader that is down does not."""
        place = self.place
        for value, (since, leader, offset) in list(self.waiting.items()):
            broker = after["brokers"][leader]
            if broker["status"] not in _UP:
                del self.waiting[value]
            elif broker["view"]["leader"] != leader:
                del self.waiting[value]
                took = self.made.now - since
                self.made.produce(place.node(leader), place.at(offset), 6, took=took, of=place.of)

    def _fetch(self, f: int, state: dict[str, Any]) -> tuple[dict[str, Any], tuple[int, int, int, int]]:
        request, place = state["fetch_requests"][f], self.place
        return request, (
            self.epochs[(f, request["broker_epoch"])],
            place.leader_epoch + request["leader_epoch"],
            place.at(request["offset"]),
            place.epoch(request["last_epoch"]),
        )

    def _answered(self, leader: int, f: int, before: dict[str, Any], after: dict[str, Any]) -> None:
        place = self.place
        request, sent = self._fetch(f, before)
        answer = after["fetch_responses"][f]
        log, diverging = before["brokers"][leader]["log"], None
        if answer is None and parted(log, request["offset"], request["last_epoch"]):
            return  # the request reached nobody and was not logged
        if answer is not None and answer["diverging"]:
            diverging = (place.epoch(answer["epoch"]), place.at(answer["end"]))
        size = 70 * (diverging is None and len(log) > request["offset"])
        hwm = place.at(after["brokers"][leader]["hwm"] if answer is None else answer["hwm"])
        self.made.fetch(
            place.node(leader), place.node(f), *sent, hwm=hwm, size=size, diverging=diverging, of=place.of
        )

    def _refused(self, f: int, before: dict[str, Any]) -> None:
        request, sent = self._fetch(f, before)
        leader = before["brokers"][request["leader"]]
        if leader["status"] not in _UP:
            return
        ahead = leader["view"]["leader_epoch"] - request["leader_epoch"]
        error, place = 74 if ahead > 0 else 75 if ahead < 0 else 6, self.place
        self.made.fetch(place.node(request["leader"]), place.node(f), *sent, hwm=-1, error=error, of=place.of)

    def _decided(self, b: int, before: dict[str, Any], after: dict[str, Any]) -> None:
        sent, partition, place = before["alter_requests"][b], after["partition"], self.place
        members = [
            (place.node(m), -1 if (e := sent["epochs"][m]) is None else self.epochs[(m, e)])
            for m in sorted(sent["isr"])
        ]
        answer = after["alter_responses"][b]
        if answer is None:
            return
        told: Any = (
            place.node(partition["leader"]), place.leader_epoch + partition["leader_epoch"],
            place.nodes(partition["isr"]), place.partition_epoch + partition["partition_epoch"],
        )  # fmt: skip
        if answer["outcome"] == "REVERT":
            told = 107
        elif answer["outcome"] == "KEEP":
            now = before["registrations"][b]["epoch"]
            told = 95 if sent["leader_epoch"] == before["partition"]["leader_epoch"] else 74
            told = told if now == sent["broker_epoch"] else 77
        self.made.alter(
            place.node(b), self.epochs[(b, sent["broker_epoch"])], place.leader_epoch + sent["leader_epoch"],
            place.partition_epoch + sent["partition_epoch"], members, told, of=place.of,
        )  # fmt: skip

    # --- metadata log ---------------------------------------------------------------------------------

    def _metadata(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        records: list[tuple[str, dict[str, Any]]] = []
        of = self.place.of
        if before["min_insync_replicas"] != after["min_insync_replicas"]:
            records.append(("CONFIG_RECORD", setting(2, of.topic, str(after["min_insync_replicas"]))))
            records.append(("CLEAR_ELR_RECORD", {"topicName": of.topic}))
        change = self._change(before["partition"], after["partition"])
        if change and not records:
            names = {"partitionId": of.number, "topicId": of.topic_id}
            records.append(("PARTITION_CHANGE_RECORD", {**names, **change}))
        for b, (old, new) in enumerate(zip(before["registrations"], after["registrations"], strict=True)):
            node = self.place.node(b)
            if old["epoch"] != new["epoch"]:
                epoch = self.epochs[(b, new["epoch"])] = self.made.metadata.offset
                records.append(("REGISTER_BROKER_RECORD", registration(node, epoch)))
            elif old != new:
                told = {"brokerId": node, "brokerEpoch": self.epochs[(b, new["epoch"])]}
                if old["fenced"] != new["fenced"]:
                    told["fenced"] = 1 if new["fenced"] else -1
                if new["in_controlled_shutdown"] and not old["in_controlled_shutdown"]:
                    told["inControlledShutdown"] = 1
                # A fencing comes after its partition changes; other registration changes come before them.
                at = len(records) if told.get("fenced") == 1 else 0
                records.insert(at, ("BROKER_REGISTRATION_CHANGE_RECORD", told))
        if records:
            self.made.records(*records)

    def _change(self, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
        names = {"isr": "isr", "elr": "eligibleLeaderReplicas", "leader": "leader", "replicas": "replicas"}
        found: dict[str, Any] = {}
        place = self.place
        for name, written in names.items():
            value, old = after[name], before[name]
            if value != old or (name == "leader" and before["leader_epoch"] != after["leader_epoch"]):
                found[written] = place.node(value) if name == "leader" else place.nodes(value)
        if before["last_known_leader"] != after["last_known_leader"]:
            known = after["last_known_leader"]
            found["lastKnownElr"] = [] if known is None else [place.node(known)]
        if before["leader_recovery_state"] != after["leader_recovery_state"]:
            found["leaderRecoveryState"] = int(after["leader_recovery_state"] == "RECOVERING")
        return found


class Written(Telling):
    """Writes a run with the model's broker ids and offsets. A broker epoch is its registration's offset."""

    def __init__(self, directory: Path, states: Run) -> None:
        with RequestLogs(directory) as made:
            super().__init__(made, Place(), {})
            first = states[0][1]
            partition = first["partition"]
            brokers = range(len(first["brokers"]))
            idle(made, brokers)  # so that the logs begin before the partition was created
            begun = made.begin(brokers, partition["replicas"], partition["isr"], first["min_insync_replicas"])
            self.epochs |= {(b, 0): epoch for b, epoch in begun.items()}
            for (_, before), (step, after) in itertools.pairwise(states):
                made.now += STEP_MS
                self.tell(step, before, after)
            for _ in range(AFTER):
                made.now += 300
                idle(made, brokers)


def idle(made: RequestLogs, brokers: Iterable[int]) -> None:
    """Log one request at each broker that names no existing partition."""
    for broker in brokers:
        made.produce(broker, -1, error=45)
