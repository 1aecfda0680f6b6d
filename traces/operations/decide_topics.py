"""Operations about topics: their creation, and the dynamic configuration of topics and brokers."""

from __future__ import annotations

from collections.abc import Mapping

from highwater.traces.operations.change_partitions import store_change
from highwater.traces.operations.format import MIN_ISR, Operation, Record
from highwater.traces.operations.model_records import config_record, partition_record, topic_record
from highwater.traces.operations.outcome import NotKnown, Outcome
from highwater.traces.operations.state import ControllerState, can_be


def _refuse_values(op: Operation, configs: Mapping[str, str | None]) -> None:
    """Raise NotKnown where a configuration has a value that none can have; the rules do not refuse any."""
    for key, value in configs.items():
        if not can_be(key, value):
            raise NotKnown(f"{op.name} with a value that {key} cannot have")


def incremental_alter_configs(state: ControllerState, op: Operation) -> Outcome:
    """One configuration is set or removed. Raises NotKnown for a topic that does not exist, and for a single broker."""
    args = op.arguments
    of_topic = args["resourceType"] == "TOPIC"
    if of_topic and args["resource"] not in state.topic_ids:
        raise NotKnown(f"{op.name} of a topic that does not exist")
    _refuse_values(op, {args["key"]: args["value"]})
    if not of_topic and args["resource"]:
        raise NotKnown(f"{op.name} of a single broker")
    configs = dict(state.topic_configs[args["resource"]] if of_topic else state.broker_configs)
    # A value that is there already is not written again, except for brokers, which reload by the record.
    if of_topic and configs.get(args["key"]) == args["value"]:
        return Outcome()
    if args["value"] is None:
        configs.pop(args["key"], None)
    else:
        configs[args["key"]] = args["value"]
    if of_topic:
        state.topic_configs[args["resource"]] = configs
    else:
        state.broker_configs = configs
    record = config_record(args["resourceType"], args["resource"], args["key"], args["value"])
    changes: list[Record] = []
    if args["key"] == MIN_ISR:
        for key in list(state.partitions):
            if not of_topic or key[0] == args["resource"]:
                change = state.model.min_isr_change(
                    partition=state.partitions[key], min_isr=state.min_isr(key[0])
                )
                changes += store_change(state, key, change)
    return Outcome(records=[[record], changes])


def create_topic(state: ControllerState, op: Operation) -> Outcome:
    """A topic is created with its partitions; the recording says which identifier it was given.

    Raises NotKnown for a topic that exists already, TraceError for more replicas than there are brokers.
    """
    args, outcome = op.arguments, Outcome()
    topic, identity = args["topic"], (op.response or {}).get("topicId")
    if topic in state.topic_ids:
        raise NotKnown(f"{op.name} of a topic that exists already")
    _refuse_values(op, args["configs"])
    state.topic_ids[topic] = identity or ""
    state.topic_configs[topic] = dict(args["configs"])
    outcome.response = {"topicId": identity or "an identifier"}
    configs = [config_record("TOPIC", topic, key, value) for key, value in args["configs"].items()]
    created: list[Record] = []
    for number, replicas in enumerate(args["assignments"]):
        if len(replicas) > state.model.t.replicas.maximum:
            raise op.place.at(f"op.assignments[{number}]").wrong("more replicas than brokers")
        partition = state.model.new_partition(
            replicas=[state.slot(b) for b in replicas], registrations=state.registrations
        )
        state.partitions[(topic, number)] = partition
        created.append(partition_record(state, number, identity, partition))
    outcome.records = [[topic_record(topic, identity)], configs, created]
    return outcome


__all__ = ["create_topic", "incremental_alter_configs"]
