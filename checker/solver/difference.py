"""Two versions of a protocol: whether every action does the same in both, for all states; else a state that tells.

Versions differ in rules, not in their states: what is compared is the step from one state with one choice of
parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import z3

from checker.solver.limits import Limits, Stopped
from checker.solver.steps import OpenStep, instance_number, steps
from checker.solver.terms import Numbers, Term, Translator, is_wide
from model.language import graph
from model.language.errors import LanguageError
from model.language.interpreter import BoundError, Interpreter
from model.language.model import Model, Scalars
from model.language.types import Leaf


@dataclass(frozen=True)
class Witness:
    """A state and a choice of parameters from which the versions go on differently, as the interpreter goes on.

    An outcome is the state after the step; None where the action cannot be taken, or is cut at a bound.
    """

    parameters: dict[str, Any]
    before: Scalars
    first: Scalars | None
    second: Scalars | None


@dataclass
class Differences:
    """What was found: for each action that was compared a witness, or None where the versions are equal."""

    actions: dict[str, Witness | None] = field(default_factory=dict)
    stopped_by: str | None = None
    seconds: float = 0.0

    @property
    def equal(self) -> bool:
        """Whether every action does the same in both versions."""
        return self.stopped_by is None and not any(self.actions.values())


def differences(
    first: Model,
    second: Model,
    *,
    any_state: bool = False,
    limits: Limits | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Differences:
    """Compare two models of one protocol, action by action, in all states that satisfy the first one's properties.

    With ``any_state`` in all states within the types. A witness is made like the initial state, scalar by scalar, as
    far as the difference allows. LanguageError where the states of the two are of different types.
    """
    if first.leaves != second.leaves:
        raise LanguageError("the two versions have different states: only their rules may differ")
    limits, found = limits or Limits(), Differences()
    started = limits.used
    try:
        pairs = _pairs(first, second)
        for name in dict.fromkeys(name for name, _, _ in pairs):
            began, witness = limits.used, None
            for action, a, b in pairs:
                if action == name and witness is None:
                    witness = _compare(first, second, a, b, any_state, limits)
            found.actions[name] = witness
            if progress:
                progress(name, limits.used - began)
    except Stopped as stopped:
        found.stopped_by = stopped.why
    except KeyboardInterrupt:
        found.stopped_by = "interrupted"
    found.seconds = limits.used - started
    return found


def _pairs(first: Model, second: Model) -> list[tuple[str, OpenStep | None, OpenStep | None]]:
    """The steps that correspond. An action is compared instance by instance unless both leave its parameters open."""

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
    first: Model, second: Model, a: OpenStep | None, b: OpenStep | None, any_state: bool, limits: Limits
) -> Witness | None:
    numbers, leaves = Numbers(), first.leaves
    chosen = next(s for s in (a, b) if s is not None)
    state = [_variable(numbers, f"{leaf.path}", leaf) for leaf in leaves]
    parameters = [_variable(numbers, f"{leaf.path}#", leaf) for leaf in chosen.leaves]
    wide = any(is_wide(leaf.low, leaf.high) for leaf in leaves)
    solver = z3.Solver() if wide else z3.SolverFor("QF_BV")
    for term, leaf in zip([*state, *parameters], [*leaves, *chosen.leaves], strict=True):
        solver.add(numbers.in_type(term, leaf))
    if not any_state:
        solver.add([Translator(numbers, state)(p.node) for p in first.properties])
    taken_a, after_a = _outcome(first, a, numbers, state, parameters)
    taken_b, after_b = _outcome(second, b, numbers, state, parameters)
    other = z3.Or([x != y for x, y in zip(after_a, after_b, strict=True) if not x.eq(y)])
    solver.add(z3.Or(taken_a != taken_b, z3.And(taken_a, other)))
    if not limits.check(solver):
        return None
    solution = solver.model()
    for term, value, leaf in zip(state, first.initial[0], leaves, strict=True):
        if leaf.low == leaf.high:
            continue
        wanted = term == numbers.literal(value, leaf)
        solver.push()
        solver.add(wanted)
        if limits.check(solver):
            solution = solver.model()
        else:
            solver.pop()
            solver.add(z3.Not(wanted))
    before = tuple(numbers.value(solution, t, leaf) for t, leaf in zip(state, leaves, strict=True))
    scalars = [numbers.value(solution, t, x) for t, x in zip(parameters, chosen.leaves, strict=True)]
    witness = Witness(
        chosen.parameters(scalars),
        before,
        _taken(first, a, before, scalars),
        _taken(second, b, before, scalars),
    )
    if witness.first == witness.second:
        raise AssertionError("the versions are alike in the interpreter: the terms are not the graph's")
    return witness


def _variable(numbers: Numbers, name: str, leaf: Leaf) -> Term:
    return numbers.literal(leaf.low, leaf) if leaf.low == leaf.high else numbers.variable(name, leaf)


def _outcome(
    model: Model, step: OpenStep | None, numbers: Numbers, state: list[Term], parameters: list[Term]
) -> tuple[Term, list[Term]]:
    """Whether the step is taken, and the scalars after it."""
    if step is None:
        return z3.BoolVal(False), state
    padding = [None] * (step.start - len(state))
    translate = Translator(numbers, [*state, *padding, *parameters])
    instance = step.instance
    stays = graph.not_(graph.any_(c.node for c in instance.checks))
    after = [
        translate.scalar(instance.writes[i].node, leaf) if i in instance.writes else state[i]
        for i, leaf in enumerate(model.leaves)
    ]
    return translate(graph.all_([instance.enabled, stays, step.chosen])), after


def _taken(model: Model, step: OpenStep | None, before: Scalars, scalars: list[int]) -> Scalars | None:
    """The outcome again, by the interpreter."""
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
    """A witness in words: what of the state is not as in the initial one, and both outcomes."""
    interpreter = Interpreter(model)
    yield "  State, where it is not the initial one:"
    yield from _changes(model, interpreter.changes(model.initial[0], witness.before), 1)
    for side, after in zip(sides, (witness.first, witness.second), strict=True):
        if after is None:
            yield f"  {side}: the action cannot be taken"
        else:
            yield f"  {side}:"
            yield from _changes(model, interpreter.changes(witness.before, after), 2)


def _changes(model: Model, changes: dict[str, tuple[Any, Any]], which: int) -> Iterator[str]:
    from checker import words

    for path, (before, after) in changes.items():
        inner = words.at(model.protocol.state, path)
        old = f"{words.say(inner, before)} → " if which == 2 else ""
        yield f"      {path}  {old}{words.say(inner, after)}"
    if not changes:
        yield "      (no difference)" if which == 1 else "      (nothing changes)"
