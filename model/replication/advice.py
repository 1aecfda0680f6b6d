"""Procedures of an operator who follows the advice of a report on lost or stuck partitions.

In each procedure record 0 of leader epoch 0 and record 3 of leader epoch 1 are committed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from highwater.model.language import State
from highwater.model.language.procedures import Procedure, ProcedureStep
from highwater.model.replication.controller.protocol import led_again

_EARLY = ({"value": 0, "epoch": 0},)
_COMMITTED = (*_EARLY, {"value": 3, "epoch": 1})
_LONGEST = (*_EARLY, {"value": 1, "epoch": 0}, {"value": 2, "epoch": 0})
_EPOCHS = {"leader_epoch": 2, "partition_epoch": 3}

Log = tuple[dict[str, int], ...]
Entry = dict[str, Any]


def _state(partition: Entry, *brokers: Entry) -> Entry:
    """The state before a procedure, with the partition and a broker in each position. A stopped broker is fenced."""
    stopped = [b for b, broker in enumerate(brokers) if broker["status"] == "STOPPED"]
    return {
        "committed": list(_COMMITTED),
        "writes": ["ACKNOWLEDGED", "WRITTEN", "WRITTEN", "ACKNOWLEDGED"],
        "partition": {"leader": None, **_EPOCHS, **partition},
        "registrations": {b: {"fenced": True} for b in stopped},
        "brokers": dict(enumerate(brokers)),
    }


def _broker(status: str, log: Log, **fields: Any) -> Entry:
    """A broker that has flushed its log and whose HWM is the log's end, unless ``fields`` have another."""
    return {"status": status, "log": list(log), "flushed": len(log), "hwm": len(log), **fields}


def _leader_view(**fields: Any) -> Entry:
    """The view of a broker that knows broker 0 as the leader and only ISR member."""
    return {"leader": 0, **_EPOCHS, "isr": [0], "active": [0], **fields}


def _start(b: int, when: Callable[[State], Any] | None = None) -> ProcedureStep:
    return ProcedureStep("start_broker", {"b": b}, when)


def led_by_1(s: State) -> Any:
    """True if broker 1 leads the partition."""
    return s.partition.leader == 1


_ALL_STOPPED = (
    _broker("STOPPED", _LONGEST, hwm=1),
    _broker("STOPPED", _COMMITTED),
    _broker("STOPPED", _COMMITTED),
)
"""Broker 0 has the longest log, of leader epoch 0. The others have the records that were committed in epoch 1."""

START_BEST_LOG = Procedure(
    # By a defect broker 0 is in the ELR although it lacks committed records.
    _state({"isr": [], "elr": [0, 1]}, *_ALL_STOPPED),
    (_start(1), _start(2, led_by_1), _start(0)),
    led_again,
)

START_LAST_KNOWN_LEADER = Procedure(
    _state({"isr": [], "last_known_leader": 1}, *_ALL_STOPPED),
    (_start(1), _start(2, led_by_1), _start(0)),
    led_again,
)

ELECT_BEST_LOG = Procedure(
    _state({"isr": []}, *_ALL_STOPPED),
    (_start(1), ProcedureStep("elect_uncleanly"), _start(2, led_by_1), _start(0)),
    led_again,
)

START_ELR_MEMBERS = Procedure(
    # Leader 0 has what was committed. Broker 1 is in the ELR without it.
    _state(
        {"isr": [0], "elr": [1], "leader": 0},
        _broker("RUNNING", _COMMITTED, view=_leader_view()),
        _broker("STOPPED", _EARLY),
        _broker("STOPPED", _EARLY),
    ),
    (_start(1), _start(2)),
    led_again,
)

_AFTER_REASSIGNMENT = _leader_view(active=[0, 2], replicas=[0, 1])

NON_REPLICA_IN_ELR = Procedure(
    # Broker 2 is in the ELR after a reassignment, and has deleted its log.
    _state(
        {"replicas": [0, 1], "isr": [0], "elr": [2], "leader": 0},
        _broker("RUNNING", _COMMITTED, view=_AFTER_REASSIGNMENT),
        _broker("STOPPED", _EARLY),
        _broker("RUNNING", (), view=_AFTER_REASSIGNMENT),
    ),
    (_start(1),),
    led_again,
)

AFTER_UNCLEAN_ELECTION = Procedure(
    # Leader 0 was elected without record 3. Broker 1 has it, and truncates it when it follows.
    _state(
        {"isr": [0], "leader": 0},
        _broker("RUNNING", _EARLY, view=_leader_view()),
        _broker("STOPPED", _COMMITTED),
        _broker("STOPPED", _EARLY),
    ),
    (_start(2),),
    led_again,
)

AFTER_ONE_RETURNED = Procedure(
    # Broker 2 has returned and is in the ISR. Broker 1 stays stopped until its log is copied.
    _state(
        {"isr": [0, 2], "leader": 0},
        _broker("RUNNING", _EARLY, view=_leader_view(isr=[0, 2], active=[0, 2])),
        _broker("STOPPED", _COMMITTED),
        _broker("RUNNING", _EARLY, view=_leader_view(isr=[0, 2], active=[0, 2])),
    ),
    (),
    led_again,
    without=("start_broker",),
)

OFFLINE_AGAIN = Procedure(
    # The leader that lacks record 3 is down, too. It returns first: broker 1 would truncate its log anyway.
    _state(
        {"isr": [0], "leader": None},
        _broker("STOPPED", _EARLY),
        _broker("STOPPED", _COMMITTED),
        _broker("STOPPED", _EARLY),
    ),
    (_start(0), _start(2)),
    led_again,
)

PROCEDURES = {
    "after_loss": AFTER_UNCLEAN_ELECTION,
    "after_one_returned": AFTER_ONE_RETURNED,
    "offline_again": OFFLINE_AGAIN,
    "elect_best_log": ELECT_BEST_LOG,
    "non_replica_in_elr": NON_REPLICA_IN_ELR,
    "start_best_log": START_BEST_LOG,
    "start_elr_members": START_ELR_MEMBERS,
    "start_last_known_leader": START_LAST_KNOWN_LEADER,
}
"""The procedures by the name of the advice. A scenario names one by the key ``procedure``."""
