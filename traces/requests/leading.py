"""A leader of one partition in one leader epoch, by its own log: what it heard, and how far its HWM can be.

What is not logged is kept open. The HWM is between a least and a greatest value: the greatest counts every fetch as
soon as it was taken up and the stage that waits for the fewest, the least counts it once it was surely noted and the
stage that waits for the most. Both are the model's ``advanced_hwm`` of that knowledge, which grows with what followers
have and falls with what the leader waits for, so that the true value is between them. A value that is too high for
what was read so far is kept until the lines are there of all fetches that were under way then.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from highwater.traces.requests.acting import MAX_SLOTS, UNHEARD, Acting, Bits, Leading, Ranks
from highwater.traces.requests.clocks import Apart
from highwater.traces.requests.lines import RequestLine
from highwater.traces.requests.messages import Proposal
from highwater.traces.requests.stages import CLOCKS_MS, OWN_MS, Stage

LINES_MS = 3000.0
"""Within so much time in which a node was active the lines are there of all requests that were under way."""
IDLE_MS = 200.0
"""Of the time between two lines so much counts as active: a process can be stopped for long."""
MARKS = 8192
"""So many offsets are kept at which the log was seen to be cut between records."""
UNASKED: tuple[str, ...] = ("not asked",)
TOP = 1 << 62
"""Stands above every offset."""


class Heard(Struct, gc=False, frozen=True):
    """A follower's last fetch: its offset, broker epoch, and when it was taken up."""

    offset: int
    epoch: int
    taken: float


@dataclass(slots=True)
class Claim:
    """A value of the HWM that was told: in an answer, or by an acknowledgement of the record before it."""

    hwm: int
    line: RequestLine
    exact: bool
    since: float
    """How long the node had been active then."""
    follower: int | None
    base: int | None
    leos: dict[int, int]
    """The greatest that the HWM can have been before, and where followers were then, as far as lines were read."""
    asked: tuple[int, int, int] | None = None
    """What was known when it was asked last whether the HWM reaches so far, and did not."""
    moves: int = 0
    """How often ``leos`` were changed."""


