"""Replay of a controller's recorded operations: each is run through the rules from the state before it.

The state before an operation is the recorded one. What the recording does not hold, the sessions of the
brokers and the dynamic configurations, is carried along by the model's own rules.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from model.language.errors import LanguageError
from model.replication.controller import batches
from model.replication.controller.types import NO_LEADER
from traces.decisions import Decisions, decisions
from traces.operations.format import (
    ANY_TEXT,
    CONFIGS,
    RECOVERY_STATES,
    RESOURCES,
    TOPIC,
    ControllerTrace,
    Operation,
)
from traces.report import Candidate, Report, Unexplained

Key = tuple[str, int]
Record = tuple[str, int, dict[str, Any]]
MIN_ISR, UNCLEAN = CONFIGS
DEFAULTS = {MIN_ISR: "1", UNCLEAN: "false"}
UNKNOWN = "unknown broker"


@dataclass
class Outcome:
    """What the model says that the controller does, in the terms of the recording.

    ``records`` are groups: the order of groups is the order in the batch; within a group, which goes over
    partitions in the order of a hash table, any order will do.
    """

    error: str = "NONE"
    response: dict[str, Any] | None = None
    records: list[list[Record]] = field(default_factory=list)
    annotations: dict[str, Any] = field(default_factory=dict)
    refused_by: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)

    def refuse(self, verdict: Any) -> bool:
        """Take over the verdict of the checks; whether they refuse."""
        self.error, self.refused_by, self.passed = verdict.answer, verdict.refused_by, verdict.passed
        return bool(verdict.answer != "NONE")

    @property
    def record_count(self) -> int:
        """How many records are appended."""
        return sum(len(group) for group in self.records)


class ControllerReplay:
    """The controller as the model has it, driven by recorded operations."""

    def __init__(self, trace: ControllerTrace, rules: frozenset[str]) -> None:
        meta = trace.meta
        self.meta, self.path = meta, trace.path
        self.count = meta.brokers
        # One slot more than there are brokers stands for all ids that nobody has; nothing ever registers there.
        self.model: Decisions = decisions(meta.brokers + 1, rules)
        self.registrations = [_zero(self.model.t.registration)] * (meta.brokers + 1)
        self.sessions = [_zero(self.model.t.session)] * (meta.brokers + 1)
        self.incarnations: dict[int, str] = {}
        self.partitions: dict[Key, dict[str, Any]] = {}
        self.topic_ids: dict[str, str] = {}
        self.topic_configs: dict[str, dict[str, str]] = {}
        self.broker_configs: dict[str, str] = {}
        self.next_offset: int | None = None
        self.step: int | None = None
        self.now_ms = 0
        self.last_known_is_elr = "last_known_elr" in rules and "last_known_leader" not in rules

    # --- one operation ----------------------------------------------------------------------------

    def take(self, op: Operation) -> Unexplained | None:
        """Run one operation; what the model and the recording disagree about, or None where they agree.

        Where something that the recording does not hold can decide, each possibility is tried.
        """
        before, kept = self._recorded_form(), self._kept()
        candidates: list[Candidate] = []
        for suppose in (lambda: None, *self._unobserved(op)):
            self._go_back(kept)
            wrong: dict[str, tuple[Any, Any]] = {}
            outcome = Outcome()
            try:
                suppose()
                outcome = self.decide(op)
                self._compare(op, outcome, wrong)
            except LanguageError as left:
                wrong["the model"] = (str(left), "recorded")
            if not wrong:
                return None
            candidates.append(Candidate(op.name, op.arguments, outcome.refused_by, outcome.passed, wrong))
        self._adopt(op)
        candidates.sort(key=lambda c: len(c.differences))
        return self._unexplained(op, before, candidates[0].differences, candidates)

    def _unexplained(
        self, op: Operation, before: dict[str, Any], wrong: Mapping[str, Any], candidates: list[Candidate]
    ) -> Unexplained:
        concerned = [
            k for k in sorted(before["partitions"]) if any(f"partitions[{k}]" in path for path in wrong)
        ]
        if op.arguments.get("topic") is not None and "partition" in op.arguments:
            concerned = [f"{op.arguments['topic']}-{op.arguments['partition']}"]
        return Unexplained(
            {"line": op.line, "step": op.step},
            op.time_ms,
            concerned[0] if concerned else None,
            {
                "partitions": {k: v for k, v in before["partitions"].items() if k in concerned},
                "brokers": {str(k): v for k, v in before["brokers"].items()},
            },
            tuple(candidates),
        )

    def _kept(self) -> dict[str, Any]:
        """The state, to go back to."""
        return {name: _copied(getattr(self, name)) for name in _STATE}

    def _go_back(self, kept: dict[str, Any]) -> None:
        for name, value in kept.items():
            setattr(self, name, _copied(value))

    def _unobserved(self, op: Operation) -> list[Callable[[], None]]:
        """What can have happened before an operation without having been recorded: heartbeats.

        Each possibility assumes as little as explains the operation. A broker can have been heard of since its
        last recorded heartbeat, so that its session still lives; and it can have replayed more metadata than
        it last reported, so that another's controlled shutdown is granted.
        """
        broker, every = op.arguments.get("broker", -1), range(self.count)
        if op.name == "registerBroker" and broker in every:
            return [lambda: self._heard_of([broker], op.time_ms)]
        if op.name == "fenceStaleBroker":
            others = [b for b in every if b != broker]
            return [lambda: self._heard_of(others, op.time_ms), lambda: self._heard_of(every, op.time_ms)]
        if op.name == "brokerHeartbeat" and broker in every:
            shutdown = self.sessions[broker]["controlled_shutdown_offset"]
            if shutdown is not None:
                return [lambda: self._have_replayed([b for b in every if b != broker], shutdown)]
        return []

    def _heard_of(self, brokers: Iterable[int], now_ms: int) -> None:
        earliest = max(0, now_ms - self.meta.session_timeout_ms)
        for broker in brokers:
            session = self.sessions[broker]
            self.sessions[broker] = {**session, "last_contact_ms": max(session["last_contact_ms"], earliest)}

    def _have_replayed(self, brokers: Iterable[int], offset: int) -> None:
        for broker in brokers:
            session = self.sessions[broker]
            reported = session["metadata_offset"]
            at_least = offset if reported is None else max(reported, offset)
            self.sessions[broker] = {**session, "metadata_offset": at_least}

    def decide(self, op: Operation) -> Outcome:
        """What the model does with an operation, and the model's state after it."""
        self.now_ms = max(self.now_ms, op.time_ms)
        outcome: Outcome = getattr(self, f"_{op.name}")(op)
        self.step = op.step if self.step is None else self.step + 1
        start = op.next_offset if self.next_offset is None else self.next_offset
        self.next_offset = start + outcome.record_count
        return outcome

    def _compare(self, op: Operation, outcome: Outcome, wrong: dict[str, tuple[Any, Any]]) -> None:
        def check(path: str, model: Any, recorded: Any) -> None:
            if model != recorded:
                wrong[path] = (model, recorded)

        assert self.next_offset is not None
        check("i", self.step, op.step)
        check("nextOffset", self.next_offset - outcome.record_count, op.next_offset)
        if op.time_ms < self.now_ms:
            check("timeMs", f"at least {self.now_ms}", op.time_ms)
        for name, value in outcome.annotations.items():
            check(f"op.{name}", value, op.arguments[name])
        check("error", outcome.error, op.error)
        check("response", outcome.response, op.response)
        self._compare_records(outcome.records, op.records, wrong)
        after = self._recorded_form()
        for what, model, recorded in (
            ("partitions", after["partitions"], {f"{t}-{p}": v for (t, p), v in op.partitions.items()}),
            ("brokers", after["brokers"], op.brokers),
        ):
            for key in sorted({*model, *recorded}, key=str):
                ours, theirs = model.get(key), recorded.get(key)
                if ours is None or theirs is None:
                    check(f"{what}[{key}]", ours, theirs)
                    continue
                for name in ours:
                    check(f"{what}[{key}].{name}", ours[name], theirs[name])

    def _compare_records(
        self, groups: list[list[Record]], recorded: list[Record], wrong: dict[str, tuple[Any, Any]]
    ) -> None:
        expected = sum(len(g) for g in groups)
        if expected != len(recorded):
            kinds = [kind for group in groups for kind, _, _ in group]
            wrong["records"] = (kinds, [kind for kind, _, _ in recorded])
            return
        start = 0
        for group in groups:
            found = recorded[start : start + len(group)]
            pairs = zip(sorted(group, key=_record_key), sorted(found, key=_record_key), strict=True)
            for position, (model, theirs) in enumerate(pairs, start=start):
                at = f"records[{position}]"
                if model[0] != theirs[0]:
                    wrong[f"{at}.type"] = (model[0], theirs[0])
                    continue
                if model[1] != theirs[1]:
                    wrong[f"{at}.version"] = (model[1], theirs[1])
                for name in sorted({*model[2], *theirs[2]}):
                    ours, other = model[2].get(name, "not written"), theirs[2].get(name, "not written")
                    if ours != other:
                        wrong[f"{at}.data.{name}"] = (ours, other)
            start += len(group)

    # --- the state, as recorded and as the model has it ---------------------------------------------

    def _recorded_form(self) -> dict[str, Any]:
        partitions = {}
        for (topic, number), p in self.partitions.items():
            partitions[f"{topic}-{number}"] = {
                "replicas": self._ids(p["replicas"]),
                "isr": self._ids(p["isr"]),
                "elr": self._ids(p["elr"]),
                "lastKnownElr": self._last_known(p),
                "leader": self._leader(p["leader"]),
                "leaderEpoch": p["leader_epoch"],
                "partitionEpoch": p["partition_epoch"],
                "leaderRecoveryState": p["leader_recovery_state"],
                "adding": self._ids(p["adding"]),
                "removing": self._ids(p["removing"]),
                "effectiveMinIsr": self._min_isr(topic),
                "unclean": self._unclean(topic),
            }
        brokers = {
            broker: {
                "epoch": r["epoch"],
                "incarnation": self.incarnations.get(broker, ""),
                "fenced": r["fenced"],
                "inControlledShutdown": r["in_controlled_shutdown"],
            }
            for broker, r in enumerate(self.registrations[: self.count])
            if r["registered"]
        }
        return {"partitions": partitions, "brokers": brokers}

    def _last_known(self, p: dict[str, Any]) -> list[Any]:
        """The field lastKnownElr: this Kafka keeps the last known leader there, and no last known ELR."""
        if self.last_known_is_elr or p["last_known_elr"]:
            return self._ids(p["last_known_elr"])
        return [] if p["last_known_leader"] is None else self._ids([p["last_known_leader"]])

    def _ids(self, slots: Iterable[int]) -> list[Any]:
        return [UNKNOWN if slot == self.count else slot for slot in slots]

    def _leader(self, slot: int | None) -> Any:
        return NO_LEADER if slot is None else self._ids([slot])[0]

    def _slot(self, broker: int) -> int:
        return broker if broker < self.count else self.count

    def _adopt(self, op: Operation) -> None:
        """Go on from the recorded state, after a line that is not explained."""
        self.step, self.next_offset = op.step, op.next_offset + len(op.records)
        self.partitions = {
            key: {
                "replicas": self._known(op, key, "replicas", p["replicas"]),
                "adding": self._known(op, key, "adding", p["adding"]),
                "removing": self._known(op, key, "removing", p["removing"]),
                "isr": self._known(op, key, "isr", p["isr"]),
                "elr": self._known(op, key, "elr", p["elr"]),
                "last_known_elr": p["lastKnownElr"] if self.last_known_is_elr else [],
                "last_known_leader": self._known(op, key, "lastKnownElr", p["lastKnownElr"], NO_LEADER)[0]
                if p["lastKnownElr"] and not self.last_known_is_elr
                else None,
                "leader": None if p["leader"] == NO_LEADER else self._slot(p["leader"]),
                "leader_epoch": max(0, p["leaderEpoch"]),
                "partition_epoch": max(0, p["partitionEpoch"]),
                "leader_recovery_state": p["leaderRecoveryState"],
            }
            for key, p in op.partitions.items()
        }
        for topic, _ in self.partitions:
            self.topic_configs.setdefault(topic, {})
            self.topic_ids.setdefault(topic, "")
        for broker, b in op.brokers.items():
            if broker < self.count:
                self.registrations[broker] = {
                    "registered": True,
                    "epoch": max(0, b["epoch"]),
                    "fenced": b["fenced"],
                    "in_controlled_shutdown": b["inControlledShutdown"],
                }
                self.incarnations[broker] = b["incarnation"]

    def _known(self, op: Operation, key: Key, name: str, ids: list[int], low: int = 0) -> list[int]:
        for broker in ids:
            if not low <= broker < self.count:
                at = op.place.at(f"partitions[{key[0]}-{key[1]}]").at(name)
                raise at.wrong(f"broker {broker}, where the meta line has {self.count} brokers")
        if len(ids) > self.count:
            raise op.place.at(f"partitions[{key[0]}-{key[1]}]").at(name).wrong("more replicas than brokers")
        return ids

    # --- configuration ----------------------------------------------------------------------------

    def _config(self, topic: str, name: str) -> str:
        return self.topic_configs.get(topic, {}).get(name, self.broker_configs.get(name, DEFAULTS[name]))

    def _min_isr(self, topic: str) -> int:
        """966.2, with the replication factor of the topic's first partition, which is what this Kafka takes."""
        first = self.partitions[min(key for key in self.partitions if key[0] == topic)]
        return self.model.effective_min_isr(
            min_insync_replicas=int(self._config(topic, MIN_ISR)), replication_factor=len(first["replicas"])
        )

    def _unclean(self, topic: str) -> bool:
        return self._config(topic, UNCLEAN) == "true"

    def _of_topic(self, topic: str) -> dict[str, Any]:
        return {"min_isr": self._min_isr(topic), "unclean_election": self._unclean(topic)}

    # --- changes of partitions --------------------------------------------------------------------

    def _run(self, decide: Callable[..., Any], keys: Iterable[Key], **arguments: Any) -> list[Record]:
        """The records of a rule over partitions, which change with it."""
        records, before = [], {key: self.partitions[key] for key in keys}
        settings = {topic: self._of_topic(topic) for topic, _ in before}
        for key, partition in before.items():
            change = decide(
                partition=partition, registrations=self.registrations, **settings[key[0]], **arguments
            )
            records += self._apply(key, change)
        return records

    def _apply(self, key: Key, change: dict[str, Any]) -> list[Record]:
        """Store the partition after a change; its record, unless nothing changes."""
        if change["nothing"]:
            return []
        self.partitions[key] = after = change["after"]
        written, data = change["written"], {"partitionId": key[1], "topicId": self.topic_ids[key[0]]}
        for name, field_name in _WRITTEN_IDS:
            if written[field_name]:
                data[name] = self._ids(after[field_name])
        if written["last_known_leader"] or written["last_known_elr"]:
            data["lastKnownElr"] = self._last_known(after)
        if written["leader"]:
            data["leader"] = self._leader(after["leader"])
        if written["leader_recovery_state"]:
            data["leaderRecoveryState"] = RECOVERY_STATES.index(after["leader_recovery_state"])
        return [("PARTITION_CHANGE_RECORD", 2 if self.meta.elr_supported else 1, data)]

    def _groups(
        self, order: tuple[str, ...], broker: int, own: list[Record], decide: Callable[..., Any], **more: Any
    ) -> list[list[Record]]:
        """The records of a decision about a broker, in the order of its batch."""
        before = dict(self.partitions)
        choose: dict[str, Callable[[dict[str, Any]], bool]] = {
            batches.IN_ISR: lambda p: broker in p["isr"],
            batches.IN_ELR: lambda p: broker in p["elr"],
            batches.LEADERLESS: lambda p: p["leader"] is None,
        }
        groups, done = [], set()
        for part in order:
            if part == batches.BROKER:
                groups.append(own)
                continue
            keys = [key for key, p in before.items() if key not in done and choose[part](p)]
            done.update(keys)
            groups.append(self._run(decide, keys, broker=broker, **more))
        return groups

    # --- brokers ----------------------------------------------------------------------------------

    def _registerBroker(self, op: Operation) -> Outcome:
        args, outcome = op.arguments, Outcome()
        broker = args["broker"]
        if broker >= self.count:
            at = op.place.at("op.broker")
            raise at.wrong(f"broker {broker}, where the meta line has {self.count} brokers")
        offset = op.next_offset if self.next_offset is None else self.next_offset
        same = self.incarnations.get(broker) == args["incarnation"]
        found = self.model.register(
            registrations=self.registrations,
            sessions=self.sessions,
            now_ms=self.now_ms,
            timeout_ms=self.meta.session_timeout_ms,
            broker=broker,
            same_incarnation=same,
            previous_broker_epoch=args["previousBrokerEpoch"],
            new_epoch=offset,
        )
        outcome.annotations = {
            "newIncarnation": not same,
            "previousEpochMatches": found["names_registered_epoch"],
        }
        if outcome.refuse(found["checks"]):
            outcome.response = _exception(outcome.error)
            return outcome
        registration = found["registration"]
        own: list[Record] = [
            (
                "REGISTER_BROKER_RECORD",
                3,
                {
                    "brokerId": broker,
                    "incarnationId": args["incarnation"],
                    "brokerEpoch": registration["epoch"],
                    "fenced": registration["fenced"],
                    "inControlledShutdown": registration["in_controlled_shutdown"],
                },
            )
        ]
        outcome.records = self._groups(
            batches.REGISTRATION,
            broker,
            own,
            self.model.registration,
            clean=found["clean"],
            same_incarnation=same,
        )
        self._store(broker, registration)
        self.incarnations[broker] = args["incarnation"]
        self.sessions[broker] = self.model.session_of_registration(
            now_ms=self.now_ms, record_offset=offset + outcome.record_count - 1
        )
        outcome.response = {"brokerEpoch": registration["epoch"]}
        return outcome

    def _store(self, broker: int, registration: dict[str, Any]) -> None:
        self.registrations[broker] = registration

    def _fenceStaleBroker(self, op: Operation) -> Outcome:
        broker, outcome = self._slot(op.arguments["broker"]), Outcome()
        found = self.model.stale_broker(
            registrations=self.registrations,
            sessions=self.sessions,
            now_ms=self.now_ms,
            timeout_ms=self.meta.session_timeout_ms,
            broker=broker,
        )
        outcome.annotations = {"sessionExpired": found["any"]}
        if not found["any"]:
            return outcome
        if not found["this"]:
            outcome.annotations["broker"] = "another broker, whose session ended before"
            return outcome
        own: list[Record] = [self._registration_change(broker, 0, "fenced", 1)]
        outcome.records = self._groups(batches.FENCING, broker, own, self.model.fencing)
        self._store(broker, found["registration"])
        self.sessions[broker] = found["session"]
        return outcome

    def _registration_change(self, broker: int, version: int, name: str, value: int) -> Record:
        epoch = self.registrations[broker]["epoch"]
        data = {"brokerId": broker, "brokerEpoch": epoch, name: value}
        return ("BROKER_REGISTRATION_CHANGE_RECORD", version, data)

    def _brokerHeartbeat(self, op: Operation) -> Outcome:
        args, outcome = op.arguments, Outcome()
        broker = self._slot(args["broker"])
        request = {
            "broker": broker,
            "broker_epoch": max(0, args["brokerEpoch"]),
            "current_metadata_offset": max(0, args["currentMetadataOffset"]),
            "want_fence": args["wantFence"],
            "want_shut_down": args["wantShutDown"],
        }
        found = self.model.heartbeat(
            registrations=self.registrations,
            sessions=self.sessions,
            request=request,
            has_leaderships=any(p["leader"] == broker for p in self.partitions.values()),
        )
        if outcome.refuse(found["checks"]):
            outcome.response = _exception(outcome.error)
            return outcome
        own: list[Record] = []
        if found["changes_registration"]:
            after = found["registration"]
            if found["next"] == "CONTROLLED_SHUTDOWN":
                own.append(self._registration_change(broker, 1, "inControlledShutdown", 1))
            else:
                own.append(self._registration_change(broker, 0, "fenced", 1 if after["fenced"] else -1))
        outcome.records = self._groups(
            batches.HEARTBEAT[found["next"]],
            broker,
            own,
            self.model.heartbeat_change,
            current=found["current"],
            next=found["next"],
        )
        before = self.registrations[broker]
        self._store(broker, found["registration"])
        offset = op.next_offset if self.next_offset is None else self.next_offset
        self.sessions[broker] = self.model.session_after_heartbeat(
            registration=before,
            session=self.sessions[broker],
            request=request,
            next=found["next"],
            now_ms=self.now_ms,
            last_offset=max(0, offset + outcome.record_count - 1),
        )
        outcome.response = {_REPLY[name]: value for name, value in found["reply"].items()}
        return outcome

    # --- requests about partitions ------------------------------------------------------------------

    def _about(self, topic: str, number: int) -> tuple[Key, bool, dict[str, Any]]:
        """A partition's key, whether it exists, and the inputs of the rules about it."""
        key = (topic, number)
        known = key in self.partitions
        settings = self._of_topic(topic) if known else {"min_isr": 0, "unclean_election": False}
        partition = self.partitions[key] if known else self.model.no_partition
        return key, known, {"partition": partition, "registrations": self.registrations, **settings}

    def _alterPartition(self, op: Operation) -> Outcome:
        args, outcome = op.arguments, Outcome()
        key, known, inputs = self._about(args["topic"], args["partition"])
        # A list longer than there are brokers has somebody twice, and so has its beginning.
        members = args["newIsr"][: self.model.t.proposed_isr.maximum]
        found = self.model.alter_partition(
            **inputs,
            topic_known=args["topic"] in self.topic_ids,
            partition_known=known,
            request={
                "version": args["requestVersion"],
                "broker": self._slot(args["broker"]),
                "broker_epoch": args["brokerEpoch"],
                "leader_epoch": args["leaderEpoch"],
                "partition_epoch": args["partitionEpoch"],
                "new_isr": [
                    {"broker": self._slot(m["id"]), "epoch": None if m["epoch"] == -1 else m["epoch"]}
                    for m in members
                ],
                "leader_recovery_state": args["leaderRecoveryState"],
            },
        )
        if outcome.refuse(found["checks"]):
            if outcome.error == "STALE_BROKER_EPOCH":
                outcome.response = _exception(outcome.error)
            return outcome
        outcome.records = [self._apply(key, found)]
        outcome.error = found["error"]
        if outcome.error == "NONE":
            after = self.partitions[key]
            outcome.response = {
                "leaderId": self._leader(after["leader"]),
                "leaderEpoch": after["leader_epoch"],
                "isr": self._ids(after["isr"]),
                "partitionEpoch": after["partition_epoch"],
                "leaderRecoveryState": after["leader_recovery_state"],
            }
        return outcome

    def _electLeaders(self, op: Operation) -> Outcome:
        args, outcome = op.arguments, Outcome()
        every = args["topic"] is None
        keys = list(self.partitions) if every else [(args["topic"], args["partition"])]
        results, records = {}, []
        for key in keys:
            key, known, inputs = self._about(*key)
            found = self.model.elect(**inputs, election=args["type"], partition_known=known)
            verdict = found["checks"]
            error = verdict.answer
            if error == "NONE":
                records += self._apply(key, found)
                error = found["error"]
            if not every:
                outcome.refused_by, outcome.passed = verdict.refused_by, verdict.passed
            if not every or error != "ELECTION_NOT_NEEDED":
                results[f"{key[0]}-{key[1]}"] = error
        outcome.records = [records]
        outcome.error = next((e for e in results.values() if e != "NONE"), "NONE")
        outcome.response = {"results": results}
        return outcome

    def _maybeElectUncleanLeaders(self, op: Operation) -> Outcome:
        return Outcome(records=[self._run(self.model.unclean_task, self.partitions)])

    def _maybeBalancePartitionLeaders(self, op: Operation) -> Outcome:
        return Outcome(records=[self._run(self.model.balance_task, self.partitions)])

    def _alterPartitionReassignments(self, op: Operation) -> Outcome:
        args, outcome = op.arguments, Outcome()
        key, known, inputs = self._about(args["topic"], args["partition"])
        if args["replicas"] is None:
            found = self.model.cancel(**inputs, partition_known=known)
        else:
            # As with a proposed ISR, a list longer than there are brokers has somebody twice.
            target = [self._slot(b) for b in args["replicas"]][: self.model.t.replicas.maximum]
            found = self.model.reassign(**inputs, target=target, partition_known=known)
        if outcome.refuse(found["checks"]):
            if outcome.error == "INVALID_REPLICA_ASSIGNMENT":
                outcome.response = {"message": ANY_TEXT}
            return outcome
        outcome.records = [self._apply(key, found)]
        return outcome

    # --- topics and their configuration ---------------------------------------------------------------

    def _incrementalAlterConfigs(self, op: Operation) -> Outcome:
        args = op.arguments
        of_topic = args["resourceType"] == "TOPIC"
        if of_topic and args["resource"] not in self.topic_ids:
            raise op.place.at("op.resource").wrong("a topic that does not exist")
        configs = dict(self.topic_configs[args["resource"]] if of_topic else self.broker_configs)
        # A value that is there already is not written again, except for brokers, which reload by the record.
        if of_topic and configs.get(args["key"]) == args["value"]:
            return Outcome()
        if args["value"] is None:
            configs.pop(args["key"], None)
        else:
            configs[args["key"]] = args["value"]
        if of_topic:
            self.topic_configs[args["resource"]] = configs
        else:
            self.broker_configs = configs
        record = _config_record(RESOURCES[args["resourceType"]], args["resource"], args["key"], args["value"])
        changes: list[Record] = []
        if args["key"] == MIN_ISR:
            for key in list(self.partitions):
                if not of_topic or key[0] == args["resource"]:
                    change = self.model.min_isr_change(
                        partition=self.partitions[key], min_isr=self._min_isr(key[0])
                    )
                    changes += self._apply(key, change)
        return Outcome(records=[[record], changes])

    def _createTopic(self, op: Operation) -> Outcome:
        args, outcome = op.arguments, Outcome()
        topic, identity = args["topic"], (op.response or {}).get("topicId")
        if topic in self.topic_ids:
            raise op.place.at("op.topic").wrong("a topic that exists already")
        self.topic_ids[topic] = identity or ""
        self.topic_configs[topic] = dict(args["configs"])
        outcome.response = {"topicId": identity or "an identifier"}
        configs = [_config_record(TOPIC, topic, key, value) for key, value in args["configs"].items()]
        created: list[Record] = []
        for number, replicas in enumerate(args["assignments"]):
            if len(replicas) > self.model.t.replicas.maximum:
                raise op.place.at(f"op.assignments[{number}]").wrong("more replicas than brokers")
            partition = self.model.new_partition(
                replicas=[self._slot(b) for b in replicas], registrations=self.registrations
            )
            self.partitions[(topic, number)] = partition
            data = {
                "partitionId": number,
                "topicId": identity,
                "replicas": self._ids(partition["replicas"]),
                "isr": self._ids(partition["isr"]),
                "addingReplicas": self._ids(partition["adding"]),
                "removingReplicas": self._ids(partition["removing"]),
                "leader": self._leader(partition["leader"]),
                "leaderEpoch": partition["leader_epoch"],
                "partitionEpoch": partition["partition_epoch"],
            }
            created.append(("PARTITION_RECORD", 2 if self.meta.elr_supported else 1, data))
        outcome.records = [[("TOPIC_RECORD", 0, {"name": topic, "topicId": identity})], configs, created]
        return outcome


