"""Brokers at the controller: registrations, sessions and heartbeats, and what they do to a partition.

A broker registers, is fenced and unfenced, shuts down, or is removed. Each changes the partitions that it is in, in
the batch of records that changes its registration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from highwater.model.language import (
    ArrayValue,
    Checks,
    Number,
    Option,
    SetValue,
    StructValue,
    Truth,
    any_of,
    as_bool,
    cases,
    least,
    where,
)
from highwater.model.replication.controller.partition_change import RequestedChange, partition_change
from highwater.model.replication.controller.types import (
    MAX_LONG,
    BrokerState,
    ControllerContext,
    ControllerTypes,
    Error,
    Handled,
    unchecked,
)

# --- handlers: what a decision about a broker does to a partition -------------------------------------------


def fence(now: ControllerContext, broker: Number) -> Handled:
    """966.5, 841.2. A broker is fenced, or starts a controlled shutdown: it leaves the ISR."""
    return unchecked(now.decided(on_fencing, broker))


def unfence(now: ControllerContext, broker: Number) -> Handled:
    """966.5. A broker is unfenced: a partition without a leader elects one."""
    return unchecked(now.decided(on_unfencing, broker))


def remove(now: ControllerContext, broker: Number) -> Handled:
    """B8, 858.1. A broker is removed from the cluster, or loses the directory of its replica."""
    return unchecked(now.decided(without_broker, broker))


def register(now: ControllerContext, broker: Number, previous_broker_epoch: Number) -> Handled:
    """966.5, 966.12. A broker's new incarnation registers; it names this epoch as its previous one."""
    return unchecked(now.decided(_registered, broker, previous_broker_epoch))


def _registered(now: ControllerContext, broker: Number, previous_broker_epoch: Number) -> StructValue:
    again = as_bool(False)
    clean = is_clean_registration(now.t, now.registrations[broker], previous_broker_epoch, again)
    return on_registration(now, broker, clean, again)


# --- the rules ----------------------------------------------------------------------------------------------


def is_clean_registration(
    t: ControllerTypes,
    registration: StructValue,
    previous_broker_epoch: Number,
    same_incarnation: Truth,
    request_version: Number | int = 4,
) -> Truth:
    """966.12. Whether a broker registers after a clean shutdown: it names its registered epoch as its previous one.

    Only who shut down in order has written that epoch down, and its log to the end. After a crash the end of the log
    may be gone, so it counts as lost. The same incarnation again is no restart at all. Without the rule every new
    incarnation counts as unclean, and so does one whose request cannot name an epoch, below version 3.
    """
    if not t.on("clean_registration"):
        return same_incarnation
    names_epoch = registration.registered & (previous_broker_epoch == registration.epoch)
    return same_incarnation | ((request_version >= 3) & names_epoch)


def on_unclean_registration(now: ControllerContext, broker: Number) -> StructValue:
    """966.5. A broker registers after an unclean shutdown: it leaves both ISR and ELR, as it may lack records.

    A partition that has it in neither changes too where it is visited: the index can be stale (``elr_index_entries``).
    """
    concerned: Truth | bool = (now.partition.isr | now.partition.elr).has(broker)
    if now.t.on("cleared_elr_stays_indexed"):
        concerned = True
    if not now.t.on("unclean_registration"):
        concerned = concerned & False
    lost = now.t.brokers.zero().with_(broker)
    return _leaves(concerned, now, broker, lost)


def on_fencing(now: ControllerContext, broker: Number) -> StructValue:
    """966.5, 841.2. A broker is fenced, starts a controlled shutdown, or registers cleanly: it leaves the ISR.

    acks=all waits for nobody who is gone. It may enter the ELR, or stay there, as its log is whole: where the ISR falls
    under min ISR nothing is committed without it (966.4).
    """
    concerned = now.partition.isr.has(broker)
    return _leaves(concerned, now, broker, now.t.brokers.zero())


def without_broker(now: ControllerContext, broker: Number) -> StructValue:
    """B8, 858.1. A broker is removed from the cluster, or loses the directory that its replica is in.

    It leaves the ISR as if it were fenced, and stays in the ELR. Partitions are visited that it is not in the ISR of.
    """
    return _leaves(True, now, broker, now.t.brokers.zero())


def _leaves(
    concerned: Truth | bool, now: ControllerContext, broker: Number, unclean_shutdown: SetValue
) -> StructValue:
    # The broker is still active in the registrations, which change later: this very change must not elect it.
    change = RequestedChange(
        now.election,
        acceptable=now.t.acceptable(now.partition, now.registrations).without(broker),
        isr=now.partition.isr.without(broker),
        unclean_shutdown=unclean_shutdown,
    )
    return where(concerned, partition_change(now, change), now.t.record.zero())


