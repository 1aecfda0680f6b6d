"""The model's own actions, asked in states in which offsets are ranks.

A message is about few offsets: where each follower is, the HWM, the end of the log. What the model's actions do depends
on their order alone, as they only compare offsets and take the least or the greatest of them. So the offsets of
one step become their ranks, a record of the model stands for all records between two of them, and epochs become ranks
in the same way. A state in the model's own types is made of these, and the action is taken in it. What it says is
kept, as the same order of offsets comes again and again.

The leader is slot 0; the others have slots in an order that their caller knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from highwater.model.language import graph
from highwater.model.language.function import encoder
from highwater.model.language.interpreter import Evaluate, compile_nodes
from highwater.model.language.model import Instance, Scalars, state_inputs, trace_instance
from highwater.model.language.protocol import Parameter
from highwater.model.language.tracing import tracing
from highwater.model.replication import high_watermark
from highwater.model.replication.protocol import Replication
from highwater.model.replication.rules import PROFILES

MAX_SLOTS = 8
"""So many brokers can have to do with a partition at a time: its leader, replicas, and who is in its ISR."""
RANKS = 12
"""More different offsets than this are in no step."""
UNHEARD = -1
"""In the place of the rank of an offset: the leader has heard no fetch."""
_KEPT = 200_000


class _Large(Replication):
    """The protocol with room for as many brokers and ranks as a real partition needs. It has no rule of its own."""

    parameters = {
        **Replication.parameters,
        "brokers": Parameter(3, 2, MAX_SLOTS, "brokers that have to do with the partition"),
        "replication_factor": Parameter(3, 1, MAX_SLOTS, "replicas of the partition"),
        "records": Parameter(1, 1, RANKS, "ranks of offsets"),
    }


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


class _Compiled:
    """An action with its parameters fixed: the guards one by one, and what it writes."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.names = tuple(g.name for g in instance.guards)
        self.leaves = tuple(instance.writes)
        self.guards: Evaluate = compile_nodes([g.node for g in instance.guards])
        self.writes: Evaluate = compile_nodes([w.node for w in instance.writes.values()])


