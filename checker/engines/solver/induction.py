"""Proof by induction: every action preserves every invariant, from any state within the types, reachable or not.

An invariant that holds initially and that every step preserves holds in runs of any length. A step that does not
preserve an invariant is a *counterexample to induction*. The state before such a step satisfies all invariants, but
may be unreachable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import z3

from highwater.checker.base.processes import answers
from highwater.checker.engines.solver.bounded import OpenStep, begins, instance_number, listed, steps
from highwater.checker.engines.solver.terms import (
    Limits,
    Numbers,
    Stopped,
    Translator,
    interrupts_held,
    is_wide,
)
from highwater.checker.scenarios.catalogue import Definition
from highwater.checker.scenarios.request import Request
from highwater.model.language import Invariant, Model, StepProperty, graph
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import BoundError, Interpreter, compile_nodes
from highwater.model.language.model import Instance, Property

INITIAL = "initial"
"""In a verdict on the initial states, this name stands in place of an action."""

WITHIN_TYPES = "within_types"
"""The name of a condition that is checked for every action: a step leaves no type, except at a declared bound."""


@dataclass(frozen=True)
class Failure:
    """A step that does not preserve a property, confirmed by the interpreter.

    ``after`` is None if the step leaves a type. If ``instance`` is None, there is no step: ``before`` is an initial
    state that violates the invariant. ``excluded_by`` names known invariants that ``before`` violates and that the
    proof does not assume.
    """

    instance: Instance | None
    before: Scalars
    after: Scalars | None
    excluded_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Preserved:
    """The verdict on an action and a property: ``kept`` is True if the action preserves the property.

    If ``kept`` is False, ``failure`` shows why.
    """

    action: str
    property: str
    kept: bool
    failure: Failure | None = None


@dataclass
class InductionResult:
    """One verdict for each pair of an action and a property, in the order of the model.

    ``stopped_by`` is None if the check finished. Otherwise it is the reason why the check ended early, and some
    verdicts are missing.
    """

    verdicts: list[Preserved] = field(default_factory=list)
    stopped_by: str | None = None
    seconds: float = 0.0
    never: list[str] = field(default_factory=list)
    """Actions that are disabled in every state that satisfies the invariants."""

    @property
    def failures(self) -> list[Preserved]:
        """The verdicts on properties that an action does not preserve, or that an initial state violates."""
        return [v for v in self.verdicts if not v.kept]

    @property
    def proved(self) -> bool:
        """True if the check finished, and every verdict is that the property is preserved or holds initially."""
        return self.stopped_by is None and all(v.kept for v in self.verdicts)


def prove(
    model: Model,
    *,
    known: Iterable[Invariant] = (),
    limits: Limits | None = None,
    actions: Iterable[str] | None = None,
    workers: int = 1,
    progress: Callable[[str, float], None] | None = None,
) -> InductionResult:
    """Check that every action preserves the conjunction of the model's invariants, and satisfies the step properties.

    Without ``actions``, the initial states are also checked.

    - ``known``: further invariants, which the proof does not assume. If the state before a failing step violates
      some of them, the failure names these.
    - ``actions``: the actions to check; None: all actions.
    - ``workers``: the number of actions checked at the same time. With more than one, the
      states in failures can differ between two runs, but the verdicts cannot.
    """
    limits = limits or Limits()
    result = InductionResult()
    started = limits.used
    question = _Question(model, known, limits)
    own = {n: s for n, s in question.by_action().items() if actions is None or n in actions}
    found: dict[str, _Decided] = {}

    def decide(name: str) -> _Decided:
        began = limits.used
        with interrupts_held():
            failures = question.action(own[name])
        return _Decided(failures, name in question.possible, limits.used - began)

    try:
        if actions is None:
            with interrupts_held():
                result.verdicts += question.initial()
        for name, decided in answers(list(own), decide, workers):
            found[name] = decided
            if progress:
                progress(name, decided.seconds)
    except Stopped as stopped:
        result.stopped_by = stopped.why
    except KeyboardInterrupt:
        result.stopped_by = "interrupted"
    for name in own:
        if name in found:
            result.verdicts += question.verdicts(name, found[name].failures)
            if not found[name].possible:
                result.never.append(name)
    result.seconds = limits.used - started
    return result


@dataclass(frozen=True)
class _Decided:
    """A failing step for each property that an action does not preserve, and the time in seconds.

    ``possible`` is False if the action is disabled in every state that satisfies the invariants.
    """

    failures: dict[str, _Step]
    possible: bool
    seconds: float


@dataclass(frozen=True)
class _Step:
    """A failing step as plain data: the instance's number, the states, and the known invariants that exclude it."""

    instance: int
    before: Scalars
    after: Scalars | None
    excluded_by: tuple[str, ...]


