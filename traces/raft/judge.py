"""The protocol `quorum` on windows of a belief: single steps, and properties, in states of ranks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

from highwater.invariants.quorum import INVARIANTS
from highwater.model.language.model import Scalars
from highwater.model.language.step import Memo, Stepper, with_room
from highwater.model.quorum import Quorum
from highwater.model.quorum.cluster import BUDGETS
from highwater.traces.raft.belief import Belief
from highwater.traces.raft.window import OBSERVERS, TooLarge, Window

PROFILE = "kafka_4_2"
EPOCHS, OFFSETS = 6, 16
WIDE = 40
"""The most offsets that the properties of a whole belief can be about."""
REMEMBERED = 100_000


class Outcome(NamedTuple):
    """The result of a step: the state after it by the model's numbers, or the guards that refuse it."""

    after: Mapping[str, Any] | None
    refused: tuple[str, ...] = ()


class Judge:
    """A quorum of so many voters, with these rules. Every answer is remembered, up to a limit."""

    def __init__(self, voters: int, rules: frozenset[str]) -> None:
        self.voters, self.members, self.rules = voters, voters + OBSERVERS, rules
        self.steps, self.states = Memo(REMEMBERED), Memo(REMEMBERED)

    def _stepper(self, offsets: int) -> Stepper:
        sizes = {
            "voters": self.voters,
            "observers": OBSERVERS,
            "elections": EPOCHS - 1,
            "appends": offsets - EPOCHS,
        }
        return Stepper(with_room(Quorum, {**sizes, "restarts": 1, "losses": 1}, self.rules))

    @cached_property
    def _narrow(self) -> Stepper:
        return self._stepper(OFFSETS)

    @cached_property
    def _wide(self) -> Stepper:
        return self._stepper(WIDE)

    @cached_property
    def _properties(self) -> list[Any]:
        return [p for p in INVARIANTS if self._wide.protocol.has(p)]

    @cached_property
    def _holds(self) -> Any:
        return self._wide.functions([p.function for p in self._properties])

    def take(self, window: Window, action: str, **parameters: int) -> Outcome:
        """One step of an action in a window. Raises TooLarge if the window does not fit."""
        if len(window.offsets.values) > OFFSETS:
            raise TooLarge(f"a step is about {len(window.offsets.values)} offsets")
        state = self._state(self._narrow, window)
        key = action, tuple(sorted(parameters.items())), state
        return self.steps.of(key, self._take, state, action, parameters)

    def _take(self, state: Scalars, action: str, parameters: Mapping[str, int]) -> Outcome:
        step = self._narrow.named(action, parameters)
        if step is None:
            return Outcome(None, (f"there is no {action} with these rules and members",))
        refused = step.refusals(state)
        if refused:
            return Outcome(None, refused)
        left, after = step.result(state)
        assert not left, left[0].message
        return Outcome(self._narrow.decode(after))

    def violated(self, belief: Belief, nodes: list[int]) -> tuple[str, ...]:
        """The properties that these members' states violate, by name. Raises TooLarge if they do not fit."""
        window = Window(belief, nodes, commits=True)
        if len(window.offsets.values) > WIDE:
            raise TooLarge(f"a state has {len(window.offsets.values)} offsets")
        state = self._state(self._wide, window)
        return self.states.of(state, self._violated, state)

    def _violated(self, state: Scalars) -> tuple[str, ...]:
        results = self._holds(state)
        return tuple(p.name for p, holds in zip(self._properties, results, strict=True) if not holds)

    def _state(self, stepper: Stepper, window: Window) -> Scalars:
        budgets = BUDGETS.granted(stepper.protocol.p)
        return stepper.encode(window.state(self.voters, self.members, EPOCHS, budgets))
