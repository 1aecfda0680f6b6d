"""What must hold of every step of brokers' lives, of the operator, and of what the controller remembers."""

from __future__ import annotations

from highwater.invariants.replication.told_steps import producers_waits, settings_change_as_asked, spent
from highwater.model.language import State, all_of, any_of, implies, least, size
from highwater.model.language.sequences import members_of
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import Truth
from highwater.model.replication import Replication, features
from highwater.model.replication.controller.elections import electable
from highwater.model.replication.controller.types import LeaderRecoveryState


@step_property("966.12")
def who_is_down_does_nothing(m: Replication, before: State, after: State) -> Truth:
    """A process that ends leaves its log and its HWM on disk, and keeps nothing else; while it is down nothing happens.

    But its disk can be replaced, and it can start and stop again before it is registered. Only a crash that loses
    records makes a log shorter, and an empty disk is empty. A clean stop has flushed all.
    """
    kept = []
    lossy, disk = spent(before, after, "lossy_crashes"), spent(before, after, "disk_losses")
    for b in m.broker:
        old, new = before.brokers[b], after.brokers[b]
        crashed = old.replace(status="CRASHED")
        empty = crashed.replace(log=old.log.truncate(0), flushed=0, hwm=0)
        early = spent(before, after, "early_stops")
        aside = (disk & (new == empty)) | (early & (new == crashed))
        kept.append(implies((old != new) & ~m.is_up(old), m.is_up(new) | aside))
        ends = m.is_up(old) & ~m.is_up(new) & (old.status != new.status)
        memory = m.broker_type.zero().replace(
            status=new.status, epoch=old.epoch, log=new.log, flushed=new.flushed, hwm=new.hwm
        )
        kept.append(implies(ends, new == memory))
        whole = (new.log == old.log) & (new.hwm == old.hwm)
        kept.append(implies(ends & ~lossy & ~disk, whole))
        kept.append(implies(ends & disk, new.log.is_empty & (new.hwm == 0) & (new.flushed == 0)))
        cut = (new.log.length < old.log.length) & (new.log.length >= old.flushed)
        kept.append(implies(ends & lossy, cut & (new.hwm == least(old.hwm, new.log.length))))
        kept.append(implies(ends & (new.status == "STOPPED"), new.flushed == new.log.length))
        crashes = ends & (new.status == "CRASHED")
        kept.append(implies(crashes, spent(before, after, "crashes", "lossy_crashes", "disk_losses")))
        silent = after.fetch_responses[b].is_none & after.alter_responses[b].is_none
        kept.append(implies(ends, silent))
    return all_of(kept)


@step_property("631.1, 966.12")
def who_starts_is_registered_and_fenced(m: Replication, before: State, after: State) -> Truth:
    """A process that starts has the next broker epoch, registered and fenced; it is unfenced when it knows, and runs.

    A fault is paid for: who fences a broker that runs spends a fencing, and the broker is fenced then. A controlled
    shutdown is granted to who asks for it, runs, and is not fenced.
    """
    kept, paid = [], []
    for b in m.broker:
        old, new = before.brokers[b], after.brokers[b]
        registration, then = before.registrations[b], after.registrations[b]
        starts = ~m.is_up(old) & m.is_up(new) & (old.status != new.status)
        kept.append(
            implies(
                starts,
                (new.status == "RUNNING")
                & (new.epoch == then.epoch)
                & (then.epoch == registration.epoch + 1)
                & then.fenced
                & (new.log == old.log)
                & (new.flushed <= new.log.length)
                & (new.hwm == least(old.hwm, new.log.length)),
            )
        )
        unfenced = registration.fenced & ~then.fenced
        able = (
            (old.status == "RUNNING") & (old.epoch == registration.epoch) & (old.view.epochs[b] == old.epoch)
        )
        kept.append(implies(unfenced, able))
        fenced = ~registration.fenced & then.fenced & (registration.epoch == then.epoch)
        stops = m.is_up(old) & ~m.is_up(new)
        kept.append(implies(fenced & m.is_up(old) & ~stops, spent(before, after, "fencings")))
        granted = ~registration.in_controlled_shutdown & then.in_controlled_shutdown
        asked = (old.status == "SHUTTING_DOWN") if m.p.shutdown_requests else (old.status == "RUNNING")
        able = asked & ~registration.fenced & (old.epoch == registration.epoch)
        kept.append(implies(granted, able & (new.status == "SHUTTING_DOWN")))
        shuts = (old.status != new.status) & (new.status == "SHUTTING_DOWN")
        paid.append((old.status == "RUNNING") & shuts)
        kept.append(implies(shuts, spent(before, after, "controlled_shutdowns")))
    fenced = [
        ~before.registrations[b].fenced & after.registrations[b].fenced & m.is_up(before.brokers[b])
        for b in m.broker
    ]
    kept.append(implies(spent(before, after, "fencings"), any_of(fenced)))
    kept.append(implies(spent(before, after, "controlled_shutdowns"), any_of(paid)))
    return all_of(kept)


