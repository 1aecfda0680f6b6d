"""The machine code cache: found by every process, and never used if damaged."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import llvmlite
import llvmlite.binding
import pytest
from click.testing import CliRunner

from highwater.checker.cli import cli
from highwater.checker.engines import cache as code_cache
from highwater.checker.engines.cache import Cache
from highwater.checker.engines.native.code import compiler, machine
from highwater.checker.engines.native.code.machine import Effort, Machine, Processor, TextName

TEXT = "define i64 @answer() {{\nentry:\n  ret i64 {}\n}}\n"
KEY, OTHER = b"k" * 32, b"o" * 32
CONTENT = b"what was compiled" * 10


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty directory of the code cache."""
    monkeypatch.setenv(code_cache.VARIABLE, str(tmp_path / "code"))
    return tmp_path / "code"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Effort]:
    """The effort of each compilation."""
    calls: list[Effort] = []
    honest = machine._made

    def counted(text: str, processor: Processor, effort: Effort) -> tuple[Effort, bytes]:
        calls.append(effort)
        return honest(text, processor, effort)

    monkeypatch.setattr(machine, "_made", counted)
    return calls


def answer(number: int, effort: Effort = Effort.QUICK) -> int:
    compiled = Machine(TEXT.format(number), effort)
    return int(compiled.function("answer", 0, result=True)())


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.code"))


# --- files --------------------------------------------------------------------------------------


def test_a_stored_content_is_returned(folder: Path) -> None:
    kept = Cache(folder)
    assert kept.get(KEY) is None
    kept.put(KEY, CONTENT)
    assert kept.get(KEY) == CONTENT
    assert kept.get(OTHER) is None
    assert folder.stat().st_mode & 0o777 == 0o700
    assert files(folder)[0].stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_directory_that_others_can_write_is_refused(
    folder: Path, capfd: pytest.CaptureFixture[str], mode: int
) -> None:
    Cache(folder).put(KEY, CONTENT)
    folder.chmod(mode)
    kept = Cache(folder)
    assert kept.get(KEY) is None
    kept.put(OTHER, CONTENT)
    assert len(files(folder)) == 1, "nothing was written, or removed"
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert f"{folder}: not used as a cache" in said
    assert code_cache.chosen() is None, "nor do the processes that this one starts ask again"


def behind_a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "change", [lambda path: path.chmod(0o602), behind_a_link, piped], ids=["of others", "a link", "a pipe"]
)
def test_an_untrusted_file_is_not_read(folder: Path, change: Callable[[Path], None]) -> None:
    kept = Cache(folder)
    kept.put(KEY, CONTENT)
    change(files(folder)[0])
    assert kept.get(KEY) is None
    kept.put(KEY, CONTENT)
    assert kept.get(KEY) == CONTENT


