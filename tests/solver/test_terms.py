"""Z3's terms and the interpreter agree on every guard, check, next scalar and property."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest
import z3
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from highwater.checker.engines.solver.bounded import OpenStep, instance_number, steps
from highwater.checker.engines.solver.terms import Numbers, Translator
from highwater.model.language import Model, graph
from highwater.model.language.errors import LanguageError
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import compile_nodes
from highwater.model.language.types import Leaf
from tests import models
from tests.language.random_protocols import a_protocol
from tests.slow import often, slow


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
