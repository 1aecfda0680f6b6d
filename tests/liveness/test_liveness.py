"""Planted livelocks are found with a real loop; how bounds and limits affect the verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.base.problems import Status
from highwater.checker.engines import by_name as engines
from highwater.checker.engines.liveness import search_with_liveness, violating_run
from highwater.checker.engines.native import search
from highwater.checker.engines.native import state_graph as explored
from highwater.checker.engines.native.state_graph import explore
from highwater.checker.report import counterexample
from highwater.checker.report.counterexample import BrokenRunError
from highwater.checker.runner import one as exploration
from highwater.checker.scenarios.request import asked
from highwater.checker.scenarios.search import SearchOptions, SearchResult, ViolatingRun
from highwater.model.language import LanguageError, Model, Protocol, State, invariant, leads_to, require, weak
from highwater.model.language.liveness import Liveness, either, strong
from tests.command import highwater
from tests.liveness import protocols
from tests.liveness.protocols import Cut, ErrorLoop, Flapping
from tests.native.on_disk import PARTS, small_batches


def found(model: Model, name: str) -> Any:
    prop = next(p for p in model.liveness if p.name == name)
    explored = engines.explore("interpreter")(model, SearchOptions(), None)
    return violating_run(explored, prop).violation


def told(model: Model, violation: ViolatingRun | None) -> str:
    assert violation is not None
    (example,) = counterexample.follow_all(model, [violation])
    return "\n".join(counterexample.plain(model, example))


@pytest.fixture(scope="module")
def flapping() -> Model:
    return Model(Flapping(), (), Flapping.liveness)


def test_weak_fairness_is_not_enough_for_a_link_that_flaps(flapping: Model) -> None:
    text = told(flapping, found(flapping, "delivered_weakly"))
    assert "cannot be taken" not in text
    assert found(flapping, "delivered_strongly") is None


def test_each_assumption_is_needed(flapping: Model) -> None:
    text = told(flapping, found(flapping, "delivered_if_the_link_stays"))
    assert "after 1 step: it ends there" in text
    assert "due since state 2" in text


def test_a_goal_without_fair_actions_is_missed_in_the_initial_state(flapping: Model) -> None:
    violation = found(flapping, "sent")
    assert violation is not None
    assert violation.loop_start == len(violation.path)


def test_a_fetch_and_error_loop_is_found() -> None:
    model = Model(ErrorLoop(), (), ErrorLoop.liveness)
    text = told(model, found(model, "progress"))
    assert "violated after 0 steps by a loop of 3 steps" in text
    assert "and then forever:" in text
    assert "and so on from state 1" in text
    assert found(Model(ErrorLoop({"planted": 0}), (), ErrorLoop.liveness), "progress") is None


def test_a_fair_step_that_is_cut_can_be_taken() -> None:
    model = Model(Cut(), (), Cut.liveness)
    assert found(model, "high") is None  # each loop omits a fair step that could go on beyond the bound
    unfair = Model(Cut(), (), [replace(protocols.high, fair=())])
    assert found(unfair, "high") is not None


def test_a_step_counts_only_where_its_condition_holds(flapping: Model) -> None:
    def nothing_is_sent(m: Protocol, s: State) -> Any:
        return ~s.sent

    def it_is_sent(m: Protocol, s: State) -> Any:
        return s.sent

    for condition, violated in ((nothing_is_sent, True), (it_is_sent, False)):
        fair = weak("link_up", when=condition) + strong("deliver")
        model = Model(Flapping(), (), [replace(protocols.delivered_strongly, fair=fair)])
        violation = found(model, "delivered_strongly")
        assert (violation is not None) == violated
        if violated:
            (example,) = counterexample.follow_all(model, [violation])
            assert example.loop is not None
            assert "weak link_up() where nothing is sent: cannot be taken" in example.loop.fairness


def test_unexpanded_states_are_ignored(flapping: Model) -> None:
    prop = next(p for p in flapping.liveness if p.name == "delivered_if_the_link_stays")
    explored = engines.explore("interpreter")(flapping, SearchOptions(), None)
    for expanded, violated in ((1, False), (len(explored.states), True)):
        early = replace(explored, expanded=expanded, stopped_by="states")
        assert (violating_run(early, prop).violation is not None) == violated


@pytest.mark.parametrize(
    ("path", "loop_start", "why"),
    [
        (("send",), 0, "does not close"),
        (("send", "link_up", "deliver"), 3, "the goal is reached"),
        (("link_up", "link_down"), 0, "the goal is reached, or never due"),
        (("send", "link_up"), 2, "not fair: strong deliver"),
        (("send",), 1, "not fair: weak link_up"),
    ],
)
def test_a_run_that_violates_nothing_is_refused(
    flapping: Model, path: Any, loop_start: int, why: str
) -> None:
    numbers = {i.action.name: n for n, i in enumerate(flapping.instances)}
    run = ViolatingRun(
        "delivered_strongly", flapping.initial[0], tuple(numbers[a] for a in path), loop_start=loop_start
    )
    with pytest.raises(BrokenRunError, match=why):
        counterexample.follow_all(flapping, [run])


def requires_something(m: Protocol, s: State) -> Any:
    require("the link is up", s.up)
    return s.up


def declared(**fields: Any) -> Liveness:
    return replace(protocols.delivered_strongly, **fields)


@pytest.mark.parametrize(
    ("liveness", "message"),
    [
        (declared(fair=weak("delivr")), "'delivr' fair, which is no action of flapping"),
        (declared(fair=weak("deliver", by=["broker"])), "deliver have no parameter 'broker'"),
        (declared(fair=strong("deliver", again=False)), "no parameter 'again'"),
        (declared(function=lambda m, s: s.sent), "returns (premise, goal)"),
        (declared(fair=weak("deliver", when=requires_something)), "writes or requires something"),
    ],
)
def test_an_invalid_declaration_is_an_error(liveness: Any, message: str) -> None:
    with pytest.raises(LanguageError) as wrong:
        Model(Flapping(), (), [liveness])
    assert message in str(wrong.value)


def test_actions_that_are_fair_as_one_are_one_group() -> None:
    @leads_to("T", fair=weak(either("link_up", "deliver")) + weak("link_up", "deliver"))
    def some(m: Any, s: State) -> Any:
        return s.sent, s.arrived

    (prop,) = Model(Flapping(), (), [some]).liveness
    assert [g.label for g in prop.groups] == [
        "weak link_up or deliver()",
        "weak link_up()",
        "weak deliver()",
    ]
    assert len(prop.groups[0].instances) == 2


# --- the command ----------------------------------------------------------------------------------------


@pytest.fixture
def scenario(tmp_path: Path) -> Any:
    def write(*lines: str) -> str:
        (tmp_path / "flapping.py").write_text(
            "from tests.liveness.protocols import Flapping\nPROTOCOL = Flapping\n"
        )
        file = tmp_path / "live.toml"
        file.write_text("\n".join(['protocol = "flapping.py"', *lines]))
        return str(file)

    return write


LIVE = 'properties = ["delivered_weakly", "delivered_strongly"]'


def test_a_promise_of_a_violation_is_kept(scenario: Any) -> None:
    file = scenario(LIVE, "[expect]", 'violated = ["delivered_weakly"]')
    run = highwater("check", file, "--engine", "interpreter", "--json", "-")
    assert run.status == 0
    (result,) = run.results
    (violation,) = result["violations"]
    assert result["properties"] == ["delivered_weakly", "delivered_strongly"]
    assert violation["kind"] == "leads-to"
    assert violation["loop_start"] < len(violation["trace"])
    assert result["premises"]["delivered_strongly"] == 2


def test_without_being_named_every_liveness_property_is_checked(scenario: Any) -> None:
    (result,) = highwater("check", scenario(), "--engine", "interpreter", "--json", "-").results
    assert {"delivered_weakly", "delivered_strongly", "sent"} <= set(result["properties"])


def test_a_limit_makes_it_inconclusive(scenario: Any) -> None:
    run = highwater(
        "check",
        scenario('properties = ["delivered_strongly"]'),
        "--engine",
        "interpreter",
        "--limit-states",
        1,
    )
    assert run.status == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "--engine", "spark"), "liveness needs the graph on one machine"),
        (("check", "--symmetry"), "cannot be checked with symmetry"),
        (("simulate",), "a random walk has no end"),
        (("prove",), "Z3 checks states and steps only"),
    ],
)
def test_liveness_is_refused_where_it_cannot_be_checked(scenario: Any, arguments: Any, message: str) -> None:
    command, *options = arguments
    run = highwater(command, scenario(LIVE), *options)
    assert run.status == 2
    assert message in run.err


# --- one search decides invariants and liveness, with the same results as two -------------------------


SOME = ("quorum/liveness-before-kip-1166", "zookeeper/defect-unseen-bounce", "replication/liveness-rejected")
"""The last one has an invariant too."""


def apart(model: Model, options: SearchOptions, progress: Any = None) -> SearchResult:
    """A search without a state graph, whatever the options say."""
    return search(
        model, SearchOptions(workers=options.workers, stop_at_first=options.stop_at_first), progress
    )


def model_of(name: str) -> Model:
    return asked(name).model()


def nothing_explored(*arguments: Any) -> Any:
    raise AssertionError("the graph is that of the search")


@pytest.mark.parametrize("name", SOME)
def test_one_search_finds_the_results_of_two(name: str) -> None:
    model = model_of(name)
    for first in (False, True):
        options = SearchOptions(workers=1, stop_at_first=first)
        found = search_with_liveness(model, search, nothing_explored, options)
        expected = search_with_liveness(model, apart, explore, options)
        assert found.graph is None
        for part in (*PARTS, "violations"):
            assert getattr(found, part) == getattr(expected, part), part


def test_where_the_graph_does_not_fit_the_search_goes_on_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search then decides all invariants, but no liveness property."""

    class Full(explored.GraphLevels):
        def _first_level(self) -> None:
            self.table.capacity = self.table._most = 1 << 12
            super()._first_level()

    monkeypatch.setattr(explored, "GraphLevels", Full)
    small_batches(monkeypatch)
    model, options = model_of("replication/liveness-rejected"), SearchOptions(workers=1)
    result = search_with_liveness(model, search, nothing_explored, options)
    assert result.stopped_by == "memory"
    assert result.distinct_states == apart(model, options).distinct_states
    beside = search_with_liveness(model, search, nothing_explored, replace(options, on_disk=False))
    assert beside.stopped_by == "memory"
    assert beside.distinct_states < result.distinct_states


@invariant("T")
def never_up(m: Protocol, s: State) -> Any:
    return ~s.up


def test_all_states_are_seen_where_every_invariant_is_violated() -> None:
    model = Model(Flapping(), (never_up,), Flapping.liveness)
    result = search_with_liveness(model, search, nothing_explored, SearchOptions(workers=1))
    assert result.complete
    assert result.distinct_states == len(explore(model, SearchOptions()).states)
    depths = {v.property: v.depth for v in result.violations}
    assert depths.pop("never_up") == 2
    assert depths.keys() == {"delivered_weakly", "delivered_if_the_link_stays", "sent"}


@pytest.mark.parametrize("name", ["native", "interpreter"])
def test_an_interrupt_while_loops_are_looked_for_leaves_it_open(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("highwater.checker.engines.liveness.search.violating_run", interrupted)
    request = asked("zookeeper/defect-unseen-bounce")
    outcome = exploration.explore(request, name, engines.search(name), SearchOptions(workers=1))
    assert outcome.distinct_states > 0
    assert (outcome.verdict, outcome.status) == ("inconclusive", Status.INTERRUPTED)
