"""The bounded check finds the explorer's violations and the known defects at the same depths, and no others."""

from __future__ import annotations

import signal
from typing import Any

import pytest
import z3

from highwater.checker.base.problems import InputError
from highwater.checker.engines import native, reference
from highwater.checker.engines.solver import bounded
from highwater.checker.engines.solver.bounded import LISTED
from highwater.checker.engines.solver.induction import INITIAL, prove
from highwater.checker.engines.solver.terms import Limits
from highwater.checker.report.counterexample import follow_all
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.scenario_files import Scenario
from highwater.checker.scenarios.search import DEADLOCK, SearchOptions
from highwater.model.language import (
    Array,
    Bool,
    Index,
    Int,
    LanguageError,
    Model,
    Option,
    Protocol,
    Seq,
    Set,
    State,
    Struct,
    action,
    free,
    invariant,
    require,
    size,
    total,
)
from highwater.model.language.initial import Start
from tests import models, zoo
from tests.slow import all_but, largest, often


def depths(model: Model, depth: int, *, deadlock: bool = False) -> dict[str, int]:
    """Property → depth of its shortest violation, confirmed by the interpreter."""
    result = bounded.check(model, depth, deadlock=deadlock)
    return {e.name: e.depth for e in follow_all(model, result.violations)}


def explored(model: Model, depth: int, *, deadlock: bool = False) -> dict[str, int]:
    """Property → depth of its violation within ``depth``, by the native search."""
    result = native.search(model, SearchOptions(workers=1, deadlock=deadlock, limit_states=5_000_000))
    assert result.complete or result.stopped_by == "violation" or result.depth > depth + 1
    return {v.property: v.depth for v in result.violations if v.depth <= depth}


def test_several_initial_states_deadlocks_and_the_end_of_all_runs() -> None:
    counters = Model(zoo.Counters({"counters": 2, "top": 2}), [zoo.never_all_at_top, zoo.first_leads])
    assert depths(counters, 9, deadlock=True) == explored(counters, 9, deadlock=True)
    assert depths(counters, 9, deadlock=True) == {DEADLOCK: 5, "never_all_at_top": 5}
    assert depths(Model(counters.protocol, []), 9, deadlock=True) == {DEADLOCK: 5}
    result = bounded.check(counters, 9)
    assert result.complete
    assert result.depth == 5
    assert bounded.check(counters, 4).stopped_by == "depth"

    properties = [zoo.log_or_parcel, zoo.sets_are_bounded]
    everything = Model(zoo.Everything({"nodes": 2}, []), properties)
    assert len(everything.initial) == 2
    expected = explored(everything, 8)
    assert expected
    assert depths(everything, 8) == expected


class Odometer(Protocol):
    """A bounded number, and the count of its increments."""

    name = "odometer"

    def define(self) -> Struct:
        return Struct("State", at=Int(0, 3, bound="end"), raised=Int(0, 15, bound="often"))

    def initial(self) -> list[dict[str, object]]:
        return [{"at": 0, "raised": 0}]

    @action()
    def up(self, s: State) -> None:
        s.next.at = s.at + 1
        s.next.raised = s.raised + 1


@invariant("test")
def never_turns_over(m: Odometer, s: State) -> object:
    return s.at == s.raised


def test_a_step_that_is_cut_is_not_taken() -> None:
    result = bounded.check(Model(Odometer(), [never_turns_over]), 9)
    assert result.violations == []
    assert (result.complete, result.depth) == (True, 4)


def test_leaving_a_type_is_an_error_as_in_every_engine() -> None:
    model = Model(zoo.Everything({"nodes": 2}, ["undeclared"]), [])
    with pytest.raises(LanguageError, match="leaves"):
        bounded.check(model, 8)


def test_limits_are_results() -> None:
    model = models.scenario_model("truncation/kip-101")
    stopped = bounded.check(model, 100, limits=Limits(seconds=0.5))
    assert stopped.stopped_by == "seconds"
    assert 0 < stopped.depth < 100
    assert not stopped.complete
    assert len(stopped.depths) == stopped.depth
    assert bounded.check(model, 100, limits=Limits(memory_bytes=1 << 20)).stopped_by == "memory"