class Acting:
    """The protocol for so many slots and these rules. Every answer is kept, up to a limit."""

    def __init__(self, slots: int, rules: frozenset[str]) -> None:
        self.slots = slots
        self.protocol = _Large(
            {
                "brokers": slots,
                "replication_factor": slots,
                "records": RANKS,
                "min_isr": 1,
                "min_isr_changes": 1,
                "losses": 1,
                "shrinks": 1,
            },
            rules,
        )
        protocol = self.protocol
        self._leaves = protocol.state.leaves("")
        self._inputs = state_inputs(self._leaves)
        self._at = {leaf.path: i for i, leaf in enumerate(self._leaves)}
        self._actions = {a.name: a for a in protocol.actions()}
        self._compiled: dict[tuple[str, tuple[int, ...]], _Compiled | None] = {}
        scalars: list[int] = []
        encoder(protocol.state)(self._known(protocol.initial()[0], protocol.state), scalars)
        self._template = scalars
        self._settle = self._traced_settle()
        self._kept: dict[Any, Any] = {}
        self._settled: dict[tuple[Bits, Ranks], int] = {}

    def _known(self, plain: Mapping[str, Any], type: Any) -> dict[str, Any]:
        return {name: plain[name] for name in type.fields}

    def _traced_settle(self) -> Evaluate:
        """How far the HWM of slot 0 goes: the model's function, over a state."""
        protocol = self.protocol
        start = next(i for i, leaf in enumerate(self._leaves) if leaf.path.startswith("brokers[0]."))
        with tracing(protocol.on):
            size = protocol.broker_type.leaf_count
            broker = protocol.broker_type.wrap(self._inputs[start : start + size])
            hwm = high_watermark.advanced_hwm(protocol, protocol.t.broker.lift(0), broker)
        node: graph.Node = hwm.node
        return compile_nodes([node])

    def _action(self, name: str, *slots: int) -> _Compiled | None:
        key = (name, slots)
        if key not in self._compiled:
            action = self._actions[name]
            chosen: dict[str, tuple[Any, Any]] = {}
            given = iter(slots)
            for parameter, domain in action.domains.items():
                value = next(given, 0)
                index = {"broker": self.protocol.t.broker, "value": self.protocol.value}.get(domain)
                chosen[parameter] = (False, False) if index is None else (index.lift(value), value)
            instance = trace_instance(self.protocol, self._leaves, self._inputs, action, chosen)
            self._compiled[key] = None if instance is None else _Compiled(instance)
        return self._compiled[key]

    def _keep(self, key: Any, make: Callable[[], Any]) -> Any:
        if len(self._kept) >= _KEPT:
            self._kept.clear()
        found = self._kept[key] = make()
        return found

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
        found: int | None = self._settled.get((bits, ranks))
        if found is None:
            if len(self._settled) >= _KEPT:
                self._settled.clear()
            found = int(self._settle(self._state(Leading(*bits, *ranks)))[0])
            self._settled[(bits, ranks)] = found
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

    def answered(
        self, leading: Leading, f: int, offset: int, has_last: bool, fetch_epoch: int = 1, stale: bool = False
    ) -> Answered:
        """The leader answers a fetch from this rank, whose log is the leader's as far as it goes (B2, B3, B4).

        ``fetch_epoch`` is that of the fetch, where the leader's is 1. ``stale``: the leader's metadata has a later
        broker epoch of the sender.
        """
        key = ("answer", leading, f, offset, has_last, fetch_epoch, stale)
        found: Answered | None = self._kept.get(key)
        if found is None:

            def ask() -> Answered:
                state = self._state(leading)
                self._with_fetch(state, f, offset, 1 if has_last else -1, fetch_epoch, 0)
                state[self._at[f"brokers[0].view.epochs[{f}]"]] = int(stale)
                return self._answer(state, f)

            found = self._keep(key, ask)
        return found

    def diverges(self, offset: int, last_epoch: int, epochs: Sequence[int]) -> Answered:
        """The answer (B3) to a fetch from this rank and this last epoch; of the log's records these are the epochs.

        The leader's epoch is 3, and the epochs are 0 to 3.
        """
        key = ("diverges", offset, last_epoch, tuple(epochs))
        found: Answered | None = self._kept.get(key)
        if found is None:

            def ask() -> Answered:
                leos = (UNHEARD,) * self.slots
                state = self._state(Leading(1, -1, 3, 1, leos, 0, len(epochs)), epoch=3)
                for i, epoch in enumerate(epochs):
                    state[self._at[f"brokers[0].log[{i}].epoch"]] = epoch
                self._with_fetch(state, 1, offset, last_epoch, 3, 0)
                return self._answer(state, 1)

            found = self._keep(key, ask)
        return found

    def _answer(self, state: list[int], f: int) -> Answered:
        action = self._action("answer_fetch", 0, f)
        assert action is not None
        holds = action.guards(state)
        refused = tuple(n for n, h in zip(action.names, holds, strict=True) if not h)
        after = state.copy()
        for leaf, value in zip(action.leaves, action.writes(state), strict=True):
            after[leaf] = int(value)
        at, answer = self._at, f"fetch_responses[{f}]"
        return Answered(
            refused, after[at["brokers[0].hwm"]], bool(after[at[f"{answer}.diverging"]]),
            after[at[f"{answer}.epoch"]], after[at[f"{answer}.end"]],
        )  # fmt: skip

    def refuses(self, leads: bool, epoch: int, stale: bool = False) -> bool:
        """Whether a broker may refuse a fetch of epoch 1 (B2): by whether it leads, and the epoch that it knows."""
        key = ("refuse", leads, epoch, stale)
        found = self._kept.get(key)
        if found is None:

            def ask() -> bool:
                leos = (UNHEARD,) * self.slots
                state = self._state(Leading(3, -1, 3, 1, leos, 0, 0), epoch=epoch)
                state[self._at["brokers[0].view.leader"]] = 0 if leads else 1
                state[self._at["brokers[0].view.epochs[1]"]] = int(stale)
                self._with_fetch(state, 1, 0, -1, 1, 0)
                return not self._refusals("refuse_fetch", state, 1)

            found = self._keep(key, ask)
        return bool(found)

    def _refusals(self, name: str, state: Scalars | list[int], *slots: int) -> tuple[str, ...]:
        action = self._action(name, *slots)
        assert action is not None, name
        return tuple(n for n, h in zip(action.names, action.guards(state), strict=True) if not h)

    def goes_on_from(self, offset: int, brings: bool) -> int:
        """Where a follower whose log ends at this rank asks next (B3), by whether the answer brought a record."""
        key = ("taken", offset, brings)
        found = self._kept.get(key)
        if found is None:

            def ask() -> int:
                state, at, answer = self._template.copy(), self._at, "fetch_responses[1]"
                state[at["brokers[1].view.leader_epoch"]] = 1
                state[at["brokers[1].view.leader"]] = 0
                state[at["brokers[1].log.length"]] = offset
                state[at[f"{answer}?"]] = 1
                state[at[f"{answer}.leader_epoch"]] = 1
                state[at[f"{answer}.offset"]] = offset
                state[at[f"{answer}.record?"]] = int(brings)
                action = self._action("take_fetch_answer", 1)
                assert action is not None
                for leaf, value in zip(action.leaves, action.writes(state), strict=True):
                    state[leaf] = int(value)
                return state[at["brokers[1].log.length"]]

            found = self._keep(key, ask)
        return int(found)

    # --- clients ----------------------------------------------------------------------------------------

    def write_refused(self, leading: Leading) -> tuple[str, ...]:
        """The guards that refuse a write with acks=all (B6)."""
        key = ("write", leading.isr, leading.min_isr, leading.replicas)
        found: tuple[str, ...] | None = self._kept.get(key)
        if found is None:
            state = self._state(leading._replace(leos=(UNHEARD,) * self.slots, hwm=0, end=0))
            found = self._keep(key, lambda: self._refusals("write_acks_all", state, 0, 0))
        return found

    def acknowledgement_refused(self, leading: Leading, offset: int) -> bool:
        """Whether the record at this rank may not be acknowledged as things are (B6)."""
        key = ("acknowledge", leading, offset)
        found = self._kept.get(key)
        if found is None:

            def ask() -> bool:
                state = self._state(leading)
                for i in range(leading.end):
                    state[self._at[f"brokers[0].log[{i}].value"]] = i
                state[self._at[f"writes[{offset}]"]] = 2
                return bool(self._refusals("acknowledge", state, 0, offset))

            found = self._keep(key, ask)
        return bool(found)

    # --- proposals ----------------------------------------------------------------------------------------

    def expansion_refused(
        self, leading: Leading, f: int, leso: int, epoch_fits: bool = True
    ) -> tuple[str, ...]:
        """The guards that refuse to propose a slot for the ISR (B5, 841.1, 903.2)."""
        key = ("expand", leading, f, leso, epoch_fits)
        found: tuple[str, ...] | None = self._kept.get(key)
        if found is None:

            def ask() -> tuple[str, ...]:
                state = self._state(leading)
                state[self._at["brokers[0].leso"]] = leso
                state[self._at[f"brokers[0].view.epochs[{f}]"]] = int(not epoch_fits)
                in_epoch = self._at.get(f"brokers[0].followers[{f}].in_epoch")
                if in_epoch is not None:
                    state[in_epoch] = 1
                return self._refusals("propose_expand", state, 0, f)

            found = self._keep(key, ask)
        return found

    def may_send_another(self, one_is_under_way: bool) -> bool:
        """Whether a leader whose proposal stands may send it again, with one under way or not (B7, B8)."""
        leos = (0,) * self.slots
        state = self._state(Leading(1, 3, 3, 1, leos, 0, 0))
        state[self._at["alter_requests[0]?"]] = int(one_is_under_way)
        return not self._refusals("retry_alter_partition", state, 0)


@lru_cache(maxsize=32)
def acting(slots: int, profile: str, patient: bool = False) -> Acting:
    """The actions for so many slots, by the brokers' rules of a profile; of Kafka 4.2 where the profile is another.

    ``patient``: the HWM also waits for replicas outside the ISR that are caught up (K3), as Kafka's does.
    """
    rules = PROFILES[profile if profile in PROFILES else "kafka_4_2"].rules
    return Acting(max(2, slots), rules | {"hwm_waits_for_caught_up"} if patient else rules)
