"""Runs of a model as a formula: a state for each depth, and one step between consecutive states.

The scalars of each state are terms of the solver. At each depth, a number selects the step. One constraint for each
scalar gives its next value: the value that the selected step writes, or the previous value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import z3

from highwater.checker.engines.solver.terms import (
    Limits,
    Numbers,
    Stopped,
    Term,
    Translator,
    bits_of,
    interrupts_held,
    is_wide,
)
from highwater.checker.scenarios.search import DEADLOCK, SearchResult, ViolatingRun
from highwater.model.language import Action, Bool, LanguageError, Model, graph
from highwater.model.language.errors import place_of
from highwater.model.language.graph import Node
from highwater.model.language.initial import FreePart, InitialFamily, Scalars
from highwater.model.language.interpreter import BoundError, Interpreter
from highwater.model.language.model import NO_STATE, Instance, trace_instance
from highwater.model.language.types import IntType, Leaf, Type, Value


class Unrolling:
    """All runs of a model up to a depth, as constraints. Initial states have depth 1; ``extend`` adds a depth."""

    def __init__(self, model: Model, numbers: Numbers) -> None:
        self.model, self.numbers = model, numbers
        self.states: list[list[Term]] = []
        self.choices: list[Term] = []
        """For each depth, the number of the instance that is the step to the next depth."""
        self._translators: list[Translator] = []

    @property
    def depth(self) -> int:
        """The number of states in the runs so far."""
        return len(self.states)

    def start(self) -> list[Term]:
        """Add the initial states, and return their constraints."""
        initial = listed(self.model)
        if initial is None:
            self._add(state := self._variables())
            return [begins(self.model, self.numbers, state)]
        literal, leaves = self.numbers.literal, self.model.leaves
        found = [[literal(v, leaf) for v, leaf in zip(scalars, leaves, strict=True)] for scalars in initial]
        if len(found) == 1:  # literals, which the solver's simplifier can use
            self._add(found[0])
            return []
        self._add(state := self._variables())
        same = [[term == value for term, value in zip(state, values_, strict=True)] for values_ in found]
        return [z3.Or([z3.And(conditions) for conditions in same])]

    def extend(self) -> list[Term]:
        """Add one step, and return its constraints."""
        translate = self._translators[-1]
        before, after = self.states[-1], self._variables()
        instances = self.model.instances
        fires = [self.choices[-1] == number for number in range(len(instances))]
        constraints: list[Term] = [z3.Or(fires)]
        writers: dict[int, list[tuple[Term, Term]]] = {}
        for fire, instance in zip(fires, instances, strict=True):
            constraints.append(z3.Implies(fire, translate(instance.leads_on)))
            for written, write in instance.writes.items():
                value = translate.scalar(write.node, self.model.leaves[written])
                writers.setdefault(written, []).append((fire, value))
        for number, leaf in enumerate(self.model.leaves):
            if leaf.low == leaf.high:
                continue
            value = before[number]
            for fire, new in writers.get(number, ()):
                value = z3.If(fire, new, value)
            constraints.append(after[number] == value)
            constraints += self.numbers.in_type(after[number], leaf)
        self._add(after)
        return constraints

    def holds(self, depth: int) -> dict[str, Term]:
        """For each invariant, the condition that the state at this depth satisfies it."""
        translate = self._translators[depth - 1]
        return {p.name: translate(p.node) for p in self.model.properties}

    def step_holds(self, depth: int) -> dict[str, Term]:
        """For each step property, the condition that the step to this depth satisfies it; empty for depth 1."""
        if depth < 2 or not self.model.step_properties:
            return {}
        translate = Translator(self.numbers, [*self.states[depth - 2], *self.states[depth - 1]])
        return {p.name: translate(p.node) for p in self.model.step_properties}

    def no_step(self, depth: int) -> Term:
        """The condition that no step is enabled at this depth, not even a step that is pruned."""
        translate = self._translators[depth - 1]
        return z3.Not(z3.Or([translate(i.enabled) for i in self.model.instances]))

    def leaves_a_type(self, depth: int) -> Term | None:
        """The condition that an enabled step leaves a type and no bound prunes it; None if that is impossible."""
        translate = self._translators[depth - 1]
        found = []
        for instance in self.model.instances:
            errors = graph.any_(c.node for c in instance.checks if not c.bound)
            if errors is graph.FALSE:
                continue
            cut = graph.any_(c.node for c in instance.checks if c.bound)
            wrong = graph.and_(graph.and_(instance.enabled, errors), graph.not_(cut))
            found.append(translate(wrong))
        return z3.Or(found) if found else None

    def run(self, solution: z3.ModelRef, name: str) -> ViolatingRun:
        """The run in ``solution``: an initial state, and the number of each step's instance.

        ``name`` is the violated property.
        """
        choices = self.choices[: self.depth - 1]
        path = [solution.eval(choice, model_completion=True).as_long() for choice in choices]
        return ViolatingRun(name, self.scalars(solution, 1), tuple(path))

    def scalars(self, solution: z3.ModelRef, depth: int) -> Scalars:
        """The scalars of the state at this depth in ``solution``."""
        terms = self.states[depth - 1]
        return tuple(
            self.numbers.value(solution, term, leaf)
            for term, leaf in zip(terms, self.model.leaves, strict=True)
        )

    def _variables(self) -> list[Term]:
        """Create variables for the scalars of the next state."""
        return [self.numbers.variable(f"{leaf.path}@{self.depth + 1}", leaf) for leaf in self.model.leaves]

    def _add(self, state: list[Term]) -> None:
        self.states.append(state)
        width = bits_of(0, max(len(self.model.instances) - 1, 1))
        self.choices.append(z3.BitVec(f"step@{self.depth}", width))
        self._translators.append(Translator(self.numbers, state))


LISTED = 64
"""The most initial states that are written as literals, which the solver's simplifier handles well."""


