"""Random protocols behave the same in the language and in plain Python: steps, invariants, functions.

Hypothesis draws the seed of each protocol and prints the protocol of a failure. For more:
``HIGHWATER_RANDOM_PROTOCOLS=5000 pytest tests/language/test_random_protocols.py``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, event, example, given, note, reject, settings
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption

from highwater.model.language import (
    Enum,
    LanguageError,
    Model,
    Option,
    SeqValue,
    graph,
    initial,
    one_of,
    when,
)
from highwater.model.language.function import Function
from highwater.model.language.interpreter import BoundError, Interpreter, compile_nodes
from highwater.model.language.state import Next
from highwater.model.language.values import Value
from tests.language import random_protocols
from tests.language.random_protocols import Overflow, Stated, a_plain, a_protocol, expected, left, shown

EXAMPLES = int(os.environ.get("HIGHWATER_RANDOM_PROTOCOLS", "60"))
"""The number of protocols."""

KNOWN_WHILE_TRACING = re.compile(
    r"is no index of|write \.last|is not a value of|is no position of|needs at least|type by|a second time"
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


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 60))
@example(seed=1966)  # an element past the end and outside its type
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


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 60))
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


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 60))
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


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
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


# --- planted errors are detected ------------------------------------------------------------------------

EVERY = initial._every
PLANTED: dict[str, tuple[Any, str, Any]] = {
    "tail": (SeqValue, "tail", property(lambda q: q.truncate(q.length - 1))),
    "drop": (SeqValue, "drop", lambda q, i: q.truncate(q.length - 1)),
    "filter": (SeqValue, "filter", lambda q, condition: q),
    "+": (SeqValue, "__add__", lambda a, b: b),
    "in_": (Value, "in_", lambda a, *values: a == values[0]),
    "first": (random_protocols, "first", lambda index, condition: Option(index).none()),
    "least_by": (
        random_protocols,
        "least_by",
        lambda index, key, among: random_protocols.__dict__["first"](index, among),
    ),
    "*": (graph, "mul", graph.add),
    "//": (graph, "floordiv", graph.mod),
    "%": (graph, "mod", graph.floordiv),
    "an element of an array over an enumeration": (Enum, "_number", lambda e, plain: 0),
    "the condition of a write": (random_protocols, "when", lambda condition: nullcontext()),
    "two writes that meet": (Next, "_refuse_twice", lambda *_: None),
    "what comes otherwise": (
        random_protocols,
        "otherwise",
        lambda condition: nullcontext() if condition is True else when(condition),
    ),
    "a choice": (random_protocols, "one_of", lambda name, options: one_of(name, options[:1])),
    "a free part": (initial, "_every", lambda type: EVERY(type)[:2]),
    "a condition on initial states": (initial, "_condition", lambda protocol, inputs: graph.TRUE),
    "whether a state is an initial one": (
        initial.Start,
        "has",
        lambda start, state: state in {s for family in start.families for s in family.states()},
    ),
}


KNOWN = {"first": 56, "least_by": 473, "tail": 195, "what comes otherwise": 96}
"""Seeds that detect rarely detected errors; they are tried first, then all others."""


def noticed(monkeypatch: pytest.MonkeyPatch, seeds: Iterable[int]) -> bool:
    """True if one of these random protocols fails the tests above."""

    def skip() -> None:
        raise UnsatisfiedAssumption

    for word in ("note", "event"):  # they need a running Hypothesis test
        monkeypatch.setattr(sys.modules[__name__], word, lambda _: None)
    monkeypatch.setattr(sys.modules[__name__], "reject", skip)
    for seed in seeds:
        for test in (
            test_functions_agree_with_plain_python,
            test_steps_and_invariants_agree_with_plain_python,
            test_initial_states_agree_with_plain_python,
        ):
            try:
                test.hypothesis.inner_test(seed=seed)  # type: ignore[attr-defined]
            except UnsatisfiedAssumption:
                continue
            except (AssertionError, LanguageError, pytest.fail.Exception):
                return True
    return False


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(*PLANTED[name])
    assert noticed(monkeypatch, (KNOWN.get(name, 0), *range(1500))), "it is wrong, and nothing shows it"


def test_without_a_planted_mistake_all_seeds_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not noticed(monkeypatch, (*range(100), *KNOWN.values()))
