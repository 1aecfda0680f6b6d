"""What the model does with an operation: its answer, its records, and the state after it.

The controller's handlers decide (``Decisions``); here is what a recording has beside them: names and identifiers,
batches of records, and responses as they are written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from highwater.model.replication.controller import registrations
from highwater.traces.operations import model_records
from highwater.traces.operations.format import (
    ANY_TEXT,
    ELR_FEATURE,
    MIN_ISR,
    Decided,
    Key,
    NotKnown,
    Operation,
    Record,
    exception,
)
from highwater.traces.operations.model_records import (
    BrokerDecision,
    DecisionFails,
    as_seen,
    change_partitions,
    controlled_shutdown_record,
    fencing_record,
    log_dirs_record,
    register_broker_record,
    store_change,
    unregister_broker_record,
)
from highwater.traces.operations.state import CLUSTER, ControllerState, can_be

UNKNOWN_SERVER_ERROR = "UNKNOWN_SERVER_ERROR"

# --- brokers ----------------------------------------------------------------------------------------------

_REPLY = {
    "is_caught_up": "isCaughtUp",
    "is_fenced": "isFenced",
    "in_controlled_shutdown": "inControlledShutdown",
    "should_shut_down": "shouldShutDown",
}


def register_broker(state: ControllerState, op: Operation) -> Decided:
    """A broker registers. Raises TraceError for a broker that the meta line does not have."""
    args, outcome = op.arguments, Decided()
    broker = args["broker"]
    if broker >= state.count:
        at = op.place.at("op.broker")
        raise at.wrong(f"broker {broker}, where the meta line has {state.count} brokers")
    offset = state.offset_before(op)
    same = state.incarnations.get(broker) == args["incarnation"]
    knows_feature = args.get("elrFeatureSupported", True)
    found = state.model.register(
        registrations=state.registrations,
        sessions=[state.session(b) for b in range(len(state.sessions))],
        now_ms=state.now_ms,
        timeout_ms=state.meta.session_timeout_ms,
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
    if outcome.refuse(found["checks"]):
        outcome.response = exception(outcome.error)
        return outcome
    registration = found["registration"]
    as_fenced = found["clean"] or state.model.registers_as_fenced
    outcome.records = BrokerDecision(state, broker).batch(
        (registrations.IN_ISR, registrations.BROKER) if as_fenced else registrations.REGISTRATION_BATCH,
        [register_broker_record(broker, args["incarnation"], registration)],
        state.model.registration,
        clean=found["clean"],
        same_incarnation=same,
    )
    state.registrations[broker] = registration
    state.incarnations[broker] = args["incarnation"]
    state.without_feature[broker] = not knows_feature
    listed = op.brokers.get(broker, {}).get("onlineDirs")
    if listed is not None:
        state.directories.listed[broker] = listed
    state.sessions[broker] = state.model.session_of_registration(
        now_ms=state.now_ms, record_offset=offset + outcome.record_count - 1
    )
    outcome.response = {"brokerEpoch": registration["epoch"]}
    return outcome


def unregister_broker(state: ControllerState, op: Operation) -> Decided:
    """A broker is removed from the cluster."""
    broker, outcome = state.slot(op.arguments["broker"]), Decided()
    if not state.registrations[broker]["registered"]:
        outcome.error = "BROKER_ID_NOT_REGISTERED"
        outcome.response = exception(outcome.error)
        return outcome
    own = [unregister_broker_record(state, broker)]
    outcome.records = BrokerDecision(state, broker).batch(
        registrations.REMOVAL_BATCH, own, state.model.removal
    )
    state.registrations[broker] = state.nobody["registration"]
    state.sessions[broker] = state.nobody["session"]
    state.incarnations.pop(broker, None)
    state.directories.listed.pop(broker, None)
    state.without_feature.pop(broker, None)
    return outcome


def fence_stale_broker(state: ControllerState, op: Operation) -> Decided:
    """The periodic check fences a broker whose session has ended: the one whose session ended first.

    The heartbeat tracker has its entries in no particular order, and those of former epochs and removed brokers are
    only dropped.
    """
    if state.tracks_contacts:
        return _drop_contact(state, op)
    broker, outcome = state.slot(op.arguments["broker"]), Decided()
    found = state.model.stale_broker(
        registrations=state.registrations,
        sessions=state.sessions,
        now_ms=state.now_ms,
        timeout_ms=state.meta.session_timeout_ms,
        broker=broker,
    )
    outcome.annotations = {"sessionExpired": found["any"]}
    if not found["any"]:
        return outcome
    if not found["this"]:
        outcome.annotations["broker"] = "another broker, whose session ended before"
        return outcome
    _fence(state, outcome, broker)
    return outcome


def _fence(state: ControllerState, outcome: Decided, broker: int) -> None:
    own = [fencing_record(state, broker, fenced=True)]
    outcome.records = BrokerDecision(state, broker).batch(
        registrations.FENCING_BATCH, own, state.model.fencing
    )
    state.sessions[broker] = state.model.session_of_fencing(
        session=state.sessions[broker], now_ms=state.now_ms
    )
    state.registrations[broker] = {**state.registrations[broker], "fenced": True}


def _drop_contact(state: ControllerState, op: Operation) -> Decided:
    outcome = Decided(annotations={"sessionExpired": False}, response={"removed": None, "again": False})
    over = [
        contact
        for contact, heard in state.contacts.items()
        if state.model.is_over(
            contact_ms=heard, now_ms=state.now_ms, timeout_ms=state.meta.session_timeout_ms
        )
    ]
    if not over:
        return outcome
    recorded = (op.response or {}).get("removed") or {}
    removed = (recorded.get("id"), recorded.get("epoch"))
    broker, epoch = contact = next((c for c in over if c == removed), over[0])
    del state.contacts[contact]
    outcome.annotations["broker"] = broker
    response: dict[str, Any] = {"removed": {"id": broker, "epoch": epoch}, "again": True}
    outcome.response = response
    registration = state.registrations[state.slot(broker)]
    if not registration["registered"]:
        response["what"] = "unregistered"
    elif registration["epoch"] != epoch:
        response["what"] = "old-epoch"
    else:
        response["what"] = "fenced-already" if registration["fenced"] else "fenced"
        outcome.annotations["sessionExpired"] = True
        _fence(state, outcome, broker)
    return outcome


def broker_heartbeat(state: ControllerState, op: Operation) -> Decided:
    """A heartbeat, which can fence or unfence the broker or begin its controlled shutdown."""
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
    if outcome.refuse(found["checks"]):
        outcome.response = exception(outcome.error)
        return outcome
    own: list[Record] = []
    if found["changes_registration"]:
        if found["next"] == "CONTROLLED_SHUTDOWN":
            own.append(controlled_shutdown_record(state, broker))
        else:
            own.append(fencing_record(state, broker, found["registration"]["fenced"]))
    decision = BrokerDecision(state, broker)
    outcome.records = decision.batch(
        registrations.HEARTBEAT_BATCHES[found["next"]],
        own,
        state.model.heartbeat_change,
        current=found["current"],
        next=found["next"],
    )
    lost = [d for d in state.directories.listed.get(broker, []) if d in args.get("offlineLogDirs", [])]
    outcome.records += _lose_directories(state, broker, decision, lost)
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
    state: ControllerState, broker: int, decision: BrokerDecision, lost: list[str]
) -> list[list[Record]]:
    """KIP-858. What a broker had in directories that are offline now leaves the ISR; then its registration changes."""
    if not lost:
        return []
    groups = [decision.change(state.directories.within(broker, d), state.model.removal) for d in lost]
    left = [d for d in state.directories.listed[broker] if d not in lost]
    # A record that lists no directory leaves the registration as it was.
    state.directories.listed[broker] = left or state.directories.listed[broker]
    return [*groups, [log_dirs_record(state, broker)]]


# --- partitions -------------------------------------------------------------------------------------------

_NO_EPOCH = -2
"""Stands for every epoch below −1 that comes over the wire: it is nobody's."""


