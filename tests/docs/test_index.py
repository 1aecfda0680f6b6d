"""The first page of the docs leads to every other one, and the glossary's links lead to rules that there are."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def linked(page: str) -> list[str]:
    return re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", (DOCS / page).read_text(encoding="utf-8"))


def test_every_page_is_reached_from_the_first_one() -> None:
    there = {path.name for path in DOCS.glob("*.md")} - {"README.md"}
    assert there - set(linked("README.md")) == set()


def test_links_lead_somewhere() -> None:
    for page in ("README.md", "glossary.md"):
        assert [link for link in linked(page) if not (DOCS / link).exists()] == []


def test_rules_of_the_glossary_are_in_the_rulebook() -> None:
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    anchors = set(re.findall(r'<a id="([^"]+)">', (DOCS / "rules.md").read_text(encoding="utf-8")))
    wanted = re.findall(r"rules\.md#([\w.-]+)", text)
    assert wanted
    assert [anchor for anchor in wanted if anchor not in anchors] == []


def test_the_glossary_is_in_order() -> None:
    for part in (DOCS / "glossary.md").read_text(encoding="utf-8").split("## ")[1:]:
        words = [w for w in re.findall(r"^\| ([^|]+) \|", part, re.M) if w not in ("word", "---")]
        assert words == sorted(words, key=str.lower)
