"""The model's decision about a recorded operation: error, response, records, and the controller's state afterwards.

The model's handlers (``Decisions``) decide on Python values. This module adds what a recorded line also has: topic
names and ids, batches of records, and responses in their recorded form.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from highwater.model.language.function import ChecksVerdict
from highwater.model.replication.controller import registrations
from highwater.traces.operations.read_recording import ANY_TEXT, RESOURCES, Key, Operation, Record, can_be
from highwater.traces.operations.state import CLUSTER, BrokerDecision, ControllerState, DecisionFails
from highwater.traces.reports.observed import MIN_ISR
from highwater.traces.rules.decisions import zero
from highwater.traces.rules.profiles import ELR_VERSION

Response = dict[str, Any] | None


class NotKnown(Exception):
    """Raised if the model has no rules for an operation, or for one of its cases. The message names the operation."""


@dataclass
class Decided:
    """The model's decision about an operation, in recorded form.

    - ``records``: groups in the order of the batch. The controller visits the partitions of a group in hash table
      order, so any order within a group conforms.
    - ``annotations``: expected values of arguments that the recorder added, such as ``sessionExpired``.
    - ``refused_by``, ``passed``: names of checks.
    """

    error: str = "NONE"
    response: Response = None
    records: list[list[Record]] = field(default_factory=list)
    annotations: dict[str, Any] = field(default_factory=dict)
    refused_by: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()

    def refuse(self, verdict: ChecksVerdict, respond: Callable[[str], Response]) -> bool:
        """Store the result of the checks, and the response to a failed check; returns True if a check failed."""
        self.error, self.refused_by, self.passed = verdict.answer, verdict.refused_by, verdict.passed
        self.response = None if self.error == "NONE" else respond(self.error)
        return bool(self.error != "NONE")

    @property
    def record_count(self) -> int:
        """The number of records appended."""
        return sum(len(group) for group in self.records)


def _exception(error: str) -> Response:
    """The recorded form of an error that concerns a whole request: an exception named after the error."""
    return {"exception": "".join(w.capitalize() for w in error.split("_")) + "Exception", "message": ANY_TEXT}


def _if_stale(error: str) -> Response:
    return _exception(error) if error == "STALE_BROKER_EPOCH" else None


def _message(error: str) -> Response:
    # Kafka does not send the default text of an error.
    return None if error == "NO_REASSIGNMENT_IN_PROGRESS" else {"message": ANY_TEXT}


def _refused(error: str) -> Decided:
    return Decided(error, _message(error))


def _config_record(kind: str, name: str, key: str, value: str | None) -> Record:
    data = {"resourceType": RESOURCES[kind], "resourceName": name, "name": key, "value": value}
    return ("CONFIG_RECORD", 0, data)


def _clear_elr_record(topic: str) -> Record:
    """The record that empties the ELR of each partition of a topic; an empty name means all topics."""
    return ("CLEAR_ELR_RECORD", 0, {"topicName": topic})


# --- brokers ----------------------------------------------------------------------------------------------

_REPLY = {
    "is_caught_up": "isCaughtUp",
    "is_fenced": "isFenced",
    "in_controlled_shutdown": "inControlledShutdown",
    "should_shut_down": "shouldShutDown",
}


def register_broker(state: ControllerState, op: Operation) -> Decided:
    """Register a broker. Raises TraceError if the broker is not in the meta line."""
    args, outcome = op.arguments, Decided()
    broker, incarnation = args["broker"], args["incarnation"]
    if broker >= state.count:
        at = op.place.at("op.broker")
        raise at.wrong(f"broker {broker}, where the meta line has {state.count} brokers")
    offset = state.offset_before(op)
    same = state.incarnations.get(broker) == incarnation
    knows_feature = args.get("elrFeatureSupported", True)
    found = state.model.register(
        registrations=state.registrations,
        sessions=[state.session(b) for b in range(len(state.sessions))],
        **state.clock,
        broker=broker,
        same_incarnation=same,
        previous_broker_epoch=args["previousBrokerEpoch"],
        request_version=args.get("requestVersion", 4),
        features_supported=knows_feature or not state.elr_version,
        new_epoch=offset,
    )
    outcome.annotations = {
        "newIncarnation": not same,
        "previousEpochMatches": found["names_registered_epoch"],
    }
    if "sessionValid" in args:
        outcome.annotations["sessionValid"] = found["has_session"]
    if outcome.refuse(found["checks"], _exception):
        return outcome
    registration = found["registration"]
    as_fenced = found["clean"] or state.model.registers_as_fenced
    own = {
        "brokerId": broker,
        "incarnationId": incarnation,
        "brokerEpoch": registration["epoch"],
        "fenced": registration["fenced"],
        "inControlledShutdown": registration["in_controlled_shutdown"],
    }
    outcome.records = BrokerDecision(state, broker).batch(
        (registrations.IN_ISR, registrations.BROKER) if as_fenced else registrations.REGISTRATION_BATCH,
        [("REGISTER_BROKER_RECORD", 3, own)],
        state.model.registration,
        clean=found["clean"],
        same_incarnation=same,
    )
    state.registrations[broker], state.incarnations[broker] = registration, incarnation
    state.without_feature[broker] = not knows_feature
    listed = op.brokers.get(broker, {}).get("onlineDirs")
    if listed is not None:
        state.listed[broker] = listed
    state.sessions[broker] = state.model.session_of_registration(
        now_ms=state.now_ms, record_offset=offset + outcome.record_count - 1
    )
    outcome.response = {"brokerEpoch": registration["epoch"]}
    return outcome


def unregister_broker(state: ControllerState, op: Operation) -> Decided:
    """Remove a broker from the cluster."""
    broker = state.slot(op.arguments["broker"])
    if not state.registrations[broker]["registered"]:
        return Decided("BROKER_ID_NOT_REGISTERED", _exception("BROKER_ID_NOT_REGISTERED"))
    decision, t = BrokerDecision(state, broker), state.rules.t
    own: list[Record] = [("UNREGISTER_BROKER_RECORD", 0, decision.named())]
    outcome = Decided(records=decision.batch(registrations.REMOVAL_BATCH, own, state.model.removal))
    state.registrations[broker], state.sessions[broker] = zero(t.registration), zero(t.session)
    for known in (state.incarnations, state.listed, state.without_feature):
        known.pop(broker, None)
    return outcome


def fence_stale_broker(state: ControllerState, op: Operation) -> Decided:
    """Run the periodic check, which fences the broker whose session ended first.

    With a heartbeat tracker, the check removes any one expired entry. It fences the entry's broker only if the broker
    is registered with the entry's broker epoch.
    """
    if state.tracks_contacts:
        return _drop_contact(state, op)
    broker, outcome = state.slot(op.arguments["broker"]), Decided()
    found = state.model.stale_broker(
        registrations=state.registrations, sessions=state.sessions, **state.clock, broker=broker
    )
    outcome.annotations = {"sessionExpired": found["any"]}
    if found["this"]:
        _fence(state, outcome, broker)
    elif found["any"]:
        outcome.annotations["broker"] = "another broker, whose session ended before"
    return outcome


def _fence(state: ControllerState, outcome: Decided, broker: int) -> None:
    decision = BrokerDecision(state, broker)
    own = [decision.registration_change(0, fenced=1)]
    outcome.records = decision.batch(registrations.FENCING_BATCH, own, state.model.fencing)
    state.sessions[broker] = state.model.session_of_fencing(
        session=state.sessions[broker], now_ms=state.now_ms
    )
    state.registrations[broker] = {**state.registrations[broker], "fenced": True}


def _drop_contact(state: ControllerState, op: Operation) -> Decided:
    outcome = Decided(annotations={"sessionExpired": False}, response={"removed": None, "again": False})
    over = [
        contact
        for contact, heard in state.contacts.items()
        if state.model.is_over(contact_ms=heard, **state.clock)
    ]
    if not over:
        return outcome
    recorded = (op.response or {}).get("removed") or {}
    removed = (recorded.get("id"), recorded.get("epoch"))
    broker, epoch = contact = next((c for c in over if c == removed), over[0])
    del state.contacts[contact]
    outcome.annotations["broker"] = broker
    registration = state.registrations[state.slot(broker)]
    if not registration["registered"]:
        what = "unregistered"
    elif registration["epoch"] != epoch:
        what = "old-epoch"
    else:
        what = "fenced-already" if registration["fenced"] else "fenced"
        outcome.annotations["sessionExpired"] = True
        _fence(state, outcome, broker)
    outcome.response = {"removed": {"id": broker, "epoch": epoch}, "again": True, "what": what}
    return outcome


def broker_heartbeat(state: ControllerState, op: Operation) -> Decided:
    """Handle a heartbeat, which can change the broker's state or report that log directories are lost."""
    args, outcome = op.arguments, Decided()
    broker = state.slot(args["broker"])
    request = {
        "broker": broker,
        "broker_epoch": max(0, args["brokerEpoch"]),
        "current_metadata_offset": max(0, args["currentMetadataOffset"]),
        "want_fence": args["wantFence"],
        "want_shut_down": args["wantShutDown"],
    }
    state.heard_of(args["broker"], args["brokerEpoch"])
    found = state.model.heartbeat(
        registrations=state.registrations,
        sessions=state.sessions,
        request=request,
        has_leaderships=any(p["leader"] == broker for p in state.partitions.values()),
    )
    if outcome.refuse(found["checks"], _exception):
        return outcome
    decision, own = BrokerDecision(state, broker), list[Record]()
    if found["changes_registration"] and found["next"] == "CONTROLLED_SHUTDOWN":
        own.append(decision.registration_change(1, inControlledShutdown=1))
    elif found["changes_registration"]:
        own.append(decision.registration_change(0, fenced=1 if found["registration"]["fenced"] else -1))
    outcome.records = decision.batch(
        registrations.HEARTBEAT_BATCHES[found["next"]],
        own,
        state.model.heartbeat_change,
        current=found["current"],
        next=found["next"],
    )
    lost = [d for d in state.listed.get(broker, []) if d in args.get("offlineLogDirs", [])]
    if lost:
        outcome.records += _lose_directories(state, decision, lost)
    state.registrations[broker] = found["registration"]
    state.sessions[broker] = state.model.session_after_heartbeat(
        session=state.sessions[broker],
        request=request,
        next=found["next"],
        changes=found["changes_registration"] or bool(lost),
        now_ms=state.now_ms,
        last_offset=max(0, state.offset_before(op) + outcome.record_count - 1),
    )
    outcome.response = {_REPLY[name]: value for name, value in found["reply"].items()}
    return outcome


