"""The observation of a whole cluster that a state of the protocol ``replication`` leads to, in the bridge's order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
Seen = list[tuple[str, int | None]]
"""The fields of an observation in the order of the bridge; None: not compared."""


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
        found = _controller(self.protocol, state)
        for b, derived in enumerate(self._derived):
            found += _broker(self.protocol, state, b, *derived(scalars))
        for b in range(self.protocol.p.brokers):
            found += _messages(self.protocol, state, b)
        return found


def _derived(m: Replication, s: State, b: int) -> Evaluate:
    """A function from a state to four numbers about broker ``b``.

    They are: 1 if it is up; 1 if it leads; its maximal ISR as bits; 1 if this ISR has at least min ISR members.
    """
    number = m.t.broker.lift(b)
    broker = s.brokers[number]
    found = (m.is_up(broker), m.leads(number, broker), m.maximal_isr(broker), has_min_isr(m, broker))
    return compile_nodes([value.nodes[0] for value in found])


def _controller(protocol: Replication, state: Plain) -> Seen:
    one, brokers = state["partition"], range(protocol.p.brokers)
    found: Seen = [(f"partition.{n}", or_else(one[n])) for n in ("leader", "leader_epoch", "partition_epoch")]
    found += [("partition.leader_recovery_state", None), ("partition.replicas", len(one["replicas"]))]
    found += [("", None) for _ in brokers]  # the order of the replicas is not compared: no rule depends on it
    found += [(f"partition.{n}", mask(one[n])) for n in ("adding", "removing", "isr", "elr")]
    found += [("partition.last_known_leader", or_else(one["last_known_leader"], -2)), ("", None)]
    found += [("", None) for _ in brokers]
    for b in brokers:
        registration = state["registrations"][b]
        for name in ("registered", "epoch", "fenced", "in_controlled_shutdown"):
            found.append((f"registrations.{name}", int(registration[name])))
    found += [("min_insync_replicas", state["min_insync_replicas"]), ("", None), ("", None), ("", None)]
    return found


def _broker(
    protocol: Replication, state: Plain, b: int, up: int, leads: int, maximal_isr: int, enough: int
) -> Seen:
    broker, brokers = state["brokers"][b], range(protocol.p.brokers)
    if not up:
        return [("broker.up", 0)]
    view = broker["view"]
    is_replica = b in view["replicas"]
    found: Seen = [
        ("broker.up", 1),
        ("broker.epoch", broker["epoch"]),
        ("view.leader", or_else(view["leader"])),
    ]
    found += [(f"view.{n}", view[n]) for n in ("leader_epoch", "partition_epoch")]
    found.append(("view.isr", mask(view["isr"]) if leads else -1))
    found.append(("view.min_isr", view["min_isr"] if is_replica else None))
    found.append(("view.active", mask(view["active"])))
    found += [("view.epochs", epoch) for epoch in view["epochs"]]
    found.append(("log.length", len(broker["log"])))
    for record in broker["log"]:
        found += [("log.value", record["value"]), ("log.epoch", record["epoch"])]
    found += [("hwm", broker["hwm"]), ("leso", broker["leso"])]
    found.append(("maximal_isr", maximal_isr if leads else 0))
    if not leads:
        return found
    for f in brokers:
        known = broker["followers"][f]
        if f == b or f not in view["replicas"] or known["leo"] is None:
            found += [("follower.leo", -1), ("follower.epoch", -1)]
        else:
            heard = known.get("in_epoch", True)
            found += [
                ("follower.leo", known["leo"]),
                ("follower.epoch", known["broker_epoch"] if heard else None),
            ]
    answer = (
        1 if enough else 2
    )  # 2: the HWM has passed the record, but the ISR is too small to acknowledge it
    found += [("acknowledged", answer if broker["hwm"] > o else 0) for o in range(len(broker["log"]))]
    return found


def _messages(protocol: Replication, state: Plain, b: int) -> Seen:
    found: Seen = []
    fetch, answer = state["fetch_requests"][b], state["fetch_responses"][b]
    found.append(("fetch", int(fetch is not None)))
    if fetch is not None:
        found += [(f"fetch.{n}", fetch[n]) for n in ("leader", "leader_epoch", "offset", "broker_epoch")]
    found.append(("answer", int(answer is not None)))
    if answer is not None:
        found += [(f"answer.{n}", int(answer[n])) for n in ("leader_epoch", "offset", "diverging")]
        record = answer["record"]
        found.append(("answer.record", -1 if record is None else record["value"]))
        found.append(("answer.hwm", -1 if answer["diverging"] else answer["hwm"]))
    request, decided = state["alter_requests"][b], state["alter_responses"][b]
    found.append(("alter", int(request is not None)))
    if request is not None:
        found += [(f"alter.{n}", request[n]) for n in ("leader_epoch", "partition_epoch", "broker_epoch")]
        found += [
            ("alter.isr", or_else(request["epochs"][m]) if m in request["isr"] else -2)
            for m in range(protocol.p.brokers)
        ]
    found.append(("decision", int(decided is not None)))
    if decided is not None:
        outcome = ("COMMITTED", "REVERT", "KEEP").index(decided["outcome"])
        found.append(("decision.outcome", outcome))
        names = ("leader_epoch", "partition_epoch")
        found += [(f"decision.{n}", -1 if outcome else decided[n]) for n in names]
        found.append(("decision.isr", -1 if outcome else mask(decided["isr"])))
    return found
