"""Members fetch, leaders answer or park the fetch, and the park timer ends it."""

from __future__ import annotations

from typing import Any

from highwater.model.language import (
    Number,
    OptionValue,
    State,
    StructValue,
    Truth,
    action,
    as_bool,
    greatest,
    least,
    require,
    spend,
    where,
)
from highwater.model.quorum.cluster import UNKNOWN
from highwater.model.quorum.leadership import Leadership
from highwater.model.replication import logs


class Fetching(Leadership):
    """Actions of fetches."""

    def carried_hwm(self, f: Number, member: StructValue) -> OptionValue:
        """1166.1. The HWM field of a member's fetch; none: it is not there, or has its default."""
        if self.is_older(f) or not self.on("fetch_carries_hwm"):
            return self.hwm_field.none()
        told = self.hwm_field.some(member.hwm)
        if self.on("unknown_hwm_is_told"):
            return told
        return where(member.hwm == UNKNOWN, None, told)

    def may_park(self, leader: Number, remote: OptionValue, hwm: Number) -> Truth:
        """1166.2, 1166.4. Whether a leader with this HWM may park a fetch that has no new records."""
        if self.is_older(leader) or not self.on("behind_is_answered"):
            return as_bool(True)
        missing = as_bool(True) if self.on("missing_hwm_is_greatest") else hwm <= UNKNOWN
        told = hwm <= remote.value if self.on("equal_hwm_parks") else hwm < remote.value
        parks: Truth = where(remote.is_some, told, missing)
        return parks

    @action("KRaft, 1166.1", says="member {f} sends a fetch", f="member")
    def send_fetch(self, s: State, f: Number) -> None:
        """From its LEO, with its epoch, the epoch of its last record and its HWM."""
        me, before, parked = s.members[f], s.requests[f], s.parked[f]
        require("the member knows a leader", self.follows(f, me))
        require("no answer is under way", s.responses[f].is_none)
        require("no fetch of this epoch is under way", before.is_none | (before.value.epoch != me.epoch))
        require("no fetch of this epoch is parked", parked.is_none | (parked.value.epoch != me.epoch))
        s.next.requests[f] = self.request(
            leader=me.leader.value,
            epoch=me.epoch,
            offset=me.log.length,
            last_epoch=logs.last_epoch(self.some_epoch, me.log),
            hwm=self.carried_hwm(f, me),
        )

    @action(
        "KRaft, 1166.2, 1166.3",
        says="leader {leader} takes the fetch of member {f}",
        leader="voter",
        f="member",
    )
    def receive_fetch(self, s: State, leader: Number, f: Number) -> None:
        """The leader notes how far a voter is, which can move its HWM, and then answers the fetch or parks it."""
        request, me = s.requests[f], s.members[leader]
        require("a fetch is under way", request.is_some)
        fetch = request.value
        require("it is for this member", fetch.leader == leader)
        require("the fetch can be used", self.can_use(leader, me, fetch))
        diverging = as_bool(False)
        if self.on("divergence_check"):
            diverging = logs.diverges(me.log, fetch.offset, fetch.last_epoch)
        noted = me
        if int(f) < self.counted.size:
            noted = me.replace(fetched=where(diverging, me.fetched, me.fetched.set(f, fetch.offset)))
        after = self.settle(s, leader, noted)
        plain = self.answer(after, fetch.offset)
        end = logs.end_offset_for_epoch(me.log, fetch.last_epoch.value)
        end_epoch = where(end > 0, self.some_epoch.some(logs.epoch_before(me.log, end)), None)
        truncate = plain.replace(diverging=True, record=None, end_epoch=end_epoch, end=end)
        parks = ~diverging & plain.record.is_none & self.may_park(leader, fetch.hwm, after.hwm)
        s.next.requests[f] = None
        self.respond(s, f, ~parks, where(diverging, truncate, plain))
        as_parked: dict[str, Any] = {"answer": after.hwm} if self.on("timer_answers_as_parked") else {}
        kept = self.parked_type(leader=leader, epoch=me.epoch, offset=fetch.offset, **as_parked)
        s.next.parked[f] = where(parks, s.parked.type.element.some(kept), s.parked[f])
        if self.on("hwm_growth_completes") and not self.is_older(leader):
            others = [g for g in self.member if int(g) != int(f)]
            self.complete_parked(s, leader, after, after.hwm > me.hwm, others)

    def can_use(self, m: Number, member: StructValue, fetch: StructValue) -> Truth:
        """Whether a member takes itself for the leader, and a fetch for one of its epoch."""
        usable = self.leads(m, member)
        return usable & (fetch.epoch == member.epoch) if self.on("fetch_epoch_check") else usable

    @action("KRaft", says="the fetch of member {f} is refused", f="member")
    def refuse_fetch(self, s: State, f: Number) -> None:
        """It came to a member that does not lead, or not in its epoch."""
        request = s.requests[f]
        require("a fetch is under way", request.is_some)
        for m in self.voter:
            usable = self.can_use(m, s.members[m], request.value)
            require(f"member {int(m)}, if it is for it, cannot use it", (request.value.leader != m) | ~usable)
        s.next.requests[f] = None

    @action(
        "1166.4",
        says="the park timer of leader {leader} ends the fetch of member {f}",
        leader="voter",
        f="member",
    )
    def park_timer(self, s: State, leader: Number, f: Number) -> None:
        """500 ms are over: the fetch is answered without records."""
        parked, me = s.parked[f], s.members[leader]
        require("there is a park timer", bool(self.p.timer))
        require("the fetch is parked", parked.is_some)
        require("it is parked with this leader", parked.value.leader == leader)
        hwm = parked.value.answer if self.on("timer_answers_as_parked") else me.hwm
        answer = self.answer(me, parked.value.offset)
        late = answer.replace(epoch=parked.value.epoch, record=None, hwm=hwm, timed_out=True)
        self.respond(s, f, parked.is_some, late)
        s.next.parked[f] = None

    @action("KRaft", says="member {f} takes the answer to its fetch", f="member")
    def take_answer(self, s: State, f: Number) -> None:
        """It appends the record or truncates its log, and takes over the HWM."""
        me, response = s.members[f], s.responses[f]
        require("an answer is under way", response.is_some)
        answer = response.value
        current = self.follows(f, me)
        if self.on("fetch_response_check"):
            current = current & (answer.epoch == me.epoch)
        appended = where(answer.record.is_some, me.log.append(answer.record.value), me.log)
        end = logs.truncation_offset(me.log, answer.end_epoch, answer.end)
        log = where(answer.diverging, me.log.truncate(end), appended)
        told = least(answer.hwm, log.length) if self.on("hwm_within_log") else answer.hwm
        hwm = where(answer.diverging | (answer.hwm == UNKNOWN), me.hwm, told)
        after = me.replace(log=log, hwm=hwm, peak=greatest(me.peak, hwm))
        s.next.members[f] = where(current, after, me)
        s.next.responses[f] = None

    @action("faults", says="the fetch of member {f}, or its answer, is lost", f="member")
    def lose_fetch(self, s: State, f: Number) -> None:
        """The connection breaks; a fetch that is parked is lost with it."""
        under_way = s.requests[f].is_some | s.parked[f].is_some | s.responses[f].is_some
        require("a fetch or an answer is under way", under_way)
        spend(s, "losses")
        s.next.requests[f] = None
        s.next.parked[f] = None
        s.next.responses[f] = None


__all__ = ["Fetching"]
