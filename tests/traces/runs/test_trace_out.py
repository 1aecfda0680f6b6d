"""`--trace-out`: check and simulate write a run that replays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from highwater.checker.cli import cli
from highwater.checker.scenarios.request import asked
from highwater.traces.reading import TraceError
from highwater.traces.reports.report import Report
from highwater.traces.runs import Interpreter, hold, replay_run
from highwater.traces.runs.format import read_run

DEFECT, SOUND = "replication/defect-join-below-hwm", "truncation/kip-320"
REGISTER, HASTY = "docs/examples/register.toml", "docs/examples/register-hasty.toml"


@pytest.fixture
def out(tmp_path: Path) -> Any:
    return tmp_path / "run.ndjson"


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(cli, [str(a) for a in arguments], standalone_mode=False)


def first_line(path: Any) -> Any:
    return json.loads(path.read_text(encoding="utf-8").splitlines()[0])["meta"]


@pytest.mark.parametrize("engine", ["native", "interpreter"])
def test_the_counterexample_of_a_search(engine: str, out: Any) -> None:
    ended = run("check", DEFECT, "--engine", engine, "--trace-out", out)
    report = replay_run(out)
    assert f"{out}: {report.operations - 1} steps written, to a violation of " in ended.output
    (violated,) = first_line(out)["about"]["violates"]
    assert violated in report.findings_count
    assert not report.unexplained
    assert first_line(out)["scenario"] == DEFECT


def test_without_a_violation_nothing_is_written(out: Any) -> None:
    ended = run("check", SOUND, "--trace-out", out)
    assert "not written: no violation found" in ended.output
    assert not out.exists()


def test_options_of_the_command_line_are_in_the_trace(out: Any) -> None:
    run("simulate", SOUND, "--rule", "join_at_epoch_start=off", "--set", "log_size=1", "--walks", 1,
        "--trace-out", out)  # fmt: skip
    meta = first_line(out)
    assert meta["rules"] == {"join_at_epoch_start": False}
    assert (meta["parameters"]["log_size"], meta["profile"]) == (1, "kip_320")
    assert replay_run(out).operations > 1


def test_a_walk_of_a_simulation(out: Any) -> None:
    ended = run("simulate", SOUND, "--walks", 3, "--depth", 9, "--seed", 5, "--trace-out", out)
    report = replay_run(out)
    assert report.explained
    assert report.operations == 9
    assert "8 steps written" in ended.output
    assert first_line(out)["about"] == {"seed": 5}


def test_the_violating_walk_of_a_simulation(out: Any) -> None:
    run("simulate", "replication/defect-min-isr-copies", "--walks", 2000, "--trace-out", out)
    assert set(first_line(out)["about"]["violates"]) <= set(replay_run(out).findings_count)


def test_quiet_prints_no_path_of_the_trace(out: Any) -> None:
    ended = run("check", "truncation/kip-101", "--quiet", "--trace-out", out)
    assert "trace-out" not in ended.output
    assert out.exists()


@pytest.mark.parametrize("names", [(), (SOUND, DEFECT)])
def test_a_trace_is_one_run(names: Any, out: Any) -> None:
    ended = run("check", *names, "--trace-out", out)
    assert "name one scenario" in ended.output


def test_a_file_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    for target, why in ((tmp_path, "is a directory"), (tmp_path / "no" / "run", "cannot be written")):
        for command in ("check", "simulate"):
            ended = run(command, DEFECT, "--trace-out", target)
            assert ended.exception.code == 2
            assert why in ended.output


def test_a_protocol_of_ones_own_is_held_from_python(out: Any) -> None:
    """The replay never loads a file named in a trace; the caller passes the model."""

    run("simulate", HASTY, "--walks", 300, "--depth", 20, "--trace-out", out)
    with pytest.raises(TraceError, match="unknown protocol"):
        replay_run(out)
    report = Report(str(out), "run of the model", "")
    hold(read_run(out), Interpreter(asked(HASTY).model()), report)
    assert not report.unexplained
    assert set(report.findings_count) == set(first_line(out)["about"]["violates"])
