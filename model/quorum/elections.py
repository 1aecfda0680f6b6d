"""Elections, how members learn of them, and restarts."""

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
from highwater.model.quorum.cluster import UNKNOWN
from highwater.model.quorum.fetching import Fetching


class Elections(Fetching):
    """Actions of leadership's changes."""

    def is_up_to_date(self, candidate: StructValue, voter: StructValue) -> Truth:
        """Whether a voter can vote for a candidate: a later last epoch, or the same and a LEO not behind."""
        ours, theirs = candidate.log, voter.log
        later = ours.last.epoch > theirs.last.epoch
        same = (ours.last.epoch == theirs.last.epoch) & (ours.length >= theirs.length)
        return theirs.is_empty | (~ours.is_empty & (later | same))

    def stepped_down(self, member: StructValue, **changes: object) -> StructValue:
        """A member that leads no more. The HWM that it knows it keeps."""
        return member.replace(fetched=[-1] * self.counted.size, **changes)

    def drop_parked(self, s: State, *members: Number) -> None:
        """Fetches that are parked with these members, who lead no more, end."""
        for f in self.member:
            parked = s.parked[f]
            here = any_of(parked.value.leader == m for m in members)
            s.next.parked[f] = where(parked.is_some & here, None, parked)

    @action(
        "KRaft",
        says="member {candidate} is elected leader by the members {electorate}",
        candidate="voter",
        electorate="electorates",
    )
    def elect(self, s: State, candidate: Number, electorate: SetValue) -> None:
        """A majority, the candidate in it, moves to a new epoch and votes for one that is not behind it."""
        voters = [v for v in self.voter if electorate.has(v)]
        require("the candidate votes for itself", electorate.has(candidate))
        me = s.members[candidate]
        require("the candidate does not lead", ~self.leads(candidate, me))
        spend(s, "elections")
        if self.on("up_to_date_vote"):
            for v in voters:
                require(f"the candidate is not behind member {int(v)}", self.is_up_to_date(me, s.members[v]))
        epoch = greatest(0, *(s.members[v].epoch for v in voters)) + 1
        for v in voters:
            if int(v) != int(candidate):
                s.next.members[v] = self.stepped_down(s.members[v], epoch=epoch, leader=None)
        hwm = UNKNOWN if self.on("new_leader_forgets_hwm") else me.hwm
        log = me.log.append(self.record(epoch=epoch)) if self.on("leader_change_record") else me.log
        leader = self.stepped_down(me, epoch=epoch, leader=candidate, log=log, hwm=hwm)
        self.settle(s, candidate, leader)
        for e in self.epoch:
            s.next.elected[e] = where(epoch == e, candidate, s.elected[e])
        self.drop_parked(s, *voters)

    @action("KRaft", says="member {m} learns who leads in epoch {epoch}", m="member", epoch="epoch")
    def learn(self, s: State, m: Number, epoch: Number) -> None:
        """By BeginQuorumEpoch, or by the answer of a member that knows."""
        me, leader = s.members[m], s.elected[epoch]
        require("another member was elected in the epoch", leader.is_some & ~leader.is_(m))
        news = (me.epoch < epoch) | ((me.epoch == epoch) & me.leader.is_none)
        require("it is news to the member", news)
        s.next.members[m] = self.stepped_down(me, epoch=epoch, leader=leader)
        self.drop_parked(s, m)

    @action("faults", says="member {m} restarts", m="member")
    def restart(self, s: State, m: Number) -> None:
        """It has its log and its epoch, knows no HWM and no leader, and leads no more. Its connections are gone."""
        me = s.members[m]
        spend(s, "restarts")
        s.next.members[m] = self.stepped_down(me, leader=None, hwm=UNKNOWN, peak=UNKNOWN)
        s.next.requests[m] = None
        s.next.responses[m] = None
        for f in self.member:
            parked = s.parked[f]
            ends = parked.is_some & ((parked.value.leader == m) | (f == m))
            s.next.parked[f] = where(ends, None, parked)


__all__ = ["Elections"]
