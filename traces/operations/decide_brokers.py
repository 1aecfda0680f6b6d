"""Operations about a broker: its registration, its heartbeats, and its fencing when its session has ended."""

from __future__ import annotations

from highwater.model.replication.controller import batches
from highwater.traces.operations.change_partitions import change_because_of_broker
from highwater.traces.operations.format import Operation, Record
from highwater.traces.operations.model_records import (
    controlled_shutdown_record,
    fencing_record,
    register_broker_record,
)
from highwater.traces.operations.outcome import Outcome, exception
from highwater.traces.operations.state import ControllerState

_REPLY = {
    "is_caught_up": "isCaughtUp",
    "is_fenced": "isFenced",
    "in_controlled_shutdown": "inControlledShutdown",
    "should_shut_down": "shouldShutDown",
}


def register_broker(state: ControllerState, op: Operation) -> Outcome:
    """A broker registers. Raises TraceError for a broker that the meta line does not have."""
    args, outcome = op.arguments, Outcome()
    broker = args["broker"]
    if broker >= state.count:
        at = op.place.at("op.broker")
        raise at.wrong(f"broker {broker}, where the meta line has {state.count} brokers")
    offset = state.offset_before(op)
    same = state.incarnations.get(broker) == args["incarnation"]
    found = state.model.register(
        registrations=state.registrations,
        sessions=state.sessions,
        now_ms=state.now_ms,
        timeout_ms=state.meta.session_timeout_ms,
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
        outcome.response = exception(outcome.error)
        return outcome
    registration = found["registration"]
    outcome.records = change_because_of_broker(
        state,
        batches.REGISTRATION,
        broker,
        [register_broker_record(broker, args["incarnation"], registration)],
        state.model.registration,
        clean=found["clean"],
        same_incarnation=same,
    )
    state.registrations[broker] = registration
    state.incarnations[broker] = args["incarnation"]
    state.sessions[broker] = state.model.session_of_registration(
        now_ms=state.now_ms, record_offset=offset + outcome.record_count - 1
    )
    outcome.response = {"brokerEpoch": registration["epoch"]}
    return outcome


def fence_stale_broker(state: ControllerState, op: Operation) -> Outcome:
    """The periodic check fences the broker whose session ended first."""
    broker, outcome = state.slot(op.arguments["broker"]), Outcome()
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
    own = [fencing_record(state, broker, fenced=True)]
    outcome.records = change_because_of_broker(state, batches.FENCING, broker, own, state.model.fencing)
    state.registrations[broker] = found["registration"]
    state.sessions[broker] = found["session"]
    return outcome


def broker_heartbeat(state: ControllerState, op: Operation) -> Outcome:
    """A heartbeat, which can fence or unfence the broker or begin its controlled shutdown."""
    args, outcome = op.arguments, Outcome()
    broker = state.slot(args["broker"])
    request = {
        "broker": broker,
        "broker_epoch": max(0, args["brokerEpoch"]),
        "current_metadata_offset": max(0, args["currentMetadataOffset"]),
        "want_fence": args["wantFence"],
        "want_shut_down": args["wantShutDown"],
    }
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
    outcome.records = change_because_of_broker(
        state,
        batches.HEARTBEAT[found["next"]],
        broker,
        own,
        state.model.heartbeat_change,
        current=found["current"],
        next=found["next"],
    )
    before = state.registrations[broker]
    state.registrations[broker] = found["registration"]
    state.sessions[broker] = state.model.session_after_heartbeat(
        registration=before,
        session=state.sessions[broker],
        request=request,
        next=found["next"],
        now_ms=state.now_ms,
        last_offset=max(0, state.offset_before(op) + outcome.record_count - 1),
    )
    outcome.response = {_REPLY[name]: value for name, value in found["reply"].items()}
    return outcome


__all__ = ["broker_heartbeat", "fence_stale_broker", "register_broker"]