@step_property("966.8, 966.9, 966.17, 966.18")
def what_an_operator_asks_for_is_done(m: Replication, before: State, after: State) -> Truth:
    """A step of the operator's changes what it is about, and settings change in no other step."""
    p, then = before.partition, after.partition
    kept = [implies(spent(before, after, "reassignments", "elections"), p != then)]
    set_anew = before.min_insync_replicas != after.min_insync_replicas
    kept.append(implies(set_anew, spent(before, after, "min_isr_changes")))
    if m.p.min_isr_changes:
        kept.append(implies(spent(before, after, "min_isr_changes"), set_anew))
    if features.changes(m):
        kept.append(implies((p != then) & ~features.has_elr(m, before), then.elr.is_empty))
        kept += settings_change_as_asked(m, before, after)
    elects = (p.leader != then.leader) & then.leader.is_some & p.leader.is_some
    kept.append(implies(spent(before, after, "elections") & elects, then.leader.is_(then.replicas.at(0))))
    return all_of(kept)


@step_property("B1, B6")
def writes_are_their_leaders(m: Replication, before: State, after: State) -> Truth:
    """A write is the next record, appended by one leader in its epoch; acks=all only while the ISR has min ISR members.

    It is acknowledged by who wrote it, in that epoch, once its HWM has passed it; or, where producers wait for offsets,
    as long as that leader leads. Nothing else changes a leader's log.
    """
    kept = []
    for v in m.value:
        old, new = before.writes[v], after.writes[v]
        earlier = all_of(before.writes[x] != "UNUSED" for x in m.value if int(x) < int(v))
        appended, told = [], []
        for b in m.broker:
            me, then = before.brokers[b], after.brokers[b]
            record = m.record(value=v, epoch=me.view.leader_epoch)
            needed = m.min_isr_in(me.view)
            checked = m.on("acks_all_needs_min_isr")
            fits = (new != "PENDING") | (size(me.view.isr) >= needed) | (not checked)
            room = me.log.length < m.p.records
            appended.append(m.leads(b, me) & room & (then.log == me.log.append(record)) & fits)
            passed = any_of((me.hwm > o) & (me.log.at(o) == record) for o in m.offsets)
            if m.p.waiting_producers:
                waiter = before.waiting[v]
                passed = waiter.is_some & (waiter.value.leader == b) & (me.hwm > waiter.value.offset)
            told.append(m.leads(b, me) & passed & ((size(m.maximal_isr(me)) >= needed) | (not checked)))
        begins = (old == "UNUSED") & (old != new)
        kept.append(implies(begins, any_of(appended) & earlier & (new != "ACKNOWLEDGED")))
        ends = (old == "PENDING") & (new == "ACKNOWLEDGED")
        kept.append(implies((old != new) & (old != "UNUSED"), ends & any_of(told)))
    if m.p.waiting_producers:
        kept += producers_waits(m, before, after)
    for b in m.broker:
        me, then = before.brokers[b], after.brokers[b]
        grows = (me.log != then.log) & m.leads(b, me) & m.leads(b, then)
        wrote = any_of(
            (before.writes[v] != after.writes[v]) & (before.writes[v] == "UNUSED") for v in m.value
        )
        kept.append(implies(grows & (me.view.leader_epoch == then.view.leader_epoch), wrote))
        flushed = (me.flushed != then.flushed) & (me.flushed < then.flushed) & m.is_up(me)
        synced = (then.flushed == then.log.length) & (~m.is_up(then) | bool(m.p.flushes))
        kept.append(implies(flushed, synced))
    return all_of(kept)


@step_property("966.4", rule="eligible_leader_replicas")
def who_leaves_under_min_isr_stays_eligible(m: Replication, before: State, after: State) -> Truth:
    """Who leaves an ISR that is under min ISR then is in the ELR, unless it lost its log or is no replica any more.

    Nothing is committed without it, so it holds all that is. The operator can have somebody else elected all the same.
    """
    p, then = before.partition, after.partition
    gone, needed = p.isr - then.isr, m.min_isr(after)
    under = size(then.isr) < needed
    under = under & features.has_elr(m, before)
    chosen = spent(before, after, "elections") & then.leader.is_some & (p.leader != then.leader)
    under = under & ~(chosen & any_of(then.leader.is_(b) & ~electable(p).has(b) for b in m.broker))
    kept = []
    for b in m.broker:
        same = before.registrations[b].epoch == after.registrations[b].epoch
        left = (p.isr != then.isr) & gone.has(b) & under & same & then.replicas.has(b)
        kept.append(implies(left, then.elr.has(b)))
        stays = p.elr.has(b) & under & same & then.replicas.has(b) & ~then.isr.has(b)
        kept.append(implies((p.elr != then.elr) & stays, then.elr.has(b)))
    return all_of(kept)


