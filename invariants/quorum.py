"""Properties of the metadata quorum: committed records stay, and members learn the HWM without delay."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from highwater.invariants import statements
from highwater.invariants.statements import defined, goals
from highwater.model.language import (
    Invariant,
    Liveness,
    Number,
    SeqValue,
    State,
    StepProperty,
    Truth,
    all_of,
    always_eventually,
    any_of,
    either,
    enabled,
    implies,
    invariant,
    reachable,
    step_property,
    total,
    weak,
    where,
)
from highwater.model.quorum import Quorum
from highwater.model.quorum.cluster import UNKNOWN
from highwater.model.quorum.leadership import readable
from highwater.model.replication import logs


def _holds(log: SeqValue, committed: SeqValue, end: Number) -> Truth:
    """True if a log holds all committed records below offset ``end``."""
    return all_of((end <= o) | logs.same_record(log, committed, o) for o in range(log.type.maximum))


def both_support(m: Quorum, f: Number, leader: Number) -> bool:
    """1166.4. True if a fetch from ``f`` to the leader can carry the HWM: both have version 18.

    A consumer's fetch never carries the HWM.
    """
    return not m.is_older(f) and not m.is_older(leader) and not m.is_consumer(f)


@statements.leader_completeness.seen("595.5, 595.7")
def leader_completeness(m: Quorum, s: State) -> Iterator[Truth]:
    """The leader of the latest epoch holds every committed record."""
    for v in m.voter:
        yield statements.leader_completeness(
            m.leads(v, s.members[v])
            & all_of((s.members[v].epoch >= e) | s.elected[e].is_none for e in m.epoch)
            & ~s.committed.is_empty,
            _holds(s.members[v].log, s.committed, s.committed.length),
        )


@invariant("595.4")
def committed_records_are_on_a_majority(m: Quorum, s: State) -> Iterator[Truth]:
    """Each committed record is on a majority of the voters, so every electing majority has a voter with the record."""
    for o in m.offsets:
        yield implies(
            s.committed.length > o,
            total(logs.same_record(s.members[v].log, s.committed, o) for v in m.voter) >= m.majority,
        )


@invariant("595.6, B6")
def hwm_is_committed(m: Quorum, s: State) -> Iterator[Truth]:
    """Every record below a member's HWM is committed and in the member's log, and so is every record of a consumer.

    A member's state machine applies the records below its HWM.
    """
    members = [
        (s.members[f], s.members[f].log.length if m.is_consumer(f) else s.members[f].hwm) for f in m.member
    ]
    for member, end in members:
        yield implies(member.hwm > UNKNOWN, _holds(member.log, s.committed, end))


@statements.logs_match.seen("595.2")
def logs_match(m: Quorum, s: State) -> Truth:
    """Compares the logs of every two members."""
    return all_of(
        statements.logs_match([logs.same_record(s.members[a].log, s.members[b].log, o) for o in m.offsets])
        for a in m.member
        for b in m.member
        if int(a) < int(b)
    )


@statements.one_leader_per_epoch.seen("595.7")
def one_leader_per_epoch(m: Quorum, s: State) -> Truth:
    """Compares the voters that believe they lead."""
    return statements.one_leader_per_epoch([(m.leads(v, s.members[v]), s.members[v].epoch) for v in m.voter])


@statements.hwm_never_moves_back.seen("595.5")
def hwm_never_moves_back(m: Quorum, s: State) -> Iterator[Truth]:
    """No member's HWM moves back while its process runs.

    A new leader forgets its HWM until it can commit in its epoch. The HWM that it then learns is not below the
    forgotten one. A replica stops with an error if it receives an HWM below its own.
    """
    for f in m.member:
        yield implies(
            (s.members[f].hwm > UNKNOWN) & (s.members[f].peak > 0),
            statements.hwm_never_moves_back(s.members[f].peak, s.members[f].hwm),
        )


@invariant("595.5")
def leaders_hwm_covers_earlier_epochs(m: Quorum, s: State) -> Iterator[Truth]:
    """A leader's HWM, once known, is past every committed record of earlier epochs.

    Clients read the HWM from leaders, so for clients the HWM does not move back after an election.
    """
    for v in m.voter:
        for o in m.offsets:
            yield implies(
                m.leads(v, s.members[v])
                & (s.members[v].hwm > UNKNOWN)
                & (s.committed.length > o)
                & (s.committed.at(o).epoch < s.members[v].epoch),
                s.members[v].hwm > o,
            )


@invariant("595.2")
def truncation_stays_above_hwm(m: Quorum, s: State) -> Iterator[Truth]:
    """No response makes a member truncate below its HWM.

    A member that receives such a response would stop with an error.
    """
    for f in m.member:
        yield implies(
            s.responses[f].is_some
            & s.responses[f].value.diverging
            & (s.responses[f].value.epoch == s.members[f].epoch),
            logs.truncation_offset(s.members[f].log, s.responses[f].value.end_epoch, s.responses[f].value.end)
            >= s.members[f].hwm,
        )


@invariant("1166.2")
def no_fetch_waits_while_there_are_records(m: Quorum, s: State) -> Iterator[Truth]:
    """A fetch stays parked only while the leader has no record for it."""
    for f in m.member:
        for leader in m.voter:
            yield implies(
                s.parked[f].is_some & (s.parked[f].value.leader == leader),
                readable(m, f, s.members[leader]) <= s.parked[f].value.offset,
            )


@invariant("1166.2, 1166.3")
def no_fetch_waits_while_its_hwm_is_behind(m: Quorum, s: State) -> Iterator[Truth]:
    """A fetch is parked only while the leader's HWM is not greater than the HWM in the fetch.

    Otherwise the sender learns of the leader's HWM up to 500 ms later, when the park timer fires. The property applies
    if sender and leader have version 18, and the sender knew at the time of the fetch that the version is finalised.
    """
    for f in m.member:
        for leader in m.voter:
            if both_support(m, f, leader):
                yield implies(
                    s.parked[f].is_some
                    & (s.parked[f].value.leader == leader)
                    & (s.parked[f].value.epoch == s.members[f].epoch)
                    & (s.parked[f].value.told | (not m.p.finalised_late)),
                    s.members[leader].hwm <= s.members[f].hwm,
                )


@invariant("1166.2")
def no_fetch_waits_while_its_log_diverges(m: Quorum, s: State) -> Iterator[Truth]:
    """A fetch is parked only while its sender's log is a prefix of the leader's log.

    Otherwise the sender, which must truncate first, waits for the park timer.
    """
    for f in m.member:
        for leader in m.voter:
            yield implies(
                s.parked[f].is_some
                & (s.parked[f].value.leader == leader)
                & (s.parked[f].value.epoch == s.members[f].epoch)
                & m.leads(leader, s.members[leader])
                & (s.members[leader].epoch == s.members[f].epoch),
                ~logs.diverges(
                    s.members[leader].log,
                    s.members[f].log.length,
                    logs.last_epoch(m.some_epoch, s.members[f].log),
                ),
            )


@invariant("1166.2, 1166.4")
def answers_bring_news(m: Quorum, s: State) -> Iterator[Truth]:
    """A response has a record, a greater HWM or a truncation offset, unless the park timer sent it.

    Otherwise leader and member exchange fetches without effect in a busy loop.
    """
    for f in m.member:
        yield implies(
            s.responses[f].is_some
            & (s.responses[f].value.epoch == s.members[f].epoch)
            & ~s.responses[f].value.timed_out,
            any_of(
                (
                    s.responses[f].value.record.is_some,
                    s.responses[f].value.hwm > s.members[f].hwm,
                    s.responses[f].value.diverging,
                )
            ),
        )


@step_property("996.1, 996.2", rule="votes_travel")
def leaders_with_a_majority_lead_on(m: Quorum, before: State, after: State) -> Iterator[Truth]:
    """A leader that a majority of the voters follows, itself included, keeps leading unless it restarts.

    A voter that was cut off and returns must not depose the leader. Some scenarios violate the property, because a
    voter grants a pre-vote if it has just started, or has not fetched from the leader yet.
    """
    for v in m.voter:
        yield implies(
            m.leads(v, before.members[v])
            & (after.budgets.restarts == before.budgets.restarts)
            & (total(_is_with(m, before, v, w) for w in m.voter) >= m.majority),
            m.leads(v, after.members[v]),
        )


def _is_with(m: Quorum, s: State, leader: Number, v: Number) -> Truth:
    """True if voter ``v`` is the leader, or follows the leader in the leader's epoch."""
    follower, other = s.members[v], s.members[leader]
    follows = m.follows(v, follower) & follower.leader.is_(leader)
    return (follower.epoch == other.epoch) & (m.leads(v, follower) if int(v) == int(leader) else follows)


