"""Mutants of the engines change executed code, and the run reports those that no test detects."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.engine_mutants import plant, run

ROOT = Path(__file__).parents[2]
SOURCE = b'''\
"""A text: 1 < 2."""
from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    X = 1
__all__ = ["f"]
LIMIT: int = 10 + 1

def f(a: int, b=3) -> bool:
    """If 1 is 2, return."""
    if (a) >= LIMIT and "\xc3\xa4" not in b:
        a += b
        print("3", f"{a + 4}")
        return True
    return a if a is None else (b)

def g():
    return None
'''
EXPECTED = [
    "x.py:7: constant: 10 → 11",
    "x.py:7: constant: 1 → 2",
    'x.py:11: condition: (a) >= LIMIT and "ä" not in b → (not ((a) >= LIMIT and "ä" not in b))',
    "x.py:11: comparison: (a) >= LIMIT → (a) > LIMIT",
    'x.py:11: comparison: "ä" not in b → "ä" in b',
    "x.py:12: statement: a += b → pass",
    'x.py:13: statement: print("3", f"{a + 4}") → pass',
    "x.py:14: return: True → False",
    "x.py:15: return: a if a is None else (b) → None",
    "x.py:15: condition: a is None → (not (a is None))",
    "x.py:15: comparison: a is None → a is not None",
]


def test_the_mutants_of_a_file() -> None:
    found = list(plant.of_file("x.py", SOURCE))
    assert [str(m) for m in found] == EXPECTED
    for mutant in found:
        assert ast.dump(ast.parse(mutant.of(SOURCE))) != ast.dump(ast.parse(SOURCE)), mutant


def test_the_tests_that_import_a_module_are_found() -> None:
    assert "tests/gate/test_baseline.py" in run.naming(ROOT, "checker/comparing/gate/baseline.py")
    assert "tests/traces/runs/test_bad_input.py" in run.naming(ROOT, "traces/runs/__init__.py")


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> run.Copy:
    tree = tmp_path / "original" / "tree"
    (tree / "tests").mkdir(parents=True)
    (tree / "one.py").write_text("def f(a):\n    return a > 1\n")
    (tree / "tests" / "test_one.py").write_text(
        "import one\ndef test_f():\n    assert one.f(2) and not one.f(0)\n"
    )
    monkeypatch.setattr(run, "ROOT", tree)
    (tmp_path / "copy").mkdir()
    return run.Copy(tmp_path / "copy")


def test_the_failing_test_is_named_and_the_file_is_restored(copy: run.Copy) -> None:
    source = (copy.root / "one.py").read_bytes()
    killed, survivor = list(plant.of_file("one.py", source))[:2]
    assert (str(killed), str(survivor)) == (
        "one.py:2: return: a > 1 → None",
        "one.py:2: comparison: a > 1 → a >= 1",
    )
    assert copy.noticed(killed, ["tests"]) == "tests/test_one.py::test_f"
    assert copy.noticed(survivor, ["tests"]) is None
    assert (copy.root / "one.py").read_bytes() == source
