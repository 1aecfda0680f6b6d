"""Invariants of data replication: guarantees for producers, consumers and operators."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.invariants import statements
from highwater.invariants.replication.commits import has_value, holds_committed
from highwater.invariants.replication.knowledge import CRASHES, spent
from highwater.invariants.replication.steps import min_isr_of
from highwater.model.language import (
    Number,
    State,
    Truth,
    all_of,
    as_bool,
    implies,
    invariant,
    least,
    size,
    total,
    where,
)
from highwater.model.language.containers import members_of
from highwater.model.replication import logs as log_rules
from highwater.model.replication.clients import can_acknowledge
from highwater.model.replication.controller.elections import electable
from highwater.model.replication.controller.partition_change import effective_min_isr
from highwater.model.replication.high_watermark import tells_end
from highwater.model.replication.logs import gate_is_open
from highwater.model.replication.protocol import Replication


def leads_now(m: Replication, s: State, b: Number) -> Truth:
    """True if the controller's current leader is this broker, and it leads in the controller's leader epoch."""
    p, broker = s.partition, s.brokers[b]
    return p.leader.is_(b) & m.leads(b, broker) & (broker.view.leader_epoch == p.leader_epoch)


@statements.leader_completeness.seen("P1")
def leader_completeness(m: Replication, s: State) -> Iterator[Truth]:
    """Checks the log of the controller's current leader while that broker runs."""
    for b in m.broker:
        yield statements.leader_completeness(
            s.partition.leader.is_(b) & m.is_up(s.brokers[b]) & ~s.committed.is_empty,
            holds_committed(m, s, b),
        )


@statements.electable_completeness.seen("P1")
def electable_completeness(m: Replication, s: State) -> Iterator[Truth]:
    """Checks the log of each electable broker that runs under its registered epoch or has stopped cleanly.

    A broker that stopped cleanly stays electable when it returns. A crashed broker does not.
    """
    for b in m.broker:
        yield statements.electable_completeness(
            electable(m.as_read(s)).has(b)
            & (m.is_up(s.brokers[b]) | (s.brokers[b].status == "STOPPED"))
            & (s.brokers[b].epoch == s.registrations[b].epoch)
            & ~s.committed.is_empty,
            holds_committed(m, s, b),
        )


@statements.committed_records_survive.seen("P1")
def committed_records_survive(m: Replication, s: State) -> Iterator[Truth]:
    """Checks the logs of all brokers, including those that are down."""
    for o in m.offsets:
        yield statements.committed_records_survive(
            s.committed.length > o,
            [log_rules.same_record(s.brokers[b].log, s.committed, o) for b in m.broker],
        )


@invariant("P1")
def acknowledged_records_survive(m: Replication, s: State) -> Truth:
    """The current leader's log contains every record that was acknowledged to an acks=all producer."""
    return all_of(
        implies(
            (s.writes[v] == "ACKNOWLEDGED") & leads_now(m, s, b),
            has_value(m, s, b, v),
        )
        for b in m.broker
        for v in m.value
    )


@invariant("B3, B4")
def logs_match_below_hwm(m: Replication, s: State) -> Truth:
    """Any two replicas hold the same records below the smaller of their HWMs."""
    return all_of(
        implies(
            (s.brokers[a].hwm > o) & (s.brokers[b].hwm > o),
            log_rules.same_record(s.brokers[a].log, s.brokers[b].log, o),
        )
        for a in m.broker
        for b in m.broker
        if int(a) < int(b)
        for o in m.offsets
    )


@statements.consumers_read_consistently.seen("B6")
def consumers_read_consistently(m: Replication, s: State) -> Iterator[Truth]:
    """Checks the records below the HWM of every broker that believes it leads. Two leaders' HWMs may differ."""
    for b in m.broker:
        yield statements.consumers_read_consistently(
            [m.leads(b, s.brokers[b]) & (s.brokers[b].hwm > o) for o in m.offsets],
            [log_rules.same_record(s.brokers[b].log, s.committed, o) for o in m.offsets],
        )