# --- fetches and their answers --------------------------------------------------------------------------------


@step_property("1166.1", rule="fetch_carries_hwm", needs="finalised_late")
def finalised_members_send_their_hwm(m: Quorum, before: State, after: State) -> Iterator[Truth]:
    """A fetch carries its sender's HWM if and only if the sender knows that version 18 is finalised.

    Exception: members of older versions and consumers may always leave out the HWM.
    """
    for f in m.member:
        sent = after.requests[f].is_some & (before.requests[f] != after.requests[f])
        carries = after.requests[f].value.hwm.is_some
        yield implies(sent & carries, before.finalised[f])
        if not m.is_older(f) and not m.is_consumer(f):
            yield implies(sent & before.finalised[f], carries)


def _is_answered(before: State, after: State, f: Number) -> Truth:
    """True if the step sends a fetch response to member ``f``."""
    return after.responses[f].is_some & (before.responses[f] != after.responses[f])


def _has_reason(after: State, f: Number) -> Truth:
    """True if the response to ``f`` has a record or a truncation offset, or comes from the park timer."""
    answer = after.responses[f].value
    return answer.record.is_some | answer.diverging | answer.timed_out


@step_property("1166.4")
def fetches_without_hwm_wait_for_records(m: Quorum, before: State, after: State) -> Iterator[Truth]:
    """On arrival, a fetch without an HWM is answered only with a record or a truncation offset.

    Its sender has an older version or is a consumer, so a greater HWM is no reason to answer it.
    """
    for f in m.member:
        request, answer = before.requests[f], after.responses[f].value
        arrives = request.is_some & request.value.hwm.is_none & after.requests[f].is_none
        reason = answer.record.is_some | answer.diverging
        yield implies(arrives & _is_answered(before, after, f), reason)


