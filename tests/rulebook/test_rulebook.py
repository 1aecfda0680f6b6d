"""The rulebook has every number that a text names; the audit has every rule of the proposals."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.scenarios import catalogue, rulebook
from highwater.checker.scenarios.catalogue import Definition, load
from highwater.checker.scenarios.rulebook import sentence_entry
from highwater.invariants.replication.knowledge import helper
from highwater.model import registry
from highwater.model.language import (
    Bool,
    LanguageError,
    Model,
    Protocol,
    Rule,
    Rulebook,
    State,
    Struct,
    action,
    eventually,
    invariant,
)
from highwater.model.language.liveness import Liveness
from highwater.model.language.protocol import Action, Invariant
from highwater.model.language.rulebook import FAITHFUL, LEFT_OUT, SIMPLIFIED, Audit, numbers
from highwater.model.language.step_properties import step_property
from highwater.model.replication.controller import Controller
from highwater.model.rulebook import AUDIT, RULEBOOK
from tests.command import highwater

ROOT = Path(__file__).parents[2]
TEXTS = (".py", ".md", ".toml", ".html")
FOLDERS = ("model", "invariants", "checker", "traces", "tests", "docs")

NOT_MODELLED: set[str] = set()
"""Rules of a proposal that the model lacks."""


def what_looks_like_a_number() -> re.Pattern[str]:
    """A pattern for numbers with the book's prefixes, whether the book has them or not."""
    counted = "|".join(
        sorted((f.prefix for f in RULEBOOK.families if f.prefix.isdigit()), key=len, reverse=True)
    )
    lettered = "|".join(f.prefix for f in RULEBOOK.families if not f.prefix.isdigit())
    return re.compile(rf"(?<![\w.\-/#,])(?:(?:{counted})\.\d+|(?:{lettered})\d\d?)(?!\w|\.\d|-\w)")


