"""Many initial states are a condition for the solver, which lists none and agrees with an explicit search."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.checker.engines import reference
from highwater.checker.engines.solver import bounded
from highwater.checker.engines.solver.bounded import LISTED
from highwater.checker.engines.solver.induction import INITIAL, prove
from highwater.checker.scenarios.search import SearchOptions
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
from tests.solver.test_bounded import depths


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


def test_the_first_states_of_an_induction() -> None:
    @invariant("T")
    def never_five(m: Any, s: State) -> Any:
        return s.odd != 5

    model = Model(Many(), [never_five, sum_is_small])
    verdicts = {k.property: k for k in prove(model).verdicts if k.action == INITIAL}
    assert {name: kept.kept for name, kept in verdicts.items()} == {
        "never_five": False,
        "sum_is_small": not any(sum(model.decode(state)["n"]) >= 6 for state in model.initial),
    }
    failure = verdicts["never_five"].failure
    assert failure is not None
    assert model.is_initial(failure.before)
    assert model.decode(failure.before)["odd"] == 5


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


def test_no_initial_state_at_all() -> None:
    class Nowhere(Wide):
        name = "nowhere"

        def initially(self, s: State) -> Any:
            return (s.n[0] > s.n[1]) & (s.n[1] > s.n[0])

    with pytest.raises(LanguageError, match=r"initially\(\) holds in none of the states"):
        bounded.check(Model(Nowhere(), []), 2)
