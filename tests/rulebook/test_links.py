"""Every rule number in a generated page links to its rule; the page of a replay has the rules it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.pages.markdown import DOCS, link_numbers
from tests.docs.generated import generated

ANCHORS = re.compile(r'<a id="([^"]+)"></a>')


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda p: p.name)
def test_links_to_rules_lead_to_one(path: Path) -> None:
    anchors = set(ANCHORS.findall(generated("rules.md")))
    text = path.read_text()
    assert set(re.findall(r"\]\(rules\.md#([^)]+)\)", text)) <= anchors


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("By B4, 966.1.", "By [B4](rules.md#b4), [966.1](rules.md#966.1)."),
        ("(966.10)", "([966.10](rules.md#966.10))"),
        ("`966.1` and `x` (B8): y", "`966.1` and `x` ([B8](rules.md#b8)): y"),
        ("[see 966.1](x.md) 966.2", "[see 966.1](x.md) [966.2](rules.md#966.2)"),
        ("[966.1](rules.md#966.1)", "[966.1](rules.md#966.1)"),
        ("### 966.1\nB1", "### 966.1\n[B1](rules.md#b1)"),
        ("```text\nB4 966.1\n```\nB4", "```text\nB4 966.1\n```\n[B4](rules.md#b4)"),
        ("https://x.org/966.1 Z3 966.100 KIP-966", "https://x.org/966.1 Z3 966.100 KIP-966"),
        ('<a id="966.1"></a>', '<a id="966.1"></a>'),
    ],
)
def test_a_number_in_a_text_becomes_a_link(text: str, said: str) -> None:
    assert link_numbers(text) == said
    assert link_numbers(said) == said
