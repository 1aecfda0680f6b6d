"""Warnings about actions that are never enabled and properties that are constant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import highwater as package
from highwater.checker.comparing.gate.entries import GateEntry
from highwater.checker.comparing.gate.entries import run as run_entry
from highwater.checker.report.vacuity import constant_properties, vacuous
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import asked
from highwater.model.language import (
    Int,
    Model,
    Protocol,
    State,
    Struct,
    action,
    require,
    step_property,
)
from tests.checker.schema import result_problems
from tests.command import highwater
from tests.slow import all_but

BOX = '''
from highwater.language import Bool, Budgets, Int, Parameter, Protocol, Struct
from highwater.language import action, implies, invariant, require, spend

BUDGETS = Budgets({"faults": "the box breaks"}, most=3)

@invariant("")
def the_number_is_small(m, s):
    """A number fits."""
    return s.number <= LIMIT

@invariant("")
def a_late_number_is_even(m, s):
    """Of numbers that are never there."""
    return implies(s.number > 30, s.number == 32)

class Box(Protocol):
    """A number in a box that can break."""

    name = "box"
    parameters = {"reset": Parameter(0, 0, 1, "whether it can be emptied"), **BUDGETS.parameters}
    invariants = INVARIANTS

    def define(self):
        return Struct("State", number=Int(0, 5), broken=Bool, budgets=BUDGETS.type(self.p))

    def initial(self):
        return [{"number": 0, "broken": False, "budgets": BUDGETS.granted(self.p)}]

    @action("")
    def count(self, s):
        require("it is not full", s.number < 3)
        s.next.number = s.number + 1

    @action("")
    def empty(self, s):
        require("it can be emptied", bool(self.p.reset))
        s.next.number = 0

    @action("")
    def fall(self, s):
        spend(s, "faults")
        s.next.broken = True

    @action("")
    def mend(self, s):
        require("it is broken", s.broken)
        s.next.broken = False
'''
GHOST = """
    @action("")
    def vanish(self, s):
        require("the number is large", s.number > 20)
        s.next.number = 0
"""
IDLE = """
    @action("")
    def wait(self, s):
        require("five are in it", s.number == 5)
        s.next.number = 0
"""
SIZE = '"size": Parameter(5, 1, 9, "how large it is"), '
SPILL = """
    @action("")
    def spill(self, s):
        require("it is large and can break", bool(self.p.size == 3 and self.p.faults))
        s.next.number = 0
"""

STACK = """
    @action("")
    def stack(self, s):
        require("it is large", self.p.size >= 5)
        s.next.number = 0
"""
SOUND, BOTH = "[the_number_is_small]", "[the_number_is_small, a_late_number_is_even]"


@pytest.fixture
def box(tmp_path: Path) -> Any:
    """Write a scenario of the box, with more actions and these invariants; returns the scenario's path."""

    def write(more: Any = "", expect: Any = "", *, invariants: Any = SOUND, limit: Any = 3) -> Any:
        text = BOX.replace("INVARIANTS", invariants).replace("LIMIT", str(limit)) + more
        (tmp_path / "box.py").write_text(text)
        path = tmp_path / "box.toml"
        path.write_text(f'protocol = "box.py"\n[expect]\n{expect}\n')
        return path

    return write


@pytest.mark.parametrize("engine", ["native", "interpreter"])
def test_an_impossible_action_causes_a_warning(box: Any, engine: str) -> None:
    path, said = box(GHOST), "vanish can never be enabled: false in every state: 'the number is large'"
    for quiet in ([], ["--quiet"]):
        ran = highwater("check", path, "--engine", engine, *quiet)
        assert ran.status == 0
        assert ran.err.splitlines() == [
            f'highwater: warning: {path}: {said} (if this is intended, add [expect] impossible = ["vanish"])'
        ]
    (result,) = highwater("check", path, "--engine", engine, "--json", "-").results
    assert result["warnings"] == [{"kind": "impossible", "name": "vanish", "text": said}]
    assert result_problems(result) == []
    assert package.check(path, engine=engine).warnings == (said,)


@pytest.mark.parametrize(
    ("invariants", "limit", "how"),
    [
        (SOUND, 5, "the_number_is_small is true in every state"),
        ("[a_late_number_is_even]", 3, "a_late_number_is_even is true in every state"),
    ],
)
def test_a_constant_property_causes_a_warning(box: Any, invariants: Any, limit: Any, how: Any) -> None:
    path = box(invariants=invariants, limit=limit)
    assert how in highwater("check", path, "--quiet").err
    name = how.split()[0]
    quiet = highwater("check", box("", f'constant = ["{name}"]', invariants=invariants, limit=limit))
    assert (quiet.status, quiet.err) == (0, "")


def test_similar_warnings_share_one_line(box: Any) -> None:
    path = box(invariants=BOTH, limit=5)
    (line,) = highwater("check", path, "--quiet").err.splitlines()
    assert line.startswith(
        f"highwater: warning: {path}: 2 properties: each is true in every state with these parameters"
    )
    assert line.endswith('[expect] constant = ["the_number_is_small", "a_late_number_is_even"])')
    names = 'constant = ["the_number_is_small", "a_late_number_is_even"]'
    quiet = highwater("check", box("", names, invariants=BOTH, limit=5))
    assert (quiet.status, quiet.err) == (0, "")


