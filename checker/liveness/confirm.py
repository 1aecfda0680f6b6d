"""The second opinion on a run that violates a liveness property: the interpreter looks at its states one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from highwater.model.language.interpreter import Interpreter, compile_nodes
from highwater.model.language.liveness import FairGroup, Kind, TracedLiveness
from highwater.model.language.model import Model, Scalars


class NotViolatedError(RuntimeError):
    """The run does not violate the property, or is not fair."""


@dataclass(frozen=True)
class Confirmed:
    """From which state on (counted from 0) the goal is missed, and for each fair group why the loop is fair to it."""

    due: int
    fairness: tuple[str, ...]


def confirm(
    model: Model,
    interpreter: Interpreter,
    prop: TracedLiveness,
    states: Sequence[Scalars],
    path: Sequence[int],
    loop_start: int,
) -> Confirmed:
    """Whether a run with a loop violates a property. The last state goes over into the one at ``loop_start``.

    Raises NotViolatedError, with the reason, where it does not.
    """
    if states[-1] != states[loop_start]:
        raise NotViolatedError("its loop does not close")
    judge = compile_nodes([prop.premise, prop.goal])
    verdicts = [judge(state) for state in states]
    missed = len(states)
    while missed and not verdicts[missed - 1][1]:
        missed -= 1
    first = [0] if prop.kind is Kind.EVENTUALLY else range(missed, len(states))
    due = next((i for i in first if i >= missed and verdicts[i][0]), None)
    if due is None or missed > loop_start:
        raise NotViolatedError("the goal is reached, or never asked for")
    loop, taken = states[loop_start:], path[loop_start:]
    moved = [
        (i, number) for i, (number, a, b) in enumerate(zip(taken, loop, loop[1:], strict=False)) if a != b
    ]  # what changes nothing is no step
    possible = [_possible(interpreter, state) for state in loop]
    reasons = []
    for group in prop.groups:
        counts = [True] * len(loop)
        if group.when is not None:
            holds = compile_nodes([group.when])
            counts = [bool(holds(state)[0]) for state in loop]
        reasons.append(_fair(group, counts, possible, moved, loop_start))
    return Confirmed(due, tuple(reasons))


def _possible(interpreter: Interpreter, state: Scalars) -> set[int]:
    """The instances that can be taken in a state and change it, those that are cut among them."""
    return {n for n in interpreter.enabled(state) if interpreter.step(state, n).state != state}


def _fair(
    group: FairGroup,
    counts: Sequence[bool],
    possible: Sequence[set[int]],
    moved: Sequence[tuple[int, int]],
    loop_start: int,
) -> str:
    """Why a loop is fair to a group, whose steps count from those states; NotViolatedError where it is not."""
    if any(counts[i] and number in group.instances for i, number in moved):
        return f"{group.label}: is taken"
    idle = [i for i, numbers in enumerate(possible) if not (counts[i] and numbers & group.instances)]
    if len(idle) == len(possible):
        return f"{group.label}: cannot be taken"
    if group.strong or not idle:
        raise NotViolatedError(f"its loop is not fair: {group.label} can be taken and is not")
    return f"{group.label}: cannot be taken in state {loop_start + idle[0] + 1}"


__all__ = ["Confirmed", "NotViolatedError", "confirm"]
