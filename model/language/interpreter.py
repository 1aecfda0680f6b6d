"""The interpreter evaluates the graph on plain values. It is the reference for the other engines.

``TracedStep`` evaluates one action instance. ``Interpreter`` evaluates all instances and properties of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from highwater.model.language.errors import BoundError
from highwater.model.language.graph import (
    Evaluate,
    Node,
    Values,
    compile_conditions,
    compile_nodes,
    values_of,
)
from highwater.model.language.initial import Scalars
from highwater.model.language.model import Instance, Model
from highwater.model.language.tracing import Check


class TracedStep:
    """An action instance as functions of a state's scalars. Each function is compiled on its second use.

    One parameter of the action can be an additional input of the functions; ``arguments`` are then its scalars.
    """

    def __init__(
        self, instance: Instance, functions: dict[str, Evaluate | None] | None = None, arguments: Scalars = ()
    ) -> None:
        self.instance, self._arguments = instance, arguments
        self._functions = {} if functions is None else functions

    @cached_property
    def guards(self) -> tuple[str, ...]:
        """The names of the instance's guards."""
        return tuple(g.name for g in self.instance.guards)

    def enabled(self, state: Sequence[int]) -> bool:
        """True if every guard of the instance holds in the state."""
        return all(self._values("enabled", self._guards, state, compile_conditions))

    def refusals(self, state: Sequence[int]) -> tuple[str, ...]:
        """The names of the instance's guards that do not hold in the state."""
        results = self._values("guards", self._guards, state)
        return tuple(name for name, holds in zip(self.guards, results, strict=True) if not holds)

    def after(self, state: Sequence[int]) -> Scalars:
        """The state after the step. Guards and bounds are not checked."""
        return self._written(state, self._values("writes", self._writes, state))

    def result(self, state: Sequence[int]) -> tuple[list[Check], Scalars]:
        """The checks that are true for the step (crossed bounds and errors), and the state after the step."""
        checks = self.instance.checks
        results = self._values("result", lambda: [*(c.node for c in checks), *self._writes()], state)
        left = [c for c, is_left in zip(checks, results, strict=False) if is_left]
        return left, self._written(state, results[len(checks) :])

    def _guards(self) -> list[Node]:
        return [g.node for g in self.instance.guards]

    def _writes(self) -> list[Node]:
        return [w.node for w in self.instance.writes.values()]

    def _written(self, state: Sequence[int], values: Values) -> Scalars:
        after = list(state)
        for leaf, value in zip(self.instance.writes, values, strict=True):
            after[leaf] = int(value)
        return tuple(after)

    def _values(
        self,
        part: str,
        roots: Callable[[], list[Node]],
        state: Sequence[int],
        compiled: Callable[[list[Node]], Evaluate] = compile_nodes,
    ) -> Values:
        scalars = (*state, *self._arguments) if self._arguments else state
        function = self._functions.get(part)
        if function is None:
            if part not in self._functions:
                self._functions[part] = None
                return values_of(roots(), scalars)
            function = self._functions[part] = compiled(roots())
        return function(scalars)


@dataclass(frozen=True)
class PossibleStep:
    """An enabled step: its action instance, and the next state (None if the step is pruned at the bound ``cut``)."""

    instance: Instance
    state: Scalars | None
    cut: str | None = None


