"""Counterexamples: the interpreter replays a run before it is reported, and how it is printed."""

from __future__ import annotations

from typing import Any

import click
import pytest

from highwater.checker.base import text as words
from highwater.checker.report import counterexample
from highwater.checker.report.counterexample import BrokenRunError, follow, follow_all, tell
from highwater.checker.scenarios.request import Overrides, Request, asked
from highwater.checker.scenarios.scenario_files import find
from highwater.checker.scenarios.search import DEADLOCK, ViolatingRun
from highwater.model.language import Array, Bool, Index, Int, Option, Seq, Set, Struct
from highwater.model.language.interpreter import Interpreter
from tests.checker.conftest import Write


@pytest.fixture
def model(counter: Write) -> Any:
    overrides = Overrides.parse(["top=9"], ["wraps=on"])
    return Request.of(find(str(counter())), overrides).model()


@pytest.fixture
def number(model: Any) -> Any:
    return {str(instance): i for i, instance in enumerate(model.instances)}


def followed(model: Any, *path: Any, name: str = "below_seven", initial: Any = (0,)) -> Any:
    return follow(model, Interpreter(model), ViolatingRun(name, initial, tuple(path)))


def test_the_run_is_taken_again(model: Any, number: Any) -> None:
    one, rest = number["increase()"], number["rest()"]
    example = followed(model, rest, *[one] * 7)
    assert example.depth == 9
    assert [step.state["count"] for step in example.steps] == [0, 0, 1, 2, 3, 4, 5, 6, 7]
    assert (example.name, example.source) == ("below_seven", "C1")
    assert example.meaning == "The count stays below seven."


@pytest.mark.parametrize(
    ("action", "initial", "name", "said"),
    [
        ("increase()", 0, "below_seven", "does not violate below_seven"),
        ("wrap()", 0, "below_seven", "takes wrap"),
        ("increase()", 6, "below_seven", "no initial state"),
        ("increase()", 0, DEADLOCK, "no deadlock"),
    ],
)
def test_a_run_that_an_engine_got_wrong_is_refused(
    model: Any, number: Any, action: str, initial: int, name: str, said: str
) -> None:
    with pytest.raises(BrokenRunError, match=said):
        followed(model, number[action], name=name, initial=(initial,))


def test_a_run_with_a_pruned_step_is_refused() -> None:
    cut = Request.of(find("docs/examples/register.toml"), Overrides.parse(["writes=1"])).model()
    write = next(i for i, instance in enumerate(cut.instances) if instance.action.name == "write")
    run = ViolatingRun(cut.properties[0].name, cut.initial[0], (write, write))
    with pytest.raises(BrokenRunError, match="takes write"):
        follow(cut, Interpreter(cut), run)


def test_the_text(model: Any, number: Any) -> None:
    one, rest = number["increase()"], number["rest()"]
    lines = [click.unstyle(x) for x in tell(model, followed(model, rest, *[one] * 7))]
    assert lines[0] == "below_seven (C1) is violated at depth 9, after 8 steps."
    assert lines[1] == "  It says: The count stays below seven."
    assert lines[3:6] == [
        "   1  initial state",
        "   2  rest()         changes nothing",
        "   3  count one      count 0 → 1",
    ]
    assert lines[-2:] == ["The state that violates below_seven:", "  count  7"]


def test_changes_are_folded_at_the_terminal_s_width() -> None:
    model = asked("truncation/kip-320").model()
    elect = next(i for i, x in enumerate(model.instances) if str(x) == "controller_elect_leader(replica=0)")
    interpreter = Interpreter(model)
    after = interpreter.step(model.initial[0], elect).state
    assert after is not None
    step = counterexample.Step("a", {}, "a step", interpreter.changes(model.initial[0], after), {})
    start = counterexample.Step("initial", {}, "initial state", {}, {})
    state = counterexample.Step("b", {}, "b", {}, model.decode(after))
    lines = tell(model, counterexample.Counterexample("x", "", "y", (start, step, state)), width=60)
    plain = [click.unstyle(line) for line in lines]
    assert max(map(len, plain)) <= 60
    folded = " ".join(line.strip() for line in plain)
    assert (
        "quorum: leader_epoch none → 0, leader none → 0; requests[0]: leader none → 0, isr {} → {0,1,2}"
        in folded
    )


def test_the_shortest_comes_first(model: Any, number: Any) -> None:
    one, rest = number["increase()"], number["rest()"]
    violations = [
        ViolatingRun("below_seven", (0,), (rest, *[one] * 7)),
        ViolatingRun("below_seven", (0,), (one,) * 7),
    ]
    assert [e.depth for e in follow_all(model, violations)] == [8, 9]
    assert follow_all(model, []) == ()


def test_words() -> None:
    replica = Index("replica", 3)
    record = Struct("Record", id=Int(0, 9), live=Bool)
    assert words.say(Option(record), {"id": 1, "live": True}) == "(id 1, live true)"
    assert words.say(Seq(record, 2), [{"id": 1, "live": False}]) == "[(id 1, live false)]"
    assert words.say(Array(replica, Set(replica)), [[0], [], [1]]) == "[{0}, {}, {1}]"
    state = Struct("State", sets=Array(replica, Set(replica)), log=Option(Seq(record, 2)), last=record)
    assert words.at(state, "sets[1]") == Set(replica)
    assert words.at(state, "log[0].live") == Bool
