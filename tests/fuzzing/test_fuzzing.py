"""Any input gives one line about its error: no traceback, no hang, and bounded memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from tests.fuzzing import readers, run, samples
from tests.fuzzing.changes import ODDITIES, VALUES
from tests.slow import slow

ROOT = Path(__file__).parents[2]
QUICK = [name for name in ODDITIES if not name.endswith("compressed")]
DEEP = 3000
CORPUS = {
    "lists in each other": b"a = " + b"[" * DEEP + b"]" * DEEP,
    "lists without an end": b"[" * 100_000,
    "objects in each other": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "tables in each other": b"a = " + b"{a=" * DEEP + b"1" + b"}" * DEEP,
    "a key of many parts": b"title." + b".".join([b"a"] * DEEP) + b" = 1",
    "a header of many parts": b"[" + b".".join([b"parameters"] * DEEP) + b"]",
    "a number of many digits": b"depth = " + b"9" * 5000,
    "a hexadecimal number of many digits": b"title = 0x" + b"f" * 5000,
    "an object's number of many digits": b'{"meta": ' + b"9" * 5000 + b"}",
    "no number": b'{"meta": NaN}',
    "an infinite one": b"depth = inf",
    "a key twice": b'{"meta": 1, "meta": 2}',
    "no text": b"\xff\xfe\x00",
    "zeros": b"\x00" * 4096,
    "half a character": b'{"meta": {"format": "\\ud800"}}',
    "a terminal's signs": b'protocol = "\\u001b[2J"',
    "a path that is none": b'protocol = "a\\u0000.py"',
}
"""Kind of file → content that a reader once handled wrongly, or could."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return samples.write(tmp_path_factory.mktemp("fuzzing") / "samples")


@pytest.fixture
def _watched() -> Iterator[None]:
    """Interrupt a reader that blocks."""

    def end(number: int, frame: FrameType | None) -> None:
        raise run.Hang

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("_watched")
@pytest.mark.parametrize("kind", readers.READERS)
def test_every_reader_answers_the_corpus_in_one_line(made: dict[str, Path], kind: str) -> None:
    path = made[kind]
    read, before = readers.READERS[kind], path.read_bytes()
    read(path)
    for content in CORPUS.values():
        path.write_bytes(content)
        read(path)
    for odd in QUICK:
        path.unlink()
        ODDITIES[odd](path)
        read(path)
        path.rmdir() if odd == "a directory" else path.unlink()
        path.touch()
    path.write_bytes(before)


def test_wrong_values_of_options_are_one_line(made: dict[str, Path]) -> None:
    for value in VALUES:
        text = value[:10_000].decode(errors="surrogateescape")
        for option in ("--set", "--rule", "--profile", "--property"):
            readers.set_over(made["scenario"], [option, text])
            readers.set_over(made["scenario"], [option, f"top={text}"])


def test_wrong_requests_to_the_explorer_are_answered() -> None:
    for value in (value for value in VALUES if value != b"0"):  # 0 would start a search
        text = "".join(f"%{byte:02x}" for byte in value[:5000])
        for asked in (
            "run?path",
            "run?watch",
            "random?steps",
            "random?seed",
            "rule?name",
            "test?path",
            "nearest?path",
        ):
            readers.ask(f"/{readers.TOKEN}/{asked}={text}")


# --- the fuzzer -------------------------------------------------------------------------------------------


@pytest.fixture
def fuzzer(tmp_path: Path) -> Iterator[run.Fuzzer]:
    found = run.Fuzzer(tmp_path / "fuzzer", 1, tmp_path / "kept")
    found.kinds = ["baseline"]
    before = signal.signal(signal.SIGPROF, found.hang)
    yield found
    signal.signal(signal.SIGPROF, before)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Path], None]], None]:
    return lambda read: monkeypatch.setitem(readers.READERS, "baseline", read)


def test_the_fuzzer_notices_a_traceback(
    fuzzer: run.Fuzzer, broken: Callable[[Callable[[Path], None]], None], tmp_path: Path
) -> None:
    fuzzer.one(1)
    assert (fuzzer.tracebacks, fuzzer.hangs) == ([], [])
    broken(lambda path: json.loads("["))
    fuzzer.one(2)
    broken(lambda path: readers.command("no such command\n", "\n"))
    fuzzer.one(3)
    broken(lambda path: sys.exit(0))
    fuzzer.one(4)
    assert [wrong.split(" (")[0][:40] for wrong in fuzzer.tracebacks] == [
        "2 baseline: JSONDecodeError: Expecting v",
        "4 baseline: SystemExit: 0",
    ]
    assert len(list((tmp_path / "kept").iterdir())) == 4


@slow("thousands of changed files for every reader, in a process whose memory is measured")
def test_five_thousand_files_to_every_reader(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.fuzzing.run", "--seed", "21", "--count", "5000"]
    done = subprocess.run(
        [*command, "--keep", str(tmp_path / "found")],
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["tracebacks"], found["hangs"], found["count"]) == ([], [], 5000)
    assert min(found["kinds"].values()) > 250
    assert found["peak_bytes"] < 256 << 20, found["growth"]
    assert done.returncode == 0
