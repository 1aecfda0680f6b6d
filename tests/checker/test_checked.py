"""What is checked of what a protocol declares, what is not, and where that is reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import highwater as package
from highwater.checker.asking import scenarios
from highwater.checker.asking.catalogue import scenario_files
from highwater.checker.asking.request import Overrides, Request
from highwater.checker.telling import report
from highwater.model.language import LanguageError
from tests.checker.conftest import Run

CLERK = '''
from highwater.language import *


@invariant("C1")
def somebody_was_last(m, s):
    """One of the clients was served last."""
    return s.last >= m.client.low if False else (s.last == s.last)


@leads_to("C2", fair=weak("serve", by=[]), c="client")
def is_served(m, s, c):
    """A client that waits is served."""
    return s.waits.has(c), ~s.waits.has(c)


class Clerk(Protocol):
    """A clerk serves the first in the alphabet; in turn with the rule."""

    rules = {"in_turn": Rule("C3", "The clerk goes round."), "logged": Rule("C4", "A client is logged.")}
    liveness = (is_served,)

    def define(self):
        self.client = Enum("Client", "ann bob eve")
        return Struct("State", waits=Set(self.client), last=self.client)

    @action(c="client")
    def come(self, s, c):
        require("not here yet", ~s.waits.has(c))
        s.next.waits = s.waits.with_(c)

    @action()
    def serve(self, s):
        who = first(self.client, s.waits.has)
        if self.on("in_turn"):
            later = first(self.client, lambda c: s.waits.has(c) & (c > s.last))
            who = where(later.is_some, later, who)
            if not self.on("logged"):
                require("never without logging", s.last != who.value)
        require("somebody waits", who.is_some)
        s.next.waits = s.waits.without(who.value)
        s.next.last = who.value
'''
UNFAIR = ("--rule", "in_turn=off")


@pytest.fixture
def clerk(tmp_path: Path) -> Callable[..., Path]:
    """Write the protocol, with changes of its text, alone or with a scenario beside it; the path to check."""

    def write(*changes: tuple[str, str], scenario: str | None = None) -> Path:
        text = CLERK.replace(
            "return s.last >= m.client.low if False else (s.last == s.last)", "return s.waits.has(s.last) | ~s.waits.has(s.last)"
        )
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        path = tmp_path / "clerk.py"
        path.write_text(text, encoding="utf-8")
        if scenario is None:
            return path
        (tmp_path / "clerk.toml").write_text(f'protocol = "clerk.py"\n{scenario}', encoding="utf-8")
        return tmp_path / "clerk.toml"

    return write