def listed(model: Model) -> list[Scalars] | None:
    """The initial states, if the model lists them or its families have at most LISTED candidates; otherwise None."""
    if model.start is None or model.start.candidates <= LISTED:
        return model.initial
    return None


def begins(model: Model, numbers: Numbers, state: Sequence[Term]) -> Term:
    """The condition that a state is initial, for a model whose initial states are families (``Model.start``)."""
    assert model.start is not None
    families = [_is_of(model.leaves, numbers, state, family) for family in model.start.families]
    return z3.And(z3.Or(families), Translator(numbers, state)(model.start.condition))


def _is_of(leaves: Sequence[Leaf], numbers: Numbers, state: Sequence[Term], family: InitialFamily) -> Term:
    """The condition that a state belongs to a family: each free part has one of its values, other scalars are fixed."""
    open_ = {part.start + i for part in family.parts for i in range(len(part.choices[0]))}
    same = [
        state[i] == numbers.literal(value, leaf)
        for i, (value, leaf) in enumerate(zip(family.scalars, leaves, strict=True))
        if i not in open_
    ]
    return z3.And([*same, *(_has_value(leaves, numbers, state, part) for part in family.parts)])


def _has_value(leaves: Sequence[Leaf], numbers: Numbers, state: Sequence[Term], part: FreePart) -> Term:
    """The condition that a free part has one of its values.

    If each value of the part's type is possible, the condition is that the value is in the type.
    """
    first, leaf = part.start, leaves[part.start]
    if len(part.choices[0]) == 1:
        values = {value for (value,) in part.choices}
        if values == set(range(leaf.low, leaf.high + 1)):
            return z3.And(numbers.in_type(state[first], leaf))
    own = range(first, first + len(part.choices[0]))
    return z3.Or(
        [
            z3.And([state[i] == numbers.literal(v, leaves[i]) for i, v in zip(own, choice, strict=True)])
            for choice in part.choices
        ]
    )


@dataclass(frozen=True)
class OpenStep:
    """A possible step: an instance in which some parameters have values and the others are open.

    The solver chooses the value of an open parameter. The scalars of open parameters are inputs of the formula;
    ``leaves`` are these scalars, numbered from ``start`` on, after the state's scalars. ``types`` has, for each
    open parameter, its first scalar's number and its type. ``chosen`` is the condition that all open parameters are
    in their domains.
    """

    instance: Instance
    start: int = 0
    leaves: tuple[Leaf, ...] = ()
    types: Mapping[str, tuple[int, Type]] = field(default_factory=dict)
    chosen: Node = graph.TRUE

    @property
    def name(self) -> str:
        """The name of the step's action."""
        return self.instance.action.name

    def parameters(self, scalars: Sequence[int]) -> dict[str, Any]:
        """The values of all parameters; ``scalars`` are the values of the open parameters' scalars."""
        found = dict(self.instance.parameters)
        for name, (start, type_) in self.types.items():
            found[name] = type_.decode(scalars[start - self.start :][: type_.leaf_count])
        return found