def on_unfencing(now: ControllerContext, broker: Number) -> StructValue:
    """966.5. A broker is unfenced: a partition without a leader elects one, and the broker may be the one.

    If nobody elects then, a partition waits for ever while a replica with every record is alive.
    """
    concerned = now.partition.leader.is_none
    if not now.t.on("election_on_unfencing"):
        concerned = concerned & False
    acceptable = now.t.acceptable(now.partition, now.registrations, coming=broker)
    record = partition_change(now, RequestedChange(now.election, acceptable=acceptable))
    return where(concerned, record, now.t.record.zero())


def treats_as_fenced(t: ControllerTypes) -> bool:
    """Whether a new incarnation counts as fenced even after an unclean shutdown: where there is no ELR."""
    return t.on("registration_leaves_isr") and not t.on("unclean_registration")


def on_registration(
    now: ControllerContext,
    broker: Number,
    clean: Truth,
    same_incarnation: Truth,
) -> StructValue:
    """966.5, 966.12. What a registration does to a partition, before it is stored.

    Before, because a broker that is registered can be unfenced, and be elected from an ELR that it should have left.
    A restart after a clean shutdown is a fencing that went unseen; the same incarnation again changes nothing.
    """
    cleanly = on_fencing(now, broker)
    uncleanly = cleanly if treats_as_fenced(now.t) else on_unclean_registration(now, broker)
    return cases((same_incarnation, now.t.record.zero()), (clean, cleanly), otherwise=uncleanly)


def on_heartbeat(
    now: ControllerContext,
    broker: Number,
    current: Number,
    next: Number,
) -> StructValue:
    """841.5, 966.5. What a heartbeat does to a partition: fencing, unfencing, or nothing.

    A broker in controlled shutdown leaves the ISR as if it were fenced.
    """
    leaving, unfencing = on_fencing(now, broker), on_unfencing(now, broker)
    stays, comes_back = current == next, next == BrokerState.UNFENCED
    return cases((stays, now.t.record.zero()), (comes_back, unfencing), otherwise=leaving)


# --- the index of ELR members -------------------------------------------------------------------------------

# The controller has an index from a broker to the partitions whose ELR it is in, here as a number of entries each.
# It goes by the index when a broker registers uncleanly or is removed, and changes a partition once for each entry.
# Where every change of an ELR passes through the index there is one entry for a member and none for others. With
# ``cleared_elr_stays_indexed`` a change of min.insync.replicas does not pass through it, so that entries stay, and a
# broker that enters the ELR again has two.


def elr_index_entries(entries: Number, was_member: Truth, is_member: Truth) -> tuple[Number, Number]:
    """The entries of a broker for a partition after a change of the partition's ELR, and those that go astray.

    Kafka takes all entries of the partition out of an array that it makes one shorter, so that for each entry beyond
    the first one of the topic's partition 0 is left, the place's initial value.
    """
    leaves = was_member & ~is_member
    astray = where(leaves & (entries > 1), entries - 1, 0)
    enters = where(~was_member & is_member, entries + 1, entries)
    return where(leaves, 0, enters), astray


def elr_index_visits(t: ControllerTypes, entries: Number, is_member: Truth) -> Number:
    """How often a partition is changed because of a broker in its ELR: once for each entry."""
    if t.on("cleared_elr_stays_indexed"):
        return entries
    return where(is_member, 1, 0)


# --- the order of the records of a batch ----------------------------------------------------------------------

# Order matters: a reader of the metadata log sees the partitions of a broker that lost its log change before
# it sees the new registration (966.5), and a broker that is unfenced before it leads.

IN_ISR, IN_ELR, LEADERLESS = (
    "partitions with the broker in the ISR",
    "in the ELR",
    "partitions without a leader",
)
BROKER, IN_DIRECTORY = "the broker", "partitions with a replica in the directory"

FENCING_BATCH = (IN_ISR, BROKER)
"""B8. Fencing: the partitions first, then the broker."""

UNFENCING_BATCH = (BROKER, LEADERLESS)
"""966.5. Unfencing: the broker first, then the partitions without a leader."""

CONTROLLED_SHUTDOWN_BATCH = (BROKER, IN_ISR)
"""841.5. Controlled shutdown: the broker first, then the partitions that it leaves."""

REGISTRATION_BATCH = (IN_ISR, IN_ELR, BROKER)
"""966.5. Registration after an unclean shutdown: the partitions with the broker in the ISR, those with it in the ELR,
then the broker. After a clean one it is as with fencing."""

REMOVAL_BATCH = (IN_ISR, IN_ELR, BROKER)
"""B8. Removal from the cluster: the partitions with it in the ISR, those with it in the ELR, then the broker."""

DIRECTORY_LOSS_BATCH = (IN_DIRECTORY, BROKER)
"""858.1. A log directory fails: the partitions of each that is lost, then the broker, with those that it has left."""

FAILURE_IS_ANSWERED = frozenset({"alterPartitionReassignments"})
"""Kafka 4.2. Requests whose failure is an answer, UNKNOWN_SERVER_ERROR. Any other decision that throws makes the
controller resign, and another one that knows nothing but the log goes on."""

