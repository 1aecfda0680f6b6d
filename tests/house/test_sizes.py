"""Files have at most 700 lines and functions at most 60; longer ones are listed, and must not grow."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("model", "invariants", "checker", "traces", "docs", "tests")
FILE, FUNCTION = 700, 60
LISTED = tomllib.loads((Path(__file__).parent / "longer.toml").read_text(encoding="utf-8"))


def sources() -> Iterator[tuple[str, str]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def long_files() -> dict[str, int]:
    return {name: lines for name, text in sources() if (lines := text.count("\n")) > FILE}


def functions(text: str, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Each function's name and number of lines, nested functions included."""

    def inside(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, int]]:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                assert node.end_lineno is not None
                yield prefix + node.name, node.end_lineno - node.lineno + 1
            elif isinstance(node, ast.ClassDef):
                yield from inside(node.body, f"{prefix}{node.name}.")

    return inside(ast.parse(text).body, prefix)


def long_functions() -> dict[str, int]:
    """Functions of the product only: a test may be a long list of expected values."""
    return {
        f"{name}:{function}": lines
        for name, text in sources()
        if not name.startswith("tests/")
        for function, lines in functions(text)
        if lines > FUNCTION
    }


@pytest.mark.parametrize(("found", "table"), [(long_files, "files"), (long_functions, "functions")])
def test_a_longer_file_or_function_is_listed_and_does_not_grow(found: object, table: str) -> None:
    assert callable(found)
    lengths, listed = found(), LISTED[table]
    assert {name: n for name, n in lengths.items() if name not in listed} == {}, "shorten it, or say why not"
    assert [name for name in listed if name not in lengths] == [], "it is short now: strike it off"
    grown = {name: (n, listed[name]["lines"]) for name, n in lengths.items() if n > listed[name]["lines"]}
    assert grown == {}, "it grew"


def test_the_length_of_a_function_includes_nested_ones() -> None:
    text = "class A:\n    def f(self):\n        def g():\n            pass\n        return g\n\n\ndef h():\n    pass\n"
    assert dict(functions(text)) == {"A.f": 4, "h": 2}


@pytest.mark.parametrize("table", ["files", "functions"])
def test_every_entry_has_a_reason(table: str) -> None:
    for name, entry in LISTED[table].items():
        assert set(entry) == {"lines", "why"}, name
        assert len(entry["why"].split()) > 3, name