def _lose_directories(
    state: ControllerState, decision: BrokerDecision, lost: list[str]
) -> list[list[Record]]:
    """KIP-858. The records that take the replicas in lost directories out of the ISR and change the registration."""
    broker, groups = decision.broker, []
    for directory in lost:
        within = [key for key, replicas in state.directories.items() if replicas.get(broker) == directory]
        groups.append(decision.change(within, state.model.removal))
    # A record without directories leaves the registered directories unchanged.
    state.listed[broker] = [d for d in state.listed[broker] if d not in lost] or state.listed[broker]
    return [*groups, [decision.registration_change(2)]]


# --- partitions -------------------------------------------------------------------------------------------

_NO_EPOCH = -2
"""Replaces each broker epoch below −1 in a request: no broker has such an epoch."""


def _about(state: ControllerState, topic: str, number: int) -> tuple[Key, bool, dict[str, Any]]:
    """The key of a partition, True if the partition exists, and the inputs of its rules by name."""
    key = (topic, number)
    known = key in state.partitions
    settings = state.settings(topic) if known else {"min_isr": 0, "unclean_election": False}
    partition = state.as_seen(key) if known else state.model.no_partition
    inputs = {"partition": partition, "registrations": state.registrations, "partition_known": known}
    return key, known, inputs | settings


