"""Random protocols behave the same in the language and in plain Python: steps, invariants, functions, values."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import event, example, given, note, reject, settings
from hypothesis import strategies as st

from highwater.model.language import (
    Array,
    Bool,
    Enum,
    Index,
    Int,
    LanguageError,
    Model,
    Option,
    Seq,
    Set,
    Struct,
    graph,
)
from highwater.model.language.function import Function
from highwater.model.language.interpreter import BoundError, Interpreter, compile_nodes
from highwater.model.language.types import Type, where
from tests.language import random_protocols
from tests.language.random_protocols import Overflow, Stated, a_plain, a_protocol, expected, left, shown

EXAMPLES = int(os.environ.get("HIGHWATER_RANDOM_PROTOCOLS", "60"))
"""The number of protocols."""

KNOWN_WHILE_TRACING = re.compile(
    r"is no index of|write \.last|is not a value of|is no position of|needs at least|show its type|a second time"
)
"""Errors that tracing raises always, and plain Python only in some states."""


def traced(make: Any) -> Any:
    """The result of ``make``; an example that tracing refuses is discarded."""
    try:
        return make()
    except LanguageError as wrong:
        if KNOWN_WHILE_TRACING.search(str(wrong)):
            event("refused while tracing")
            reject()
        raise


@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 1 << 60))
@example(seed=1966)  # an element past the end and outside its type
@example(seed=56)  # `first`, and two writes that meet
@example(seed=96)  # the branch that comes otherwise
@example(seed=195)  # `in_`, the condition of a write, a choice
def test_steps_and_invariants_agree_with_plain_python(seed: int) -> None:
    rng = Random(seed)
    stated = a_protocol(rng)
    note(str(stated))
    protocol = stated.protocol()
    model = traced(lambda: Model(protocol, protocol.invariants))
    interpreter = Interpreter(model)
    for _ in range(4):
        before = a_plain(rng, stated.state)
        state = stated.state.encode(shown(stated.state, before))
        for way in stated.ways:
            _step(stated, model, interpreter, before, way)
        try:
            holds = stated.invariant.plain(before)
        except Overflow:
            continue
        assert (interpreter.violated(state) == []) == holds


def _step(stated: Stated, model: Model, interpreter: Interpreter, before: Any, way: Any) -> None:
    """Compare the step with these choices with plain Python."""
    state = stated.state.encode(shown(stated.state, before))
    try:
        kind, after = expected(stated, before, way)
    except Overflow:
        event("overflow within")
        return
    event(kind)
    own = [n for n, i in enumerate(model.instances) if dict(i.parameters) == dict(way)]
    assert len(own) <= 1
    enabled = [n for n in interpreter.enabled(state) if n in own]
    assert bool(enabled) == (kind != "refused")
    if not enabled:
        return
    if kind == "cut or error":
        with suppress(BoundError):
            assert interpreter.step(state, *own).cut
    elif kind == "error":
        with pytest.raises(BoundError):
            interpreter.step(state, *own)
    else:
        step = interpreter.step(state, *own)
        assert (step.cut is not None) == (kind == "cut")
        if step.state is not None:
            assert model.decode(step.state) == after
            assert step.state == stated.state.encode(after), "not the canonical form"


@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 1 << 60))
@example(seed=8)  # a free part, a condition, and a state that is not initial
def test_initial_states_agree_with_plain_python(seed: int) -> None:
    try:
        begun = random_protocols.a_beginning(Random(seed))
    except Overflow:
        reject()
    note(f"{begun.state.fields}, {begun.given}, {begun.condition.text}")
    start = traced(lambda: Model(begun.protocol(), []).start)
    wanted = {begun.state.encode(shown(begun.state, s)) for s in begun.states}
    event("none" if not wanted else "one" if len(wanted) == 1 else "several")
    found = start.states()
    assert set(found) == wanted
    assert len(found) == len(wanted)
    some = [begun.state.encode(shown(begun.state, a_plain(Random(seed), begun.state))) for _ in range(3)]
    assert all(map(start.has, wanted))
    assert [start.has(state) for state in some] == [state in wanted for state in some]


@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 1 << 60))
@example(seed=195)  # `tail`, and a remainder
@example(seed=473)  # `least_by`, and a product
@example(seed=44)  # `filter`
@example(seed=51)  # `drop`
@example(seed=40)  # two sequences joined
@example(seed=24)  # a quotient
def test_functions_agree_with_plain_python(seed: int) -> None:
    rng = Random(seed)
    stated = a_protocol(rng)
    note(str(stated))

    class Fields:
        def __init__(self, fields: dict[str, Any]) -> None:
            self.__dict__.update(fields)

    for type_, expression in stated.functions:
        function = traced(
            lambda e=expression: Function(lambda **s: e.symbolic(Fields(s)), **stated.state.fields)
        )
        for _ in range(3):
            before = a_plain(rng, stated.state)
            given_values = {n: shown(t, before[n]) for n, t in stated.state.fields.items()}
            try:
                wanted = expression.plain(before)
            except Overflow:
                continue
            if type_ is not None and any(True for _ in left(type_, wanted)):
                with pytest.raises(BoundError):
                    function(**given_values)
            else:
                assert function(**given_values) == (wanted if type_ is None else shown(type_, wanted))


@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 1 << 60))
def test_no_value_is_outside_the_interval_that_its_node_claims(seed: int) -> None:
    from highwater.model.language import graph

    rng = Random(seed)
    stated = a_protocol(rng)
    note(str(stated))
    model = traced(lambda: Model(stated.protocol(), stated.protocol.invariants))
    roots = [p.node for p in model.properties] + [w.node for i in model.instances for w in i.writes.values()]
    nodes = graph.reachable(roots)
    evaluate = compile_nodes(nodes)
    for _ in range(3):
        state = stated.state.encode(shown(stated.state, a_plain(rng, stated.state)))
        for node, value in zip(nodes, evaluate(state), strict=True):
            assert node.low <= int(value) <= node.high, node


# --- encoding of plain values, and equal expressions --------------------------------------------------


NODE = Index("node", 5)
NODES = Set(NODE)
PAIR = Struct("Pair", who=NODE, flag=Bool)
COLOUR = Enum("Colour", "RED GREEN BLUE")


def symbolic(type_: Type, first: int = 0) -> Any:
    """A value of a type that is unknown while tracing."""
    return type_.wrap([graph.leaf(first + i, x.sort, x.low, x.high) for i, x in enumerate(type_.leaves(""))])


@pytest.mark.parametrize(
    ("type_", "plain"),
    [
        (Bool, 1),
        (Int(0, 3), 4),
        (Int(0, 3), True),
        (Int(0, 3), "1"),
        (NODE, 5),
        (COLOUR, "PINK"),
        (COLOUR, 0),
        (NODES, [5]),
        (NODES, ["a"]),
        (Option(NODE), 9),
        (Array(NODE, Bool), [True]),
        (Seq(Bool, 1), [True, True]),
        (PAIR, {"who": 1}),
        (NODES, 3),
        (PAIR, {"who": 1, "flag": True, "colour": "RED"}),
    ],
)
def test_a_type_refuses_a_value_outside_it(type_: Type, plain: object) -> None:
    with pytest.raises(LanguageError):
        type_.encode(plain)


def test_equal_expressions_are_one_node() -> None:
    a, b = symbolic(Int(0, 9)), symbolic(Int(0, 9), 1)
    assert (a + b).nodes[0] is (b + a).nodes[0]
    assert (a + 1 + 2).nodes[0] is (a + 3).nodes[0]
    assert where(a < b, a, a).nodes[0] is a.nodes[0]
    assert ((a < b) & ~(a < b)).node is graph.FALSE
    assert (a < 10).node is graph.TRUE
    assert (a == b - 20).node is graph.FALSE
