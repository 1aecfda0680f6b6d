"""The model's answer to every request in every state: traced once, compiled, and computed on whole arrays.

A state is compared as an *observation*: the fields of a controller that the bridge can read, packed into a few words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwater.checker.base.problems import InternalError
from highwater.checker.conform.kafka_request import Event, KafkaRequest
from highwater.checker.engines.native.instructions import Evaluation
from highwater.checker.engines.state_graph import Layout, Words
from highwater.model.language import State, graph, when
from highwater.model.language.graph import BOOL, INT, Node
from highwater.model.language.model import Model
from highwater.model.language.tracing import tracing
from highwater.model.language.types import as_bool
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.types import Error
from highwater.model.replication.topic.protocol import Topic

_FAILS = frozenset({"no candidate for leader is a broker that is no replica", "every partition has a leader"})
"""Guards that the model's controller checks: if one is false, the request fails with UNKNOWN_SERVER_ERROR.

Where the guard about candidates is false, Kafka throws. The guard about leaders belongs to the rule
``level_changes_with_leader``, which no version of Kafka has.
"""
_WORD = 60
"""The number of bits that an observation uses in each word."""

Numbers = NDArray[np.int64]


def observed(p: Controller, s: State) -> list[tuple[str, Node]]:
    """The fields of a state that the bridge reads, as (name, node), by the bridge's names."""
    found: list[tuple[str, Node]] = []

    def add(name: str, value: Any) -> None:
        node = value if isinstance(value, Node) else value.nodes[0]
        zero, one = graph.const(0, INT), graph.const(1, INT)
        found.append((name, graph.select(node, one, zero) if node.sort == BOOL else node))

    brokers = range(p.p.brokers)
    registered = [s.registrations[p.t.broker.lift(b)].registered for b in brokers]
    known = p.t.brokers.of(lambda b: s.registrations[b].registered)
    places = [("", s), ("second.", s.second)] if isinstance(p, Topic) else [("", s)]
    for prefix, place in places:
        one = place.partition
        for name in ("leader", "leader_epoch", "partition_epoch", "leader_recovery_state"):
            add(f"{prefix}partition.{name}", getattr(one, name))
        for number, node in enumerate(one.replicas.nodes):
            add(f"{prefix}partition.replicas" + (f"[{number - 1}]" if number else ".length"), node)
        for name in ("adding", "removing", "isr", "elr"):
            add(f"{prefix}partition.{name}", getattr(one, name))
        forgotten = graph.const(-3, INT)  # a last known ELR, which this Kafka version does not store
        leader, elr = one.last_known_leader.nodes[0], one.last_known_elr.is_empty.node
        add(f"{prefix}partition.last_known_leader", graph.select(elr, leader, forgotten))
        offline = one.offline & known if p.on("offline_directory_check") else p.t.brokers.zero()
        add(f"{prefix}partition.offline", offline)
        for b in brokers:
            entered = place.elr_entries[p.t.broker.lift(b)] if p.has_index else one.elr.has(b)
            add(f"{prefix}elr_entries[{b}]", entered)
    for b in brokers:
        registration = s.registrations[p.t.broker.lift(b)]
        there = registered[b]
        add(f"registrations[{b}].registered", there)
        add(
            f"registrations[{b}].epoch",
            graph.select(there.node, registration.epoch.node, graph.const(0, INT)),
        )
        add(f"registrations[{b}].fenced", ~there | registration.fenced)
        add(f"registrations[{b}].in_controlled_shutdown", there & registration.in_controlled_shutdown)
    add("min_insync_replicas", s.min_insync_replicas)
    add("effective min ISR", p.controllers_min_isr(p.views(s)[0] if isinstance(p, Topic) else s))
    add("unclean_election", s.unclean_election)
    add("elr_on", p.elr_is_on(s))
    return found


def observed_now(model: Model) -> list[tuple[str, Node]]:
    """The observed fields of a model's state, as (name, node)."""
    protocol = model.protocol
    assert isinstance(protocol, Controller)
    with tracing(protocol.on):
        return observed(protocol, State(protocol.state, list(model.inputs)))


