"""Background compilation: better code replaces the code in use without changing any result."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.checker.engines import cache as code_cache
from highwater.checker.engines.native import compiler, program
from highwater.checker.engines.native.levels import NativeLevels, search
from highwater.checker.engines.native.machine import Beside, Effort, Machine
from highwater.checker.engines.native.program import Program
from highwater.checker.scenarios.search import SearchOptions
from tests import zoo
from tests.native.on_disk import explored as explored_levels

_STEPS = "".join(f"  %v{i + 1} = mul i64 %v{i}, %v{i // 2}\n" for i in range(60_000))
LONG = f"define i64 @long(i64 %v0) {{\nentry:\n{_STEPS}  ret i64 %v60000\n}}\n"
"""A text that takes seconds to compile."""
WIDE, DEEP = 26**4, 4 * 25 + 1


pytestmark = pytest.mark.usefixtures("better_code_beside")


@pytest.fixture(autouse=True)
def nothing_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty directory of the code cache."""
    monkeypatch.setenv(code_cache.VARIABLE, str(tmp_path / "code"))
    return tmp_path / "code"


def explored(each_level: Callable[[Program], None]) -> list[Effort | None]:
    """Search and check the result; returns the effort of the code in use at the start of each level.

    The common kernel has none.
    """
    compiled = Program(zoo.counters(4, 25), common=True)
    run = NativeLevels(compiled, SearchOptions(workers=2))
    improve = compiled.improve
    efforts: list[Effort | None] = []

    def noting(seconds: float, *, crowded: bool = False) -> None:
        efforts.append(compiled.effort)
        improve(seconds, crowded=crowded)
        each_level(compiled)

    compiled.improve = noting  # type: ignore[method-assign]
    result = explored_levels(run)
    assert (result.distinct_states, result.depth) == (WIDE, DEEP)
    return efforts


def wait(compiled: Program) -> None:
    if compiled._beside is not None:
        compiled._beside.wait()


def test_a_search_goes_over_to_better_code_as_it_grows() -> None:
    assert list(dict.fromkeys(explored(wait))) == [None, Effort.FULL]


@pytest.mark.parametrize("interrupted", [True, False])
def test_after_ctrl_c_nobody_waits_for_better_code(interrupted: bool) -> None:
    compiled = Program(zoo.counters(2, 3), common=True)
    compiled._beside = beside = Beside(LONG, Effort.FULL, lambda _: None)
    levels = NativeLevels(compiled, SearchOptions())
    if interrupted:
        levels.close()
    else:
        explored_levels(levels)
    assert beside._given_up == interrupted
    beside.give_up()


def test_better_code_that_is_kept_is_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(Program(zoo.counters(4, 25), common=True).text, Effort.FULL)
    monkeypatch.setattr(program, "Beside", None)
    assert search(zoo.counters(4, 25), SearchOptions()).distinct_states == WIDE


def test_a_cancelled_compilation_leaves_no_code(nothing_kept: Path) -> None:
    made: list[Machine] = []
    beginning = Beside(LONG, Effort.FULL, made.append)
    assert beginning._thread.is_alive()
    beginning.give_up()
    assert beginning._process.poll() is not None
    assert not beginning._thread.is_alive()
    assert not made
    assert not nothing_kept.exists()


@pytest.mark.parametrize("what", ["another version", "no process"])
def test_without_better_code_the_search_goes_on(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    if what == "another version":
        monkeypatch.setattr(compiler, "llvm_versions", lambda: "llvmlite 0.0")
    else:
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
    expected = [None, *[Effort.FULL] * (what == "no process")]
    assert list(dict.fromkeys(explored(wait))) == expected
