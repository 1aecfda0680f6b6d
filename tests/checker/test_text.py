"""Terminal text: values of a state, and lines folded at the width, never inside a word."""

from __future__ import annotations

from typing import Any

import click
import pytest

from highwater.checker.base import text
from highwater.checker.base import text as words
from highwater.checker.base.text import columns, folded
from highwater.checker.report import counterexample
from highwater.checker.report.counterexample import (
    BrokenRunError,
    Counterexample,
    follow,
    follow_all,
    read_by,
    tell,
)
from highwater.checker.scenarios.request import Overrides, Request, asked
from highwater.checker.scenarios.scenario_files import find
from highwater.checker.scenarios.search import DEADLOCK, ViolatingRun
from highwater.model.language import (
    Array,
    Bool,
    Enum,
    Index,
    Int,
    Model,
    Number,
    Option,
    Protocol,
    Seq,
    Set,
    State,
    Struct,
    action,
    eventually,
)
from highwater.model.language.interpreter import Interpreter
from highwater.traces.reports.text import fold
from tests.checker.conftest import Write

INNER = Struct("Inner", known=Option(Int(0, 3)), late=Bool, at=Int(0, 3))
NODE = Index("node", 2)
STATE = Struct("State", inner=INNER, rows=Array(NODE, INNER), count=Int(0, 3))
VALUE: dict[str, Any] = {"known": None, "late": False, "at": 0}


def test_brief_text_omits_none_and_false_but_not_zero() -> None:
    assert text.say(INNER, VALUE) == "(known none, late false, at 0)"
    assert text.say(INNER, VALUE, brief=True) == "(at 0)"
    assert text.say(INNER, {"known": 0, "late": True, "at": 1}, brief=True) == "(known 0, late true, at 1)"
    assert text.say(Option(INNER), VALUE, brief=True) == "(at 0)"
    assert text.say(Array(NODE, INNER), [VALUE, VALUE], brief=True) == "[(at 0), (at 0)]"


def test_arrays_over_an_enumeration_print_member_names() -> None:
    by_kind = Array(Enum("kind", ("old", "new")), INNER)
    assert (
        text.say(by_kind, {"old": VALUE, "new": {**VALUE, "at": 2}}, brief=True) == "[old (at 0), new (at 2)]"
    )


def test_a_state_as_far_as_it_is_read() -> None:
    state = {"inner": VALUE, "rows": [VALUE, {**VALUE, "at": 2}], "count": 1}
    whole = list(text.lines(STATE, state))
    assert [path for path, _ in whole] == ["inner", "rows[0]", "rows[1]", "count"]
    assert list(text.lines(STATE, state, ["inner.at", "rows[1].late", "rows[1].at"])) == [
        ("inner", "at 0"),
        ("rows[1]", "late false, at 2"),
    ]
    assert list(text.lines(STATE, state, [])) == []


class Counts(Protocol):
    def define(self) -> Struct:
        self.node = NODE
        return Struct("State", counts=Array(NODE, Int(0, 2, bound="n")), other=Bool)

    @action("A", c="node")
    def count(self, s: State, c: Number) -> None:
        s.next.counts[c] = s.counts[c] + 1


@eventually("E", c="node")
def is_counted(m: Counts, s: State, c: Number) -> Any:
    return s.counts[c] > 0


def test_a_parametrized_property_prints_the_fields_of_its_parameter() -> None:
    model = Model(Counts(), (), (is_counted,))
    for node in (0, 1):
        example = Counterexample("is_counted", "E", "", (), parameters={"c": node})
        assert read_by(model, example) == [f"counts[{node}]"]
    assert read_by(model, Counterexample("unknown", "", "", ())) is None


ROWS = [
    ("elr_only_under_min_isr", "966.6", "There is an ELR only while the ISR is under min ISR."),
    ("x", "", ""),
]


def test_without_a_width_a_text_is_one_line() -> None:
    assert fold("word " * 60 + "end", "  ", None) == ["  " + "word " * 60 + "end"]


def test_a_text_is_folded_between_words() -> None:
    found = fold("a_rather_long_name_of_a_property follows leader-epochs", "- ", 24)
    assert found == ["- a_rather_long_name_of_a_property", "- follows leader-epochs"]


def test_the_last_column_is_folded_in_its_place() -> None:
    assert list(columns(ROWS, " ", 64)) == [
        " elr_only_under_min_isr  966.6  There is an ELR only while the",
        "                                ISR is under min ISR.",
        " x",
    ]
    assert next(columns(ROWS, "", None)).endswith("under min ISR.")


def test_a_text_without_room_is_printed_below_its_label() -> None:
    assert list(columns(ROWS, "", 44)) == [
        "elr_only_under_min_isr  966.6",
        "    There is an ELR only while the ISR is",
        "    under min ISR.",
        "x",
    ]


def test_reports_are_folded_at_columns_each_line_with_its_indent(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["  a line that is longer than the screen", "", "short"]
    monkeypatch.delenv("COLUMNS", raising=False)
    assert list(folded(lines)) == lines
    monkeypatch.setenv("COLUMNS", "24")
    assert list(folded(lines)) == ["  a line that is longer", "    than the screen", "", "short"]


# --- counterexamples ----------------------------------------------------------------------------------


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
