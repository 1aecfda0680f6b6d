"""Sentences of the proposals about data replication, stated independently of the rules that implement them."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.invariants.replication.steps import min_isr_of
from highwater.model.language import (
    Number,
    State,
    Truth,
    all_of,
    any_of,
    as_bool,
    implies,
    invariant,
    size,
    step_property,
    where,
)
from highwater.model.language.containers import members_of
from highwater.model.replication import logs
from highwater.model.replication.controller.elections import electable
from highwater.model.replication.controller.types import LeaderRecoveryState
from highwater.model.replication.protocol import Replication


def _same_process(m: Replication, before: State, after: State, b: Number) -> Truth:
    """True if broker ``b`` runs as one process before and after the step."""
    old, new = before.brokers[b], after.brokers[b]
    return m.is_up(old) & m.is_up(new) & (old.epoch == new.epoch)


def _registration(m: Replication, before: State, after: State, b: Number) -> tuple[Truth, Truth]:
    """966.12. True if broker ``b`` registers in the step, and true if its last shutdown was clean.

    The shutdown was clean if the CleanShutdownFile has the registered epoch, and the metadata version has the ELR.
    """
    old, file = before.registrations[b], before.brokers[b]
    level = before.elr_level if m.level_changes else as_bool(True)
    clean = (file.status == "STOPPED") & (file.epoch == old.epoch) & level
    return old.epoch != after.registrations[b].epoch, clean


def _is_requested(before: State, after: State) -> Truth:
    return before.budgets.elections > after.budgets.elections


# --- states ---------------------------------------------------------------------------------------------------


@invariant("B4, 966.1, 966.2")
def hwm_reaches_what_the_isr_has(m: Replication, s: State) -> Iterator[Truth]:
    """If the committed ISR is large enough, the HWM is at least the smallest LEO that the leader must wait for.

    An ISR is large enough if it has min.insync.replicas members or contains every replica. The leader waits for the
    maximal ISR and, with K3, for caught-up replicas outside the ISR.
    """
    for b in m.broker:
        broker = s.brokers[b]
        view = broker.view
        enough = (size(view.isr) >= view.min_isr) | (view.replicas <= view.isr)
        behind = [broker.hwm >= broker.log.length]
        for f in m.broker:
            known = broker.followers[f]
            awaited = m.maximal_isr(broker).has(f) | known.caught_up
            behind.append(awaited & (f != b) & ~(known.leo.is_some & (known.leo.value > broker.hwm)))
        yield implies(m.leads(b, broker) & enough, any_of(behind))


@invariant("B6", needs="waiting_producers")
def producers_wait_for_leaders_only(m: Replication, s: State) -> Iterator[Truth]:
    """A producer waits only at a broker that leads.

    The wait ends when the broker crashes, stops or becomes a follower.
    """
    for b in m.broker:
        for v in m.value:
            yield implies(s.waiting[v].is_some & (s.waiting[v].value.leader == b), m.leads(b, s.brokers[b]))


@invariant("966.9, B8", needs="reassignments")
def former_replicas_keep_no_log(m: Replication, s: State) -> Iterator[Truth]:
    """A broker that knows it is not a replica has no log, even if it learns this on restart."""
    for b in m.broker:
        yield implies(m.is_up(s.brokers[b]) & ~s.brokers[b].view.replicas.has(b), s.brokers[b].log.is_empty)


# --- steps ----------------------------------------------------------------------------------------------------


@step_property("B3", rule="divergence_check")
def truncation_ends_where_both_logs_agree(m: Replication, before: State, after: State) -> Iterator[Truth]:
    """A follower truncates to an offset at which its log and the leader's can agree, and no further than necessary.

    The last record that the follower keeps has at most the epoch in the response. The leader's log has none of the
    truncated records.
    """
    for f in m.broker:
        old, new, answer = before.brokers[f], after.brokers[f], before.fetch_responses[f]
        taken = _same_process(m, before, after, f) & answer.is_some & after.fetch_responses[f].is_none
        got = answer.value
        current = (
            m.follows(f, old) & (got.leader_epoch == old.view.leader_epoch) & (got.offset == old.log.length)
        )
        agreed = new.log.is_empty | (got.epoch.is_some & (new.log.last.epoch <= got.epoch.value))
        yield implies(taken & current & got.diverging, agreed & (new.log.length < old.log.length))
        for leader in m.broker:
            now = before.brokers[leader]
            serves = m.leads(leader, now) & (now.view.leader_epoch == old.view.leader_epoch)
            for o in m.offsets:
                removed = taken & current & serves & (old.log.length > o) & (new.log.length <= o)
                yield implies(removed, ~logs.same_record(old.log, now.log, o))


@step_property("K2", rule="stale_fetch_check")
def leaders_count_no_fetch_of_a_former_incarnation(
    m: Replication, before: State, after: State
) -> Iterator[Truth]:
    """A leader ignores a fetch with a lower broker epoch than the leader's metadata has for the follower.

    The property excludes the fetches of ``old_fetcher``, which have no broker epoch (version 14).
    """
    for b in m.broker:
        old, new = before.brokers[b], after.brokers[b]
        leads_on = m.leads(b, old) & m.leads(b, new) & (old.view == new.view)
        for f in m.broker:
            was, known = old.followers[f], new.followers[f]
            counted = (was.leo != known.leo) | (was.broker_epoch != known.broker_epoch)
            current = known.broker_epoch >= old.view.epochs[f]
            if int(f) != m.p.old_fetcher:
                yield implies(leads_on & counted & known.leo.is_some, current)


@step_property("966.5, 966.12, 966.18", rule="unclean_registration")
def unclean_registrations_leave_isr_and_elr(m: Replication, before: State, after: State) -> Iterator[Truth]:
    """A broker that registers after an unclean shutdown leaves ISR and ELR; only the last ISR member can stay in ISR.

    A shutdown is clean if the CleanShutdownFile has the registered broker epoch, and the metadata version supports the
    ELR (966.12).
    """
    for b in m.broker:
        registers, clean = _registration(m, before, after, b)
        last = before.partition.isr == m.t.brokers.zero().with_(b)
        out = ~after.partition.elr.has(b) & (last | ~after.partition.isr.has(b))
        yield implies(registers & ~clean, out)


@step_property("966.12, 966.18", rule="clean_registration")
def clean_registrations_keep_the_elr(m: Replication, before: State, after: State) -> Iterator[Truth]:
    """A broker that registers after a clean shutdown stays in the recorded ELR.

    Only the metadata version decides if a shutdown can be clean. The flag eligible.leader.replicas.enabled does not.
    """
    for b in m.broker:
        registers, clean = _registration(m, before, after, b)
        yield implies(registers & clean & before.partition.elr.has(b), after.partition.elr.has(b))


@step_property("966.14", rule="unclean_recovery", needs="recovery")
def recovery_elects_the_best_log(m: Replication, before: State, after: State) -> Iterator[Truth]:
    """A recovery elects a leader whose log is at least as good as every log that the recovery compares or waits for.

    A better log ends in a later leader epoch or, with equal epochs, is longer. Balanced waits for the last known ELR,
    and LONGEST_LOG_BALANCED compares only members of the last known ELR. The property ignores replicas that do not run,
    are fenced, or do not know the current leader epoch.
    """
    on_request = _is_requested(before, after)
    balanced = where(on_request, not m.p.risky_elections, not m.p.unclean_election)
    live = m.t.active(before.registrations)
    recovered = any_of(before.log_infos[b].is_some & after.log_infos[b].is_none for b in m.broker)

    def runs(b: Number) -> Truth:
        broker = before.brokers[b]
        knows = broker.view.leader_epoch == before.partition.leader_epoch
        return m.is_up(broker) & (broker.epoch == before.registrations[b].epoch) & live.has(b) & knows

    def compared(b: Number) -> Truth:
        answer, awaited = before.log_infos[b], before.partition.last_known_elr.has(b)
        now = answer.is_some & (answer.value.leader_epoch == before.partition.leader_epoch)
        return runs(b) & where(on_request, balanced & awaited, now | (balanced & awaited))

    for b in m.broker:
        elected = recovered & before.partition.leader.is_none & after.partition.leader.is_(b)
        own = before.brokers[b].log
        for r in m.broker:
            if int(r) != int(b):
                log = before.brokers[r].log
                later = ~log.is_empty & (own.is_empty | (log.last.epoch > own.last.epoch))
                longer = (
                    ~log.is_empty
                    & ~own.is_empty
                    & (log.last.epoch == own.last.epoch)
                    & (log.length > own.length)
                )
                yield implies(elected & runs(b) & compared(r), ~(later | longer))


@step_property("966.1, 966.18", rule="hwm_needs_min_isr")
def hwm_advances_with_min_isr_only(m: Replication, before: State, after: State) -> Iterator[Truth]:
    """A leader's HWM advances only while the committed ISR has at least min ISR members, with or without the ELR.

    A broker of an older version (``ungated_broker``) has no such rule.
    """
    for b in m.broker:
        old, new = before.brokers[b], after.brokers[b]
        leads_on = m.leads(b, old) & m.leads(b, new) & (old.view.leader_epoch == new.view.leader_epoch)
        enough = (size(new.view.isr) >= new.view.min_isr) | (new.view.replicas <= new.view.isr)
        if int(b) != m.p.ungated_broker:
            yield implies(leads_on & (new.hwm > old.hwm), enough)


@step_property("B6")
def acks_all_writes_need_min_isr(m: Replication, before: State, after: State) -> Iterator[Truth]:
    """A leader appends or acknowledges an acks=all record only if its ISR has at least min ISR members.

    For the acknowledgement the maximal ISR counts.
    """
    acknowledgers = []
    for b in m.broker:
        broker = before.brokers[b]
        view, maximal = broker.view, m.maximal_isr(broker)
        enough = (size(view.isr) >= view.min_isr) | (view.replicas <= view.isr)
        appended = after.brokers[b].log.length > broker.log.length
        accepted = [(before.writes[v] == "UNUSED") & (after.writes[v] == "PENDING") for v in m.value]
        yield implies(any_of(accepted) & appended, enough)
        able = (size(maximal) >= view.min_isr) | (view.replicas <= maximal)
        acknowledgers.append(m.leads(b, broker) & able & (broker.hwm > 0))
    acknowledged = any_of(
        (before.writes[v] != "ACKNOWLEDGED") & (after.writes[v] == "ACKNOWLEDGED") for v in m.value
    )
    yield implies(acknowledged & m.on("acks_all_needs_min_isr"), any_of(acknowledgers))


@step_property("966.17", needs="elections")
def requested_elections_replace_no_leader(m: Replication, before: State, after: State) -> Truth:
    """A requested election replaces a leader only by the preferred replica.

    Election types other than PREFERRED need a partition without a leader.
    """
    on_request = _is_requested(before, after)
    old, new = before.partition.leader, after.partition.leader
    preferred = after.partition.replicas.at(0)
    return implies(on_request & old.is_some & (old != new), new.is_(preferred))


@step_property("966.4, 966.10, 966.11, 966.18")
def remembered_only_while_due(m: Replication, before: State, after: State) -> Truth:
    """ELR and last known ELR are empty unless the ISR is under min ISR; with a leader there is no last known leader.

    This holds after each partition change. While the ELR is off, a partition change clears the ELR, the last known ELR
    and the last known leader. They would be stale once the ELR is on again. So the ELR begins empty, with or without a
    leader.
    """
    old, new = before.partition, after.partition
    on = m.has_elr(before)
    nobody = new.elr.is_empty & new.last_known_elr.is_empty
    due = nobody | (on & (size(new.isr) < min_isr_of(after)))
    leader_due = new.last_known_leader.is_none | (on & new.leader.is_none)
    begins = ~on & m.has_elr(after) & m.on("elr_begins_empty")
    return implies(old.partition_epoch != new.partition_epoch, due & leader_due) & implies(
        begins, new.elr.is_empty
    )


@step_property("B7, 903.3")
def proposals_stand_as_they_were_made(m: Replication, before: State, after: State) -> Iterator[Truth]:
    """While a leader's proposal is pending, neither the proposed ISR nor the broker epochs in the proposal change."""
    for b in m.broker:
        old, new = before.brokers[b], after.brokers[b]
        alike = old.proposed == new.proposed
        if m.proposals_keep_epochs:
            alike &= old.proposed_epochs == new.proposed_epochs
        yield implies(old.proposed.is_some & new.proposed.is_some, alike)


