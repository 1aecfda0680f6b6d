"""The pages of the language: every protocol on them can be explored, and has as many states as is said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from highwater.checker import catalogue, reference
from highwater.checker.native import search
from highwater.checker.search import SearchOptions
from highwater.model import language
from highwater.model.language import Model

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path.stem for path in (DOCS / "language").glob("*.md"))


@pytest.mark.parametrize("page", PAGES)
def test_the_protocol_of_a_page(page: str, tmp_path: Path) -> None:
    text = (DOCS / "language" / f"{page}.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"```python\n(.*?)```", text, re.S)
    (states,) = re.findall(r"^Explored: ([\d,]+) states\.$", text, re.M)
    path = tmp_path / "page.py"
    path.write_text("from highwater.language import *\n\n" + snippet, encoding="utf-8")
    model = Model(catalogue.load_file(path).protocol())
    for engine in (reference.search, search):
        found = engine(model, SearchOptions())
        assert found.complete
        assert found.distinct_states == int(states.replace(",", ""))
        assert all(found.actions.values()), "an action that is never taken shows nothing"


def test_links_lead_somewhere() -> None:
    for path in (DOCS / "language.md", *(DOCS / "language").glob("*.md"), DOCS / "examples/tla/README.md"):
        for target in re.findall(r"\]\(([\w./-]+)(?:#[\w-]*)?\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_every_word_of_the_language_is_told() -> None:
    pages = [
        DOCS / "language.md",
        *(DOCS / "language").glob("*.md"),
        DOCS / "testing.md",
        DOCS.parent / "README.md",
    ]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    words = [name for name in language.__all__ if name.islower()]
    untold = [name for name in words if not re.search(rf"\b{name}\b", text)]
    assert untold == []
