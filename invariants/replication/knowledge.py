"""Helper invariants for induction: brokers and messages contain only former states of the controller.

A running broker's view was once the controller's state. A message's sender knew no more when it sent the message than
it knows now. It follows that a leader epoch has one leader, and a partition epoch one proposal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from highwater.model.language import (
    Invariant,
    Number,
    SetValue,
    State,
    StructValue,
    Truth,
    all_of,
    implies,
    invariant,
    size,
    step_property,
    total,
    where,
)
from highwater.model.language.containers import members_of
from highwater.model.replication.protocol import Replication

BEYOND = (
    "duplicates", "losses", "elections", "reassignments", "min_isr_changes", "downgrades", "upgrades",
    "flag_changes", "recovery", "unclean_election", "metadata_in_flight", "late_fetches", "unseen_stops",
    "early_stops", "shutdown_requests", "old_disks",
)  # fmt: skip
"""Parameters with which the helper invariants do not exist, because some do not hold."""
NEEDED = "elr_at_start"
"""The parameter without which the helper invariants do not exist."""
CRASHES = ("crashes", "lossy_crashes", "disk_losses")
"""The budgets of unclean shutdowns."""


def spent(m: Replication, s: State, *budgets: str) -> Number:
    """The number of faults so far that these budgets limit."""
    left: Number = sum(getattr(s.budgets, name) for name in budgets)
    return sum(getattr(m.p, name) for name in budgets) - left


def helper(source: str) -> Callable[[Callable[[Any, Any], Any]], Invariant]:
    """Mark a function as a helper invariant.

    It exists only if the metadata version has the ELR at the start, and no parameter of BEYOND is set.
    """
    return invariant(source, needs=NEEDED, unless=BEYOND)


def replicas(m: Replication, s: State) -> SetValue:
    """The replicas of the partition."""
    return members_of(s.partition.replicas, m.t.brokers)


def reached(m: Replication, s: State, b: Number) -> Number:
    """The leader epoch in which a broker acts or, while the broker is down, the smallest one in which it can start."""
    broker = s.brokers[b]
    return where(m.is_up(broker), broker.view.leader_epoch, s.partition.leader_epoch)


def acceptable(s: State, b: Number) -> Truth:
    """True if the AlterPartition of broker ``b`` passes all checks that do not concern the proposed members."""
    sent, p = s.alter_requests[b], s.partition
    return (
        sent.is_some
        & p.leader.is_(b)
        & (sent.value.leader_epoch == p.leader_epoch)
        & (sent.value.partition_epoch == p.partition_epoch)
        & (sent.value.broker_epoch == s.registrations[b].epoch)
    )


def is_unaware_leader(m: Replication, s: State, b: Number) -> Truth:
    """True if a running broker was elected and does not know it yet."""
    broker, p = s.brokers[b], s.partition
    return p.leader.is_(b) & m.is_up(broker) & (broker.view.leader_epoch != p.leader_epoch)


@helper("B8, 966.12")
def registrations_are_the_brokers(m: Replication, s: State) -> Iterator[Truth]:
    """A broker's epoch is the registered one; the controller knows which running brokers are in controlled shutdown.

    A stopped broker is fenced.
    """
    for b in m.broker:
        broker, registration = s.brokers[b], s.registrations[b]
        shutting_down = registration.in_controlled_shutdown == (broker.status == "SHUTTING_DOWN")
        yield registration.registered & (broker.epoch == registration.epoch)
        yield implies(m.is_up(broker), shutting_down)
        yield implies(broker.status == "STOPPED", registration.fenced)


@helper("B8, 966.3")
def isr_has_its_leader(m: Replication, s: State) -> Truth:
    """A leader is in the ISR, and a non-empty ISR has a leader.

    No replica is being added or removed, because these scenarios have no reassignment. Each replica is listed once.
    """
    p = s.partition
    led = where(p.leader.is_some, p.isr.has(p.leader), p.isr.is_empty)
    return led & p.adding.is_empty & p.removing.is_empty & (size(replicas(m, s)) == p.replicas.length)


@helper("966.4, 966.10, 966.14")
def enough_are_remembered(m: Replication, s: State) -> Truth:
    """ISR, ELR and last known ELR together have at least min ISR members.

    Before the first unclean shutdown, ISR and ELR alone have at least min ISR members. Both statements apply only if
    the initial ISR has min.insync.replicas members. The number of brokers that are down after an unclean shutdown does
    not exceed the number of crashes and early stops so far.
    """
    p, needed = s.partition, m.min_isr(s)
    ended = spent(m, s, *CRASHES, "early_stops")
    granted = total(s.brokers[b].status == "CRASHED" for b in m.broker) <= ended
    if m.p.initial_isr < m.p.min_isr:
        return granted
    clean = implies(ended == 0, size(p.isr | p.elr) >= needed)
    return granted & clean & (size(p.isr | p.elr | p.last_known_elr) >= needed)


@helper("B8")
def views_are_former_states(m: Replication, s: State) -> Iterator[Truth]:
    """A running broker's view was once the controller's state; views with equal epochs contain equal decisions.

    Configuration and replicas do not change in these scenarios, so a partition epoch determines the whole decision. A
    leader epoch determines the leader: brokers in the same leader epoch know the same leader. So does the controller,
    if it is in that epoch.
    """
    p = s.partition
    for b in m.broker:
        view = s.brokers[b].view
        led = where(view.leader.is_some, view.isr.has(view.leader), view.isr.is_empty)
        present = (view.leader == p.leader) & (view.leader_epoch == p.leader_epoch)
        says = [
            led,
            view.leader_epoch <= p.leader_epoch,
            view.partition_epoch <= p.partition_epoch,
            implies(view.partition_epoch == p.partition_epoch, present & (view.isr == p.isr)),
            implies(view.leader_epoch == p.leader_epoch, view.leader == p.leader),
            view.isr <= view.replicas,
            view.replicas == replicas(m, s),
            view.min_isr == s.min_insync_replicas,
            *(view.epochs[x] <= s.registrations[x].epoch for x in m.broker),
        ]
        for other in m.broker:
            if int(other) < int(b):
                theirs = s.brokers[other].view
                same = m.is_up(s.brokers[other]) & (theirs.leader_epoch == view.leader_epoch)
                says.append(implies(same, theirs.leader == view.leader))
        yield implies(m.is_up(s.brokers[b]), all_of(says))


@helper("B5, B7")
def only_leaders_have_followers(m: Replication, s: State) -> Iterator[Truth]:
    """Only a leader has a proposal or fetch state, and its fetch state is from its current leader epoch.

    A follower that has fetched in a leader epoch never returns to an earlier one.
    """
    for b in m.broker:
        broker = s.brokers[b]
        leads = m.leads(b, broker)
        yield implies(broker.proposed.is_some, leads)
        members = broker.proposed.value.has(b) & (broker.proposed.value <= replicas(m, s))
        yield implies(leads & broker.proposed.is_some, members)
        for f in m.broker:
            state = broker.followers[f]
            says = leads & (f != b)
            says &= reached(m, s, f) >= broker.view.leader_epoch
            says &= state.broker_epoch <= s.registrations[f].epoch
            yield implies(state.leo.is_some, says)
            joins = broker.proposed.is_some & broker.proposed.value.has(f) & ~broker.view.isr.has(f)
            yield implies(joins, state.leo.is_some)


@helper("B2, 903.1")
def fetches_are_not_from_the_future(m: Replication, s: State) -> Iterator[Truth]:
    """A fetch in flight has a leader epoch that its sender has reached, and goes to the leader of that epoch.

    A response to a follower is in flight only while the follower's process runs and has no fetch in flight.
    """
    for f in m.broker:
        request, response = s.fetch_requests[f], s.fetch_responses[f]
        fetch = request.value
        sent = [
            response.is_none,
            fetch.leader != f,
            fetch.leader_epoch <= reached(m, s, f),
            fetch.broker_epoch <= s.brokers[f].epoch,
            (fetch.offset > 0) == fetch.last_epoch.is_some,
            implies(fetch.leader_epoch == s.partition.leader_epoch, s.partition.leader.is_(fetch.leader)),
        ]
        for x in m.broker:
            broker = s.brokers[x]
            there = m.is_up(broker) & (broker.view.leader_epoch == fetch.leader_epoch)
            sent.append(implies(there, broker.view.leader.is_(fetch.leader)))
            recorded = m.leads(x, broker) & broker.followers[f].leo.is_some
            sent.append(implies(recorded, broker.followers[f].broker_epoch <= fetch.broker_epoch))
            named = s.alter_requests[x].value.epochs[f]
            proposed = s.alter_requests[x].is_some & named.is_some & (int(x) != int(f))
            sent.append(implies(proposed, named.value <= fetch.broker_epoch))
        yield implies(request.is_some, all_of(sent))
        epoch, p = response.value.leader_epoch, s.partition
        here = m.is_up(s.brokers[f]) & (epoch <= s.brokers[f].view.leader_epoch)
        for x in m.broker:
            here &= implies(epoch == p.leader_epoch, ~is_unaware_leader(m, s, x))
        yield implies(response.is_some, here)


@helper("B7, 903.3")
def proposals_are_the_leaders(m: Replication, s: State) -> Iterator[Truth]:
    """An AlterPartition in flight is its sender's pending proposal, as long as the sender's epochs are unchanged.

    Each added member has fetched in the sender's epoch, with the broker epoch in the request.
    """
    for b in m.broker:
        request, broker, response = s.alter_requests[b], s.brokers[b], s.alter_responses[b]
        sent, answer = request.value, response.value
        here = m.is_up(broker) & (sent.broker_epoch == broker.epoch)
        stands = (sent.partition_epoch == broker.view.partition_epoch) & (
            sent.leader_epoch == broker.view.leader_epoch
        )
        says = [
            response.is_none,
            sent.isr.has(b) & (sent.isr <= replicas(m, s)),
            sent.leader_epoch <= reached(m, s, b),
            sent.partition_epoch <= s.partition.partition_epoch,
            implies(
                sent.partition_epoch == s.partition.partition_epoch,
                sent.leader_epoch == s.partition.leader_epoch,
            ),
            sent.broker_epoch <= broker.epoch,
            implies(sent.broker_epoch < broker.epoch, sent.leader_epoch < reached(m, s, b)),
            implies(sent.leader_epoch == s.partition.leader_epoch, s.partition.leader.is_(b)),
            implies(here, sent.partition_epoch <= broker.view.partition_epoch),
            implies(here & stands & m.leads(b, broker), broker.proposed.is_(sent.isr)),
        ]
        for x in m.broker:
            joins = sent.isr.has(x) & ~s.partition.isr.has(x)
            epoch, state = sent.epochs[x], broker.followers[x]
            says.append(implies(acceptable(s, b) & joins, epoch.is_some))
            fetched = (epoch.value <= s.registrations[x].epoch) & (reached(m, s, x) >= sent.leader_epoch)
            says.append(implies(epoch.is_some, fetched))
            same = here & m.leads(b, broker) & (sent.leader_epoch == broker.view.leader_epoch) & (b != x)
            recorded = state.leo.is_some & (epoch.value <= state.broker_epoch)
            says.append(implies(same & epoch.is_some, recorded))
        yield implies(request.is_some, all_of(says))
        yield implies(response.is_some, m.is_up(broker) & _is_former(s, answer, broker, b))


def _is_former(s: State, answer: StructValue, broker: StructValue, b: Number) -> Truth:
    """True if the response to leader ``b`` contains a decision that the controller has made, now or earlier."""
    p = s.partition
    present = (answer.isr == p.isr) & (answer.leader_epoch == p.leader_epoch)
    committed = answer.isr.has(b) & (answer.partition_epoch <= p.partition_epoch)
    committed &= implies(answer.partition_epoch == p.partition_epoch, present)
    committed &= answer.isr <= broker.view.replicas
    return (answer.leader_epoch <= broker.view.leader_epoch) & implies(
        answer.outcome == "COMMITTED", committed
    )


@helper("841.3")
def a_proposal_waits_for_its_answer(m: Replication, s: State) -> Iterator[Truth]:
    """A pending proposal has its request or response in flight, unless the controller has changed the partition since.

    So if neither is in flight, a retry has an old partition epoch and is refused. Every member that joins the ISR is in
    the leader's maximal ISR.
    """
    for b in m.broker:
        broker, request, response = s.brokers[b], s.alter_requests[b], s.alter_responses[b]
        view, sent, answer = broker.view, request.value, response.value
        current = (
            (sent.leader_epoch == view.leader_epoch)
            & (sent.partition_epoch == view.partition_epoch)
            & (sent.broker_epoch == broker.epoch)
        )
        answered = answer.leader_epoch == view.leader_epoch
        fits = (answer.partition_epoch >= view.partition_epoch) & (answer.isr <= m.maximal_isr(broker))
        answered &= implies(answer.outcome == "COMMITTED", fits)
        outdated = view.partition_epoch < s.partition.partition_epoch
        stands = where(
            request.is_some,
            current,
            where(response.is_some, answered & ((answer.outcome != "KEEP") | outdated), outdated),
        )
        yield implies(broker.proposed.is_some, stands)


@step_property("B8", needs=NEEDED, unless=BEYOND)
def what_a_broker_has_reached_never_falls(m: Replication, before: State, after: State) -> Truth:
    """A broker's leader epoch never decreases, even across restarts.

    Its partition epoch does not decrease while the broker runs.
    """
    return all_of(
        (reached(m, before, b) <= reached(m, after, b))
        & implies(
            m.is_up(before.brokers[b]) & m.is_up(after.brokers[b]),
            before.brokers[b].view.partition_epoch <= after.brokers[b].view.partition_epoch,
        )
        for b in m.broker
    )