def steps(model: Model, *, grouped: bool) -> list[OpenStep]:
    """All possible steps: the model's instances or, with ``grouped``, one step with open parameters for each action.

    An action whose parameters cannot be open keeps its instances.
    """
    if not grouped:
        return [OpenStep(instance) for instance in model.instances]
    found: list[OpenStep] = []
    start = len(model.leaves)
    possible = {i.action.name for i in model.instances}
    for action in model.actions:
        if action.name not in possible:
            continue
        step = _open(model, action, start) if action.domains else None
        if step is not None:
            start += len(step.leaves)
            found.append(step)
        else:
            found += [OpenStep(i) for i in model.instances if i.action is action]
    return found


def instance_number(model: Model, step: OpenStep, scalars: Sequence[int]) -> int:
    """The number of the model's instance for a step whose open parameters have these scalars.

    Raises LanguageError if there is no such instance, because its guards cannot hold.
    """
    wanted = step.parameters(scalars)
    for number, instance in enumerate(model.instances):
        if instance.action is step.instance.action and dict(instance.parameters) == wanted:
            return number
    raise LanguageError(f"{step.name} has no instance with {wanted}")


def _open(model: Model, action: Action, start: int) -> OpenStep | None:
    leaves: list[Leaf] = []
    types: dict[str, tuple[int, Type]] = {}
    chosen = graph.TRUE
    choice: dict[str, tuple[Any, Any]] = {}
    for name, attribute in action.domains.items():
        domain = getattr(model.protocol, attribute)
        constants = None if isinstance(domain, Type) else list(domain)
        type_ = domain if isinstance(domain, Type) else _common_type(constants or [])
        if type_ is None:
            return None
        own = type_.leaves(name)
        first = start + len(leaves)
        nodes = [
            graph.const(leaf.low, leaf.sort)
            if leaf.low == leaf.high
            else graph.leaf(first + i, leaf.sort, leaf.low, leaf.high)
            for i, leaf in enumerate(own)
        ]
        if constants is not None:
            chosen = graph.and_(chosen, graph.any_(_equal(type_, nodes, plain) for plain in constants))
        leaves += own
        types[name] = first, type_
        choice[name] = type_.wrap(nodes), None
    try:
        instance = trace_instance(
            model.protocol, model.leaves, [*model.inputs, *_places(start, leaves)], action, choice
        )
    except (LanguageError, TypeError, ValueError, AttributeError, KeyError, IndexError):
        return None  # the action needs parameter values; the model's instances have values
    return None if instance is None else OpenStep(instance, start, tuple(leaves), types, chosen)


def _places(start: int, leaves: Sequence[Leaf]) -> Iterator[Node]:
    for number, leaf in enumerate(leaves, start):
        yield graph.leaf(number, leaf.sort, leaf.low, leaf.high)


def _common_type(constants: Sequence[Any]) -> Type | None:
    """A type that contains all values of a parameter; None if there is no such type."""
    if not constants:
        return None
    if all(isinstance(c, bool) for c in constants):
        return Bool
    if all(isinstance(c, int) and not isinstance(c, bool) for c in constants):
        return IntType(min(constants), max(constants))
    types = [c.type if isinstance(c, Value) else None for c in constants]
    return types[0] if types[0] is not None and all(t == types[0] for t in types) else None


def _equal(type_: Type, nodes: Sequence[Node], plain: Any) -> Node:
    return graph.all_(graph.eq(a, b) for a, b in zip(nodes, type_.lift(plain).nodes, strict=True))


# Bounded check: for each depth, find a run from an initial state that ends in a violation there.
#
# Depths are checked in order, so the first run found for a property is a shortest one. A property that holds at a depth
# becomes a constraint for the later depths.

LOGIC = "QF_BV"


@dataclass(frozen=True)
class DepthDone:
    """The result at one depth: the properties first violated there, and the number of properties not yet violated."""

    depth: int
    violated: tuple[str, ...]
    holding: int
    seconds: float


