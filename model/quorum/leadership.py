"""What a leader does with its log: append, commit, and complete the fetches that are parked with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from highwater.model.language import (
    Number,
    State,
    StructValue,
    Truth,
    action,
    greatest,
    require,
    spend,
    where,
)
from highwater.model.quorum.cluster import UNKNOWN, Cluster
from highwater.model.quorum.high_watermark import epoch_start, replicated_offset


class Leadership(Cluster):
    """Appends and the high watermark."""

    def reachable_hwm(self, m: Number, member: StructValue) -> Number:
        """The offset that a majority has and that the rules let the HWM move to; −1 where there is none."""
        ends = [member.log.length if int(v) == int(m) else member.fetched[v] for v in self.counted]
        count = self.majority if self.on("majority_commits") else min(2, self.majority)
        offset = replicated_offset(ends, count)
        if self.on("own_epoch_commits"):
            offset = where(offset > epoch_start(member.log, member.epoch), offset, UNKNOWN)
        return offset

    def settle(self, s: State, m: Number, member: StructValue) -> StructValue:
        """Write a leader after a step, its HWM as far as it can be and never back. Returns what was written."""
        hwm = greatest(member.hwm, self.reachable_hwm(m, member))
        after: StructValue = member.replace(hwm=hwm, peak=greatest(member.peak, hwm))
        s.next.members[m] = after
        committed: Any = s.committed
        for offset in self.offsets:
            news = (hwm > offset) & (committed.length == offset)
            committed = where(news, committed.append(member.log.at(offset)), committed)
        s.next.committed = committed
        return after

    def answer(self, leader: StructValue, offset: Number) -> StructValue:
        """What a leader says to a fetch from this offset on: the next record, if there is one, and its HWM."""
        has_record = leader.log.length > offset
        return self.response(
            epoch=leader.epoch,
            record=where(has_record, self.some_record.some(leader.log[offset]), None),
            hwm=leader.hwm,
            diverging=False,
            end_epoch=None,
            end=0,
            timed_out=False,
        )

    def respond(self, s: State, f: Number, condition: Truth, answer: StructValue) -> None:
        """Send an answer, where the condition holds. One of an older epoch that is still under way is of no use."""
        before = s.responses[f]
        sends = condition & (before.is_none | (before.value.epoch <= answer.epoch))
        s.next.responses[f] = where(sends, s.responses.type.element.some(answer), before)

    def complete_parked(
        self, s: State, leader: Number, after: StructValue, condition: Truth, among: Iterable[Number]
    ) -> None:
        """Answer those of these members' fetches that are parked with a leader, where the condition holds."""
        for f in among:
            parked = s.parked[f]
            ends = condition & parked.is_some & (parked.value.leader == leader)
            self.respond(s, f, ends, self.answer(after, parked.value.offset))
            s.next.parked[f] = where(ends, None, parked)

    @action("KRaft", says="leader {leader} appends a record", leader="voter")
    def append(self, s: State, leader: Number) -> None:
        """A record of the leader's epoch. What waits for records is answered."""
        me = s.members[leader]
        require("the member takes itself for the leader", self.leads(leader, me))
        spend(s, "appends")
        after = self.settle(s, leader, me.replace(log=me.log.append(self.record(epoch=me.epoch))))
        if self.on("records_complete"):
            self.complete_parked(s, leader, after, self.leads(leader, me), self.member)


__all__ = ["Leadership"]
