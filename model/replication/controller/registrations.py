"""Brokers at the controller: registrations, sessions and heartbeats, and their effects on a partition.

A broker registers, is fenced or unfenced, shuts down, or is removed. The batch that changes a broker's registration
also changes the partitions that have a replica on that broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from highwater.model.language import (
    ArrayValue,
    Checks,
    Number,
    SetValue,
    StructValue,
    Truth,
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

# --- handlers: the effect of a decision about a broker on a partition ---------------------------------------


def fence(now: ControllerContext, broker: Number) -> Handled:
    """966.5, 841.2. The controller fences a broker, or starts its controlled shutdown: the broker leaves the ISR."""
    return unchecked(now.decided(on_fencing, broker))


def unfence(now: ControllerContext, broker: Number) -> Handled:
    """966.5. The controller unfences a broker: a partition without a leader elects one."""
    return unchecked(now.decided(on_unfencing, broker))


def remove(now: ControllerContext, broker: Number) -> Handled:
    """B8, 858.1. The controller removes a broker, or learns that the log directory of the broker's replica failed."""
    return unchecked(now.decided(without_broker, broker))


def register(now: ControllerContext, broker: Number, previous_broker_epoch: Number) -> Handled:
    """966.5, 966.12. The controller registers a broker's new incarnation.

    ``previous_broker_epoch`` is the epoch that the request names.
    """
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
    """966.12. True if a broker registers after a clean shutdown: its previous broker epoch is the registered one.

    Only a clean shutdown writes that epoch, after it has flushed the log. After a crash the end of the log may be
    lost. A second registration of the same incarnation is not a restart, and counts as clean. A request below version
    3 has no previous epoch, and counts as unclean. Without the rule ``clean_registration`` every new incarnation
    counts as unclean.
    """
    if not t.on("clean_registration"):
        return same_incarnation
    names_epoch = registration.registered & (previous_broker_epoch == registration.epoch)
    return same_incarnation | ((request_version >= 3) & names_epoch)


def on_unclean_registration(now: ControllerContext, broker: Number) -> StructValue:
    """966.5. The record for an unclean registration: the broker may lack committed records and leaves ISR and ELR.

    With a stale index (``elr_index_entries``) the controller also changes a partition whose ISR and ELR lack the
    broker.
    """
    concerned: Truth | bool = (now.partition.isr | now.partition.elr).has(broker)
    if now.t.on("cleared_elr_stays_indexed"):
        concerned = True
    if not now.t.on("unclean_registration"):
        concerned = concerned & False
    lost = now.t.brokers.zero().with_(broker)
    return _leaves(concerned, now, broker, lost)


def on_fencing(now: ControllerContext, broker: Number) -> StructValue:
    """966.5, 841.2. The record for a broker that is fenced, shuts down, or registers cleanly: it leaves the ISR.

    acks=all writes no longer wait for the broker. Its log is whole, and no record is committed while the ISR is under
    min ISR. So the broker may enter the ELR or stay in it (966.4).
    """
    concerned = now.partition.isr.has(broker)
    return _leaves(concerned, now, broker, now.t.brokers.zero())


def without_broker(now: ControllerContext, broker: Number) -> StructValue:
    """B8, 858.1. The record for a broker that is removed or loses its directory: it leaves the ISR, not the ELR.

    Unlike a fencing, the change is also made if the ISR lacks the broker: it can still elect a leader.
    """
    return _leaves(True, now, broker, now.t.brokers.zero())


def _leaves(
    concerned: Truth | bool, now: ControllerContext, broker: Number, unclean_shutdown: SetValue
) -> StructValue:
    # The registrations still show the broker as active, and this change must not elect it.
    change = RequestedChange(
        now.election,
        acceptable=now.t.acceptable(now.partition, now.registrations).without(broker),
        isr=now.partition.isr.without(broker),
        unclean_shutdown=unclean_shutdown,
    )
    return where(concerned, partition_change(now, change), now.t.record.zero())


