"""The model's own actions in states in which offsets are ranks: a leader, its followers and what they fetch.

A message is about few offsets: where each follower is, the HWM, the end of the log. The leader is slot 0; the others
have slots in an order that their caller knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from highwater.model.language.state import State
from highwater.model.language.step import Memo, Stepper, with_room
from highwater.model.language.values import Number
from highwater.model.replication import leadership
from highwater.model.replication.protocol import Replication
from highwater.model.replication.rules import PROFILES

MAX_SLOTS = 8
"""The most brokers that a partition can concern at a time: its leader, its replicas, and its ISR."""
RANKS = 12
"""The most different offsets in one step."""
UNHEARD = -1
"""In the place of the rank of an offset: the leader has heard no fetch."""

Bits = tuple[int, int, int, int]
"""The first four fields of Leading."""
Ranks = tuple[tuple[int, ...], int, int]
"""Its other fields."""


class Leading(NamedTuple):
    """A leader in ranks. Sets are bits of slots; ``proposed`` is −1 where nothing is.

    ``leos`` has the rank of each slot's last fetch offset, UNHEARD for none; that of the leader itself is not looked
    at. ``end`` is the rank of the log's end.
    """

    isr: int
    proposed: int
    replicas: int
    min_isr: int
    leos: tuple[int, ...]
    hwm: int
    end: int


class Answered(NamedTuple):
    """What the model makes of a fetch: who refuses it (names of guards), the HWM after it, and the answer."""

    refused_by: tuple[str, ...]
    hwm: int
    diverging: bool
    epoch: int
    end: int


class Acting:
    """The protocol for so many slots and these rules. Every answer is remembered, up to a limit."""

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
        self._template = list(self._stepper.encode(next(iter(self._stepper.protocol.initial()))))
        self._advance = self._stepper.function(_advanced_hwm)
        self.memo, self.settled_memo = Memo(), Memo()

    # --- a leader's state -----------------------------------------------------------------------------

    def _state(self, leading: Leading, epoch: int = 1, records: int = 1) -> list[int]:
        """A state whose slot 0 leads in this epoch, with records of that one."""
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
        """The rank that the HWM goes to as things are (B4, 966.1)."""
        return self.settles(leading[:4], leading[4:])

    def settles(self, bits: Bits, ranks: Ranks) -> int:
        """The same, of a leader in two parts."""
        found: int | None = self.settled_memo.get((bits, ranks))
        return self.settled_memo.of((bits, ranks), self._settles, bits, ranks) if found is None else found

    def _settles(self, bits: Bits, ranks: Ranks) -> int:
        return int(self._advance(self._state(Leading(*bits, *ranks)))[0])

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

    def answered(
        self, leading: Leading, f: int, offset: int, has_last: bool, fetch_epoch: int = 1, stale: bool = False
    ) -> Answered:
        """The leader answers a fetch from this rank, whose log is the leader's as far as it goes (B2, B3, B4).

        ``fetch_epoch`` is that of the fetch, where the leader's is 1. ``stale``: the leader's metadata has a later
        broker epoch of the sender.
        """
        asked = leading, f, offset, has_last, fetch_epoch, stale
        return self.memo.of(("answer", asked), self._answered, *asked)

    def _answered(
        self, leading: Leading, f: int, offset: int, has_last: bool, fetch_epoch: int, stale: bool
    ) -> Answered:
        state = self._state(leading)
        self._with_fetch(state, f, offset, 1 if has_last else -1, fetch_epoch, 0)
        state[self._at[f"brokers[0].view.epochs[{f}]"]] = int(stale)
        return self._answer(state, f)

    def diverges(self, offset: int, last_epoch: int, epochs: Sequence[int]) -> Answered:
        """The answer (B3) to a fetch from this rank and this last epoch; of the log's records these are the epochs.

        The leader's epoch is 3, and the epochs are 0 to 3.
        """
        asked = offset, last_epoch, tuple(epochs)
        return self.memo.of(("diverges", asked), self._diverges, *asked)

    def _diverges(self, offset: int, last_epoch: int, epochs: tuple[int, ...]) -> Answered:
        state = self._state(self._silent(1, 3, len(epochs)), epoch=3)
        for i, epoch in enumerate(epochs):
            state[self._at[f"brokers[0].log[{i}].epoch"]] = epoch
        self._with_fetch(state, 1, offset, last_epoch, 3, 0)
        return self._answer(state, 1)

    def _silent(self, isr: int, replicas: int, end: int = 0) -> Leading:
        """A leader that has heard no fetch."""
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

    def refuses(self, leads: bool, epoch: int, stale: bool = False) -> bool:
        """Whether a broker may refuse a fetch of epoch 1 (B2): by whether it leads, and the epoch that it knows."""
        return self.memo.of(("refuse", leads, epoch, stale), self._refuses, leads, epoch, stale)

    def _refuses(self, leads: bool, epoch: int, stale: bool) -> bool:
        state = self._state(self._silent(3, 3), epoch=epoch)
        state[self._at["brokers[0].view.leader"]] = 0 if leads else 1
        state[self._at["brokers[0].view.epochs[1]"]] = int(stale)
        self._with_fetch(state, 1, 0, -1, 1, 0)
        return not self._refusals("refuse_fetch", state, 1)

    def goes_on_from(self, offset: int, brings: bool) -> int:
        """Where a follower whose log ends at this rank asks next (B3), by whether the answer brought a record."""
        return self.memo.of(("taken", offset, brings), self._goes_on_from, offset, brings)

    def _goes_on_from(self, offset: int, brings: bool) -> int:
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
        """The guards that refuse a write with acks=all (B6)."""
        silent = leading._replace(leos=(UNHEARD,) * self.slots, hwm=0, end=0)
        key = ("write", leading.isr, leading.min_isr, leading.replicas)
        return self.memo.of(key, lambda: self._refusals("write_acks_all", self._state(silent), 0, 0))

    def acknowledgement_refused(self, leading: Leading, offset: int) -> bool:
        """Whether the record at this rank may not be acknowledged as things are (B6)."""
        return self.memo.of(("acknowledge", leading, offset), self._acknowledgement_refused, leading, offset)

    def _acknowledgement_refused(self, leading: Leading, offset: int) -> bool:
        state = self._state(leading)
        for i in range(leading.end):
            state[self._at[f"brokers[0].log[{i}].value"]] = i
        state[self._at[f"writes[{offset}]"]] = 2
        return bool(self._refusals("acknowledge", state, 0, offset))

    # --- proposals ----------------------------------------------------------------------------------------

    def expansion_refused(
        self, leading: Leading, f: int, leso: int, epoch_fits: bool = True
    ) -> tuple[str, ...]:
        """The guards that refuse to propose a slot for the ISR (B5, 841.1, 903.2)."""
        asked = leading, f, leso, epoch_fits
        return self.memo.of(("expand", asked), self._expansion_refused, *asked)

    def _expansion_refused(self, leading: Leading, f: int, leso: int, epoch_fits: bool) -> tuple[str, ...]:
        state = self._state(leading)
        state[self._at["brokers[0].leso"]] = leso
        state[self._at[f"brokers[0].view.epochs[{f}]"]] = int(not epoch_fits)
        in_epoch = self._at.get(f"brokers[0].followers[{f}].in_epoch")
        if in_epoch is not None:
            state[in_epoch] = 1
        return self._refusals("propose_expand", state, 0, f)

    def may_send_another(self, one_is_under_way: bool) -> bool:
        """Whether a leader whose proposal stands may send it again, with one under way or not (B7, B8)."""
        state = self._state(Leading(1, 3, 3, 1, (0,) * self.slots, 0, 0))
        state[self._at["alter_requests[0]?"]] = int(one_is_under_way)
        return not self._refusals("retry_alter_partition", state, 0)


def _advanced_hwm(protocol: Replication, s: State) -> Number:
    """How far the HWM of slot 0 goes: the model's function, over a state."""
    hwm: Number = leadership.advanced_hwm(protocol, protocol.t.broker.lift(0), s.brokers[0])
    return hwm


@lru_cache(maxsize=32)
def acting(slots: int, profile: str, patient: bool = False) -> Acting:
    """The actions for so many slots, by the brokers' rules of a profile; of Kafka 4.2 where the profile is another.

    ``patient``: the HWM also waits for replicas outside the ISR that are caught up (K3), as Kafka's does.
    """
    rules = PROFILES[profile if profile in PROFILES else "kafka_4_2"].rules
    return Acting(max(2, slots), rules | {"hwm_waits_for_caught_up"} if patient else rules)
