"""Warnings about actions never enabled and constant properties; reachability goals: expected, reported, failed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import highwater as package
from highwater.checker.comparing.gate.entries import GateEntry
from highwater.checker.comparing.gate.entries import run as run_entry
from highwater.checker.engines import by_name
from highwater.checker.engines.solver.induction import with_helpers
from highwater.checker.report.vacuity import constant_properties, vacuous
from highwater.checker.runner import explore
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request, asked
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import (
    Int,
    Model,
    Protocol,
    State,
    Struct,
    action,
    reachable,
    require,
    step_property,
)
from highwater.model.language.interpreter import Interpreter
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


# --- reachability goals -------------------------------------------------------------------------------


LOCK = '''
from highwater.language import *

@invariant("L1")
def a_holder_does_not_wait(m, s):
    """The client that has the lock does not wait for it."""
    return all_of(~(s.holder.is_(c) & s.waiting.has(c)) for c in m.client)

@reachable("L2")
def the_lock_changes_hands(m, before, after):
    """One client hands the lock to another one."""
    return before.holder.is_some & after.holder.is_some & (before.holder != after.holder)

@reachable("L3")
def the_lock_is_held(m, s):
    """A client has the lock."""
    return s.holder.is_some

@reachable("L3")
def nobody_can_have_it(m, s):
    """Both clients have the lock."""
    return as_bool(False)

@reachable("L4", rule="polite")
def a_client_is_polite(m, s):
    """A client waits while the other one has the lock."""
    return s.holder.is_some & ~s.waiting.is_empty

class Lock(Protocol):
    """A lock that its holder hands to a waiting client."""

    name = "lock"
    rules = {"polite": Rule("L4", "A client waits."), "hands": Rule("L5", "The lock changes hands.")}
    invariants = (a_holder_does_not_wait,)
    reachable = (the_lock_changes_hands, the_lock_is_held, nobody_can_have_it, a_client_is_polite)

    def define(self):
        self.client = Index("client", 2)
        return Struct("State", holder=Option(self.client), waiting=Set(self.client))

    @action(says="client {c} asks for the lock", rule="polite", c="client")
    def ask(self, s, c):
        require("it does not have the lock", ~s.holder.is_(c))
        s.next.waiting = s.waiting.with_(c)

    @action(says="client {c} takes the lock", c="client")
    def take(self, s, c):
        require("it waits", s.waiting.has(c))
        require("the lock is free", s.holder.is_none | self.on("hands"))
        s.next.holder = c
        s.next.waiting = s.waiting.without(c)
'''
BOTH_GOALS = 'reachable = ["the_lock_changes_hands", "the_lock_is_held"]\n'
ALONE = f"properties = []\n[expect]\n{BOTH_GOALS}"


@pytest.fixture
def lock(tmp_path: Path) -> Callable[[str], Path]:
    """Write a scenario of the lock, with its protocol next to it; returns the scenario's path."""

    def write(text: str) -> Path:
        (tmp_path / "lock.py").write_text(LOCK)
        path = tmp_path / "lock.toml"
        path.write_text(f'protocol = "lock.py"\n{text}')
        return path

    return write


@pytest.mark.parametrize("engine", ["native", "interpreter"])
def test_a_search_for_goals_alone_ends_when_all_are_reached(lock: Callable[[str], Path], engine: str) -> None:
    path = lock(ALONE)
    run = highwater("check", path, "--engine", engine, "--json", "-")
    (result,) = run.results
    assert run.status == 0
    assert result["reachable"] == {"the_lock_changes_hands": 5, "the_lock_is_held": 3}
    assert (result["verdict"], result["violations"], result["properties"]) == ("reached", [], [])
    assert (result["promised"], result["premises"], result["warnings"]) == (True, {}, [])
    assert result_problems(*run.results) == []


def test_properties_are_checked_in_all_states_despite_goals(lock: Callable[[str], Path]) -> None:
    (alone,) = highwater(
        "check", lock(ALONE.replace('"the_lock_changes_hands", ', "")), "--json", "-"
    ).results
    path = lock(f"[expect]\n{BOTH_GOALS}")
    run = highwater("check", path, "--json", "-")
    (result,) = run.results
    assert (run.status, result["verdict"], result["complete"]) == (0, "holds", True)
    assert result["properties"] == ["a_holder_does_not_wait"]
    assert alone["distinct_states"] < result["distinct_states"]
    assert "holds; 2 goals reached" in highwater("check", path, "--quiet").out


def test_a_goal_that_is_not_reached_fails(lock: Callable[[str], Path]) -> None:
    path = lock(f"{ALONE}[rules]\nhands = false\n")
    run = highwater("check", path)
    assert run.status == 1
    assert "! " in run.out
    assert "the_lock_changes_hands is not reached, but expected to be" in run.out
    assert "not reached (not expected): the_lock_changes_hands" in run.out
    assert "reached: the_lock_is_held at depth 3" in run.out
    (result,) = highwater("check", path, "--json", "-").results
    assert result["verdict"] == "not reached"
    assert result["reachable"] == {"the_lock_changes_hands": None, "the_lock_is_held": 3}


