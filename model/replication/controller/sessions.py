"""Registrations and sessions of brokers: who is registered, whose session lives, what a heartbeat decides."""

from __future__ import annotations

from typing import Any

from highwater.model.language import (
    ArrayValue,
    Checks,
    Number,
    Option,
    StructValue,
    Truth,
    any_of,
    cases,
    least,
    where,
)  # fmt: skip
from highwater.model.replication.controller.types import MAX_LONG, BrokerState, Error, Terms


def is_over(contact_ms: Number, now_ms: Number, timeout_ms: Number) -> Truth:
    """Whether a session is over whose broker was last heard of then."""
    return contact_ms + timeout_ms < now_ms


def has_live_session(
    t: Terms, registration: StructValue, session: StructValue, now_ms: Number, timeout_ms: Number
) -> Truth:
    """Whether a broker is registered and was heard of within the session timeout.

    Only an unfenced one has a session, unless ``fenced_broker_has_session``.
    """
    heard = session.last_contact_ms.is_some & ~is_over(session.last_contact_ms.value, now_ms, timeout_ms)
    registered = registration.registered & heard
    return registered if t.on("fenced_broker_has_session") else registered & ~registration.fenced


def registration_checks(
    t: Terms,
    registration: StructValue,
    session: StructValue,
    same_incarnation: Truth,
    now_ms: Number,
    timeout_ms: Number,
    features_supported: Truth | bool = True,
) -> Checks:
    """B8, 584.1. A second incarnation is refused while the session of the first one lives.

    Two processes under one broker id would both be taken for the replica, with two logs. One that does not know a
    finalized feature could not read the metadata that it is to follow.
    ``features_supported``: the broker knows the finalized level of every feature.
    """
    checks = Checks(Error.NONE, on=t.on)
    checks.check(
        "no other incarnation has a live session",
        same_incarnation | ~has_live_session(t, registration, session, now_ms, timeout_ms),
        Error.DUPLICATE_BROKER_REGISTRATION,
        rule="live_session_check",
    )
    checks.check(
        "the broker supports the finalized features",
        features_supported,
        Error.UNSUPPORTED_VERSION,
        rule="finalized_features_check",
    )
    return checks


def register(t: Terms, registration: StructValue, same_incarnation: Truth, new_epoch: Number) -> StructValue:
    """B8, 380.1. The registration after a broker registered.

    A new incarnation gets the new broker epoch (the base offset of the batch) and starts fenced; the same one
    again keeps its epoch and its flags.
    """
    new = t.registration(registered=True, epoch=new_epoch, fenced=True, in_controlled_shutdown=False)
    return where(same_incarnation, registration, new)


def session_of_registration(t: Terms, now_ms: Number, record_offset: Number) -> StructValue:
    """The session after a registration: nothing is known of the broker but the offset of its record.

    With ``fenced_broker_has_session`` its session begins with its first heartbeat, of which the caller knows.
    """
    contact = t.session.fields["last_contact_ms"]
    assert isinstance(contact, Option)
    begins = not t.on("fenced_broker_has_session")
    return t.session(
        last_contact_ms=contact.some(now_ms) if begins else contact.none(),
        metadata_offset=None,
        controlled_shutdown_offset=None,
        registration_offset=record_offset,
    )


def session_after_failover(
    t: Terms, registration: StructValue, session: StructValue, now_ms: Number
) -> StructValue:
    """The session in the eyes of a controller that has just become active: it knows the log, and no heartbeat.

    An unfenced broker has the whole session timeout to be heard of; a fenced one has no session.
    """
    contact = session.last_contact_ms.type
    return session.replace(
        last_contact_ms=where(registration.fenced, contact.none(), contact.some(now_ms)),
        metadata_offset=None,
        controlled_shutdown_offset=None,
    )


def session_expired(
    t: Terms,
    registrations: ArrayValue,
    sessions: ArrayValue,
    broker: Number,
    now_ms: Number,
    timeout_ms: Number,
) -> Truth:
    """Whether a broker is fenced by the periodic check because its session is over.

    Where only unfenced brokers have sessions it is the one whose session ended first. With
    ``fenced_broker_has_session`` they are looked at in no particular order.
    """

    def over(b: Any) -> Truth:
        contact = sessions[b].last_contact_ms
        late = contact.is_some & is_over(contact.value, now_ms, timeout_ms)
        if t.on("fenced_broker_has_session"):
            return registrations[b].registered & late
        return registrations[b].registered & ~registrations[b].fenced & late

    if t.on("fenced_broker_has_session"):
        return over(broker)
    mine = sessions[broker].last_contact_ms.value
    longer = any_of(over(b) & (sessions[b].last_contact_ms.value < mine) for b in t.broker)
    return over(broker) & ~longer


def any_session_expired(
    t: Terms, registrations: ArrayValue, sessions: ArrayValue, now_ms: Number, timeout_ms: Number
) -> Truth:
    """Whether the periodic check finds anyone to fence."""
    return any_of(session_expired(t, registrations, sessions, b, now_ms, timeout_ms) for b in t.broker)


def session_of_fencing(t: Terms, session: StructValue, now_ms: Number) -> StructValue:
    """The session after the periodic check fenced a broker: it is over."""
    contact = session.last_contact_ms.type
    over = t.on("fenced_broker_has_session")
    return session.replace(
        last_contact_ms=contact.none() if over else contact.some(now_ms),
        metadata_offset=None,
        controlled_shutdown_offset=None,
    )


# --- heartbeats -------------------------------------------------------------------------------------


