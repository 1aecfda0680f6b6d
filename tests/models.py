"""Models of the project's scenarios and of the zoo, and random states of them."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator

from highwater.checker.scenarios import catalogue, request, scenario_files
from highwater.model.language import Model
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import BoundError, Interpreter
from tests import zoo


def scenario_names() -> list[str]:
    return sorted(catalogue.scenario_files())


def one_of_each(first: Collection[str] = ()) -> list[str]:
    """The scenarios in ``first`` and one more for each other set of enabled rules of each protocol."""
    found: dict[tuple[str, frozenset[str]], str] = {}
    for name in sorted(scenario_names(), key=lambda name: (name not in first, name)):
        asked = request.Request.of(scenario_files.find(name), request.Overrides())
        rules = frozenset(rule for rule, on in asked.rules.items() if on)
        found.setdefault((asked.scenario.definition.name, rules), name)
    return sorted({*first, *found.values()})


def scenario_model(name: str, **parameters: int) -> Model:
    """The scenario's model with some parameter values replaced."""
    overrides = request.Overrides.parse([f"{k}={v}" for k, v in parameters.items()], [], None, [])
    return request.Request.of(scenario_files.find(name), overrides).model()


def everything(**parameters: int) -> Model:
    """The model of ``zoo.Everything``, which has a field of each type."""
    return Model(zoo.Everything(parameters), [zoo.log_or_parcel, zoo.sets_are_bounded])


def bounded(model: Model) -> bool:
    """True if each type check of each action instance has a declared bound."""
    return all(check.bound for instance in model.instances for check in instance.checks)


def reachable_states(model: Model, count: int, seed: int = 0) -> Iterator[Scalars]:
    rng, interpreter = random.Random(seed), Interpreter(model)
    state = rng.choice(model.initial)
    for _ in range(count):
        yield state
        try:
            following = interpreter.successors(state)
        except BoundError:
            following = []
        state = rng.choice(following) if following and rng.random() > 0.02 else rng.choice(model.initial)


def arbitrary_states(model: Model, count: int, seed: int = 0) -> Iterator[Scalars]:
    """States with random scalars, reachable or not."""
    rng = random.Random(seed)
    for _ in range(count):
        yield tuple(rng.randint(leaf.low, leaf.high) for leaf in model.leaves)
