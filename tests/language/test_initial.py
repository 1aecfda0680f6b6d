"""Initial states from free fields and a condition: engines agree, and random ones agree with Python."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.checker.engines import reference
from highwater.checker.engines.native import initial, search
from highwater.checker.engines.native.initial import initial_words
from highwater.checker.engines.state_graph import Layout
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import (
    Array,
    Bool,
    Enum,
    Index,
    Int,
    LanguageError,
    Messages,
    Model,
    Option,
    Protocol,
    Seq,
    Set,
    State,
    Struct,
    action,
    free,
    require,
    total,
)

COLOUR = Enum("Colour", "RED GREEN BLUE")


def model(given: Any, condition: Any = lambda s: True) -> Model:
    class Start(Protocol):
        name = "start"

        def define(self) -> Struct:
            self.node = Index("node", 3)
            return Struct(
                "State",
                n=Int(-2, 2),
                row=Array(self.node, Bool),
                paint=Array(COLOUR, Int(0, 1)),
                set=Set(self.node),
                log=Seq(Int(1, 2), 2),
                maybe=Option(Struct("Pair", a=Bool, b=self.node)),
                post=Messages(ping=dict(who=self.node)),
            )

        def initial(self) -> Any:
            return given

        def initially(self, s: State) -> Any:
            return condition(s)

        @action()
        def step(self, s: State) -> None:
            require("below", s.n < 2)
            s.next.n = s.n + 1

    return Model(Start())


def test_a_field_that_is_not_given_is_zero() -> None:
    found = model([{"n": 1}])
    assert found.decode(found.initial[0]) == {
        "n": 1,
        "row": [False] * 3,
        "paint": {"RED": 0, "GREEN": 0, "BLUE": 0},
        "set": [],
        "log": [],
        "maybe": None,
        "post": {"ping": ()},
    }


def test_without_initial_every_field_is_zero() -> None:
    class Nothing(Protocol):
        name = "nothing"

        def define(self) -> Struct:
            return Struct("State", n=Int(2, 4), o=Option(Int(0, 3)))

    assert Model(Nothing()).initial == [(2, -1)]


GIVEN: list[Any] = [
    ([{"n": free, "row": free, "paint": free}], 5 * 8 * 8),
    (
        [{"n": free, "row": [free, True, free], "paint": {"RED": free, "GREEN": 1, "BLUE": free(0, 1, 1)}}],
        5 * 4 * 4,
    ),
    ([{"set": free, "log": free}], 8 * 7),
    ([{"maybe": free({"b": 2}, None), "log": free([1], [1, 2]), "row": free}], 2 * 2 * 8),
    ([{"n": free, "row": free}, {"n": 0, "row": free, "set": free}], 5 * 8 + 8 * 7),
    (
        [
            {"post": {"ping": [{"who": 1}]}, "n": free},
            {"post": free({}, {"ping": [{"who": 2}]}), "set": free},
        ],
        5 + 16,
    ),
]
"""Values of ``initial``, each with the number of its states."""


@pytest.mark.parametrize(("given", "count"), GIVEN)
def test_every_engine_lists_the_states_of_free_fields(given: list[dict[str, Any]], count: int) -> None:
    traced = model(given)
    states = traced.initial
    assert len(set(states)) == len(states) == count
    layout = Layout(traced.leaves)
    assert [layout.unpack(row) for row in initial_words(traced, layout)] == states
    fresh = model(given)
    assert all(fresh.is_initial(s) for s in states)
    other = [tuple(1 - v if i == 1 else v for i, v in enumerate(s)) for s in states]
    assert [fresh.is_initial(s) for s in other] == [s in set(states) for s in other]


def odd(s: State) -> Any:
    return total(s.row[i] for i in (0, 1, 2)) % 2 == 1


@pytest.mark.parametrize("engine", [reference.search, search])
def test_a_condition_selects_initial_states(engine: Any) -> None:
    traced = model([{"row": free, "paint": free, "n": 1}], lambda s: odd(s) & (s.paint["RED"] == 1))
    found = engine(traced, SearchOptions())
    assert (found.distinct_states, found.generated_states, found.depth) == (32, 32, 2)
    assert len(traced.initial) == 16
    assert not traced.is_initial(tuple(0 for _ in traced.leaves))


def test_a_counterexample_starts_in_its_initial_state() -> None:
    from highwater.checker.report.counterexample import follow
    from highwater.model.language import invariant
    from highwater.model.language.interpreter import Interpreter

    @invariant("test")
    def low(m: Any, s: State) -> Any:
        return (s.n < 2) | ~s.row[1]

    traced = model([{"row": free, "paint": free, "n": free(-1, 0)}], odd)
    traced = Model(traced.protocol, [low])
    (violation,) = search(traced, SearchOptions(workers=1)).violations
    assert "initial" not in vars(traced)  # the list of initial states was not built
    assert follow(traced, Interpreter(traced), violation).depth == 3


@pytest.mark.parametrize(
    ("given", "condition", "message"),
    [
        ([{"n": free, "paint": free, "row": free}], lambda s: s.n > 2, "holds in none of the states"),
        ([{"n": 3}], lambda s: True, r"n: 3 is not a value of Int\(-2\.\.2\)"),
        ([{"m": 3}], lambda s: True, "has no field 'm'"),
        ([{"n": free(1, 7)}], lambda s: True, "7 is not a value"),
        ([{"post": free}], lambda s: True, "is given one by one"),
        ([{"n": free(free)}], lambda s: True, "in which nothing is free"),
        ([{"paint": {"RED": 1}}], lambda s: True, "has the elements RED, GREEN, BLUE, not RED"),
        ([{}], lambda s: s.n, "it returns a condition"),
        ([{}], lambda s: require("", s.n > 0), "only looks"),
        ([], lambda s: True, "has no initial state"),
    ],
)
def test_a_wrong_initial_state_names_its_place(given: Any, condition: Any, message: str) -> None:
    with pytest.raises(LanguageError, match=message) as error:
        _ = model(given, condition).initial
    assert "test_initial.py" in str(error.value.place)
    with pytest.raises(LanguageError, match=message):
        search(model(given, condition), SearchOptions())


@pytest.mark.parametrize("at_once", [1, 7, 64])
def test_blocks_of_any_size_are_the_same_states_in_the_same_order(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(initial, "_AT_ONCE", at_once)
    for given, _ in GIVEN:
        found = model(given)
        assert found.start is not None
        layout = Layout(found.leaves)
        for family in found.start.families:
            words = [row for block in initial._blocks(family, layout) for row in block]
            assert [layout.unpack(row) for row in words] == list(family.states())


def test_free_fields_have_every_value_inside_the_bounds() -> None:
    class Bounded(Protocol):
        name = "bounded"

        def define(self) -> Struct:
            number = Int(0, 2, bound="top")
            return Struct("State", n=number, o=Option(number), log=Seq(number, 1, bound="log"))

        def initial(self) -> Any:
            return [{"n": free, "o": free, "log": free}]

    assert len(Model(Bounded()).initial) == 3 * 4 * 4


def test_free_without_values_is_refused() -> None:
    with pytest.raises(LanguageError, match="names the values to choose from"):
        free()


def test_too_many_candidates_are_refused() -> None:
    class Many(Protocol):
        name = "many"

        def define(self) -> Struct:
            return Struct("State", row=Array(Index("node", 40), Bool))

        def initial(self) -> Any:
            return [{"row": free}]

    with pytest.raises(LanguageError, match=r"1,099,511,627,776 candidates, and 4,294,967,296 are the most"):
        _ = Model(Many()).start