def _about(state: ControllerState, topic: str, number: int) -> tuple[Key, bool, dict[str, Any]]:
    """A partition's key, whether it exists, and the inputs of the rules about it."""
    key = (topic, number)
    known = key in state.partitions
    settings = state.settings(topic) if known else {"min_isr": 0, "unclean_election": False}
    partition = as_seen(state, key, state.partitions[key]) if known else state.model.no_partition
    return key, known, {"partition": partition, "registrations": state.registrations, **settings}


def alter_partition(state: ControllerState, op: Operation) -> Decided:
    """A leader proposes an ISR."""
    args, outcome = op.arguments, Decided()
    key, known, inputs = _about(state, args["topic"], args["partition"])
    # A list longer than there are brokers has somebody twice, and so has its beginning.
    members = args["newIsr"][: state.model.t.proposed_isr.maximum]
    order = [state.slot(m["id"]) for m in members]
    found = state.model.alter_partition(
        **inputs,
        topic_known=args["topic"] in state.topic_ids,
        partition_known=known,
        request={
            "version": args["requestVersion"],
            "broker": state.slot(args["broker"]),
            "broker_epoch": max(_NO_EPOCH, args["brokerEpoch"]),
            "leader_epoch": args["leaderEpoch"],
            "partition_epoch": args["partitionEpoch"],
            "new_isr": [
                {
                    "broker": state.slot(m["id"]),
                    "epoch": None if m["epoch"] == -1 else max(_NO_EPOCH, m["epoch"]),
                }
                for m in members
            ],
            "reorders": known and state.reorders(key, order),
            "leader_recovery_state": args["leaderRecoveryState"],
        },
    )
    if outcome.refuse(found["checks"]):
        if outcome.error == "STALE_BROKER_EPOCH":
            outcome.response = exception(outcome.error)
        return outcome
    outcome.records = [store_change(state, key, found, order=order)]
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
    """An election on request, of one partition or of all; for all, those that need none are not mentioned."""
    args, outcome = op.arguments, Decided()
    every = args["topic"] is None
    keys = list(state.partitions) if every else [(args["topic"], args["partition"])]
    results, records = {}, []
    for topic, number in keys:
        key, known, inputs = _about(state, topic, number)
        found = state.model.elect(**inputs, election=args["type"], partition_known=known)
        verdict = found["checks"]
        error = verdict.answer
        if error == "NONE":
            records += store_change(state, key, found)
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
    """The periodic unclean election, of all partitions."""
    return Decided(records=[change_partitions(state, state.model.unclean_task, state.partitions)])


