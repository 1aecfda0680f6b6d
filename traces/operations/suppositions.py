"""What can have happened before an operation without having been recorded: heartbeats."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from highwater.traces.operations.format import Operation
from highwater.traces.operations.state import ControllerState

Supposition = Callable[[ControllerState], None]
"""Makes the state what it is if something was not recorded."""


def suppositions(state: ControllerState, op: Operation) -> list[Supposition]:
    """Each possibility assumes as little as explains the operation.

    A broker can have been heard of since its last recorded heartbeat, so that its session still lives; and it
    can have replayed more metadata than it last reported, so that another's controlled shutdown is granted.
    """
    broker, every = op.arguments.get("broker", -1), range(state.count)
    others = [b for b in every if b != broker]
    if state.tracks_contacts:
        # Every heartbeat is recorded.
        return []
    if op.name == "registerBroker" and broker in every:
        return [partial(_heard_of, brokers=[broker], now_ms=op.time_ms)]
    if op.name == "fenceStaleBroker":
        return [partial(_heard_of, brokers=heard, now_ms=op.time_ms) for heard in (others, every)]
    if op.name == "brokerHeartbeat" and broker in every:
        shutdown = state.sessions[broker]["controlled_shutdown_offset"]
        if shutdown is not None:
            return [partial(_have_replayed, brokers=others, offset=shutdown)]
    return []


def _heard_of(state: ControllerState, brokers: Iterable[int], now_ms: int) -> None:
    earliest = max(0, now_ms - state.meta.session_timeout_ms)
    for broker in brokers:
        session = state.sessions[broker]
        heard = session["last_contact_ms"]
        state.sessions[broker] = {
            **session,
            "last_contact_ms": earliest if heard is None else max(heard, earliest),
        }


def _have_replayed(state: ControllerState, brokers: Iterable[int], offset: int) -> None:
    for broker in brokers:
        session = state.sessions[broker]
        reported = session["metadata_offset"]
        at_least = offset if reported is None else max(reported, offset)
        state.sessions[broker] = {**session, "metadata_offset": at_least}
