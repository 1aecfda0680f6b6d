"""What must hold of every step of the quorum: who is elected, what becomes of logs, and of fetches that wait."""

from __future__ import annotations

from highwater.model.language import State, all_of, any_of, greatest, implies, total
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import Number, SeqValue, StructValue, Truth
from highwater.model.quorum import Quorum
from highwater.model.quorum.cluster import UNKNOWN


def _restarts(before: State, after: State) -> Truth:
    """Whether a member restarts: it forgets the HWM, the leader, and what it waits for."""
    return before.budgets.restarts > after.budgets.restarts


def _takes_over(m: Quorum, v: Number, old: StructValue, new: StructValue) -> Truth:
    """Whether a member is leader of an epoch after a step, and was not before."""
    return m.leads(v, new) & (~m.leads(v, old) | (old.epoch != new.epoch))


@step_property("595.7")
def elections_have_epochs_of_their_own(m: Quorum, before: State, after: State) -> Truth:
    """A leader is elected in an epoch that had none, that is its own then, and in which it has a record at once.

    What an epoch's leader was stays so; and nobody takes itself for the leader but who is elected.
    """
    kept = []
    for e in m.epoch:
        old, new = before.elected[e], after.elected[e]
        own = [
            new.is_(v)
            & m.leads(v, after.members[v])
            & (after.members[v].epoch == e)
            & ~m.leads(v, before.members[v])
            for v in m.voter
        ]
        kept.append(implies(old != new, old.is_none & any_of(own)))
    for v in m.voter:
        old_self, new_self = before.members[v], after.members[v]
        elected = any_of(
            (new_self.epoch == e) & before.elected[e].is_none & after.elected[e].is_(v) for e in m.epoch
        )
        kept.append(implies(_takes_over(m, v, old_self, new_self), elected))
    return all_of(kept)


@step_property("595.7")
def elections_are_by_majorities_that_go_on(m: Quorum, before: State, after: State) -> Truth:
    """Who is elected has a majority of voters move to its epoch with it, and none of them leads any more but itself."""
    kept = []
    for v in m.voter:
        old, new = before.members[v], after.members[v]
        moved = [
            (after.members[x].epoch == new.epoch)
            & (before.members[x].epoch < new.epoch)
            & (after.members[x].leader.is_none | (int(x) == int(v)))
            for x in m.voter
        ]
        kept.append(implies(_takes_over(m, v, old, new), total(moved) >= m.majority))
    return all_of(kept)


@step_property("595.7")
def epochs_of_members_never_fall(m: Quorum, before: State, after: State) -> Truth:
    """No member goes back to an earlier epoch, and in one it follows one leader: the one that was elected in it.

    It forgets that leader only when it restarts.
    """
    kept = []
    for f in m.member:
        old, new = before.members[f], after.members[f]
        kept.append(old.epoch <= new.epoch)
        other = old.leader.is_some & (old.epoch == new.epoch) & (old.leader != new.leader)
        kept.append(implies(other, new.leader.is_none & _restarts(before, after)))
        known = any_of(
            (new.epoch == e) & new.leader.is_some & (after.elected[e] == new.leader) for e in m.epoch
        )
        learns = new.leader.is_some & ((old.leader != new.leader) | (old.epoch != new.epoch))
        kept.append(implies(learns, known))
    return all_of(kept)


@step_property("595.2, 595.3")
def logs_change_by_their_leaders(m: Quorum, before: State, after: State) -> Truth:
    """A log grows by one record: a leader's by one of its own epoch, another one's by what it was answered.

    It is truncated only by an answer that says where logs part; a leader never truncates its own.
    """
    kept = []
    for f in m.member:
        old, new, answer = before.members[f].log, after.members[f].log, before.responses[f]
        leads = after.members[f].leader.is_(f)
        got = answer.value
        taken = (
            answer.is_some
            & (before.responses[f] != after.responses[f])
            & (got.epoch == before.members[f].epoch)
        )
        longer, prefix = new.length == old.length + 1, _begins_with(m, new, old)
        wrote = leads & longer & prefix & (new.last.epoch == after.members[f].epoch)
        fetched = taken & ~leads & longer & prefix & ~got.diverging & got.record.is_(new.last)
        cut = taken & ~leads & got.diverging & (new.length < old.length) & _begins_with(m, old, new)
        kept.append(implies(old != new, wrote | fetched | cut))
        news = taken & before.members[f].leader.is_some & ~before.members[f].leader.is_(f)
        unread = (
            news
            & (before.budgets == after.budgets)
            & (after.responses[f].is_none)
            & (got.record.is_some | got.diverging)
        )
        kept.append(implies(unread, old != new))
    return all_of(kept)