def test_a_file_of_another_user_or_size_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digests are correct: somebody made them that way."""
    size = len(CONTENT) + len(code_cache._head(KEY, CONTENT))
    Cache(folder).put(KEY, CONTENT)
    assert Cache(folder, most_bytes=size).get(KEY) == CONTENT
    with monkeypatch.context() as other:
        other.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert Cache(folder).get(KEY) is None
    monkeypatch.undo()
    assert Cache(folder, most_bytes=size - 1).get(KEY) is None
    assert files(folder) == []


def test_an_unwritable_cache_keeps_nothing(
    tmp_path: Path, made: list[Effort], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no directory")
    monkeypatch.setenv(code_cache.VARIABLE, str(tmp_path / "file"))
    assert [answer(1), answer(1)] == [1, 1]
    assert len(made) == 2
    monkeypatch.setenv(code_cache.VARIABLE, str(tmp_path / "file" / "below"))
    assert answer(1) == 1


def test_an_incomplete_write_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    kept = Cache(folder)
    kept.put(OTHER, CONTENT)
    monkeypatch.setattr(os, "rename", full)
    kept.put(KEY, CONTENT)
    assert [path.name for path in folder.iterdir()] == [code_cache._name(OTHER)]
    assert (kept.get(KEY), kept.get(OTHER)) == (None, CONTENT)


def test_the_least_recently_used_entry_is_removed(folder: Path) -> None:
    size = len(CONTENT) + len(code_cache._head(KEY, CONTENT))
    kept = Cache(folder, most_bytes=8 * size)
    keys = [bytes([n]) * 32 for n in range(9)]
    for age, key in enumerate(keys[:8]):
        kept.put(key, CONTENT)
        os.utime(folder / f"{key.hex()}.code", (age, age))
    kept.get(keys[0])
    (folder / "mine.txt").write_text("not the cache's" * size)
    kept.put(keys[8], CONTENT)
    assert {key for key in keys if kept.get(key)} == {keys[0], *keys[4:]}
    assert (folder / "mine.txt").exists()


def test_unfinished_files_are_removed_after_an_hour(folder: Path) -> None:
    kept = Cache(folder)
    kept.put(KEY, CONTENT)
    old, new = folder / f".{'0' * 16}.new", folder / f".{'1' * 16}.new"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    Cache(folder).put(OTHER, CONTENT)
    assert not old.exists()
    assert new.exists()


def _use(folder: Path, seed: int) -> None:
    """Put and get in a cache that is always too small, concurrently; exits with 1 on wrong content."""
    kept = Cache(folder, most_bytes=6_000)
    for turn in range(300):
        number = (turn * seed) % 23
        key, content = bytes([number]) * 32, bytes([number]) * (100 + 20 * number)
        if turn % 3 == 0:
            kept.put(key, content)
        elif kept.get(key) not in (None, content):
            sys.exit(1)


def test_processes_use_a_cache_at_once(folder: Path) -> None:
    context = get_context("spawn")
    workers = [context.Process(target=_use, args=(folder, seed)) for seed in (1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 2
    assert 0 < sum(path.stat().st_size for path in files(folder)) <= 6_000
    assert list(folder.glob(".*")) == []


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(code_cache.VARIABLE, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert _place() == tmp_path / ".cache" / "highwater"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert _place() == tmp_path / "xdg" / "highwater"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert _place() == tmp_path / ".cache" / "highwater"


def _place() -> Path:
    found = code_cache.chosen()
    assert found is not None
    return found.directory


# --- code ---------------------------------------------------------------------------------------


def test_better_code_is_taken_and_worse_is_not(folder: Path, made: list[Effort]) -> None:
    answer(1, Effort.USUAL)
    assert Machine(TEXT.format(1), Effort.QUICK).effort is Effort.USUAL
    assert made == [Effort.USUAL]
    assert Machine(TEXT.format(1), Effort.FULL).effort is Effort.FULL
    assert made == [Effort.USUAL, Effort.FULL]


def test_code_of_another_processor_is_not_taken(
    folder: Path, made: list[Effort], monkeypatch: pytest.MonkeyPatch
) -> None:
    host, text = Processor.host(), TextName.of(TEXT)
    answer(1)
    for other in (
        replace(host, features=host.features + ",-avx512f"),
        replace(host, name="generic"),
        replace(host, triple=host.triple + "-gnu"),
    ):
        assert machine.key(text, other, Effort.QUICK) != machine.key(text, host, Effort.QUICK)
    monkeypatch.setattr(Processor, "host", lambda: replace(host, name="generic"))
    assert answer(1) == 1
    assert len(made) == 2


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        (llvmlite, "__version__", "0.0"),
        (llvmlite.binding, "llvm_version_info", (1, 2, 3)),
        (compiler, "source", lambda: "another text of the module"),
        (machine, "TUNING", {}),
    ],
    ids=["llvmlite", "LLVM", "how it is asked", "settings"],
)
def test_code_of_another_compiler_is_not_taken(
    folder: Path, made: list[Effort], monkeypatch: pytest.MonkeyPatch, place: object, name: str, value: object
) -> None:
    answer(1)
    monkeypatch.setattr(place, name, value)
    assert answer(1) == 1
    assert len(made) == 2


@pytest.mark.parametrize("damage", ["a bit", "cut off", "emptied", "longer", "of another text"])
def test_a_damaged_file_is_made_anew(folder: Path, made: list[Effort], damage: str) -> None:
    answer(1)
    (path,) = files(folder)
    content = bytearray(path.read_bytes())
    if damage == "a bit":
        content[-1] ^= 1
    elif damage == "of another text":
        answer(2)
        (other,) = set(files(folder)) - {path}
        content[:] = other.read_bytes()
    else:
        content = {"cut off": content[:-9], "emptied": bytearray(), "longer": content + b"\0"}[damage]
    path.write_bytes(content)
    made.clear()
    assert answer(1) == 1
    assert made == [Effort.QUICK]
    assert answer(1) == 1
    assert len(made) == 1, "what was made anew is kept"


def test_no_cache_by_an_option(folder: Path, made: list[Effort]) -> None:
    for command in (["check"], ["simulate", "--walks", "10"]):
        asked = [*command, "truncation/truncate-to-hwm", "--quiet"]
        for arguments, kept, compiled in ((["--no-cache"], 0, True), ([], 1, True), ([], 1, False)):
            made.clear()
            result = CliRunner().invoke(cli, [*asked, *arguments])
            assert result.exit_code in (0, 1)
            assert bool(files(folder)) == bool(kept)
            assert bool(made) == compiled
        for path in files(folder):
            path.unlink()
        assert os.environ[code_cache.VARIABLE] == str(folder)


_TEXTS = """
import sys
from hashlib import sha256
from highwater.checker.engines.native.code import program
from highwater.checker.engines.native.code.program import Program
from tests import models
program.Machine = type("None", (), {"__init__": lambda *a: None, "function": lambda *a, **k: None, "effort": None})
for name in sys.argv[1:]:
    print(name, sha256(Program(models.scenario_model(name)).text.encode()).hexdigest())
"""


def test_the_text_does_not_depend_on_earlier_traces() -> None:
    names = ["replication/large-messages", "truncation/kip-320"]
    found = [
        subprocess.run(
            [sys.executable, "-c", _TEXTS, *order], check=True, capture_output=True, text=True
        ).stdout.split("\n")
        for order in (names, names[::-1])
    ]
    assert set(found[0]) == set(found[1])
