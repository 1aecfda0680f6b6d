"""A leader of one partition in one leader epoch, reconstructed from its request log.

``Acting`` executes the model's actions on states with ranks in place of offsets: a message involves few offsets (those
of followers, the HWM, the end of the log). Brokers are slots, and the leader is slot 0.

``stages`` are the leader's views of the partition in a leader epoch. The metadata log has the ISRs of the epoch, and
the AlterPartition requests have the leader's proposals in between. No log shows when the leader learns of an ISR, so
at any time several stages are possible. A stage is impossible before its ISR exists, and after the leader is known to
have reached a later stage.

``Leadership`` bounds the HWM with the model's ``advanced_hwm``. The upper bound assumes that the leader records a fetch
when it reads the fetch, in the stage whose HWM waits for the fewest brokers. The lower bound uses only fetches that
were certainly recorded, in the stage whose HWM waits for the most brokers. A returned HWM that the lines so far cannot
justify is a *claim*: it is stored until the lines of all fetches in flight have been read.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from msgspec import Struct

from highwater.model.language.state import State
from highwater.model.language.step import Memo, Stepper, with_room
from highwater.model.language.values import Number
from highwater.model.replication import high_watermark
from highwater.model.replication.protocol import Replication
from highwater.model.replication.rules import PROFILES
from highwater.traces.messages.context import CLOCKS_MS, Apart
from highwater.traces.messages.metadata_index import NEVER, History
from highwater.traces.messages.request_lines import Proposal, RequestLine
from highwater.traces.reports.observed import PartitionChange

# --- acting ----------------------------------------------------------------------------------------------

MAX_SLOTS = 8
"""The most brokers in the model. A partition with more is not checked."""
RANKS = 12
"""The largest number of distinct offsets in one step."""
UNHEARD = -1
"""The rank for a follower from which the leader has received no fetch."""

Bits = tuple[int, int, int, int]
"""The first four fields of ``Leading``."""
Ranks = tuple[tuple[int, ...], int, int]
"""The last three fields of ``Leading``."""


class Leading(NamedTuple):
    """A leader's state with offsets as ranks.

    Sets are bits of slots; ``proposed`` is −1 if there is no proposed ISR. ``leos`` has the rank of each slot's last
    fetch offset, UNHEARD for none; the leader's entry is unused. ``end`` is the rank of the log's end.
    """

    isr: int
    proposed: int
    replicas: int
    min_isr: int
    leos: tuple[int, ...]
    hwm: int
    end: int


class Answered(NamedTuple):
    """The model's step for a fetch: the guards that refuse it, the HWM after it, and the fields of the answer."""

    refused_by: tuple[str, ...]
    hwm: int
    diverging: bool
    epoch: int
    end: int


_P = ParamSpec("_P")
_T = TypeVar("_T")


def _remembered(method: Callable[Concatenate[Acting, _P], _T]) -> Callable[Concatenate[Acting, _P], _T]:
    def answer(self: Acting, /, *asked: _P.args, **named: _P.kwargs) -> _T:
        key = method.__name__, asked, tuple(named.items())
        return self.memo.of(key, lambda: method(self, *asked, **named))

    return answer


