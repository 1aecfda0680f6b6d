"""Operations about a broker: its registration, its heartbeats, and its fencing when its session has ended."""

from __future__ import annotations

from typing import Any

from highwater.model.replication.controller import batches
from highwater.traces.operations.format import Decided, Operation, Record, exception
from highwater.traces.operations.model_records import (
    BrokerDecision,
    controlled_shutdown_record,
    fencing_record,
    log_dirs_record,
    register_broker_record,
    unregister_broker_record,
)
from highwater.traces.operations.state import ControllerState

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
        (batches.IN_ISR, batches.BROKER) if as_fenced else batches.REGISTRATION,
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
    outcome.records = BrokerDecision(state, broker).batch(batches.REMOVAL, own, state.model.removal)
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
    outcome.records = BrokerDecision(state, broker).batch(batches.FENCING, own, state.model.fencing)
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
        batches.HEARTBEAT[found["next"]],
        own,
        state.model.heartbeat_change,
        current=found["current"],
        next=found["next"],
    )
    lost = [d for d in state.directories.listed.get(broker, []) if d in args.get("offlineLogDirs", [])]
    outcome.records += _lose_directories(state, broker, decision, lost)
    before = state.registrations[broker]
    state.registrations[broker] = found["registration"]
    state.sessions[broker] = state.model.session_after_heartbeat(
        registration=before,
        session=state.sessions[broker],
        request=request,
        next=found["next"],
        now_ms=state.now_ms,
        last_offset=max(0, state.offset_before(op) + outcome.record_count - 1),
        loses_directory=bool(lost),
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
