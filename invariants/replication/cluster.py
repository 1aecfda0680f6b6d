"""Properties of data replication: what producers, consumers and operators are promised."""

from __future__ import annotations

from highwater.model.language import State, all_of, any_of, implies, invariant, size, total
from highwater.model.language.sequences import members_of
from highwater.model.language.values import Number, Truth, as_bool
from highwater.model.replication import Replication
from highwater.model.replication import logs as log_rules
from highwater.model.replication.clients import can_acknowledge
from highwater.model.replication.controller.eligible_leader_replicas import effective_min_isr


def _holds_committed(m: Replication, s: State, b: Number) -> Truth:
    """Whether a broker's log begins with every committed record."""
    log = s.brokers[b].log
    return all_of((s.committed.length <= o) | log_rules.same_record(log, s.committed, o) for o in m.offsets)


@invariant("P1")
def leader_completeness(m: Replication, s: State) -> Truth:
    """The leader that the controller chose holds every committed record.

    A record that the leader lacks is lost: followers truncate to the leader's log.
    """
    return all_of(
        implies(
            s.partition.leader.is_(b) & m.is_up(s.brokers[b]) & ~s.committed.is_empty,
            _holds_committed(m, s, b),
        )
        for b in m.broker
    )


@invariant("P1")
def electable_completeness(m: Replication, s: State) -> Truth:
    """Every ISR and ELR member that runs holds every committed record.

    Each of them can become leader without anybody being asked.
    """
    electable = s.partition.isr | s.partition.elr
    return all_of(
        implies(
            electable.has(b)
            & m.is_up(s.brokers[b])
            & (s.brokers[b].epoch == s.registrations[b].epoch)
            & ~s.committed.is_empty,
            _holds_committed(m, s, b),
        )
        for b in m.broker
    )


@invariant("P1")
def committed_records_survive(m: Replication, s: State) -> Truth:
    """Every committed record is still in some replica's log.

    It holds as long as fewer than min ISR brokers have lost data.
    """
    return all_of(
        implies(
            s.committed.length > o,
            any_of(log_rules.same_record(s.brokers[b].log, s.committed, o) for b in m.broker),
        )
        for o in m.offsets
    )


@invariant("P1")
def acknowledged_records_survive(m: Replication, s: State) -> Truth:
    """A record that was acknowledged to an acks=all producer is in the log of the leader that serves it."""
    return all_of(
        implies(
            (s.writes[v] == "ACKNOWLEDGED")
            & s.partition.leader.is_(b)
            & m.leads(b, s.brokers[b])
            & (s.brokers[b].view.leader_epoch == s.partition.leader_epoch),
            any_of((s.brokers[b].log.length > o) & (s.brokers[b].log.at(o).value == v) for o in m.offsets),
        )
        for b in m.broker
        for v in m.value
    )


@invariant("B3, B4")
def logs_match_below_hwm(m: Replication, s: State) -> Truth:
    """Below both their HWMs two replicas hold the same records."""
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


@invariant("B6")
def consumers_read_consistently(m: Replication, s: State) -> Truth:
    """What a presumed leader serves below its HWM is what any leader served there before.

    A consumer never sees a record change.
    """
    return all_of(
        implies(
            m.leads(b, s.brokers[b]) & (s.brokers[b].hwm > o),
            log_rules.same_record(s.brokers[b].log, s.committed, o),
        )
        for b in m.broker
        for o in m.offsets
    )


@invariant("B4")
def hwm_within_log(m: Replication, s: State) -> Truth:
    """No HWM is past the end of its log."""
    return all_of(
        implies(s.brokers[b].hwm > 0, s.brokers[b].hwm <= s.brokers[b].log.length) for b in m.broker
    )


@invariant("B8")
def one_leader_per_epoch(m: Replication, s: State) -> Truth:
    """In a leader epoch at most one broker takes itself for the leader."""
    return all_of(
        ~(
            m.leads(a, s.brokers[a])
            & m.leads(b, s.brokers[b])
            & (s.brokers[a].view.leader_epoch == s.brokers[b].view.leader_epoch)
        )
        for a in m.broker
        for b in m.broker
        if int(a) < int(b)
    )


@invariant("B8")
def views_are_prefixes(m: Replication, s: State) -> Truth:
    """No broker's view is ahead of the controller, and at the same partition epoch both say the same."""
    p = s.partition
    return all_of(
        implies(
            m.is_up(s.brokers[b]),
            (s.brokers[b].view.partition_epoch <= p.partition_epoch)
            & (s.brokers[b].view.leader_epoch <= p.leader_epoch)
            & ((s.brokers[b].view.partition_epoch != p.partition_epoch) | (s.brokers[b].view.isr == p.isr)),
        )
        for b in m.broker
    )