@step_property("B5, 207.1")
def leader_epochs_start_at_the_log_end(m: Replication, before: State, after: State) -> Iterator[Truth]:
    """A leader's epoch starts at the end of the log that it has when the epoch begins, also if it led before."""
    for b in m.broker:
        old, new = before.brokers[b], after.brokers[b]
        begins = ~m.leads(b, old) | (old.view.leader_epoch != new.view.leader_epoch)
        yield implies(m.leads(b, new) & begins, new.leso == before.brokers[b].log.length)


@step_property("B8, 841.2, 903.4")
def current_proposals_are_accepted(m: Replication, before: State, after: State) -> Iterator[Truth]:
    """The controller carries out the proposal of the current leader in the current epochs if every member is eligible.

    A member is eligible if it is an active replica and the proposal has its registered broker epoch, or none for it.
    """
    p, known = before.partition, before.registrations
    able = members_of(p.replicas, m.t.brokers) & m.t.active(known)
    for b in m.broker:
        asked, sent = before.alter_requests[b], before.alter_requests[b].value
        answered = asked.is_some & before.alter_responses[b].is_none & after.alter_responses[b].is_some
        current = p.leader.is_(b) & (sent.broker_epoch == known[b].epoch) & (before.former == after.former)
        current &= (sent.leader_epoch == p.leader_epoch) & (sent.partition_epoch == p.partition_epoch)
        epochs = all_of(
            ~sent.isr.has(f) | sent.epochs[f].is_none | sent.epochs[f].is_(known[f].epoch) for f in m.broker
        )
        changes = (sent.isr != p.isr) & (sent.isr <= able) & epochs
        yield implies(answered & current & changes, after.partition.partition_epoch > p.partition_epoch)


