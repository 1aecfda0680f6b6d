"""Background compilation: better code replaces the code in use without changing any result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.checker.engines import cache as code_cache
from highwater.checker.engines.native import compiler, machine, program
from highwater.checker.engines.native.levels import NativeLevels, search
from highwater.checker.engines.native.machine import Beside, Effort, Machine, Processor, TextName
from highwater.checker.engines.native.program import Program
from highwater.checker.engines.spark.request import package
from highwater.checker.scenarios.search import SearchOptions
from tests import zoo
from tests.command import highwater
from tests.conftest import BEGIN, CROWDED
from tests.native.on_disk import explored as explored_levels

TEXT = "define i64 @answer() {{\nentry:\n  ret i64 {}\n}}\n"
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


def test_with_other_searches_better_code_is_compiled_later(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[object] = []

    class Never(Beside):
        def __init__(self, *given: object) -> None:
            begun.append(given)

    monkeypatch.setattr(program, "Beside", Never)
    monkeypatch.setattr(program, "_BEGIN", BEGIN)
    monkeypatch.setattr(program, "_CROWDED", CROWDED)
    alone, crowded = (Program(zoo.counters(4, 25), common=True) for _ in range(2))
    seconds = alone._size * BEGIN
    alone.improve(seconds * 0.9)
    crowded.improve(seconds, crowded=True)
    assert not begun
    alone.improve(seconds)
    assert len(begun) == 1
    crowded.improve(crowded._size * CROWDED, crowded=True)
    assert len(begun) == 2


def test_a_check_of_several_scenarios_compiles_as_crowded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = tmp_path / "said"

    def improve(self: Program, seconds: float, crowded: bool = False) -> None:
        with said.open("a") as file:  # the process is a fork of this one
            file.write(f"{crowded}\n")

    monkeypatch.setattr(Program, "improve", improve)
    names = ["truncation/kip-101", "truncation/kip-279"]
    for asked, expected in ((names, {"True"}), (names[:1], {"False"})):
        assert highwater("check", "--quiet", "--workers", 2, *asked).status == 0
        assert set(said.read_text().split()) == expected
        said.unlink()


def test_a_search_does_not_wait_for_better_code(monkeypatch: pytest.MonkeyPatch) -> None:
    honest, ended = Beside._follow, threading.Event()

    def slow(self: Beside) -> None:
        ended.wait()
        honest(self)

    monkeypatch.setattr(Beside, "_follow", slow)
    assert set(explored(lambda compiled: None)) == {None}
    ended.set()


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


def test_background_compiled_code_is_cached(nothing_kept: Path) -> None:
    made: list[Machine] = []
    Beside(TEXT.format(7), Effort.USUAL, made.append).wait()
    kept = Machine.kept(TextName.of(machine.whole(TEXT.format(7))), Effort.USUAL)
    assert kept is not None
    assert [m.function("answer", 0, result=True)() for m in (made[0], kept)] == [7, 7]


def test_a_cancelled_compilation_leaves_no_code(nothing_kept: Path) -> None:
    made: list[Machine] = []
    beginning = Beside(LONG, Effort.FULL, made.append)
    assert beginning._thread.is_alive()
    beginning.give_up()
    assert beginning._process.poll() is not None
    assert not beginning._thread.is_alive()
    assert not made
    assert not nothing_kept.exists()


def test_the_compiler_ends_with_its_parent() -> None:
    asked = {
        "llvm": compiler.llvm_versions(),
        "processor": Processor.host().parts,
        "levels": Effort.FULL.value,
        "tuning": {},
        "bytes": len(LONG),
    }
    command = [sys.executable, "-P", "-c", compiler.source()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        code, _ = process.communicate(json.dumps(asked).encode() + b"\n" + LONG.encode())
    assert process.returncode == 1
    assert code == b""


@pytest.mark.parametrize("what", ["another version", "no process"])
def test_without_better_code_the_search_goes_on(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    if what == "another version":
        monkeypatch.setattr(compiler, "llvm_versions", lambda: "llvmlite 0.0")
    else:
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
    expected = [None, *[Effort.FULL] * (what == "no process")]
    assert list(dict.fromkeys(explored(wait))) == expected


_FROM_AN_ARCHIVE = """
import sys, tempfile
from pathlib import Path
from highwater.checker.engines.native import compiler
from highwater.checker.engines.native.machine import Beside
from highwater.checker.engines.native.machine import Effort
assert ".zip" in compiler.__file__, compiler.__file__
made = []
Beside(sys.stdin.read(), Effort.USUAL, made.append).wait()
print(compiler.versions() != "", len(made))
"""


def test_a_package_in_an_archive_compiles_too(tmp_path: Path) -> None:
    """Spark's executors compile from an archive, without any file path of the package."""
    archive = package(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(archive)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", _FROM_AN_ARCHIVE],
        input=TEXT.format(3),
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["True", "1"], done.stderr
