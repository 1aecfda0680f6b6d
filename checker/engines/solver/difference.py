"""Comparison of two versions of a protocol: for each action, a state in which the versions differ, or none.

The solver compares one step from one state, with the same parameter values in both versions. If one version has more
fields, states have the fields of that version, and the solver compares the fields that both versions have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import z3

from highwater.checker.base import text
from highwater.checker.engines.solver.terms import (
    Limits,
    Numbers,
    Stopped,
    Term,
    Translator,
    interrupts_held,
    is_wide,
)
from highwater.checker.scenarios.model_key import by_action
from highwater.model.language import LanguageError, Model, graph
from highwater.model.language.graph import BITS, Node, substituted
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import BoundError, Interpreter
from highwater.model.language.model import Instance
from highwater.model.language.tracing import Check
from highwater.model.language.types import Leaf

_T = TypeVar("_T")
Pair = tuple[Instance | None, Instance | None]
"""A step in two versions, with the same parameter values; None if a version does not have it."""
SHORT = 64
"""The longest interval of a scalar (high minus low) for ``nearest_state`` to try all its values."""


@dataclass(frozen=True)
class Witness:
    """A state and parameter values for which two versions differ, confirmed by the interpreter.

    ``pair`` is the step in each version; None if the version does not have it. ``first`` and ``second`` are the states
    after the step; None if the version cannot take the step. All states are states of ``Union.whole``.
    """

    pair: Pair
    before: Scalars
    first: Scalars | None
    second: Scalars | None

    @property
    def step(self) -> Instance:
        """The step, in a version that has it."""
        first, second = self.pair
        step = first or second
        assert step is not None
        return step

    @property
    def sentence(self) -> str:
        """The sentence of the step."""
        return self.step.sentence

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameter values of the step."""
        return self.step.parameters


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

    def step(self, which: int, step: Instance) -> Instance:
        """A step of version ``which`` on the states of ``whole``, without writes of scalars that one version lacks."""
        places, shared = self.places[which], {*self.places[0]} & {*self.places[1]}
        inputs = {i: self.whole.inputs[place] for i, place in enumerate(places)}
        nodes = [graph.not_(step.leads_on), *(w.node for w in step.writes.values())]
        stopped, *written = substituted(nodes, inputs)
        writes = zip(step.writes.items(), written, strict=True)
        return replace(
            step,
            guards=(),
            writes={places[i]: replace(w, node=n) for (i, w), n in writes if places[i] in shared},
            checks=(Check(0, stopped, None, "", None),),
        )


def instances_of_both(before: Iterable[Instance], after: Iterable[Instance]) -> list[Pair]:
    """The instances of an action in two versions, paired by the values of their parameters."""
    old, new = ({_values(i): i for i in own} for own in (before, after))
    return [(old.get(key), new.get(key)) for key in dict.fromkeys([*old, *new])]


def _values(instance: Instance) -> str:
    return repr([list(v) if isinstance(v, tuple) else v for v in instance.parameters.values()])


def questions_of_both(
    a: Instance | None, b: Instance | None, inputs: Sequence[Node]
) -> tuple[Node, Node, Node]:
    """Three conditions on a state: the step is possible only in the second version; only in the first; it differs.

    The third condition holds if the step is possible in both versions and leads to different states. ``a`` is the
    instance in the first version and ``b`` in the second one; None if it does not exist there.
    """
    before, after = (graph.FALSE if i is None else i.leads_on for i in (a, b))
    both = graph.and_(before, after)
    return (
        graph.and_(after, graph.not_(before)),
        graph.and_(before, graph.not_(after)),
        graph.FALSE if a is None or b is None else graph.and_(both, leads_elsewhere(a, b, inputs)),
    )


def leads_elsewhere(a: Instance, b: Instance, inputs: Sequence[Node]) -> Node:
    """The condition that the steps of two instances from one state lead to different states."""
    return graph.any_(
        graph.not_(graph.eq(*(i.writes[leaf].node if leaf in i.writes else inputs[leaf] for i in (a, b))))
        for leaf in sorted({*a.writes, *b.writes})
    )


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
        steps = by_action(first), by_action(second)
        for name in dict.fromkeys(name for own in steps for name in own if not actions or name in actions):
            began = limits.used
            pairs = instances_of_both(*(own.get(name, []) for own in steps))
            found.actions[name] = nearest_witness(union, (first, second), pairs, limits, any_state=any_state)
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


@interrupts_held()
def nearest_witness(
    union: Union,
    models: tuple[Model, Model],
    pairs: Sequence[Pair],
    limits: Limits,
    *,
    any_state: bool = False,
) -> Witness | None:
    """A state near the initial one in which a pair of steps differs, and which satisfies the first model's invariants.

    None if there is no such state. With ``any_state``, the state may violate the invariants. Raises Stopped if the
    solver gives up.
    """
    numbers, leaves = Numbers(), union.whole.leaves
    state = [numbers.variable(leaf.path, leaf) for leaf in leaves]
    translate = Translator(numbers, state)
    questions = []
    for pair in pairs:
        own = [None if step is None else union.step(i, step) for i, step in enumerate(pair)]
        node = graph.any_(questions_of_both(own[0], own[1], union.whole.inputs))
        if node is not graph.FALSE:
            questions.append((pair, translate(node)))
    if not questions:
        return None
    wide = any(is_wide(leaf.low, leaf.high) for leaf in leaves)
    solver = z3.Solver() if wide else z3.SolverFor("QF_BV")
    for term, leaf in zip(state, leaves, strict=True):
        solver.add(numbers.in_type(term, leaf))
    if not any_state:
        of_first = Translator(numbers, union.of_version(0, state))
        solver.add([of_first(p.node) for p in models[0].properties])
    solver.add(z3.Or([term for _, term in questions]))
    if not limits.check(solver):
        return None
    before = tuple(nearest_state(solver, limits, numbers, state, leaves, union.whole.first_initial))
    solution = solver.model()
    pair = next(pair for pair, term in questions if z3.is_true(solution.eval(term, model_completion=True)))
    taken = [
        _taken(model, step, tuple(union.of_version(i, before)))
        for i, (model, step) in enumerate(zip(models, pair, strict=True))
    ]
    after = [union.with_version(i, before, state) for i, state in enumerate(taken)]
    return Witness(pair, before, after[0], after[1])


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


def _taken(model: Model, step: Instance | None, before: Scalars) -> Scalars | None:
    if step is None or Interpreter(model).refusals(before, step):
        return None
    try:
        return Interpreter(model).step(before, model.instances.index(step)).state
    except (BoundError, LanguageError):
        return None


def witness_lines(model: Model, witness: Witness, sides: tuple[str, str]) -> Iterator[str]:
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
