"""The observation of a whole cluster that a state of the protocol ``replication`` leads to, by the bridge's names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from highwater.model.language import State
from highwater.model.language.graph import Evaluate, compile_nodes
from highwater.model.language.model import Model
from highwater.model.language.tracing import tracing
from highwater.model.replication.clients import has_min_isr
from highwater.model.replication.controller.types import Error
from highwater.model.replication.fetching import refusal
from highwater.model.replication.protocol import Replication

Plain = dict[str, Any]
Seen = dict[str, int]
"""The compared fields of an observation. A name, such as ``hwm[1]``, has the numbers of its broker in brackets."""


Fields = Iterator[tuple[Any, ...]]
"""Fields of a part of an observation: each a name, a value, and numbers such as a follower's or an offset."""


def named(name: str, *places: int) -> str:
    """The bridge's name of a field: ``follower.leo[1][2]`` is what leader 1 knows about broker 2."""
    return name + "".join(f"[{place}]" for place in places)


def mask(members: Iterable[int]) -> int:
    """The numbers of ``members`` as bits."""
    return sum(1 << member for member in members)


def or_else(value: int | None, otherwise: int = -1) -> int:
    """The value, or ``otherwise`` if there is none."""
    return otherwise if value is None else value


class ExpectedObservations:
    """The observation of each state of a model of ``replication``. The model's own functions decide who leads."""

    def __init__(self, model: Model) -> None:
        protocol = model.protocol
        assert isinstance(protocol, Replication)
        self.model, self.protocol = model, protocol
        with tracing(protocol.on):
            s = State(protocol.state, list(model.inputs))
            self._derived = [_derived(protocol, s, b) for b in range(protocol.p.brokers)]
            self._refusals = [compile_nodes(refusal(protocol, s, f).nodes) for f in protocol.broker]

    def refusal(self, f: int, scalars: Sequence[int]) -> str:
        """The error by which the fetch of broker ``f`` is refused in a state; NONE if the receiver is down."""
        return Error.decode(self._refusals[f](scalars))

    def __call__(self, scalars: Sequence[int]) -> Seen:
        """The fields that the bridge should observe in a state."""
        state = self.model.decode(scalars)
        found = _controller(state)
        for b, derived in enumerate(self._derived):
            for name, value, *places in (*_broker(state, b, *derived(scalars)), *_messages(state, b)):
                found[named(name, b, *places)] = int(value)
        return found


def _derived(m: Replication, s: State, b: int) -> Evaluate:
    """A function from a state to four numbers about broker ``b``.

    They are: 1 if it is up; 1 if it leads; its maximal ISR as bits; 1 if this ISR has at least min ISR members.
    """
    number = m.t.broker.lift(b)
    broker = s.brokers[number]
    found = (m.is_up(broker), m.leads(number, broker), m.maximal_isr(broker), has_min_isr(m, broker))
    return compile_nodes([value.nodes[0] for value in found])


def _controller(state: Plain) -> Seen:
    """The fields of the controller. The order of the replicas is not compared, because no rule depends on it."""
    one = state["partition"]
    found = {n: or_else(one[n]) for n in ("leader", "leader_epoch", "partition_epoch")}
    found |= {"replicas.length": len(one["replicas"])}
    found |= {n: mask(one[n]) for n in ("adding", "removing", "isr", "elr")}
    found |= {"last_known_leader": or_else(one["last_known_leader"], -2)}
    seen = {f"partition.{name}": value for name, value in found.items()}
    for b, registration in enumerate(state["registrations"]):
        for name in ("registered", "epoch", "fenced", "in_controlled_shutdown"):
            seen[f"registrations[{b}].{name}"] = int(registration[name])
    return {**seen, "min_insync_replicas": state["min_insync_replicas"]}


def _broker(state: Plain, b: int, up: int, leads: int, maximal_isr: int, enough: int) -> Fields:
    """The fields of broker ``b``, without its number."""
    broker, view = state["brokers"][b], state["brokers"][b]["view"]
    yield "broker.up", up
    if not up:
        return
    yield "broker.epoch", broker["epoch"]
    yield "view.leader", or_else(view["leader"])
    yield from ((f"view.{n}", view[n]) for n in ("leader_epoch", "partition_epoch"))
    yield "view.isr", mask(view["isr"]) if leads else -1
    if b in view["replicas"]:
        yield "view.min_isr", view["min_isr"]
    yield "view.active", mask(view["active"])
    yield from (("view.epochs", epoch, other) for other, epoch in enumerate(view["epochs"]))
    yield "log.length", len(broker["log"])
    for offset, record in enumerate(broker["log"]):
        yield from ((f"log.{n}", record[n], offset) for n in ("value", "epoch"))
    yield from ((n, broker[n]) for n in ("hwm", "leso"))
    yield "maximal_isr", maximal_isr if leads else 0
    if not leads:
        return
    for f, known in enumerate(broker["followers"]):
        heard = f != b and f in view["replicas"] and known["leo"] is not None
        yield "follower.leo", known["leo"] if heard else -1, f
        if not heard or known.get("in_epoch", True):
            yield "follower.epoch", known["broker_epoch"] if heard else -1, f
    # 2: the HWM has passed the record, but the ISR is too small to acknowledge it.
    answer = 1 if enough else 2
    for offset in range(len(broker["log"])):
        yield "acknowledged", answer if broker["hwm"] > offset else 0, offset


def _messages(state: Plain, b: int) -> Fields:
    """The fields of the messages from and to broker ``b``, without its number."""
    fetch, answer = state["fetch_requests"][b], state["fetch_responses"][b]
    yield "fetch", fetch is not None
    if fetch is not None:
        yield from ((f"fetch.{n}", fetch[n]) for n in ("leader", "leader_epoch", "offset", "broker_epoch"))
    yield "answer", answer is not None
    if answer is not None:
        yield from ((f"answer.{n}", answer[n]) for n in ("leader_epoch", "offset", "diverging"))
        record = answer["record"]
        yield "answer.record", -1 if record is None else record["value"]
        yield "answer.hwm", -1 if answer["diverging"] else answer["hwm"]
    request, decided = state["alter_requests"][b], state["alter_responses"][b]
    yield "alter", request is not None
    if request is not None:
        yield from ((f"alter.{n}", request[n]) for n in ("leader_epoch", "partition_epoch", "broker_epoch"))
        yield "alter.isr", mask(request["isr"])
        yield from (("alter.epoch", or_else(request["epochs"][m]), m) for m in request["isr"])
    yield "decision", decided is not None
    if decided is not None:
        outcome = ("COMMITTED", "REVERT", "KEEP").index(decided["outcome"])
        yield "decision.outcome", outcome
        for name in ("leader_epoch", "partition_epoch"):
            yield f"decision.{name}", -1 if outcome else decided[name]
        yield "decision.isr", -1 if outcome else mask(decided["isr"])
