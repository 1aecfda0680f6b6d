"""What must hold of steps that few scenarios have: producers that wait, settings, former controllers, recoveries."""

from __future__ import annotations

from highwater.model.language import State, all_of, any_of, as_bool, implies, size, where
from highwater.model.language.sequences import members_of
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import Number, StructValue, Truth
from highwater.model.replication import Replication, features, logs
from highwater.model.replication.controller.elections import electable


def spent(before: State, after: State, *names: str) -> Truth:
    """Whether one of these budgets was spent in a step."""
    return any_of(getattr(before.budgets, name) > getattr(after.budgets, name) for name in names)


def producers_waits(m: Replication, before: State, after: State) -> list[Truth]:
    """B6. A producer with acks=all waits at the leader that appended its record, for the offset that it got there.

    It waits as long as that leader leads, in whatever epoch, and no longer.
    """
    kept = []
    for v in m.value:
        old, new = before.waiting[v], after.waiting[v]
        begins = (before.writes[v] == "UNUSED") & (after.writes[v] == "PENDING")
        there, leads = [], []
        for b in m.broker:
            me, then = before.brokers[b], after.brokers[b]
            here = new.value.leader == b
            there.append(here & (new.value.offset == me.log.length) & (then.log.length > me.log.length))
            leads.append((old.value.leader == b) & m.leads(b, then))
        kept.append(implies(begins, new.is_some & any_of(there)))
        kept.append(implies((old != new) & new.is_some, begins))
        if m.on("followers_end_waiting"):
            kept.append(implies(old.is_some, new.is_some == any_of(leads)))
    return kept


def former_controllers_change_nothing(m: Replication, before: State, after: State) -> list[Truth]:
    """B8. A former controller knows what there was when it was replaced, and answers once, without changing anything.

    It refuses, or says that what is asked for is there. To who knows a later partition than it does it says neither: of
    its members it knows less than the one who asks.
    """
    former, p = before.former.value, before.partition
    replaced = before.former.is_none & after.former.is_some
    knew = (after.former.value.partition == p) & (after.former.value.registrations == before.registrations)
    kept = [implies(replaced, knew & spent(before, after, "failovers"))]
    kept.append(implies(before.former.is_some & after.former.is_some, before.former == after.former))
    answers = before.former.is_some & after.former.is_none
    kept.append(implies(answers, p == after.partition))
    taken = []
    for b in m.broker:
        request, new = before.alter_requests[b], after.alter_responses[b]
        is_taken = request.is_some & after.alter_requests[b].is_none & before.alter_responses[b].is_none
        taken.append(is_taken)
        comes = answers & is_taken & new.is_some
        known = former.partition
        tells = (new.value.isr == known.isr) & (new.value.partition_epoch == known.partition_epoch)
        there = (new.value.outcome != "COMMITTED") | (request.value.isr == known.isr)
        kept.append(implies(comes, tells & there))
        behind = known.partition_epoch < request.value.partition_epoch
        kept.append(implies(comes & behind, new.value.outcome == "KEEP"))
    return [*kept, implies(answers, any_of(taken))]


def settings_change_as_asked(m: Replication, before: State, after: State) -> list[Truth]:
    """966.18. A setting is changed by who changes it, and nothing else is; an ELR that begins is empty.

    It has all that it should have once the ISR has had min ISR members since.
    """
    p, then = before.partition, after.partition
    on, now = features.has_elr(m, before), features.has_elr(m, after)
    kept, set_anew = [], []
    if features.level_changes(m.p):
        level, later = before.elr_level, after.elr_level
        kept.append(implies(spent(before, after, "downgrades"), level & ~later))
        kept.append(implies(spent(before, after, "upgrades"), ~level & later))
        kept.append(implies(level != later, spent(before, after, "downgrades", "upgrades")))
        set_anew.append(level != later)
    if m.p.flag_changes:
        flags = [before.elr_flag != after.elr_flag]
        if m.ever_on("unclean_recovery"):
            flags.append(before.recovery_flag != after.recovery_flag)
        kept.append(spent(before, after, "flag_changes") == any_of(flags))
        kept.append(~all_of(flags) if len(flags) > 1 else as_bool(True))
        set_anew += flags
        if m.ever_on("unclean_recovery") and m.p.recovery:
            told = any_of(after.log_infos[b].is_some for b in m.broker)
            kept.append(implies(flags[-1], ~told))
    begins = ~on & now
    empty = then.elr.is_empty & then.last_known_elr.is_empty & then.last_known_leader.is_none
    if m.on("elr_begins_empty"):
        kept.append(implies(begins, empty))
    if not m.on("level_change_empties_elr"):
        kept.append(implies(any_of(set_anew) & ~begins, p == then))
    if features.remembers_whole(m):
        enough = size(then.isr) >= m.min_isr(before)
        whole, later = before.elr_is_whole, after.elr_is_whole
        kept.append(implies(later, now & (enough | (whole & on))))
        kept.append(implies(now & on & whole, later))
        kept.append(implies(now & enough & ((p != then) | begins), later))
    return kept


# --- unclean recovery -----------------------------------------------------------------------------------------


