"""Mistakes in a protocol are errors that name the place in the protocol's source."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from highwater.model.language import (
    Int,
    LanguageError,
    Model,
    Parameter,
    State,
    Struct,
    action,
    invariant,
    require,
    where,
)
from highwater.model.language.interpreter import BoundError, Interpreter
from tests.language.wrong import Base
from tests.zoo import stepping


class Full(Base):
    """The number is as high, and the sequence as long, as can be: a step up leaves each of them."""

    def initial(self) -> list[dict[str, Any]]:
        return [{**super().initial()[0], "n": 3, "log": [1] * 3}]


def an_if(m: Any, s: State) -> None:
    if s.f:
        s.next.n = 0


def an_and(m: Any, s: State) -> None:
    require("both", s.f and s.n == 1)


def a_chain(m: Any, s: State) -> None:
    require("between", 0 < s.n < 3)


def an_in(m: Any, s: State) -> None:
    require("member", 1 in s.s)


def a_loop(m: Any, s: State) -> None:
    for node in s.s:
        require("never", node == 1)


def a_range(m: Any, s: State) -> None:
    for _ in range(s.n):
        pass


def an_assignment(m: Any, s: State) -> None:
    s.n = 1


def an_inner_assignment(m: Any, s: State) -> None:
    s.row[1].x = 1


def two_writers(m: Any, s: State) -> None:
    s.next.n = 1
    s.next.n = 2


def two_writers_by_index(m: Any, s: State) -> None:
    s.next.row[s.n - 1] = 1
    s.next.row[s.n - 1] = 2


def a_whole_and_a_part(m: Any, s: State) -> None:
    s.next.row[2] = 1
    s.next.row = [0, 0, 0]


def an_unknown_field(m: Any, s: State) -> None:
    require("none", s.missing == 1)


def an_unknown_field_written(m: Any, s: State) -> None:
    s.next.missing = 1


def a_wrong_type(m: Any, s: State) -> None:
    s.next.s = 5


def a_constant_outside(m: Any, s: State) -> None:
    s.next.n = 7


def two_types(m: Any, s: State) -> None:
    s.next.n = where(s.f, s.s, s.n)


def a_number_for_a_condition(m: Any, s: State) -> None:
    require("number", s.n)


def an_option_for_a_number(m: Any, s: State) -> None:
    require("compared", s.n == s.o)


MISTAKES = [
    (an_if, r"write where\(condition, a, b\)"),
    (an_and, "combine with &"),
    (a_chain, "chained comparison"),
    (an_in, r"write \.has"),
    (a_loop, "loop over its index type"),
    (a_range, "not known while tracing"),
    (an_assignment, r"write s\.next\.n"),
    (an_inner_assignment, "values never change"),
    (two_writers, "second time; the first time at .*test_errors.py:"),
    (two_writers_by_index, "second time"),
    (a_whole_and_a_part, "second time"),
    (an_unknown_field, "no field 'missing'; it has n, f, g"),
    (an_unknown_field_written, "no field 'missing'"),
    (a_wrong_type, r"expected Set\(node\), not 5"),
    (a_constant_outside, r"7 is not a value of Int\(0\.\.3\)"),
    (two_types, "do not go together|cannot choose"),
    (a_number_for_a_condition, "expected a bool"),
    (an_option_for_a_number, r"\.is_\(x\)"),
]


@pytest.mark.parametrize(("body", "message"), MISTAKES, ids=[b.__name__ for b, _ in MISTAKES])
def test_a_mistake_names_its_place(body: Callable[[Any, State], object], message: str) -> None:
    lines, first = inspect.getsourcelines(body)
    with pytest.raises(LanguageError, match=message) as error:
        Model(stepping(Full, body)())
    assert error.value.place is not None
    file, line = error.value.place.rsplit(":", 1)
    assert file.endswith("test_errors.py")
    assert first <= int(line) < first + len(lines)


def leaves_its_number(m: Any, s: State) -> None:
    s.next.n = s.n + 1


def leaves_its_option(m: Any, s: State) -> None:
    s.next.o = s.o.value - 1


def leaves_its_sequence(m: Any, s: State) -> None:
    s.next.log = s.log.append(s.n)


def leaves_its_array(m: Any, s: State) -> None:
    s.next.row[s.n] = 1


def leaves_its_set(m: Any, s: State) -> None:
    s.next.s = s.s.with_(s.n)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (leaves_its_number, "n leaves 0..3"),
        (leaves_its_option, "o leaves -1..3"),
        (leaves_its_sequence, "log.length leaves 0..3"),
        (leaves_its_array, "index outside 0..2"),
        (leaves_its_set, "s leaves 0..7"),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_a_type_that_is_left_is_never_silent(body: Callable[[Any, State], object], field: str) -> None:
    model = Model(stepping(Full, body)())
    with pytest.raises(BoundError, match=rf"test_errors\.py:\d+: step\(\): {re.escape(field)}"):
        Interpreter(model).successors(model.initial[0])


def test_a_declared_bound_cuts_and_is_counted() -> None:
    class Cut(Full):
        def define(self) -> Struct:
            return Struct("State", n=Int(0, 3, bound="top"))

        def initial(self) -> list[dict[str, Any]]:
            return [{"n": 2}]

        @action()
        def step(self, s: State) -> None:
            s.next.n = s.n + 1

    model = Model(Cut())
    interpreter = Interpreter(model)
    (first,) = interpreter.steps(model.initial[0])
    assert first.state == (3,)
    (second,) = interpreter.steps(first.state)
    assert (second.state, second.cut) == (None, "top")
    assert model.bounds == ["top"]


def test_an_index_outside_reads_zero_as_documented() -> None:
    class Reads(Full):
        @action()
        def step(self, s: State) -> None:
            s.next.n = s.row[s.n]

    model = Model(Reads())
    start = model.decode(model.initial[0]) | {"row": [1, 1, 1]}
    (after,) = Interpreter(model).successors(model.protocol.state.encode(start))
    assert model.decode(after)["n"] == 0


def test_parameters_rules_and_domains() -> None:
    class Sized(Full):
        parameters = {"size": Parameter(2, 1, 4, "how many")}

        @action(who="nobody")
        def step(self, s: State, who: Any) -> None:
            """An action over a domain that is not there."""

    with pytest.raises(LanguageError, match="parameter size of wrong is 1 to 4, not 9"):
        Sized({"size": 9})
    with pytest.raises(LanguageError, match="no parameter 'length'; it has size"):
        Sized({"length": 1})
    with pytest.raises(LanguageError, match="no rule 'x'"):
        Sized({}, {"x"})
    with pytest.raises(LanguageError, match="ranges over 'nobody'"):
        Model(Sized())


def test_an_invariant_only_looks() -> None:
    @invariant("test")
    def writes(m: Any, s: State) -> Any:
        """Not allowed."""
        s.next.n = 1
        return s.f

    with pytest.raises(LanguageError, match="only looks"):
        Model(stepping(Full, leaves_its_number)(), [writes])


def test_refusals_name_the_guards() -> None:
    class Guarded(Full):
        @action()
        def step(self, s: State) -> None:
            require("the flag is up", s.f)
            require("the number is small", s.n < 2)
            require("true anyway", s.n >= 0)

    model = Model(Guarded())
    interpreter = Interpreter(model)
    assert interpreter.refusals(model.initial[0], model.instances[0]) == [
        "the flag is up",
        "the number is small",
    ]
    assert interpreter.successors(model.initial[0]) == []