_WRITTEN_IDS = (
    ("isr", "isr"),
    ("eligibleLeaderReplicas", "elr"),
    ("replicas", "replicas"),
    ("addingReplicas", "adding"),
    ("removingReplicas", "removing"),
)
_REPLY = {
    "is_caught_up": "isCaughtUp",
    "is_fenced": "isFenced",
    "in_controlled_shutdown": "inControlledShutdown",
    "should_shut_down": "shouldShutDown",
}


_STATE = (
    "partitions", "registrations", "sessions", "incarnations", "topic_ids", "topic_configs", "broker_configs", "step",
    "next_offset", "now_ms",
)  # fmt: skip


def _copied(value: Any) -> Any:
    """A copy of what an operation changes in place: a mapping or a list, not what is in it."""
    return value.copy() if isinstance(value, (dict, list)) else value


def _exception(error: str) -> dict[str, str]:
    """How the recorder writes an error of a whole request: the exception's name is the error's."""
    return {"exception": "".join(w.capitalize() for w in error.split("_")) + "Exception", "message": ANY_TEXT}


def _config_record(kind: int, name: str, key: str, value: str | None) -> Record:
    return ("CONFIG_RECORD", 0, {"resourceType": kind, "resourceName": name, "name": key, "value": value})


def _record_key(record: Record) -> tuple[str, str, int]:
    kind, _, data = record
    return kind, str(data.get("topicId", "")), int(data.get("partitionId", 0))


def _zero(type_: Any) -> Any:
    return type_.decode([n.value for n in type_.zero().nodes])


def replay_operations(trace: ControllerTrace, rules: frozenset[str], report: Report) -> Iterator[int]:
    """Replay a recording into a report; yields the number of operations so far.

    Raises TraceError where the recording cannot be read.
    """
    started = time.perf_counter()
    replay = ControllerReplay(trace, rules)
    for op in trace.operations:
        report.operations += 1
        report.records += len(op.records)
        report.changes += sum(kind == "PARTITION_CHANGE_RECORD" for kind, _, _ in op.records)
        wrong = replay.take(op)
        if wrong is not None:
            report.add(wrong)
        report.partitions = len(replay.partitions)
        report.seconds = time.perf_counter() - started
        yield report.operations


__all__ = ["ControllerReplay", "Outcome", "replay_operations"]
