"""The protocol `quorum` on windows of a belief: one step of one action, and its properties, by the interpreter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

from msgspec.msgpack import encode

from highwater.invariants.quorum import INVARIANTS
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Model
from highwater.model.language.protocol import Parameter
from highwater.model.quorum import Quorum
from highwater.model.quorum.cluster import BUDGETS
from highwater.traces.raft.belief import Belief
from highwater.traces.raft.window import OBSERVERS, TooLarge, Window

PROFILE = "kafka_4_2"
EPOCHS, OFFSETS = 6, 16
WIDE = 40
"""Offsets that a step, and the properties of a whole belief, can be about."""
KEPT = 100_000
"""Steps whose outcome is remembered, at most."""


class _Recorded(Quorum):
    """The quorum with room for what a window holds: sizes, and no other rule."""

    parameters = {
        **Quorum.parameters,
        **{name: Parameter(1, 0, WIDE, "room for what was recorded") for name in BUDGETS},
    }


class _Properties(_Recorded):
    """The same without its steps: of it properties are asked only."""

    modules = ()  # type: ignore[assignment]


class Outcome(NamedTuple):
    """What an action comes to: the state after it by the model's numbers, or the guards that refuse it."""

    after: Mapping[str, Any] | None
    refused: tuple[str, ...] = ()


class Judge:
    """A model of a quorum of so many voters, with these rules, and what it said before."""

    def __init__(self, voters: int, rules: frozenset[str]) -> None:
        self.voters, self.members, self.rules = voters, voters + OBSERVERS, rules
        self._said: dict[tuple[str, str, bytes], Outcome] = {}
        self._asked: dict[bytes, tuple[str, ...]] = {}
        self.evaluated = 0

    def _protocol(self, kind: type[Quorum], offsets: int) -> Quorum:
        sizes = {
            "voters": self.voters,
            "observers": OBSERVERS,
            "elections": EPOCHS - 1,
            "appends": offsets - EPOCHS,
        }
        return kind({**sizes, "restarts": 1, "losses": 1}, self.rules)

    @cached_property
    def model(self) -> Model:
        """The model of steps."""
        return Model(self._protocol(_Recorded, OFFSETS))

    @cached_property
    def _wide(self) -> Model:
        return Model(self._protocol(_Properties, WIDE), INVARIANTS)

    @cached_property
    def _interpreter(self) -> Interpreter:
        return Interpreter(self.model)

    @cached_property
    def _instances(self) -> dict[tuple[str, str], int]:
        return {
            (instance.action.name, json.dumps(dict(instance.parameters), sort_keys=True)): number
            for number, instance in enumerate(self.model.instances)
        }

    def take(self, window: Window, action: str, **parameters: int) -> Outcome:
        """One step of an action in a window. Raises TooLarge where the window does not fit."""
        if len(window.offsets) > OFFSETS:
            raise TooLarge(f"a step is about {len(window.offsets)} offsets")
        chosen = json.dumps(parameters, sort_keys=True)
        state = window.state(self.voters, self.members, EPOCHS, self._budgets)
        key = action, chosen, encode(state)
        found = self._said.get(key)
        if found is None:
            if len(self._said) >= KEPT:
                self._said.clear()
            found = self._said[key] = self._step(state, action, chosen)
        return found

    def _step(self, state: dict[str, Any], action: str, chosen: str) -> Outcome:
        self.evaluated += 1
        number = self._instances.get((action, chosen))
        if number is None:
            return Outcome(None, (f"there is no {action} with these rules and members",))
        instance = self.model.instances[number]
        scalars = _scalars(self.model, state)
        refused = self._interpreter.refusals(scalars, instance)
        if refused:
            return Outcome(None, tuple(refused))
        step = self._interpreter.step(scalars, number)
        assert step.state is not None
        return Outcome(self.model.decode(step.state))

    def violated(self, belief: Belief, nodes: list[int]) -> tuple[str, ...]:
        """The properties that these members' states violate, by name. Raises TooLarge where they do not fit."""
        window = Window(belief, nodes, commits=True)
        if len(window.offsets) > WIDE:
            raise TooLarge(f"a state has {len(window.offsets)} offsets")
        state = window.state(self.voters, self.members, EPOCHS, self._wide_budgets)
        key = encode(state)
        if key not in self._asked:
            if len(self._asked) >= KEPT:
                self._asked.clear()
            self._asked[key] = tuple(Interpreter.violated(self._asker, _scalars(self._wide, state)))
        return self._asked[key]

    @cached_property
    def _asker(self) -> Interpreter:
        return Interpreter(self._wide)

    @cached_property
    def _budgets(self) -> dict[str, int]:
        return _granted(self.model)

    @cached_property
    def _wide_budgets(self) -> dict[str, int]:
        return _granted(self._wide)


def _granted(model: Model) -> dict[str, int]:
    granted: dict[str, int] = BUDGETS.granted(model.protocol.p)
    return granted


def _scalars(model: Model, state: dict[str, Any]) -> tuple[int, ...]:
    return tuple(node.value for node in model.protocol.state.lift(state).nodes)