@step_property("1166.5", needs="consumers")
def consumers_are_answered_with_records(m: Quorum, before: State, after: State) -> Truth:
    """A consumer's fetch has no HWM; it is answered with a record, with a truncation offset, or by the park timer."""
    return all_of(
        implies(_is_answered(before, after, f), _has_reason(after, f))
        & (after.requests[f].is_none | after.requests[f].value.hwm.is_none)
        for f in m.member
        if m.is_consumer(f)
    )


@step_property("1166.4", needs="older")
def older_leaders_ignore_the_hwm_field(m: Quorum, before: State, after: State) -> Iterator[Truth]:
    """A leader below version 18 answers a fetch with a record, with a truncation offset, or by the park timer.

    It ignores the HWM field of the fetch.
    """
    for f in m.member:
        epoch = after.responses[f].value.epoch
        older = any_of(
            (epoch == e) & after.elected[e].is_(v) for e in m.epoch for v in m.voter if m.is_older(v)
        )
        yield implies(_is_answered(before, after, f) & older, _has_reason(after, f))


@step_property("1166.4", rule="timer_answers_as_parked")
def timers_answer_with_the_hwm_at_parking(m: Quorum, before: State, after: State) -> Iterator[Truth]:
    """A parked fetch keeps the HWM that its leader had at parking.

    The park timer answers the fetch with this HWM and without a record.
    """
    for f in m.member:
        old, new, sent = before.parked[f], after.parked[f], after.responses[f].value
        known = any_of((new.value.leader == v) & (new.value.answer == after.members[v].hwm) for v in m.voter)
        yield implies(new.is_some & (old != new), known)
        ended = old.is_some & new.is_none & _is_answered(before, after, f) & sent.timed_out
        yield implies(ended, (sent.hwm == old.value.answer) & sent.record.is_none)


