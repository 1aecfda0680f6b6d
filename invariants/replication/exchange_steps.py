"""What must hold of every step in which brokers talk: fetches, AlterPartitions, their answers, and metadata."""

from __future__ import annotations

from highwater.invariants.replication.told_steps import former_controllers_change_nothing
from highwater.model.language import (
    Number,
    State,
    StructValue,
    all_of,
    any_of,
    as_bool,
    implies,
    least,
    size,
    where,
)
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import Truth
from highwater.model.replication import Replication, logs
from highwater.model.replication.isr import is_eligible


def _is_same_process(m: Replication, before: State, after: State, b: Number) -> Truth:
    """Whether a broker's process runs before and after a step."""
    return (
        m.is_up(before.brokers[b])
        & m.is_up(after.brokers[b])
        & (before.brokers[b].epoch == after.brokers[b].epoch)
    )


def _fits(m: Replication, s: State, leader: Number, f: Number, fetch: StructValue) -> Truth:
    """Whether a broker is the leader that a fetch of a replica is for, and nothing in it is outdated."""
    broker = s.brokers[leader]
    view = broker.view
    fits = (fetch.leader == leader) & m.leads(leader, broker) & (fetch.leader_epoch == view.leader_epoch)
    return fits & view.replicas.has(f) & ~(fetch.broker_epoch < view.epochs[f])


# --- fetches --------------------------------------------------------------------------------------------------


@step_property("B1, 903.1")
def fetches_say_what_their_sender_has(m: Replication, before: State, after: State) -> Truth:
    """A fetch says where its sender's log ends, and in which epoch.

    Who sends it follows that leader in that epoch, and waits for no other answer. What it sent in another epoch or
    another life is given up, and may arrive late, once.
    """
    kept = []
    for f in m.broker:
        old, new, broker = before.fetch_requests[f], after.fetch_requests[f], before.brokers[f]
        fetch = new.value
        last = fetch.last_epoch == logs.last_epoch(m.some_epoch, broker.log)
        says = [
            m.follows(f, broker),
            broker.view.leader.is_(fetch.leader),
            fetch.leader_epoch == broker.view.leader_epoch,
            (fetch.offset == broker.log.length) & last,
            fetch.broker_epoch == broker.epoch,
            before.fetch_responses[f].is_none,
            old.is_none
            | (old.value.broker_epoch != fetch.broker_epoch)
            | (old.value.leader_epoch != fetch.leader_epoch),
        ]
        sent = all_of(says)
        if m.p.late_fetches:
            late, rest = before.late_fetches[f], after.late_fetches[f]
            arrives = late.is_some & (new == late) & rest.is_none & old.is_none
            sent = sent & (rest == late) & old.is_none | sent & old.is_some & (rest == old) | arrives
        kept.append(implies((old != new) & new.is_some, sent))
    return all_of(kept)


