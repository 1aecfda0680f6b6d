"""Machine code: the cache, found by every process and never used if damaged; LLVM's fast instruction selector."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import llvmlite
import llvmlite.binding
import pytest

from highwater.checker.engines import cache as code_cache
from highwater.checker.engines.cache import FILE, Cache
from highwater.checker.engines.native import compiler, machine
from highwater.checker.engines.native.machine import Effort, Machine, Processor, TextName

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


def answer(number: int, effort: Effort = Effort.USUAL) -> int:
    compiled = Machine(TEXT.format(number), effort)
    return int(compiled.function("answer", 0, result=True)())


def entries(folder: Path) -> int:
    """The number of stored contents."""
    if not (folder / FILE).exists():
        return 0
    with closing(sqlite3.connect(folder / FILE)) as database:
        return int(database.execute("SELECT count(*) FROM entries").fetchone()[0])


def change(folder: Path, statement: str, *values: object) -> None:
    """Run one statement on the database."""
    with closing(sqlite3.connect(folder / FILE)) as database, database:
        database.execute(statement, values)


# --- the file -----------------------------------------------------------------------------------


def test_a_stored_content_is_returned(folder: Path) -> None:
    kept = Cache(folder)
    assert kept.get(KEY) is None
    kept.put(KEY, CONTENT)
    assert kept.get(KEY) == CONTENT
    assert kept.get(OTHER) is None
    kept.put(KEY, b"other")
    assert kept.get(KEY) == b"other"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.iterdir()] == [FILE]
    assert not (folder / FILE).stat().st_mode & 0o022


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_directory_that_others_can_write_is_refused(
    folder: Path, capfd: pytest.CaptureFixture[str], mode: int
) -> None:
    Cache(folder).put(KEY, CONTENT)
    folder.chmod(mode)
    kept = Cache(folder)
    assert kept.get(KEY) is None
    kept.put(OTHER, CONTENT)
    assert entries(folder) == 1, "nothing was written, or removed"
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
    "how", [lambda path: path.chmod(0o602), behind_a_link, piped], ids=["of others", "a link", "a pipe"]
)
def test_an_untrusted_file_is_not_read(folder: Path, how: Callable[[Path], None]) -> None:
    kept = Cache(folder)
    kept.put(KEY, CONTENT)
    how(folder / FILE)
    assert kept.get(KEY) is None
    kept.put(KEY, CONTENT)
    assert kept.get(KEY) == CONTENT


def test_a_content_under_another_key_is_not_taken(folder: Path) -> None:
    kept = Cache(folder)
    kept.put(KEY, CONTENT)
    kept.put(OTHER, b"other")
    change(folder, "UPDATE entries SET key = CASE key WHEN ? THEN x'01' ELSE ? END", KEY, KEY)
    assert kept.get(KEY) is None
    assert entries(folder) == 1, "the wrong entry was removed"


@pytest.mark.parametrize("value", ["NULL", "'text'", "7"])
@pytest.mark.parametrize("column", ["content", "digest", "used"])
def test_values_of_another_type(folder: Path, column: str, value: str) -> None:
    kept = Cache(folder)
    kept.put(KEY, CONTENT)
    change(folder, f"UPDATE entries SET {column} = {value}")
    assert kept.get(KEY) == (CONTENT if column == "used" else None)
    kept.put(KEY, CONTENT)
    assert kept.get(KEY) == CONTENT


@pytest.mark.parametrize("content", [b"no database" * 1000, b"SQLite format 3\0", "of another version"])
def test_a_file_that_is_no_database_of_this_version_is_replaced(folder: Path, content: bytes | str) -> None:
    folder.mkdir(mode=0o700)
    if isinstance(content, bytes):
        (folder / FILE).write_bytes(content)
    else:
        change(folder, "CREATE TABLE entries (key BLOB PRIMARY KEY, content BLOB)")
    kept = Cache(folder)
    assert kept.get(KEY) is None
    kept.put(KEY, CONTENT)
    assert kept.get(KEY) == CONTENT


def test_a_busy_file_is_not_waited_for_long(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_cache, "_WAIT", 0.01)
    kept = Cache(folder)
    kept.put(KEY, CONTENT)
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        kept.put(OTHER, CONTENT)
        assert kept.get(KEY) is None
    assert (kept.get(KEY), kept.get(OTHER)) == (CONTENT, None), "what another process uses is not damaged"


def test_the_least_recently_used_entry_is_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The least recently used ones of earlier days are removed first, of one day the oldest."""
    kept = Cache(folder, most_bytes=1 << 20)
    keys, content = [bytes([n]) * 32 for n in range(9)], bytes(1 << 17)
    for day, key in enumerate(keys[:7]):
        monkeypatch.setattr(code_cache, "_today", lambda day=day: day // 4)
        kept.put(key, content)
    monkeypatch.setattr(code_cache, "_today", lambda: 9)
    kept.get(keys[0])
    (folder / "mine.txt").write_text("not the cache's")
    kept.put(keys[8], content)
    assert {key for key in keys if kept.get(key)} == {keys[0], *keys[4:7], keys[8]}
    size = (folder / FILE).stat().st_size
    for key in keys:
        kept.put(key, content)
    assert (folder / FILE).stat().st_size == size, "room is used again"
    assert (folder / "mine.txt").exists()


def _use(folder: Path, seed: int) -> None:
    """Put and get in a cache that is always too small, concurrently; exits with 1 on wrong content."""
    kept = Cache(folder, most_bytes=60_000)
    for turn in range(300):
        number = (turn * seed) % 23
        key, content = bytes([number]) * 32, bytes([number]) * (1000 + 200 * number)
        if turn % 3 == 0:
            kept.put(key, content)
        elif kept.get(key) not in (None, content):
            sys.exit(1)


def test_processes_use_a_cache_together(folder: Path) -> None:
    context = get_context("spawn")
    workers = [context.Process(target=_use, args=(folder, seed)) for seed in (1, 2, 3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 3
    assert entries(folder) > 3
    assert [path.name for path in folder.iterdir()] == [FILE]


# --- code ---------------------------------------------------------------------------------------


def test_better_code_is_taken_and_worse_is_not(folder: Path, made: list[Effort]) -> None:
    answer(1, Effort.USUAL)
    assert Machine(TEXT.format(1), Effort.FULL).effort is Effort.FULL
    assert made == [Effort.USUAL, Effort.FULL]
    assert Machine(TEXT.format(1), Effort.USUAL).effort is Effort.FULL
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
        assert machine.key(text, other, Effort.USUAL) != machine.key(text, host, Effort.USUAL)
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


@pytest.mark.parametrize("damage", ["a bit", "cut off", "emptied", "of another text"])
def test_damaged_code_is_made_anew(folder: Path, made: list[Effort], damage: str) -> None:
    answer(1)
    path = folder / FILE
    content = bytearray(path.read_bytes())
    if damage == "a bit":  # of the code, not of unused room
        content[content.index(b"\x7fELF") + 20] ^= 1
        path.write_bytes(content)
    elif damage == "of another text":
        answer(2)
        change(folder, "UPDATE entries SET content = (SELECT content FROM entries ORDER BY rowid DESC)")
    else:
        path.write_bytes(content[:-900] if damage == "cut off" else b"")
    made.clear()
    assert answer(1) == 1
    assert made == [Effort.USUAL]
    assert answer(1) == 1
    assert len(made) == 1, "what was made anew is kept"
