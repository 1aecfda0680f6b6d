"""House rules for sources: sizes, uses of ``Any``, names of classes. ``pyproject.toml`` lists the exceptions."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

from tests.house import size

ROOT = Path(__file__).parents[2]
RULES = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["highwater"]["house"]
SOURCES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for folder in (*size.PRODUCT[:-1], "docs", "tests")
    for path in (ROOT / folder).rglob("*.py")
}


def test_files_functions_and_names_obey_the_rules() -> None:
    """A file or function is short, ``Any`` stays at the listed edges, and a public class has a name of its own."""
    long = {name for name, text in SOURCES.items() if text.count("\n") > RULES["file_lines"]}
    of_any, classes = set(), Counter[str]()
    for name, text in SOURCES.items():
        if name.startswith(("tests/", "docs/")):
            continue
        if re.search(r"^(?!\s*from typing).*\bAny\b", text, re.M):
            of_any.add(next((edge for edge in RULES["any"] if f"{name}/".startswith(f"{edge}/")), name))
        tree = ast.parse(text)
        classes.update(n.name for n in tree.body if isinstance(n, ast.ClassDef) and n.name[0] != "_")
        long.update(
            f"{name}:{node.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef)
            and (node.end_lineno or 0) - node.lineno >= RULES["function_lines"]
        )
    assert long == set(RULES["longer"]), "shorten it, or list it with a reason"
    assert of_any == set(RULES["any"]), "give it a type, or list the edge"
    assert {name for name, times in classes.items() if times > 1} == set(RULES["shared"])


def test_comments_docstrings_and_brackets_do_not_count(tmp_path: Path) -> None:
    source = tmp_path / "a.py"
    source.write_text('"""A page."""\n# why\ndef f(a, b):\n    """What."""\n    return a[b] + "x"\n')
    assert size.python_tokens(source) == 10
    source.write_text('/* a\n */ class A { String s = "// no"; // why\n int f(int a) { return a >>= 2; } }\n')
    assert size.java_tokens(source) == 14