@invariant("595.1, 595.7, F1")
def fetches_and_votes_are_received(m: Quorum, s: State) -> Iterator[Truth]:
    """A message in flight can be received: a fetch is answered, parked or refused, and any other message is handled."""
    for f in m.member:
        received = enabled("receive_fetch", f=f) | enabled("refuse_fetch", f=f)
        yield implies(s.requests[f].is_some, received)
        yield implies(s.responses[f].is_some, enabled("take_answer", f=f))
    if m.on("votes_travel"):
        for c in m.voter:
            for v in m.voter:
                yield implies(s.vote_requests[c][v].is_some, enabled("answer_vote", v=v, c=c))
                yield implies(s.vote_responses[c][v].is_some, enabled("take_vote", c=c, v=v))


@invariant("595.1, 595.3, 595.7")
def members_can_act(m: Quorum, s: State) -> Iterator[Truth]:
    """A leader can append, a follower can fetch, and a voter that does not lead can request votes.

    A member can learn the leader of a later epoch, or of its own if it knows none.
    """
    for f in m.member:
        me, silent = s.members[f], s.requests[f].is_none & s.parked[f].is_none & s.responses[f].is_none
        yield implies(m.follows(f, me) & silent, enabled("send_fetch", f=f))
        for e in m.epoch:
            news = (me.epoch < e) | ((me.epoch == e) & me.leader.is_none)
            led = s.elected[e].is_some & ~s.elected[e].is_(f)
            yield implies(led & news, enabled("learn", m=f, epoch=e))
    for v in m.voter:
        me = s.members[v]
        yield implies(m.leads(v, me) & (s.budgets.appends > 0), enabled("append", leader=v))
        if m.on("votes_travel") and m.is_impatient(v):
            waits = ~m.leads(v, me) & (me.ballot != "pre_vote") & (s.budgets.elections > 0)
            yield implies(waits, enabled("stand", c=v))


@step_property("595.8", rule="votes_travel")
def votes_stand_for_the_epoch(m: Quorum, before: State, after: State) -> Iterator[Truth]:
    """A voter that has voted does not change its vote in the epoch, whether it leads, loses or restarts."""
    for v in m.voter:
        old, new = before.members[v], after.members[v]
        yield implies(old.voted.is_some & (old.epoch == new.epoch), old.voted == new.voted)


@step_property("595.7, 595.8, 996.2", rule="votes_travel")
def votes_are_granted(m: Quorum, before: State, after: State) -> Iterator[Truth]:
    """A voter grants a vote or pre-vote of its epoch or a later one to a candidate whose log is not behind.

    Exceptions: for a pre-vote, the voter leads or has fetched from its leader; for a vote, it knows a leader, has voted
    for another candidate, or finds a record of the epoch in the candidate's log (K31).
    """
    for v in m.voter:
        for c in m.voter:
            asked, sent, me = before.vote_requests[c][v], after.vote_responses[c][v], before.members[v]
            asks, last = asked.value, asked.value.last_epoch
            answered = asked.is_some & after.vote_requests[c][v].is_none & sent.is_some
            later = asks.epoch > me.epoch
            same = last.is_(me.log.last.epoch) & (asks.offset >= me.log.length)
            whole = me.log.is_empty | (last.is_some & (last.value > me.log.last.epoch)) | same
            contact = m.leads(v, me) | (m.follows(v, me) & me.heard)
            free = me.leader.is_none & (me.voted.is_none | me.voted.is_(c))
            due = where(
                asks.pre, later | ~contact, (later | free) & (last.is_none | (last.value < asks.epoch))
            )
            yield implies(answered & (asks.epoch >= me.epoch) & whole & due, sent.value.granted)