def heartbeat_checks(registrations: ArrayValue, request: StructValue) -> Checks:
    """380.3, 903.1. A heartbeat counts only with the broker's registered epoch.

    One that a former life sent would unfence the new one before it has replayed its own registration.
    """
    checks = Checks(Error.NONE)
    registration = registrations[request.broker]
    checks.check(
        "the broker epoch is the registered one",
        registration.registered & (registration.epoch == request.broker_epoch),
        Error.STALE_BROKER_EPOCH,
    )
    return checks


def current_broker_state(registration: StructValue, session: StructValue) -> Number:
    """Where a broker is, for its heartbeats."""
    return cases(
        (session.controlled_shutdown_offset.is_some, BrokerState.CONTROLLED_SHUTDOWN),
        (registration.fenced, BrokerState.FENCED),
        otherwise=BrokerState.UNFENCED,
    )


def next_broker_state(
    t: Terms, registrations: ArrayValue, sessions: ArrayValue, request: StructValue, has_leaderships: Truth
) -> Number:
    """841.5. Where a heartbeat takes a broker.

    A fenced broker is unfenced once it has replayed its own registration. Shutdown is granted at once to who
    leads nothing; else the broker is in controlled shutdown until its leaderships have moved and every
    active broker has replayed metadata that far.
    """
    registration, session = registrations[request.broker], sessions[request.broker]
    stop, fence, unfence = BrokerState.SHUTDOWN_NOW, BrokerState.FENCED, BrokerState.UNFENCED
    shutting_down = BrokerState.CONTROLLED_SHUTDOWN

    may_unfence = ~request.want_fence & is_caught_up(session, request)
    if_fenced = cases((request.want_shut_down, stop), (may_unfence, unfence), otherwise=fence)

    wants_out = where(request.want_shut_down, stop, fence)
    hands_over = where(has_leaderships, shutting_down, stop)
    if_unfenced = cases(
        (request.want_fence, wants_out), (request.want_shut_down, hands_over), otherwise=unfence
    )

    # Who does not know yet that the leadership has moved would still fetch from, or write to, a broker that is gone.
    others_know = session.controlled_shutdown_offset.value <= lowest_active_offset(t, registrations, sessions)
    if_shutting_down = where(~has_leaderships & others_know, stop, shutting_down)

    current = current_broker_state(registration, session)
    return cases(
        (current == shutting_down, if_shutting_down), (current == fence, if_fenced), otherwise=if_unfenced
    )


def is_caught_up(session: StructValue, request: StructValue) -> Truth:
    """Whether a broker has replayed the metadata log up to its own registration."""
    return request.current_metadata_offset >= session.registration_offset


def lowest_active_offset(t: Terms, registrations: ArrayValue, sessions: ArrayValue) -> Number:
    """How far every unfenced broker outside controlled shutdown has replayed metadata, by its last heartbeat."""
    lowest: Any = None
    for b in t.broker:
        session, registration = sessions[b], registrations[b]
        counts = registration.registered & ~registration.fenced & session.controlled_shutdown_offset.is_none
        reported = where(session.metadata_offset.is_some, session.metadata_offset.value, -1)
        offset = where(counts, reported, MAX_LONG)
        lowest = offset if lowest is None else least(lowest, offset)
    return lowest


def is_fenced_state(state: Number) -> Truth:
    """Whether a broker in this state is fenced."""
    return (state == BrokerState.FENCED) | (state == BrokerState.SHUTDOWN_NOW)


def changes_registration(registration: StructValue, current: Number, next: Number) -> Truth:
    """Whether a heartbeat appends a change of the registration."""
    enters_shutdown = (next == BrokerState.CONTROLLED_SHUTDOWN) & ~registration.in_controlled_shutdown
    return (next != current) & (is_fenced_state(next) | (next == BrokerState.UNFENCED) | enters_shutdown)


def registration_after_heartbeat(registration: StructValue, current: Number, next: Number) -> StructValue:
    """The registration after a heartbeat. Unfencing does not end a controlled shutdown; only a restart does."""
    changed = registration.replace(
        fenced=where(
            is_fenced_state(next), True, where(next == BrokerState.UNFENCED, False, registration.fenced)
        ),
        in_controlled_shutdown=registration.in_controlled_shutdown
        | (next == BrokerState.CONTROLLED_SHUTDOWN),
    )
    return where(changes_registration(registration, current, next), changed, registration)


def session_after_heartbeat(
    registration: StructValue,
    session: StructValue,
    request: StructValue,
    next: Number,
    now_ms: Number,
    last_offset: Number,
    loses_directory: Truth | bool = False,
) -> StructValue:
    """The session after a heartbeat; ``last_offset`` is the end of the metadata log then.

    A change of the registration makes the controller forget how far the broker has replayed; that it
    ``loses_directory`` is one.
    """
    current = current_broker_state(registration, session)
    option = session.metadata_offset.type
    shutdown = session.controlled_shutdown_offset
    enters = (next == BrokerState.CONTROLLED_SHUTDOWN) & shutdown.is_none
    return session.replace(
        last_contact_ms=session.last_contact_ms.type.some(now_ms),
        metadata_offset=where(
            changes_registration(registration, current, next) | loses_directory,
            option.none(),
            option.some(request.current_metadata_offset),
        ),
        controlled_shutdown_offset=where(
            is_fenced_state(next), option.none(), where(enters, option.some(last_offset), shutdown)
        ),
    )


def heartbeat_reply(session: StructValue, request: StructValue, next: Number) -> dict[str, Truth]:
    """What a broker is told."""
    return {
        "is_caught_up": is_caught_up(session, request),
        "is_fenced": is_fenced_state(next),
        "in_controlled_shutdown": next == BrokerState.CONTROLLED_SHUTDOWN,
        "should_shut_down": next == BrokerState.SHUTDOWN_NOW,
    }