HEARTBEAT_BATCHES = {
    "FENCED": FENCING_BATCH,
    "SHUTDOWN_NOW": FENCING_BATCH,
    "UNFENCED": UNFENCING_BATCH,
    "CONTROLLED_SHUTDOWN": CONTROLLED_SHUTDOWN_BATCH,
}
"""841.5. A heartbeat, by the state that it takes the broker to."""


# --- registrations and sessions -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clock:
    """The controller's time, and how long a session lasts without a heartbeat."""

    now_ms: Number
    timeout_ms: Number


def is_over(contact_ms: Number, clock: Clock) -> Truth:
    """Whether a session is over: the broker's last heartbeat came at ``contact_ms``."""
    return contact_ms + clock.timeout_ms < clock.now_ms


def has_live_session(
    t: ControllerTypes, registration: StructValue, session: StructValue, clock: Clock
) -> Truth:
    """Whether a broker is registered and was heard of within the session timeout.

    Only an unfenced one has a session, unless ``fenced_broker_has_session``.
    """
    heard = session.last_contact_ms.is_some & ~is_over(session.last_contact_ms.value, clock)
    registered = registration.registered & heard
    return registered if t.on("fenced_broker_has_session") else registered & ~registration.fenced


def registration_checks(
    t: ControllerTypes,
    registration: StructValue,
    session: StructValue,
    same_incarnation: Truth,
    clock: Clock,
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
        same_incarnation | ~has_live_session(t, registration, session, clock),
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


def registration_after(
    t: ControllerTypes, registration: StructValue, same_incarnation: Truth, new_epoch: Number
) -> StructValue:
    """B8, 380.1. The registration after a broker registered.

    A new incarnation gets the new broker epoch (the base offset of the batch) and starts fenced; the same one
    again keeps its epoch and its flags.
    """
    new = t.registration(registered=True, epoch=new_epoch, fenced=True, in_controlled_shutdown=False)
    return where(same_incarnation, registration, new)


def session_of_registration(t: ControllerTypes, now_ms: Number, record_offset: Number) -> StructValue:
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
    t: ControllerTypes, registration: StructValue, session: StructValue, now_ms: Number
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
    t: ControllerTypes, registrations: ArrayValue, sessions: ArrayValue, broker: Number, clock: Clock
) -> Truth:
    """Whether a broker is fenced by the periodic check because its session is over.

    Where only unfenced brokers have sessions it is the one whose session ended first. With
    ``fenced_broker_has_session`` they are looked at in no particular order.
    """

    def over(b: Any) -> Truth:
        contact = sessions[b].last_contact_ms
        late = contact.is_some & is_over(contact.value, clock)
        if t.on("fenced_broker_has_session"):
            return registrations[b].registered & late
        return registrations[b].registered & ~registrations[b].fenced & late

    if t.on("fenced_broker_has_session"):
        return over(broker)
    mine = sessions[broker].last_contact_ms.value
    longer = any_of(over(b) & (sessions[b].last_contact_ms.value < mine) for b in t.broker)
    return over(broker) & ~longer


def any_session_expired(
    t: ControllerTypes, registrations: ArrayValue, sessions: ArrayValue, clock: Clock
) -> Truth:
    """Whether the periodic check finds anyone to fence."""
    return any_of(session_expired(t, registrations, sessions, b, clock) for b in t.broker)


def session_of_fencing(t: ControllerTypes, session: StructValue, now_ms: Number) -> StructValue:
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
    t: ControllerTypes,
    registrations: ArrayValue,
    sessions: ArrayValue,
    request: StructValue,
    has_leaderships: Truth,
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

    # A broker that does not know yet that the leadership has moved would still fetch from one that is gone.
    others_know = session.controlled_shutdown_offset.value <= lowest_active_offset(t, registrations, sessions)
    if_shutting_down = where(~has_leaderships & others_know, stop, shutting_down)

    current = current_broker_state(registration, session)
    return cases(
        (current == shutting_down, if_shutting_down), (current == fence, if_fenced), otherwise=if_unfenced
    )


def is_caught_up(session: StructValue, request: StructValue) -> Truth:
    """Whether a broker has replayed the metadata log up to its own registration."""
    return request.current_metadata_offset >= session.registration_offset


def lowest_active_offset(t: ControllerTypes, registrations: ArrayValue, sessions: ArrayValue) -> Number:
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
    session: StructValue,
    request: StructValue,
    next: Number,
    changes: Truth,
    now_ms: Number,
    last_offset: Number,
) -> StructValue:
    """The session after a heartbeat; ``last_offset`` is the end of the metadata log then.

    Where the registration ``changes``, the controller forgets how far the broker has replayed.
    """
    option = session.metadata_offset.type
    shutdown = session.controlled_shutdown_offset
    enters = (next == BrokerState.CONTROLLED_SHUTDOWN) & shutdown.is_none
    return session.replace(
        last_contact_ms=session.last_contact_ms.type.some(now_ms),
        metadata_offset=where(changes, option.none(), option.some(request.current_metadata_offset)),
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
