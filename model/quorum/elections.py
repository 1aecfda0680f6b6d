"""Elections in the metadata quorum, how members learn of them, and restarts.

A new leader forgets its HWM. An election therefore delays the HWM for the leader and for all members.
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
    as_bool,
    greatest,
    require,
    size,
    spend,
    under,
    where,
)
from highwater.model.quorum.cluster import UNKNOWN, Cluster
from highwater.model.quorum.leadership import advance_hwm
from highwater.model.replication import logs


@action(
    "595.7",
    says="member {candidate} is elected leader by the members {electorate}",
    candidate="voter",
    electorate="electorates",
)
def elect(q: Cluster, s: State, candidate: Number, electorate: SetValue) -> None:
    """A majority, which includes the candidate, moves to a new epoch and elects the candidate in one step.

    Precondition: the candidate does not lead, and its log is not behind the log of any voter of this majority. Any two
    majorities share a member, so one voter of this majority holds every committed record.
    The new leader forgets its HWM. It appends a record of its own epoch, because its HWM advances only past such a
    record. The election ends all fetches that members of the majority have parked.
    """
    voters = [v for v in q.voter if electorate.has(v)]
    require("the candidate votes for itself", electorate.has(candidate))
    if q.on("votes_travel"):
        require("votes are not messages", False)
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
    """Make member ``leader`` the elected leader of ``epoch``: it forgets its HWM and appends a record of the epoch."""
    advance_hwm(q, s, leader, new_leader(q, s.members[leader], leader, epoch))
    for e in q.epoch:
        s.next.elected[e] = where(epoch == e, leader, s.elected[e])


def new_leader(q: Cluster, me: StructValue, leader: Number, epoch: Number) -> StructValue:
    """The member ``me``, number ``leader``, as the leader of ``epoch``."""
    hwm = UNKNOWN if q.on("new_leader_forgets_hwm") else me.hwm
    log = me.log.append(q.record(epoch=epoch)) if q.on("leader_change_record") else me.log
    return stepped_down(q, me, epoch=epoch, leader=leader, log=log, hwm=hwm)


def is_up_to_date(candidate: StructValue, voter: StructValue) -> Truth:
    """True if the candidate's log is not behind the voter's.

    That is, the candidate's last epoch is later, or the last epochs are equal and the candidate's LEO is not smaller.
    """
    ours = candidate.log
    return is_not_behind(~ours.is_empty, ours.last.epoch, ours.length, voter)


def is_not_behind(has_records: Truth, last_epoch: Number, end: Number, voter: StructValue) -> Truth:
    """True if a log with this last epoch and end offset is not behind the voter's log.

    ``has_records`` is false for an empty log, which has no last epoch.
    """
    theirs = voter.log
    later = last_epoch > theirs.last.epoch
    same = (last_epoch == theirs.last.epoch) & (end >= theirs.length)
    return theirs.is_empty | (has_records & (later | same))


@action("595.7", says="member {m} learns who leads in epoch {epoch}", m="member", epoch="epoch")
def learn(q: Cluster, s: State, m: Number, epoch: Number) -> None:
    """A member learns the leader of an epoch, from BeginQuorumEpoch or from another member's response.

    Precondition: the epoch is later than the member's epoch, or it is the member's epoch and the member knows no leader
    in it. The member then follows the elected leader. If the member was a leader, it leads until this step, and the
    step ends the fetches that it has parked.
    """
    me, leader = s.members[m], s.elected[epoch]
    require("another member was elected in the epoch", leader.is_some & ~leader.is_(m))
    news = (me.epoch < epoch) | ((me.epoch == epoch) & me.leader.is_none)
    require("the member does not know this yet", news)
    s.next.members[m] = stepped_down(q, me, epoch=epoch, leader=leader)
    drop_parked(q, s, m)


@action("F2", says="member {m} restarts", m="member")
def restart(q: Cluster, s: State, m: Number) -> None:
    """A member restarts: it keeps its log and epoch, forgets its HWM, and does not lead.

    The member's own fetch and vote requests are lost with their responses. The restart also ends the fetches that the
    member has parked. The HWM is not on disk. The member learns it from the response to its next fetch, unless the
    leader parks the fetch.
    """
    me = s.members[m]
    spend(s, "restarts")
    if q.on("votes_travel"):
        s.next.members[m] = started(q, s, m)
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
    """The member with ``changes``; its ballot, votes, requests, fetch offsets and contact with a leader are reset.

    Contact (``heard``) means a fetch response from the leader. Fields in ``changes`` are not reset. If ``changes`` has
    another epoch, the member also forgets its own vote.
    """
    voted = where(changes.get("epoch", member.epoch) == member.epoch, member.voted, None)
    ballot = {"ballot": "none", "granted": (), "heard": False, "voted": voted} | _ASKS_NOBODY | changes
    return member.replace(fetched=[-1] * q.counted.size, **ballot)


_ASKS_NOBODY: dict[str, object] = {"denied": (), "awaits": False, "asked": ()}
"""K26, K27. A member after a change of its epoch or role: it has forgotten its requests."""


def started(q: Cluster, s: State, m: Number) -> StructValue:
    """595.8. A restarted member, with the epoch, leader and vote of its quorum-state file.

    The elected leader of this epoch keeps its vote, and does not lead. Any other voter that voted for itself in this
    epoch becomes a candidate again and forgets the leader. This holds even if it lost the election or followed another
    leader. If the rule ``vote_is_kept`` is off, the member forgets its vote and is no candidate.
    """
    member = s.members[m]
    voted = member.voted if q.on("vote_is_kept") else None
    leader = where(q.leads(m, member), None, member.leader)
    kept = stepped_down(q, member, leader=leader, hwm=UNKNOWN, peak=UNKNOWN, voted=voted)
    if int(m) >= q.p.voters or not q.on("vote_is_kept"):
        return kept
    stands = member.voted.is_(m) & ~s.elected[member.epoch].is_(m)
    return where(stands, kept.replace(leader=None, ballot="vote", granted=[int(m)]), kept)


def drop_parked(q: Cluster, s: State, *members: Number, condition: Truth | bool = True) -> None:
    """If the condition holds, end the fetches that ``members`` have parked, because these no longer lead."""
    for f in q.member:
        parked = s.parked[f]
        here = any_of(parked.value.leader == m for m in members)
        s.next.parked[f] = where(as_bool(condition) & parked.is_some & here, None, parked)


# Elections whose votes are messages, with pre-votes (KIP-996), if the rule ``votes_travel`` is on.
#
# If a voter loses contact with its leader and its timer expires, it first requests pre-votes in its current epoch. If a
# majority grants them, it moves to the next epoch and requests votes. A vote request with a later epoch moves its
# receiver to that epoch, even a leader. Without pre-votes, a voter without contact therefore deposes a leader that all
# other voters can reach.

# --- candidates ------------------------------------------------------------------------------------------------


@action("996.1, 595.7, K29", rule="votes_travel", says="the fetch timer of voter {c} expires", c="voter")
def stand(q: Cluster, s: State, c: Number) -> None:
    """The timer of a voter that does not lead expires: the voter lost contact with its leader, or lost its election.

    With pre-votes the voter stays in its epoch, keeps its leader and requests pre-votes. Without pre-votes it becomes
    a candidate. K29: a restarted leader requests pre-votes in the epoch after the one in which it led. Each expiry
    spends the budget of elections, even if the election fails, so the budget limits the number of epochs.
    """
    me = s.members[c]
    spend(s, "elections")
    require("the voter's fetch timer can expire in this scenario", q.is_impatient(c))
    require("the member does not lead", ~q.leads(c, me))
    if q.on("pre_vote"):
        require("the voter requests no pre-votes yet", me.ballot != "pre_vote")
        if q.on("restarted_leader_raises_epoch"):
            led = s.elected[me.epoch].is_(c)
            me = where(led, stepped_down(q, me, epoch=me.epoch + 1, leader=None), me)
        s.next.members[c] = me.replace(ballot="pre_vote", granted=[int(c)], heard=False, **_ASKS_NOBODY)
    else:
        become_candidate(q, s, c)


@action("996.1", rule="pre_vote", says="voter {c} has a majority of pre-votes and is a candidate", c="voter")
def win_pre_votes(q: Cluster, s: State, c: Number) -> None:
    """A voter that has the pre-votes of a majority becomes a candidate in the next epoch."""
    require("votes are messages", q.on("votes_travel"))
    me = s.members[c]
    require("the voter requests pre-votes", me.ballot == "pre_vote")
    require("a majority grants its pre-vote", size(me.granted) >= q.votes_needed)
    become_candidate(q, s, c)


def become_candidate(q: Cluster, s: State, c: Number) -> None:
    """The voter moves to the next epoch and votes for itself."""
    s.next.members[c] = candidate(q, s.members[c], c)


def candidate(q: Cluster, me: StructValue, c: Number) -> StructValue:
    """The member ``me``, number ``c``, as a candidate in the next epoch."""
    mine = {"ballot": "vote", "granted": [int(c)], "voted": c}
    return stepped_down(q, me, epoch=me.epoch + 1, leader=None, **mine)


@action("595.7", rule="votes_travel", says="voter {c} has a majority of votes and leads", c="voter")
def win(q: Cluster, s: State, c: Number) -> None:
    """A candidate that has the votes of a majority becomes leader.

    Any two majorities share a voter, so each epoch has at most one leader.
    """
    me = s.members[c]
    require("the voter is a candidate", me.ballot == "vote")
    require("a majority has voted for it", size(me.granted) >= q.votes_needed)
    take_over(q, s, c, me.epoch)


@action("996.1, K30", rule="pre_vote", says="voter {c} gives up its pre-vote", c="voter")
def give_up(q: Cluster, s: State, c: Number) -> None:
    """A voter ends its pre-vote after denials or a timeout, and returns to the leader that it knows.

    K30: a voter that knows no leader requests pre-votes again.
    """
    me = s.members[c]
    require("the voter requests pre-votes", me.ballot == "pre_vote")
    after = me.replace(ballot="none", granted=[], **_ASKS_NOBODY)
    if q.on("leaderless_voter_asks_again"):
        after = where(me.leader.is_none, me.replace(granted=[int(c)], **_ASKS_NOBODY), after)
    s.next.members[c] = after


# --- votes under way --------------------------------------------------------------------------------------------


@action("595.7", rule="votes_travel", says="voter {c} requests a vote from voter {v}", c="voter", v="voter")
def ask(q: Cluster, s: State, c: Number, v: Number) -> None:
    """A voter sends another voter a vote or pre-vote request, with its epoch, last epoch and LEO.

    A voter has at most one request in flight to each other voter. K26: a request replaces one that the voter has
    forgotten. K27: the voter asks no voter that has denied its vote, and nobody after it has lost.
    """
    me = s.members[c]
    require("the two voters differ", int(c) != int(v))
    require("the voter requests votes", me.ballot != "none")
    require("the other voter has not granted its vote", ~me.granted.has(v))
    require("the other voter has not denied its vote", ~me.denied.has(v))
    require("the voter can still win", ~has_lost(q, me))
    if q.on("change_forgets_requests"):
        idle = s.vote_requests[c][v].is_none & s.vote_responses[c][v].is_none
        require("the voter waits for no answer", idle | ~me.asked.has(v))
        s.next.members[c] = me.replace(asked=me.asked.with_(v))
        s.next.vote_responses[c][v] = None
    else:
        require("no request is under way", s.vote_requests[c][v].is_none)
        require("no answer is under way", s.vote_responses[c][v].is_none)
    s.next.vote_requests[c][v] = q.vote_request(
        epoch=me.epoch,
        pre=me.ballot == "pre_vote",
        last_epoch=logs.last_epoch(q.some_epoch, me.log),
        offset=me.log.length,
    )


def has_lost(q: Cluster, me: StructValue) -> Truth:
    """K27. True if so many voters have denied their votes that the others are no majority."""
    return size(me.denied) > q.p.voters - q.votes_needed


@action(
    "595.7, 595.8, 996.2, K31",
    rule="votes_travel",
    says="voter {v} answers the vote request of voter {c}",
    v="voter",
    c="voter",
)
def answer_vote(q: Cluster, s: State, v: Number, c: Number) -> None:
    """A voter answers a vote request. If the request's epoch is later, the voter first moves to it, even if it leads.

    The voter refuses a request of an earlier epoch. K31: it refuses an invalid request, and does not move. K27: a voter
    that requests pre-votes and votes for another counts its pre-votes anew.
    """
    request, me = s.vote_requests[c][v], s.members[v]
    require("a request is under way", request.is_some)
    asks = request.value
    last = asks.last_epoch
    invalid = q.on("record_of_the_epoch_is_invalid") & last.is_some & (last.value >= asks.epoch) & ~asks.pre
    newer = (asks.epoch > me.epoch) & ~invalid
    present = where(newer, stepped_down(q, me, epoch=asks.epoch, leader=None), me)
    granted = (asks.epoch == present.epoch) & ~invalid & grants(q, c, v, present, asks)
    binds = granted & ~asks.pre
    after = present.replace(voted=where(binds, c, present.voted))
    if q.on("answers_decide"):
        begins_anew = binds & present.voted.is_none & (present.ballot == "pre_vote")
        after = where(begins_anew, after.replace(granted=[int(v)], denied=()), after)
    s.next.members[v] = after
    s.next.vote_requests[c][v] = None
    # K28: a restarted leader names itself.
    knows = where(s.elected[present.epoch].is_(v), v, present.leader)
    s.next.vote_responses[c][v] = q.vote_response(
        asked=asks.epoch, pre=asks.pre, epoch=present.epoch, granted=granted, leader=knows, invalid=invalid
    )
    drop_parked(q, s, v, condition=newer & q.leads(v, me))


def grants(q: Cluster, c: Number, v: Number, voter: StructValue, asks: StructValue) -> Truth:
    """True if voter ``v`` grants the request ``asks`` of candidate ``c``: a vote or pre-vote in the voter's epoch.

    A pre-vote does not bind: a voter can grant several pre-votes, even after it has voted. A voter in contact with a
    leader denies pre-votes. A voter votes for one candidate in an epoch, and for none while it leads or follows a
    leader.
    """
    up_to_date = under(
        "up_to_date_vote", is_not_behind(asks.last_epoch.is_some, asks.last_epoch.value, asks.offset, voter)
    )
    follows = q.follows(v, voter)
    in_contact = q.leads(v, voter) | (follows & voter.heard)
    pre = under("contact_denies_pre_vote", ~in_contact) & up_to_date
    voted = voter.voted.is_some & q.on("one_vote_per_epoch")
    free = where(voted, voter.voted.is_(c), voter.leader.is_none & up_to_date)
    vote = ~q.leads(v, voter) & ~follows & free
    found: Truth = where(asks.pre, pre, vote)
    return found


@action(
    "595.7, K26, K27, K28",
    rule="votes_travel",
    says="voter {c} takes the answer of voter {v}",
    c="voter",
    v="voter",
)
def take_vote(q: Cluster, s: State, c: Number, v: Number) -> None:
    """Voter ``c`` takes the vote response of ``v``: it counts a grant of its request, or moves to a later epoch.

    K26: it ignores the answer to a request that it has forgotten. K27: a grant or denial that decides the election
    ends it. K28: if the answer names a leader that the voter does not know, the voter follows this leader.
    """
    answer, me = s.vote_responses[c][v], s.members[c]
    require("an answer is under way", answer.is_some)
    got = answer.value
    awaited = under("change_forgets_requests", me.asked.has(v))
    newer = awaited & (got.epoch > me.epoch)
    asks = (got.asked == me.epoch) & where(got.pre, me.ballot == "pre_vote", me.ballot == "vote")
    counts = awaited & (got.epoch == me.epoch) & asks & ~got.invalid
    granted = where(counts & got.granted, me.granted.with_(v), me.granted)
    denied = where(counts & ~got.granted, me.denied.with_(v), me.denied)
    after = me.replace(granted=granted, denied=denied, asked=me.asked.without(v))
    moves = newer | (awaited & got.leader.is_some & (got.epoch == me.epoch) & me.leader.is_none)
    if q.on("answers_decide"):
        after = decided(q, c, after)
        wins = ~moves & (me.ballot == "vote") & q.leads(c, after)
        for e in q.epoch:
            s.next.elected[e] = where(wins & (me.epoch == e), c, s.elected[e])
    s.next.members[c] = where(moves, stepped_down(q, me, epoch=got.epoch, leader=got.leader), after)
    s.next.vote_responses[c][v] = None
    drop_parked(q, s, c, condition=newer & q.leads(c, me))


def decided(q: Cluster, c: Number, me: StructValue) -> StructValue:
    """K27. Voter ``c`` after an answer: it leads or is a candidate if it has won, and gives up if it has lost."""
    pre = me.ballot == "pre_vote"
    won = (me.ballot != "none") & (size(me.granted) >= q.votes_needed)
    wins = where(pre, candidate(q, me, c), new_leader(q, me, c, me.epoch))
    gives_up = me.replace(ballot="none", granted=[], **_ASKS_NOBODY)
    found: StructValue = where(won, wins, where(pre & has_lost(q, me), gives_up, me))
    return found


@action(
    "F1",
    rule="votes_travel",
    says="a vote request of voter {c} to voter {v}, or its answer, is lost",
    c="voter",
    v="voter",
)
def lose_vote(q: Cluster, s: State, c: Number, v: Number) -> None:
    """A connection breaks: a vote request, or the response to it, is lost. The voter can send the request again."""
    require(
        "a request or an answer is under way", s.vote_requests[c][v].is_some | s.vote_responses[c][v].is_some
    )
    spend(s, "losses")
    s.next.vote_requests[c][v] = None
    s.next.vote_responses[c][v] = None


@action("595.7", rule="votes_travel", says="member {m} learns of epoch {epoch}", m="member", epoch="epoch")
def hear(q: Cluster, s: State, m: Number, epoch: Number) -> None:
    """A member that does not lead learns of a later epoch from a fetch response, but not of the epoch's leader.

    Precondition: another voter is in that epoch or a later one.
    """
    me = s.members[m]
    require("the member does not lead", ~q.leads(m, me))
    require("the member does not know this yet", me.epoch < epoch)
    others = [o for o in q.voter if int(o) != int(m)]
    require("another voter has been in this epoch", any_of(s.members[o].epoch >= epoch for o in others))
    s.next.members[m] = stepped_down(q, me, epoch=epoch, leader=None)
    drop_parked(q, s, m)