@step_property("B2, B3, 903.1")
def fetches_are_answered_by_their_leader(m: Replication, before: State, after: State) -> Truth:
    """An answer is to a fetch that was under way, of the leader that it is for, and says what that one's log says.

    It comes to the process that asked. A fetch that its leader can use is answered, and noted where logs match.
    """
    kept = []
    for f in m.broker:
        request, fetch = before.fetch_requests[f], before.fetch_requests[f].value
        old, new = before.fetch_responses[f], after.fetch_responses[f]
        got, asker = new.value, before.brokers[f]
        comes = new.is_some & (old != new)
        if m.p.late_reads:
            comes = comes & old.is_none
        there = m.is_up(asker) & (asker.epoch == fetch.broker_epoch)
        for leader in m.broker:
            if int(leader) == int(f):
                continue
            fits = request.is_some & _fits(m, before, leader, f, fetch)
            me, then = before.brokers[leader], after.brokers[leader]
            parts = logs.diverges(me.log, fetch.offset, fetch.last_epoch)
            has = me.log.length > fetch.offset
            record = (has & got.record.is_(me.log[fetch.offset])) | (~has & got.record.is_none)
            plain = ~got.diverging & record & got.epoch.is_none & (got.end == 0) & (got.hwm == then.hwm)
            cut = got.diverging & got.record.is_none & (got.hwm == me.hwm) & (got.end <= fetch.offset)
            asked = (got.leader_epoch == fetch.leader_epoch) & (got.offset == fetch.offset)
            says = asked & ((parts & cut) | (~parts & plain))
            kept.append(implies(comes & fits, says))
            taken = request.is_some & after.fetch_requests[f].is_none
            kept.append(implies(taken & fits & there & old.is_none & m.is_up(after.brokers[f]), new.is_some))
            known = then.followers[f]
            noted = known.leo.is_(fetch.offset) & (known.broker_epoch == fetch.broker_epoch)
            kept.append(implies(taken & fits & ~parts, noted))
            same_epoch = (
                m.leads(leader, me) & m.leads(leader, then) & (me.view.leader_epoch == then.view.leader_epoch)
            )
            counts = (me.followers[f].leo != known.leo) | (me.followers[f].broker_epoch != known.broker_epoch)
            kept.append(implies(same_epoch & counts, fits & ~parts & noted))
        usable = [_fits(m, before, x, f, fetch) for x in m.broker if int(x) != int(f)]
        kept.append(implies(comes, request.is_some & there & old.is_none & any_of(usable)))
    return all_of(kept)


@step_property("B3, B4")
def answers_are_taken_in_their_epoch(m: Replication, before: State, after: State) -> Truth:
    """A follower's log and HWM change by the answer that it asked for in its epoch, and only by that.

    A record that comes is appended; the HWM comes with it, as far as the log goes; what is flushed stays so.
    """
    kept = []
    for f in m.broker:
        answer, old, new = before.fetch_responses[f], before.brokers[f], after.brokers[f]
        got = answer.value
        taken = answer.is_some & after.fetch_responses[f].is_none & _is_same_process(m, before, after, f)
        asked = m.follows(f, old) & (got.leader_epoch == old.view.leader_epoch)
        current = taken & asked & (got.offset == old.log.length)
        kept.append(implies(taken & ~current, old == new))
        grows = current & ~got.diverging & got.record.is_some & (old.log.length < m.p.records)
        kept.append(implies(grows, (new.log == old.log.append(got.record.value))))
        kept.append(implies(current & ~got.diverging & got.record.is_none, new.log == old.log))
        end = least(logs.truncation_offset(old.log, got.epoch, got.end), old.log.length)
        kept.append(implies(current & got.diverging, new.log == old.log.truncate(end)))
        kept.append(implies(current & ~got.diverging, new.hwm == least(got.hwm, new.log.length)))
        kept.append(implies(current & got.diverging, new.hwm == least(old.hwm, new.log.length)))
        runs = _is_same_process(m, before, after, f) & (old.log != new.log)
        removed = ~new.view.replicas.has(f)  # who is a replica no more deletes its log
        kept.append(implies(runs & ~m.leads(f, old) & ~m.leads(f, new), taken | removed))
        kept.append(implies(runs | taken, new.flushed == least(old.flushed, new.log.length)))
    return all_of(kept)


# --- the ISR --------------------------------------------------------------------------------------------------


