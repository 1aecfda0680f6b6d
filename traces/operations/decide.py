"""What the model does with an operation: which function decides it, and the step, the clock and the offset."""

from __future__ import annotations

from collections.abc import Callable

from highwater.model.replication.controller import batches
from highwater.traces.operations import decide_partitions
from highwater.traces.operations.decide_brokers import (
    broker_heartbeat,
    fence_stale_broker,
    register_broker,
    unregister_broker,
)
from highwater.traces.operations.decide_topics import (
    create_topic,
    incremental_alter_configs,
    update_features,
)
from highwater.traces.operations.format import ANY_TEXT, Decided, NotKnown, Operation
from highwater.traces.operations.model_records import DecisionFails
from highwater.traces.operations.state import ControllerState

UNKNOWN_SERVER_ERROR = "UNKNOWN_SERVER_ERROR"

DECIDED_BY: dict[str, Callable[[ControllerState, Operation], Decided]] = {
    "registerBroker": register_broker,
    "brokerHeartbeat": broker_heartbeat,
    "fenceStaleBroker": fence_stale_broker,
    "alterPartition": decide_partitions.alter_partition,
    "electLeaders": decide_partitions.elect_leaders,
    "alterPartitionReassignments": decide_partitions.alter_partition_reassignments,
    "incrementalAlterConfigs": incremental_alter_configs,
    "maybeElectUncleanLeaders": decide_partitions.maybe_elect_unclean_leaders,
    "maybeBalancePartitionLeaders": decide_partitions.maybe_balance_partition_leaders,
    "createTopic": create_topic,
    "unregisterBroker": unregister_broker,
    "assignReplicasToDirs": decide_partitions.assign_replicas_to_dirs,
    "updateFeatures": update_features,
}
"""By the name of an operation; the names are those of ``read_operations.OPERATIONS``."""

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
    if op.name in batches.FAILURE_IS_ANSWERED:
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
