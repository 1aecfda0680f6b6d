"""Language pages: every protocol and every command on them runs and gives the shown result."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from highwater.checker.engines import reference
from highwater.checker.scenarios import catalogue
from highwater.checker.scenarios.search import SearchOptions
from highwater.model import language
from highwater.model.language import Model
from tests.checker.conftest import Command, highwater
from tests.checker.test_pages import plain

DOCS = Path(__file__).parents[2] / "docs"
FIRST = DOCS / "language.md"
PAGES = {path.stem: path for path in (FIRST, *sorted((DOCS / "language").glob("*.md")))}
ALONE = "page.py"
"""The file name of a protocol whose block gives none."""

__all__ = ["highwater"]


@dataclass
class Page:
    """A page's files, explored protocols with state counts, and commands with their output."""

    files: dict[str, str] = field(default_factory=dict)
    explored: dict[str, int] = field(default_factory=dict)
    commands: list[list[str]] = field(default_factory=list)


def parts(text: str) -> Iterator[tuple[str, str]]:
    """The code blocks of a page, each with its language, and the sentences that count states."""
    found = re.finditer(r"^```(\w*)\n(.*?)^```$|^Explored: ([\d,]+) states\.$", text, re.M | re.S)
    yield from ((m[1], m[2]) if m[3] is None else ("explored", m[3]) for m in found)


def read(text: str) -> Page:
    """Parse a page. A block names its file in its first line; only one block may lack a name."""
    page, name = Page(), ALONE
    for kind, block in parts(text):
        if kind in ("python", "toml"):
            named = re.match(r"# ([\w.]+\.(?:py|toml))\n", block)
            if kind == "toml" and named is None:
                continue  # not a scenario: another test checks it
            name = named[1] if named else ALONE
            assert name not in page.files, f"two blocks are {name}"
            imports = "from highwater.language import *\n" if kind == "python" else ""
            page.files[name] = imports + block
        elif kind == "console":
            page.commands.append(block.splitlines())
        elif kind == "explored":
            page.explored[name] = int(block.replace(",", ""))
    return page


@pytest.mark.parametrize("name", PAGES)
def test_protocols_and_commands_of_a_page_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, highwater: Command
) -> None:
    page = read(PAGES[name].read_text(encoding="utf-8"))
    monkeypatch.chdir(tmp_path)
    for file, text in page.files.items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    assert page.explored or page.commands, "nothing on this page is tried"
    for file, states in page.explored.items():
        model = Model(catalogue.load_file(tmp_path / file).protocol())
        found = reference.search(model, SearchOptions())
        assert found.complete
        assert found.distinct_states == states
        assert all(found.actions.values()), "an action that is never taken shows nothing"
    for command, *shown in page.commands:
        said = [plain(line) for line in highwater(*shlex.split(command)[2:]).out.splitlines() if line.strip()]
        assert said == [plain(line) for line in shown if line.strip()], command


def test_the_guide_has_every_page() -> None:
    guide = re.findall(r"^\* \[[^]]+\]\(language/([\w-]+)\.md\)", FIRST.read_text(encoding="utf-8"), re.M)
    assert sorted([FIRST.stem, *guide]) == sorted(PAGES)


def test_every_name_of_the_language_is_documented() -> None:
    pages = [*PAGES.values(), DOCS / "testing.md", DOCS.parent / "README.md"]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    words = [name for name in language.__all__ if name.islower()]
    untold = [name for name in words if not re.search(rf"\b{name}\b", text)]
    assert untold == []