def _begins_with(m: Quorum, log: SeqValue, other: SeqValue) -> Truth:
    """Whether a log begins with another one."""
    return all_of((other.length <= o) | ((log.length > o) & (log.at(o) == other.at(o))) for o in m.offsets)


@step_property("595.5, 595.6")
def hwms_move_back_for_nobody_but_who_forgets(m: Quorum, before: State, after: State) -> Truth:
    """A member's HWM falls only to none, when it restarts or is elected; else it is the greatest that it has known.

    A member that follows takes it from an answer, as far as its log goes.
    """
    kept = []
    for f in m.member:
        old, new = before.members[f], after.members[f]
        forgets = _restarts(before, after) & new.leader.is_none
        elected = _takes_over(m, f, old, new)
        kept.append(implies(new.hwm < old.hwm, (forgets & (new.hwm == UNKNOWN)) | elected))
        greater = (old.hwm != new.hwm) & (new.hwm > old.hwm) & ~m.leads(f, new)
        answer = before.responses[f]
        told = answer.is_some & ~answer.value.diverging & (new.hwm <= answer.value.hwm)
        kept.append(implies(greater, told))
        same_life = ~(forgets & (new.peak == UNKNOWN))
        kept.append(implies((old != new) & same_life, new.peak == greatest(old.peak, new.hwm)))
    return all_of(kept)


@step_property("595.1, 1166.2")
def fetches_end_in_one_way(m: Quorum, before: State, after: State) -> Truth:
    """A fetch that is parked is answered, or its leader leads no more, or its connection is lost; nothing else ends it.

    An answer of the member's epoch is given to a fetch that was there, and stays until the member has taken it.
    """
    kept = []
    lost = before.budgets.losses > after.budgets.losses
    for f in m.member:
        old, new = before.parked[f], after.parked[f]
        leader_gone = any_of(
            (old.value.leader == v)
            & ~(m.leads(v, after.members[v]) & (after.members[v].epoch == before.members[v].epoch))
            for v in m.voter
        )
        answered = after.responses[f].is_some & (before.responses[f] != after.responses[f])
        outdated = before.responses[f].is_some & (before.responses[f].value.epoch > old.value.epoch)
        replaced = new.is_some & before.requests[f].is_some & after.requests[f].is_none
        restarted = _restarts(before, after) & after.members[f].leader.is_none
        ended = old.is_some & (old != new)
        kept.append(implies(ended, leader_gone | answered | outdated | replaced | lost | restarted))
        asked = (before.requests[f].is_some & after.requests[f].is_none) | (old.is_some & new.is_none)
        sent = after.responses[f].value
        begins = any_of(
            m.leads(v, after.members[v]) & (after.members[v].epoch == sent.epoch) for v in m.voter
        )
        kept.append(implies(answered, asked & (begins | sent.timed_out)))
        parks = new.is_some & (old != new)
        kept.append(implies(parks, before.requests[f].is_some & after.requests[f].is_none))
    return all_of(kept)


