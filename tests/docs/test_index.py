"""The first page links to every other page, and links of the glossary lead to existing rules."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from click import Context

from docs.pages.markdown import NOTE, template
from docs.pages.site import GENERATED
from highwater.checker.cli import cli
from highwater.model.rulebook import RULEBOOK

DOCS = Path(__file__).parents[2] / "docs"


def linked(page: str) -> list[str]:
    return re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", (DOCS / page).read_text())


def test_every_page_is_reached_from_the_first_one() -> None:
    there = {path.name for path in DOCS.glob("*.md")} - {"README.md"}
    assert there - set(linked("README.md")) == set()


PAGES = [
    *(DOCS.parent / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((DOCS.parent / ".github").rglob("*.md")),
    *sorted(DOCS.rglob("*.md")),
]
"""The pages of a checkout: hand-written pages, and templates of generated ones."""


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page: ids and headings, in GitHub's form."""
    text = page.read_text()
    found, seen = set(re.findall(r'<a id="([^"]+)">', text)), Counter[str]()
    for heading in re.findall(r"^#{1,6} (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M):
        said = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip())
        slug = re.sub(r"[^\w\- ]", "", said.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def broken(page: Path, text: str) -> list[str]:
    """The links of a page's text without a file or an anchor in a checkout. The site adds the anchors of templates."""
    text = re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        file, _, anchor = link.partition("#")
        there = page.parent / file if file else page
        is_page = there.suffix == ".md" and there.exists() and there.resolve().parent != DOCS / "pages"
        if not link.startswith(("https://", "http://")) and (
            not there.exists() or (anchor and is_page and anchor not in anchors(there.resolve()))
        ):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS.parent)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page, page.read_text()) == []


@pytest.mark.parametrize("name", GENERATED)
def test_a_template_says_what_it_is(name: str) -> None:
    text = (DOCS / "pages" / name).read_text(encoding="utf-8")
    assert text.split("\n\n")[1] + "\n\n" == NOTE
    assert NOTE not in template(name)


def test_rules_of_the_glossary_are_in_the_rulebook() -> None:
    text = (DOCS / "glossary.md").read_text()
    anchors = {number.lower() for number in RULEBOOK} | {f.prefix.lower() for f in RULEBOOK.families}
    anchors |= {f"kip-{f.prefix}" for f in RULEBOOK.families}
    wanted = re.findall(r"rules\.md#([\w.-]+)", text)
    assert wanted
    assert [anchor for anchor in wanted if anchor not in anchors] == []


def test_the_glossary_is_in_order() -> None:
    for part in (DOCS / "glossary.md").read_text().split("## ")[1:]:
        words = [w for w in re.findall(r"^\| ([^|]+) \|", part, re.M) if w not in ("word", "---")]
        assert words == sorted(words, key=str.lower)


def test_the_page_on_the_command_line_has_a_row_for_each_command() -> None:
    page = (DOCS / "cli.md").read_text()
    rows = re.findall(r"^\| `highwater (\w+)", page, re.M)
    assert sorted(set(rows)) == sorted(cli.list_commands(Context(cli)))


def named(page: str, form: str) -> set[str]:
    """The names in backquotes that match a pattern, in a page for contributors, without placeholders."""
    text = (DOCS.parent / page).read_text()
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    return {name for name in re.findall(rf"`({form})`", text) if not re.search(r"NAME|PROTOCOL", name)}


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_files_and_functions_named_for_contributors_exist(page: str) -> None:
    root = DOCS.parent
    folders = [
        root / name for name in ("model", "invariants", "traces", "checker", "highwater", "docs", "tests")
    ]
    paths = [*root.glob("*.*"), *folders, *(path for folder in folders for path in folder.rglob("*"))]
    there = [f"/{path.relative_to(root)}{'/' * path.is_dir()}" for path in paths]
    files = named(page, r"\w[\w./-]*(?:\.py|\.toml|\.md|/)")
    assert len(files) > 20
    assert {file for file in files if not any(path.endswith(f"/{file}") for path in there)} == set()
    texts = [path.read_text() for path in paths if path.suffix in (".py", ".toml")]
    defined = re.findall(r"^(?: *(?:def|class) )?(\w+)(?=[(:\[]| =)", "\n".join(texts), re.M)
    functions = named(page, r"[A-Z]\w*[a-z]\w*(?:\.\w+)?|_?[a-z]+_\w+|(?!HIGHWATER)_?[A-Z]+_[A-Z_]+")
    assert len(functions) > 5
    assert {name for name in functions if not set(name.split(".")) <= set(defined)} == set()