@step_property("B7", needs="shrinks")
def only_lagging_members_are_proposed_to_leave(
    m: Replication, before: State, after: State
) -> Iterator[Truth]:
    """A leader keeps a member in its proposal whose last fetch was at the leader's log end."""
    for b in m.broker:
        old, new = before.brokers[b], after.brokers[b]
        begins = m.leads(b, old) & old.proposed.is_none & new.proposed.is_some
        for f in m.broker:
            removed = begins & old.view.isr.has(f) & ~new.proposed.value.has(f)
            yield implies(removed, ~old.followers[f].leo.is_(old.log.length))


@step_property("B8, 966.9", rule="divergence_check")
def metadata_leaves_replicas_their_logs(m: Replication, before: State, after: State) -> Iterator[Truth]:
    """A replica that replays metadata keeps its log and HWM; a broker that is no longer a replica loses both.

    Exception: a leader's HWM may advance. A new follower does not truncate yet: its fetches find missing and surplus
    records (B3).
    """
    for b in m.broker:
        old, new = before.brokers[b], after.brokers[b]
        answered = before.alter_responses[b].is_some & after.alter_responses[b].is_none
        replays = _same_process(m, before, after, b) & (old.view != new.view) & ~answered
        stays = new.view.replicas.has(b)
        same = (new.log == old.log) & (new.flushed == old.flushed)
        hwm = where(m.leads(b, new), new.hwm >= old.hwm, new.hwm == old.hwm)
        nothing = new.log.is_empty & (new.flushed == 0) & (new.hwm == 0)
        yield implies(replays, where(stays, same & hwm, nothing))


