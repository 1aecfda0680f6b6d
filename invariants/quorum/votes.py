"""What must hold of votes that are messages: who asks, what a request says, what an answer binds, and what counts."""

from __future__ import annotations

from highwater.model.language import State, all_of, any_of, greatest, implies, invariant, size, where
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import Number, StructValue, Truth, as_bool
from highwater.model.quorum import Quorum
from highwater.model.quorum.cluster import UNKNOWN
from highwater.model.replication import logs

RULE = "votes_travel"


@invariant("595.7, 996.1", rule=RULE)
def who_asks_votes_for_itself(m: Quorum, s: State) -> Truth:
    """Who asks counts itself, and a candidate knows no leader and has voted for itself; who does not ask counts nobody.

    Who asks has not heard from a leader since.
    """
    kept = []
    for c in m.voter:
        me = s.members[c]
        asks, candidate = me.ballot != "none", me.ballot == "vote"
        kept.append(where(asks, me.granted.has(c) & ~me.heard, me.granted.is_empty))
        kept.append(implies(candidate, me.leader.is_none & me.voted.is_(c)))
    return all_of(kept)


@invariant("595.7, 595.8", rule=RULE)
def votes_that_count_were_given(m: Quorum, s: State) -> Truth:
    """Whose vote a candidate counts has voted for it in its epoch, and for nobody else, or is in a later epoch."""
    return all_of(
        implies(
            (s.members[c].ballot == "vote") & s.members[c].granted.has(v),
            (s.members[v].epoch > s.members[c].epoch)
            | ((s.members[v].epoch == s.members[c].epoch) & s.members[v].voted.is_(c)),
        )
        for c in m.voter
        for v in m.voter
    )


@step_property("595.7, 996.1", rule=RULE)
def ballots_begin_and_end_for_a_reason(m: Quorum, before: State, after: State) -> Truth:
    """A pre-vote is begun by who does not lead; a candidate has won one, and goes to the next epoch.

    In one epoch a candidate ends its ballot only by winning it, or to begin again; nobody forgets a vote.
    """
    kept = []
    for c in m.voter:
        old, new = before.members[c], after.members[c]
        begins = (new.ballot == "pre_vote") & (old.ballot != "pre_vote")
        kept.append(implies(begins, ~m.leads(c, old) & (old.epoch == new.epoch) & (size(new.granted) == 1)))
        stands = (new.ballot == "vote") & ((old.ballot != "vote") | (old.epoch != new.epoch))
        kept.append(implies(stands, (new.epoch == old.epoch + 1) & (size(new.granted) == 1)))
        won = (old.ballot == "pre_vote") & _has_majority(m, old)
        kept.append(implies(stands & as_bool(m.on("pre_vote")), won))
        same = old.epoch == new.epoch
        ends = (old.ballot == "vote") & (new.ballot == "none") & same & ~_restarts(before, after)
        known = any_of((new.epoch == e) & after.elected[e].is_some for e in m.epoch)
        kept.append(implies(ends, known))
        kept.append(implies(ends & m.leads(c, new), _has_majority(m, old)))
        kept.append(implies(same & old.voted.is_some & as_bool(m.on("vote_is_kept")), new.voted == old.voted))
        kept.append(implies(old.epoch < new.epoch, new.voted.is_none | _votes_now(m, before, after, c)))
    return all_of(kept)


def _has_majority(m: Quorum, member: StructValue) -> Truth:
    return size(member.granted) * 2 > m.p.voters


def _restarts(before: State, after: State) -> Truth:
    return before.budgets.restarts > after.budgets.restarts


def _votes_now(m: Quorum, before: State, after: State, v: Number) -> Truth:
    """Whether a voter votes in this step: for itself, or for one whose request it answers."""
    voted = after.members[v].voted
    answered = any_of(
        voted.is_(c) & before.vote_requests[c][v].is_some & after.vote_requests[c][v].is_none
        for c in m.voter
        if int(c) != int(v)
    )
    return (voted.is_(v) & (after.members[v].ballot == "vote")) | answered


