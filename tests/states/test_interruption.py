"""Ctrl-C and other interruptions of `highwater states`: complete tables or none, and a message."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from highwater.checker.engines import reference
from highwater.checker.engines.native.state_graph import explore
from highwater.checker.scenarios.search import Progress, SearchOptions
from tests import models
from tests.slow import slow

pytest.importorskip("pyarrow", reason="the extra 'tables' is not installed")

ROOT = Path(__file__).parents[2]
LARGE = ("truncation/kip-320", *(x for n in ("log_size", "max_records") for x in ("--set", f"{n}=4")))
SLOW = ("--set", "replicas=4", "--set", "max_leader_epoch=2", "--symmetry", "--workers", "1")
"""A native search that still runs at its first progress report, and has found little by then."""


def start(out: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start the command in its own process group, as a terminal does."""
    return subprocess.Popen(
        [sys.executable, "-m", "highwater", "states", *LARGE, "--out", str(out), *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def interrupt(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGINT)


def wait_until(there: Callable[[], object]) -> None:
    until = time.monotonic() + 120
    while not there():
        assert time.monotonic() < until
        time.sleep(0.002)


def files(out: Path) -> list[str]:
    return sorted(str(p.relative_to(out)) for p in out.rglob("*"))


def count(out: Path, table: str) -> int:
    from pyarrow.dataset import dataset

    return int(dataset(out / table).count_rows())


def column(out: Path, table: str, name: str) -> list[Any]:
    from pyarrow.dataset import dataset

    return list(dataset(out / table).to_table(columns=[name])[name].unique().to_pylist())


@pytest.mark.parametrize(
    "engine",
    ["interpreter", pytest.param("native", marks=slow("the native engine; fast with the interpreter"))],
)
def test_while_it_searches(tmp_path: Path, engine: str) -> None:
    slow = SLOW if engine == "native" else ()
    process = start(tmp_path / "out", *slow, "--engine", engine)
    assert process.stderr is not None
    process.stderr.readline()  # the first line of progress
    interrupt(process)
    said, err = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "states found so far are being written; Ctrl-C again leaves no tables" in err
    assert "the tables are not whole: interrupted" in said
    about = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (about["complete"], about["stopped_by"]) == (False, "interrupted")
    assert about["states"] == count(tmp_path / "out", "states") > 1
    assert about["transitions"] == count(tmp_path / "out", "transitions") > 1
    sources = column(tmp_path / "out", "transitions", "source")
    assert len(sources) < about["states"]
    # Every step's source and target are in the table of states.
    for end in ("source", "target"):
        assert set(column(tmp_path / "out", "transitions", end)) <= set(
            column(tmp_path / "out", "states", "state")
        )


def test_while_it_writes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start(out, "--limit-states", "600000", "--json", str(tmp_path / "json"))
    wait_until(lambda: out.exists() and list(out.rglob("*.parquet")))
    interrupt(process)
    said, err = process.communicate(timeout=600)
    assert (process.returncode, said) == (130, "")
    assert err.endswith("highwater: interrupted before the tables were complete\n")
    assert "Traceback" not in err
    assert files(out) == []
    about = json.loads((tmp_path / "json").read_text())
    assert (about["states"], about["complete"], about["stopped_by"]) == (0, False, "interrupted")


def test_twice(tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start(out, "--engine", "interpreter")
    assert process.stderr is not None
    process.stderr.readline()
    interrupt(process)
    wait_until(lambda: list(out.rglob("*.parquet")) or process.poll() is not None)
    interrupt(process)
    said, err = process.communicate(timeout=600)
    assert (process.returncode, said) == (130, "")
    assert err.endswith("highwater: interrupted before the tables were complete\n")
    assert files(out) == []


def once(after: int) -> Callable[[Progress], None]:
    """A progress callback that presses Ctrl-C once more than ``after`` states are found."""
    pressed: list[Progress] = []

    def press(progress: Progress) -> None:
        if progress.distinct_states > after and not pressed:
            pressed.append(progress)
            signal.raise_signal(signal.SIGINT)

    return press


def test_the_interpreter_ends_between_two_states() -> None:
    model = models.scenario_model("truncation/kip-101", max_records=1)
    whole = explore(model, SearchOptions(workers=1))
    graph = reference.explore(model, SearchOptions(), once(2000))
    states = len(graph.states)
    assert graph.stopped_by == "interrupted"
    assert 0 < graph.expanded < states < len(whole.states)
    assert [len(x) for x in (graph.parents, graph.parent_instances)] == [states] * 2
    assert graph.offsets[-1] == len(graph.targets) == len(graph.instances)
    steps, expected = (
        {graph_.scalars(i): int(n) for i, n in enumerate(np.diff(graph_.offsets)[: graph_.expanded])}
        for graph_ in (graph, whole)
    )
    assert steps == {state: expected[state] for state in steps}
    found = reference.search(model, SearchOptions(), once(2000))
    assert found.stopped_by == "interrupted"
    assert sum(found.actions.values()) + len(model.initial) == found.generated_states