@step_property("966.13")
def a_partition_is_led_where_it_can_be(m: Replication, before: State, after: State) -> Truth:
    """After a change of its leader or its ISR a partition is led, where a member of its ISR is active."""
    p, then = before.partition, after.partition
    changed = (p.leader != then.leader) | (p.isr != then.isr)
    able = then.isr & m.t.active(after.registrations)
    return implies(changed & ~able.is_empty, then.leader.is_some)


@step_property("966.9")
def reassignments_begin_and_end(m: Replication, before: State, after: State) -> Truth:
    """An operator begins a reassignment and changes it; it ends with the replicas that were asked for, or as it began.

    It ends by itself only when all that are added are in the ISR, without those that are removed. One that is asked for
    in the place of another, and takes replicas away only, ends at once where min ISR members are left.
    """
    p, then = before.partition, after.partition
    replicas, now = members_of(p.replicas, m.t.brokers), members_of(then.replicas, m.t.brokers)
    asked = spent(before, after, "reassignments")
    before_it, after_it = (p.adding | p.removing), (then.adding | then.removing)
    same = (p.adding == then.adding) & (p.removing == then.removing)
    ended = ~before_it.is_empty & after_it.is_empty
    completed = (
        (now == replicas - p.removing) & (then.adding.is_empty) & ((p.adding - p.removing) <= then.isr)
    )
    cancelled = asked & (now == replicas - p.adding)
    goes_on = asked & (then.adding <= now) & (then.removing <= now) & ~after_it.is_empty
    whole = (then.isr <= now) & (then.elr <= now)
    directly = asked & before_it.is_empty & after_it.is_empty
    enough = ~then.isr.is_empty & (size(then.isr) >= least(m.min_isr(after), size(now)))
    instead = asked & ended & (now <= replicas) & enough
    kept = [
        implies(~same & ~asked, ended & completed),
        implies(~same & asked, goes_on | cancelled | instead | (ended & completed)),
        implies((replicas != now) & same, directly),
        implies(replicas != now, whole),
    ]
    grown = goes_on & ~same
    kept.append(
        implies(
            grown & (replicas != now), ((now - replicas) == (then.adding - p.adding)) | ~p.adding.is_empty
        )
    )
    return all_of(kept)


@step_property("966.10, 966.11, 704.2", rule="last_known_leader")
def what_is_remembered_is_true(m: Replication, before: State, after: State) -> Truth:
    """The last known leader is the one that led when the ISR became empty, until somebody leads again.

    The last known ELR gains only members of the ELR whose brokers register uncleanly, and goes when the ISR has min ISR
    members. A leader recovers only when it was elected from outside ISR and ELR.
    """
    p, then = before.partition, after.partition
    kept = []
    if m.ever_on("last_known_leader_kept") and not features.changes(m):
        emptied = (p.isr != then.isr) & then.isr.is_empty & p.leader.is_some
        last = any_of(p.leader.is_(b) & then.last_known_leader.is_(b) for b in m.broker)
        kept.append(implies(emptied, last))
        changed = p.last_known_leader != then.last_known_leader
        kept.append(implies(changed, emptied | (then.leader.is_some & then.last_known_leader.is_none)))
        kept.append(implies((p.leader != then.leader) & then.leader.is_some, then.last_known_leader.is_none))
        gained = then.last_known_elr - p.last_known_elr
        for b in m.broker:
            registers = before.registrations[b].epoch != after.registrations[b].epoch
            kept.append(implies(gained.has(b), p.elr.has(b) & registers))
    recovering = LeaderRecoveryState.RECOVERING
    begins = (p.leader_recovery_state != then.leader_recovery_state) & (
        then.leader_recovery_state == recovering
    )
    unclean = any_of(then.leader.is_(b) & ~electable(p).has(b) for b in m.broker)
    kept.append(implies(begins, unclean))
    same = all_of(
        getattr(p, name) == getattr(then, name) for name in p.type.fields if name != "partition_epoch"
    )
    kept.append(implies(p.partition_epoch != then.partition_epoch, ~same))
    return all_of(kept)


WATCHED = (
    who_is_down_does_nothing,
    who_starts_is_registered_and_fenced,
    what_an_operator_asks_for_is_done,
    writes_are_their_leaders,
    who_leaves_under_min_isr_stays_eligible,
    a_partition_is_led_where_it_can_be,
    reassignments_begin_and_end,
    what_is_remembered_is_true,
)