class Acting:
    """Executes the protocol ``replication`` for a number of slots and a set of rules. Some results are cached."""

    def __init__(self, slots: int, rules: frozenset[str]) -> None:
        self.slots = slots
        sizes = {
            "brokers": slots,
            "replication_factor": slots,
            "records": RANKS,
            "min_isr": 1,
            "min_isr_changes": 1,
            "losses": 1,
            "shrinks": 1,
        }
        self._stepper = Stepper(with_room(Replication, sizes, rules))
        self._at = self._stepper.at
        self._template = list(self._stepper.initial)
        self._advance = self._stepper.function(_advanced_hwm)
        self.memo, self.settled_memo = Memo(), Memo()

    # --- a leader's state -----------------------------------------------------------------------------

    def _state(self, leading: Leading, epoch: int = 1, records: int = 1) -> list[int]:
        """The model's state for a leader in slot 0 in the leader epoch ``epoch``; ``records`` is its records' epoch."""
        state, at = self._template.copy(), self._at
        state[at["brokers[0].view.leader"]] = 0
        state[at["brokers[0].view.leader_epoch"]] = epoch
        state[at["brokers[0].view.isr"]] = leading.isr
        state[at["brokers[0].view.replicas"]] = leading.replicas
        state[at["brokers[0].view.min_isr"]] = leading.min_isr
        state[at["brokers[0].view.active"]] = (1 << self.slots) - 1
        if leading.proposed >= 0:
            state[at["brokers[0].proposed?"]] = 1
            state[at["brokers[0].proposed"]] = leading.proposed
        state[at["brokers[0].hwm"]] = leading.hwm
        state[at["brokers[0].log.length"]] = leading.end
        for i in range(leading.end):
            state[at[f"brokers[0].log[{i}].epoch"]] = records
        for slot in range(1, self.slots):
            place = at[f"brokers[0].followers[{slot}].leo"]
            state[place] = leading.leos[slot]
            caught_up = at.get(f"brokers[0].followers[{slot}].caught_up")
            if caught_up is not None:
                state[caught_up] = 1
        return state

    def settled(self, leading: Leading) -> int:
        """The rank to which the HWM advances in the leader's state (B4, 966.1)."""
        return self.settles(leading[:4], leading[4:])

    def settles(self, bits: Bits, ranks: Ranks) -> int:
        """The rank to which the HWM advances, for a ``Leading`` split into two tuples."""
        found: int | None = self.settled_memo.get((bits, ranks))
        if found is None:
            found = int(self._advance(self._state(Leading(*bits, *ranks)))[0])
            self.settled_memo.of((bits, ranks), lambda: found)
        return found

    # --- fetches ----------------------------------------------------------------------------------------

    def _with_fetch(
        self, state: list[int], f: int, offset: int, last_epoch: int, epoch: int, broker_epoch: int
    ) -> None:
        at, fetch = self._at, f"fetch_requests[{f}]"
        state[at[f"{fetch}?"]] = 1
        state[at[f"{fetch}.leader"]] = 0
        state[at[f"{fetch}.leader_epoch"]] = epoch
        state[at[f"{fetch}.offset"]] = offset
        state[at[f"{fetch}.last_epoch"]] = last_epoch
        state[at[f"{fetch}.broker_epoch"]] = broker_epoch

    @_remembered
    def answered(
        self, leading: Leading, f: int, offset: int, has_last: bool, fetch_epoch: int = 1, stale: bool = False
    ) -> Answered:
        """The model's answer to a fetch by slot ``f`` from the rank ``offset``.

        Rules: B2, B3, B4. The leader epoch is 1, and the follower's log is a prefix of the leader's. ``has_last``:
        the record before the offset is of epoch 1. ``stale``: the leader's metadata has a later broker epoch of the
        sender.
        """
        state = self._state(leading)
        self._with_fetch(state, f, offset, 1 if has_last else -1, fetch_epoch, 0)
        state[self._at[f"brokers[0].view.epochs[{f}]"]] = int(stale)
        return self._answer(state, f)

    @_remembered
    def diverges(self, offset: int, last_epoch: int, epochs: tuple[int, ...]) -> Answered:
        """The model's answer (B3) to a fetch from the rank ``offset`` by a follower with the last epoch ``last_epoch``.

        The leader's log has one record for each element of ``epochs``. The leader epoch is 3.
        """
        state = self._state(self._silent(1, 3, len(epochs)), epoch=3)
        for i, epoch in enumerate(epochs):
            state[self._at[f"brokers[0].log[{i}].epoch"]] = epoch
        self._with_fetch(state, 1, offset, last_epoch, 3, 0)
        return self._answer(state, 1)

    def _silent(self, isr: int, replicas: int, end: int = 0) -> Leading:
        """The state of a leader that has received no fetch."""
        return Leading(isr, -1, replicas, 1, (UNHEARD,) * self.slots, 0, end)

    def _answer(self, state: list[int], f: int) -> Answered:
        step = self._stepper.step("answer_fetch", (0, f, False))
        assert step is not None
        after, at, answer = step.after(state), self._at, f"fetch_responses[{f}]"
        return Answered(
            step.refusals(state), after[at["brokers[0].hwm"]], bool(after[at[f"{answer}.diverging"]]),
            after[at[f"{answer}.epoch"]], after[at[f"{answer}.end"]],
        )  # fmt: skip

    def _refusals(self, action: str, state: list[int], *values: int) -> tuple[str, ...]:
        step = self._stepper.step(action, values)
        assert step is not None, action
        return step.refusals(state)

    @_remembered
    def refuses(self, leads: bool, epoch: int, stale: bool = False) -> bool:
        """True if a broker may refuse a fetch with leader epoch 1 (B2).

        ``leads``: the broker leads. ``epoch`` is the leader epoch that the broker knows. ``stale``: the broker knows a
        later broker epoch of the sender.
        """
        state = self._state(self._silent(3, 3), epoch=epoch)
        state[self._at["brokers[0].view.leader"]] = 0 if leads else 1
        state[self._at["brokers[0].view.epochs[1]"]] = int(stale)
        self._with_fetch(state, 1, 0, -1, 1, 0)
        return not self._refusals("refuse_fetch", state, 1)

    @_remembered
    def goes_on_from(self, offset: int, brings: bool) -> int:
        """The rank of a follower's next fetch offset (B3) after the answer to a fetch from the rank ``offset``.

        ``brings``: the answer has a record.
        """
        state, at, answer = self._template.copy(), self._at, "fetch_responses[1]"
        state[at["brokers[1].view.leader_epoch"]] = 1
        state[at["brokers[1].view.leader"]] = 0
        state[at["brokers[1].log.length"]] = offset
        state[at[f"{answer}?"]] = 1
        state[at[f"{answer}.leader_epoch"]] = 1
        state[at[f"{answer}.offset"]] = offset
        state[at[f"{answer}.record?"]] = int(brings)
        step = self._stepper.step("take_fetch_answer", (1,))
        assert step is not None
        return step.after(state)[at["brokers[1].log.length"]]

    # --- clients ----------------------------------------------------------------------------------------

    def write_refused(self, leading: Leading) -> tuple[str, ...]:
        """The guards that refuse an acks=all write in the leader's state (B6)."""
        silent = leading._replace(leos=(UNHEARD,) * self.slots, hwm=0, end=0)
        key = ("write", leading.isr, leading.min_isr, leading.replicas)
        return self.memo.of(key, lambda: self._refusals("write_acks_all", self._state(silent), 0, 0))

    @_remembered
    def acknowledgement_refused(self, leading: Leading, offset: int) -> bool:
        """True if the leader may not acknowledge the record at the rank ``offset`` in this state (B6)."""
        state = self._state(leading)
        for i in range(leading.end):
            state[self._at[f"brokers[0].log[{i}].value"]] = i
        state[self._at[f"writes[{offset}]"]] = 2
        return bool(self._refusals("acknowledge", state, 0, offset))

    # --- proposals ----------------------------------------------------------------------------------------

    @_remembered
    def expansion_refused(
        self, leading: Leading, f: int, leso: int, epoch_fits: bool = True
    ) -> tuple[str, ...]:
        """The guards that forbid the leader to propose slot ``f`` for the ISR (B5, 841.1, 903.2).

        ``leso`` is the rank of the leader epoch's start offset. ``epoch_fits``: the broker epoch in the follower's last
        fetch is the one in the leader's metadata.
        """
        state = self._state(leading)
        state[self._at["brokers[0].leso"]] = leso
        state[self._at[f"brokers[0].view.epochs[{f}]"]] = int(not epoch_fits)
        in_epoch = self._at.get(f"brokers[0].followers[{f}].in_epoch")
        if in_epoch is not None:
            state[in_epoch] = 1
        return self._refusals("propose_expand", state, 0, f)

    def may_send_another(self, one_is_under_way: bool) -> bool:
        """True if a leader may resend its pending proposal (B7, B8). ``one_is_under_way``: a request is in flight."""
        state = self._state(Leading(1, 3, 3, 1, (0,) * self.slots, 0, 0))
        state[self._at["alter_requests[0]?"]] = int(one_is_under_way)
        return not self._refusals("retry_alter_partition", state, 0)


