"""The vocabulary check reports retired words and sentences without a subject, with their line."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from docs.pages import vocabulary

TABLE: Mapping[str, Mapping[str, Collection[str]]] = {
    "starts": {r"(?:What)\b(?![^.]*\?)": "begin with the subject"},
    "words": {"at once": "immediately"},
    "exceptions": {"old.md": ["at once"]},
}


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("page.md", "Words.\n\nIt ends at once.\n", [3]),
        ("page.md", "It runs `at once`.\n\nWhat differs? [A](at once)\n", []),
        ("old.md", "At once.\n\nWhat is old is kept.\n", [3]),
        ("module.py", '"""What it does."""\n\nx = 1  # at once\n', [3, 1]),
        ("module.py", '"""See ``at once`` and `at once`."""\nf("stop at once")\n', [2]),
        ("table.toml", 'title = "It ends at once"\n# What it is\nat_once = "at"\n', [1, 2]),
    ],
)
def test_complaints_have_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, lines: list[int]
) -> None:
    monkeypatch.setattr(vocabulary, "ROOT", tmp_path)
    (tmp_path / name).write_text(text)
    found = list(vocabulary.complaints(tmp_path / name, TABLE))
    assert [line.split(":")[:2] for line in found] == [[name, str(line)] for line in lines]