@step_property("1166.3", rule="hwm_growth_completes")
def hwm_growth_ends_all_waits(m: Quorum, before: State, after: State) -> Iterator[Truth]:
    """A leader whose HWM grows ends every wait, also of a member that is below version 18 or knows no HWM.

    Exceptions: the leader is below version 18, or the fetch is a consumer's.
    """
    for v in m.voter:
        old, new = before.members[v], after.members[v]
        grows = m.leads(v, old) & m.leads(v, new) & (old.epoch == new.epoch) & (new.hwm > old.hwm)
        for f in m.member:
            if not m.is_older(v) and not m.is_consumer(f):
                waited = before.parked[f].is_some & (before.parked[f].value.leader == v)
                yield implies(grows & waited, after.parked[f].is_none)


# --- liveness -------------------------------------------------------------------------------------------------


_FETCHING = (
    weak("send_fetch", "take_answer")
    + weak(either("receive_fetch", "refuse_fetch"), by=["f"])
    + weak("learn_version", by=["m"])
)
_TIMER = weak("park_timer", by=["f"])
_LEARNING = weak("learn", by=["m"])

Pairs = Callable[[Quorum, Number, Number], bool]


def _every_pair(m: Quorum, f: Number, leader: Number) -> bool:
    return True


def _follows(s: State, f: Number, leader: Number) -> Truth:
    """True if member ``f`` follows ``leader``, and both are in the epoch in which ``leader`` leads."""
    follower, other = s.members[f], s.members[leader]
    return (follower.epoch == other.epoch) & follower.leader.is_(leader) & other.leader.is_(leader)


def _all_know(m: Quorum, s: State, pairs: Pairs) -> Truth:
    """True if every follower knows its leader's HWM, for the (follower, leader) pairs that satisfy ``pairs``.

    A follower knows the HWM if its own HWM is at least as large.
    """
    return all_of(
        ~_follows(s, f, leader) | (s.members[f].hwm >= s.members[leader].hwm)
        for f in m.member
        for leader in m.voter
        if int(f) != int(leader) and pairs(m, f, leader)
    )


@always_eventually("P2", fair=_FETCHING)
def hwm_comes_without_the_timer(m: Quorum, s: State) -> Truth:
    """Infinitely often every replica of version 18 knows the HWM of its leader, if the leader has version 18, too.

    This holds even if the park timer never ends a fetch.
    """
    return _all_know(m, s, both_support)


@always_eventually("1166.4", fair=_FETCHING)
def hwm_comes_to_older_without_the_timer(m: Quorum, s: State) -> Truth:
    """Infinitely often every replica, of any version, knows its leader's HWM.

    The property fails, because replicas below version 18 need the park timer.
    """
    return _all_know(m, s, _every_pair)


@always_eventually("1166.4", fair=_FETCHING + _TIMER)
def hwm_comes_with_the_timer(m: Quorum, s: State) -> Truth:
    """If the park timer ends each parked fetch, every replica eventually knows its leader's HWM."""
    return _all_know(m, s, _every_pair)


