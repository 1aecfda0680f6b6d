"""Bit-vectors and mathematical integers in the solver agree with the interpreter's NUMBERS."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from random import Random

import pytest
import z3
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from highwater.checker.engines.solver.bounded import OpenStep, instance_number, steps
from highwater.checker.engines.solver.terms import WIDE, Numbers, Translator
from highwater.model.language import Model, graph
from highwater.model.language.errors import LanguageError
from highwater.model.language.graph import BITS, BOOL, INT, Node
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import compile_nodes
from highwater.model.language.types import Leaf
from tests import models
from tests.language.random_protocols import a_protocol
from tests.slow import often, slow

NUMBERS = Numbers()
HUGE = 1 << 60
RANGES = [
    (0, 0), (0, 1), (0, 6), (1, 5), (3, 3), (-1, 0), (-8, 7), (-9, 3), (-3, 9), (-6, -2), (-40, 40), (5, 300),
    (-1000, 1000), (0, (1 << WIDE) - 1), (0, HUGE), (-HUGE, HUGE), (-HUGE, 5),
]  # fmt: skip
"""Narrow and wide, signed and unsigned, filling their bits or not; more than 64 values and fewer."""


def leaf(low: int, high: int, sort: str = INT) -> Leaf:
    return Leaf(f"{low}..{high}", sort, low, high)


def edges(low: int, high: int) -> list[int]:
    """Values at and near the ends of an interval, and near 0."""
    near = {low, low + 1, high - 1, high, 0, 1, -1, 2, (low + high) // 2}
    return sorted(v for v in near if low <= v <= high)


def plain(term: z3.ExprRef, low: int) -> int:
    value = z3.simplify(term)
    if z3.is_bool(value):
        assert z3.is_true(value) or z3.is_false(value)
        return int(z3.is_true(value))
    return int(value.as_signed_long() if low < 0 and z3.is_bv(value) else value.as_long())


def pairs() -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Each range with two others, and a wide range with ones that give a narrow result."""
    some = [(a, RANGES[(i * k + k) % len(RANGES)]) for i, a in enumerate(RANGES) for k in (3, 8)]
    return [*some, ((-HUGE, 5), (-1000, 1000)), ((0, HUGE), (-1000, 1000))]


def results(a: Node, b: Node, flag: Node, bits: Node) -> list[Node]:
    """Every operation on or to numbers, for two numbers, a condition and a set."""
    few = [graph.member(x, bits) for x in (a, b) if x.low >= 0 and x.high < 4]
    few += [graph.singleton(x, 4) for x in (a, b) if x.low >= 0 and x.high < 4]
    constants = [graph.const(v, INT) for x in (a, b) for v in {x.low, x.low + 1, x.high}]
    return [
        *few,
        graph.add(a, b), graph.sub(a, b), graph.min_(a, b), graph.max_(a, b), graph.select(flag, a, b),
        graph.eq(a, b), graph.lt(a, b), graph.lt(b, a), graph.add(a, graph.count(bits)),
        graph.lt(graph.count(bits), graph.select(flag, a, b)), graph.eq(graph.add(a, b), graph.sub(b, a)),
        graph.sub(graph.min_(a, b), graph.max_(a, graph.const(-1, INT))),
        *(graph.eq(x, c) for x in (a, b) for c in constants), *(graph.lt(c, a) for c in constants),
    ]  # fmt: skip


def test_operations_on_numbers_of_all_sizes() -> None:
    """Operands of different widths, signs and kinds; results written into a scalar of another width."""
    rng = Random(1)
    for first, second in pairs():
        leaves = [leaf(*first), leaf(*second), leaf(0, 1, BOOL), leaf(0, 15, BITS)]
        inputs = [graph.leaf(i, x.sort, x.low, x.high) for i, x in enumerate(leaves)]
        nodes = results(*inputs)
        variables = [NUMBERS.variable(f"x{i}", x) for i, x in enumerate(leaves)]
        translate = Translator(NUMBERS, variables)
        terms = [(n, n.low, translate(n)) for n in nodes]
        for node in nodes:
            if node.sort == INT:
                for wide in (leaf(node.low, node.high), leaf(node.low - 9, node.high + 1), leaf(-HUGE, HUGE)):
                    terms.append((node, wide.low, translate.scalar(node, wide)))
        whole = z3.Function("all", *(t.sort() for *_, t in terms), z3.BoolSort())(*(t for *_, t in terms))
        evaluate = compile_nodes([n for n, *_ in terms])
        for _ in range(3):
            state = [rng.choice(edges(x.low, x.high)) for x in leaves[:3]] + [rng.randint(0, 15)]
            literals = [NUMBERS.literal(v, x) for v, x in zip(state, leaves, strict=True)]
            fixed = [p for p in zip(variables, literals, strict=True) if not p[0].eq(p[1])]
            found = z3.simplify(z3.substitute(whole, *fixed)).children()
            expected = [int(v) for v in evaluate(state)]
            got = [plain(t, low) for (_, low, _), t in zip(terms, found, strict=True)]
            assert got == expected, (first, second, state)


# --- z3's terms and the interpreter agree on every guard, check, next scalar and property -------------


