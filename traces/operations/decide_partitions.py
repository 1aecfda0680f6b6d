"""Operations about partitions: AlterPartition, elections, reassignments, and the controller's periodic tasks."""

from __future__ import annotations

from typing import Any

from highwater.traces.operations.format import ANY_TEXT, Decided, Key, Operation, exception
from highwater.traces.operations.model_records import (
    BrokerDecision,
    as_seen,
    change_partitions,
    store_change,
)
from highwater.traces.operations.state import ControllerState

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
        reorders=known and state.reorders(key, order),
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
