"""What members of the quorum know of each other, and what fetches under way say, in every state."""

from __future__ import annotations

from highwater.model.language import State, all_of, any_of, implies, invariant, total
from highwater.model.language.values import Truth, as_bool
from highwater.model.quorum import Quorum
from highwater.model.quorum.cluster import UNKNOWN
from highwater.model.replication import logs


@invariant("595.7")
def who_is_followed_was_elected(m: Quorum, s: State) -> Truth:
    """Whom a member takes for the leader of its epoch was elected in it, be it the member itself."""
    return all_of(
        implies(
            s.members[f].leader.is_some,
            any_of((s.members[f].epoch == e) & (s.elected[e] == s.members[f].leader) for e in m.epoch),
        )
        for f in m.member
    )


@invariant("595.4")
def only_leaders_count_fetches(m: Quorum, s: State) -> Truth:
    """Who does not lead knows of no fetches; what a leader knows of is on its log, and on the other's in its epoch.

    So what it commits by them is on a majority.
    """
    known = []
    for v in m.member:
        me = s.members[v]
        for x in m.counted:
            fetched, other = me.fetched[x], s.members[x]
            known.append(m.leads(v, me) | (fetched == -1))
            told = m.leads(v, me) & (fetched > 0)
            known.append(implies(told, fetched <= me.log.length))
            follows = told & (other.epoch == me.epoch)
            same = [(fetched <= o) | logs.same_record(me.log, other.log, o) for o in m.offsets]
            known.append(implies(follows, all_of(same)))
    return all_of(known)


@invariant("595.1, 1166.1")
def fetches_tell_where_a_member_is(m: Quorum, s: State) -> Truth:
    """What a member has asked in its epoch tells where its log ends, and in which epoch its last record is.

    It says which HWM its sender knows, too, as long as that one is in the fetch's epoch. There is an answer, a fetch
    under way or a parked one in an epoch, and no two of them.
    """
    says = []
    for f in m.member:
        me, request, parked, response = s.members[f], s.requests[f], s.parked[f], s.responses[f]
        fetch = request.value
        now = request.is_some & (fetch.epoch == me.epoch)
        log_end = (fetch.offset == me.log.length) & (
            fetch.last_epoch == logs.last_epoch(m.some_epoch, me.log)
        )
        hwm = fetch.hwm.is_none | fetch.hwm.is_(me.hwm)
        says.append(implies(now, log_end & hwm & (me.leader.is_none | (me.leader.is_(fetch.leader)))))
        says.append(implies(request.is_some, fetch.epoch <= me.epoch))
        waits = parked.is_some & (parked.value.epoch == me.epoch)
        answered = response.is_some & (response.value.epoch == me.epoch)
        says.append(~(now & waits) & ~(now & answered) & ~(waits & answered))
        says.append(implies(waits, parked.value.offset == me.log.length))
        here = any_of(
            (parked.value.leader == v) & m.leads(v, s.members[v]) & (parked.value.epoch == s.members[v].epoch)
            for v in m.voter
        )
        says.append(implies(parked.is_some, here))
        told = answered & response.value.record.is_some
        says.append(implies(told, ~response.value.diverging & ~response.value.timed_out))
    return all_of(says)


@invariant("595.5")
def nobody_knows_a_greater_hwm_than_it_had(m: Quorum, s: State) -> Truth:
    """What a member knows as the HWM now is not more than the most that it has known since it started."""
    return all_of(
        implies(s.members[f].hwm > UNKNOWN, s.members[f].hwm <= s.members[f].peak) for f in m.member
    )


@invariant("595.4, 595.5")
def what_a_majority_has_is_below_the_hwm(m: Quorum, s: State) -> Truth:
    """A record of its own epoch that a leader knows on a majority is below its HWM: nobody waits for what is there."""
    return all_of(
        implies(
            m.leads(v, s.members[v])
            & (s.members[v].log.length > o)
            & (s.members[v].log.at(o).epoch == s.members[v].epoch)
            & (
                total((s.members[v].fetched[x] > o) if int(x) != int(v) else as_bool(True) for x in m.voter)
                >= m.majority
            ),
            s.members[v].hwm > o,
        )
        for v in m.voter
        for o in m.offsets
    )


@invariant("1166.4", needs="older")
def older_leaders_answer_as_before(m: Quorum, s: State) -> Truth:
    """A leader below version 18 answers a fetch with a record, or with where to truncate, or when its timer ends it.

    A greater HWM alone is no reason, whichever HWM the fetch carries: such a leader ignores the field.
    """
    kept = []
    for f in m.member:
        sent = s.responses[f].value
        older = any_of(
            (sent.epoch == e) & s.elected[e].is_(v) for e in m.epoch for v in m.voter if m.is_older(v)
        )
        reason = sent.record.is_some | sent.diverging | sent.timed_out
        kept.append(implies(s.responses[f].is_some & older, reason))
    return all_of(kept)


KNOWLEDGE = (
    who_is_followed_was_elected,
    only_leaders_count_fetches,
    fetches_tell_where_a_member_is,
    nobody_knows_a_greater_hwm_than_it_had,
    what_a_majority_has_is_below_the_hwm,
    older_leaders_answer_as_before,
)
