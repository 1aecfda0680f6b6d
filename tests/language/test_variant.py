"""A proposal's author outside of the repository: a variant of a protocol with its own rules and rulebook."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.model.language import LanguageError, Rulebook
from highwater.model.quorum import PROTOCOL
from tests.command import highwater as run

VARIANT = '''
from pathlib import Path

from highwater.language import *
from highwater.model.quorum import Quorum


class Slow(Quorum):
    """The quorum with a limit on what one leader appends."""

    name = "slow"
    rulebook = Quorum.rulebook | Rulebook(Path(__file__).with_name("rules.toml"))
    rules = {**Quorum.rules, "one_append": Rule("9999.1", "A leader appends once in its epoch.")}

    @action("9999.1", says="member {leader} appends a record, its only one", leader="voter")
    def append(self, s, leader):
        """As before, but once."""
        if self.on("one_append"):
            require("it has not appended in this epoch", s.budgets.appends == 2)
        super().append(s, leader)
'''
RULES = """
[proposals.KIP-9999]
title = "One append a leader"
link = "https://example.org/kip-9999"

[[families]]
prefix = "9999"
title = "Slow leaders"
about = "How often a leader appends."
proposals = ["KIP-9999"]

[[rules]]
number = "9999.1"
title = "Append once"
states = "A leader appends once in its epoch."
why = "This is an example."
"""


@pytest.fixture
def author(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "slow.py").write_text(VARIANT)
    (tmp_path / "rules.toml").write_text(RULES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def checked(*arguments: str) -> dict[str, object]:
    result = run("check", *arguments, "--json", "-")
    assert result.status == 0
    (found,) = result.results
    assert isinstance(found, dict)
    return found


def test_an_action_calls_the_one_that_it_overrides(author: Path) -> None:
    """With the new rule off, the variant has the base protocol's states; with it on, fewer."""
    text = 'protocol = "{}"\nproperties = ["leader_completeness"]\n[parameters]\nappends = 2\n'
    for name, protocol in (("base", "quorum"), ("own", "slow.py")):
        (author / f"{name}.toml").write_text(text.format(protocol))
    base = checked("base.toml")["distinct_states"]
    assert checked("own.toml", "--rule", "one_append=off")["distinct_states"] == base
    fewer = checked("own.toml")["distinct_states"]
    assert isinstance(fewer, int)
    assert isinstance(base, int)
    assert fewer < base


def test_show_knows_its_rules(author: Path) -> None:
    for name in ("9999.1", "KIP-9999", "9999"):
        said = run("show", f"slow.py:{name}").output
        assert "Append once" in said, name
    said = run("show", "slow.py:9999.1").output
    assert "one_append" in said
    assert "one_append (slow)" in said
    assert "https://example.org/kip-9999" in said
    assert "version 18" in run("show", "slow.py:1166.1").output
    assert "A leader appends once" in run("show", "slow.py:one_append").output
    assert "members[member].hwm" in run("show", "slow.py").output


def test_the_properties_of_the_base_are_checked_too(author: Path) -> None:
    found = run("check", "slow.py", "--json", "-").results
    assert "committed_records_are_on_a_majority" in found[0]["properties"]


def test_show_of_a_name_that_the_file_lacks(author: Path) -> None:
    result = run("show", "slow.py:9999.2")
    assert result.status == 2
    assert "highwater show" in result.output


def test_the_error_explains_how_to_add_a_rule(author: Path) -> None:
    path = author / "slow.py"
    path.write_text(VARIANT.replace("    rulebook =", "    # rulebook ="))
    result = run("check", "slow.py")
    assert result.status == 2
    assert "'9999.1', which is not in the rulebook" in result.output
    assert "add rules with `rulebook = Base.rulebook | Rulebook(path)` in the class" in result.output


def test_a_number_that_both_books_have_is_refused(author: Path) -> None:
    (author / "rules.toml").write_text(RULES.replace("9999", "966"))
    assert isinstance(PROTOCOL.rulebook, Rulebook)
    book = PROTOCOL.rulebook | Rulebook(author / "rules.toml")
    with pytest.raises(LanguageError, match=r"rule 966\.1 is there twice"):
        len(book)


def test_rulebooks_can_be_joined_in_any_order(author: Path) -> None:
    second = author / "second.toml"
    second.write_text(RULES.replace("9999", "9998"))
    quorum, one, other = PROTOCOL.rulebook, Rulebook(author / "rules.toml"), Rulebook(second)
    assert isinstance(quorum, Rulebook)
    assert [*(quorum | (one | other))] == [*((quorum | one) | other)]
    assert {"9999.1", "9998.1"} <= {*(quorum | (one | other))}


def test_every_field_of_a_state_has_a_meaning() -> None:
    from highwater.checker.scenarios import catalogue, listing

    for definition in catalogue.definitions():
        fields = listing.protocol(definition)["state"]
        assert len(fields) > 4
        assert [f["name"] for f in fields if not f["meaning"]] == [], definition.name


def test_modules_of_a_subclass_take_the_place_of_those_of_its_base() -> None:

    class Bare(PROTOCOL):
        name = "bare"
        modules = ()  # type: ignore[assignment]
        liveness = ()

    class Same(PROTOCOL):
        name = "same"

    assert Bare.actions() == []
    assert {a.name for a in Same.actions()} == {a.name for a in PROTOCOL.actions()}
