"""Fingerprints: equal for code with the same meaning, different for any other."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.checker.comparing.models.image import image
from highwater.checker.comparing.models.revisions import RestoredModel
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.model_key import Fingerprints
from highwater.checker.scenarios.request import Overrides, Request
from highwater.model.language import (
    Int,
    Model,
    Protocol,
    State,
    Struct,
    action,
    always_eventually,
    graph,
    invariant,
    require,
)
from highwater.model.language.graph import BITS, BOOL, INT
from highwater.model.language.interpreter import compile_nodes
from tests.liveness.test_parameters import Election

INPUTS = [
    graph.leaf(0, BOOL, 0, 1),
    graph.leaf(1, BOOL, 0, 1),
    graph.leaf(2, INT, 0, 3),
    graph.leaf(3, INT, 0, 3),
    graph.leaf(4, BITS, 0, 3),
]
STATES = list(itertools.product(range(2), range(2), range(4), range(4), range(4)))


def test_equal_fingerprints_mean_equal_values() -> None:
    """Compares all small expressions on all states."""
    numbers = [*INPUTS[2:4], graph.count(INPUTS[4]), graph.const(1, INT), graph.const(2, INT)]
    pairs = list(itertools.product(numbers, repeat=2))
    sums = [f(x, y) for x, y in pairs for f in (graph.add, graph.sub, graph.min_, graph.max_)]
    sums += [graph.select(INPUTS[0], x, y) for x, y in pairs] + numbers
    compared = [f(x, y) for x in sums for y in numbers for f in (graph.lt, graph.le, graph.eq)]
    simple = [*INPUTS[:2], graph.lt(*INPUTS[2:4]), graph.eq(*INPUTS[2:4]), graph.member(INPUTS[2], INPUTS[4])]
    simple += [graph.not_(a) for a in simple]
    joined = [f(a, b) for a in simple for b in simple for f in (graph.and_, graph.or_)]
    joined += [f(a, b) for a in joined[::7] for b in simple for f in (graph.and_, graph.or_)]
    nodes = list({n.id: n for n in [*compared, *joined]}.values())
    evaluate, prints = compile_nodes(nodes), Fingerprints()
    tables = list(zip(*map(evaluate, STATES), strict=True))
    found: dict[str, int] = {}
    for number, node in enumerate(nodes):
        other = found.setdefault(prints.node(node), number)
        assert tables[other] == tables[number], (nodes[other], node)
    assert 500 < len(found) < len(nodes), "some are one, most are not"


def test_equivalent_expressions_have_equal_fingerprints() -> None:
    a, b, x, y, s = INPUTS
    two, three = graph.const(2, INT), graph.const(3, INT)
    t = graph.singleton(x, 2) if x.high < 2 else graph.singleton(graph.min_(x, graph.const(1, INT)), 2)
    pairs = [
        (graph.or_(graph.not_(a), graph.not_(b)), graph.not_(graph.and_(a, b))),
        (graph.and_(graph.and_(a, b), graph.lt(x, y)), graph.and_(a, graph.and_(graph.lt(x, y), b))),
        (graph.lt(x, three), graph.le(x, two)),
        (graph.add(graph.add(x, y), y), graph.add(graph.add(y, y), x)),
        (graph.max_(graph.max_(x, y), two), graph.max_(y, graph.max_(two, x))),
        (graph.union(graph.union(s, t), s), graph.union(t, s)),
        (graph.eq(x, y), graph.eq(y, x)),
    ]
    for one, other in pairs:
        assert Fingerprints().node(one) == Fingerprints().node(other), (one, other)


class _One(Protocol):
    name = "one"

    def define(self) -> Struct:
        return Struct("State", low=Int(0, 3), high=Int(0, 3))

    def initial(self) -> list[dict[str, object]]:
        return [{"low": 0, "high": 0}]

    @action()
    def raise_low(self, s: State) -> None:
        require("below high", s.low < s.high)
        require("below the top", s.low < 3)
        s.next.low = s.low + 1

    @action()
    def raise_high(self, s: State) -> None:
        require("below the top", s.high < 3)
        s.next.high = s.high + 1


class _SameOtherwise(Protocol):
    name = "two"

    def define(self) -> Struct:
        return Struct("Pair", a=Int(0, 3), b=Int(0, 3))

    def initial(self) -> list[dict[str, object]]:
        return [{"a": 0, "b": 0}]

    @action()
    def up_b(self, s: State) -> None:
        s.next.b = s.b + 1
        require("there is room", ~(s.b >= 3))

    @action()
    def up_a(self, s: State) -> None:
        require("there is room", (s.a <= 2) & (s.b > s.a))
        s.next.a = s.a + 1


class _Another(_One):
    @action()
    def raise_low(self, s: State) -> None:
        require("not over high", s.low <= s.high)
        require("below the top", s.low < 3)
        s.next.low = s.low + 1


@invariant("test")
def in_order(m: _One, s: State) -> object:
    return s.low <= s.high


def test_models_that_differ_by_names_and_order_are_one() -> None:
    def of(model: Model, *options: object) -> str:
        return Fingerprints().model(model, *options)

    assert of(Model(_One())) == of(Model(_SameOtherwise()))
    assert of(Model(_One())) != of(Model(_Another()))
    assert of(Model(_One())) != of(Model(_One(), [in_order]))
    assert of(Model(_One()), True) != of(Model(_One()), False)


NAMES = ("truncation/kip-320-first-try", "replication/defect-former-leader", "replication/controller/small")


@pytest.mark.parametrize("name", NAMES)
def test_an_image_is_the_model(name: str) -> None:
    request = Request.of(scenario_files.find(name), Overrides())
    model = request.model()
    restored = RestoredModel(image(model, request))
    assert Fingerprints().model(restored) == Fingerprints().model(model)
    assert [str(i) for i in restored.instances] == [str(i) for i in model.instances]
    assert restored.decode(restored.initial[0]) == model.decode(model.initial[0])
    assert restored.bounds == model.bounds
    for one, other in zip(restored.instances, model.instances, strict=True):
        assert [g.node for g in one.guards] == [g.node for g in other.guards], (
            "nodes are hash-consed: one graph"
        )
        assert {k: w.node for k, w in one.writes.items()} == {k: w.node for k, w in other.writes.items()}
        assert [(c.leaf, c.node, c.bound) for c in one.checks] == [
            (c.leaf, c.node, c.bound) for c in other.checks
        ]


def test_a_property_of_runs_with_parameters_and_alternatives() -> None:
    asked: Any = SimpleNamespace(parameters={}, rules={}, symmetry=False, deadlock=False)
    model = Model(Election({"settles": 0}), (), Election.liveness)
    restored = RestoredModel(json.loads(json.dumps(image(model, asked))))
    assert Fingerprints().model(restored) == Fingerprints().model(model)
    for one, other in zip(restored.liveness, model.liveness, strict=True):
        assert one.cases == other.cases
        assert one.groups == other.groups

    def of(goals: Any, nodes: str = "node") -> str:
        @always_eventually("T", n=nodes, name="live")
        def some(m: Any, s: State, n: Any) -> Any:
            return goals(s, n)

        model = Model(Election(), (), [some])
        return Fingerprints().liveness(model, model.liveness[0])

    def leads(s: State, n: Any) -> Any:
        return s.leader == n

    assert of(leads) == of(lambda s, n: n == s.leader)
    assert of(leads) != of(lambda s, n: (s.leader == n) & s.settled)
    assert len({of(leads), of(leads, "some"), of(leads, "one")}) == 3
