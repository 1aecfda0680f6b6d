"""Bad requests and bad files give exit status 2 and one line that names the place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from highwater.checker.base import files
from highwater.checker.base.problems import InputError
from tests.checker.conftest import COUNTER, Write
from tests.command import highwater


def line_of(text: str) -> str:
    """The file and line of a text in the counter's protocol, as error messages print it."""
    return f"counter.py:{COUNTER[: COUNTER.index(text)].count(chr(10)) + 1}:"


WRITE, SEVEN = "s.next.count = 0", "return s.count < 7"
CLASS_LINE, WRAP_LINE = line_of("class Counter"), line_of(WRITE)

BAD_PROTOCOLS = [
    ("import nothing_of_this_name\n", "counter.py:1:", "ModuleNotFoundError"),
    ("x = 1\n", "counter.py", "defines no Protocol"),
    (COUNTER + "\nclass Other(Counter):\n    pass\n", "2 Protocols (Counter, Other)"),
    ("PROTOCOL = 3\n", "PROTOCOL is not a subclass"),
    (COUNTER + "\nraise SystemExit(0)\n", "counter.py:", "SystemExit: 0"),
    (COUNTER + "\0", "counter.py:1:", "null byte"),
    ("x = " + "-" * 30_000 + "1", "counter.py:1:"),
    ("x = " + "9" * 5000, "counter.py:1:", "digits"),
    (COUNTER + "\nCounter.parameters = 5\n", "gives names to a Parameter"),
    (COUNTER + "\nCounter.modules = None\n", "modules of Counter cannot be"),
]
BAD_CHANGES = [
    ("class Counter(Protocol):", "class Counter(Protocol)", CLASS_LINE),
    (SEVEN, "exit(0)", "counter.py:8:", "SystemExit: 0"),
    (SEVEN, "raise GeneratorExit", "counter.py:8:", "GeneratorExit"),
    (WRITE, "s.next.count = self.nothing", WRAP_LINE, "Counter has no attribute 'nothing'"),
    ('"count": 0', '"count": 10', "10", "Int(0..9)"),
    ("def define(", "def state_type(", CLASS_LINE, "Counter has no define()"),
    ('Parameter(5, 1, 9, "the last count")', "5", CLASS_LINE, "gives names to a Parameter each"),
]
"""A text of the counter's protocol, what replaces it, and parts of the error."""


def refused(run: Any, parts: Any) -> None:
    assert run.status == 2, run
    assert run.out == ""
    assert run.err.startswith("highwater: ")
    assert run.err.count("\n") == 1, run.err
    assert "Traceback" not in run.err
    for part in parts:
        assert part in run.err


WRONG = [*BAD_PROTOCOLS, *((COUNTER.replace(old, new), *parts) for old, new, *parts in BAD_CHANGES)]


@pytest.mark.parametrize("row", WRONG, ids=lambda row: row[-1])
def test_protocol_files(counter: Write, row: tuple[str, ...]) -> None:
    text, *parts = row
    run = highwater("check", counter("", protocol=text), "--profile", "round")
    refused(run, parts)