def _advanced_hwm(protocol: Replication, s: State) -> Number:
    """The model's function ``advanced_hwm`` for slot 0, as a function of the state."""
    hwm: Number = high_watermark.advanced_hwm(protocol, protocol.t.broker.lift(0), s.brokers[0])
    return hwm


@lru_cache(maxsize=32)
def acting(slots: int, profile: str, patient: bool = False) -> Acting:
    """The ``Acting`` for a number of slots and a profile, cached. An unknown profile gets the rules of Kafka 4.2.

    ``patient``: the HWM also waits for caught-up replicas outside the ISR (K3), as in Kafka.
    """
    rules = PROFILES[profile if profile in PROFILES else "kafka_4_2"].rules
    return Acting(max(2, slots), rules | {"hwm_waits_for_caught_up"} if patient else rules)


# --- stages ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Stage:
    """A leader's view: a version of the partition, and the ISR in the pending proposal (None: no proposal is pending).

    The view is possible from the time ``since`` on. By ``reached``, the leader is known to be in this stage or a
    later one.
    """

    version: PartitionChange
    proposed: frozenset[int] | None
    since: float
    reached: float = NEVER
    bits: Bits | None = None
    """The first fields of ``Leading`` in this stage, computed on first use."""
    answers: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """The guards that refuse each broker's fetch in this stage, computed on first use."""
    refusals: tuple[tuple[str, ...], bool] | None = None
    """The guards that refuse a write with acks=all; and True if the ISR is too small to acknowledge one."""

    @property
    def min_isr(self) -> int:
        """The effective min ISR; 1 if it is unknown, because 1 allows the most."""
        return self.version.min_isr or 1