@step_property("966.4", rule="eligible_leader_replicas")
def members_that_leave_under_min_isr_stay_eligible(
    m: Replication, before: State, after: State
) -> Iterator[Truth]:
    """If the ISR is under min ISR after a member leaves, the member enters the ELR, and ELR members stay in it.

    While the ISR is under min ISR, no record is committed, so these members hold all committed records. Exceptions: the
    member registers again, is no longer a replica, or an operator elects a leader from outside ISR and ELR.
    """
    p, then = before.partition, after.partition
    gone, needed = p.isr - then.isr, min_isr_of(after)
    under = size(then.isr) < needed
    under = under & m.has_elr(before)
    chosen = _is_requested(before, after) & then.leader.is_some & (p.leader != then.leader)
    under = under & ~(chosen & any_of(then.leader.is_(b) & ~electable(p).has(b) for b in m.broker))
    for b in m.broker:
        same = before.registrations[b].epoch == after.registrations[b].epoch
        left = (p.isr != then.isr) & gone.has(b) & under & same & then.replicas.has(b)
        yield implies(left, then.elr.has(b))
        stays = p.elr.has(b) & under & same & then.replicas.has(b) & ~then.isr.has(b)
        yield implies((p.elr != then.elr) & stays, then.elr.has(b))


@step_property("966.13")
def partitions_with_active_isr_members_are_led(m: Replication, before: State, after: State) -> Truth:
    """After a change of leader or ISR, a partition with an active ISR member has a leader."""
    p, then = before.partition, after.partition
    changed = (p.leader != then.leader) | (p.isr != then.isr)
    able = then.isr & m.t.active(after.registrations)
    return implies(changed & ~able.is_empty, then.leader.is_some)