def test_a_protocol_file_is_named_as_it_was_given(counter: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file as the command line does, from its own folder too."""
    path = counter("", protocol=COUNTER.replace("    return s.count < 7", "    return s.count < self"))
    monkeypatch.chdir(path.parent)
    refused(highwater("check", path.name), ["highwater: counter.py:8: NameError"])


def test_memory_without_address_space() -> None:
    refused(highwater("check", "truncation/kip-320", "--fresh", "--memory", 1e308), ["no address space"])


def test_a_long_error_is_shortened(counter: Write) -> None:
    run = highwater("check", counter(f"{'x' * 9_000} = 1\n"))
    refused(run, ["counter.toml:3: xxx"])
    assert len(run.err) < 4100


@pytest.mark.parametrize(
    "request_",
    [
        ["gate", "--update", "truncation/truncate-to-hwm", "--baseline", "{}/gate.toml", "--json"],
        ["check", "docs/examples/register-hasty.toml", "--trace-out"],
        ["list", "--json"],
    ],
    ids=lambda request_: f"{request_[0]} {request_[-1]}",
)
def test_a_file_that_turns_out_not_to_be_writable(tmp_path: Path, request_: Any) -> None:
    run = highwater(*(part.format(tmp_path) for part in request_), "/dev/full")
    assert run.status == 2
    assert run.err.endswith(f"highwater: {request_[-1]} /dev/full: No space left on device\n")


def test_a_baseline_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run = highwater(
        "gate", "--update", "truncation/truncate-to-hwm", "--baseline", tmp_path / "file" / "gate.toml"
    )
    assert run.status == 2
    assert run.err.endswith(f"{tmp_path / 'file'}: File exists\n")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "bytes.toml"
    path.write_bytes(b"title = '\xff\xfe'\n")
    refused(highwater("check", path), [f"{path}: not a text in UTF-8"])


# --- untrusted small files ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "x: nested too deeply"),
        ("[" * (files.MOST_DEPTH + 1) + "]" * (files.MOST_DEPTH + 1), "x: nested too deeply"),
        ('{"a": 1, "a": 2}', "a key stands twice in an object"),
        ("NaN", "NaN is no JSON number"),
        ("9223372036854775808", "a number that is not one of 64 bits"),
        ("-9223372036854775809", "a number that is not one of 64 bits"),
        ("9" * 5000, "x: not JSON: Exceeds the limit"),
        ("{", "x: not JSON: "),
        ("[" + "0," * files.MOST_VALUES, "x: more than 1,000,000 values"),
        (" " * 65_537, "x: larger than 65,536 bytes"),
    ],
    ids=lambda value: value[:40] if len(value) > 40 else None,
)
def test_json_that_is_refused(tmp_path: Path, text: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "larger" in said:
        monkeypatch.setattr(files, "MOST_BYTES", 65_536)
    path = tmp_path / "x"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        files.read_json(path)
    assert said in str(refused.value)
    assert str(refused.value).startswith(str(path))


@pytest.mark.parametrize("sign", "{[,=.")
def test_every_sign_of_a_value_counts(sign: str) -> None:
    """A value costs a hundred times the memory of its text, so the limit applies before parsing."""
    with pytest.raises(InputError, match=r"x: more than 1,000,000 values"):
        files.toml(Path("x"), sign * (files.MOST_VALUES + 1))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = [", "x:1: not TOML: "),
        ("\n\na = [\n", "x:4: not TOML: "),
        ("a = 1\nb = = 2\n", "x:2: not TOML: "),
        ("[a]\nb = [[1, [9223372036854775808]]]", "x: a number that is not one of 64 bits"),
        ("a.b.c = {d = -9223372036854775809}", "x: a number that is not one of 64 bits"),
        ("a = 0x8000000000000000", "x: a number that is not one of 64 bits"),
    ],
)
def test_toml_that_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        files.toml(Path("x"), text)
    assert str(refused.value).startswith(said)


def test_a_file_at_the_limits_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 65_536)
    path = tmp_path / "x"
    deep = "[" * files.MOST_DEPTH + "]" * files.MOST_DEPTH
    path.write_text(f'{{"low": {-(1 << 63)}, "high": {(1 << 63) - 1}, "deep": {deep[1:-1]}}}')
    assert files.read_json(path)["high"] == (1 << 63) - 1
    path.write_text("a = 1" + " " * (files.MOST_BYTES - 5))
    assert files.read_toml(path) == {"a": 1}


def test_no_file_is_another_thing_than_none_that_can_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.read_toml(tmp_path / "nothing")
    for name, said in (
        (".", "Is a directory"),
        ("a\0b", "cannot be the path of a file"),
        ("x" * 300, "File name too long"),
    ):
        with pytest.raises(InputError, match=said):
            files.read_toml(tmp_path / name)
