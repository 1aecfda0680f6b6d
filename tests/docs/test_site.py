"""The site: pages match the cached results, links and rules exist, short nav, it builds; the vocabulary check."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

import pytest
from click import Context

from docs.pages import kept, site, vocabulary
from docs.pages.markdown import DOCS
from highwater.checker.cli import cli
from tests.docs.generated import generated
from tests.slow import WHOLE, all_but, largest, slow, whole_only

QUICK = {
    "audit.md",
    "profiles.md",
    "promise-runs.md",
    "rules.md",
    "truncation-rules.md",
}
LONG = {"gallery.md", "liveness.md"}


@pytest.mark.parametrize(
    "name",
    [
        *all_but(QUICK, sorted({*site.GENERATED} - {*LONG}), "traces up to hundreds of models"),
        *(pytest.param(name, marks=largest("traces hundreds of models")) for name in sorted(LONG)),
    ],
)
def test_a_page_is_generated_without_a_search(name: str) -> None:
    text = generated(name)
    assert "{{" not in text
    assert text.startswith("# ")


@slow("repeats a fourth of a page's searches, or all")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=largest("searches for minutes") if name in LONG else ())
        for name in site.GENERATED
        if name != "replication-rules.md"
    ],
)
def test_a_page_is_found_again(name: str) -> None:
    with kept.in_mode(kept.Mode.AFRESH if WHOLE else kept.Mode.SAMPLED):
        assert site.generated(name) == generated(name)


# --- the site -----------------------------------------------------------------------------------------------


def nav() -> list[str]:
    text = site.CONFIGURATION.read_text().split("\nnav:\n")[1]
    return re.findall(r"^ +- .*: (\S+\.md)$", text, re.M)


def test_the_nav_has_at_most_forty_entries_each_of_which_is_there() -> None:
    assert len(nav()) <= 40, "leave a page out: docs/README.md links every one"
    assert len(set(nav())) == len(nav())
    assert set(nav()) <= {*site.GENERATED, *site.hand_written()}


def loaded_from_elsewhere(folder: Path) -> list[str]:
    """The tags of a built site that load something from another host."""
    pages = (path.read_text() for path in folder.rglob("*.html"))
    tags = (tag for page in pages for tag in re.findall(r"<(?:script|img|iframe|link)\b[^>]*>", page))
    return [tag for tag in tags if re.search(r"""(?:src|href)=["']?(?:https?:)?//""", tag)]


@slow("builds the whole site, as make docs does; fast tests build parts")
@whole_only
@pytest.mark.skipif(importlib.util.find_spec("material") is None, reason="the extra docs is not installed")
def test_the_site_builds_and_loads_nothing_from_elsewhere() -> None:
    """MkDocs fails if a link or an anchor is broken."""
    before = kept.FILE.read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "docs.pages"], cwd=DOCS.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert kept.FILE.read_bytes() == before, "answers.json lacks answers: commit what make docs wrote"
    assert loaded_from_elsewhere(site.SITE) == []


# --- the first page links to every other page ---------------------------------------------------------


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


def test_the_page_on_the_command_line_has_a_row_for_each_command() -> None:
    page = (DOCS / "cli.md").read_text()
    rows = re.findall(r"^\| `highwater (\w+)", page, re.M)
    assert sorted(set(rows)) == sorted(cli.list_commands(Context(cli)))


def named(form: str) -> set[str]:
    """The names in backquotes that match a pattern, in the pages for contributors, without placeholders."""
    text = "\n".join((DOCS.parent / page).read_text() for page in ("CONTRIBUTING.md", "docs/architecture.md"))
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    return {name for name in re.findall(rf"`({form})`", text) if not re.search(r"NAME|PROTOCOL", name)}


def test_files_and_functions_named_for_contributors_exist() -> None:
    root = DOCS.parent
    folders = [
        root / name for name in ("model", "invariants", "traces", "checker", "highwater", "docs", "tests")
    ]
    paths = [*root.glob("*.*"), *folders, *(path for folder in folders for path in folder.rglob("*"))]
    there = [f"/{path.relative_to(root)}{'/' * path.is_dir()}" for path in paths]
    files = named(r"\w[\w./-]*(?:\.py|\.toml|\.md|/)")
    assert len(files) > 20
    assert {file for file in files if not any(path.endswith(f"/{file}") for path in there)} == set()
    texts = [path.read_text() for path in paths if path.suffix in (".py", ".toml")]
    defined = re.findall(r"^(?: *(?:def|class) )?(\w+)(?=[(:\[]| =)", "\n".join(texts), re.M)
    functions = named(r"[A-Z]\w*[a-z]\w*(?:\.\w+)?|_?[a-z]+_\w+|(?!HIGHWATER)_?[A-Z]+_[A-Z_]+")
    assert len(functions) > 5
    assert {name for name in functions if not set(name.split(".")) <= set(defined)} == set()


# --- the vocabulary check -----------------------------------------------------------------------------


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