def test_ctrl_c_is_delivered_between_calls_of_z3(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a call it would be an error of ctypes, or leave a term with a wrong count of references."""
    returned: list[object] = []
    made = z3.And

    def interrupted(*terms: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        returned.append(made(*terms))
        return returned[-1]

    monkeypatch.setattr(z3, "And", interrupted)
    model = Model(zoo.Counters({"counters": 2, "top": 2}), [zoo.never_all_at_top])
    result = bounded.check(model, 4)
    assert (result.stopped_by, result.depth, bool(returned)) == ("interrupted", 0, True)
    assert prove(model).stopped_by == "interrupted"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# --- many initial states are a condition for the solver, which lists none and agrees with an explicit search ----


@invariant("T")
def sum_is_small(m: Any, s: State) -> Any:
    return s.n[0] + s.n[1] < 6


@invariant("T")
def log_is_short(m: Any, s: State) -> Any:
    return (s.log.length < 2) | ~s.set.is_empty


@invariant("T")
def pair_is_even(m: Any, s: State) -> Any:
    return s.maybe.is_none | (s.maybe.value.a == (s.maybe.value.b == 1))


PROPERTIES = [sum_is_small, log_is_short, pair_is_even]


class Many(Protocol):
    """Free initial fields of every kind, a condition on them, and further steps."""

    name = "many"

    def define(self) -> Struct:
        self.node = Index("node", 2)
        return Struct(
            "State",
            n=Array(self.node, Int(0, 3)),
            set=Set(self.node),
            log=Seq(Int(1, 2), 2),
            maybe=Option(Struct("Pair", a=Bool, b=self.node)),
            odd=Int(0, 7),
        )

    def initial(self) -> Any:
        one = {"n": free, "set": free, "log": free, "maybe": free, "odd": free(1, 3)}
        return [one, {"n": [3, free], "set": [1], "log": free([1], [2, 2]), "odd": 5}]

    def initially(self, s: State) -> Any:
        return (s.n[0] + s.n[1] <= 4) & (s.log.length <= size(s.set)) & s.maybe.is_none | (s.odd == 5)

    @action(n="node")
    def up(self, s: State, n: Any) -> None:
        require("below", s.n[n] < 3)
        s.next.n[n] = s.n[n] + 1

    @action(n="node")
    def leave(self, s: State, n: Any) -> None:
        require("odd", (s.odd == 3) & s.set.has(n))
        s.next.set = s.set.without(n)

    @action(n="node")
    def pair(self, s: State, n: Any) -> None:
        require("one member", size(s.set) == 1)
        s.next.maybe = dict(a=False, b=n)


def test_runs_are_as_short_as_those_of_a_search() -> None:
    model = Model(Many(), PROPERTIES)
    assert model.start is not None
    assert model.start.candidates > 10 * LISTED
    found = reference.search(model, SearchOptions())
    assert depths(model, 4) == {v.property: v.depth for v in found.violations}
    assert set(depths(model, 4).values()) == {1, 2, 3}


class Wide(Protocol):
    """More initial candidates than any list can hold."""

    name = "wide"

    def define(self) -> Struct:
        self.node = Index("node", 4)
        return Struct("State", n=Array(self.node, Int(0, 127)), up=Bool)

    def initial(self) -> Any:
        return [{"n": free}]

    def initially(self, s: State) -> Any:
        return total(s.n[i] > 100 for i in self.node) == 2

    @action()
    def go(self, s: State) -> None:
        s.next.up = True


def test_nothing_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    @invariant("T")
    def not_all_high(m: Any, s: State) -> Any:
        return total(s.n[i] > 100 for i in m.node) < 3

    @invariant("T")
    def one_is_low(m: Any, s: State) -> Any:
        return total(s.n[i] == 77 for i in m.node) == 0

    monkeypatch.setattr(Start, "states", lambda _: pytest.fail("it makes a list"))
    model = Model(Wide(), [not_all_high, one_is_low])
    assert model.start is not None
    assert model.start.candidates == 1 << 28
    assert depths(model, 4) == {"one_is_low": 1}
    assert {k.property: k.kept for k in prove(model).verdicts if k.action == INITIAL} == {
        "not_all_high": True,
        "one_is_low": False,
    }


# --- each known defect within 12 states; with all rules on, none --------------------------------------


WITHIN = 12

QUIET = 8
"""The depth for models without defects: each level costs more than all before."""

WHOLE = {
    "replication/defect-": "kip_966",
    "replication/controller/": "kip_966_first_phase",
    "truncation/": "kip_320",
}
"""Place of the defects → the profile with every rule that closes them."""

GALLERY = [
    name
    for name in scenario_files.titles()
    if name.startswith(tuple(WHOLE))
    and not any(place in name for place in ("/gap-", "/reach", "/small-", "/sanity-"))  # no rule closes these
    if scenario_files.find(name).expectation.violated or "/defect-" in name
]
QUICK = {"replication/controller/defect-elr-not-emptied"}
DEEP = {
    "replication/controller/kafka-4.2-shut-out",
    "replication/defect-reassignment-under-min-isr",
    "truncation/kip-101",
    "truncation/kip-279",
}
ASKED = sorted({*QUICK, *sorted(set(GALLERY) - DEEP)[:: often(6, 1)]})
"""Every sixth scenario, or all."""


def every_rule_on(scenario: Scenario) -> Model:
    """The scenario's budgets and properties with every rule that could close its defect."""
    profile = next(p for place, p in WHOLE.items() if scenario.name.startswith(place))
    whole = scenario.protocol.profiles[profile].rules
    on = {rule: rule in whole for rule in scenario.rules}
    return Request.of(scenario, Overrides(rules=on, profile=profile)).model()


def solved(model: Model, depth: int) -> dict[str, int]:
    """Property → depth of its violation, by the bounded check and confirmed by the interpreter."""
    result = bounded.check(model, depth)
    assert result.stopped_by in ("depth", "violation", None)
    assert result.depth == depth or result.stopped_by != "depth"
    return {e.name: e.depth for e in follow_all(model, result.violations)}


@pytest.mark.parametrize(
    "name",
    [
        *all_but(QUICK, ASKED, "two bounded checks of each defect; fast for one defect"),
        *(
            pytest.param(name, marks=largest("the last one or two states take a minute"))
            for name in sorted(DEEP)
        ),
    ],
)
def test_defects_are_found_where_the_explorer_finds_them(name: str) -> None:
    scenario = scenario_files.find(name)
    model = Request.of(scenario, Overrides()).model()
    expected = explored(model, WITHIN)
    depth = max(expected.values(), default=QUIET)
    assert solved(model, depth) == expected
    if expected:
        try:
            whole = every_rule_on(scenario)
        except InputError as wrong:  # the property concerns a rule of Kafka's that the proposal lacks
            if "does not exist while the rule" not in str(wrong):
                raise
            return
        assert solved(whole, min(depth, QUIET)) == {}