def stages(
    history: History, epoch: int, proposals: Iterable[Proposal], knew: Callable[[int], float]
) -> list[Stage]:
    """The stages of a leader epoch in order; empty if the metadata log has no such epoch.

    ``proposals`` are the leader's in this epoch, in the order of their arrival. ``knew`` maps a metadata offset to the
    time, by the controller's clock, by which the leader had certainly replayed it.
    """
    found: list[Stage] = []
    waiting = list(proposals)
    versions = list(history.of_epoch(epoch))
    for number, version in enumerate(versions):
        found.append(Stage(version, None, version.time, knew(version.position)))
        following = versions[number + 1].time if number + 1 < len(versions) else NEVER
        while waiting and waiting[0].partition_epoch <= version.state.partition_epoch:
            proposal = waiting[0]
            later = versions[number + 1].state.partition_epoch if number + 1 < len(versions) else -1
            if later == proposal.partition_epoch and proposal.line.arrived > following + CLOCKS_MS:
                break  # a setting changed in between, but not the partition
            waiting.pop(0)
            if proposal.partition_epoch < version.state.partition_epoch:
                continue
            members = frozenset(m for m, _ in proposal.members)
            found.append(Stage(version, members, version.time, proposal.line.arrived))
            if proposal.error:
                found.append(Stage(version, None, proposal.line.arrived))
    latest = NEVER
    for stage in reversed(found):
        latest = stage.reached = min(stage.reached, latest)
    return found


# --- leading ---------------------------------------------------------------------------------------------

LINES_MS = 3000.0
"""After this much active time of a node, the lines of all requests that were in flight have been written."""
IDLE_MS = 200.0
"""Of a longer gap between two lines, only this counts as active time: the process may have been stopped."""
MARKS = 8192
"""The most batch boundaries, and the most appended batches, stored per leadership."""
UNASKED: tuple[str, ...] = ("not asked",)
TOP = 1 << 62
"""A number above every offset."""


class Heard(Struct, gc=False, frozen=True):
    """A follower's last fetch: its offset, its broker epoch, and the time when the leader read it."""

    offset: int
    epoch: int
    taken: float


@dataclass(slots=True)
class Claim:
    """A returned HWM that the lines read so far cannot justify, so it is checked again later.

    If ``exact`` is false, ``hwm`` is a lower bound of the HWM, from an acknowledged write.
    """

    hwm: int
    line: RequestLine
    exact: bool
    since: float
    """How long the node had been active at the claim, in ms."""
    follower: int | None
    base: int
    leos: dict[int, int]
    """The followers' fetch offsets at the time of the claim, by the lines read so far.

    ``base`` is the upper bound of the HWM before the claim.
    """
    asked: tuple[int, int, int] | None = None
    """The first and last possible stage, and ``moves``, at the last failed check; the same values need no new check."""
    moves: int = 0
    """The number of changes of ``leos``."""


