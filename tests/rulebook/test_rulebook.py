"""The rulebook has every number that a text names, with its statement and reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from highwater.checker.scenarios import catalogue
from highwater.checker.scenarios import rulebook_sources as sources
from highwater.model import registry
from highwater.model.language import LanguageError, Rulebook
from highwater.model.language.liveness import Liveness
from highwater.model.language.protocol import Action, Invariant
from highwater.model.language.rulebook import numbers
from highwater.model.rulebook import RULEBOOK

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
    for x in sources.other_properties():
        yield x.name, x.source


def test_every_shipped_source_names_numbers_of_the_book() -> None:
    named = list(every_source())
    assert len(named) > 250
    for what, source in named:
        assert numbers(source), f"{what} has no source"
        assert set(numbers(source)) <= set(RULEBOOK), what


def test_every_protocol_here_has_the_rulebook() -> None:
    assert all(catalogue.load(name).protocol.rulebook is RULEBOOK for name in registry.NAMES)


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


def test_a_switch_beyond_the_letter_has_its_mark() -> None:
    """Each of our own switches in docs/replication.md has a number in the rulebook."""
    text = (ROOT / "docs" / "replication.md").read_text()
    ours = re.findall(r"\*\*`(\w+)`|and \*\*`(\w+)`", text.split("## Profiles")[1].split("Some gaps")[0])
    assert len(ours) >= 5
    for name in (first or second for first, second in ours):
        rule = catalogue.load("replication").protocol.rules[name]
        assert any(f"`{name}`" in RULEBOOK[number].beyond for number in numbers(rule.source)), name


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


def test_a_repeated_rule_is_refused(book: Callable[[str], Rulebook]) -> None:
    with pytest.raises(LanguageError, match="rule R1 is there twice"):
        len(book(GOOD + GOOD.partition("[[rules]]")[2].join(["[[rules]]", ""])))


def test_a_missing_rulebook_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LanguageError, match=r"none\.toml: .*No such file"):
        len(Rulebook(tmp_path / "none.toml"))


def test_the_rulebook_that_the_docs_show_is_one(book: Callable[[str], Rulebook]) -> None:
    text = (ROOT / "docs" / "language" / "scenarios.md").read_text()
    shown = re.search(r"```toml\n(\[proposals.*?)```", text, re.S)
    assert shown
    assert list(book(shown[1])) == ["R1"]


def test_the_quick_look_up_has_the_numbers_of_the_book() -> None:
    """The lookup parses only lines with numbers: reading the whole book is slow."""
    assert RULEBOOK._numbers == set(RULEBOOK)
    assert "B4" in RULEBOOK
    assert "B99" not in RULEBOOK
