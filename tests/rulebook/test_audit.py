"""The audit has every rule of the five proposals and names existing things; mistakes in it are errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from docs.pages.rulebook import AUDIT_PAGE
from highwater.checker.scenarios import catalogue, rulebook
from highwater.checker.scenarios.rulebook import sentence_entry
from highwater.model.language import LanguageError
from highwater.model.language.rulebook import FAITHFUL, LEFT_OUT, SIMPLIFIED, Audit, numbers
from highwater.model.rulebook import AUDIT, RULEBOOK
from tests.command import highwater

ROOT = Path(__file__).parents[2]

FAMILIES = ("966", "903", "841", "380", "1166")
"""The audited proposals."""

NOT_IN_THE_TEXT = {
    "cancellation_is_whole",  # KIP-455 defines a cancellation
    "clean_in_every_directory",  # KIP-966 assumes one log directory
    "removed_replicas_delete",  # Kafka's own behavior
}
"""Switches of these proposals' rules that have no sentence in the audit."""


def test_every_rule_of_these_proposals_has_its_sentences() -> None:
    for family in (f for f in RULEBOOK.families if f.prefix in FAMILIES):
        for rule in RULEBOOK.of(family):
            assert any(s.proposal in family.proposals for s in AUDIT.of_rule(rule.number)), rule.number
    assert AUDIT.proposals == [f"KIP-{prefix}" for prefix in FAMILIES]


def test_a_sentence_s_places_exist_and_a_check_detects_its_mistake() -> None:
    for sentence in AUDIT:
        entry = sentence_entry(sentence)
        assert [p["name"] for p in entry["places"]] == [name.rpartition(".")[2] for name in sentence.at]
        for place, notice in ((p["place"], n) for p in entry["places"] for n in entry["noticed"]):
            assert (ROOT / place.rpartition(":")[0]).is_file()
            assert notice["scenario"] or notice["violates"]


def test_every_switch_with_a_defect_belongs_to_a_sentence() -> None:
    named = {name for s in AUDIT for name in s.switches}
    beyond = {name for rule in RULEBOOK.values() for name in rule.beyond.split("`")[1::2]}
    for definition in catalogue.definitions():
        for name, rule in definition.protocol.rules.items():
            of_these = any(n.partition(".")[0] in FAMILIES for n in numbers(rule.source))
            shown = any(
                name in outline.get("rules", {}) and outline.get("expect", {}).get("violated")
                for outline in rulebook.outlines().values()
                if outline.get("protocol") == definition.name
            )
            assert not of_these or not shown or name in named | beyond | NOT_IN_THE_TEXT, name


def test_a_simplified_or_omitted_sentence_has_an_explanation() -> None:
    for sentence in (s for s in AUDIT if s.status != FAITHFUL):
        assert sentence.how.endswith("."), sentence.says
        assert all(len(part.split()) <= 25 for part in sentence.how.split(". ")), sentence.says


def test_show_lists_simplified_and_omitted_sentences() -> None:
    out = " ".join(highwater("show", "966.15").out.split())
    told = [s for s in AUDIT.of_rule("966.15") if s.status == SIMPLIFIED]
    assert told
    for sentence in told:
        assert f"simplified: {sentence.says} {sentence.how}" in out
    assert "left out: " in highwater("show", "966.19").out
    assert "simplified: " not in highwater("show", "966.7").out


def test_the_json_of_show_has_every_sentence_of_a_rule() -> None:
    (entry,) = highwater("show", "966.1", "--json", "-").results
    assert [s["says"] for s in entry["sentences"]] == [s.says for s in AUDIT.of_rule("966.1")]
    (gate, *_) = entry["sentences"]
    assert gate["status"] == FAITHFUL
    assert gate["noticed"][0] == {
        "switch": "hwm_needs_min_isr",
        "with": [],
        "scenario": "replication/defect-elr-without-gate",
        "violates": ["leader_completeness"],
    }
    file, _, line = gate["places"][0]["place"].rpartition(":")
    assert "def may_advance" in (ROOT / file).read_text().splitlines()[int(line) - 1]


def test_the_page_counts_every_sentence_once() -> None:
    *_, all_of_them = AUDIT_PAGE["summary"]()
    counts = [int(cell) for cell in all_of_them.strip("| ").split("|")[1:]]
    assert counts[0] == len(AUDIT) == sum(counts[1:4])
    assert counts[4] == len(list(AUDIT_PAGE["unnoticed"]()))
    rows = [line for name in AUDIT.proposals for line in AUDIT_PAGE["sentences"](name)]
    assert sum(line.startswith("| ") and "**" in line for line in rows) == len(AUDIT)


GOOD = """
[[sentences]]
proposal = "KIP-966"
section = "Motivation"
says = "It holds."
rule = "966.1"
status = "faithful"
at = ["high_watermark.may_advance"]
switches = ["hwm_needs_min_isr"]
noticed = ["leader_completeness"]
"""
RULE, STATUS, AT = 'rule = "966.1"', 'status = "faithful"', 'at = ["high_watermark.may_advance"]'


@pytest.fixture
def audit(tmp_path: Path) -> Callable[[str], Audit]:
    def write(text: str) -> Audit:
        (tmp_path / "audit.toml").write_text(text)
        return Audit(tmp_path / "audit.toml", RULEBOOK)

    return write


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (RULE, 'rule = "966.99"', "sentence 1 (966.99) names a rule that is not in the rulebook"),
        ('proposal = "KIP-966"', 'proposal = "KIP-1"', "sentence 1 (966.1) is of 'KIP-1', which is not in"),
        (STATUS, 'status = "good"', "sentence 1 (966.1) has the status 'good'; it can be faithful,"),
        (STATUS, 'status = "simplified"', "sentence 1 (966.1) is simplified, and has no how"),
        (STATUS, 'status = "left out"\nhow = "So."', "is left out, and has a place in the model"),
        (AT, "", "sentence 1 (966.1) is faithful, and has no at"),
    ],
)
def test_a_mistake_in_an_audit_is_refused(
    audit: Callable[[str], Audit], tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in GOOD
    with pytest.raises(LanguageError) as wrong:
        len(audit(GOOD.replace(old, new)))
    assert str(wrong.value).startswith(f"{tmp_path / 'audit.toml'}: ")
    assert said in str(wrong.value)


def test_a_repeated_sentence_is_refused(audit: Callable[[str], Audit]) -> None:
    with pytest.raises(LanguageError, match=r"sentence 2 \(966\.1\) is there twice"):
        len(audit(GOOD + GOOD))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("high_watermark.may_advance", "may_not_advance", "which is no function of the model"),
        ("high_watermark.may_advance", "send_fetch", "which is 2 functions of the model"),
        ("hwm_needs_min_isr", "join_at_hwm", "which is no switch of this rule"),
        ("leader_completeness", "completeness", "which is no property and no scenario"),
    ],
)
def test_a_sentence_with_an_unknown_name_is_refused(
    audit: Callable[[str], Audit], old: str, new: str, said: str
) -> None:
    (sentence,) = audit(GOOD.replace(old, new))
    with pytest.raises(LanguageError, match=said):
        sentence_entry(sentence)
    (good,) = audit(GOOD)
    assert sentence_entry(good)["status"] == FAITHFUL
    assert good.is_modelled
    assert good.status != LEFT_OUT
    assert numbers(good.rule) == ["966.1"]