@dataclass(frozen=True)
class Traced:
    """A request traced on symbolic values, as expressions of the state before the request.

    ``error`` is the number of the ``Error``. ``says`` has a bit for each of ANSWER_FIELDS. ``described`` is true if the
    model describes the controller's reaction. ``after`` has the observed fields after the request.
    """

    error: Node
    says: Node
    described: Node
    after: list[tuple[str, Node]]


def trace(model: Model, request: KafkaRequest) -> list[Traced]:
    """Trace a request on the model's symbolic state: a result for each of ``KafkaRequest.orders``."""
    return [_trace(model, request, order) for order in request.orders]


def _trace(model: Model, request: KafkaRequest, events: Sequence[Event]) -> Traced:
    protocol, state = model.protocol, list(model.inputs)
    assert isinstance(protocol, Controller)
    error, described = graph.const(Error.NONE.node.value, INT), as_bool(True).node
    says = zero = graph.const(0, INT)
    before = State(protocol.state, state)
    for event in events:
        with tracing(protocol.on) as found, when(as_bool(True)):
            expected = event(protocol, before, State(protocol.state, state))
        fails = graph.any_(graph.not_(g.node) for g in found.guards if g.name in _FAILS)
        needed = graph.all_(g.node for g in found.guards if g.name in request.needs)
        state = [
            graph.select(fails, old, found.writes[leaf].node) if leaf in found.writes else old
            for leaf, old in enumerate(state)
        ]
        own = graph.select(
            fails, graph.const(Error.UNKNOWN_SERVER_ERROR.node.value, INT), expected.error.node
        )
        none = graph.eq(error, graph.const(Error.NONE.node.value, INT))
        error = graph.select(none, own, error)
        described = graph.all_([described, needed, expected.described.node])
        for bit, value in enumerate(expected.says):
            true = graph.all_([value.node, graph.not_(fails)])
            says = graph.add(says, graph.select(true, graph.const(1 << bit, INT), zero))
    with tracing(protocol.on):
        seen = observed(protocol, State(protocol.state, state))
    return Traced(error, says, described, seen)


@dataclass(frozen=True)
class ObservedField:
    """The position of a field in an observation: ``bits`` bits of word ``word``, from bit ``shift`` on.

    The field's values are in ``low`` to ``high`` (inclusive). The stored code is the value minus ``low``.
    """

    name: str
    word: int
    shift: int
    bits: int
    low: int
    high: int

    @property
    def outside(self) -> int:
        """The code for a value outside the range of the field."""
        return self.high - self.low + 1


class Observations:
    """The layout of observations, from each field's name and lowest and highest value."""

    def __init__(self, fields: Iterable[tuple[str, int, int]]) -> None:
        self.fields: list[ObservedField] = []
        word, used = 0, 0
        for name, low, high in fields:
            bits = (high - low + 1).bit_length()
            if used + bits > _WORD:
                word, used = word + 1, 0
            self.fields.append(ObservedField(name, word, used, bits, low, high))
            used += bits
        self.words = word + 1

    def nodes(self, fields: Sequence[tuple[str, Node]]) -> list[Node]:
        """The words of an observation as expressions, from the expressions of its fields."""
        words = [graph.const(0, INT)] * self.words
        for place, (_, node) in zip(self.fields, fields, strict=True):
            number = graph.sub(as_number(node), graph.const(place.low, INT))
            words[place.word] = graph.add(
                words[place.word], graph.mul(number, graph.const(1 << place.shift, INT))
            )
        return words

    def pack(self, names: Sequence[str], seen: Sequence[Sequence[int]]) -> Numbers:
        """Pack the values that the bridge read into words, with shape (rows, words). ``names`` are their names.

        In a row without values, because Kafka threw, each field is out of range. Raises InternalError if the bridge
        does not read the fields of this layout.
        """
        words = np.zeros((len(seen), self.words), dtype=np.int64)
        there = [number for number, row in enumerate(seen) if row]
        if there and (other := {*names} ^ {place.name for place in self.fields}):
            raise InternalError(
                f"conform: only the bridge or only the model observes {', '.join(sorted(other))}"
            )
        values = np.array([seen[number] for number in there], dtype=np.int64)
        for place in self.fields:
            code = np.full(len(seen), place.outside, dtype=np.int64)
            if there:
                value = values[:, names.index(place.name)]
                inside = (value >= place.low) & (value <= place.high)
                code[there] = np.where(inside, value - place.low, place.outside)
            words[:, place.word] |= code << place.shift
        return words

    def unpack(self, words: Sequence[int]) -> dict[str, int | None]:
        """The fields of an observation by name; None for a value that is out of range."""
        found: dict[str, int | None] = {}
        for place in self.fields:
            code = int(words[place.word]) >> place.shift & ((1 << place.bits) - 1)
            found[place.name] = None if code == place.outside else code + place.low
        return found

    def differing(self, one: Numbers, other: Numbers) -> Numbers:
        """For each pair of observations, an int with bit n set if field n differs."""
        found = np.zeros(len(one), dtype=np.int64)
        different = one ^ other
        for number, place in enumerate(self.fields):
            mask = ((1 << place.bits) - 1) << place.shift
            found |= (different[:, place.word] & mask != 0).astype(np.int64) << number
        return found


