"""What the model does with an operation: which function decides it, and the step, the clock and the offset."""

from __future__ import annotations

from collections.abc import Callable

from highwater.traces.operations.decide_brokers import broker_heartbeat, fence_stale_broker, register_broker
from highwater.traces.operations.decide_partitions import (
    alter_partition,
    alter_partition_reassignments,
    elect_leaders,
    maybe_balance_partition_leaders,
    maybe_elect_unclean_leaders,
)
from highwater.traces.operations.decide_topics import create_topic, incremental_alter_configs
from highwater.traces.operations.format import Operation
from highwater.traces.operations.outcome import NotKnown, Outcome
from highwater.traces.operations.state import ControllerState

DECIDED_BY: dict[str, Callable[[ControllerState, Operation], Outcome]] = {
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
}
"""By the name of an operation; the names are those of ``read_arguments.OPERATIONS``."""


def decide(state: ControllerState, op: Operation) -> Outcome:
    """What the model does with an operation; the state becomes the model's state after it.

    Raises LanguageError where a value leaves its type, TraceError where the operation makes no sense, NotKnown where
    the rules say nothing about it.
    """
    if op.name not in DECIDED_BY:
        raise NotKnown(op.name)
    state.now_ms = max(state.now_ms, op.time_ms)
    outcome = DECIDED_BY[op.name](state, op)
    state.step = op.step if state.step is None else state.step + 1
    state.next_offset = state.offset_before(op) + outcome.record_count
    return outcome


__all__ = ["DECIDED_BY", "decide"]