@dataclass(slots=True)
class Leadership:
    """A broker's leadership of a partition in one leader epoch.

    ``hwm`` is the upper bound of the HWM, None while unknown, and ``low`` is the lower bound. The stages from ``at``
    to ``up_to`` (inclusive) are possible.
    """

    broker: int
    name: str
    epoch: int
    stages: list[Stage]
    acting: Acting
    patient: Acting
    slots: dict[int, int]
    is_whole: bool
    """True if the broker's request log covers the start of the leader epoch."""
    at: int = 0
    up_to: int = 0
    active: float = 0.0
    """How long the node has been active, in ms."""
    heard: dict[int, Heard] = field(default_factory=dict)
    certain: dict[int, int] = field(default_factory=dict)
    aging: deque[tuple[float, int | None, int]] = field(default_factory=deque)
    hwm: int | None = None
    low: int = 0
    is_behind: bool = False
    """True if fetches were certainly recorded, or a stage ended, since ``low`` was computed."""
    start: int | None = None
    """The first returned HWM since ``hwm`` was last unknown; None if there is none."""
    marks: OrderedDict[int, None] = field(default_factory=OrderedDict)
    claims: list[Claim] = field(default_factory=list)
    epochs_ended: dict[int, int] = field(default_factory=dict)
    """The end offsets of former leader epochs in the leader's log, from its answers to diverging followers."""
    least_end: int = 0
    """A lower bound of the end of the log."""
    leso: int = 0
    """A lower bound of the start offset of the leader epoch."""
    appended: OrderedDict[int, bool] = field(default_factory=OrderedDict)
    """The start offsets of batches appended in this epoch, each with True if it was acknowledged."""
    first_appended: int = TOP
    last_appended: int = -1
    cuts: deque[tuple[float, int, RequestLine]] = field(default_factory=deque)
    """Fetches that still wait for the lines of earlier writes: active time, fetch offset, line.

    The record before each fetch offset is of this epoch.
    """
    logs_writes: bool = True
    """False after a write with acks=0 or in a transaction: the request log then does not show every append."""
    denied: float | None = None
    """When the broker last refused a write as "not the leader"; None if it never did, or once that is reported."""
    epochs_of: dict[int, list[tuple[float, int]]] = field(default_factory=dict)
    """Per follower, the latest broker epochs of its fetches: pairs of the first fetch's time and the broker epoch."""
    last_answered: float = 0.0
    welcome: set[int] = field(default_factory=set)
    """The brokers whose fetches at least one possible stage permits."""
    watched: frozenset[int] = frozenset()
    """The brokers whose fetches can make them eligible for a pending proposal."""
    apart: Apart | None = None
    """The evidence that this broker's clock is off."""
    over: float = float("inf")
    """The time, by the broker's clock, by which it certainly knew of a later leader epoch; infinite if unknown."""
    proposed: dict[int, list[Proposal]] = field(default_factory=dict)
    """The leader's proposals by partition epoch, in the order of their arrival."""

    # --- time -----------------------------------------------------------------------------------------

    def go_on(self, now: float) -> None:
        """Update the stages that are possible at the time ``now`` of the leader's clock."""
        stages, at, up_to = self.stages, self.at, self.up_to
        last = len(stages) - 1
        if at == last:
            return
        while up_to < last and stages[up_to + 1].since <= now + CLOCKS_MS:
            up_to += 1
        while at < up_to and stages[at + 1].reached <= now - CLOCKS_MS:
            at += 1
        if at != self.at or up_to != self.up_to:
            self.is_behind |= at != self.at
            self.at, self.up_to = at, up_to
            self.welcome.clear()

    def settle_until(self, time: float) -> None:
        """Raise the lower bound of the HWM: use the fetches and the HWMs that the leader had answered by ``time``."""
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
        """The lower bound of the HWM, computed again only if it is outdated."""
        if self.is_behind:
            self.is_behind = False
            self.low = max(self.low, self._least_of(self.certain, None))
        return self.low

    def answer_refused(self, f: int) -> tuple[str, ...]:
        """The guards that refuse a broker's fetch (B2, 903.2); empty if a possible stage permits the fetch."""
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
        """The leader's state in a stage, with a rank in place of each offset, and the list of the offsets by rank.

        ``others`` are more offsets that get a rank; ``end`` is the leader's log end offset (TOP: unknown).
        """
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
        """The HWM to which the leader advances in each of ``stages``."""
        offsets = sorted({hwm, end, *leos.values()})
        ranks = self._ranks(offsets, leos, hwm, end)
        return [offsets[acting.settles(stage.bits or self._bits(stage), ranks)] for stage in stages]

    def _bits(self, stage: Stage) -> Bits:
        if stage.bits is None:
            state, slots = stage.version.state, self.slots
            proposed = -1 if stage.proposed is None else sum(1 << slots[b] for b in stage.proposed)
            isr, replicas = (sum(1 << slots[b] for b in members) for members in (state.isr, state.replicas))
            stage.bits = isr, proposed, replicas, min(stage.min_isr, self.acting.slots)
        return stage.bits

    def possible(self, since: float | None = None) -> list[Stage]:
        """The stages in which the leader can be or, with ``since``, can have been since that time of its clock."""
        first = self.at
        if since is not None:
            while first and self.stages[first].reached > since - CLOCKS_MS:
                first -= 1
        return self.stages[first : self.up_to + 1]

    def _least_of(self, certain: dict[int, int], since: float | None) -> int:
        """The lower bound of the HWM since a time, with the followers at the offsets ``certain``."""
        end = max(self.least_end, self.low)
        return min(self._settled(self.patient, self.possible(since), certain, self.low, end))

    def greatest(self, since: float | None = None) -> int | None:
        """Update and return ``hwm``, the upper bound of the HWM now or since a time; None if unknown or unbounded."""
        if self.hwm is None:
            return None
        found = self.reached(self.hwm, self.leos(), since)
        # If the HWM waits for no broker, the next answer shows its value.
        self.hwm = found
        if found is None:
            self.start = None
        return found

    def leos(self) -> dict[int, int]:
        """Each follower's last fetch offset; TOP if its last fetch may be earlier than the request log."""
        found = {broker: heard.offset for broker, heard in self.heard.items()}
        if not self.is_whole:
            for broker, slot in self.slots.items():
                if slot and broker not in found:
                    found[broker] = TOP
        return found

    def reached(self, base: int, leos: dict[int, int], since: float | None) -> int | None:
        """The greatest HWM that the leader can have reached from the HWM ``base`` since a time; None if unbounded."""
        found = max(base, *self._settled(self.acting, self.possible(since), leos, base))
        return None if found == TOP else found

    def least_after(self, follower: int, offset: int, since: float) -> int:
        """The lower bound of the HWM since a time, if a follower's fetch at an offset counts as certainly recorded."""
        noted = max(offset, self.certain.get(follower, 0))
        return self._least_of({**self.certain, follower: noted}, since)

    def told(self, hwm: int) -> None:
        """Record the HWM of an answer: raise the upper bound to it. The first such HWM becomes ``start``."""
        if self.hwm is None or hwm > self.hwm:
            self.hwm = hwm
        if self.start is None:
            self.start = hwm

    def mark(self, offset: int) -> None:
        """Record a batch boundary, such as a follower's fetch offset."""
        self.marks[offset] = None
        if len(self.marks) > MARKS:
            self.marks.popitem(last=False)

    def is_possible(self, claim: Claim, since: float) -> bool:
        """True if the lines read so far allow the claimed HWM in the stages from ``since`` on."""
        if claim.hwm > claim.base:
            known = self.at, self.up_to, claim.moves
            if claim.asked == known:
                return False
            high = self.reached(claim.base, claim.leos, since)
            if high is not None and claim.hwm > high:
                claim.asked = known
                return False
        return not claim.exact or self.can_be(claim.hwm)

    def can_be(self, hwm: int) -> bool:
        """True if the HWM can have had this value: it is a known batch boundary, or ``start``."""
        return hwm in self.marks or hwm == self.start

    def broker_epoch(self, follower: int, epoch: int, taken: float) -> None:
        """Record the broker epoch with which a follower fetched, and the time of the fetch."""
        known = self.epochs_of.setdefault(follower, [])
        if not known or known[-1][1] != epoch:
            known.append((taken, epoch))
            del known[:-8]

    def append(self, offset: int) -> bool | None:
        """Record the start offset of a batch. Returns True if it is new, False if it is known.

        Returns None, and records nothing, if an earlier leader appended the batch.
        """
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
        """Remove from ``cuts`` and return the next fetch offset inside a batch, and its line; None if there is none."""
        cuts, over = self.cuts, self.active - LINES_MS
        while cuts and cuts[0][0] < over:
            _, offset, line = cuts.popleft()
            is_within = self.first_appended < offset < self.last_appended
            if is_within and offset not in self.appended and self.logs_writes:
                return offset, line
        return None


def slots_for(leader: int, stages: Sequence[Stage]) -> dict[int, int] | None:
    """Slots for all brokers of a leader epoch, the leader first; None if there are too many brokers."""
    members = {
        b for s in stages for b in (*s.version.state.replicas, *s.version.state.isr, *(s.proposed or ()))
    }
    others = sorted(members - {leader})
    if len(others) + 1 > MAX_SLOTS:
        return None
    return {leader: 0, **{broker: i for i, broker in enumerate(others, start=1)}}