def as_number(node: Node) -> Node:
    """The node as an int. A set becomes the sum of its members' bits."""
    if node.sort == INT:
        return node
    total = graph.const(0, INT)
    for bit in range(node.high.bit_length()):
        has = graph.member(graph.const(bit, INT), node)
        total = graph.add(total, graph.select(has, graph.const(1 << bit, INT), graph.const(0, INT)))
    return total


class ExpectedAnswers:
    """The expected errors and observations of all requests, compiled to functions of packed states."""

    def __init__(self, model: Model, requests: Sequence[KafkaRequest]) -> None:
        orders = [trace(model, request) for request in requests]
        self.two_events = np.array([n for n, traced in enumerate(orders) if len(traced) > 1], dtype=np.int64)
        """The numbers of requests with two events."""
        traced = [first for first, *_ in orders]
        traced += [orders[n][number] for number in (1, 2) for n in self.two_events]
        now = observed_now(model)
        self.observations = Observations(
            (same[0][0], min(node.low for _, node in same), max(node.high for _, node in same))
            for same in zip(now, *(t.after for t in traced), strict=True)
        )
        columns: dict[Node, int] = {}

        def column(node: Node) -> int:
            return columns.setdefault(node, len(columns))

        self._now = [column(n) for n in self.observations.nodes(now)]
        many = graph.const(len(Error.members), INT)
        self._errors = np.array([column(graph.add(t.error, graph.mul(t.says, many))) for t in traced])
        self._described = np.array([column(t.described) for t in traced])
        self._after = np.array([[column(n) for n in self.observations.nodes(t.after)] for t in traced])
        layout, nodes = Layout(model.leaves), list(columns)
        self._evaluate = Evaluation(layout, nodes)
        self._evaluate_now = Evaluation(layout, self.observations.nodes(now))

    def now(self, states: Words) -> Numbers:
        """The observations of packed states, with shape (states, words)."""
        return np.stack(self._evaluate_now(states), axis=1).astype(np.int64, copy=False)

    def __call__(self, states: Words) -> tuple[Numbers, Numbers, NDArray[np.bool_], Numbers]:
        """Four arrays for packed states.

        - The observation of each state: (states, words).
        - The answer to each request, and True if the model describes the reaction: (requests, states) each. An answer
          is the number of the error, and the bits of ``Traced.says`` times the number of errors.
        - The observation after each request: (requests, states, words).

        The rows of all requests come first. Then the requests of ``two_events`` come twice: in the second order,
        and with both events decided on the state before the request.
        """
        table = np.stack([c.astype(np.int64, copy=False) for c in self._evaluate(states)])
        now = table[self._now].T
        after = np.stack([table[self._after[:, w]] for w in range(self.observations.words)], axis=-1)
        return now, table[self._errors], table[self._described] != 0, after
