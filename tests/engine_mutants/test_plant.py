"""The mutants of engines: each is a change of what runs, and one that nobody notices is told."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.engine_mutants import near, plant, run

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


def test_what_is_planted() -> None:
    found = list(plant.of_file("x.py", SOURCE))
    assert [str(m) for m in found] == EXPECTED
    for mutant in found:
        assert ast.dump(ast.parse(mutant.of(SOURCE))) != ast.dump(ast.parse(SOURCE)), mutant


@pytest.fixture(scope="module")
def every() -> list[plant.Mutant]:
    """All mutants of the package of engines."""
    return plant.mutants(ROOT, ("checker/engines",))


def test_every_mutant_of_the_engines_can_be_compiled(every: list[plant.Mutant]) -> None:
    assert len({m.kind for m in every}) == 5
    for mutant in plant.chosen(every, 1, 60):
        compile(mutant.of((ROOT / mutant.file).read_bytes()), mutant.file, "exec")


def test_a_seed_chooses_the_same_ones_of_every_kind(every: list[plant.Mutant]) -> None:
    assert plant.chosen(every, 1, 30) == plant.chosen(every, 1, 30) != plant.chosen(every, 2, 30)
    assert plant.chosen(every, 1, 30)[:20] == plant.chosen(every, 1, 20)
    assert {m.kind for m in plant.chosen(every, 1, 30)} == {m.kind for m in every}


def test_every_module_has_tests_that_are_near() -> None:
    assert "tests/gate/test_baseline.py" in near.naming(ROOT, "checker/comparing/gate/baseline.py")
    assert "tests/traces/test_bad_input.py" in near.naming(ROOT, "traces/operations/replay.py")
    assert near.beside(ROOT, "checker/comparing/gate/baseline.py") == ["tests/gate"]
    for file in (
        p.relative_to(ROOT).as_posix() for f in plant.FOLDERS for p in (ROOT / f).rglob("[a-z]*.py")
    ):
        assert near.beside(ROOT, file), file


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> run.Copy:
    """A copy of a tree with one module and one test of it."""
    tree = tmp_path / "original" / "tree"
    (tree / "tests").mkdir(parents=True)
    (tree / "one.py").write_text("def f(a):\n    return a > 1\n")
    (tree / "tests" / "test_one.py").write_text(
        "import one\ndef test_f():\n    assert one.f(2) and not one.f(0)\n"
    )
    monkeypatch.setattr(run, "ROOT", tree)
    (tmp_path / "copy").mkdir()
    return run.Copy(tmp_path / "copy")


def test_who_notices(copy: run.Copy) -> None:
    """A test that fails is named; a change that none notices is None; and the file is put back."""
    source = (copy.root / "one.py").read_bytes()
    noticed = {str(m): copy.noticed(m, ["tests"]) for m in plant.of_file("one.py", source)}
    test = "tests/test_one.py::test_f"
    assert noticed == {
        "one.py:2: return: a > 1 → None": test,
        "one.py:2: comparison: a > 1 → a >= 1": None,
        "one.py:2: constant: 1 → 2": test,
    }
    assert (copy.root / "one.py").read_bytes() == source