def on_unfencing(now: ControllerContext, broker: Number) -> StructValue:
    """966.5. The record for an unfenced broker: a partition without a leader elects one, possibly this broker.

    Without this election the partition would stay offline although a live replica holds all committed records.
    """
    concerned = now.partition.leader.is_none
    if not now.t.on("election_on_unfencing"):
        concerned = concerned & False
    acceptable = now.t.acceptable(now.partition, now.registrations, coming=broker)
    record = partition_change(now, RequestedChange(now.election, acceptable=acceptable))
    return where(concerned, record, now.t.record.zero())


def treats_as_fenced(t: ControllerTypes) -> bool:
    """True if an unclean registration acts like a fencing, because there is no ELR."""
    return t.on("registration_leaves_isr") and not t.on("unclean_registration")


def on_registration(
    now: ControllerContext,
    broker: Number,
    clean: Truth,
    same_incarnation: Truth,
) -> StructValue:
    """966.5, 966.12. The partition's record for a registration, applied before the registration is stored.

    Once registered, a broker can be unfenced and elected from the ELR. So after an unclean shutdown it must leave the
    ELR first. A clean restart acts like a fencing; another registration of the same incarnation changes nothing.
    """
    cleanly = on_fencing(now, broker)
    uncleanly = cleanly if treats_as_fenced(now.t) else on_unclean_registration(now, broker)
    return cases((same_incarnation, now.t.record.zero()), (clean, cleanly), otherwise=uncleanly)


# --- the index of ELR members -------------------------------------------------------------------------------

# The controller has an index from a broker to the partitions whose ELR it is in, here as a number of entries. When a
# broker registers uncleanly or is removed, the controller changes a partition once for each entry. If every ELR change
# updates the index, a member has one entry and other brokers have none. With ``cleared_elr_stays_indexed`` a change of
# min.insync.replicas does not update the index: the entries stay, and a broker that enters the ELR again has two.


def elr_index_entries(entries: Number, was_member: Truth, is_member: Truth) -> tuple[Number, Number]:
    """A broker's entries for a partition in the index of ELR members: how many remain, and how many go astray.

    ``was_member`` and ``is_member``: whether the broker is in the ELR before and after a change. When a member leaves,
    Kafka removes all entries of the partition from an array, but shortens the array by one only. Each further slot
    keeps its initial value, which stands for partition 0 of the topic: these entries go astray.
    """
    leaves = was_member & ~is_member
    astray = where(leaves & (entries > 1), entries - 1, 0)
    enters = where(~was_member & is_member, entries + 1, entries)
    return where(leaves, 0, enters), astray


def elr_index_visits(t: ControllerTypes, entries: Number, is_member: Truth) -> Number:
    """The number of times that the controller changes a partition because its index has a broker as an ELR member.

    It is the number of index entries; without ``cleared_elr_stays_indexed`` 1 if the broker is in the ELR, else 0.
    """
    if t.on("cleared_elr_stays_indexed"):
        return entries
    return where(is_member, 1, 0)


# --- the order of the records of a batch ----------------------------------------------------------------------

# The order matters to readers of the metadata log. A broker that lost its log leaves its partitions before it is
# registered (966.5), and a broker is unfenced before it leads.

IN_ISR, IN_ELR, LEADERLESS = (
    "partitions with the broker in the ISR",
    "in the ELR",
    "partitions without a leader",
)
BROKER, IN_DIRECTORY = "the broker", "partitions with a replica in the directory"

FENCING_BATCH = (IN_ISR, BROKER)
"""B8. The records of a fencing, in order: partitions with the broker in the ISR, then the broker."""

UNFENCING_BATCH = (BROKER, LEADERLESS)
"""966.5. The records of an unfencing, in order: the broker, then the partitions without a leader."""