@step_property("B7, 841.1, 903.2, 903.3")
def proposals_are_their_leaders(m: Replication, before: State, after: State) -> Truth:
    """An AlterPartition says what its sender proposes, one at a time, with the epochs that it knows.

    One member comes or goes, or several where the scenario lets them: who comes is eligible, who goes lags, which is a
    fault that is paid for. A leader gives itself its own broker epoch, and who has fetched that of its fetch.
    """
    kept = []
    for b in m.broker:
        old, new = before.alter_requests[b], after.alter_requests[b]
        me, then = before.brokers[b], after.brokers[b]
        sent, view = new.value, me.view
        says = [
            m.leads(b, me),
            old.is_none & before.alter_responses[b].is_none & after.alter_responses[b].is_none,
            then.proposed.is_(sent.isr),
            (sent.leader_epoch == view.leader_epoch) & (sent.partition_epoch == view.partition_epoch),
            (sent.broker_epoch == me.epoch) & sent.epochs[b].is_(me.epoch),
        ]
        for f in m.broker:
            state = me.followers[f]
            if int(f) != int(b):
                fetched = sent.isr.has(f) & state.leo.is_some
                says.append(sent.epochs[f].is_none | sent.isr.has(f))
                says.append(~(fetched & me.proposed.is_none) | sent.epochs[f].is_(state.broker_epoch))
                says.append(state.leo.is_some | sent.epochs[f].is_none | me.proposed.is_some)
        kept.append(implies((old != new) & new.is_some, all_of(says)))
        begins = me.proposed.is_none & then.proposed.is_some
        comes, goes = then.proposed.value - view.isr, view.isr - then.proposed.value
        moved = size(comes | goes)
        told = [(old != new) & new.is_some, (moved > 0) if m.p.many_at_once else (moved == 1), ~goes.has(b)]
        for f in m.broker:
            state = me.followers[f]
            lags = state.leo.is_none | (state.leo.value < me.log.length)
            joins = is_eligible(m, me, f) & view.replicas.has(f) & (int(f) != int(b))
            told.append((~comes.has(f) | joins) & (~goes.has(f) | lags))
        paid = before.budgets.shrinks > after.budgets.shrinks
        kept.append(implies(begins, all_of(told) & (paid == ~goes.is_empty)))
        if m.proposals_keep_epochs:
            kept.append(implies(begins, then.proposed_epochs == sent.epochs))
            decided = me.proposed.is_some & then.proposed.is_none
            kept.append(implies(decided, then.proposed_epochs == then.proposed_epochs.type.zero()))
            again = (old != new) & new.is_some & me.proposed.is_some
            kept.append(implies(again, sent.epochs == me.proposed_epochs))
    return all_of(kept)


@step_property("B8, 841.2, 841.3, 903.4")
def answers_say_what_was_decided(m: Replication, before: State, after: State) -> Truth:
    """An answer to an AlterPartition is to one that was under way, and tells the partition as it is then.

    Taken over means that it is changed so; a refused member is told, no more. What all checks let pass is taken over,
    and who leads on hears so, though a reassignment that it completes ends the leader epoch.
    A controller that was replaced tells of the partition that it knew, and changes nothing.
    """
    kept, p, then = [], before.partition, after.partition
    active = m.t.active(before.registrations)
    by_former = as_bool(False)
    if m.p.former_controller:
        by_former = before.former.is_some & after.former.is_none
        kept += former_controllers_change_nothing(m, before, after)
    for b in m.broker:
        request, old, new = before.alter_requests[b], before.alter_responses[b], after.alter_responses[b]
        sent, says = request.value, new.value
        comes = new.is_some & (old != new)
        me = before.brokers[b]
        there = m.is_up(me) & (me.epoch == sent.broker_epoch)
        kept.append(implies(comes, request.is_some & old.is_none & there))
        comes &= ~by_former
        accepted = says.outcome == "COMMITTED"
        tells = (says.partition_epoch == then.partition_epoch) & (says.isr == then.isr)
        epoch = (accepted & (says.leader_epoch == then.leader_epoch)) | (
            ~accepted & (says.leader_epoch == sent.leader_epoch) & ((p == then) | (p.leader != then.leader))
        )
        kept.append(implies(comes, tells & epoch & (~accepted | (p != then))))
        taken = request.is_some & after.alter_requests[b].is_none
        lost = before.budgets.losses > after.budgets.losses
        kept.append(implies(taken & there & ~lost & (me == after.brokers[b]), new.is_some & old.is_none))
        current = (
            p.leader.is_(b)
            & (sent.leader_epoch == p.leader_epoch)
            & (sent.partition_epoch == p.partition_epoch)
            & (sent.broker_epoch == before.registrations[b].epoch)
        )
        named = [
            ~sent.isr.has(x) | sent.epochs[x].is_none | sent.epochs[x].is_(before.registrations[x].epoch)
            for x in m.broker
        ]
        able = (sent.isr <= active) & all_of(named)
        kept.append(implies(comes & (p.leader != then.leader), ~accepted))
        moves = (
            then.leader_epoch != p.leader_epoch
        )  # a reassignment completes: the leader hears of it by metadata
        kept.append(implies(comes & current & able & (sent.isr != p.isr) & ~moves, accepted))
        kept.append(implies(comes & current & able & moves & then.leader.is_(b), accepted))
        kept.append(implies(comes & current & ~able, says.outcome == "REVERT"))
        kept.append(implies(comes & ~current, says.outcome != "COMMITTED"))
        gone = p.isr != then.isr
        kept.append(implies(comes & gone & ~moves, then.isr == sent.isr))
    return all_of(kept)


