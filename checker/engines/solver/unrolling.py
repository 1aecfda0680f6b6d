"""Runs as a formula: a state for each depth, and between two of them one step, whichever it is.

The scalars of each state are constants of the solver. One number a depth says which step is taken; a scalar
that the step does not write stays, so there are no frames to state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import z3

from highwater.checker.asking.search import ViolatingRun
from highwater.checker.engines.solver.start import begins, listed
from highwater.checker.engines.solver.steps import OpenStep, instance_number
from highwater.checker.engines.solver.terms import Numbers, Term, Translator, bits_of
from highwater.model.language import graph
from highwater.model.language.model import Model, Scalars
from highwater.model.language.types import Leaf


@dataclass(frozen=True)
class StepTaken:
    """The step between two depths: the number of it, and the scalars of the open parameters of all steps."""

    choice: Term
    parameters: tuple[Term, ...]


class Unrolling:
    """The runs of a model up to a depth, as constraints that grow with it. Initial states are depth 1."""

    def __init__(self, model: Model, steps: Sequence[OpenStep], numbers: Numbers) -> None:
        self.model = model
        self.steps = list(steps)
        self.numbers = numbers
        self.open_leaves: list[Leaf] = [leaf for step in steps for leaf in step.leaves]
        self.states: list[list[Term]] = []
        self.taken: list[StepTaken] = []
        self._translators: list[Translator] = []

    @property
    def depth(self) -> int:
        """How many states a run has so far."""
        return len(self.states)

    def start(self) -> list[Term]:
        """Begin with the initial states; the constraints that say so."""
        initial = listed(self.model)
        if initial is None:
            self._add(state := self._variables())
            return [begins(self.model, self.numbers, state)]
        if len(initial) == 1:  # plain values, through which the solver's simplifier sees
            literals = [
                self.numbers.literal(v, leaf) for v, leaf in zip(initial[0], self.model.leaves, strict=True)
            ]
            self._add(literals)
            return []
        state = self._variables()
        self._add(state)
        return [
            z3.Or(
                [
                    z3.And(
                        [
                            term == self.numbers.literal(v, leaf)
                            for term, v, leaf in zip(state, scalars, self.model.leaves, strict=True)
                        ]
                    )
                    for scalars in initial
                ]
            )
        ]

    def extend(self) -> list[Term]:
        """One step more; the constraints of it."""
        translate = self._translators[-1]
        before, after = self.states[-1], self._variables()
        taken = self.taken[-1]
        fires = [taken.choice == number for number in range(len(self.steps))]
        constraints: list[Term] = [z3.Or(fires)]
        writers: dict[int, list[tuple[Term, Term]]] = {}
        for fire, step in zip(fires, self.steps, strict=True):
            instance = step.instance
            wanted = graph.and_(instance.leads_on, step.chosen)
            conditions = [translate(wanted), *self._parameters_in_type(taken, step)]
            constraints.append(z3.Implies(fire, z3.And(conditions)))
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
        """For each property, the term that it holds in the state of a depth."""
        translate = self._translators[depth - 1]
        return {p.name: translate(p.node) for p in self.model.properties}

    def step_holds(self, depth: int) -> dict[str, Term]:
        """For each property of steps, the term that it holds of the step to the state of a depth; none of depth 1."""
        if depth < 2 or not self.model.step_properties:
            return {}
        translate = Translator(self.numbers, [*self.states[depth - 2], *self.states[depth - 1]])
        return {p.name: translate(p.node) for p in self.model.step_properties}

    def no_step(self, depth: int) -> Term:
        """That no step can be taken at a depth, cut or not."""
        translate = self._translators[depth - 1]
        return z3.Not(z3.Or([translate(i.enabled) for i in self.model.instances]))

    def leaves_a_type(self, depth: int) -> Term | None:
        """That an enabled step leaves a type without a declared bound; None where no step ever does."""
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
        """The run of a solver's model, as an engine's: an initial state and the instances taken."""
        path = []
        for taken in self.taken[: self.depth - 1]:
            number = solution.eval(taken.choice, model_completion=True).as_long()
            step = self.steps[number]
            first = step.start - len(self.model.leaves)
            terms = taken.parameters[first : first + len(step.leaves)]
            scalars = [
                self.numbers.value(solution, t, leaf) for t, leaf in zip(terms, step.leaves, strict=True)
            ]
            path.append(instance_number(self.model, step, scalars))
        return ViolatingRun(name, self.scalars(solution, 1), tuple(path))

    def scalars(self, solution: z3.ModelRef, depth: int) -> Scalars:
        """The state of a depth in a solver's model, as the interpreter has it."""
        terms = self.states[depth - 1]
        return tuple(
            self.numbers.value(solution, term, leaf)
            for term, leaf in zip(terms, self.model.leaves, strict=True)
        )

    def _variables(self) -> list[Term]:
        """The scalars of the state after the last one."""
        return [self.numbers.variable(f"{leaf.path}@{self.depth + 1}", leaf) for leaf in self.model.leaves]

    def _add(self, state: list[Term]) -> None:
        self.states.append(state)
        depth = self.depth
        parameters = [
            self.numbers.variable(f"{leaf.path}#{i}@{depth}", leaf) for i, leaf in enumerate(self.open_leaves)
        ]
        choice = z3.BitVec(f"step@{depth}", bits_of(0, max(len(self.steps) - 1, 1)))
        self.taken.append(StepTaken(choice, tuple(parameters)))
        self._translators.append(Translator(self.numbers, [*state, *parameters]))

    def _parameters_in_type(self, taken: StepTaken, step: OpenStep) -> list[Term]:
        first = step.start - len(self.model.leaves)
        found: list[Term] = []
        for i, leaf in enumerate(step.leaves):
            found += self.numbers.in_type(taken.parameters[first + i], leaf)
        return found
