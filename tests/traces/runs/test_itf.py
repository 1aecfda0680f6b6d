"""Runs in the Informal Trace Format read back as the states of the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from highwater.model.language.interpreter import Interpreter
from highwater.model.language.messages import MessageKind
from highwater.model.language.types import Array, Option, Set, Struct, Type
from highwater.traces.runs.writing import ACTION, expression, itf, random_walk
from tests.checker.conftest import counter
from tests.command import highwater
from tests.models import everything, reachable_states, scenario_model

__all__ = ["counter", "highwater"]


def read(value: Any) -> Any:
    """Decode an expression of the format: bigint, set, map, list or record."""
    if isinstance(value, list):
        return [read(item) for item in value]
    if not isinstance(value, dict):
        assert isinstance(value, (bool, str)), "whole numbers are bigints"
        return value
    if "#bigint" in value:
        return int(value["#bigint"])
    if "#set" in value:
        return {"set": [read(item) for item in value["#set"]]}
    if "#map" in value:
        return {"map": [(read(key), read(item)) for key, item in value["#map"]]}
    assert not [name for name in value if name.startswith("#")]
    return {name: read(item) for name, item in value.items()}


def expected(type: Type, value: Any) -> Any:
    if isinstance(type, Option):
        return [] if value is None else [expected(type.content_type, value)]
    if isinstance(type, Set):
        return {"set": list(value)}
    if isinstance(type, MessageKind):
        sent = [expected(type.message, item) for item in value]
        return sent if type.copies else {"set": sent}
    if isinstance(type, Array):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        return {"map": [(key, expected(type.element, item)) for key, item in pairs]}
    if isinstance(type, Struct):
        return {name: expected(inner, value[name]) for name, inner in type.fields.items()}
    if hasattr(type, "maximum"):
        return [expected(type.element, item) for item in value]  # type: ignore[attr-defined]
    return value


def test_a_value_of_each_type_comes_back() -> None:
    model = everything()
    for state in reachable_states(model, 40):
        plain = model.decode(state)
        for name, type in model.protocol.state.fields.items():
            assert read(json.loads(json.dumps(expression(type, plain[name])))) == expected(type, plain[name])


@pytest.mark.parametrize("name", ["truncation/kip-320", "replication/large-acks"])
def test_every_state_comes_back(name: str) -> None:
    model = scenario_model(name)
    walk = random_walk(model, 30, 2)
    trace = json.loads(json.dumps(itf(model, walk.initial, walk.path)))
    fields = model.protocol.state.fields
    assert trace["vars"] == [ACTION, *fields]
    assert "loop" not in trace
    state = walk.initial
    interpreter = Interpreter(model)
    for i, shown in enumerate(trace["states"]):
        if i:
            after = interpreter.step(state, walk.path[i - 1]).state
            assert after is not None
            state = after
        plain = model.decode(state)
        assert {n: read(shown[n]) for n in fields} == {n: expected(t, plain[n]) for n, t in fields.items()}
        taken = model.instances[walk.path[i - 1]].action.name if i else "initial"
        assert (shown["#meta"]["index"], shown[ACTION]) == (i, taken)
    assert len(trace["states"]) == len(walk.path) + 1


def test_a_loop_goes_back_from_the_last_state_to_its_first(tmp_path: Path) -> None:
    model = scenario_model("replication/liveness-rejected")
    target = tmp_path / "run.itf.json"
    done = highwater("check", "replication/liveness-rejected", "--workers", "1", "--trace-out", target)
    assert "8 steps written, to a violation of proposals_come_to_rest" in done.out
    trace = json.loads(target.read_text())
    assert (trace["loop"], len(trace["states"])) == (5, 8), "the state that it comes back to is there once"
    assert trace["#meta"]["source"] == "replication/liveness-rejected"
    assert trace["#meta"]["violates"] == ["proposals_come_to_rest"]
    assert set(trace["vars"]) == {ACTION, *model.protocol.state.fields}


def test_a_run_that_stays_where_it_is_loops_in_its_last_state() -> None:
    model = scenario_model("truncation/kip-320")
    trace = itf(model, model.initial[0], (), loop_start=0)
    assert (trace["loop"], len(trace["states"])) == (0, 1)