def alter_partition(state: ControllerState, op: Operation) -> Decided:
    """Handle an AlterPartition request, in which a leader proposes an ISR."""
    args, outcome = op.arguments, Decided()
    key, known, inputs = _about(state, args["topic"], args["partition"])
    # A list longer than the number of brokers repeats a broker, even after the cut.
    members = args["newIsr"][: state.model.t.proposed_isr.maximum]
    order = [state.slot(m["id"]) for m in members]
    epochs = [None if m["epoch"] == -1 else max(_NO_EPOCH, m["epoch"]) for m in members]
    found = state.model.alter_partition(
        **inputs,
        topic_known=args["topic"] in state.topic_ids,
        request={
            "version": args["requestVersion"],
            "broker": state.slot(args["broker"]),
            "broker_epoch": max(_NO_EPOCH, args["brokerEpoch"]),
            "leader_epoch": args["leaderEpoch"],
            "partition_epoch": args["partitionEpoch"],
            "new_isr": [{"broker": b, "epoch": e} for b, e in zip(order, epochs, strict=True)],
            "reorders": known and state.reorders(key, order),
            "leader_recovery_state": args["leaderRecoveryState"],
        },
    )
    if outcome.refuse(found["checks"], _if_stale):
        return outcome
    outcome.records = [state.change(key, found, order=order)]
    outcome.error = found["error"]
    if outcome.error == "NONE":
        after = state.partitions[key]
        outcome.response = {
            "leaderId": state.leader_id(after["leader"]),
            "leaderEpoch": after["leader_epoch"],
            "isr": state.ids(after["isr"]),
            "partitionEpoch": after["partition_epoch"],
            "leaderRecoveryState": after["leader_recovery_state"],
        }
    return outcome


