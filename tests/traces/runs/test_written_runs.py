"""Traces written from runs of the model conform, whatever part is left out; runs in ITF read back equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import highwater.traces.runs as runs
from highwater.checker.scenarios.catalogue import scenario_files
from highwater.checker.scenarios.request import asked
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.messages import MessageKind
from highwater.model.language.types import Array, Option, Set, Struct, Type
from highwater.traces.reading import TraceError
from highwater.traces.reports.report import Report
from highwater.traces.runs import hold, is_run_trace, replay_run, write_run
from highwater.traces.runs.format import read_run
from highwater.traces.runs.writing import ACTION, expression, itf, random_walk
from tests.checker.conftest import counter
from tests.checker.schema import problems
from tests.command import highwater
from tests.models import everything, reachable_states, scenario_model
from tests.slow import all_but
from tests.traces.runs.made import (
    counterexample_of,
    model_of,
    replayed,
    request_of,
    violation_of,
    walk_of,
    write,
)

SCENARIOS = (
    "truncation/kip-101",
    "truncation/kip-320",
    "replication/controller/large-reassignment",
    "replication/large-crashes",
    "replication/large-fencing",
    "replication/recovery-balanced",
)
SCHEMA = json.loads((Path(runs.__file__).parent / "trace.schema.json").read_text())

whole_or_changes = pytest.mark.parametrize("whole", [False, True], ids=["changes", "whole states"])
scenarios = pytest.mark.parametrize("scenario", SCENARIOS)


def explained(report: Report) -> bool:
    assert report.unexplained == []
    assert report.findings == []
    return report.explained


@scenarios
@whole_or_changes
def test_a_run_is_explained_and_is_the_only_one_that_fits(scenario: str, whole: Any, tmp_path: Path) -> None:
    lines = walk_of(scenario, whole=whole)
    report = replayed(tmp_path, lines)
    assert explained(report)
    assert report.operations == len(lines) - 1 > 10
    assert report.figures == {"most_states": 1}
    assert [is_run_trace(json.dumps(line).encode()) for line in lines] == [True] + [False] * (len(lines) - 1)
    kinds = ["first"] + ["line"] * (len(lines) - 1)
    wrong = [problems(line, SCHEMA["$defs"][kind], SCHEMA) for kind, line in zip(kinds, lines, strict=True)]
    assert not any(wrong)
    assert (report.kind, report.notes) == ("run of the model", [])
    assert set(report.rules) == model_of(scenario).protocol.rules_on


@pytest.mark.parametrize(
    ("scenario", "path"),
    [
        ("truncation/kip-101", "replicas[*].hwm"),
        ("replication/large-crashes", "partition"),
        ("replication/large-fencing", "brokers[*].view"),
        ("replication/controller/small", "registrations[*].fenced"),
    ],
)
def test_with_most_of_the_state_hidden_and_no_names(scenario: str, path: Any, tmp_path: Path) -> None:
    """The trace has only one part of the state; the replay infers the rest and the actions."""
    first, *lines = walk_of(scenario, depth=7, whole=True)
    name, _, inner = path.partition("[*].")
    first["meta"]["observed"] = [path]
    seen = [
        {
            "step": line["step"],
            "state": {
                name: [{inner: i[inner]} for i in line["state"][name]] if inner else line["state"][name]
            },
        }
        for line in lines
    ]
    report = replayed(tmp_path, [first, *seen])
    assert explained(report)
    assert report.figures["most_states"] > 1


@pytest.mark.parametrize("hidden", [1, 2])
@pytest.mark.parametrize("scenario", ["truncation/kip-101", "replication/large-fencing"])
def test_with_hidden_steps(scenario: str, hidden: Any, tmp_path: Path) -> None:
    """Of each ``hidden`` + 1 lines only the last stays; without ``hidden_steps`` the trace does not conform."""
    first, start, *lines = walk_of(scenario, depth=14, whole=True)
    kept = lines[hidden :: hidden + 1]
    for step, line in enumerate(kept, 1):
        line["step"] = step
    assert not replayed(tmp_path, [first, start, *kept]).explained
    first["meta"]["hidden_steps"] = hidden
    assert explained(replayed(tmp_path, [first, start, *kept]))


def test_changes_over_hidden_steps(tmp_path: Path) -> None:
    """A field that a line does not name has the value of the previous line."""
    scenario = "truncation/kip-101"
    first, start, *lines = walk_of(scenario, depth=13)
    merged: list[dict[str, Any]] = [
        {"step": i // 2 + 1, "changes": {**a["changes"], **b["changes"]}}
        for i, (a, b) in enumerate(zip(lines[::2], lines[1::2], strict=True))
        for i in [2 * i]
        if not any(p != q and p.startswith(q) for p in b["changes"] for q in a["changes"])
    ]
    assert len(merged) == len(lines) // 2, "choose another walk: a change lies inside another one"
    first["meta"]["hidden_steps"] = 1
    assert explained(replayed(tmp_path, [first, start, *merged]))
    path = next(iter(merged[2]["changes"]))
    del merged[2]["changes"][path]
    assert not replayed(tmp_path, [first, start, *merged]).explained


def test_a_part_of_an_array_is_an_object(tmp_path: Path) -> None:
    """An instrumented broker logs only its own state."""
    first, *lines = walk_of("replication/large-fencing", whole=True)
    for line in lines:
        line["state"] = {"brokers": {"1": line["state"]["brokers"][1]}}
    assert explained(replayed(tmp_path, [first, *lines]))
    lines[-1]["state"]["brokers"]["1"]["hwm"] ^= 1
    assert not replayed(tmp_path, [first, *lines]).explained


def test_a_run_from_the_middle(tmp_path: Path) -> None:
    first, *lines = walk_of("replication/large-fencing", whole=True)
    later = lines[7:]
    for step, line in enumerate(later):
        line["step"] = step
    del later[0]["action"], later[0]["parameters"]
    report = replayed(tmp_path, [first, *later])
    assert report.unexplained[0].position == {"line": 2, "step": 0}
    first["meta"]["start"] = "given"
    assert explained(replayed(tmp_path, [first, *later]))
    with pytest.raises(TraceError, match="the start is given"):
        replayed(tmp_path, [first, {**later[1], "step": 1}])
    later[0]["state"].popitem()
    with pytest.raises(TraceError, match="the whole state is needed"):
        replayed(tmp_path, [first, *later])


def test_a_path_that_is_no_run_is_not_written(tmp_path: Path) -> None:
    model = model_of("truncation/kip-101")
    with pytest.raises(ValueError, match="is not enabled"):
        write_run(tmp_path / "run", model, model.initial[0], [len(model.instances) - 1] * 3)


def test_too_many_states_are_never_dropped(tmp_path: Path) -> None:
    first, *lines = walk_of("replication/large-fencing", depth=8)
    blind = [{"step": line["step"]} for line in lines]
    with pytest.raises(TraceError, match="inconclusive: more than 50 states"):
        replayed(tmp_path, [first, *blind], limit=50)
    assert explained(replayed(tmp_path, [first, *blind[:2]], limit=50))


def test_a_replay_that_is_interrupted_says_so(tmp_path: Path) -> None:
    lines = walk_of("truncation/kip-101", depth=13)

    def interrupt(report: Report) -> None:
        raise KeyboardInterrupt

    long = [*lines, *({"step": n} for n in range(len(lines) - 1, 150))]
    report = replay_run(write(tmp_path / "run", long), progress=interrupt)
    assert (report.interrupted, report.operations) == (True, 100)


DEFECTS = [
    name for name in scenario_files()
    if "/defect-" in name and {i.name for i in request_of(name).scenario.definition.invariants}
    & set(request_of(name).scenario.expectation.violated)
]  # fmt: skip
"""The scenarios that promise a violation, except of liveness: its counterexample is a loop."""
QUICK = ("replication/defect-late-fetch", "replication/defect-elr-after-election")


@pytest.mark.parametrize("scenario", all_but(QUICK, DEFECTS, "a search for each; the fast test has two"))
@whole_or_changes
def test_a_counterexample_is_the_same_violation(scenario: str, whole: Any, tmp_path: Path) -> None:
    lines = counterexample_of(scenario, whole)
    report = replayed(tmp_path, lines)
    assert not report.unexplained
    promised = violation_of(scenario).property
    (finding,) = [f for f in report.findings if f.property == promised]
    assert finding.position == {"line": len(lines), "step": len(lines) - 2}
    assert finding.certain
    assert finding.rule == model_of(scenario).stated(promised).source


def test_a_violation_in_some_of_the_states_is_uncertain(tmp_path: Path) -> None:
    """The last line is empty: its step may be the violating one or another."""
    lines = counterexample_of("truncation/kip-101")
    report = replayed(tmp_path, [*lines[:-1], {"step": len(lines) - 2}])
    (finding,) = report.findings
    assert (finding.property, finding.certain) == ("strong_isr", False)
    assert "states that fit" in finding.summary


# --- `--trace-out` ------------------------------------------------------------------------------------


DEFECT, SOUND = "replication/defect-join-below-hwm", "truncation/kip-320"
REGISTER, HASTY = "docs/examples/register.toml", "docs/examples/register-hasty.toml"


@pytest.fixture
def out(tmp_path: Path) -> Any:
    return tmp_path / "run.ndjson"


def first_line(path: Any) -> Any:
    return json.loads(path.read_text().splitlines()[0])["meta"]


@pytest.mark.parametrize("engine", ["native", "interpreter"])
def test_the_counterexample_of_a_search(engine: str, out: Any) -> None:
    ended = highwater("check", DEFECT, "--engine", engine, "--trace-out", out)
    report = replay_run(out)
    assert f"{out}: {report.operations - 1} steps written, to a violation of " in ended.output
    (violated,) = first_line(out)["about"]["violates"]
    assert violated in report.findings_count
    assert not report.unexplained
    assert first_line(out)["scenario"] == DEFECT


def test_options_of_the_command_line_are_in_the_trace(out: Any) -> None:
    highwater("simulate", SOUND, "--rule", "join_at_epoch_start=off", "--set", "log_size=1", "--walks", 1,
        "--trace-out", out)  # fmt: skip
    meta = first_line(out)
    assert meta["rules"] == {"join_at_epoch_start": False}
    assert (meta["parameters"]["log_size"], meta["profile"]) == (1, "kip_320")
    assert replay_run(out).operations > 1


def test_a_walk_of_a_simulation(out: Any) -> None:
    ended = highwater("simulate", SOUND, "--walks", 3, "--depth", 9, "--seed", 5, "--trace-out", out)
    report = replay_run(out)
    assert report.explained
    assert report.operations == 9
    assert "8 steps written" in ended.output
    assert first_line(out)["about"] == {"seed": 5}


@pytest.mark.parametrize("names", [(), (SOUND, DEFECT)])
def test_a_trace_is_one_run(names: Any, out: Any) -> None:
    ended = highwater("check", *names, "--trace-out", out)
    assert "name one scenario" in ended.output


def test_a_file_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    for target, why in ((tmp_path, "is a directory"), (tmp_path / "no" / "run", "cannot be written")):
        for command in ("check", "simulate"):
            ended = highwater(command, DEFECT, "--trace-out", target)
            assert ended.status == 2
            assert why in ended.output


def test_a_protocol_of_ones_own_is_held_from_python(out: Any) -> None:
    """The replay never loads a file named in a trace; the caller passes the model."""

    highwater("simulate", HASTY, "--walks", 300, "--depth", 20, "--trace-out", out)
    with pytest.raises(TraceError, match="unknown protocol"):
        replay_run(out)
    report = Report(str(out), "run of the model", "")
    hold(read_run(out), Interpreter(asked(HASTY).model()), report)
    assert not report.unexplained
    assert set(report.findings_count) == set(first_line(out)["about"]["violates"])


# --- the Informal Trace Format ------------------------------------------------------------------------


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