def maybe_balance_partition_leaders(state: ControllerState, op: Operation) -> Decided:
    """The periodic preferred election, of all partitions."""
    return Decided(records=[change_partitions(state, state.model.balance_task, state.partitions)])


def alter_partition_reassignments(state: ControllerState, op: Operation) -> Decided:
    """A reassignment of a partition, or, without replicas, the cancellation of one."""
    args, outcome = op.arguments, Decided()
    key, known, inputs = _about(state, args["topic"], args["partition"])
    if args["replicas"] is None:
        found = state.model.cancel(**inputs, partition_known=known)
    else:
        # As with a proposed ISR, a list longer than there are brokers has somebody twice.
        target = [state.slot(b) for b in args["replicas"]][: state.model.t.replicas.maximum]
        may_change = args.get("allowReplicationFactorChange", True)
        found = state.model.reassign(
            **inputs, target=target, partition_known=known, factor_may_change=may_change
        )
    if outcome.refuse(found["checks"]):
        # A text that is the error's own is not sent.
        if outcome.error != "NO_REASSIGNMENT_IN_PROGRESS":
            outcome.response = {"message": ANY_TEXT}
        return outcome
    outcome.records = [store_change(state, key, found)]
    return outcome


def assign_replicas_to_dirs(state: ControllerState, op: Operation) -> Decided:
    """KIP-858. A broker says in which log directory its replica is; one that is offline takes it out of the ISR."""
    args, outcome = op.arguments, Decided()
    broker, directory = state.slot(args["broker"]), args["dir"]
    key, known, inputs = _about(state, args["topic"], args["partition"])
    outcome.annotations["dirOnline"] = directory in state.directories.listed.get(broker, [])
    found = state.model.assign(
        **inputs,
        broker=broker,
        broker_epoch=args["brokerEpoch"],
        topic_known=args["topic"] in state.topic_ids,
        partition_known=known,
        changes=state.directories.replicas.get(key, {}).get(broker) != directory,
    )
    if outcome.refuse(found["checks"]):
        if outcome.error == "STALE_BROKER_EPOCH":
            outcome.response = exception(outcome.error)
        return outcome
    decision = BrokerDecision(state, broker)
    records = store_change(state, key, found, directory=(broker, directory))
    if not outcome.annotations["dirOnline"]:
        records += decision.change([key], state.model.removal)
    outcome.records = [records]
    return outcome


# --- topics, settings and features ------------------------------------------------------------------------

_REFUSED = {"message": ANY_TEXT}


