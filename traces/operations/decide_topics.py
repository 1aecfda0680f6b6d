"""Operations about topics: their creation, the dynamic configuration of topics and brokers, and features."""

from __future__ import annotations

import re

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
)
from highwater.traces.operations.state import CLUSTER, ControllerState, can_be

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
        current=state.elr_version,
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
    for key in list(state.partitions):
        model_records.store_change(state, key, state.model.level_change(partition=state.partitions[key]))
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
