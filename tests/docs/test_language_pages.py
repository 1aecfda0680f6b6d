"""Language pages: every protocol and every command on them runs and gives the shown result."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import pytest

from highwater.checker.engines import reference
from highwater.checker.scenarios import catalogue
from highwater.checker.scenarios.search import SearchOptions
from highwater.model import language, registry
from highwater.model.language import Model
from tests.command import highwater
from tests.docs.tutorial import compared, parts

DOCS = Path(__file__).parents[2] / "docs"
FIRST = DOCS / "language.md"
PAGES = {path.stem: path for path in (FIRST, *sorted((DOCS / "language").glob("*.md")))}


@pytest.mark.parametrize("name", PAGES)
def test_protocols_and_commands_of_a_page_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = list(parts(PAGES[name].read_text(), "page.py"))
    files = [part for part in found if part.kind == "file"]
    assert len({part.name for part in files}) == len(files) < len(found), "a name twice, or nothing is tried"
    for part in files:
        imports = "from highwater.language import *\n" if part.name.endswith(".py") else ""
        (tmp_path / part.name).write_text(imports + part.text)
    file = ""
    for part in found:
        if part.kind == "file":
            file = part.name
        elif part.kind == "count":
            result = reference.search(Model(catalogue.load_file(tmp_path / file).protocol()), SearchOptions())
            assert result.complete
            assert result.distinct_states == int(part.text)
            assert all(result.actions.values()), "an action that is never taken shows nothing"
        else:
            compared(part, highwater(*shlex.split(part.name)[1:]).out)


def test_the_guide_has_every_page() -> None:
    guide = re.findall(r"^\* \[[^]]+\]\(language/([\w-]+)\.md\)", FIRST.read_text(), re.M)
    assert sorted([FIRST.stem, *guide]) == sorted(PAGES)


def test_the_imports_of_protocols_work() -> None:
    text = PAGES["scenarios"].read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[?`([\w.]+)`.* `from ([\w.]+) import (\w+)` \|$", text, re.M)
    found = {name: getattr(importlib.import_module(module), kind) for name, module, kind in rows}
    assert found == {name: registry.protocol_of(name) for name in registry.NAMES}


def test_every_name_of_the_language_is_documented() -> None:
    pages = [*PAGES.values(), DOCS / "testing.md", DOCS.parent / "README.md"]
    text = "\n".join(page.read_text() for page in pages)
    words = [name for name in language.__all__ if name.islower()]
    untold = [name for name in words if not re.search(rf"\b{name}\b", text)]
    assert untold == []
