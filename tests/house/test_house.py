"""House rules for sources: sizes, uses of ``Any`` and names of classes. Exceptions are listed and must not grow."""

from __future__ import annotations

import ast
import io
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.house import size

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PRODUCT = ("model", "invariants", "checker", "traces")
FOLDERS = (*PRODUCT, "docs", "tests")
FILE, FUNCTION = 700, 60


def listed(name: str) -> dict[str, Any]:
    return tomllib.loads((HERE / name).read_text())


LONGER, EDGES, SHARED = listed("longer.toml"), listed("any.toml")["edges"], listed("names.toml")["shared"]


@cache
def sources() -> dict[str, str]:
    """File → text."""
    paths = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}


@cache
def trees() -> dict[str, ast.Module]:
    """File → syntax tree, without the tests: a test may be a long list of expected values."""
    return {name: ast.parse(text) for name, text in sources().items() if not name.startswith("tests/")}


# --- sizes --------------------------------------------------------------------------------------------


def long_files() -> dict[str, int]:
    return {name: lines for name, text in sources().items() if (lines := text.count("\n")) > FILE}


def functions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, int]]:
    """Each function's name and number of lines, nested functions included."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno is not None
            yield prefix + node.name, node.end_lineno - node.lineno + 1
        elif isinstance(node, ast.ClassDef):
            yield from functions(node.body, f"{prefix}{node.name}.")


def long_functions() -> dict[str, int]:
    return {
        f"{name}:{function}": lines
        for name, tree in trees().items()
        for function, lines in functions(tree.body)
        if lines > FUNCTION
    }


@pytest.mark.parametrize(("found", "table"), [(long_files, "files"), (long_functions, "functions")])
def test_a_longer_file_or_function_is_listed_and_does_not_grow(found: Any, table: str) -> None:
    lengths, listed = found(), LONGER[table]
    assert {name: n for name, n in lengths.items() if name not in listed} == {}, "shorten it, or say why not"
    assert [name for name in listed if name not in lengths] == [], "it is short now: strike it off"
    grown = {name: (n, listed[name]["lines"]) for name, n in lengths.items() if n > listed[name]["lines"]}
    assert grown == {}, "it grew"


# --- uses of Any --------------------------------------------------------------------------------------


def naming_any(text: str) -> int:
    """The number of lines that name `Any`, imports left out."""
    if "Any" not in text:
        return 0
    lines, imports = set(), set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and token.string == "Any":
            lines.add(token.start[0])
        elif token.type == tokenize.NAME and token.string == "import":
            imports.add(token.start[0])
    return len(lines - imports)


def place(name: str) -> str:
    """The longest entry of the list that contains the file, else the file."""
    within = [edge for edge in EDGES if name == edge or name.startswith(edge.rstrip("/") + "/")]
    return max(within, key=len, default=name)


def test_any_is_named_at_the_listed_edges_alone_and_not_more_often() -> None:
    found: Counter[str] = Counter()
    for name, text in sources().items():
        if name.startswith(PRODUCT):
            found[place(name)] += naming_any(text)
    found = +found
    assert sorted(set(found) - set(EDGES)) == [], "give it a type, or say what is beyond the edge"
    assert sorted(set(EDGES) - set(found)) == [], "it names Any no more: strike it off"
    assert {edge: (n, EDGES[edge]["lines"]) for edge, n in found.items() if n > EDGES[edge]["lines"]} == {}


# --- names --------------------------------------------------------------------------------------------


def classes(tree: ast.Module) -> set[str]:
    """The public top-level classes of a source."""
    return {n.name for n in tree.body if isinstance(n, ast.ClassDef) and not n.name.startswith("_")}


def test_a_public_class_name_is_used_once() -> None:
    places = defaultdict(list)
    for name, tree in trees().items():
        for found in classes(tree) if name.startswith(PRODUCT) else ():
            places[found].append(name)
    shared = {name: at for name, at in places.items() if len(at) > 1}
    assert shared == {name: entry["at"] for name, entry in SHARED.items()}, (
        "call it otherwise, or say why not"
    )


@pytest.mark.parametrize(
    ("entries", "fact"),
    [(SHARED, "at"), (EDGES, "lines"), (LONGER["files"], "lines"), (LONGER["functions"], "lines")],
)
def test_every_exception_has_a_reason(entries: dict[str, Any], fact: str) -> None:
    for name, entry in entries.items():
        assert set(entry) == {fact, "why"}, name
        assert len(entry["why"].split()) > 3, name


# --- the counter of tokens ----------------------------------------------------------------------------


PYTHON = '"""A page."""\n# why\ndef f(a, b):\n    """What."""\n    return a[b] + "x"\n'
JAVA = '/* a\n page */ class A { String s = "// no comment"; // why\n int f(int a) { return a >>= 2; } }\n'


def test_comments_docstrings_and_brackets_do_not_count(tmp_path: Path) -> None:
    for name, text, count, tokens in (
        ("a.py", PYTHON, size.python_tokens, "def f a b : return a b + x"),
        ("A.java", JAVA, size.java_tokens, "class A String s = text int f int a return a >>= 2"),
    ):
        (tmp_path / name).write_text(text)
        assert count(tmp_path / name) == len(tokens.split())