@step_property("595.7", rule=RULE)
def requests_say_where_the_asker_is(m: Quorum, before: State, after: State) -> Truth:
    """A request is sent by who asks, to one that it does not count, with its epoch and the end of its log.

    There is one at a time, or its answer.
    """
    kept = []
    for c in m.voter:
        me = before.members[c]
        for v in m.voter:
            old, new = before.vote_requests[c][v], after.vote_requests[c][v]
            sent = new.is_some & (old != new)
            says = new.value
            kept.append(
                implies(
                    sent,
                    old.is_none
                    & before.vote_responses[c][v].is_none
                    & (me.ballot != "none")
                    & ~me.granted.has(v)
                    & (says.epoch == me.epoch)
                    & (says.pre == (me.ballot == "pre_vote"))
                    & (says.offset == me.log.length)
                    & (says.last_epoch == logs.last_epoch(m.some_epoch, me.log)),
                )
            )
    return all_of(kept)


@step_property("595.7, 595.8, 996.2", rule=RULE)
def answers_say_what_the_voter_did(m: Quorum, before: State, after: State) -> Truth:
    """An answer is of the request that was taken; the voter is in the later of the two epochs, and says so.

    In its own epoch it changes nothing but its vote, and it votes only where it grants, in earnest. In a later one it
    knows no leader, asks for nothing, and no fetch is parked with it any more.
    """
    kept = []
    for c in m.voter:
        for v in m.voter:
            asked, old, new = before.vote_requests[c][v].value, before.members[v], after.members[v]
            said = after.vote_responses[c][v]
            answers = said.is_some & (before.vote_responses[c][v] != said)
            got = said.value
            taken = before.vote_requests[c][v].is_some & after.vote_requests[c][v].is_none
            echo = (got.asked == asked.epoch) & (got.pre == asked.pre) & (got.epoch == new.epoch)
            kept.append(implies(answers, taken & echo & (new.epoch == greatest(old.epoch, asked.epoch))))
            moves = answers & (old.epoch < asked.epoch)
            kept.append(implies(moves, new.leader.is_none & (new.ballot == "none") & ~new.heard))
            alike = (new.leader == old.leader) & (new.ballot == old.ballot) & (new.heard == old.heard)
            alike &= (new.granted == old.granted) & (new.log == old.log)
            kept.append(implies(answers & ~moves, alike))
            binds = got.granted & ~got.pre
            kept.append(implies(answers & binds, new.voted.is_(c)))
            former = where(old.epoch == new.epoch, old.voted, None)
            kept.append(implies(answers & ~binds, new.voted == former))
    asked = (before.vote_requests[c][v] != after.vote_requests[c][v] for c in m.voter for v in m.voter)
    votes = any_of(asked) & ~_restarts(before, after)
    for f in m.member:
        old_fetch, new_fetch = before.parked[f], after.parked[f]
        gone = any_of((old_fetch.value.leader == v) & ~m.leads(v, after.members[v]) for v in m.voter)
        kept.append(implies(votes & (old_fetch != new_fetch), new_fetch.is_none & gone))
    return all_of(kept)


@step_property("595.7, 595.8, 996.2", rule=RULE)
def votes_are_given_by_the_rule(m: Quorum, before: State, after: State) -> Truth:
    """A vote is given where the asker's log is not behind and nothing binds the voter; else it is denied.

    Bound is, in its own epoch, who leads or follows, or has voted for another one; where a pre-vote is asked for, who
    leads or has heard from its leader. Who has voted for the asker says so again.
    """
    kept = []
    for c in m.voter:
        for v in m.voter:
            asked, old = before.vote_requests[c][v].value, before.members[v]
            said = after.vote_responses[c][v]
            answers = said.is_some & (before.vote_responses[c][v] != said)
            theirs, ours = asked.last_epoch, logs.last_epoch(m.some_epoch, old.log)
            longer = theirs.is_some & ours.is_some & (theirs.value == ours.value)
            longer &= asked.offset >= old.log.length
            good = ours.is_none | (theirs.is_some & ours.is_some & (theirs.value > ours.value)) | longer
            own = asked.epoch == old.epoch
            follows = old.leader.is_some & ~old.leader.is_(v) & (old.ballot == "none")
            leads = old.leader.is_(v)
            contact = own & (leads | (follows & old.heard))
            again = own & old.voted.is_(c)
            free = ~own | (old.leader.is_none & old.voted.is_none)
            vote = ~(own & (leads | follows)) & (again | (free & good))
            right = (asked.epoch >= old.epoch) & where(asked.pre, good & ~contact, vote)
            kept.append(implies(answers, said.value.granted == right))
    return all_of(kept)


