"""A protocol with a rulebook names only its numbers: what is not there is refused where it is defined."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.scenarios import rulebook_sources as sources
from highwater.checker.scenarios.catalogue import Definition, load
from highwater.invariants.replication.knowledge import helper
from highwater.model.language import (
    Bool,
    LanguageError,
    Model,
    Protocol,
    Rule,
    State,
    Struct,
    action,
    eventually,
    invariant,
)
from highwater.model.language.model import Model as Traced
from highwater.model.language.step_properties import step_property
from highwater.model.replication.controller import Controller
from highwater.model.truncation import Truncation
from tests.checker.conftest import Run

BOOK = {"R1": "the one rule", "R12": "and another"}


class Base(Protocol):
    """What the protocols below have in common."""

    name = "named"
    rulebook = BOOK

    def define(self) -> Struct:
        return Struct("State", on=Bool)

    def initial(self) -> list[dict[str, Any]]:
        return [{"on": False}]


class Right(Base):
    """Names what is there."""

    rules = {"switch": Rule("R1", "It can be off.")}

    @action("R1, R12")
    def flip(self, s: State) -> None:
        s.next.on = ~s.on


@invariant("R2")
def wrongly_named(m: Right, s: State) -> Any:
    """It names what is not there."""
    return s.on | ~s.on


def refused(define: Callable[[], object], said: str, line: str) -> None:
    """The error says what is wrong and at which line of this file."""
    with pytest.raises(LanguageError) as wrong:
        define()
    text = Path(__file__).read_text(encoding="utf-8").splitlines()
    place, _, message = str(wrong.value).partition(": ")
    file, _, number = place.rpartition(":")
    assert file.endswith("tests/rulebook/test_naming.py")
    assert line in text[int(number) - 1]
    assert re.sub("; did you mean .*", "", message) == said


def test_what_is_in_the_book_is_accepted() -> None:
    assert Model(Right()).instances


def test_an_action_that_names_no_rule() -> None:
    def define() -> object:
        class Wrong(Base):
            @action("R1, R3")
            def flip(self, s: State) -> None:
                s.next.on = ~s.on

        return Wrong

    refused(
        define,
        "action flip of Wrong names 'R3', which is not in the rulebook",
        '@action("R1, R3")',
    )


def test_a_switch_that_names_no_rule() -> None:
    def define() -> object:
        class Wrong(Base):
            rules = {
                "switch": Rule("R1", "It can be off."),
                "other": Rule("R112", "This too."),
            }

        return Wrong

    said = "rule other of Wrong names 'R112', which is not in the rulebook"
    refused(define, said, '"other": Rule("R112"')


def test_a_property_of_the_class_that_names_no_rule() -> None:
    def define() -> object:
        class Wrong(Base):
            invariants = (wrongly_named,)

        return Wrong

    refused(
        define, "property wrongly_named of Wrong names 'R2', which is not in the rulebook", '@invariant("R2")'
    )


def test_a_property_of_a_package_of_invariants_that_names_no_rule() -> None:
    said = "property wrongly_named of Right names 'R2', which is not in the rulebook"
    refused(lambda: Definition("named", Right, (wrongly_named,)), said, '@invariant("R2")')
    refused(lambda: Model(Right(), [wrongly_named]), said, '@invariant("R2")')


def test_a_liveness_property_that_names_no_rule() -> None:
    @eventually("R1, KIP-1")
    def comes_on(m: Right, s: State) -> Any:
        """It comes on."""
        return s.on

    said = (
        "property comes_on of Right names 'KIP-1', which is not in the rulebook; "
        "add rules with `rulebook = Base.rulebook | Rulebook(path)` in the class"
    )
    refused(lambda: Model(Right(), (), [comes_on]), said, '@eventually("R1, KIP-1")')


def test_a_property_of_steps_that_names_no_rule() -> None:
    @step_property("R4")
    def stays(m: Right, before: State, after: State) -> Any:
        """It stays."""
        return before.on | ~before.on

    said = "property stays of Right names 'R4', which is not in the rulebook"
    refused(lambda: Traced(Right(), step_properties=[stays]), said, '@step_property("R4")')


def test_a_helper_invariant_of_replication_that_names_no_rule() -> None:
    """The place is that of the function, though it is wrapped."""

    @helper("B4, 966.66")
    def holds(m: Any, s: State) -> Any:
        """It holds."""
        return True

    replication = load("replication")
    said = "property holds of Replication names '966.66', which is not in the rulebook"
    refused(lambda: Definition("x", replication.protocol, (holds,)), said, '@helper("B4, 966.66")')


@pytest.mark.parametrize("protocol", [Truncation, Controller])
def test_a_protocol_that_is_derived_from_a_shipped_one_keeps_its_rulebook(protocol: type[Protocol]) -> None:
    with pytest.raises(
        LanguageError, match="action _more of More names 'KIP-966', which is not in the rulebook"
    ):
        type("More", (protocol,), {"more": action("KIP-966")(_more)})


def _more(self: Protocol, s: State) -> None:
    s.next = s  # type: ignore[assignment]


def test_without_a_rulebook_any_source_will_do() -> None:
    class Free(Base):
        rulebook = None  # type: ignore[assignment]

        @action("what I please")
        def flip(self, s: State) -> None:
            s.next.on = ~s.on

    assert Model(Free(), [wrongly_named]).instances


def test_a_shipped_rule_knows_where_it_is_stated() -> None:
    rule = Truncation.rules["matching_tail"]
    file, _, line = str(rule.place).rpartition(":")
    assert "Rule(" in Path(file).read_text(encoding="utf-8").splitlines()[int(line) - 1]
    assert rule == Rule(rule.source, rule.sentence), "where it is stated is no part of what it says"


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
        """On and off."""
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


def test_one_s_own_protocol_with_a_rulebook_of_its_own(
    highwater: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_the_marks_of_every_shipped_property_are_seen() -> None:
    """What the walk over the package of invariants collects: it would be silent about what it does not see."""
    assert len(sources.other_properties()) > 30
    kinds = {type(p).__name__ for p in sources.other_properties()}
    assert kinds >= {"Invariant", "StepProperty"}
    assert all(inspect.isfunction(p.function) for p in sources.other_properties())
