"""Reachability goals: how a scenario expects them, how they are reported, and when they fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.checker.engines import by_name
from highwater.checker.engines.solver.induction import with_helpers
from highwater.checker.report.vacuity import constant_properties
from highwater.checker.runner import explore
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import Int, LanguageError, Model, Protocol, Struct, invariant, reachable
from highwater.model.language.interpreter import Interpreter
from tests.checker.schema import result_problems
from tests.command import highwater

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
BOTH = 'reachable = ["the_lock_changes_hands", "the_lock_is_held"]\n'
ALONE = f"properties = []\n[expect]\n{BOTH}"


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
    path = lock(f"[expect]\n{BOTH}")
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
    path = lock(f"[expect]\n{BOTH}")
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
    request = Request.of(scenario_files.find(str(lock(f"[expect]\n{BOTH}"))), Overrides())
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


@reachable("L1")
def it_is_three(m: Protocol, s: Struct) -> object:
    return True


@invariant("L1")
def it_is_small(m: Protocol, s: Struct) -> object:
    return True


@pytest.mark.parametrize(
    ("attributes", "wrong"),
    [
        ({"invariants": (it_is_three,)}, "it_is_three of Counter: `reachable` lists what @reachable marks"),
        ({"reachable": (it_is_small,)}, "it_is_small of Counter: `reachable` lists what @reachable marks"),
        ({"own": it_is_three}, "own is not among the reachable goals"),
    ],
)
def test_a_class_lists_goals_in_their_place(attributes: dict[str, object], wrong: str) -> None:
    with pytest.raises(LanguageError, match=wrong):
        type("Counter", (Protocol,), attributes)


def test_a_goal_is_a_function_of_one_state_or_two() -> None:
    def none_at_all(m: object) -> object:
        return True

    with pytest.raises(LanguageError, match="none_at_all is a function of"):
        reachable("L1")(none_at_all)


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