@step_property("841.3, B7")
def leaders_take_their_answers(m: Replication, before: State, after: State) -> Truth:
    """What was taken over is the leader's ISR and partition epoch then; a refusal ends the proposal; else it stands.

    An answer of another leader epoch, or where nothing stands, changes nothing. Where metadata that was known already
    ends a proposal, it does so once: the next time it is no news.
    """
    kept = []
    for b in m.broker:
        answer, old, new = before.alter_responses[b], before.brokers[b], after.brokers[b]
        got = answer.value
        lost = before.budgets.losses > after.budgets.losses
        same = _is_same_process(m, before, after, b) & ~lost
        taken = answer.is_some & after.alter_responses[b].is_none & same
        stands = m.leads(b, old) & (got.leader_epoch == old.view.leader_epoch) & old.proposed.is_some
        accepted = stands & (got.outcome == "COMMITTED") & (got.partition_epoch >= old.view.partition_epoch)
        refused = stands & (got.outcome == "REVERT")
        known = (new.view.isr == got.isr) & (new.view.partition_epoch == got.partition_epoch)
        kept.append(
            implies(taken & accepted, known & new.proposed.is_none & (new.view.leader == old.view.leader))
        )
        kept.append(implies(taken & refused, (new.view == old.view) & new.proposed.is_none))
        kept.append(implies(taken & ~accepted & ~refused, old == new))
        changed = (old.proposed != new.proposed) & new.proposed.is_none & same & (old.view == new.view)
        kept.append(implies(changed & ~old.ahead, taken & refused))
        if not m.on("proposal_outlives_known_metadata"):
            kept.append(_is_ahead_for_a_while(m, before, after, b))
    return all_of(kept)


@step_property("B7, 903.3")
def proposals_stand_as_they_were_made(m: Replication, before: State, after: State) -> Truth:
    """While a leader waits for an answer it proposes what it proposed, with the epochs that it knew then."""
    kept = []
    for b in m.broker:
        old, new = before.brokers[b], after.brokers[b]
        alike = old.proposed == new.proposed
        if m.proposals_keep_epochs:
            alike &= old.proposed_epochs == new.proposed_epochs
        kept.append(implies(old.proposed.is_some & new.proposed.is_some, alike))
    return all_of(kept)


def _is_ahead_for_a_while(m: Replication, before: State, after: State, b: Number) -> Truth:
    """Whether a view is ahead of metadata from an answer with a later partition epoch on, until it replays as much."""
    old, new = before.brokers[b], after.brokers[b]
    answered = before.alter_responses[b].is_some & after.alter_responses[b].is_none
    same = _is_same_process(m, before, after, b)
    later = old.view.partition_epoch < new.view.partition_epoch
    ended = old.proposed.is_some & new.proposed.is_none & (old.view == new.view)
    return (
        implies(~old.ahead & new.ahead, answered & later)
        & implies(same & answered & later, new.ahead)
        & implies(same & ~answered & (later | ended), ~new.ahead)
        & implies(same & old.ahead & ~new.ahead, later | new.proposed.is_none)
    )


# --- metadata -------------------------------------------------------------------------------------------------