@step_property("595.1, 595.4", rule="fetch_epoch_check")
def fetches_are_used_in_their_epoch(m: Quorum, before: State, after: State) -> Truth:
    """A leader counts, answers and parks only fetches of its own epoch; what one says elsewhere is of another log.

    One that it can use is answered or parked. An answer is not replaced by one of an earlier epoch.
    """
    kept = []
    whole = (before.budgets.losses == after.budgets.losses) & (
        before.budgets.restarts == after.budgets.restarts
    )
    for f in m.member:
        request, fetch = before.requests[f], before.requests[f].value
        taken = request.is_some & after.requests[f].is_none & whole
        old, new = before.responses[f], after.responses[f]
        answered = new.is_some & (old != new)
        parks = after.parked[f].is_some & (before.parked[f] != after.parked[f])
        usable = any_of(
            (fetch.leader == v) & m.leads(v, before.members[v]) & (before.members[v].epoch == fetch.epoch)
            for v in m.voter
        )
        outdated = old.is_some & (old.value.epoch > fetch.epoch)
        kept.append(implies(taken & answered, usable & (new.value.epoch == fetch.epoch)))
        kept.append(implies(taken & parks, usable & (after.parked[f].value.epoch == fetch.epoch)))
        kept.append(implies(taken & usable, answered | parks | outdated))
        kept.append(implies(answered & old.is_some, old.value.epoch <= new.value.epoch))
        ended = before.parked[f].is_some & after.parked[f].is_none & answered & ~taken
        kept.append(implies(ended, new.value.epoch == before.parked[f].value.epoch))
        for v in m.voter:
            if int(f) >= m.counted.size:
                continue
            me, then = before.members[v], after.members[v]
            counts = (me.fetched[f] != then.fetched[f]) & m.leads(v, then) & (me.epoch == then.epoch)
            says = taken & usable & (fetch.leader == v) & (then.fetched[f] == fetch.offset)
            kept.append(implies(counts, says))
    return all_of(kept)


@step_property("F1, F2")
def what_is_lost_is_lost_as_a_whole(m: Quorum, before: State, after: State) -> Truth:
    """A connection that breaks takes fetch and answer with it; so does a restart, and what the member had parked."""
    kept = []
    breaks = before.budgets.losses > after.budgets.losses
    gone = [
        after.requests[f].is_none & after.parked[f].is_none & after.responses[f].is_none for f in m.member
    ]
    touched = [
        (before.requests[f] != after.requests[f])
        | (before.parked[f] != after.parked[f])
        | (before.responses[f] != after.responses[f])
        for f in m.member
    ]
    for f in m.member:
        kept.append(implies(breaks & touched[int(f)], gone[int(f)]))
    restarts = (before.budgets.restarts != after.budgets.restarts) & _restarts(before, after)
    some = any_of(
        gone[int(f)]
        & after.members[f].leader.is_none
        & (after.members[f].hwm == UNKNOWN)
        & (after.members[f].peak == UNKNOWN)
        & all_of(after.parked[g].is_none | (after.parked[g].value.leader != f) for g in m.member)
        for f in m.member
    )
    kept.append(implies(restarts, some))
    return all_of(kept)


@step_property("1166.4", rule="timer_answers_as_parked")
def the_timer_brings_what_was_known_at_parking(m: Quorum, before: State, after: State) -> Truth:
    """A fetch parks with the HWM that its leader has then; its timer answers with that one, and without a record."""
    kept = []
    for f in m.member:
        old, new, sent = before.parked[f], after.parked[f], after.responses[f]
        parks = new.is_some & (old != new)
        known = any_of((new.value.leader == v) & (new.value.answer == after.members[v].hwm) for v in m.voter)
        kept.append(implies(parks, known))
        ended = old.is_some & new.is_none & sent.is_some & (before.responses[f] != sent)
        as_parked = (sent.value.hwm == old.value.answer) & sent.value.record.is_none
        kept.append(implies(ended & sent.value.timed_out, as_parked))
    return all_of(kept)


WATCHED = (
    elections_have_epochs_of_their_own,
    elections_are_by_majorities_that_go_on,
    epochs_of_members_never_fall,
    logs_change_by_their_leaders,
    hwms_move_back_for_nobody_but_who_forgets,
    fetches_end_in_one_way,
    fetches_are_used_in_their_epoch,
    what_is_lost_is_lost_as_a_whole,
    the_timer_brings_what_was_known_at_parking,
)
