"""Text of the terminal: values of a state, lines folded at the width, and the verdict table."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import click
import pytest

from highwater.checker import runner
from highwater.checker.base import text
from highwater.checker.base import text as words
from highwater.checker.base.problems import Status, worst
from highwater.checker.base.text import columns, folded
from highwater.checker.report import counterexample, summary
from highwater.checker.report.counterexample import (
    BrokenRunError,
    Counterexample,
    Step,
    follow,
    follow_all,
    read_by,
    tell,
)
from highwater.checker.report.results import Result
from highwater.checker.report.summary import table, total_line
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request, asked
from highwater.checker.scenarios.scenario_files import find
from highwater.checker.scenarios.search import DEADLOCK, SearchOptions, SearchResult, ViolatingRun
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


# --- the verdict table --------------------------------------------------------------------------------


STATES = 39_619


def outcome(
    name: str,
    violated: Any = (),
    *,
    states: int = STATES,
    depth: int = 22,
    seconds: float = 0.5,
    overrides: Any = None,
    stopped_by: Any = None,
    first: bool = False,
) -> Any:
    request = Request.of(scenario_files.find(name), overrides or Overrides())
    steps = (Step("initial", {}, "initial state", {}, {}),) * 12
    result = SearchResult(stopped_by=stopped_by, distinct_states=states, depth=depth, seconds=seconds)
    examples = tuple(Counterexample(prop, "", "", steps) for prop in violated)
    return Result(request, "native", result, examples, stop_at_first=first)


def to_goals(request: Request) -> tuple[Counterexample, ...]:
    """A run to each goal that the scenario expects."""
    steps = (Step("initial", {}, "initial state", {}, {}),) * 12
    return tuple(Counterexample(goal.name, "", "", steps, goal=True) for goal in request.goals)


def kept(name: str) -> Any:
    """A result of a scenario that ends as expected."""
    expectation = scenario_files.find(name).expectation
    counts: dict[str, Any] = {
        "states": expectation.distinct_states or STATES,
        "depth": expectation.depth or 22,
    }
    found = outcome(name, sorted(expectation.violated), **counts)
    return replace(found, constant=tuple(expectation.constant), goal_runs=to_goals(found.request))


def lines(outcomes: Any, width: Any = summary.WIDTH) -> Any:
    return [click.unstyle(line) for line in table(outcomes, width)]


@pytest.fixture(scope="module")
def everything() -> Any:
    return [kept(name) for name in scenario_files.titles()]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_every_scenario_has_one_whole_line(everything: Any, width: Any) -> None:
    shown = lines(everything, width)
    assert max(map(len, shown)) <= width
    names = [o.request.scenario.name for o in everything]
    groups = {name.rpartition("/")[0] for name in names}
    assert sorted(line.split()[0] for line in shown) == sorted(
        [*groups, *(name.rpartition("/")[2] for name in names)]
    )
    properties = {e.name for o in everything for e in o.runs}
    words = set(re.findall(r"\w+_\w+", "\n".join(shown))) - {"properties"}
    assert words <= properties, "a name was broken"


def test_of_a_long_path_the_end_is_given() -> None:
    assert summary.short_name("docs/examples/register.toml") == "docs/examples/register.toml"
    long = f"/home/somebody/{'deep/' * 9}protocols/mine/first.toml"
    assert summary.short_name(long) == "…/deep/deep/protocols/mine/first.toml"
    assert summary.short_name(f"/{'x' * 60}.toml") == f"…/{'x' * 60}.toml"


def test_the_last_line() -> None:
    good = [kept("truncation/kip-101"), kept("truncation/kip-320")]
    wrong = outcome("truncation/kip-320", ["weak_isr"])
    other = outcome("truncation/kip-320", ["weak_isr"], overrides=Overrides(rules={"fenced_fetch": False}))
    many = outcome("truncation/kip-320", states=3_000_000)
    unended = outcome("truncation/kip-279", [], stopped_by="states")

    def said(outcomes: Any) -> Any:
        return click.unstyle(total_line(outcomes, 41.04))

    assert said(good) == "2 scenarios as expected: 99,407 states, 41.0 s"
    assert said([wrong]) == "1 scenario not as expected: 39,619 states (79,238/s), 41.0 s"
    assert said([*good, wrong, many]).startswith(
        "4 scenarios: 2 as expected, 2 not as expected: 3.1 million states"
    )
    assert said([other]).startswith("1 scenario violated (parameters overridden: expectations not checked): ")
    assert said([unended]).startswith("1 scenario inconclusive: ")


# --- verdict, expectation and exit status of a result, for each way in which a search can end ---------


def ended(stopped_by: Any, violated: Any = (), name: str = "truncation/kip-279", **more: Any) -> Any:
    return outcome(name, violated, stopped_by=stopped_by, **{"states": 60_106, **more})


@pytest.mark.parametrize(
    ("found", "verdict", "status", "expected"),
    [
        (ended(None, ["strong_isr"]), "violated", 0, True),
        (ended(None), "holds", 1, False),
        (ended(None, ["strong_isr", "weak_isr"]), "violated", 1, False),
        (ended(None, ["strong_isr"], depth=21), "violated", 1, False),
        (ended(None, ["strong_isr"], states=60_105), "violated", 1, False),
        (ended("violation", ["weak_isr", "strong_isr"], depth=9), "violated", 1, False),
        (ended("violation", ["strong_isr"], first=True, depth=12), "violated", 0, True),
        (ended("violation", ["weak_isr"], first=True, depth=12), "violated", 1, False),
        (ended("states"), "inconclusive", 3, None),
        (ended("seconds"), "inconclusive", 3, None),
        (ended("memory"), "inconclusive", 3, None),
        (ended("states", ["strong_isr"]), "violated", 3, None),
        (ended("states", ["weak_isr"]), "violated", 1, False),
        (ended("interrupted"), "inconclusive", 130, None),
        (ended("interrupted", ["weak_isr"]), "violated", 130, False),
        (ended(None, overrides=Overrides(parameters={"replicas": 2})), "holds", 0, None),
        (
            ended(None, ["strong_isr"], overrides=Overrides(rules={"matching_tail": True})),
            "violated",
            1,
            None,
        ),
        (ended(None, ["strong_isr"], overrides=Overrides(symmetry=True), depth=1), "violated", 0, True),
        (
            ended("violation", ["weak_isr", "strong_isr"], "truncation/truncate-to-hwm", depth=9),
            "violated",
            0,
            True,
        ),
        (ended("violation", ["weak_isr"], "truncation/truncate-to-hwm", depth=9), "violated", 1, False),
    ],
)
def test_how_a_search_ends(found: Any, verdict: str, status: Any, expected: Any) -> None:
    assert (found.verdict, found.status, found.expected) == (verdict, status, expected)


def test_the_worst_status() -> None:
    ok, bad, open_, stopped = Status.OK, Status.VIOLATED, Status.INCONCLUSIVE, Status.INTERRUPTED
    assert worst([]) is ok
    assert worst([ok, open_]) is open_
    assert worst([open_, bad, ok]) is bad
    assert worst([bad, stopped, open_]) is stopped
    assert worst(Status) is Status.INTERNAL


@pytest.mark.parametrize("where", ["tracing", "searching"])
def test_an_interrupt_outside_the_search_is_an_outcome_too(
    monkeypatch: pytest.MonkeyPatch, where: Any
) -> None:
    request = asked("truncation/kip-320")

    def interrupt(*arguments: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    if where == "tracing":
        monkeypatch.setattr(Request, "model", interrupt)
    found = runner.explore(request, "native", interrupt, SearchOptions())
    assert (found.verdict, found.status) == ("inconclusive", Status.INTERRUPTED)
    assert found.to_json()["distinct_states"] == 0