@invariant("841.2, 903.4")
def isr_members_are_eligible(m: Replication, s: State) -> Truth:
    """No fenced or shutting-down broker is in the ISR, but for the last member where the ISR may not be empty."""
    stays = (size(s.partition.isr) == 1) & (not m.on("isr_may_become_empty"))
    return stays | (s.partition.isr <= m.t.active(s.registrations))


@invariant("966.6")
def isr_and_elr_are_disjoint(m: Replication, s: State) -> Truth:
    """No replica is in both ISR and ELR."""
    return implies(~s.partition.elr.is_empty, (s.partition.isr & s.partition.elr).is_empty)


@invariant("966.6")
def elr_only_under_min_isr(m: Replication, s: State) -> Truth:
    """There is an ELR only while the ISR is under min ISR.

    From min ISR members on the HWM advances without the ELR, whose members then lack what is committed.
    """
    return implies(~s.partition.elr.is_empty, size(s.partition.isr) < m.min_isr(s))


@invariant("966.6", rule="eligible_leader_replicas")
def enough_are_electable(m: Replication, s: State) -> Truth:
    """Without an unclean shutdown ISR and ELR together have min ISR members.

    Each of them holds what is committed, so that many copies are left to lose. It says nothing where the operator
    has raised min ISR or elected by hand, and of replicas that a reassignment is only adding.
    """
    spent = ("crashes", "lossy_crashes", "disk_losses", "min_isr_changes", "elections", "downgrades")
    unspent = all_of(getattr(s.budgets, name) == getattr(m.p, name) for name in spent)
    fair = m.p.initial_isr >= m.p.min_isr and not m.p.unclean_election
    members, adding = members_of(s.partition.replicas, m.t.brokers), s.partition.adding
    needed = effective_min_isr(s.min_insync_replicas, size(members - adding))
    together = size(s.partition.isr | s.partition.elr)
    return implies(unspent & as_bool(fair) & (size(s.partition.isr) < needed), together >= needed)


@invariant("966.9")
def elr_is_made_of_replicas(m: Replication, s: State) -> Truth:
    """ISR and ELR are replicas of the partition."""
    replicas = members_of(s.partition.replicas, m.t.brokers)
    return (s.partition.isr <= replicas) & implies(~s.partition.elr.is_empty, s.partition.elr <= replicas)


@invariant("966.1, 966.6")
def replication_quorum_covers_election_quorum(m: Replication, s: State) -> Truth:
    """While a leader's HWM may advance, it waits for everyone who can be elected.

    Else a record could be committed that an electable replica lacks.
    """
    electable = s.partition.isr | s.partition.elr
    return all_of(
        implies(
            s.partition.leader.is_(b)
            & m.leads(b, s.brokers[b])
            & (s.brokers[b].view.leader_epoch == s.partition.leader_epoch)
            & (size(s.brokers[b].view.isr) >= m.min_isr_in(s.brokers[b].view)),
            electable <= m.maximal_isr(s.brokers[b]),
        )
        for b in m.broker
    )


@invariant("B6")
def acknowledgement_means_min_isr_copies(m: Replication, s: State) -> Truth:
    """Whenever a leader may acknowledge an acks=all record, min ISR replicas hold it, unless one lost it since."""
    unspent = (s.budgets.lossy_crashes == m.p.lossy_crashes) & (s.budgets.disk_losses == m.p.disk_losses)

    def copies(v: Number) -> Number:
        return total(
            any_of((s.brokers[b].log.length > o) & (s.brokers[b].log.at(o).value == v) for o in m.offsets)
            for b in m.broker
        )

    return all_of(
        implies(unspent & can_acknowledge(m, s, b, v), copies(v) >= m.min_isr_in(s.brokers[b].view))
        for b in m.broker
        for v in m.value
    )


@invariant("966.10, 966.14", rule="unclean_recovery")
def recovery_quorum_has_min_isr_members(m: Replication, s: State) -> Truth:
    """Without ISR and ELR, min ISR replicas are remembered as last known ELR, for a Balanced recovery to wait for.

    One of them holds every committed record as long as fewer than min ISR brokers have lost data.
    """
    p = s.partition
    nobody = p.isr.is_empty & p.elr.is_empty
    if m.p.downgrades:
        nobody = nobody & s.elr_enabled
    return implies(nobody, size(p.last_known_elr) >= m.min_isr(s))


INVARIANTS = (
    leader_completeness,
    electable_completeness,
    committed_records_survive,
    acknowledged_records_survive,
    logs_match_below_hwm,
    consumers_read_consistently,
    hwm_within_log,
    one_leader_per_epoch,
    views_are_prefixes,
    isr_members_are_eligible,
    isr_and_elr_are_disjoint,
    elr_only_under_min_isr,
    enough_are_electable,
    elr_is_made_of_replicas,
    replication_quorum_covers_election_quorum,
    acknowledgement_means_min_isr_copies,
    recovery_quorum_has_min_isr_members,
)