@dataclass(slots=True)
class Leadership:
    """A leader's tenure. ``hwm`` is the greatest possible, None while the one at its start is not known."""

    broker: int
    name: str
    epoch: int
    stages: list[Stage]
    acting: Acting
    patient: Acting
    slots: dict[int, int]
    is_whole: bool
    """Whether the log of its node goes back to the start of the epoch."""
    at: int = 0
    up_to: int = 0
    active: float = 0.0
    """How long the node has been active."""
    heard: dict[int, Heard] = field(default_factory=dict)
    certain: dict[int, int] = field(default_factory=dict)
    aging: deque[tuple[float, int | None, int]] = field(default_factory=deque)
    hwm: int | None = None
    low: int = 0
    is_behind: bool = False
    """Whether more was surely noted since ``low`` was found."""
    start: int | None = None
    marks: OrderedDict[int, None] = field(default_factory=OrderedDict)
    claims: list[Claim] = field(default_factory=list)
    epochs_ended: dict[int, int] = field(default_factory=dict)
    """By a former epoch where it ends in the leader's log, as it told a follower whose log diverged."""
    least_end: int = 0
    """The log goes at least so far."""
    leso: int = 0
    """The leader epoch starts at this offset or behind it."""
    appended: OrderedDict[int, bool] = field(default_factory=OrderedDict)
    """Where batches begin that were appended in this epoch, and whether that was acknowledged."""
    first_appended: int = TOP
    last_appended: int = -1
    cuts: deque[tuple[float, int, RequestLine]] = field(default_factory=deque)
    """Where followers were whose last record was of this epoch, until the lines of the writes before are there."""
    logs_writes: bool = True
    """Whether all that is appended is in the request log."""
    denied: float | None = None
    """When the broker said last that it does not lead."""
    epochs_of: dict[int, list[tuple[float, int]]] = field(default_factory=dict)
    """The broker epochs of each follower's fetches, with when each came first."""
    last_answered: float = 0.0
    welcome: set[int] = field(default_factory=set)
    """The brokers whose fetches nothing refuses in some stage that is possible now."""
    watched: frozenset[int] = frozenset()
    """The brokers of whose fetches it is asked whether they make them eligible."""
    apart: Apart | None = None
    """What shows that the clock of its node is off."""
    over: float = float("inf")
    """When the broker surely knew, by the controller's clock, that the leader epoch was over."""
    proposed: dict[int, list[Proposal]] = field(default_factory=dict)
    """Its proposals by partition epoch, in the order of their arrival."""

    # --- time -----------------------------------------------------------------------------------------

    def go_on(self, now: float) -> None:
        """The stages that are possible at a time of the leader's clock."""
        stages, at, up_to = self.stages, self.at, self.up_to
        last = len(stages) - 1
        if at == last:
            return
        while up_to < last and stages[up_to + 1].since <= now + CLOCKS_MS:
            up_to += 1
        while at < up_to and stages[at + 1].reached <= now - CLOCKS_MS:
            at += 1
        if at != self.at or up_to != self.up_to:
            self.at, self.up_to = at, up_to
            self.welcome.clear()

    def settle_until(self, time: float) -> None:
        """What ended before this time was surely noted by then: the least that the HWM can be."""
        aging, certain = self.aging, self.certain
        while aging and aging[0][0] <= time:
            _, follower, offset = aging.popleft()
            if follower is None:
                if offset > self.low:
                    self.low = offset
            elif certain.get(follower, -1) < offset:
                certain[follower] = offset
                self.is_behind = True

    def least(self) -> int:
        """The least that the HWM can be; found out when it is asked for, as it seldom is."""
        if self.is_behind:
            self.is_behind = False
            self.low = max(self.low, self._least())
        return self.low

    def answer_refused(self, f: int) -> tuple[str, ...]:
        """What refuses a fetch of a broker in all stages that are possible (B2, 903.2): nothing, of a replica."""
        if f in self.welcome:
            return ()
        slot, found = self.slots.get(f), UNASKED
        if slot is None:
            nobody = Leading(1, -1, 1, 1, (UNHEARD,) * self.acting.slots, 0, 0)
            return self.acting.answered(nobody, 1, 0, False).refused_by
        for stage in self.possible():
            found = stage.answers.get(f, UNASKED)
            if found is UNASKED:
                leading, _ = self.ranked(stage, {}, 0)
                found = stage.answers[f] = self.acting.answered(leading, slot, 0, False).refused_by
            if not found:
                self.welcome.add(f)
                return ()
        return found

    # --- the HWM --------------------------------------------------------------------------------------

    def ranked(
        self, stage: Stage, leos: dict[int, int], hwm: int, others: Sequence[int] = (), end: int = TOP
    ) -> tuple[Leading, list[int]]:
        """The leader in ranks as it goes by a stage, and the offsets that the ranks are of."""
        offsets = sorted({hwm, end, *leos.values(), *others})
        return Leading(*self._bits(stage), *self._ranks(offsets, leos, hwm, end)), offsets

    def _ranks(self, offsets: list[int], leos: dict[int, int], hwm: int, end: int) -> Ranks:
        slots, leo, rank = self.slots, [UNHEARD] * self.acting.slots, offsets.index
        for broker, offset in leos.items():
            leo[slots[broker]] = rank(offset)
        return tuple(leo), rank(hwm), rank(end)

    def _settled(
        self, acting: Acting, stages: Sequence[Stage], leos: dict[int, int], hwm: int, end: int = TOP
    ) -> list[int]:
        """To where the HWM goes in each of these stages."""
        offsets = sorted({hwm, end, *leos.values()})
        ranks = self._ranks(offsets, leos, hwm, end)
        return [offsets[acting.settles(stage.bits or self._bits(stage), ranks)] for stage in stages]

    def _bits(self, stage: Stage) -> Bits:
        if stage.bits is None:
            stage.bits = self._found_bits(stage)
        return stage.bits

    def _found_bits(self, stage: Stage) -> Bits:
        """ISR, proposed ISR, replicas as sets of slots, and min ISR."""
        state, slots = stage.version.state, self.slots
        proposed = -1 if stage.proposed is None else sum(1 << slots[b] for b in stage.proposed)
        isr, replicas = (sum(1 << slots[b] for b in members) for members in (state.isr, state.replicas))
        return isr, proposed, replicas, min(stage.min_isr, self.acting.slots)

    def possible(self, since: float | None = None) -> list[Stage]:
        """The stages that the leader can be in, or can have been in since a time of its clock."""
        first = self.at
        if since is not None:
            while first and self.stages[first].reached > since - CLOCKS_MS:
                first -= 1
        return self.stages[first : self.up_to + 1]

    def _least(self) -> int:
        end = max(self.least_end, self.low)
        found = min(self._settled(self.patient, self.possible(), self.certain, self.low, end))
        return found if found < TOP else self.low

    def greatest(self, since: float | None = None) -> int | None:
        """The greatest that the HWM can be as things are, or were since then; None where nothing bounds it."""
        if self.hwm is None:
            return None
        found = self.reached(self.hwm, self.leos(), since)
        # Where it waits for nobody, how far it goes shows in what is told next.
        self.hwm = found
        if found is None:
            self.start = None
        return found

    def leos(self) -> dict[int, int]:
        """Where each follower was at its last fetch; anywhere, where that can have been before the log begins."""
        found = {broker: heard.offset for broker, heard in self.heard.items()}
        if not self.is_whole:
            for broker, slot in self.slots.items():
                if slot and broker not in found:
                    found[broker] = TOP
        return found

    def reached(self, base: int, leos: dict[int, int], since: float | None) -> int | None:
        """How far the HWM can have come from there, in the stages since a time; None where nothing bounds it."""
        found = max(base, *self._settled(self.acting, self.possible(since), leos, base))
        return None if found == TOP else found

    def least_after(self, follower: int, offset: int, since: float) -> int:
        """The least that the HWM can be once a follower was surely noted at an offset."""
        certain = {**self.certain, follower: max(offset, self.certain.get(follower, 0))}
        end = max(self.least_end, self.low)
        return min(self._settled(self.patient, self.possible(since), certain, self.low, end))

    def told(self, hwm: int) -> None:
        """An answer told this HWM; the first one is what it was at the start, or became since."""
        if self.hwm is None or hwm > self.hwm:
            self.hwm = hwm
        if self.start is None:
            self.start = hwm

    def mark(self, offset: int) -> None:
        """The log can be cut here: a follower was here, or a batch begins."""
        self.marks[offset] = None
        if len(self.marks) > MARKS:
            self.marks.popitem(last=False)

    def is_possible(self, claim: Claim, since: float) -> bool:
        """Whether the HWM can have been as claimed, by what is known up to now; the last news are of ``since``."""
        if claim.base is not None and claim.hwm > claim.base:
            known = self.at, self.up_to, claim.moves
            if claim.asked == known:
                return False
            high = self.reached(claim.base, claim.leos, since)
            if high is not None and claim.hwm > high:
                claim.asked = known
                return False
        return not claim.exact or self.can_be(claim.hwm)

    def can_be(self, hwm: int) -> bool:
        """Whether the HWM can have had this value: it is where some log ends, or where it was at the start."""
        return hwm in self.marks or hwm == self.start

    def broker_epoch(self, follower: int, epoch: int, taken: float) -> None:
        """A follower fetched with this broker epoch."""
        known = self.epochs_of.setdefault(follower, [])
        if not known or known[-1][1] != epoch:
            known.append((taken, epoch))
            del known[:-8]

    def append(self, offset: int) -> bool | None:
        """A batch begins here. Whether it was appended now; None where an earlier leader must have appended it."""
        if offset in self.appended:
            return False
        if offset < self.leso:
            return None
        self.appended[offset] = False
        if len(self.appended) > MARKS:
            self.appended.popitem(last=False)
        self.mark(offset)
        self.first_appended = min(self.first_appended, offset)
        self.last_appended = max(self.last_appended, offset)
        self.least_end = max(self.least_end, offset)
        return True

    def inside(self) -> tuple[int, RequestLine] | None:
        """An offset at which a follower was, and at which no batch begins though there is one behind it."""
        cuts, over = self.cuts, self.active - LINES_MS
        while cuts and cuts[0][0] < over:
            _, offset, line = cuts.popleft()
            is_within = self.first_appended < offset < self.last_appended
            if is_within and offset not in self.appended and self.logs_writes:
                return offset, line
        return None

    def slot_of(self, broker: int) -> int | None:
        """The slot of a broker, where it has to do with the partition."""
        return self.slots.get(broker)


def slots_for(leader: int, stages: Sequence[Stage]) -> dict[int, int] | None:
    """Slots for all that have to do with a leader epoch, the leader first; None where they are too many."""
    members = {
        b for s in stages for b in (*s.version.state.replicas, *s.version.state.isr, *(s.proposed or ()))
    }
    others = sorted(members - {leader})
    if len(others) + 1 > MAX_SLOTS:
        return None
    return {leader: 0, **{broker: i for i, broker in enumerate(others, start=1)}}


__all__ = ["LINES_MS", "OWN_MS", "TOP", "Claim", "Heard", "Leadership", "slots_for"]
