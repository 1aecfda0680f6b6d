"""Untrusted small files: what is refused, and with which messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.checker.base import files
from highwater.checker.base.problems import InputError


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