def elect_leaders(state: ControllerState, op: Operation) -> Decided:
    """Handle an ElectLeaders request for one partition, or for all if the request names no topic.

    The response to a request for all omits the partitions that need no election.
    """
    args, outcome = op.arguments, Decided()
    every = args["topic"] is None
    results, records = {}, []
    for topic, number in list(state.partitions) if every else [(args["topic"], args["partition"])]:
        key, _, inputs = _about(state, topic, number)
        found = state.model.elect(**inputs, election=args["type"])
        verdict = found["checks"]
        error = verdict.answer
        if error == "NONE":
            records += state.change(key, found)
            error = found["error"]
        if not every:
            outcome.refused_by, outcome.passed = verdict.refused_by, verdict.passed
        if not every or error != "ELECTION_NOT_NEEDED":
            results[f"{topic}-{number}"] = error
    outcome.records = [records]
    outcome.error = next((e for e in results.values() if e != "NONE"), "NONE")
    outcome.response = {"results": results}
    return outcome


def maybe_elect_unclean_leaders(state: ControllerState, op: Operation) -> Decided:
    """Run the periodic unclean election of all partitions."""
    return Decided(records=[state.change_all(state.model.unclean_task)])


def maybe_balance_partition_leaders(state: ControllerState, op: Operation) -> Decided:
    """Run the periodic election of preferred leaders, for all partitions."""
    return Decided(records=[state.change_all(state.model.balance_task)])


def alter_partition_reassignments(state: ControllerState, op: Operation) -> Decided:
    """Reassign a partition, or cancel its reassignment if the request has no replicas."""
    args, outcome = op.arguments, Decided()
    key, _, inputs = _about(state, args["topic"], args["partition"])
    if args["replicas"] is None:
        found = state.model.cancel(**inputs)
    else:
        target = [state.slot(b) for b in args["replicas"]][: state.model.t.replicas.maximum]
        may_change = args.get("allowReplicationFactorChange", True)
        found = state.model.reassign(**inputs, target=target, factor_may_change=may_change)
    if not outcome.refuse(found["checks"], _message):
        outcome.records = [state.change(key, found)]
    return outcome


