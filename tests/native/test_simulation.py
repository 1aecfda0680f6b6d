"""Random walks: reproducible, valid runs, and able to find violations."""

from __future__ import annotations

import pytest

from highwater.checker.engines.native import simulate
from highwater.checker.scenarios.search import DEADLOCK, SimulationOptions
from highwater.model.language import Model
from highwater.model.language.interpreter import BoundError
from tests import models, zoo


def test_walks_do_not_depend_on_the_number_of_workers() -> None:
    model = models.scenario_model("truncation/kip-320")
    one, three = (
        simulate(model, SimulationOptions(walks=3000, depth=40, seed=11, workers=w)) for w in (1, 3)
    )
    other = simulate(model, SimulationOptions(walks=3000, depth=40, seed=12))
    for part in ("walks", "generated_states", "depth", "actions", "cut", "premises"):
        assert getattr(one, part) == getattr(three, part), part
    assert one.actions != other.actions
    assert one.generated_states == one.walks + sum(one.actions.values())


def test_every_walk_of_counters_is_as_long_as_it_must_be() -> None:
    model = Model(zoo.Counters({"counters": 3, "top": 4}), [])
    found = simulate(model, SimulationOptions(walks=500, depth=100))
    assert (found.walks, found.generated_states, found.depth) == (500, 500 * 13, 13)
    assert found.violations == []
    stuck = simulate(model, SimulationOptions(walks=500, depth=100, deadlock=True))
    assert [(v.property, v.depth) for v in stuck.violations] == [(DEADLOCK, 13)]


def test_an_undeclared_bound_is_an_error() -> None:
    with pytest.raises(BoundError, match="number leaves"):
        simulate(Model(zoo.Everything({"nodes": 2}, {"undeclared"})), SimulationOptions(depth=50))


def test_every_step_is_as_likely_as_the_others() -> None:
    found = simulate(Model(zoo.Dice()), SimulationOptions(walks=6000, depth=2, seed=5))
    assert sum(found.actions.values()) == 6000
    assert set(found.actions) == {"one", "two", "three"}
    assert all(1800 < count < 2200 for count in found.actions.values())  # six standard deviations