@always_eventually("595.5, 595.7", fair=_FETCHING + _LEARNING + _TIMER)
def what_a_leader_has_is_committed(m: Quorum, s: State) -> Truth:
    """Infinitely often the leader of the latest epoch has committed its whole log, and every member knows its HWM."""
    return all_of(
        ~(
            s.members[v].leader.is_(v)
            & all_of((s.members[v].epoch >= e) | s.elected[e].is_none for e in m.epoch)
        )
        | all_of(s.members[f].hwm == s.members[v].log.length for f in m.member)
        for v in m.voter
    )


@always_eventually("1166.2, 1166.4", fair=_FETCHING)
def fetches_come_to_rest(m: Quorum, s: State) -> Truth:
    """Without the park timer, infinitely often every fetch to a leader is parked: no member fetches in a busy loop."""
    return all_of(
        ~any_of(_follows(s, f, leader) for leader in m.voter if int(leader) != int(f))
        | (s.parked[f].is_some & (s.parked[f].value.epoch == s.members[f].epoch))
        for f in m.member
    )


# --- goals ----------------------------------------------------------------------------------------------------


def _votes(m: Quorum, before: State, after: State, voter: Number, candidate: Number) -> Truth:
    """True if ``candidate`` starts to lead in this step, and voter ``voter`` moves to the candidate's epoch."""
    old, new = before.members[candidate], after.members[candidate]
    elected = m.leads(candidate, new) & (~m.leads(candidate, old) | (old.epoch != new.epoch))
    moved = (before.members[voter].epoch < new.epoch) & (after.members[voter].epoch == new.epoch)
    return elected & moved


_Compared = Callable[[SeqValue, SeqValue], Truth]
"""A condition on a voter's log and a candidate's log."""


def _a_voter_votes(m: Quorum, before: State, after: State, compared: _Compared) -> Truth:
    """True if a voter votes for a candidate in this step, and ``compared`` holds for their logs, the voter's first."""
    return any_of(
        _votes(m, before, after, voter, candidate)
        & compared(before.members[voter].log, before.members[candidate].log)
        for voter in m.voter
        for candidate in m.voter
        if int(voter) != int(candidate)
    )


def _have_records(own: SeqValue, other: SeqValue) -> Truth:
    return ~own.is_empty & ~other.is_empty


@reachable("595.7")
def a_voter_votes_for_an_equal_log(m: Quorum, before: State, after: State) -> Truth:
    """A voter votes for a candidate whose log has the same last epoch and the same end as the voter's log."""

    def is_equal(own: SeqValue, other: SeqValue) -> Truth:
        same = (own.last.epoch == other.last.epoch) & (own.length == other.length)
        return _have_records(own, other) & same

    return _a_voter_votes(m, before, after, is_equal)


@reachable("595.7")
def a_voter_votes_for_a_longer_log(m: Quorum, before: State, after: State) -> Truth:
    """A voter votes for a candidate whose log is longer than the voter's log, and has the same last epoch."""

    def is_longer(own: SeqValue, other: SeqValue) -> Truth:
        longer = (own.last.epoch == other.last.epoch) & (own.length < other.length)
        return _have_records(own, other) & longer

    return _a_voter_votes(m, before, after, is_longer)


@reachable("595.7")
def a_voter_votes_for_a_later_epoch(m: Quorum, before: State, after: State) -> Truth:
    """A voter that has records votes for a candidate whose log ends in a later epoch."""

    def is_later(own: SeqValue, other: SeqValue) -> Truth:
        return _have_records(own, other) & (own.last.epoch < other.last.epoch)

    return _a_voter_votes(m, before, after, is_later)


@reachable("595.7")
def a_voter_votes_for_an_empty_log(m: Quorum, before: State, after: State) -> Truth:
    """A voter without records votes for a candidate without records."""
    return _a_voter_votes(m, before, after, lambda own, other: own.is_empty & other.is_empty)


@reachable("595.7", rule="votes_travel")
def a_candidate_asks_for_a_vote(m: Quorum, before: State, after: State) -> Truth:
    """A voter sends a vote request or a pre-vote request to another voter."""
    return any_of(
        before.vote_requests[c][v].is_none & after.vote_requests[c][v].is_some
        for c in m.voter
        for v in m.voter
    )