@dataclass
class BoundedResult(SearchResult):
    """The result of a bounded check.

    ``stopped_by`` is "depth" if all requested depths were checked, and None if no run is longer than ``depth``.
    """

    depths: list[DepthDone] = field(default_factory=list)


def check(
    model: Model,
    depth: int,
    *,
    deadlock: bool = False,
    stop_at_first: bool = False,
    limits: Limits | None = None,
    progress: Callable[[DepthDone], None] | None = None,
) -> BoundedResult:
    """Check all safety properties of a model in every state that is reachable within ``depth - 1`` steps.

    The solver chooses among action instances, which is faster than to choose among parameter values. Raises
    BoundError if a step leaves a type and no bound prunes it, and LanguageError if there is no initial state.
    """
    limits = limits or Limits()
    result = BoundedResult(stopped_by="depth")
    started = limits.used
    try:
        with interrupts_held():
            _deepen(model, depth, result, deadlock, stop_at_first, limits, progress)
    except Stopped as stopped:
        result.stopped_by = stopped.why
    except KeyboardInterrupt:
        result.stopped_by = "interrupted"
    result.seconds = limits.used - started
    return result


def _deepen(
    model: Model,
    depth: int,
    result: BoundedResult,
    deadlock: bool,
    stop_at_first: bool,
    limits: Limits,
    progress: Callable[[DepthDone], None] | None,
) -> None:
    interpreter = Interpreter(model)
    mixed = any(is_wide(leaf.low, leaf.high) for leaf in model.leaves)
    solver = z3.Solver() if mixed else z3.SolverFor(LOGIC)
    runs = Unrolling(model, Numbers())
    solver.add(runs.start())
    if listed(model) is None and not limits.check(solver):
        raise LanguageError(NO_STATE, place_of(model.protocol.initially))
    left = model.safety + [DEADLOCK] * deadlock
    while True:
        before = limits.used
        found: list[str] = []
        holds = _holding(runs, deadlock)
        while left:
            broken = z3.Bool(f"violated@{runs.depth}#{len(found)}")
            solver.add(z3.Implies(broken, z3.Not(z3.And([holds[name] for name in left if name in holds]))))
            if not limits.check(solver, broken):
                break
            solution = solver.model()
            state = runs.scalars(solution, runs.depth)
            violated = set(interpreter.violated(state))
            if runs.depth > 1:
                violated |= set(interpreter.broken(runs.scalars(solution, runs.depth - 1), state))
            if deadlock and not any(True for _ in interpreter.steps(state)):
                violated.add(DEADLOCK)
            new = [name for name in left if name in violated]
            if not new:
                raise AssertionError("the solver's state violates nothing: its terms are not the graph's")
            result.violations += [runs.run(solution, name) for name in new]
            found += new
            left = [name for name in left if name not in violated]
        _errors(runs, solver, interpreter, limits)
        solver.add([holds[name] for name in left if name in holds])
        result.depth = runs.depth
        result.depths.append(DepthDone(runs.depth, tuple(found), len(left), limits.used - before))
        if progress:
            progress(result.depths[-1])
        if result.violations and (stop_at_first or not left):
            result.stopped_by = "violation"
            return
        if runs.depth >= depth:
            return
        solver.add(runs.extend())
        if not limits.check(solver):
            result.stopped_by = None  # there is no longer run: every state was checked
            return


def _holding(runs: Unrolling, deadlock: bool) -> dict[str, z3.BoolRef]:
    """For each property, the condition that it holds: in the last state or, for a step property, in the last step."""
    holds = runs.holds(runs.depth) | runs.step_holds(runs.depth)
    return holds | ({DEADLOCK: z3.Not(runs.no_step(runs.depth))} if deadlock else {})


def _errors(runs: Unrolling, solver: z3.Solver, interpreter: Interpreter, limits: Limits) -> None:
    """Raises BoundError if the solver finds a step that leaves a type and that no bound prunes.

    The interpreter repeats the step and raises the error.
    """
    term = runs.leaves_a_type(runs.depth)
    if term is None:
        return
    wrong = z3.Bool(f"error@{runs.depth}")
    solver.add(z3.Implies(wrong, term))
    if limits.check(solver, wrong):
        for _ in interpreter.steps(runs.scalars(solver.model(), runs.depth)):
            pass
        raise BoundError("the solver found a step that leaves a type, and the interpreter does not")