@invariant("207.1, P1")
def told_end_never_falls(m: Replication, s: State) -> Iterator[Truth]:
    """No leader gives consumers a smaller end of the log than an earlier leader gave.

    Only the current leader is checked, in its epoch: consumers that know this leader do not fetch from former ones.
    Other properties check for lost records.
    """
    for b in m.broker:
        yield implies(
            leads_now(m, s, b) & ~s.committed.is_empty & tells_end(m, s.brokers[b]),
            all_of(
                (s.brokers[b].hwm > o) | ~log_rules.same_record(s.brokers[b].log, s.committed, o)
                for o in m.offsets
            ),
        )


@invariant("B4")
def hwm_within_log(m: Replication, s: State) -> Iterator[Truth]:
    """No broker's HWM exceeds its log end offset."""
    for b in m.broker:
        yield implies(s.brokers[b].hwm > 0, s.brokers[b].hwm <= s.brokers[b].log.length)


@statements.one_leader_per_epoch.seen()
def one_leader_per_epoch(m: Replication, s: State) -> Truth:
    """Compares the leader epochs in the views of the brokers that believe they lead."""
    return statements.one_leader_per_epoch(
        [(m.leads(b, s.brokers[b]), s.brokers[b].view.leader_epoch) for b in m.broker]
    )


@invariant("841.5, B8")
def told_leaders_lead(m: Replication, s: State) -> Iterator[Truth]:
    """A running broker leads if it knows the leader epoch in which the controller elected it."""
    for b in m.broker:
        yield implies(
            s.partition.leader.is_(b)
            & m.is_up(s.brokers[b])
            & (s.brokers[b].view.leader_epoch == s.partition.leader_epoch),
            m.leads(b, s.brokers[b]),
        )


@invariant("B8")
def views_are_prefixes(m: Replication, s: State) -> Iterator[Truth]:
    """No broker's view is ahead of the controller; at the same partition epoch both have the same ISR."""
    p = s.partition
    for b in m.broker:
        yield implies(
            m.is_up(s.brokers[b]),
            (s.brokers[b].view.partition_epoch <= p.partition_epoch)
            & (s.brokers[b].view.leader_epoch <= p.leader_epoch)
            & ((s.brokers[b].view.partition_epoch != p.partition_epoch) | (s.brokers[b].view.isr == p.isr)),
        )


@statements.isr_members_are_eligible.seen()
def isr_members_are_eligible(m: Replication, s: State) -> Truth:
    """Checks the partition's ISR against the controller's registrations."""
    return statements.isr_members_are_eligible(s.partition, m.t.active(s.registrations))


@statements.isr_and_elr_are_disjoint.seen()
def isr_and_elr_are_disjoint(m: Replication, s: State) -> Truth:
    """Checks ISR and ELR as the controller reads them."""
    return statements.isr_and_elr_are_disjoint(m.as_read(s))


@statements.elr_only_under_min_isr.seen()
def elr_only_under_min_isr(m: Replication, s: State) -> Truth:
    """Checks ISR and ELR as the controller reads them."""
    return statements.elr_only_under_min_isr(m.as_read(s), min_isr_of(s))


def has_whole_elr(m: Replication, s: State) -> Truth:
    """True if the ELR is on, and has been on since the ISR last had at least min ISR members."""
    return m.has_elr(s) & (s.elr_is_whole if m.remembers_whole else as_bool(True))