def test_a_limit_that_comes_first_leaves_it_open(lock: Callable[[str], Path]) -> None:
    run = highwater("check", lock(ALONE), "--limit-states", 2, "--engine", "interpreter")
    assert run.status == 3
    assert "not reached before the search stopped: the_lock_changes_hands, the_lock_is_held" in run.out


def test_an_option_shows_the_run_to_a_goal(lock: Callable[[str], Path]) -> None:
    path = lock(f"[expect]\n{BOTH_GOALS}")
    asked = ["check", path, "--property", "the_lock_changes_hands"]
    page = path.with_name("page.html")
    run = highwater(*asked, "--html", page)
    assert run.status == 0
    assert "the_lock_changes_hands (L2) is reached by step 5" in run.out
    assert "The step that reaches the_lock_changes_hands" in run.out
    assert "violat" not in run.out
    assert "the_lock_changes_hands is reached" in page.read_text()
    assert highwater(*asked, "--rule", "hands=off").status == 1
    assert highwater("check", path, "--property", "nobody_can_have_it").status == 1
    (result,) = highwater("check", path, "--property", "reachable", "--json", "-").results
    assert result["reachable"]["nobody_can_have_it"] is None
    assert result["reachable"]["a_client_is_polite"] == 4


def test_other_rules_make_the_expectation_void(lock: Callable[[str], Path]) -> None:
    path = lock(
        f"properties = []\n[expect]\nreachable = {['the_lock_changes_hands', 'a_client_is_polite']}\n"
    )
    (result,) = highwater("check", path, "--rule", "hands=off", "--json", "-").results
    assert (result["verdict"], result["promised"], result["broken"]) == ("not reached", None, [])
    (result,) = highwater("check", path, "--rule", "polite=off", "--json", "-").results
    assert result["reachable"] == {"the_lock_changes_hands": None}, (
        "the other one does not exist without its rule"
    )


HELD = '"the_lock_is_held"'
POLITE = '[rules]\npolite = false\n[expect]\nreachable = ["a_client_is_polite"]\n'


@pytest.mark.parametrize(
    ("text", "line", "wrong"),
    [
        (
            ALONE.replace("is_held", "is_hold"),
            4,
            "[expect] reachable: unknown reachability goal of lock 'the_lock_is_h",
        ),
        (
            f"properties = [{HELD}]\n",
            2,
            "properties: the_lock_is_held is a reachability goal: list it as [expect]",
        ),
        (
            POLITE,
            5,
            "[expect] reachable: the goal a_client_is_polite cannot be reached while the rule polite is off",
        ),
        (f"[expect]\nreachable = {HELD}\n", 3, "expect.reachable: expected `array`, got `str`"),
        (f"[expect]\nviolated = [{HELD}]\n", 3, "[expect] violated: unknown property 'the_lock_is_held'"),
    ],
)
def test_an_invalid_goal_gives_one_line(
    lock: Callable[[str], Path], text: str, line: int, wrong: str
) -> None:
    path = lock(text)
    run = highwater("check", path)
    assert run.status == 2
    assert run.err.startswith(f"highwater: {path}:{line}: {wrong}")


def test_the_first_violation_is_no_goal(lock: Callable[[str], Path]) -> None:
    request = Request.of(scenario_files.find(str(lock(f"[expect]\n{BOTH_GOALS}"))), Overrides())
    assert request.for_first().goals == request.for_walks().goals == ()
    outcome = explore(request, "native", by_name.search("native"), SearchOptions(stop_at_first=True))
    assert (outcome.verdict, outcome.reachable, outcome.broken) == ("holds", {}, ())
    alone = Request.of(scenario_files.find(str(lock(ALONE))), Overrides())
    assert alone.for_first() is alone
    assert with_helpers(alone).goals == (), "an induction proves no goal"


def test_z3_reaches_goals(lock: Callable[[str], Path]) -> None:
    run = highwater("prove", lock(ALONE), "--depth", 4, "--json", "-")
    (result,) = run.results
    assert result["reachable"] == {"the_lock_changes_hands": None, "the_lock_is_held": 3}
    assert [d["reached"] for d in result["depths"]] == [[], [], ["the_lock_is_held"], []]
    assert [d["holding"] for d in result["depths"]] == [0, 0, 0, 0]
    assert result["verdict"] == "inconclusive"
    assert result_problems(*run.results, form="proof") == []
    said = highwater("prove", lock(ALONE), "--depth", 5)
    assert (said.status, "the_lock_changes_hands is reached at depth 5" in said.out) == (0, True)


def test_a_goal_is_not_constant(lock: Callable[[str], Path]) -> None:
    path = lock('properties = []\n[expect]\nreachable = ["nobody_can_have_it"]\n')
    assert constant_properties(Request.of(scenario_files.find(str(path)), Overrides()).model()) == {}


class Quotient(Protocol):
    name = "quotient"

    def define(self) -> Struct:
        return Struct("State", x=Int(0, 3))


def test_a_condition_without_a_meaning_is_not_reached() -> None:
    @reachable("Q1")
    def divides(m: Quotient, s: object) -> object:
        return 6 // s.x != 3  # type: ignore[attr-defined]

    model = Model(Quotient(), [divides])  # type: ignore[list-item]
    (prop,) = model.properties
    assert Interpreter(model).violated((0,)) == []
    assert Interpreter(model).violated((1,)) == [prop.name]