class Asked:
    """Nodes translated to terms over constants, evaluated on plain scalars."""

    def __init__(self, leaves: Sequence[Leaf], nodes: Sequence[graph.Node]) -> None:
        self.leaves, self.numbers, self.nodes = leaves, Numbers(), nodes
        self.inputs = [self.numbers.variable(f"{leaf.path}#{i}", leaf) for i, leaf in enumerate(leaves)]
        self.translate = Translator(self.numbers, self.inputs)
        self.terms = [self.translate(node) for node in nodes]
        self.all = z3.Function("all", *(t.sort() for t in self.terms), z3.BoolSort())(*self.terms)

    def __call__(self, scalars: Scalars) -> list[int]:
        literals = [self.numbers.literal(v, leaf) for v, leaf in zip(scalars, self.leaves, strict=True)]
        values = z3.simplify(z3.substitute(self.all, *zip(self.inputs, literals, strict=True)))
        return [self._plain(node, value) for node, value in zip(self.nodes, values.children(), strict=True)]

    def _plain(self, node: graph.Node, value: z3.ExprRef) -> int:
        if node.sort == graph.BOOL:
            assert z3.is_true(value) or z3.is_false(value)
            return int(z3.is_true(value))
        signed = node.sort == graph.INT and node.low < 0 and z3.is_bv(value)
        return int(value.as_signed_long() if signed else value.as_long())


def everything_of(model: Model) -> list[graph.Node]:
    """All guards, checks, writes and properties of a model, each node once."""
    nodes = [n for p in model.properties for n in (p.node, p.premise)]
    for instance in model.instances:
        nodes += [g.node for g in instance.guards] + [c.node for c in instance.checks]
        nodes += [w.node for w in instance.writes.values()]
    return list({n.id: n for n in nodes}.values())


def disagreements(model: Model, count: int) -> Iterator[Scalars]:
    """Of ``count`` random states, half of them reachable, those on which values differ."""
    nodes = everything_of(model)
    asked, evaluate = Asked(model.leaves, nodes), compile_nodes(nodes)
    states = [*models.reachable_states(model, count // 2), *models.arbitrary_states(model, count // 2)]
    return (state for state in states if asked(state) != [int(v) for v in evaluate(state)])


@pytest.mark.parametrize(
    "name",
    [
        "replication/controller/small",
        "replication/large-messages",
        "truncation/kip-320",
        "quorum/large-losses",
        "zookeeper/large-shutdowns",
    ],
)
def test_terms_agree_on_a_scenario_of_each_protocol(name: str) -> None:
    """The tests below and test_integers.py cover each operation."""
    assert list(disagreements(models.scenario_model(name), 8)) == []


@pytest.mark.parametrize("nodes", [2, pytest.param(5, marks=slow("larger values; fast with two nodes"))])
def test_terms_agree_on_every_type_and_operation(nodes: int) -> None:
    assert list(disagreements(models.everything(nodes=nodes), often(40, 100))) == []


@settings(max_examples=often(10, 25))
@given(seed=st.integers(0, 1 << 60))
def test_terms_agree_on_random_protocols(seed: int) -> None:
    stated = a_protocol(random.Random(seed))
    try:
        model = Model(stated.protocol(), stated.protocol.invariants)
    except LanguageError:  # a constant outside its type, or two writes that always conflict
        reject()
    assert list(disagreements(model, 8)) == []


def open_disagreements(model: Model, count: int) -> list[tuple[str, Scalars]]:
    """Grouped steps with open parameters that differ from their instances, on random states."""
    rng = random.Random(0)
    states = [*models.reachable_states(model, count // 2), *models.arbitrary_states(model, count // 2)]
    wrong = []
    for step in steps(model, grouped=True):
        if not step.leaves:
            continue
        leaves = list(step.instance.writes)
        ask_open = compile_nodes([step.chosen, *_asked(step, leaves)])
        for state in states:
            chosen = tuple(rng.randint(leaf.low, leaf.high) for leaf in step.leaves)
            padding = (0,) * (step.start - len(model.leaves))
            possible, enabled, stays, *after = ask_open((*state, *padding, *chosen))
            if not possible:
                continue
            try:
                instance = model.instances[instance_number(model, step, chosen)]
            except LanguageError:
                if enabled:
                    wrong.append((step.name, state))
                continue
            plain = compile_nodes(_asked(OpenStep(instance), leaves, model))(state)
            if (enabled, stays) != plain[:2] or (enabled and stays and tuple(after) != plain[2:]):
                wrong.append((step.name, state))
    return wrong


def _asked(step: OpenStep, leaves: Sequence[int], model: Model | None = None) -> list[graph.Node]:
    instance = step.instance
    writes = instance.writes
    stays = graph.not_(graph.any_(c.node for c in instance.checks))
    assert model is None or set(writes) <= set(leaves)
    nodes = [writes[i].node if i in writes else model.inputs[i] for i in leaves]  # type: ignore[union-attr]
    return [instance.enabled, stays, *nodes]


@pytest.mark.parametrize(
    "name",
    [
        "replication/controller/small",
        pytest.param("replication/large-messages", marks=slow("another protocol; the controller is fast")),
    ],
)
def test_open_parameters_stand_for_all_instances(name: str) -> None:
    model = models.scenario_model(name)
    assert any(step.leaves for step in steps(model, grouped=True))
    assert open_disagreements(model, 60) == []