@statements.enough_are_electable.seen(rule="eligible_leader_replicas")
def enough_are_electable(m: Replication, s: State) -> Truth:
    """Checks ISR and ELR as the controller reads them. After unclean shutdowns fewer members are enough.

    Each registration after an unclean shutdown lowers the required number by one. The property applies if
    - the initial ISR has min.insync.replicas members, and unclean election is disabled;
    - ``has_whole_elr`` holds; and
    - no operator has changed min.insync.replicas or requested an election.
    Replicas that a reassignment adds do not count for min ISR.
    """
    unspent = all_of(
        getattr(s.budgets, name) == getattr(m.p, name) for name in ("min_isr_changes", "elections")
    )
    fair = m.p.initial_isr >= m.p.min_isr and not m.p.unclean_election
    members, adding = members_of(s.partition.replicas, m.t.brokers), s.partition.adding
    needed = effective_min_isr(s.min_insync_replicas, size(members - adding))
    under = has_whole_elr(m, s) & unspent & as_bool(fair) & (size(s.partition.isr) < needed)
    excused = least(unclean_registrations(m, s), needed)
    return implies(under, statements.enough_are_electable(electable(m.as_read(s)), needed - excused))


def unclean_registrations(m: Replication, s: State) -> Number:
    """966.5. An upper bound on the registrations after an unclean shutdown so far.

    It is the number of crashes and early stops, minus the brokers that are down after a crash. If a failover can split
    a registration (K14), each failover adds one.
    """
    split = ("failovers",) if m.on("registration_may_be_split") else ()
    shutdowns = spent(m, s, *CRASHES, "early_stops", *split)
    down = total(s.brokers[b].status == "CRASHED" for b in m.broker)
    return where(shutdowns > down, shutdowns - down, 0)


@statements.isr_within_replicas.seen()
def isr_within_replicas(m: Replication, s: State) -> Truth:
    """The ISR in the controller's state has only replicas of the partition."""
    return statements.isr_within_replicas(s.partition, members_of(s.partition.replicas, m.t.brokers))


@statements.elr_within_replicas.seen()
def elr_within_replicas(m: Replication, s: State) -> Truth:
    """The ELR in the controller's state has only replicas of the partition."""
    return statements.elr_within_replicas(s.partition, members_of(s.partition.replicas, m.t.brokers))


@invariant("966.1, 966.6")
def replication_quorum_covers_election_quorum(m: Replication, s: State) -> Iterator[Truth]:
    """While the current leader's HWM may advance, the leader waits for all electable brokers.

    Otherwise a record could be committed that an electable broker lacks.
    """
    for b in m.broker:
        yield implies(
            leads_now(m, s, b) & gate_is_open(size(s.brokers[b].view.isr), m.min_isr_in(s.brokers[b].view)),
            electable(m.as_read(s)) <= m.maximal_isr(s.brokers[b]),
        )


@invariant("B6")
def acknowledgement_means_min_isr_copies(m: Replication, s: State) -> Truth:
    """Unless a crash lost records, at least min ISR brokers hold an acks=all record when a leader may acknowledge it.

    After a reassignment one copy is enough: a reassignment can remove a replica with its copy, and can leave a single
    replica, for which the min ISR is 1.
    """
    unspent = (s.budgets.lossy_crashes == m.p.lossy_crashes) & (s.budgets.disk_losses == m.p.disk_losses)

    def copies(v: Number) -> Number:
        return total(has_value(m, s, b, v) for b in m.broker)

    def needed(b: Number) -> Number:
        known = m.min_isr_in(s.brokers[b].view)
        if not m.p.reassignments:
            return known
        return where(s.budgets.reassignments == m.p.reassignments, known, 1)

    return all_of(
        implies(unspent & can_acknowledge(m, s, b, v), copies(v) >= needed(b))
        for b in m.broker
        for v in m.value
    )


@invariant("966.10, 966.14", rule="unclean_recovery")
def recovery_quorum_has_min_isr_members(m: Replication, s: State) -> Truth:
    """If ISR and ELR are empty, the last known ELR has at least min ISR members for a Balanced recovery to wait for.

    One of these members holds all committed records if fewer than min ISR brokers have lost data.
    """
    p = m.as_read(s)
    nobody = p.isr.is_empty & p.elr.is_empty & has_whole_elr(m, s)
    return implies(nobody, size(p.last_known_elr) >= min_isr_of(s))
