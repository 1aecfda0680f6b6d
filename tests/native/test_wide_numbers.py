"""Kernels compute with machine words: an expression that may need more is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.checker.engines.native.initial import Evaluation
from highwater.checker.engines.native.levels import search
from highwater.checker.engines.state_graph import Layout
from highwater.checker.scenarios.search import EngineError, SearchOptions
from highwater.language import Protocol, Struct, action, invariant, require, step_property
from highwater.model.language.model import Model
from highwater.model.language.types import Int

MOST = (1 << 31) - 1


class Large(Protocol):
    """A number whose square fits in a word, and whose fourth power does not."""

    name = "large"
    power = 2

    def define(self) -> Struct:
        return Struct("State", number=Int(0, MOST))

    def initial(self) -> list[dict[str, Any]]:
        return [{"number": 0}]

    @action("")
    def go(self, s: Any) -> None:
        power = s.number
        for _ in range(self.power - 1):
            power = power * s.number
        require("it is small", power < 10)
        s.next.number = s.number + 1


class TooLarge(Large):
    power = 3


@invariant("")
def cubes_are_small(m: Any, s: Any) -> Any:
    return s.number * s.number * s.number < 1000


@step_property("")
def cubes_rise(m: Any, before: Any, after: Any) -> Any:
    return before.number * before.number * before.number <= after.number * after.number * after.number


def test_numbers_that_fit_a_word_are_computed() -> None:
    assert search(Model(Large()), SearchOptions()).distinct_states == 5


@pytest.mark.parametrize(
    ("model", "who"),
    [
        (lambda: Model(TooLarge()), "go()"),
        (lambda: Model(Large(), [cubes_are_small]), "property cubes_are_small"),
        (lambda: Model(Large(), step_properties=[cubes_rise]), "property cubes_rise"),
    ],
    ids=["an action", "a property", "a property of steps"],
)
def test_numbers_that_may_not_fit_are_refused(model: Any, who: str) -> None:
    with pytest.raises(EngineError) as refused:
        search(model(), SearchOptions())
    assert str(refused.value) == f"{who} computes with numbers or sets that may need more than 62 bits"


def test_an_expression_on_many_states_that_may_need_more() -> None:
    model = Model(Large(), [cubes_are_small])
    with pytest.raises(EngineError, match="an expression computes with numbers or sets"):
        Evaluation(Layout(model.leaves), [model.properties[0].node])
