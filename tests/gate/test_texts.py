"""Which definitions differ between two trees, by behavior and by text."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from highwater.checker.comparing.models.texts import CodePiece, all_pieces, changed, differing_pieces

BEFORE = """
LIMIT = 3

class Log:
    def end(self):
        '''Where it ends.'''
        return self.length

    def start(self):
        return 0

    def cut(self, at):
        return at

def gone():
    return 1

def kept(a, b):
    return a+b
"""
AFTER = """
LIMIT = 4

class Log:
    def end(self):
        '''The offset after its last record.'''
        return self.length

    def begin(self):
        return 0

    def cut(self, at):
        return at + 1

def come():
    return 2

def kept(a, b):
    # In other lines.
    return a + b
"""


def test_each_kind_of_change_is_reported_at_its_line(tmp_path: Path) -> None:
    for tree, text in (("before", BEFORE), ("after", AFTER)):
        (tmp_path / tree / "model").mkdir(parents=True)
        (tmp_path / tree / "model/log.py").write_text(text, encoding="utf-8")
        (tmp_path / tree / "model/broken.py").write_text("def (", encoding="utf-8")
    lines = AFTER.splitlines()
    place = {
        word: next(i for i, line in enumerate(lines, 1) if word in line) for word in ("LIMIT", "end", "begin")
    }
    found = changed(tmp_path / "before", tmp_path / "after", ["model/log.py", "model/broken.py"])
    assert {(t.name, t.kind) for t in found} == {
        ("LIMIT", "changed"),
        ("Log.end", "other words or local names, the same code"),
        ("Log.begin", "renamed, was Log.start"),
        ("Log.cut", "changed"),
        ("come", "new"),
        ("gone", "gone"),
    }
    assert {t.file for t in found} == {"model/log.py"}
    told = [str(t) for t in found]
    assert f"LIMIT: changed (model/log.py:{place['LIMIT']})" in told
    assert f"Log.begin: renamed, was Log.start (model/log.py:{place['begin']})" in told
    assert "gone: gone (model/log.py)" in told
    (end,) = (t for t in found if t.name == "Log.end")
    assert (end.line, end.meaning) == (place["end"], "The offset after its last record.")
    assert changed(tmp_path / "before", tmp_path / "after", ["model/none.py"]) == []


def pieces(before: str, after: str) -> tuple[set[str], set[str]]:
    """The source texts in which two versions of a function's body differ."""
    texts = [f"def f(m, s, xs):\n    {body}\n" for body in (before, after)]
    trees = [ast.parse(text) for text in texts]
    found = differing_pieces(trees[0].body[0], trees[1].body[0])
    written = []
    for text, tree, own in zip(texts, trees, found, strict=True):
        nodes = {CodePiece.of(n): n for n in ast.walk(tree) if isinstance(n, (ast.stmt, ast.expr))}
        written.append({str(ast.get_source_segment(text, nodes[span])) for span in own})
    return written[0], written[1]


@pytest.mark.parametrize(
    ("before", "after", "gone", "come"),
    [
        ("return m.a(1) + s", "return m.a(2) + s", {"1"}, {"2"}),
        ("return m.a(1, s)", "return m.a(1)", {"s"}, set()),
        ("return s if m else xs", "return xs", {"s if m else xs", "s", "xs"}, {"xs"}),
        ("return m and s", "return m and s and xs", set(), {"xs"}),
        ("return s", "x = m; return s", set(), {"x = m"}),
        ("return [x for x in xs]", "return [x for x in xs if x]", set(), {"x"}),
        ("return f'{m}'", "return f'{s}'", {"f'{m}'"}, {"f'{s}'"}),
        ("return m.a", "return m.b", {"m.a"}, {"m.b"}),
        ("return lambda: 1", "return lambda: 2", {"1"}, {"2"}),
    ],
)
def test_the_smallest_pieces_that_differ(before: str, after: str, gone: set[str], come: set[str]) -> None:
    assert pieces(before, after) == (gone, come)


def test_optional_code_is_a_separate_piece() -> None:
    text = "if a:\n    b(c or d)\nelse:\n    for e in f:\n        g = (h for h in i if j)"
    tree = ast.parse(text)
    nodes = {CodePiece.of(n): n for n in ast.walk(tree) if isinstance(n, (ast.stmt, ast.expr))}
    found = [str(ast.get_source_segment(text, nodes[span])) for span in all_pieces(tree.body[0])]
    loop = "for e in f:\n        g = (h for h in i if j)"
    assert sorted(found[1:]) == sorted(["b(c or d)", "d", loop, "g = (h for h in i if j)", "h", "j"])