@reachable("996.1", rule="pre_vote")
def a_pre_vote_is_won(m: Quorum, before: State, after: State) -> Truth:
    """A voter that requests pre-votes becomes a candidate."""
    return any_of(
        (before.members[c].ballot == "pre_vote") & (after.members[c].ballot == "vote") for c in m.voter
    )


@reachable("996.1", rule="pre_vote")
def a_pre_vote_is_given_up(m: Quorum, before: State, after: State) -> Truth:
    """A voter stops requesting pre-votes without winning, and without learning of a later epoch or a leader."""

    def gives_up(c: Number) -> Truth:
        old, new = before.members[c], after.members[c]
        ends = (old.ballot == "pre_vote") & (new.ballot == "none")
        return ends & (new.epoch == old.epoch) & (new.leader == old.leader)

    quiet = (before.budgets == after.budgets) & (before.vote_responses == after.vote_responses)
    return quiet & any_of(gives_up(c) for c in m.voter)


def _hears(before: State, after: State, c: Number) -> Truth:
    """True if a member moves to a later epoch without a vote request or response, and knows no leader in that epoch."""
    old, new = before.members[c], after.members[c]
    moves = (old.epoch < new.epoch) & new.leader.is_none & (new.ballot == "none")
    quiet = before.vote_requests == after.vote_requests
    return moves & quiet & (before.vote_responses == after.vote_responses)


@reachable("595.7", rule="votes_travel")
def a_member_hears_of_an_epoch(m: Quorum, before: State, after: State) -> Truth:
    """A member learns of a later epoch, but not by a vote request or response, before it learns who leads in it."""
    return any_of(_hears(before, after, c) for c in m.member)


@reachable("595.7", rule="votes_travel")
def a_member_hears_of_an_epoch_before_a_voter(m: Quorum, before: State, after: State) -> Truth:
    """A member moves to a later epoch that another voter has not reached yet."""
    return any_of(
        _hears(before, after, c) & (after.members[o].epoch < after.members[c].epoch)
        for c in m.member
        for o in m.voter
        if int(o) != int(c)
    )


@reachable("595.1")
def a_fetch_is_refused(m: Quorum, before: State, after: State) -> Truth:
    """A fetch arrives and goes unanswered: its receiver neither answers nor parks it."""
    quiet = (before.budgets == after.budgets) & (before.members == after.members)
    return quiet & any_of(
        before.requests[f].is_some
        & after.requests[f].is_none
        & after.responses[f].is_none
        & after.parked[f].is_none
        for f in m.member
    )


@reachable("595.1")
def a_fetch_is_given_up(m: Quorum, before: State, after: State) -> Truth:
    """A member in a new epoch sends a fetch while its fetch of an earlier epoch is in flight."""
    return any_of(
        before.requests[f].is_some
        & after.requests[f].is_some
        & (before.requests[f].value.epoch != after.requests[f].value.epoch)
        for f in m.member
    )


@reachable("1166.1")
def a_member_learns_the_version(m: Quorum, before: State, after: State) -> Truth:
    """A member learns that Fetch version 18 is finalised."""
    return before.finalised != after.finalised


@reachable("K25", rule="empty_drain_completes")
def an_empty_drain_answers_a_fetch(m: Quorum, before: State, after: State) -> Truth:
    """A leader answers a parked fetch before the fetch's timer ends, and no member's state changes."""
    return (before.members == after.members) & any_of(
        before.parked[f].is_some
        & after.parked[f].is_none
        & after.responses[f].is_some
        & ~after.responses[f].value.timed_out
        for f in m.member
    )


INVARIANTS = defined(Invariant, __name__)
STEP_PROPERTIES = defined(StepProperty, __name__)
LIVENESS = defined(Liveness, __name__)
REACHABLE = goals(__name__)