def incremental_alter_configs(state: ControllerState, op: Operation) -> Decided:
    """One configuration is set or removed. Raises NotKnown for what the older versions' rules do not have."""
    args, outcome = op.arguments, Decided()
    name, key, value = args["resource"], args["key"], args["value"]
    of_topic = args["resourceType"] == "TOPIC"
    if not state.meta.knows_elr_feature and (not can_be(key, value) or (not of_topic and name)):
        raise NotKnown(f"{op.name} of a single broker, or with a value that {key} cannot have")
    before = (state.topic_configs if of_topic else state.broker_configs).get(name, {})
    # A value that is there already is not written again, except for brokers, which reload by the record.
    same = of_topic and before.get(key) == value
    if key == MIN_ISR and not same:
        found = state.model.min_isr_checks(
            resource="TOPIC" if of_topic else "CLUSTER" if name == CLUSTER else "BROKER",
            removes=value is None,
            valid=value is None or _is_min_isr(value),
        )
        if outcome.refuse(found["checks"]):
            outcome.response = _REFUSED
            return outcome
    if of_topic and name not in state.topic_ids:
        if not state.meta.knows_elr_feature:
            raise NotKnown(f"{op.name} of a topic that does not exist")
        return Decided("UNKNOWN_TOPIC_OR_PARTITION", _REFUSED)
    if not of_topic and not _exists(state, name):
        return Decided("BROKER_ID_NOT_REGISTERED", _REFUSED)
    if same:
        return outcome
    state.set_config(of_topic, name, key, value)
    outcome.records = [[model_records.config_record(args["resourceType"], name, key, value)]]
    if key == MIN_ISR:
        concerned = [k for k in state.partitions if not of_topic or k[0] == name]
        outcome.records += min_isr_changes(state, concerned, name if of_topic else "")
    return outcome


def _is_min_isr(value: str) -> bool:
    return bool(re.fullmatch(r"[0-9]{1,9}", value)) and int(value) >= 1


def _exists(state: ControllerState, broker: str) -> bool:
    if broker in (CLUSTER, str(state.meta.controller_id)):
        return True
    return broker.isdecimal() and state.registrations[state.slot(int(broker))]["registered"]


def min_isr_changes(state: ControllerState, concerned: list[Key], topic: str) -> list[list[Record]]:
    """966.8. The records that follow a change of min.insync.replicas; ``topic`` is empty where it is for all."""
    changes: list[Record] = []
    if not state.model.clears_elr:
        for key in concerned:
            change = state.model.min_isr_change(
                partition=state.partitions[key], min_isr=state.min_isr(key[0])
            )
            changes += model_records.store_change(state, key, change)
        return [changes]
    for key in concerned:
        change = state.model.min_isr_change(partition=state.partitions[key], min_isr=state.min_isr(key[0]))
        if not change["nothing"]:
            state.store(key, change["after"], indexed=not state.model.t.on("cleared_elr_stays_indexed"))
    return [[model_records.clear_elr_record(topic)]]


def update_features(state: ControllerState, op: Operation) -> Decided:
    """KIP-584. A feature gets another level; what makes ELR safe is written before."""
    args, outcome = op.arguments, Decided()
    name, level = args["feature"], args["level"]
    if name != ELR_FEATURE:
        # Of other features it is known only that these are refused: an unknown one, and an older metadata version.
        return Decided("INVALID_UPDATE_VERSION", _REFUSED)
    brokers = [b for b in range(state.count) if state.registrations[b]["registered"]]
    knows_level = level <= 1 and (level == 0 or not any(state.without_feature.get(b) for b in brokers))
    has_own = [b for b, configs in state.broker_configs.items() if b != CLUSTER and MIN_ISR in configs]
    # What is written besides is written by the rules of the level that is asked for.
    rules = state.rules.with_elr() if level else state.rules.without_elr()
    found = rules.feature(
        before=state.elr_version,
        level=level,
        upgrade=args["upgradeType"],
        supported=knows_level,
        cluster_has_min_isr=MIN_ISR in state.broker_configs.get(CLUSTER, {}),
        broker_has_min_isr=bool(has_own),
    )
    if outcome.refuse(found["checks"]):
        outcome.response = _REFUSED
        return outcome
    if args["validateOnly"]:
        return outcome
    cluster: list[Record] = []
    if found["writes_cluster"]:
        value = str(state.meta.static_min_isr)
        state.set_config(False, CLUSTER, MIN_ISR, value)
        cluster.append(model_records.config_record("BROKER", CLUSTER, MIN_ISR, value))
    removed: list[Record] = []
    for broker in has_own if found["removes_broker"] else ():
        state.set_config(False, broker, MIN_ISR, None)
        removed.append(model_records.config_record("BROKER", broker, MIN_ISR, None))
    for key, partition in list(state.partitions.items()):
        change = state.model.level_change(partition=partition, min_isr=state.min_isr(key[0]))
        model_records.store_change(state, key, change)
    state.elr_version = level
    outcome.records = [cluster, removed, [model_records.feature_record(name, level)]]
    return outcome


