"""Benchmarks measure whole commands, and refuse runs that count different states."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from docs.bench import __main__ as bench
from docs.bench import cases
from docs.bench.cases import Case, Specification
from docs.bench.measure import Run, follow, highwater
from highwater.checker.engines.cache import VARIABLE
from tests.slow import slow

MB = 1_000_000
SMALL = Case("small", ("check", "docs/examples/register.toml"), "1 s", repeat=1, cold=True)
MODULE = Specification(cases.TLA_EXAMPLES, "folder/Module.tla", "SPECIFICATION Spec\n")


def test_cold_has_an_empty_cache_and_again_a_full_one(monkeypatch: pytest.MonkeyPatch) -> None:
    caches: list[bool] = []

    def seen(arguments: tuple[str, ...], status: int = 0, environment: dict[str, str] | None = None) -> Run:
        if environment is not None:
            caches.append(os.path.isdir(environment[VARIABLE]))
        return highwater(arguments, status, environment)

    monkeypatch.setattr(bench, "highwater", seen)
    found = bench.measure(SMALL, 1)
    assert caches == [False, True]
    assert found.counts == {198}
    cold, again = bench.rows(SMALL, found)
    assert cold.startswith("| small, cold | 198 states | ")
    assert again.endswith(" a second | 1 s |")


@slow("follows a log in another process; the fast test measures a search")
def test_a_follower_is_measured_to_the_end_of_its_log_and_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    followed = Case("followed", (), log=cases._generated(2_000), follows=True)
    monkeypatch.setattr(bench, "follow", lambda log: follow(log, 0.3))
    found = bench.measure(followed, 1)
    (run,) = found.again
    assert run.results[0]["records"] >= 2_000
    assert 0 <= run.results[0]["idle"] < 1
    (row,) = bench.rows(followed, found)
    assert " of a core | " in row
    assert row.endswith(" a second |  |")


@pytest.fixture
def _tlc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script in place of TLC that checks for its files and prints TLC's output."""
    (tmp_path / "java").write_text(
        "#!/bin/sh\ntest -f Module.tla -a -f TLAPS.tla -a -f run.cfg || exit 1\n"
        'echo "9 states generated, $FOUND distinct states found, 0 states left on queue."\n'
    )
    (tmp_path / "java").chmod(0o755)
    (tmp_path / "tla2tools.jar").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/Module.tla").touch()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv(cases.JAR, str(tmp_path / "tla2tools.jar"))
    monkeypatch.setenv(cases.TLA_EXAMPLES, str(tmp_path))


@pytest.mark.usefixtures("_tlc")
def test_tlc_runs_in_turn_and_must_count_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = Case("beside", SMALL.arguments, beside=MODULE)
    counted = Run(1.0, 1.0, MB, "", ({"distinct_states": 39_619, "seconds": 1.0},))
    monkeypatch.setattr(bench, "highwater", lambda *arguments: counted)
    monkeypatch.setenv("FOUND", "39619")
    found = bench.measure(beside, 1)
    assert len(found.tlc) == 1
    assert "times as long" in list(bench.rows(beside, found))[-1]
    monkeypatch.setenv("FOUND", "39618")
    with pytest.raises(RuntimeError, match=r"counted different states: \[39618, 39619\]"):
        bench.measure(beside, 1)
    monkeypatch.setenv("PATH", "")
    assert "| beside, TLC | not measured: Java is not installed | | | | | |" in bench.rows(beside, found)


def test_a_part_replaces_itself_in_the_page() -> None:
    text = "# Benchmarks\n\nwords\n\n## One\n\nold\n\n## Two\n\nkept\n"
    assert bench.with_part(text, "## One", "## One\n\nnew\n") == text.replace("old", "new")
    assert bench.with_part(text, "## Two", "## Two\n\nnew\n") == text.replace("kept", "new")
    assert bench.with_part(text, "## Three", "## Three\n\nmore\n") == text + "\n## Three\n\nmore\n"


@slow("starts a process for each proof of the benchmark")
def test_each_proof_is_a_valid_request() -> None:
    for case in cases.PARTS["prove"]:
        with pytest.raises(
            RuntimeError, match="ended with status 3"
        ):  # a limit was reached, so the file was accepted
            highwater((*case.arguments, "--limit-seconds", "0.001"))