def assign_replicas_to_dirs(state: ControllerState, op: Operation) -> Decided:
    """KIP-858. Handle a broker's report of a replica's log directory.

    If the directory is offline, the replica leaves the ISR.
    """
    args, outcome = op.arguments, Decided()
    broker, directory = state.slot(args["broker"]), args["dir"]
    key, _, inputs = _about(state, args["topic"], args["partition"])
    is_online = directory in state.listed.get(broker, [])
    outcome.annotations["dirOnline"] = is_online
    found = state.model.assign(
        **inputs,
        broker=broker,
        broker_epoch=args["brokerEpoch"],
        topic_known=args["topic"] in state.topic_ids,
        changes=state.directories.get(key, {}).get(broker) != directory,
    )
    if outcome.refuse(found["checks"], _if_stale):
        return outcome
    decision = BrokerDecision(state, broker)
    records = state.change(key, found, directory=(broker, directory))
    outcome.records = [records + ([] if is_online else decision.change([key], state.model.removal))]
    return outcome


# --- topics, settings and features ------------------------------------------------------------------------


def incremental_alter_configs(state: ControllerState, op: Operation) -> Decided:
    """Set or remove one configuration. Before metadata version 4.1, raises NotKnown for cases without rules."""
    args, outcome = op.arguments, Decided()
    name, key, value = args["resource"], args["key"], args["value"]
    of_topic = args["resourceType"] == "TOPIC"
    if not state.meta.knows_elr_feature and (not can_be(key, value) or (not of_topic and name)):
        raise NotKnown(f"{op.name} of a single broker, or with a value that {key} cannot have")
    before = (state.topic_configs if of_topic else state.broker_configs).get(name, {})
    # A topic's value that is already set is not written again. For brokers it is: the record makes them reload.
    same = of_topic and before.get(key) == value
    if key == MIN_ISR and not same:
        resource = "TOPIC" if of_topic else "CLUSTER" if name == CLUSTER else "BROKER"
        valid = value is None or _is_min_isr(value)
        verdict = state.model.min_isr_checks(resource=resource, removes=value is None, valid=valid)
        if outcome.refuse(verdict, _message):
            return outcome
    if of_topic and name not in state.topic_ids:
        if not state.meta.knows_elr_feature:
            raise NotKnown(f"{op.name} of a topic that does not exist")
        return _refused("UNKNOWN_TOPIC_OR_PARTITION")
    if not of_topic and not _exists(state, name):
        return _refused("BROKER_ID_NOT_REGISTERED")
    if same:
        return outcome
    state.set_config(of_topic, name, key, value)
    outcome.records = [[_config_record(args["resourceType"], name, key, value)]]
    if key == MIN_ISR:
        concerned = [k for k in state.partitions if not of_topic or k[0] == name]
        outcome.records.append(_min_isr_changes(state, concerned, name if of_topic else ""))
    return outcome


def _is_min_isr(value: str) -> bool:
    return bool(re.fullmatch(r"[0-9]{1,9}", value)) and int(value) >= 1


def _exists(state: ControllerState, broker: str) -> bool:
    if broker in (CLUSTER, str(state.meta.controller_id)):
        return True
    return broker.isdecimal() and state.registrations[state.slot(int(broker))]["registered"]


def _min_isr_changes(state: ControllerState, concerned: list[Key], topic: str) -> list[Record]:
    """966.8. Apply a change of min.insync.replicas to partitions.

    Returns their records, or instead one record that empties their ELRs. ``topic`` is empty if the change is not for
    one topic.
    """
    clears, records = state.model.clears_elr, list[Record]()
    for key in concerned:
        change = state.model.min_isr_change(partition=state.partitions[key], min_isr=state.min_isr(key[0]))
        if not clears:
            records += state.change(key, change)
        elif not change["nothing"]:
            state.store(key, change["after"], indexed=not state.model.t.on("cleared_elr_stays_indexed"))
    return [_clear_elr_record(topic)] if clears else records


