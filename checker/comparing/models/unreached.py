"""Where two revisions differ beyond the states of a scenario: a state that none of its runs reaches, by the solver.

Equal in every reachable state, an action may still be another one: the scenario is blind to what was changed. Then a
state within the types in which the properties hold and the steps differ says what a scenario would have to reach.
"""

from __future__ import annotations

from dataclasses import dataclass

import z3

from highwater.checker.comparing.models.differences import Pairs, questions_of_both
from highwater.checker.engines.solver.difference import nearest_state
from highwater.checker.engines.solver.limits import Limits, Stopped
from highwater.checker.engines.solver.terms import Numbers, Translator
from highwater.model.language.initial import Scalars
from highwater.model.language.model import Model

SECONDS = 20.0
"""So long the solver may look for a state of one action."""


@dataclass(frozen=True)
class Unreached:
    """A state from which a step goes on otherwise: the number of its pair, and of the question that is answered."""

    state: Scalars
    pair: int
    question: int


def unreached(pairs: Pairs, model: Model, limits: Limits | None = None) -> Unreached | None:
    """A state within the types, with all invariants of ``model``, in which a pair of instances differs.

    It is as like the initial one as can be. None where there is none; Stopped where the solver does not say.
    """
    limits = limits or Limits(SECONDS)
    numbers = Numbers()
    state = [numbers.variable(leaf.path, leaf) for leaf in model.leaves]
    translate = Translator(numbers, state)
    solver = z3.Solver()
    for term, leaf in zip(state, model.leaves, strict=True):
        solver.add(numbers.in_type(term, leaf))
    solver.add([translate(p.node) for p in model.properties])
    asked = [
        (number, which, translate(node))
        for number, (a, b) in enumerate(pairs)
        for which, node in enumerate(questions_of_both(a, b, model.inputs))
    ]
    solver.add(z3.Or([term for _, _, term in asked]))
    if not limits.check(solver):
        return None
    found = tuple(nearest_state(solver, limits, numbers, state, model.leaves, model.first_initial))
    solution = solver.model()
    for number, which, term in asked:
        if z3.is_true(solution.eval(term, model_completion=True)):
            return Unreached(found, number, which)
    raise AssertionError("a state was found in which nothing differs: the terms are not the graph's")


__all__ = ["SECONDS", "Stopped", "Unreached", "unreached"]