def create_topic(state: ControllerState, op: Operation) -> Decided:
    """A topic is created with its partitions; the recording says which identifier it was given.

    Raises NotKnown, in an older recording, for a topic that exists already and for a value that its configuration
    cannot have; TraceError for more replicas than brokers.
    """
    args, outcome = op.arguments, Decided()
    topic, identity = args["topic"], (op.response or {}).get("topicId")
    if topic in state.topic_ids:
        if not state.meta.knows_elr_feature:
            raise NotKnown(f"{op.name} of a topic that exists already")
        return Decided("TOPIC_ALREADY_EXISTS", _REFUSED)
    configs = args["configs"]
    for key, value in configs.items():
        if not state.meta.knows_elr_feature and not can_be(key, value):
            raise NotKnown(f"{op.name} with a value that {key} cannot have")
    if MIN_ISR in configs:
        valid = _is_min_isr(configs[MIN_ISR])
        found = state.model.min_isr_checks(resource="TOPIC", removes=False, valid=valid)
        if outcome.refuse(found["checks"]) and state.meta.knows_elr_feature:
            outcome.response = _REFUSED
            return outcome
    if state.meta.knows_elr_feature:
        for replicas in args["assignments"]:
            # A list longer than there are brokers has somebody twice, and so has its beginning.
            found = state.model.new_partition_checks(
                replicas=[state.slot(b) for b in replicas][: state.model.t.replicas.maximum],
                registrations=state.registrations,
                factor=len(args["assignments"][0]),
            )
            if outcome.refuse(found["checks"]):
                outcome.response = _REFUSED
                return outcome
    state.topic_ids[topic] = identity or ""
    state.topic_configs[topic] = dict(configs)
    outcome.response = {"topicId": identity or "an identifier"}
    config_records = [
        model_records.config_record("TOPIC", topic, key, value) for key, value in configs.items()
    ]
    # The topic has no partition yet, so there is nothing to clear.
    cleared = [model_records.clear_elr_record(topic)] if MIN_ISR in configs and state.model.clears_elr else []
    created: list[Record] = []
    for number, replicas in enumerate(args["assignments"]):
        if len(replicas) > state.model.t.replicas.maximum:
            raise op.place.at(f"op.assignments[{number}]").wrong("more replicas than brokers")
        partition = state.model.new_partition(
            replicas=[state.slot(b) for b in replicas], registrations=state.registrations
        )
        state.store((topic, number), partition)
        state.directories.place((topic, number), partition["replicas"])
        created.append(model_records.partition_record(state, number, identity, partition))
    outcome.records = [[model_records.topic_record(topic, identity)], config_records, cleared, created]
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
"""By the name of an operation; the names are those of ``read_recording.OPERATIONS``."""

NEWER = frozenset({"unregisterBroker", "assignReplicasToDirs", "updateFeatures"})
"""Operations of which only the rules of versions with the feature eligible.leader.replicas.version are asked."""


def decide(state: ControllerState, op: Operation) -> Decided:
    """What the model does with an operation; the state becomes the model's state after it.

    Raises LanguageError where a value leaves its type, TraceError where the operation makes no sense, NotKnown where
    the rules say nothing about it.
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
    """A decision that throws: an answer, or the end of the active controller."""
    vars(state).update(vars(kept))
    if op.name == "brokerHeartbeat":
        state.heard_of(op.arguments["broker"], op.arguments["brokerEpoch"])
    if op.name in registrations.FAILURE_IS_ANSWERED:
        return Decided(UNKNOWN_SERVER_ERROR)
    if state.tracks_contacts:
        _fail_over(state)
    response = {"exception": "IllegalArgumentException", "message": ANY_TEXT, "causesFailover": True}
    return Decided(UNKNOWN_SERVER_ERROR, response)


def _fail_over(state: ControllerState) -> None:
    """Another controller goes on from the log: it has heard of nobody."""
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