def update_features(state: ControllerState, op: Operation) -> Decided:
    """KIP-584. Change a feature level. Settings of min.insync.replicas that ELR needs are written first."""
    args, outcome = op.arguments, Decided()
    name, level = args["feature"], args["level"]
    if name != ELR_VERSION:
        # Recordings have other features only in refused requests: an unknown feature, an older metadata version.
        return _refused("INVALID_UPDATE_VERSION")
    brokers = [b for b in range(state.count) if state.registrations[b]["registered"]]
    knows_level = level <= 1 and (level == 0 or not any(state.without_feature.get(b) for b in brokers))
    has_own = [b for b, configs in state.broker_configs.items() if b != CLUSTER and MIN_ISR in configs]
    # The rules of the requested level decide which settings are written.
    rules = state.rules.with_elr() if level else state.rules.without_elr()
    found = rules.feature(
        before=state.elr_version,
        level=level,
        upgrade=args["upgradeType"],
        supported=knows_level,
        cluster_has_min_isr=MIN_ISR in state.broker_configs.get(CLUSTER, {}),
        broker_has_min_isr=bool(has_own),
    )
    if outcome.refuse(found["checks"], _message) or args["validateOnly"]:
        return outcome
    static = str(state.meta.static_min_isr)
    written = [(CLUSTER, static)] if found["writes_cluster"] else []
    removed = [(broker, None) for broker in has_own] if found["removes_broker"] else []
    for broker, value in (*written, *removed):
        state.set_config(False, broker, MIN_ISR, value)
    for key, partition in list(state.partitions.items()):
        state.change(key, state.model.level_change(partition=partition, min_isr=state.min_isr(key[0])))
    state.elr_version = level
    outcome.records = [
        *([_config_record("BROKER", b, MIN_ISR, value) for b, value in of] for of in (written, removed)),
        [("FEATURE_LEVEL_RECORD", 0, {"name": name, "featureLevel": level})],
    ]
    return outcome


def create_topic(state: ControllerState, op: Operation) -> Decided:
    """Create a topic with its partitions; the topic gets the recorded id.

    Raises TraceError for more replicas than brokers. Before metadata version 4.1, raises NotKnown for an existing topic
    and for an invalid configuration value.
    """
    args, outcome, is_new = op.arguments, Decided(), state.meta.knows_elr_feature
    topic, configs, identity = args["topic"], args["configs"], (op.response or {}).get("topicId")
    if topic in state.topic_ids:
        if not is_new:
            raise NotKnown(f"{op.name} of a topic that exists already")
        return _refused("TOPIC_ALREADY_EXISTS")
    for key, value in configs.items():
        if not is_new and not can_be(key, value):
            raise NotKnown(f"{op.name} with a value that {key} cannot have")
    if MIN_ISR in configs:
        valid = _is_min_isr(configs[MIN_ISR])
        verdict = state.model.min_isr_checks(resource="TOPIC", removes=False, valid=valid)
        if outcome.refuse(verdict, _message) and is_new:
            return outcome
    for replicas in args["assignments"] if is_new else ():
        verdict = state.model.new_partition_checks(
            replicas=[state.slot(b) for b in replicas][: state.model.t.replicas.maximum],
            registrations=state.registrations,
            factor=len(args["assignments"][0]),
        )
        if outcome.refuse(verdict, _message):
            return outcome
    state.topic_ids[topic], state.topic_configs[topic] = identity or "", dict(configs)
    outcome.response = {"topicId": identity or "an identifier"}
    written = [_config_record("TOPIC", topic, key, value) for key, value in configs.items()]
    # The record is written although a new topic has no ELR; the state does not change.
    cleared = [_clear_elr_record(topic)] if MIN_ISR in configs and state.model.clears_elr else []
    created: list[Record] = []
    for number, replicas in enumerate(args["assignments"]):
        if len(replicas) > state.model.t.replicas.maximum:
            raise op.place.at(f"op.assignments[{number}]").wrong("more replicas than brokers")
        partition = state.model.new_partition(
            replicas=[state.slot(b) for b in replicas], registrations=state.registrations
        )
        state.store((topic, number), partition)
        state.place((topic, number), partition["replicas"])
        data = {
            "partitionId": number,
            "topicId": identity,
            "replicas": state.ids(partition["replicas"]),
            "isr": state.ids(partition["isr"]),
            "addingReplicas": state.ids(partition["adding"]),
            "removingReplicas": state.ids(partition["removing"]),
            "leader": state.leader_id(partition["leader"]),
            "leaderEpoch": partition["leader_epoch"],
            "partitionEpoch": partition["partition_epoch"],
        }
        created.append(("PARTITION_RECORD", state.partition_version, data))
    topic_record = ("TOPIC_RECORD", 0, {"name": topic, "topicId": identity})
    outcome.records = [[topic_record], written, cleared, created]
    return outcome


