"""Reachable states and steps of a model by the interpreter, which the gate's counts are compared with."""

from __future__ import annotations

from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import Interpreter, interpreter_of
from highwater.model.language.model import Model


def reached(model: Model) -> dict[Scalars, int]:
    """Each reachable state with its depth, in breadth-first order."""
    interpreter, depth = Interpreter(model), dict.fromkeys(model.initial, 1)
    states = list(depth)
    for state in states:
        new = [after for after in dict.fromkeys(interpreter.successors(state)) if after not in depth]
        depth |= dict.fromkeys(new, depth[state] + 1)
        states += new
    return depth


def steps(model: Model, state: Scalars) -> dict[tuple[str, str], Scalars]:
    """(action, parameters) of each step from a state → the state after it."""
    found = interpreter_of(model).steps(state)
    return {
        (s.instance.action.name, repr(s.instance.parameters)): s.state for s in found if s.state is not None
    }