@step_property("B8")
def views_are_what_the_controller_had(m: Replication, before: State, after: State) -> Truth:
    """A view changes to what the controller knows, or to a batch that was under way, or by the answer to a proposal.

    A batch says what is news, is taken once, and by a process that runs.
    """
    kept, latest = [], m.latest_view(before)
    registered = m.latest_view(after)
    for b in m.broker:
        old, new = before.brokers[b], after.brokers[b]
        answered = before.alter_responses[b].is_some & after.alter_responses[b].is_none
        source = latest
        runs = _is_same_process(m, before, after, b)
        news = runs & (old.view != new.view) & ~answered
        if m.p.metadata_in_flight:
            batch, then = before.metadata[b], after.metadata[b]
            source = batch.value
            news_sent = (batch != then) & then.is_some
            kept.append(
                implies(news_sent, m.is_up(old) & batch.is_none & then.is_(latest) & (latest != old.view))
            )
            kept.append(implies(news, batch.is_some & then.is_none))
        same = [getattr(new.view, x) == getattr(source, x) for x in ("min_isr", "active", "epochs")]
        ours = [
            getattr(new.view, x) == getattr(old.view, x)
            for x in ("leader", "leader_epoch", "isr", "replicas")
        ]
        theirs = [
            getattr(new.view, x) == getattr(source, x) for x in ("leader", "leader_epoch", "isr", "replicas")
        ]
        newer = source.partition_epoch > old.view.partition_epoch
        told = (newer & all_of(theirs) & (new.view.partition_epoch == source.partition_epoch)) | (
            ~newer & all_of(ours) & (new.view.partition_epoch == old.view.partition_epoch)
        )
        kept.append(implies(news, all_of(same) & told))
        starts = ~m.is_up(old) & m.is_up(new) & (old.status != new.status)
        kept.append(implies(starts, new.view == registered))
        begins = m.leads(b, new) & (~m.leads(b, old) | (old.view.leader_epoch != new.view.leader_epoch))
        kept.append(implies(begins & (old != new), new.leso == new.log.length))
        stays = m.leads(b, new) & m.leads(b, old) & (old.view.leader_epoch == new.view.leader_epoch)
        kept.append(implies(stays & (old != new), new.leso == old.leso))
        kept.append(implies(stays & (old.view != new.view), new.followers == old.followers))
        kept.append(implies((old != new) & m.is_up(new) & ~m.leads(b, new), new.leso == 0))
        forgotten = [new.followers[f].leo.is_none for f in m.broker]
        anew = begins & (old != new)
        if not m.on("re_election_forgets_fetches"):
            anew = anew & ~old.view.leader.is_(b)
        kept.append(implies(anew | (m.leads(b, old) & ~m.leads(b, new)), all_of(forgotten)))
    return all_of(kept)


@step_property("B8, 966.9", rule="divergence_check")
def metadata_leaves_replicas_their_logs(m: Replication, before: State, after: State) -> Truth:
    """A replica that replays metadata has the log and the HWM that it had; who is none any more has neither.

    What a follower lacks, or has too much, its fetches find out (B3).
    """
    kept = []
    for b in m.broker:
        old, new = before.brokers[b], after.brokers[b]
        answered = before.alter_responses[b].is_some & after.alter_responses[b].is_none
        replays = _is_same_process(m, before, after, b) & (old.view != new.view) & ~answered
        stays = new.view.replicas.has(b)
        same = (new.log == old.log) & (new.flushed == old.flushed)
        hwm = where(m.leads(b, new), new.hwm >= old.hwm, new.hwm == old.hwm)
        nothing = new.log.is_empty & (new.flushed == 0) & (new.hwm == 0)
        kept.append(implies(replays, where(stays, same & hwm, nothing)))
    return all_of(kept)


WATCHED = (
    fetches_say_what_their_sender_has,
    fetches_are_answered_by_their_leader,
    answers_are_taken_in_their_epoch,
    proposals_are_their_leaders,
    answers_say_what_was_decided,
    leaders_take_their_answers,
    proposals_stand_as_they_were_made,
    views_are_what_the_controller_had,
    metadata_leaves_replicas_their_logs,
)
