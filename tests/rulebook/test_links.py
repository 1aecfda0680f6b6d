"""Every rule number in a generated page links to its rule; the page of a replay has the rules it names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from docs.pages.markdown import DOCS, anchor, link_numbers
from highwater.model.rulebook import RULEBOOK
from highwater.traces.reports.findings import Finding
from highwater.traces.reports.page import write_page
from highwater.traces.reports.report import Report
from tests.docs.generated import generated

ANCHORS = re.compile(r'<a id="([^"]+)"></a>')


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda p: p.name)
def test_links_to_rules_lead_to_one(path: Path) -> None:
    anchors = set(ANCHORS.findall(generated("rules.md")))
    text = path.read_text()
    assert set(re.findall(r"\]\(rules\.md#([^)]+)\)", text)) <= anchors


def test_the_page_has_an_anchor_for_every_number_and_family() -> None:
    anchors = ANCHORS.findall(generated("rules.md"))
    assert len(anchors) == len(set(anchors)) == len(RULEBOOK) + len(RULEBOOK.families)
    assert {anchor(number) for number in RULEBOOK} <= set(anchors)


def test_the_page_has_every_rule_s_statement_and_reason() -> None:
    for rule in RULEBOOK.values():
        entry = generated("rules.md").split(f"### {rule.number}: ")[1].split("\n### ")[0]
        for text in (rule.title, rule.states, f"**Why.** {rule.why}", rule.beyond, rule.quote, rule.section):
            assert text in entry, rule.number


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


def rules_of_page(tmp_path: Path, *findings: Finding) -> dict[str, Any]:
    report = Report("x", "k", "p")
    for finding in findings:
        report.find(finding)
    write_page([report], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert data
    rules = json.loads(data[1])["rules"]
    assert isinstance(rules, dict)
    return rules


def test_the_page_of_a_replay_has_the_rules_that_its_findings_name(tmp_path: Path) -> None:
    """Only rules of findings from a proposal: a user's protocol may give a number another meaning."""
    loss = Finding("B4, 966.6", "p", "t-0", {"line": 2}, None, "said", "risk", "KIP-966")
    own = Finding("B5", "q", "t-0", {"line": 2}, None, "said")
    rules = rules_of_page(tmp_path, loss, own)
    assert list(rules) == ["B4", "966.6"]
    assert rules["966.6"]["states"] == RULEBOOK["966.6"].states
    assert rules["966.6"]["from"] == [[p.name, p.title, p.link] for p in RULEBOOK.proposals("966.6")]
    assert rules_of_page(tmp_path, own) == {}
