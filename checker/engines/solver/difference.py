"""Comparison of two versions of a protocol: for each action, a state in which the versions differ, or none.

The solver compares one step from one state, with the same parameter values in both versions. If one version has more
fields, states have the fields of that version, and the solver compares the fields that both versions have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import z3

from highwater.checker.base import text
from highwater.checker.engines.solver.bounded import OpenStep, instance_number, steps
from highwater.checker.engines.solver.terms import (
    Limits,
    Numbers,
    Stopped,
    Term,
    Translator,
    interrupts_held,
    is_wide,
)
from highwater.model.language import graph
from highwater.model.language.errors import LanguageError
from highwater.model.language.graph import BITS
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import BoundError, Interpreter
from highwater.model.language.model import Instance, Model
from highwater.model.language.types import Leaf

_T = TypeVar("_T")
SHORT = 64
"""The longest interval of a scalar (high minus low) for ``nearest_state`` to try all its values."""


@dataclass(frozen=True)
class Witness:
    """A state and parameter values for which two versions differ, confirmed by the interpreter.

    ``first`` and ``second`` are the states after the step in each version; None if the version cannot take the step.
    ``sentence`` describes the step. All states are states of ``Union.whole``.
    """

    sentence: str
    parameters: dict[str, Any]
    before: Scalars
    first: Scalars | None
    second: Scalars | None


@dataclass
class Differences:
    """The result of a comparison: for each compared action a witness, or None if the action does the same in both."""

    actions: dict[str, Witness | None] = field(default_factory=dict)
    stopped_by: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Union:
    """How the states of two versions correspond. ``whole`` is the version that has the fields of both.

    ``places`` has, for each version, the positions of the version's scalars in a state of ``whole``.
    """

    whole: Model
    places: tuple[tuple[int, ...], tuple[int, ...]]

    @classmethod
    def of(cls, first: Model, second: Model) -> Union:
        """The correspondence of two versions. Raises LanguageError if each version has fields that the other lacks."""
        whole = first if len(first.leaves) >= len(second.leaves) else second
        number = {leaf: i for i, leaf in enumerate(whole.leaves)}
        if alone := [leaf.path for m in (first, second) for leaf in m.leaves if leaf not in number]:
            own = ", ".join(dict.fromkeys(alone))
            raise LanguageError(f"neither version has all fields of the other, or with another type: {own}")
        return cls(whole, (tuple(number[x] for x in first.leaves), tuple(number[x] for x in second.leaves)))

    def of_version(self, which: int, state: Sequence[_T]) -> list[_T]:
        """The scalars of version ``which`` (0 or 1) in a state of ``whole``."""
        return [state[place] for place in self.places[which]]

    def with_version(self, which: int, before: Scalars, after: Scalars | None) -> Scalars | None:
        """The state ``before``, with version ``which``'s scalars replaced by ``after``; None if ``after`` is None."""
        if after is None:
            return None
        scalars = list(before)
        for place, value in zip(self.places[which], after, strict=True):
            scalars[place] = value
        return tuple(scalars)

    @property
    def shared(self) -> list[tuple[int, int]]:
        """For each scalar that both versions have, its position in the first version and in the second version."""
        second = {place: i for i, place in enumerate(self.places[1])}
        return [(i, second[place]) for i, place in enumerate(self.places[0]) if place in second]