class _Question:
    """The checks of a proof, with the constraints that all of them share."""

    def __init__(self, model: Model, known: Iterable[Invariant], limits: Limits) -> None:
        self.model, self.limits = model, limits
        self.interpreter = Interpreter(model)
        self.steps = steps(model, grouped=True)
        assumed = {p.name for p in model.properties}
        others = [i for i in known if i.name not in assumed and model.protocol.has(i)]
        self.known: list[Property] = [model.trace_invariant(i) for i in others]
        self._excludes = compile_nodes([p.node for p in self.known])
        self.open_leaves = [leaf for step in self.steps for leaf in step.leaves]
        self.numbers = Numbers()
        leaves = [*model.leaves, *self.open_leaves]
        self.variables = [self.numbers.variable(f"{leaf.path}#{i}", leaf) for i, leaf in enumerate(leaves)]
        self.in_types = [
            c for v, leaf in zip(self.variables, leaves, strict=True) for c in self.numbers.in_type(v, leaf)
        ]
        self.logic = None if any(is_wide(leaf.low, leaf.high) for leaf in leaves) else "QF_BV"
        self.translate = Translator(self.numbers, self.variables)
        self.possible: set[str] = set()

    def initial(self) -> list[Preserved]:
        """For each invariant, the verdict on the initial states."""
        found, few = [], listed(self.model)
        for prop in self.model.properties:
            if few is None:
                wrong = self._initial_without(prop)
            else:
                wrong = next((s for s in few if prop.name in self.interpreter.violated(s)), None)
            failure = None if wrong is None else Failure(None, wrong, wrong)
            found.append(Preserved(INITIAL, prop.name, failure is None, failure))
        return found

    def _initial_without(self, prop: Property) -> Scalars | None:
        """An initial state that violates ``prop``, found by the solver; None if there is none."""
        state = self.variables[: len(self.model.leaves)]
        solver = z3.SolverFor(self.logic) if self.logic else z3.Solver()
        solver.add(self.in_types)
        solver.add(begins(self.model, self.numbers, state))
        solver.add(z3.Not(self.translate(prop.node)))
        if not self.limits.check(solver):
            return None
        solution = solver.model()
        pairs = zip(state, self.model.leaves, strict=True)
        wrong = tuple(self.numbers.value(solution, term, leaf) for term, leaf in pairs)
        if prop.name not in self.interpreter.violated(wrong) or not self.model.is_initial(wrong):
            raise AssertionError("the solver's initial state is none, or satisfies the property")
        return wrong

    def by_action(self) -> dict[str, list[OpenStep]]:
        found: dict[str, list[OpenStep]] = {}
        for step in self.steps:
            found.setdefault(step.name, []).append(step)
        return found

    def action(self, own: list[OpenStep]) -> dict[str, _Step]:
        """For each property that some step of an action does not preserve: the first such step found.

        ``own`` are the action's steps.
        """
        failures: dict[str, _Step] = {}
        for step in own:
            self._step(step, failures)
        return failures

    def verdicts(self, name: str, failures: dict[str, _Step]) -> list[Preserved]:
        """For each property, the verdict on the action ``name``, given the action's failures."""
        found = {
            prop: Failure(self.model.instances[f.instance], f.before, f.after, f.excluded_by)
            for prop, f in failures.items()
        }
        return [Preserved(name, p, p not in found, found.get(p)) for p in (WITHIN_TYPES, *self.model.safety)]

    def _step(self, step: OpenStep, failures: dict[str, _Step]) -> None:
        solver = z3.SolverFor(self.logic) if self.logic else z3.Solver()
        solver.add(self.in_types)
        translate, instance, model = self.translate, step.instance, self.model
        solver.add([translate(p.node) for p in model.properties])
        solver.add(translate(graph.and_(instance.enabled, step.chosen)))
        if step.name not in self.possible and self.limits.check(solver):
            self.possible.add(step.name)
        cut = graph.any_(c.node for c in instance.checks if c.bound)
        error = graph.any_(c.node for c in instance.checks if not c.bound)
        if error is not graph.FALSE and WITHIN_TYPES not in failures:
            wrong = z3.Bool("leaves a type")
            solver.add(z3.Implies(wrong, translate(graph.and_(error, graph.not_(cut)))))
            if self.limits.check(solver, wrong):
                failures[WITHIN_TYPES] = self._failure(step, solver.model())[0]
        solver.add(translate(graph.not_(graph.or_(cut, error))))
        after = [
            translate.scalar(instance.writes[i].node, leaf) if i in instance.writes else self.variables[i]
            for i, leaf in enumerate(model.leaves)
        ]
        following = Translator(self.numbers, after)
        both = Translator(self.numbers, [*self.variables[: len(after)], *after])
        holds = {p.name: following(p.node) for p in model.properties}
        holds |= {p.name: both(p.node) for p in model.step_properties}
        left = [name for name in holds if name not in failures]
        while left:
            broken = z3.Bool(f"broken#{len(left)}")
            solver.add(z3.Implies(broken, z3.Not(z3.And([holds[name] for name in left]))))
            if not self.limits.check(solver, broken):
                return
            failure, wrong_names = self._failure(step, solver.model())
            new = [name for name in left if name in wrong_names]
            if not new:
                raise AssertionError("the solver's step breaks nothing: its terms are not the graph's")
            failures.update(dict.fromkeys(new, failure))
            left = [name for name in left if name not in wrong_names]

    def _failure(self, step: OpenStep, solution: z3.ModelRef) -> tuple[_Step, set[str]]:
        """The step in ``solution``, as the interpreter takes it, and the names of the properties that it violates."""
        model, numbers = self.model, self.numbers
        before = tuple(
            numbers.value(solution, v, leaf) for v, leaf in zip(self.variables, model.leaves, strict=False)
        )
        own = self.variables[step.start :][: len(step.leaves)] if step.leaves else []
        scalars = [numbers.value(solution, v, leaf) for v, leaf in zip(own, step.leaves, strict=True)]
        number = instance_number(model, step, scalars)
        instance = model.instances[number]
        if self.interpreter.violated(before) or self.interpreter.refusals(before, instance):
            raise AssertionError(
                "the solver's step is none in the interpreter: its terms are not the graph's"
            )
        excluded = tuple(p.name for p, h in zip(self.known, self._excludes(before), strict=True) if not h)
        try:
            after = self.interpreter.step(before, number).state
        except BoundError:
            return _Step(number, before, None, excluded), {WITHIN_TYPES}
        assert after is not None
        wrong = {*self.interpreter.broken(before, after), *self.interpreter.violated(after)}
        return _Step(number, before, after, excluded), wrong


# The helpers of proofs by induction: invariants and step properties that a protocol declares only for proofs.


@dataclass(frozen=True)
class Helpers:
    """The helper invariants and helper step properties of a protocol. Both can be empty."""

    invariants: tuple[Invariant, ...] = ()
    steps: tuple[StepProperty, ...] = ()


def helpers(definition: Definition) -> Helpers:
    """The helper invariants and helper step properties in a protocol's definition."""
    listed = definition.helpers
    return Helpers(
        tuple(p for p in listed if isinstance(p, Invariant)),
        tuple(p for p in listed if isinstance(p, StepProperty)),
    )


def with_helpers(request: Request) -> Request:
    """The request without goals, and with the protocol's helpers added to its properties.

    Helpers that do not exist under the request's rules are left out.
    """
    own = helpers(request.scenario.definition)
    return replace(
        request,
        invariants=(*request.invariants, *(p for p in own.invariants if _is_missing(p, request))),
        step_properties=(*request.step_properties, *(p for p in own.steps if _is_missing(p, request))),
        goals=(),
    )


def _is_missing(stated: Invariant | StepProperty, request: Request) -> bool:
    return not request.why_absent(stated) and stated not in (*request.invariants, *request.step_properties)