def test_actions_excluded_by_parameters_cause_no_warning(box: Any) -> None:
    ran = highwater("check", box())
    assert (ran.status, ran.err) == (0, "")
    assert "never taken: mend" in ran.out
    assert "impossible with these parameters: empty, fall" in ran.out
    granted = highwater("check", box(), "--set", "faults=1", "--set", "reset=1")
    assert (granted.status, granted.err) == (0, "")
    assert "never taken" not in granted.out


def test_actions_that_default_parameters_allow_cause_no_warning(box: Any) -> None:
    """The parameter needed is more than one step larger."""
    path = box(STACK)
    text = path.with_suffix(".py").read_text()
    path.with_suffix(".py").write_text(text.replace("parameters = {", "parameters = {" + SIZE))
    assert "warning" not in highwater("check", path, "--set", "size=3").err


def test_actions_that_one_fault_allows_cause_no_warning(box: Any) -> None:
    """The protocol refuses more faults, and the action needs a parameter that differs from its default."""
    path = box(SPILL)
    text = path.with_suffix(".py").read_text().replace("parameters = {", "parameters = {" + SIZE)
    refusal = (
        "        if self.p.faults > 1:\n            raise LanguageError('too many')\n        return Struct("
    )
    text = "from highwater.model.language.errors import LanguageError\n" + text.replace(
        "        return Struct(", refusal
    )
    path.with_suffix(".py").write_text(text)
    assert "warning" not in highwater("check", path, "--set", "size=3").err


def test_expected_impossible_actions_cause_no_warning(box: Any) -> None:
    """An expected action may also be never taken, as ``wait``."""
    ran = highwater("check", box(GHOST + IDLE, 'impossible = ["vanish", "wait"]'))
    assert (ran.status, ran.err) == (0, "")
    assert "never taken: mend, wait" in ran.out


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ('impossible = ["count"]', "count is taken, but expected to be impossible"),
        ('constant = ["the_number_is_small"]', "the_number_is_small is not constant, but expected to be"),
    ],
)
def test_an_expectation_is_a_promise(box: Any, expect: Any, said: Any) -> None:
    ran = highwater("check", box(expect=expect))
    assert ran.status == 1
    assert said in ran.out


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ('impossible = ["cuont"]', "impossible: unknown action 'cuont'; did you mean 'count'?"),
        ('constant = ["number"]', "constant: unknown property 'number'"),
    ],
)
def test_an_expectation_with_an_unknown_name_is_refused(box: Any, expect: Any, said: Any) -> None:
    ran = highwater("check", box(expect=expect))
    assert (ran.status, ran.out) == (2, "")
    assert f"box.toml:3: [expect] {said}" in ran.err


def test_the_gate_does_not_pass(box: Any) -> None:
    def broken(*arguments: str) -> tuple[str, ...]:
        path = box(*arguments)
        return run_entry(GateEntry.of_scenario(path.name, path.parent)).broken

    assert broken(GHOST) == ("vanish can never be enabled: false in every state: 'the number is large'",)
    assert broken(GHOST, 'impossible = ["vanish"]') == ()


def test_walks_and_proofs_repeat_the_warnings_of_tracing(box: Any) -> None:
    for command in (["simulate", "--walks", "3"], ["prove", "--depth", "2"]):
        ran = highwater(command[0], box(GHOST + IDLE), *command[1:])
        assert [line.split(": ")[3] for line in ran.err.splitlines() if "warning" in line] == [
            "vanish can never be enabled"
        ]


STANDARD = [n for n, (_, standard) in scenario_files.titles().items() if standard]
QUICK = STANDARD[::20]


@pytest.mark.parametrize(
    "name", all_but(QUICK, STANDARD, "traces every scenario; the fast test traces one in twenty")
)
def test_tracing_finds_no_unexpected_vacuity_in_standard_scenarios(name: str) -> None:
    request = asked(name)
    assert vacuous(request.model(), request) == ()


@step_property("test")
def nothing_falls(m: Any, before: Any, after: Any) -> Any:
    return after.moved >= 0


@step_property("test")
def what_rests_stays(m: Any, before: Any, after: Any) -> Any:
    return before.rests == after.rests


@step_property("test")
def nothing_happens(m: Any, before: Any, after: Any) -> Any:
    return (before.moved == after.moved) & (before.rests == after.rests)


@step_property("test")
def it_rises(m: Any, before: Any, after: Any) -> Any:
    return before.moved < after.moved


class Moving(Protocol):
    name = "moving"

    def define(self) -> Any:
        return Struct("State", moved=Int(0, 3), rests=Int(0, 3))

    @action()
    def move(self, s: State) -> None:
        require("below", s.moved < 3)
        s.next.moved = s.moved + 1


def test_constant_step_properties_are_found() -> None:
    properties = (nothing_falls, what_rests_stays, nothing_happens, it_rises)
    found = constant_properties(Model(Moving(), step_properties=properties))
    assert found == {
        "nothing_falls": "is true of every step",
        "what_rests_stays": "is about what no step writes",
        "nothing_happens": "is false of every step that changes something",
    }