def texts() -> list[Path]:
    """All texts of the repository except the rulebook tests, which name missing numbers."""
    found = [*ROOT.glob("*.md"), *(p for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*")))]
    return [p for p in found if p.suffix in TEXTS and p.is_file() and p.parent != Path(__file__).parent]


def every_source() -> Iterator[tuple[str, str]]:
    """(what names it, source) for every source of a shipped protocol or property."""
    for d in catalogue.definitions():
        for name, rule in d.protocol.rules.items():
            yield f"rule {name} of {d.name}", rule.source
        named: list[Action | Invariant | Liveness] = [*d.protocol.actions(), *d.invariants, *d.liveness]
        yield from ((f"{x.name} of {d.name}", x.source) for x in named)
    for x in rulebook.other_properties():
        yield x.name, x.source


def test_every_shipped_source_names_numbers_of_the_book() -> None:
    named = list(every_source())
    assert len(named) > 250
    for what, source in named:
        assert numbers(source), f"{what} has no source"
        assert set(numbers(source)) <= set(RULEBOOK), what


def test_every_number_in_any_file_is_in_the_book() -> None:
    """Searches code, docstrings, tests, pages, scenario titles and findings."""
    pattern = what_looks_like_a_number()
    for path in texts():
        for line, text in enumerate(path.read_text().splitlines(), 1):
            for number in pattern.findall(text):
                assert number in RULEBOOK, f"{path.relative_to(ROOT)}:{line} names {number}"


def test_every_number_is_named_where_the_protocol_is_stated() -> None:
    stated = "\n".join(
        p.read_text() for f in ("model", "invariants", "traces") for p in (ROOT / f).rglob("*.py")
    )
    assert set(RULEBOOK) - set(RULEBOOK.pattern.findall(stated)) == NOT_MODELLED


def test_switches_in_the_book_s_texts_exist() -> None:
    known = {name for d in catalogue.definitions() for name in d.protocol.rules}
    scenarios = set(catalogue.scenario_files()) | set(registry.NAMES)
    for rule in RULEBOOK.values():
        for name in re.findall(r"`([^`]+)`", f"{rule.states} {rule.why} {rule.beyond}"):
            assert name in known | scenarios, f"{rule.number} speaks of {name}"


def test_every_entry_has_a_family_and_those_of_proposals_a_link_and_a_section() -> None:
    for number, rule in RULEBOOK.items():
        assert RULEBOOK.family(number).has(number)
        for proposal in RULEBOOK.proposals(number):
            assert proposal.link.startswith(
                ("https://cwiki.apache.org/confluence/display/KAFKA/", "https://github.com/apache/kafka/")
            )
            assert rule.section, number
        assert rule.states.endswith(".")
        assert rule.why.endswith(".")
    without = {n for n in RULEBOOK if not RULEBOOK.proposals(n)}
    assert without == {"F1", "F2"}, "name the proposal of a rule, or add its number here"


def test_a_number_is_found_only_as_a_whole_word() -> None:
    text = "966.1 (966.10), B4; not 966.12.3, KIP-966.1, xB4, B4x, v966.2, #966.3 nor a/B5, but Z3 solves ZK3 bars"
    assert RULEBOOK.pattern.findall(text) == ["966.1", "966.10", "B4", "ZK3"]


GOOD = """
[proposals.A-1]
title = "A proposal"
link = "https://example.org/a-1"

[[families]]
prefix = "R"
title = "Rules"
about = "All of them."
proposals = ["A-1"]

[[rules]]
number = "R1"
title = "First"
states = '''
What
 holds.
'''
why = "Else it does not."
"""
WHY, TITLE, FROM = 'why = "Else it does not."', 'title = "First"', 'proposals = ["A-1"]'


@pytest.fixture
def book(tmp_path: Path) -> Callable[[str], Rulebook]:
    def write(text: str) -> Rulebook:
        (tmp_path / "rules.toml").write_text(text)
        return Rulebook(tmp_path / "rules.toml")

    return write


def test_a_user_s_rulebook_is_read(book: Callable[[str], Rulebook]) -> None:
    found = book(GOOD)
    assert list(found) == ["R1"]
    assert found["R1"].states == "What holds."
    assert [p.link for p in found.proposals("R1")] == ["https://example.org/a-1"]
    assert found.origin("R1, R2") == "A-1"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (WHY, "", "rule R1 has no why"),
        (WHY, 'why = " "', "rule R1 has no why"),
        (TITLE, "title = 1", "title of rule R1 is a text"),
        (TITLE, f'{TITLE}\nwhen = "now"', "rule R1 has 'when'; it can have beyond, number,"),
        (TITLE, f'{TITLE}\nproposal = ["A-2"]', "rule R1 comes from 'A-2', which is not in"),
        (FROM, 'proposals = "A-1"', "proposals of family 1 is a list of texts"),
        (FROM, 'proposals = ["A-3"]', "family R comes from 'A-3'"),
        ('number = "R1"', 'number = "S1"', "rule S1 is of no family"),
        ('link = "https://example.org/a-1"', "", "proposal A-1 has no link"),
        ("[[families]]", "[families]", "[[families]] is a list of tables"),
        ("[proposals.A-1]", "[proposal.A-1]", "a rulebook has proposals, families and rules, not proposal"),
        ("[[rules]]", "[[rules", "Expected"),
    ],
)
def test_a_mistake_in_a_rulebook_is_one_line(
    book: Callable[[str], Rulebook], tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in GOOD
    with pytest.raises(LanguageError) as wrong:
        len(book(GOOD.replace(old, new)))
    assert str(wrong.value).startswith(f"{tmp_path / 'rules.toml'}: ")
    assert said in str(wrong.value)
    assert "\n" not in str(wrong.value)


def test_the_rulebook_that_the_docs_show_is_one(book: Callable[[str], Rulebook]) -> None:
    text = (ROOT / "docs" / "language" / "scenarios.md").read_text()
    shown = re.search(r"```toml\n(\[proposals.*?)```", text, re.S)
    assert shown
    assert list(book(shown[1])) == ["R1"]


# --- a protocol with a rulebook may only name its numbers; another number is an error at its line -----


BOOK = {"R1": "the one rule", "R12": "and another"}


class Base(Protocol):
    """A protocol with a rulebook."""

    name = "named"
    rulebook = BOOK

    def define(self) -> Struct:
        return Struct("State", on=Bool)


def flip(self: Any, s: State) -> None:
    s.next.on = ~s.on


def holds(m: Any, s: State) -> Any:
    return s.on | ~s.on


def stays(m: Any, before: State, after: State) -> Any:
    return before.on | ~before.on


def wrong(**attributes: Any) -> type[Protocol]:
    return type("Wrong", (Base,), attributes)


MISTAKES: list[tuple[Callable[[], object], str]] = [
    (lambda: wrong(flip=action("R1, R3")(flip)), "action flip of Wrong names 'R3'"),
    (lambda: wrong(rules={"other": Rule("R112", "It too.")}), "rule other of Wrong names 'R112'"),
    (lambda: wrong(invariants=(invariant("R2")(holds),)), "property holds of Wrong names 'R2'"),
    (lambda: Model(Base(), [invariant("R2")(holds)]), "property holds of Base names 'R2'"),
    (lambda: Model(Base(), (), [eventually("R1, KIP-1")(holds)]), "property holds of Base names 'KIP-1'"),
    (
        lambda: Model(Base(), step_properties=[step_property("R4")(stays)]),
        "property stays of Base names 'R4'",
    ),
    (
        lambda: Definition("x", load("replication").protocol, (helper("B4, 966.66")(holds),)),
        "property holds of Replication names '966.66'",
    ),
    (
        lambda: type("More", (Controller,), {"more": action("KIP-966")(flip)}),
        "action flip of More names 'KIP-966'",
    ),
]


@pytest.mark.parametrize(("define", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_a_number_that_the_rulebook_lacks_is_refused_with_its_place(
    define: Callable[[], object], message: str
) -> None:
    with pytest.raises(LanguageError, match=f"{message}, which is not in the rulebook") as error:
        define()
    assert "rulebook/test_rulebook.py:" in str(error.value.place)


def test_numbers_of_the_rulebook_are_accepted() -> None:
    right = wrong(flip=action("R1, R12")(flip), rules={"switch": Rule("R1", "It can be off.")})
    assert Model(right()).instances


def test_without_a_rulebook_any_source_will_do() -> None:
    free = wrong(rulebook=None, flip=action("what I please")(flip))
    assert Model(free(), [invariant("R2")(holds)]).instances


PROTOCOL = '''
from pathlib import Path
from highwater.model.language import Bool, Protocol, Rulebook, Struct, action

class Mine(Protocol):
    """With a rulebook of its own."""

    rulebook = Rulebook(Path(__file__).with_name("rules.toml"))

    def define(self):
        return Struct("State", on=Bool)

    def initial(self):
        return [{"on": False}]

    @action("M2")
    def flip(self, s):
        s.next.on = ~s.on
'''
RULES = """
[[families]]
prefix = "M"
title = "Mine"
about = "My rules."

[[rules]]
number = "M1"
title = "One"
states = "It goes on."
why = "Else it does not."
"""


def test_a_user_s_protocol_can_have_a_rulebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(PROTOCOL)
    (tmp_path / "rules.toml").write_text(RULES)
    (tmp_path / "mine.toml").write_text('protocol = "mine.py"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    run = highwater("check", "mine.toml")
    assert run.status == 2
    line = 1 + PROTOCOL.splitlines().index('    @action("M2")')
    assert run.err == (
        f"highwater: mine.py:{line}: action flip of Mine names 'M2', which is not in the rulebook; "
        "did you mean 'M1'?; add rules with `rulebook = Base.rulebook | Rulebook(path)` in the class\n"
    )
    before = (tmp_path / "mine.py").stat()
    (tmp_path / "mine.py").write_text(PROTOCOL.replace("M2", "M1"))
    os.utime(
        tmp_path / "mine.py", ns=(before.st_atime_ns, before.st_mtime_ns)
    )  # as if within the same moment
    assert highwater("check", "mine.toml", "--engine", "interpreter").status == 0
    (tmp_path / "rules.toml").write_text(RULES.replace('why = "Else it does not."', ""))
    assert highwater("check", "mine.toml").err == "highwater: rules.toml: rule M1 has no why\n"


# --- the audit ----------------------------------------------------------------------------------------


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


GOOD_AUDIT = """
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
    assert old in GOOD_AUDIT
    with pytest.raises(LanguageError) as wrong:
        len(audit(GOOD_AUDIT.replace(old, new)))
    assert str(wrong.value).startswith(f"{tmp_path / 'audit.toml'}: ")
    assert said in str(wrong.value)


def test_a_repeated_sentence_is_refused(audit: Callable[[str], Audit]) -> None:
    with pytest.raises(LanguageError, match=r"sentence 2 \(966\.1\) is there twice"):
        len(audit(GOOD_AUDIT + GOOD_AUDIT))


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
    (sentence,) = audit(GOOD_AUDIT.replace(old, new))
    with pytest.raises(LanguageError, match=said):
        sentence_entry(sentence)
    (good,) = audit(GOOD_AUDIT)
    assert sentence_entry(good)["status"] == FAITHFUL
    assert good.is_modelled
    assert good.status != LEFT_OUT
    assert numbers(good.rule) == ["966.1"]
