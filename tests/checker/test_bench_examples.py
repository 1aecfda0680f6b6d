"""The part of the benchmarks with TLC beside us: when TLC's search begins and ends, and that both count the same."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from docs.bench import examples, tlc, whole
from docs.bench.examples import Example
from docs.bench.whole import run_whole
from tests.slow import slow

SMALL = Example("small", "folder", "Module", "SPECIFICATION Spec\n", "two_phase", ("managers=2",))
TLC = """#!/bin/sh
echo "Computing initial states..."
sleep 0.1
echo "Model checking completed. No error has been found."
echo "9 states generated, $FOUND distinct states found, 0 states left on queue."
"""


def test_when_a_command_says_what_is_looked_for() -> None:
    script = "import time; print('first', flush=True); time.sleep(0.3); print('second', flush=True)"
    run = run_whole([sys.executable, "-c", script], marks=("first", "second", "third"))
    first, second, third = run.marks
    assert first is not None
    assert second is not None
    assert 0 < first <= second <= run.wall
    assert third is None


def test_a_process_that_ends_while_it_is_looked_at_has_none_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for task in ("7/task/7", "7/task/8", "9/task/9"):  # 8 has no list of children: that thread has ended
        (tmp_path / task).mkdir(parents=True)
    (tmp_path / "7/task/7/children").write_text("9 11 ")  # 11 has ended
    (tmp_path / "9/task/9/children").write_text("")
    monkeypatch.setattr(whole, "_PROC", tmp_path)
    assert list(whole.tree(7)) == [7, 9, 11]


@pytest.fixture
def _tlc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something stands for TLC: it looks for its files and writes what TLC writes."""
    (tmp_path / "java").write_text(TLC)
    (tmp_path / "java").chmod(0o755)
    (tmp_path / "tla2tools.jar").touch()
    folder = tmp_path / "checkout" / examples.SPECIFICATIONS / SMALL.folder
    folder.mkdir(parents=True)
    (folder / "Module.tla").write_text("---- MODULE Module ----\n====\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv(tlc.JAR, str(tmp_path / "tla2tools.jar"))
    monkeypatch.setenv(tlc.EXAMPLES, str(tmp_path / "checkout"))


@slow("runs what only the benchmark runs; the commands in turn are asked of whole commands")
@pytest.mark.usefixtures("_tlc")
def test_both_run_in_turn_and_have_to_count_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOUND", "56")
    monkeypatch.setattr(examples, "EXAMPLES", (SMALL,))
    monkeypatch.setattr(examples, "_LONG", 0.1)
    cold, again, theirs = examples.rows(1)
    assert all(row.startswith("| small: 56 states, ") for row in (cold, again, theirs))
    assert "times TLC's rate; TLC's command takes" in again
    found = examples.measure(SMALL, 1)
    assert 0 < found.tlc_rates[0] < 56 / 0.01
    assert (len(found.cold), len(found.again), len(found.tlc), len(found.rates)) == (1, 1, 1, 2)
    monkeypatch.setenv("FOUND", "57")
    with pytest.raises(RuntimeError, match=r"counted different states: \[56, 57\]"):
        examples.measure(SMALL, 1)


def test_without_tlc_its_row_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "EXAMPLES", (SMALL,))
    monkeypatch.delenv(tlc.JAR, raising=False)
    rows = list(examples.rows(1))
    assert "not measured: " in rows[2]
    assert all(row.count("|") == 7 for row in rows)
    assert examples.section(rows, "a machine").startswith(examples.HEADING)
