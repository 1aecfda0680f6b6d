"""The part of the benchmarks about whole commands: what is measured is all of a command, and states are compared."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from docs.bench import commands, development, tlc
from docs.bench.commands import Command
from docs.bench.whole import Whole, run_whole
from highwater.checker.engines.cache import OFF, VARIABLE

MB = 1_000_000
_HOLDS = "import sys; held = b'x' * int(sys.argv[1]); print(flush=True); sys.stdin.read()"
_BESIDE = f"""
import subprocess, sys, time
def holding():
    line = [sys.executable, '-c', {_HOLDS!r}, '{150 * MB}']
    return subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
below = [holding() for _ in range(int(sys.argv[1]))]
for process in below:
    process.stdout.readline()
time.sleep(0.5)
for process in below:
    process.communicate()
"""


def test_memory_is_that_of_all_processes_of_a_command() -> None:
    one, two = (run_whole([sys.executable, "-c", _BESIDE, str(count)]) for count in (1, 2))
    assert 150 * MB < one.memory < 220 * MB
    assert 300 * MB < two.memory < 420 * MB
    assert one.wall > 0.5
    assert one.processor > 0


def test_a_command_that_ends_otherwise_is_refused_with_what_it_said() -> None:
    line = [sys.executable, "-c", "import sys; print('why'); sys.exit(3)"]
    with pytest.raises(RuntimeError, match=r"ended with status 3:\nwhy"):
        run_whole(line)
    assert run_whole(line, status=3).said == "why\n"


SMALL = Command("small", ("check", "truncation/kip-320"), "1 s", "", 1)


def test_cold_is_with_an_empty_cache_and_again_with_what_was_left_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[tuple[str, bool]] = []
    modules: list[set[Path]] = []
    run = run_whole

    def seen(line: str, *, environment: Any) -> Any:
        kept.append((environment[VARIABLE], os.path.isdir(environment[VARIABLE])))
        assert "PYTHONDONTWRITEBYTECODE" not in environment
        modules.append({*Path(environment["PYTHONPYCACHEPREFIX"]).rglob("*.pyc")})
        return run(line, environment=environment)

    monkeypatch.setattr(commands, "run_whole", seen)
    found = commands.measure(SMALL, 3)
    (before, _), (cold, was_there), (again, is_there) = kept
    assert before == OFF  # the command for which Python compiles the modules
    assert cold == again
    assert (was_there, is_there) == (False, True)
    assert [len(there) > 100 for there in modules] == [False, True, True]
    assert found.states == {39_619}
    assert (len(found.cold), len(found.again), len(found.tlc)) == (1, 1, 0)


@pytest.fixture
def _tlc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something stands for TLC: it writes what TLC ends with."""
    (tmp_path / "java").write_text(
        '#!/bin/sh\necho "9 states generated, $FOUND distinct states found, 0 states left on queue."\n'
    )
    (tmp_path / "java").chmod(0o755)
    for name in ("Kip320.tla", "tla2tools.jar"):
        (tmp_path / name).touch()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv(tlc.JAR, str(tmp_path / "tla2tools.jar"))
    monkeypatch.setenv(tlc.SPECIFICATION, str(tmp_path))


@pytest.mark.usefixtures("_tlc")
def test_tlc_runs_in_turn_and_has_to_count_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = Command("beside", SMALL.arguments, "", "", 2, beside_tlc=True)
    monkeypatch.setenv("FOUND", "39619")
    assert tlc.absent() is None
    assert len(commands.measure(beside, 2).tlc) == 2
    monkeypatch.setenv("FOUND", "39618")
    with pytest.raises(RuntimeError, match=r"counted different states: \[39618, 39619\]"):
        commands.measure(beside, 1)


def test_without_tlc_its_row_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        commands, "COMMANDS", (Command("beside", SMALL.arguments, "", "", 1, beside_tlc=True),)
    )
    monkeypatch.delenv(tlc.JAR, raising=False)
    rows = list(commands.rows(1))
    assert len(rows) == 3
    assert "not measured: " in rows[2]
    assert all(row.count("|") == 6 for row in rows)


def test_the_projects_own_targets_are_rows_with_their_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    said = Whole(240.0, 400.0, 1_500 * MB, "first\n==== 7 passed, 2 skipped ====\n\n")
    monkeypatch.setattr(development, "run_whole", lambda *_, **__: said)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: None)
    monkeypatch.setattr(development, "_WORK", {development.SLOW: development.slow_tests})
    assert list(development.rows(1)) == [
        "| the tests marked slow | 240 s | 400 s | 1.5 GB | 7 passed, 2 skipped | 25 min |"
    ]