CONTROLLED_SHUTDOWN_BATCH = (BROKER, IN_ISR)
"""841.5. The records of a controlled shutdown, in order: the broker, then the partitions whose ISR it leaves."""

REGISTRATION_BATCH = (IN_ISR, IN_ELR, BROKER)
"""966.5. The records of an unclean registration, in order: partitions with the broker in the ISR, partitions with it
in the ELR, then the broker. A clean registration has the order of fencing.
"""

REMOVAL_BATCH = (IN_ISR, IN_ELR, BROKER)
"""B8. The records of a removal, in order: partitions with the broker in the ISR, partitions with it in the ELR, then
the broker.
"""

DIRECTORY_LOSS_BATCH = (IN_DIRECTORY, BROKER)
"""858.1. The records of a lost log directory, in order: its partitions, then the broker with its other directories."""


# --- registrations and sessions -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clock:
    """The controller's current time and the session timeout, in milliseconds."""

    now_ms: Number
    timeout_ms: Number


def is_over(contact_ms: Number, clock: Clock) -> Truth:
    """True if a session whose last heartbeat was at ``contact_ms`` has timed out."""
    return contact_ms + clock.timeout_ms < clock.now_ms


def has_live_session(
    t: ControllerTypes, registration: StructValue, session: StructValue, clock: Clock
) -> Truth:
    """True if the broker is registered and sent a heartbeat within the session timeout.

    Only an unfenced broker has a session, unless the rule ``fenced_broker_has_session`` is on.
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
    """B8, 584.1. The checks of a registration: a second incarnation waits until the first one's session is over.

    Otherwise two processes with one broker id, and two logs, would act as the same replica.
    ``features_supported``: the broker supports the finalized level of every feature, so it can read the metadata log.
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
    """B8, 380.1. A broker's registration after it registered.

    A new incarnation gets a new broker epoch (the next offset of the metadata log) and is fenced. The registered
    incarnation keeps its epoch and flags when it registers again.
    """
    new = t.registration(registered=True, epoch=new_epoch, fenced=True, in_controlled_shutdown=False)
    return where(same_incarnation, registration, new)


# --- heartbeats -------------------------------------------------------------------------------------


def current_broker_state(registration: StructValue, session: StructValue) -> Number:
    """A broker's state before a heartbeat."""
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
    """841.5. A broker's state after a heartbeat.

    The controller unfences a broker that has replayed its own registration. It grants a shutdown to a broker that leads
    nothing or is fenced. Otherwise a broker that wants to shut down stays in controlled shutdown, until its leaderships
    have moved and every active broker has replayed these moves.
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

    # A broker that has not replayed the move of a leadership would still fetch from the stopped broker.
    others_know = session.controlled_shutdown_offset.value <= lowest_active_offset(t, registrations, sessions)
    if_shutting_down = where(~has_leaderships & others_know, stop, shutting_down)

    current = current_broker_state(registration, session)
    return cases(
        (current == shutting_down, if_shutting_down), (current == fence, if_fenced), otherwise=if_unfenced
    )


def is_caught_up(session: StructValue, request: StructValue) -> Truth:
    """True if the broker's heartbeat shows that it has replayed the metadata log up to its own registration."""
    return request.current_metadata_offset >= session.registration_offset


def lowest_active_offset(t: ControllerTypes, registrations: ArrayValue, sessions: ArrayValue) -> Number:
    """The smallest metadata offset in the last heartbeats of unfenced brokers outside controlled shutdown.

    A broker without a known offset counts as −1. The result is MAX_LONG if there is no such broker.
    """
    lowest: Any = None
    for b in t.broker:
        session, registration = sessions[b], registrations[b]
        counts = registration.registered & ~registration.fenced & session.controlled_shutdown_offset.is_none
        reported = where(session.metadata_offset.is_some, session.metadata_offset.value, -1)
        offset = where(counts, reported, MAX_LONG)
        lowest = offset if lowest is None else least(lowest, offset)
    return lowest