@step_property("966.10, 966.11, 704.1, 704.2", rule="last_known_leader")
def last_known_leaders_led_last(m: Replication, before: State, after: State) -> Iterator[Truth]:
    """The last known leader is the broker that led when the ISR became empty, until another leader is elected.

    The last known ELR gains only ELR members whose brokers register. A leader becomes RECOVERING only if it was elected
    from outside ISR and ELR. A step that changes the partition epoch also changes another field of the partition.
    """
    p, then = before.partition, after.partition
    if m.ever_on("last_known_leader_kept") and not m.elr_changes:
        emptied = (p.isr != then.isr) & then.isr.is_empty & p.leader.is_some
        last = any_of(p.leader.is_(b) & then.last_known_leader.is_(b) for b in m.broker)
        yield implies(emptied, last)
        changed = p.last_known_leader != then.last_known_leader
        yield implies(changed, emptied | (then.leader.is_some & then.last_known_leader.is_none))
        yield implies((p.leader != then.leader) & then.leader.is_some, then.last_known_leader.is_none)
        gained = then.last_known_elr - p.last_known_elr
        for b in m.broker:
            registers = before.registrations[b].epoch != after.registrations[b].epoch
            yield implies(gained.has(b), p.elr.has(b) & registers)
    recovering = LeaderRecoveryState.RECOVERING
    begins = (p.leader_recovery_state != then.leader_recovery_state) & (
        then.leader_recovery_state == recovering
    )
    unclean = any_of(then.leader.is_(b) & ~electable(p).has(b) for b in m.broker)
    yield implies(begins, unclean)
    same = all_of(
        getattr(p, name) == getattr(then, name) for name in p.type.fields if name != "partition_epoch"
    )
    yield implies(p.partition_epoch != then.partition_epoch, ~same)