@step_property("595.7", rule=RULE)
def answers_count_for_what_is_asked(m: Quorum, before: State, after: State) -> Truth:
    """An answer that is taken counts if it grants what the asker asks for now, in this epoch; nothing else counts.

    One of a later epoch takes the asker there, and ends what it asks for. A leader is taken to a later epoch by nothing
    but votes.
    """
    kept = []
    for c in m.voter:
        old, new = before.members[c], after.members[c]
        counted, moved, votes = [], [], []
        for v in m.voter:
            got = before.vote_responses[c][v].value
            taken = before.vote_responses[c][v].is_some & after.vote_responses[c][v].is_none
            taken &= before.budgets == after.budgets
            fits = (got.pre & (old.ballot == "pre_vote")) | (~got.pre & (old.ballot == "vote"))
            counts = taken & got.granted & fits & (got.asked == old.epoch) & (got.epoch == old.epoch)
            kept.append(implies(counts, new.granted.has(v) & (new.ballot == old.ballot)))
            later = taken & (got.epoch > old.epoch)
            ended = (new.epoch == got.epoch) & new.leader.is_none & (new.ballot == "none") & new.voted.is_none
            kept.append(implies(later, ended))
            kept.append(implies(taken & ~later, new.epoch == old.epoch))
            counted.append(~new.granted.has(v) | old.granted.has(v) | counts | (v == c))
            asked = before.vote_requests[v][c]
            answered = asked.is_some & after.vote_requests[v][c].is_none & (asked.value.epoch > old.epoch)
            moved.append(later)
            votes.append(answered)
        kept += counted
        takes = any_of(
            before.vote_responses[c][v].is_some & after.vote_responses[c][v].is_none for v in m.voter
        )
        leads_on = takes & m.leads(c, old) & m.leads(c, new)
        kept += [implies(leads_on, before.parked[f] == after.parked[f]) for f in m.member]
        led = m.leads(c, old) & (old.epoch < new.epoch)
        kept.append(
            implies(led, any_of(moved) | any_of(votes) | any_of(_learns(after, new, e) for e in m.epoch))
        )
    return all_of(kept)


def _learns(after: State, member: StructValue, epoch: Number) -> Truth:
    """Whether a member knows the leader of this epoch, in which it is."""
    return (member.epoch == epoch) & member.leader.is_some & (after.elected[epoch] == member.leader)


@step_property("996.2", rule=RULE)
def who_takes_an_answer_has_heard_from_its_leader(m: Quorum, before: State, after: State) -> Truth:
    """What a leader answers is contact with it, in its epoch; a member forgets that only with the epoch or to ask."""
    kept = []
    for f in m.voter:
        old, new = before.members[f], after.members[f]
        answer = before.responses[f]
        taken = answer.is_some & after.responses[f].is_none & (before.budgets == after.budgets)
        used = taken & (answer.value.epoch == old.epoch) & m.follows(f, old)
        kept.append(implies(used, new.heard))
        kept.append(implies(taken & (answer.value.epoch != old.epoch), new == old))
        kept.append(implies(~old.heard & new.heard, used))
        same = (old.epoch == new.epoch) & (old.leader == new.leader) & (new.ballot == "none")
        kept.append(implies(same & old.heard & ~_restarts(before, after), new.heard))
    return all_of(kept)


@step_property("595.8, F2", rule=RULE)
def who_restarts_has_its_file_and_no_connection(m: Quorum, before: State, after: State) -> Truth:
    """Who restarts is in its epoch, with its log and the leader that it followed, knows no HWM and leads no more.

    Nothing that it asked is under way any more, nor an answer to it. Everybody else is as before.
    """
    back = []
    for c in m.member:
        old, new = before.members[c], after.members[c]
        followed = where(m.leads(c, old), None, old.leader)
        as_filed = (new.epoch == old.epoch) & (new.log == old.log) & (new.leader == followed)
        alone = all_of(before.members[f] == after.members[f] for f in m.member if int(f) != int(c))
        quiet = after.requests[c].is_none & after.responses[c].is_none
        if int(c) < m.p.voters:
            quiet &= all_of(
                after.vote_requests[c][v].is_none & after.vote_responses[c][v].is_none for v in m.voter
            )
        back.append(as_filed & (new.hwm == UNKNOWN) & alone & quiet)
    return implies(_restarts(before, after), any_of(back))


VOTES = (
    who_asks_votes_for_itself,
    votes_that_count_were_given,
    ballots_begin_and_end_for_a_reason,
    requests_say_where_the_asker_is,
    answers_say_what_the_voter_did,
    votes_are_given_by_the_rule,
    answers_count_for_what_is_asked,
    who_takes_an_answer_has_heard_from_its_leader,
    who_restarts_has_its_file_and_no_connection,
)