@step_property("966.13, 966.14", rule="unclean_recovery")
def recoveries_go_by_what_replicas_say(m: Replication, before: State, after: State) -> Truth:
    """Nobody is elected from outside ISR and ELR but by a recovery, by the operator, or where that is allowed.

    An election is a recovery, is asked for, or comes with a change of a broker's registration or of the ISR.
    Without recovery the last known leader comes to lead again, and nobody else does unless the topic allows it.
    With unclean.recovery.strategy None every recovery is asked for.
    A recovery elects a live replica that has told its log in its present life. Of those that have, none ends in a later
    epoch, or is longer in the same one; Balanced has heard all last known ELR members. Then all answers are forgotten.
    """
    p, then = before.partition, after.partition
    elected = then.leader.is_some & (p.leader != then.leader)
    unclean = any_of(
        then.leader.is_(b) & ~electable(p).has(b) & ~_joins(m, before, after, b) for b in m.broker
    )
    asked = spent(before, after, "elections")
    by_itself = elected & unclean & ~asked
    manages = features.has_recovery(m, before)
    aggressive = bool(m.p.unclean_election)
    last = any_of(p.last_known_leader.is_(b) & then.leader.is_(b) for b in m.broker)
    allowed = last if not aggressive else as_bool(True)
    if not m.p.recovery:
        return implies(by_itself, ~manages & allowed)
    kept = [implies(by_itself & ~manages, allowed)]
    if not m.p.recovers_by_itself:
        kept.append(~(by_itself & manages))
    live = m.t.active(before.registrations)
    recovers = by_itself & manages
    occasion = (before.registrations != after.registrations) | spent(
        before, after, "elections", "reassignments"
    )
    taken = any_of(before.alter_requests[b].is_some & after.alter_requests[b].is_none for b in m.broker)
    kept.append(implies(elected & ~recovers, occasion | taken))
    told = {b: _has_told(before, b) for b in m.broker}
    for b in m.broker:
        mine = before.log_infos[b].value
        outdone = any_of(told[r] & live.has(r) & _is_more(before.log_infos[r].value, mine) for r in m.broker)
        wins = recovers & then.leader.is_(b)
        kept.append(implies(wins, told[b] & live.has(b) & ~outdone & (then.isr == [b])))
        if not aggressive:
            kept.append(implies(recovers & m.as_read(before).last_known_elr.has(b), told[b]))
    nothing = all_of(after.log_infos[b].is_none for b in m.broker)
    kept.append(implies(recovers | spent(before, after, "failovers"), nothing))
    return all_of([*kept, *_answers(m, before, after)])


def _joins(m: Replication, before: State, after: State, b: Number) -> Truth:
    """Whether a leader's proposal with this broker is taken: a reassignment that completes by it can elect it."""
    return any_of(
        before.alter_requests[x].is_some
        & after.alter_requests[x].is_none
        & before.alter_requests[x].value.isr.has(b)
        for x in m.broker
    )


def _has_told(s: State, b: Number) -> Truth:
    """Whether the controller knows the log of a broker's present life."""
    known = s.log_infos[b]
    return known.is_some & (known.value.broker_epoch == s.registrations[b].epoch)


def _is_more(theirs: StructValue, mine: StructValue) -> Truth:
    """Whether a log ends in a later epoch than another, or in the same one and is longer."""
    epoch, own = theirs.last_epoch, mine.last_epoch
    later = epoch.is_some & (own.is_none | (own.is_some & (epoch.value > own.value)))
    return later | ((epoch == own) & (theirs.end > mine.end))


def _answers(m: Replication, before: State, after: State) -> list[Truth]:
    """966.14. A replica is asked while there is no leader and nobody to elect, or on request; it says what it has.

    What it says is taken once, if it is of its present life and of the leader epoch that ended.
    """
    p, kept = before.partition, []
    read = m.as_read(before)
    able = read.isr | read.elr
    if m.p.unclean_election:
        able &= m.t.active(before.registrations)
    stuck = p.leader.is_none & able.is_empty & features.has_recovery(m, before)
    due = stuck | (p.leader.is_none & (before.budgets.elections > 0))
    for b in m.broker:
        me, registration = before.brokers[b], before.registrations[b]
        sent, later = before.log_infos_sent[b], after.log_infos_sent[b]
        known, learned = before.log_infos[b], after.log_infos[b]
        says = later.value
        is_replica = members_of(p.replicas, m.t.brokers).has(b)
        true = (says.broker_epoch == me.epoch) & (says.leader_epoch == me.view.leader_epoch)
        true &= (says.end == me.log.length) & (says.last_epoch == logs.last_epoch(m.some_epoch, me.log))
        asked = due & m.is_up(me) & is_replica & ~_has_told(before, b) & sent.is_none
        kept.append(implies((sent != later) & later.is_some, asked & true))
        fits = (sent.value.broker_epoch == registration.epoch) & (sent.value.leader_epoch == p.leader_epoch)
        taken = sent.is_some & later.is_none
        kept.append(implies(taken, learned == where(fits & p.leader.is_none, sent, known)))
        kept.append(implies((learned != known) & learned.is_some, taken))
    return kept


WATCHED = (recoveries_go_by_what_replicas_say,)
