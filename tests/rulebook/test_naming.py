"""A protocol with a rulebook may only name its numbers; another number is an error at its line."""

from __future__ import annotations

import inspect
import os
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
from highwater.model.language.step_properties import step_property
from highwater.model.replication.controller import Controller
from highwater.model.truncation import Truncation
from tests.command import highwater

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
    assert "rulebook/test_naming.py:" in str(error.value.place)


def test_numbers_of_the_rulebook_are_accepted() -> None:
    right = wrong(flip=action("R1, R12")(flip), rules={"switch": Rule("R1", "It can be off.")})
    assert Model(right()).instances


def test_without_a_rulebook_any_source_will_do() -> None:
    free = wrong(rulebook=None, flip=action("what I please")(flip))
    assert Model(free(), [invariant("R2")(holds)]).instances


def test_a_shipped_rule_has_its_place() -> None:
    rule = Truncation.rules["matching_tail"]
    file, _, line = str(rule.place).rpartition(":")
    assert "Rule(" in Path(file).read_text().splitlines()[int(line) - 1]
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


def test_the_walk_over_invariants_finds_every_kind() -> None:
    """The test checks only modules that the walk finds."""
    assert len(sources.other_properties()) > 30
    kinds = {type(p).__name__ for p in sources.other_properties()}
    assert kinds >= {"Invariant", "StepProperty"}
    assert all(inspect.isfunction(p.function) for p in sources.other_properties())
