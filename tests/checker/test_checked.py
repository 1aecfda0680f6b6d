"""Which declarations of a protocol are checked, and unknown names; a user's protocol of several files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from highwater.checker.base.problems import InputError
from highwater.checker.engines.spark.request import ModelRequest
from highwater.checker.scenarios import catalogue
from highwater.checker.scenarios.catalogue import imported_by, load
from highwater.checker.scenarios.request import asked
from highwater.model.language import Model
from tests.command import highwater

CLERK = '''
from highwater.language import *

@invariant("C1")
def another_is_next(m, s):
    """Who was served last does not wait."""
    return ~s.waits.has(s.last)

@leads_to("C2", fair=weak("serve", by=[]), c="client")
def is_served(m, s, c):
    """A client that waits is served."""
    return s.waits.has(c), ~s.waits.has(c)

class Clerk(Protocol):
    """A clerk serves the first in the alphabet, or, by the rule, in turn."""

    rules = {"in_turn": Rule("C3", "The clerk goes round.")}
    invariants = (another_is_next,)
    liveness = (is_served,)

    def define(self):
        self.client = Index("client", 3)
        return Struct("State", waits=Set(self.client), last=self.client)

    def initial(self):
        return [{"waits": set(), "last": 0}]

    @action(c="client")
    def come(self, s, c):
        require("not here yet", ~s.waits.has(c))
        require("another had a turn", s.last != c)
        s.next.waits = s.waits.with_(c)

    @action(c="client")
    def serve(self, s, c):
        require("waits", s.waits.has(c))
        before = ~first(self.client, lambda d: s.waits.has(d) & (d < c)).is_some
        if self.on("in_turn"):
            later = first(self.client, lambda d: s.waits.has(d) & (d > s.last)).is_some
            ahead = first(self.client, lambda d: s.waits.has(d) & (d > s.last) & (d < c)).is_some
            before = where(later, (c > s.last) & ~ahead, before)
        require("is the first", before)
        s.next.waits = s.waits.without(c)
        s.next.last = c
'''


@pytest.fixture
def clerk(tmp_path: Path) -> Path:
    path = tmp_path / "clerk.py"
    path.write_text(CLERK)
    return path


def changed(clerk: Path, before: str, after: str) -> Path:
    assert before in CLERK
    clerk.write_text(CLERK.replace(before, after))
    return clerk


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("    liveness =", "    livenes =", "the attribute 'livenes' of Clerk; did you mean 'liveness'?"),
        ("def initial(", "def inital(", "the attribute 'inital' of Clerk; did you mean 'initial'?"),
        ('weak("serve"', 'weak("server"', "is_served calls 'server' fair, which is no action of clerk; "),
        ('self.on("in_turn")', "False", "no code consults the rule 'in_turn'"),
    ],
)
def test_a_name_that_means_nothing_is_an_error(clerk: Path, before: str, after: str, said: str) -> None:
    done = highwater("check", str(changed(clerk, before, after)))
    assert done.status == 2
    line = " ".join((done.out + done.err).split())
    assert said in line
    assert "clerk.py:" in line
    assert ("did you mean 'serve'?" in line) == ("weak" in before)


def test_an_attribute_with_another_name_is_ignored(clerk: Path) -> None:
    changed(clerk, "    liveness =", "    lives = (is_served,)\n    rulers = ('a', 'b')\n    liveness =")
    assert highwater("check", str(clerk), "--rule", "in_turn=on").status == 0


def test_a_rule_that_only_an_action_or_a_property_has_is_consulted(clerk: Path) -> None:
    for place in ('@invariant("C1"', '@action(c="client"'):
        text = CLERK.replace('self.on("in_turn")', "False").replace(place, f'{place}, rule="in_turn"', 1)
        clerk.write_text(text)
        done = highwater("check", str(clerk), "--property", "another_is_next", "--rule", "in_turn=on")
        assert done.status == 0, done.out + done.err


def test_a_rule_that_is_consulted_under_another_alone_is_consulted(clerk: Path) -> None:
    text = CLERK.replace('goes round.")}', 'goes round."), "other": Rule("C4", "Nobody is ahead.")}')
    text = text.replace('if self.on("in_turn")', 'if self.on("in_turn") or self.on("other")')
    clerk.write_text(text)
    assert highwater("check", str(clerk)).status == 0


def test_helpers_are_checked_only_if_a_scenario_names_them() -> None:
    helpers = {p.name for p in load("replication").helpers}
    shrink, records = (
        set(asked(f"replication/{name}").properties) for name in ("small-shrink", "large-records")
    )
    assert helpers
    assert helpers <= shrink
    assert not helpers & records


# --- a protocol of several files ----------------------------------------------------------------------


MAIN = """
from highwater.language import Int, Protocol, State, Struct, action
from shared import MOST
import steps

class Mine(Protocol):
    def define(self):
        return Struct("State", n=Int(0, MOST))

    @action()
    def step(self, s: State):
        steps.up(s, MOST)
"""
STEPS = """
from highwater.language import State, require
import shared

def up(s, most):
    require("below", s.n < shared.MOST)
    s.next.n = s.n + 1
"""


def written(directory: Path, most: str = "MOST = 3") -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "mine.py").write_text(MAIN)
    (directory / "steps.py").write_text(STEPS)
    (directory / "shared.py").write_text(most)
    return directory / "mine.py"


def most(path: Path) -> int:
    definition = catalogue.load_file(path)
    return Model(definition.protocol()).leaves[0].high


def test_imported_files_are_read_again_after_changes(tmp_path: Path) -> None:
    path = written(tmp_path / "one")
    assert most(path) == 3
    written(tmp_path / "one", "MOST = 5")
    assert most(path) == 5
    assert most(written(tmp_path / "two", "MOST = 7")) == 7
    assert "shared" not in sys.modules
    assert "steps" not in sys.modules


def test_a_module_that_is_there_already_is_neither_taken_nor_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = type(sys)("shared")
    monkeypatch.setitem(sys.modules, "shared", other)
    assert most(written(tmp_path)) == 3
    assert sys.modules["shared"] is other


def test_an_error_in_an_imported_file_names_its_place(tmp_path: Path) -> None:
    path = written(tmp_path, "MOST = 1 //")
    with pytest.raises(InputError, match=r"shared\.py:1: invalid syntax"):
        catalogue.load_file(path)
    written(tmp_path, "x = 1\nMOST = 1 // 0")
    with pytest.raises(InputError, match=r"shared\.py:2: ZeroDivisionError"):
        catalogue.load_file(path)
    (tmp_path / "shared.py").unlink()
    with pytest.raises(InputError, match=r"mine\.py:3: ModuleNotFoundError: No module named 'shared'"):
        catalogue.load_file(path)


def test_a_request_contains_imported_files(tmp_path: Path) -> None:
    definition = catalogue.load_file(written(tmp_path))
    assert set(imported_by(definition.protocol.__module__)) == {"shared", "steps"}
    request = ModelRequest.read(ModelRequest.of(Model(definition.protocol()), False, False).text())
    for file in tmp_path.iterdir():
        if file.is_file():
            file.unlink()
    assert request.model().leaves[0].high == 3
