"""Elections, how members learn of them, and restarts.

Here they matter for one thing: a new leader knows less of the HWM than the old one, and so do its followers of it.
"""

from __future__ import annotations

from highwater.model.language import (
    Number,
    SetValue,
    State,
    StructValue,
    Truth,
    action,
    any_of,
    greatest,
    require,
    spend,
    where,
)
from highwater.model.quorum.cluster import UNKNOWN, Cluster
from highwater.model.quorum.leadership import settle


@action(
    "595.7",
    says="member {candidate} is elected leader by the members {electorate}",
    candidate="voter",
    electorate="electorates",
)
def elect(q: Cluster, s: State, candidate: Number, electorate: SetValue) -> None:
    """A majority, the candidate in it, moves to a new epoch and votes for one that is not behind it.

    Any two majorities share a member, so somebody who voted has what was committed, and votes for nobody without it.
    The new leader forgets its HWM, and appends a record of its own epoch at once: it can commit nothing before that
    one.
    """
    voters = [v for v in q.voter if electorate.has(v)]
    require("the candidate votes for itself", electorate.has(candidate))
    if q.on("votes_travel"):
        require("votes are no messages", False)
    me = s.members[candidate]
    require("the candidate does not lead", ~q.leads(candidate, me))
    spend(s, "elections")
    for v in voters:
        grants = is_up_to_date(me, s.members[v])
        require(f"the candidate is not behind member {int(v)}", grants, rule="up_to_date_vote")
    epoch = greatest(0, *(s.members[v].epoch for v in voters)) + 1
    for v in voters:
        if int(v) != int(candidate):
            s.next.members[v] = stepped_down(q, s.members[v], epoch=epoch, leader=None)
    take_over(q, s, candidate, epoch)
    drop_parked(q, s, *voters)


def take_over(q: Cluster, s: State, leader: Number, epoch: Number) -> None:
    """Whoever is elected forgets its HWM, and appends a record of its epoch."""
    me = s.members[leader]
    hwm = UNKNOWN if q.on("new_leader_forgets_hwm") else me.hwm
    log = me.log.append(q.record(epoch=epoch)) if q.on("leader_change_record") else me.log
    settle(q, s, leader, stepped_down(q, me, epoch=epoch, leader=leader, log=log, hwm=hwm))
    for e in q.epoch:
        s.next.elected[e] = where(epoch == e, leader, s.elected[e])


def is_up_to_date(candidate: StructValue, voter: StructValue) -> Truth:
    """Whether a voter can vote for a candidate: a later last epoch, or the same and a LEO not behind."""
    ours = candidate.log
    return is_not_behind(~ours.is_empty, ours.last.epoch, ours.length, voter)


def is_not_behind(has_records: Truth, last_epoch: Number, end: Number, voter: StructValue) -> Truth:
    """The same of a log that is told by its last epoch, where it has records, and its LEO."""
    theirs = voter.log
    later = last_epoch > theirs.last.epoch
    same = (last_epoch == theirs.last.epoch) & (end >= theirs.length)
    return theirs.is_empty | (has_records & (later | same))


@action("595.7", says="member {m} learns who leads in epoch {epoch}", m="member", epoch="epoch")
def learn(q: Cluster, s: State, m: Number, epoch: Number) -> None:
    """By BeginQuorumEpoch, or by the answer of a member that knows.

    Until then a former leader takes itself for the leader, and members go on fetching from it.
    """
    me, leader = s.members[m], s.elected[epoch]
    require("another member was elected in the epoch", leader.is_some & ~leader.is_(m))
    news = (me.epoch < epoch) | ((me.epoch == epoch) & me.leader.is_none)
    require("it is news to the member", news)
    s.next.members[m] = stepped_down(q, me, epoch=epoch, leader=leader)
    drop_parked(q, s, m)


@action("F2", says="member {m} restarts", m="member")
def restart(q: Cluster, s: State, m: Number) -> None:
    """It has its log and its epoch, knows no HWM and no leader, and leads no more. Its connections are gone.

    The HWM is nowhere on disk. The member hears of it with the answer to its next fetch, if that is not parked.
    """
    me = s.members[m]
    spend(s, "restarts")
    if q.on("votes_travel"):
        s.next.members[m] = started(q, m, me)
        if int(m) < q.p.voters:
            for v in q.voter:
                s.next.vote_requests[m][v] = None
                s.next.vote_responses[m][v] = None
    else:
        s.next.members[m] = stepped_down(q, me, leader=None, hwm=UNKNOWN, peak=UNKNOWN)
    s.next.requests[m] = None
    s.next.responses[m] = None
    for f in q.member:
        parked = s.parked[f]
        ends = parked.is_some & ((parked.value.leader == m) | (f == m))
        s.next.parked[f] = where(ends, None, parked)


def stepped_down(q: Cluster, member: StructValue, **changes: object) -> StructValue:
    """A member that has heard of no voter in its epoch, and asks for no votes. The HWM that it knows it keeps.

    Its own vote it forgets with the epoch that it was for.
    """
    voted = where(changes.get("epoch", member.epoch) == member.epoch, member.voted, None)
    ballot = {"ballot": "none", "granted": (), "heard": False, "voted": voted} | changes
    return member.replace(fetched=[-1] * q.counted.size, **ballot)


def started(q: Cluster, m: Number, member: StructValue) -> StructValue:
    """595.8. A member as its quorum-state file has it: the epoch, the leader, the vote.

    A former leader has resigned: it leads no more in this epoch, and has voted in it. A candidate still is one.
    """
    voted = member.voted if q.on("vote_is_kept") else None
    leader = where(q.leads(m, member), None, member.leader)
    kept = stepped_down(q, member, leader=leader, hwm=UNKNOWN, peak=UNKNOWN, voted=voted)
    if int(m) >= q.p.voters or not q.on("vote_is_kept"):
        return kept
    stands = member.ballot == "vote"
    return where(stands, kept.replace(ballot="vote", granted=[int(m)]), kept)


def drop_parked(q: Cluster, s: State, *members: Number) -> None:
    """Fetches that are parked with these members, who lead no more, end."""
    for f in q.member:
        parked = s.parked[f]
        here = any_of(parked.value.leader == m for m in members)
        s.next.parked[f] = where(parked.is_some & here, None, parked)
