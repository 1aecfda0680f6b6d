"""Which definitions differ between two trees: by what they do, and by their words."""

from __future__ import annotations

from pathlib import Path

from highwater.checker.comparing.models.texts import changed

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


def test_each_kind_of_change_is_told_at_its_line(tmp_path: Path) -> None:
    for tree, text in (("before", BEFORE), ("after", AFTER)):
        (tmp_path / tree / "model/language").mkdir(parents=True)
        (tmp_path / tree / "model/log.py").write_text(text, encoding="utf-8")
        (tmp_path / tree / "model/language/log.py").write_text(text, encoding="utf-8")
        (tmp_path / tree / "model/broken.py").write_text("def (", encoding="utf-8")
    lines = AFTER.splitlines()
    place = {
        word: next(i for i, line in enumerate(lines, 1) if word in line) for word in ("LIMIT", "end", "begin")
    }
    found = changed(tmp_path / "before", tmp_path / "after")
    assert {(t.name, t.kind) for t in found} == {
        ("LIMIT", "changed"),
        ("Log.end", "other words, the same code"),
        ("Log.begin", "renamed, was Log.start"),
        ("Log.cut", "changed"),
        ("come", "new"),
        ("gone", "gone"),
    }
    assert {t.file for t in found} == {"model/log.py"}, "the language is no protocol"
    told = [str(t) for t in found]
    assert f"LIMIT: changed (model/log.py:{place['LIMIT']})" in told
    assert f"Log.begin: renamed, was Log.start (model/log.py:{place['begin']})" in told
    assert "gone: gone (model/log.py)" in told
    (end,) = (t for t in found if t.name == "Log.end")
    assert (end.line, end.meaning) == (place["end"], "The offset after its last record.")
    assert changed(tmp_path / "before", tmp_path / "after", ["model/none.py"]) == []
