"""Properties of the metadata quorum: what is committed stays, and the high watermark comes without waiting."""

from __future__ import annotations

from highwater.invariants import statements
from highwater.model.language import State, all_of, any_of, implies, invariant, total
from highwater.model.language.values import Number, SeqValue, Truth
from highwater.model.quorum import Quorum
from highwater.model.quorum.cluster import UNKNOWN
from highwater.model.quorum.leadership import readable
from highwater.model.replication import logs


def _holds(log: SeqValue, committed: SeqValue, end: Number) -> Truth:
    """Whether a log has all committed records below an offset, and none below it is not committed."""
    return all_of((end <= o) | logs.same_record(log, committed, o) for o in range(log.type.maximum))


def both_support(m: Quorum, f: Number, leader: Number) -> bool:
    """1166.4. Whether both ends of a fetch have version 18."""
    return not m.is_older(f) and not m.is_older(leader) and not m.is_consumer(f)


@statements.leader_completeness.seen("595.5, 595.7")
def leader_completeness(m: Quorum, s: State) -> Truth:
    """Of the leader of the latest epoch."""
    return all_of(
        statements.leader_completeness(
            m.leads(v, s.members[v])
            & all_of((s.members[v].epoch >= e) | s.elected[e].is_none for e in m.epoch)
            & ~s.committed.is_empty,
            _holds(s.members[v].log, s.committed, s.committed.length),
        )
        for v in m.voter
    )


@invariant("595.4")
def committed_records_are_on_a_majority(m: Quorum, s: State) -> Truth:
    """A majority of the voters holds every committed record: whoever is elected has one of them behind it."""
    return all_of(
        implies(
            s.committed.length > o,
            total(logs.same_record(s.members[v].log, s.committed, o) for v in m.voter) >= m.majority,
        )
        for o in m.offsets
    )


@invariant("595.6, B6")
def hwm_is_committed(m: Quorum, s: State) -> Truth:
    """What is below a member's HWM is committed, and it has it: its state machine applies these records.

    So is all that a consumer has read.
    """
    members = [
        (s.members[f], s.members[f].log.length if m.is_consumer(f) else s.members[f].hwm) for f in m.member
    ]
    return all_of(
        implies(member.hwm > UNKNOWN, _holds(member.log, s.committed, end)) for member, end in members
    )


@statements.logs_match.seen("595.2")
def logs_match(m: Quorum, s: State) -> Truth:
    """Of every two members."""
    return all_of(
        statements.logs_match([logs.same_record(s.members[a].log, s.members[b].log, o) for o in m.offsets])
        for a in m.member
        for b in m.member
        if int(a) < int(b)
    )


@statements.one_leader_per_epoch.seen("595.7")
def one_leader_per_epoch(m: Quorum, s: State) -> Truth:
    """Of the voters."""
    return statements.one_leader_per_epoch([(m.leads(v, s.members[v]), s.members[v].epoch) for v in m.voter])


@statements.hwm_never_moves_back.seen("595.5")
def hwm_never_moves_back(m: Quorum, s: State) -> Truth:
    """Of what a member has known since it started.

    A new leader forgets its HWM until it can commit in its epoch. That is all: the next one that it knows is not
    less. A replica that was told a lesser one would stop with an error.
    """
    return all_of(
        implies(
            (s.members[f].hwm > UNKNOWN) & (s.members[f].peak > 0),
            statements.hwm_never_moves_back(s.members[f].peak, s.members[f].hwm),
        )
        for f in m.member
    )


@invariant("595.5")
def leaders_hwm_covers_earlier_epochs(m: Quorum, s: State) -> Truth:
    """A leader that knows an HWM has it past every record of earlier epochs that is committed.

    Clients see the HWM through leaders: for them it does not move back when another one takes over.
    """
    return all_of(
        implies(
            m.leads(v, s.members[v])
            & (s.members[v].hwm > UNKNOWN)
            & (s.committed.length > o)
            & (s.committed.at(o).epoch < s.members[v].epoch),
            s.members[v].hwm > o,
        )
        for v in m.voter
        for o in m.offsets
    )


@invariant("595.2")
def truncation_stays_above_hwm(m: Quorum, s: State) -> Truth:
    """No answer makes a member truncate below its HWM; it would stop with an error."""
    return all_of(
        implies(
            s.responses[f].is_some
            & s.responses[f].value.diverging
            & (s.responses[f].value.epoch == s.members[f].epoch),
            logs.truncation_offset(s.members[f].log, s.responses[f].value.end_epoch, s.responses[f].value.end)
            >= s.members[f].hwm,
        )
        for f in m.member
    )


@invariant("1166.2")
def no_fetch_waits_while_there_are_records(m: Quorum, s: State) -> Truth:
    """A fetch is parked only while the leader has no record for it."""
    return all_of(
        implies(
            s.parked[f].is_some & (s.parked[f].value.leader == leader),
            readable(m, f, s.members[leader]) <= s.parked[f].value.offset,
        )
        for f in m.member
        for leader in m.voter
    )


@invariant("1166.2, 1166.3")
def no_fetch_waits_while_its_hwm_is_behind(m: Quorum, s: State) -> Truth:
    """A fetch is parked only while the leader's HWM is not past that of the fetching replica.

    Else the replica hears of it when the park timer ends the fetch, up to 500 ms later. It is promised where both
    have version 18.
    """
    return all_of(
        implies(
            s.parked[f].is_some
            & (s.parked[f].value.leader == leader)
            & (s.parked[f].value.epoch == s.members[f].epoch)
            & (s.parked[f].value.told | (not m.p.finalised_late)),
            s.members[leader].hwm <= s.members[f].hwm,
        )
        for f in m.member
        for leader in m.voter
        if both_support(m, f, leader)
    )


@invariant("1166.2")
def no_fetch_waits_while_its_log_diverges(m: Quorum, s: State) -> Truth:
    """A fetch is parked only while its sender's log is the beginning of the leader's.

    Else the replica, which can do nothing before it has truncated, waits for the park timer.
    """
    return all_of(
        implies(
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
        for f in m.member
        for leader in m.voter
    )


@invariant("1166.2, 1166.4")
def answers_bring_news(m: Quorum, s: State) -> Truth:
    """An answer that the park timer did not give brings a record, a greater HWM, or where to truncate.

    Else leader and replica would be busy with fetches that tell nothing.
    """
    return all_of(
        implies(
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
        for f in m.member
    )


INVARIANTS = (
    leader_completeness,
    committed_records_are_on_a_majority,
    hwm_is_committed,
    logs_match,
    one_leader_per_epoch,
    hwm_never_moves_back,
    leaders_hwm_covers_earlier_epochs,
    truncation_stays_above_hwm,
    no_fetch_waits_while_there_are_records,
    no_fetch_waits_while_its_hwm_is_behind,
    no_fetch_waits_while_its_log_diverges,
    answers_bring_news,
)
