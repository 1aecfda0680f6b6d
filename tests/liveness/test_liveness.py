"""Planted livelocks are found with a real loop; how bounds and limits affect the verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from highwater.checker.engines import by_name as engines
from highwater.checker.engines.fairness import FairGroups
from highwater.checker.engines.liveness import search_with_liveness, violating_run
from highwater.checker.engines.native import search
from highwater.checker.engines.native import state_graph as explored
from highwater.checker.engines.native.state_graph import explore
from highwater.checker.report import counterexample
from highwater.checker.report.counterexample import BrokenRunError
from highwater.checker.report.vacuity import constant_properties
from highwater.checker.scenarios.request import asked
from highwater.checker.scenarios.search import SearchOptions, SearchResult, ViolatingRun
from highwater.model.language import (
    Bool,
    Enum,
    LanguageError,
    Model,
    Parameter,
    Protocol,
    Set,
    State,
    Struct,
    action,
    always_eventually,
    any_of,
    eventually,
    eventually_always,
    first,
    leads_to,
    leads_to_always,
    require,
    weak,
)
from highwater.model.language.liveness import FairGroup, Liveness, either
from tests.command import highwater
from tests.liveness.protocols import Flapping
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
    for stop_at_first in (False, True):
        options = SearchOptions(workers=1, stop_at_first=stop_at_first)
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


# --- liveness properties for each index value, made in a loop, and "eventually always" ----------------


@leads_to("T", fair=weak("serve"), to="client")
def is_served(m: Any, s: State, to: Any) -> Any:
    return s.waits.has(to), ~s.waits.has(to)


def made_in_a_loop(client: str) -> Liveness:
    @leads_to("T", fair=weak("serve"), name=f"{client}_is_served")
    def served(m: Any, s: State) -> Any:
        return s.waits.has(client), ~s.waits.has(client)

    return served


class Counter(Protocol):
    """Clients wait and are served; a hasty server always serves the first one."""

    name = "counter"
    parameters = {"hasty": Parameter(1, 0, 1, "whether it takes the first one always")}
    liveness = (is_served, *(made_in_a_loop(c) for c in ("c1", "c2", "c3")))

    def define(self) -> Struct:
        self.client = Enum("c", 3)
        return Struct("State", waits=Set(self.client))

    @action(says="{who} comes", who="client")
    def come(self, s: State, who: Any) -> None:
        require("it does not wait", ~s.waits.has(who))
        s.next.waits = s.waits.with_(who)

    @action(says="{to} is served", to="client")
    def serve(self, s: State, to: Any) -> None:
        require("it waits", s.waits.has(to))
        if self.p.hasty:
            require("it is the first", first(self.client, s.waits.has).is_(to))
        s.next.waits = s.waits.without(to)


def found_with(model: Model, name: str, engine: str = "interpreter") -> counterexample.Counterexample | None:
    prop = next(p for p in model.liveness if p.name == name)
    explored = engines.explore(engine)(model, SearchOptions(workers=1), None)
    violation = violating_run(explored, prop).violation
    if violation is None:
        return None
    (example,) = counterexample.follow_all(model, [violation])
    return example


@pytest.mark.parametrize("engine", ["interpreter", "native"])
def test_the_failing_parameter_value_is_reported(engine: str) -> None:
    example = found_with(Model(Counter(), (), Counter.liveness), "is_served", engine)
    assert example is not None
    assert example.parameters["to"] in ("c2", "c3"), "the first one is always served"
    assert [*example.others, example.parameters] in (
        [{"to": "c2"}, {"to": "c3"}],
        [{"to": "c3"}, {"to": "c2"}],
    )
    text = "\n".join(counterexample.plain(Model(Counter(), (), Counter.liveness), example))
    assert f"is_served(to={example.parameters['to']}) (T) is violated after" in text
    assert f"Also for to={example.others[0]['to']}." in text


def test_it_holds_for_each_where_it_holds() -> None:
    assert found_with(Model(Counter({"hasty": 0}), (), Counter.liveness), "is_served") is None


# --- eventually always --------------------------------------------------------------------------------


@eventually_always("T", fair=weak("settle"))
def one_leads_for_ever(m: Any, s: State) -> Any:
    return [s.leader == n for n in m.node]


@eventually_always("T", fair=weak("settle"))
def somebody_leads(m: Any, s: State) -> Any:
    return any_of(s.leader == n for n in m.node)


@leads_to_always("T")
def settled_for_ever(m: Any, s: State) -> Any:
    return s.settled, s.settled


@eventually_always("T", fair=weak("settle"))
def settled_in_the_end(m: Any, s: State) -> Any:
    return s.settled


@eventually("T", fair=weak("settle"))
def settled_if_n2_begins(m: Any, s: State) -> Any:
    """The premise restricts it to runs that begin with n2 as leader."""
    return s.leader == "n2", s.settled


class Election(Protocol):
    """Leaders change until the election is settled; ``undone`` can unsettle it."""

    name = "election"
    parameters = {"settles": Parameter(1, 0, 1, "."), "undone": Parameter(0, 0, 1, ".")}
    some, one = ("n1", "n2"), ("n1",)
    liveness = (
        one_leads_for_ever,
        somebody_leads,
        settled_for_ever,
        settled_in_the_end,
        settled_if_n2_begins,
    )

    def define(self) -> Struct:
        self.node = Enum("n", 3)
        return Struct("State", leader=self.node, settled=Bool)

    @action(says="{n} leads", n="node")
    def elect(self, s: State, n: Any) -> None:
        require("nothing is settled, and it does not lead", ~s.settled & (s.leader != n))
        s.next.leader = n

    @action(says="it is settled")
    def settle(self, s: State) -> None:
        require("it can be, and is not", (self.p.settles == 1) & ~s.settled)
        s.next.settled = True

    @action(says="it is undone")
    def undo(self, s: State) -> None:
        require("it can be, and was settled", (self.p.undone == 1) & s.settled)
        s.next.settled = False


VERDICTS = {
    (1, 0): set[str](),
    (0, 0): {"one_leads_for_ever", "settled_in_the_end"},
    (1, 1): {"one_leads_for_ever", "settled_for_ever", "settled_in_the_end"},
}
r"""Violated properties for (settles, undone), as TLC finds: `\\E n: <>[](leader = n)`, `settled ~>
[]settled`, `<>[]settled`.
"""


@pytest.mark.parametrize(("settles", "undone"), VERDICTS)
def test_eventually_always_has_tlc_s_verdicts(settles: int, undone: int) -> None:
    model = Model(Election({"settles": settles, "undone": undone}), (), Election.liveness)
    assert {p.name for p in model.liveness if found_with(model, p.name)} == VERDICTS[settles, undone]


def test_a_loop_in_which_each_of_several_fails() -> None:
    model = Model(Election({"settles": 0}), (), Election.liveness)
    example = found_with(model, "one_leads_for_ever")
    assert example is not None
    assert example.loop is not None
    assert len(example.loop.missed) == 3
    for step, node in zip(example.loop.missed, ("n1", "n2", "n3"), strict=True):
        assert step >= example.loop.start
        assert example.steps[step].state["leader"] != node
    assert "none of what has to last does: see state" in "\n".join(counterexample.plain(model, example))
    told = found_with(model, "settled_in_the_end")
    assert told is not None
    assert "what has to last does not: see state 1" in "\n".join(counterexample.plain(model, told))


def test_constant_liveness_is_reported_for_all_parameter_values_together() -> None:
    @always_eventually("T", n="node")
    def nothing(m: Any, s: State, n: Any) -> Any:
        return True

    @always_eventually("T", n="node")
    def one_of_them(m: Any, s: State, n: Any) -> Any:
        return s.settled if n.nodes[0].value == 1 else True

    constant = constant_properties(Model(Election(), (), [nothing, one_of_them]))
    assert constant == {"nothing": "has a goal that is true in every state"}


def test_a_parameter_without_values_is_an_error() -> None:
    class Empty(Election):
        name = "empty"
        nobody: tuple[str, ...] = ()

    @eventually("T", n="nobody")
    def comes(m: Any, s: State, n: Any) -> Any:
        return s.settled

    with pytest.raises(LanguageError, match="the parameters of comes have no values: it says nothing"):
        Model(Empty(), (), [comes])


# --- more fairness groups than a word has bits --------------------------------------------------------


def groups_of(bits: np.ndarray) -> set[int]:
    """The numbers of the bits that are set in a row of words."""
    return {64 * w + b for w, word in enumerate(bits.tolist()) for b in range(64) if word >> b & 1}


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 130])
def test_groups_stay_distinct(count: int) -> None:
    """A ring of states; the step from each state is the only one of its fairness group."""
    groups = tuple(FairGroup(f"group {g}", g % 3 == 0, frozenset({g})) for g in range(count))
    offsets, numbers = np.arange(count + 1), np.arange(count)
    targets = (numbers + 1) % max(count, 2)
    none = np.zeros(count + 1, dtype=np.int64)
    fair = FairGroups(groups, offsets, targets, numbers, none, none[:0], {count - 1: numbers != count - 1})
    strong = {g for g in range(count) if g % 3 == 0}
    assert (groups_of(fair.strong), groups_of(fair.weak)) == (strong, set(range(count)) - strong)
    # The last group counts as enabled everywhere except in its step's state.
    assert [groups_of(row) for row in fair.enabled] == [{g} if g < count - 1 else set() for g in range(count)]
    assert [groups_of(row) for row in fair.of_step(numbers, numbers)] == [
        groups_of(row) for row in fair.enabled
    ]