# --- any operation ----------------------------------------------------------------------------------------

DECIDED_BY: dict[str, Callable[[ControllerState, Operation], Decided]] = {
    "registerBroker": register_broker,
    "brokerHeartbeat": broker_heartbeat,
    "fenceStaleBroker": fence_stale_broker,
    "alterPartition": alter_partition,
    "electLeaders": elect_leaders,
    "alterPartitionReassignments": alter_partition_reassignments,
    "incrementalAlterConfigs": incremental_alter_configs,
    "maybeElectUncleanLeaders": maybe_elect_unclean_leaders,
    "maybeBalancePartitionLeaders": maybe_balance_partition_leaders,
    "createTopic": create_topic,
    "unregisterBroker": unregister_broker,
    "assignReplicasToDirs": assign_replicas_to_dirs,
    "updateFeatures": update_features,
}
"""The handlers by the operation's name, as in ``read_recording.OPERATIONS``."""

NEWER = frozenset({"unregisterBroker", "assignReplicasToDirs", "updateFeatures"})
"""Operations with rules only from metadata version 4.1 on."""


def decide(state: ControllerState, op: Operation) -> Decided:
    """The model's decision about an operation; changes ``state`` to the state after the operation.

    Raises LanguageError if a value is outside its type's range, TraceError if the operation is invalid, and NotKnown if
    the model has no rules for the operation.
    """
    if op.name not in DECIDED_BY or (op.name in NEWER and not state.meta.knows_elr_feature):
        raise NotKnown(op.name)
    state.now_ms = max(state.now_ms, op.time_ms)
    for broker in op.arguments.get("renewed", ()):
        state.heard_of(broker, state.registrations[state.slot(broker)]["epoch"])
    kept = state.copy()
    try:
        outcome = DECIDED_BY[op.name](state, op)
    except DecisionFails:
        outcome = _failed(state, kept, op)
    state.step = op.step if state.step is None else state.step + 1
    state.next_offset = state.offset_before(op) + outcome.record_count
    return outcome


def _failed(state: ControllerState, kept: ControllerState, op: Operation) -> Decided:
    """The outcome if the handler throws: an error response, or the failure of the active controller.

    ``kept`` is the state before the operation.
    """
    vars(state).update(vars(kept))
    if op.name == "brokerHeartbeat":
        state.heard_of(op.arguments["broker"], op.arguments["brokerEpoch"])
    error = "UNKNOWN_SERVER_ERROR"
    if op.name in registrations.FAILURE_IS_ANSWERED:
        return Decided(error)
    if state.tracks_contacts:
        _fail_over(state)
    response = {"exception": "IllegalArgumentException", "message": ANY_TEXT, "causesFailover": True}
    return Decided(error, response)


def _fail_over(state: ControllerState) -> None:
    """Set the sessions to those of a new active controller, which has received no heartbeat yet."""
    state.contacts = {}
    for broker in range(state.count):
        registration = state.registrations[broker]
        if not registration["registered"]:
            continue
        session = state.model.session_after_failover(
            registration=registration, session=state.sessions[broker], now_ms=state.now_ms
        )
        state.sessions[broker] = session
        if session["last_contact_ms"] is not None:
            state.contacts[(broker, registration["epoch"])] = session["last_contact_ms"]