class Interpreter:
    """Evaluates the guards, steps and properties of a Model in concrete states."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._steps: dict[int, TracedStep] = {}
        self.enabled_of = lru_cache(maxsize=512)(self._compile_enabled)
        self._guards_of = lru_cache(maxsize=64)(self._compile_guards)

    @cached_property
    def _enabled(self) -> Evaluate:
        return compile_nodes([i.enabled for i in self.model.instances])

    @cached_property
    def _holds(self) -> Evaluate:
        return compile_nodes([n for p in self.model.properties for n in (p.node, p.premise)])

    @cached_property
    def guards(self) -> Evaluate:
        """The function from a state to the values of all guards, instance by instance."""
        return compile_nodes([g.node for i in self.model.instances for g in i.guards])

    def refusals_of(self, state: Scalars, numbers: tuple[int, ...]) -> dict[int, list[str]]:
        """For each of these instances, by number, the names of the instance's guards that do not hold in the state."""
        results = iter(self._guards_of(numbers)(state))
        return {n: [g.name for g in self.model.instances[n].guards if not next(results)] for n in numbers}

    def _compile_enabled(self, numbers: tuple[int, ...]) -> Evaluate:
        """A function from a state to one bool for each of these instances: True if the instance's guards all hold."""
        return compile_nodes([self.model.instances[number].enabled for number in numbers])

    def _compile_guards(self, numbers: tuple[int, ...]) -> Evaluate:
        return compile_nodes([g.node for number in numbers for g in self.model.instances[number].guards])

    def steps(self, state: Scalars) -> Iterator[PossibleStep]:
        """All enabled steps from a state, also pruned ones, in the order of the model's instances."""
        for number in self.enabled(state):
            yield self.step(state, number)

    def enabled(self, state: Scalars) -> list[int]:
        """The numbers of the instances whose guards all hold in a state, ascending."""
        return [number for number, enabled in enumerate(self._enabled(state)) if enabled]

    def step(self, state: Scalars, number: int) -> PossibleStep:
        """The step of the instance with this number. The instance's guards must hold in the state.

        A step that crosses a bound of the scenario is returned as pruned. Raises BoundError for any other step that is
        an error: for example, it writes a value outside its type or divides by zero.
        """
        instance = self.model.instances[number]
        left, after = self._step_of(instance).result(state)
        cuts = [c.bound for c in left if c.bound]
        if cuts:
            return PossibleStep(instance, None, cuts[0])
        if left:
            raise BoundError(f"{instance}: {left[0].message}", left[0].place)
        return PossibleStep(instance, after)

    def _step_of(self, instance: Instance) -> TracedStep:
        found = self._steps.get(id(instance))
        if found is None:
            found = self._steps[id(instance)] = TracedStep(instance)
        return found

    def successors(self, state: Scalars) -> list[Scalars]:
        """The next states of all enabled steps from this state, except steps pruned at a bound."""
        return [s.state for s in self.steps(state) if s.state is not None]

    def violated(self, state: Scalars) -> list[str]:
        """The names of the invariants that do not hold in the state, and of the reachability goals that hold."""
        results = self._holds(state)
        return [p.name for p, holds in zip(self.model.properties, results[::2], strict=True) if not holds]

    def premises(self, state: Scalars) -> list[bool]:
        """For each invariant, True if its premise holds in the state."""
        return [bool(p) for p in self._holds(state)[1::2]]

    @cached_property
    def _steps_hold(self) -> Evaluate:
        return compile_nodes([n for p in self.model.step_properties for n in (p.node, p.premise)])

    def broken(self, before: Scalars, after: Scalars) -> list[str]:
        """The names of the step properties that the step from ``before`` to ``after`` violates.

        They include the reachability goals that the step satisfies.
        """
        properties = self.model.step_properties
        if not properties or before == after:
            return []
        results = self._steps_hold((*before, *after))
        return [p.name for p, holds in zip(properties, results[::2], strict=True) if not holds]

    def breaks(self, name: str, before: Scalars, after: Scalars) -> bool:
        """True if the step from ``before`` to ``after`` violates the step property of this name."""
        return before != after and not values_of([self.model.step_condition(name)], (*before, *after))[0]

    def step_premises(self, before: Scalars, number: int, after: Scalars) -> list[bool]:
        """For each step property, True if steps of the instance can violate it and this step satisfies its premise."""
        properties = self.model.step_properties
        if not any(number in p.asked for p in properties):
            return [False] * len(properties)
        met = self._steps_hold((*before, *after))[1::2]
        return [number in p.asked and bool(m) for p, m in zip(properties, met, strict=True)]

    def refusals(self, state: Scalars, instance: Instance) -> list[str]:
        """The names of the instance's guards that do not hold in the state."""
        return list(self._step_of(instance).refusals(state))

    def changes(self, before: Scalars, after: Scalars) -> dict[str, tuple[Any, Any]]:
        """The differences of two states: the path of each changed part, with (value before, value after)."""
        return differences(self.model.decode(before), self.model.decode(after))


def differences(before: Any, after: Any, path: str = "") -> dict[str, tuple[Any, Any]]:
    """The differences of two plain values: the path of each changed part, with (value before, value after)."""
    if before == after:
        return {}
    if isinstance(before, dict) and isinstance(after, dict):
        pairs = [(f"{path}.{k}" if path else str(k), before[k], after[k]) for k in before]
    elif (
        isinstance(before, list)
        and isinstance(after, list)
        and len(before) == len(after)
        and any(i is None or isinstance(i, (dict, list)) for i in before)
    ):
        pairs = [(f"{path}[{i}]", a, b) for i, (a, b) in enumerate(zip(before, after, strict=True))]
    else:
        return {path: (before, after)}
    found: dict[str, tuple[Any, Any]] = {}
    for name, a, b in pairs:
        found |= differences(a, b, name)
    return found


@lru_cache(maxsize=4)
def interpreter_of(model: Model) -> Interpreter:
    """The interpreter of a model. The interpreters of the last four models are cached."""
    return Interpreter(model)


__all__ = [
    "BoundError",
    "Evaluate",
    "Interpreter",
    "PossibleStep",
    "compile_nodes",
    "differences",
    "interpreter_of",
]