def differences(
    first: Model,
    second: Model,
    *,
    any_state: bool = False,
    actions: Collection[str] = (),
    limits: Limits | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Differences:
    """Compare two versions of a protocol, action by action, in all states that satisfy the first version's invariants.

    With ``any_state``, compare in all states within the types. ``actions`` restricts the comparison; empty: all
    actions. A witness is near the initial state: each scalar in turn has the nearest value that allows a difference.
    Raises LanguageError if each version has fields that the other lacks.
    """
    union = Union.of(first, second)
    limits, found = limits or Limits(), Differences()
    started = limits.used
    try:
        pairs = _pairs(first, second)
        for name in dict.fromkeys(name for name, _, _ in pairs if not actions or name in actions):
            began, witness = limits.used, None
            for action, a, b in pairs:
                if action == name and witness is None:
                    with interrupts_held():
                        witness = _compare(union, (first, second), (a, b), any_state, limits)
            found.actions[name] = witness
            if progress:
                progress(name, limits.used - began)
    except Stopped as stopped:
        found.stopped_by = stopped.why
    except KeyboardInterrupt:
        found.stopped_by = "interrupted"
    found.seconds = limits.used - started
    return found


def only_in_one(first: Model, second: Model) -> list[str]:
    """The paths of the scalars that only one version has, or that differ in type."""
    shared = {*first.leaves} & {*second.leaves}
    return list(dict.fromkeys(x.path for x in (*first.leaves, *second.leaves) if x not in shared))


def _pairs(first: Model, second: Model) -> list[tuple[str, OpenStep | None, OpenStep | None]]:
    """Corresponding steps of two versions, as (action, step in the first or None, step in the second or None).

    An action's steps have open parameters if both versions allow it, else each instance is a step.
    """

    def by_key(model: Model, grouped: set[str]) -> dict[tuple[str, str], OpenStep]:
        chosen = [s for s in steps(model, grouped=True) if s.name in grouped]
        chosen += [s for s in steps(model, grouped=False) if s.name not in grouped]
        return {(s.name, repr(dict(s.instance.parameters) if not s.leaves else "")): s for s in chosen}

    def opened(model: Model) -> set[str]:
        return {s.name for s in steps(model, grouped=True) if s.leaves}

    def absent(model: Model) -> set[str]:
        return {a.name for a in type(model.protocol).actions()} - {i.action.name for i in model.instances}

    grouped = (opened(first) | absent(first)) & (opened(second) | absent(second))
    left, right = by_key(first, grouped), by_key(second, grouped)
    keys = dict.fromkeys([*left, *right])
    return [(key[0], left.get(key), right.get(key)) for key in keys]


def _compare(
    union: Union,
    models: tuple[Model, Model],
    pair: tuple[OpenStep | None, OpenStep | None],
    any_state: bool,
    limits: Limits,
) -> Witness | None:
    (first, second), (a, b) = models, pair
    numbers, leaves = Numbers(), union.whole.leaves
    chosen = next(s for s in (a, b) if s is not None)
    state = [numbers.variable(leaf.path, leaf) for leaf in leaves]
    parameters = [numbers.variable(f"{leaf.path}#", leaf) for leaf in chosen.leaves]
    wide = any(is_wide(leaf.low, leaf.high) for leaf in leaves)
    solver = z3.Solver() if wide else z3.SolverFor("QF_BV")
    for term, leaf in zip([*state, *parameters], [*leaves, *chosen.leaves], strict=True):
        solver.add(numbers.in_type(term, leaf))
    if not any_state:
        solver.add([Translator(numbers, union.of_version(0, state))(p.node) for p in first.properties])
    taken_a, after_a = _outcome(first, a, numbers, union.of_version(0, state), parameters)
    taken_b, after_b = _outcome(second, b, numbers, union.of_version(1, state), parameters)
    both = ((after_a[i], after_b[j]) for i, j in union.shared)
    other = z3.Or([x != y for x, y in both if not x.eq(y)])
    solver.add(z3.Or(taken_a != taken_b, z3.And(taken_a, other)))
    if not limits.check(solver):
        return None
    before = tuple(nearest_state(solver, limits, numbers, state, leaves, union.whole.first_initial))
    scalars = nearest_state(
        solver, limits, numbers, parameters, chosen.leaves, [x.low for x in chosen.leaves]
    )
    taken = [
        _taken(model, step, tuple(union.of_version(i, before)), scalars)
        for i, (model, step) in enumerate(((first, a), (second, b)))
    ]
    if all(taken) and all(taken[0][i] == taken[1][j] for i, j in union.shared):  # type: ignore[index]
        raise AssertionError("the versions are alike in the interpreter: the terms are not the graph's")
    return Witness(
        _sentence([(first, a), (second, b)], scalars),
        chosen.parameters(scalars),
        before,
        union.with_version(0, before, taken[0]),
        union.with_version(1, before, taken[1]),
    )


def nearest_state(
    solver: z3.Solver,
    limits: Limits,
    numbers: Numbers,
    terms: Sequence[Term],
    leaves: Sequence[Leaf],
    wanted: Sequence[int],
) -> list[int]:
    """Give each scalar in turn its possible value nearest to the wanted value, and return the values.

    The solver must have found a solution. The values become constraints of the solver. If a scalar's interval is
    longer than SHORT and it cannot have the wanted value, the solver chooses its value.
    """
    solution, found = solver.model(), []
    for term, leaf, value in zip(terms, leaves, wanted, strict=True):
        chosen = numbers.value(solution, term, leaf)
        for candidate in _nearest(leaf, value):
            if candidate == chosen:
                break
            solver.push()
            solver.add(term == numbers.literal(candidate, leaf))
            possible = limits.check(solver)
            if possible:
                solution, chosen = solver.model(), candidate
            solver.pop()
            if possible:
                break
        solver.add(term == numbers.literal(chosen, leaf))
        found.append(chosen)
    limits.check(solver)
    return found


def _nearest(leaf: Leaf, wanted: int) -> list[int]:
    """The values of a scalar by distance from ``wanted``. If its interval is longer than SHORT: only ``wanted``.

    The distance of two sets is the number of members that only one of them has.
    """
    if leaf.high - leaf.low > SHORT:
        return [wanted]

    def distance(value: int) -> int:
        return (value ^ wanted).bit_count() if leaf.sort == BITS else abs(value - wanted)

    return sorted(range(leaf.low, leaf.high + 1), key=lambda v: (distance(v), v))


def _outcome(
    model: Model, step: OpenStep | None, numbers: Numbers, state: list[Term], parameters: list[Term]
) -> tuple[Term, list[Term]]:
    """The condition that the step is taken, and the scalars after it. A ``step`` of None is never taken."""
    if step is None:
        return z3.BoolVal(False), state
    padding = [None] * (step.start - len(state))
    translate = Translator(numbers, [*state, *padding, *parameters])
    instance = step.instance
    after = [
        translate.scalar(instance.writes[i].node, leaf) if i in instance.writes else state[i]
        for i, leaf in enumerate(model.leaves)
    ]
    return translate(graph.and_(instance.leads_on, step.chosen)), after


def _sentence(versions: Sequence[tuple[Model, OpenStep | None]], scalars: list[int]) -> str:
    for model, step in versions:
        try:
            if step is not None:
                return model.instances[instance_number(model, step, scalars)].sentence
        except LanguageError:
            continue
    raise AssertionError("neither version has the step: the terms are not the graph's")


def _taken(model: Model, step: OpenStep | None, before: Scalars, scalars: list[int]) -> Scalars | None:
    if step is None:
        return None
    interpreter = Interpreter(model)
    try:
        number = instance_number(model, step, scalars)
        if interpreter.refusals(before, model.instances[number]):
            return None
        return interpreter.step(before, number).state
    except (BoundError, LanguageError):
        return None


def told(model: Model, witness: Witness, sides: tuple[str, str]) -> Iterator[str]:
    """Yield lines about a witness: its state's differences from the initial state, and the outcome in each version.

    ``sides`` names the versions.
    """
    yield "  State, where it is not the initial one:"
    yield from (f"      {line}" for line in special(model, witness.before) or ["(no difference)"])
    for side, after in zip(sides, (witness.first, witness.second), strict=True):
        if after is None:
            yield f"  {side}: the action cannot be taken"
        else:
            yield f"  {side}:"
            lines = changes(model, witness.before, after) or ["(nothing changes)"]
            yield from (f"      {line}" for line in lines)


def why_not(model: Model, instance: Instance | None, state: Scalars) -> str:
    """The reason why a step cannot be taken in a state. ``instance`` is None if the model does not have the step."""
    if instance is None:
        return "there is no such step with these parameters"
    guards = " and ".join(f"“{name}”" for name in Interpreter(model).refusals(state, instance))
    return f"refused by {guards or 'a bound'}"


def special(model: Model, state: Scalars) -> list[str]:
    """The fields in which a state differs from the first initial state, one line for each field."""
    found, type_ = Interpreter(model).changes(model.first_initial, state), model.protocol.state
    return [f"{path}  {text.say(text.at(type_, path), value)}" for path, (_, value) in found.items()]


def changes(model: Model, before: Scalars, after: Scalars) -> list[str]:
    """The fields that a step changes, one line for each field."""
    found = Interpreter(model).changes(before, after)
    return [text.change(model.protocol.state, path, values) for path, values in found.items()]
