"""Confirmation of a liveness violation: the interpreter evaluates the states of the run one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import Interpreter, compile_nodes
from highwater.model.language.liveness import Case, FairGroup, Kind, TracedLiveness


class NotViolatedError(RuntimeError):
    """The run satisfies the liveness property, or the run is not fair."""


@dataclass(frozen=True)
class Confirmed:
    """A confirmed violation of a liveness property by a run with a loop.

    ``due`` is the number (from 0) of the first state in which the premise holds and from which on the goal never
    holds. ``fairness`` has, for each fair group, the reason why the loop is fair to the group.

    ``missed`` is for a goal that must hold forever. For each alternative of the goal, it has the number of a loop
    state in which the alternative does not hold. ``due`` is then the least of these numbers.
    """

    due: int
    fairness: tuple[str, ...]
    missed: tuple[int, ...] = ()


def confirm(
    interpreter: Interpreter,
    prop: TracedLiveness,
    states: Sequence[Scalars],
    path: Sequence[int],
    loop_start: int,
    case: Case,
) -> Confirmed:
    """Confirm that a run with a loop violates a property for the parameter values of ``case``.

    The last state of ``states`` must equal state ``loop_start``: the run repeats the steps from there. Raises
    NotViolatedError if the run is not fair or does not violate the property.
    """
    if states[-1] != states[loop_start]:
        raise NotViolatedError("its loop does not close")
    judge = compile_nodes([case.premise, *case.goals])
    verdicts = [judge(state) for state in states]
    if prop.kind.lasting:
        missed = _not_lasting(prop.kind, verdicts, loop_start)
        due = min(missed)
    else:
        missed, due = (), _missed(prop.kind, verdicts, loop_start)
    loop, taken = states[loop_start:], path[loop_start:]
    moved = [
        (i, number) for i, (number, a, b) in enumerate(zip(taken, loop, loop[1:], strict=False)) if a != b
    ]  # a step that changes nothing does not count
    possible = [_possible(interpreter, state) for state in loop]
    reasons = []
    for group in prop.groups:
        counts = [True] * len(loop)
        if group.when is not None:
            holds = compile_nodes([group.when])
            counts = [bool(holds(state)[0]) for state in loop]
        reasons.append(_fair(group, counts, possible, moved, loop_start))
    return Confirmed(due, tuple(reasons), missed)


def _missed(kind: Kind, verdicts: Sequence[Sequence[int]], loop_start: int) -> int:
    """The number of the first state in which the premise holds and from which on the goal never holds.

    If ``kind.of_start``, only the initial state counts. Raises NotViolatedError if there is no such state.
    """
    missed = len(verdicts)
    while missed and not verdicts[missed - 1][1]:
        missed -= 1
    first = [0] if kind.of_start else range(missed, len(verdicts))
    due = next((i for i in first if i >= missed and verdicts[i][0]), None)
    if due is None or missed > loop_start:
        raise NotViolatedError("the goal is reached, or never due")
    return due


def _not_lasting(kind: Kind, verdicts: Sequence[Sequence[int]], loop_start: int) -> tuple[int, ...]:
    """For each alternative of a goal that must hold forever, the number of a loop state in which it does not hold.

    Raises NotViolatedError if an alternative holds throughout the loop, or if the premise never holds.
    """
    if not any(premise for premise, *_ in (verdicts[:1] if kind.of_start else verdicts)):
        raise NotViolatedError("the goal is never due")
    found = []
    for number in range(1, len(verdicts[0])):
        failed = next((i for i in range(loop_start, len(verdicts)) if not verdicts[i][number]), None)
        if failed is None:
            raise NotViolatedError("from its loop on the goal holds forever")
        found.append(failed)
    return tuple(found)


def _possible(interpreter: Interpreter, state: Scalars) -> set[int]:
    """The numbers of the instances that are enabled in a state and change it, including instances pruned at a bound."""
    return {n for n in interpreter.enabled(state) if interpreter.step(state, n).state != state}


def _fair(
    group: FairGroup,
    counts: Sequence[bool],
    possible: Sequence[set[int]],
    moved: Sequence[tuple[int, int]],
    loop_start: int,
) -> str:
    """The reason why a loop is fair to a group. Raises NotViolatedError if the loop is not fair.

    ``counts`` has a flag for each loop state: True if the group's steps from this state count. ``possible`` is the
    result of ``_possible`` for each loop state. ``moved`` has each step of the loop that changes the state, as (index
    of its source in the loop, instance).
    """
    if any(counts[i] and number in group.instances for i, number in moved):
        return f"{group.label}: is taken"
    idle = [i for i, numbers in enumerate(possible) if not (counts[i] and numbers & group.instances)]
    if len(idle) == len(possible):
        return f"{group.label}: cannot be taken"
    if group.strong or not idle:
        raise NotViolatedError(f"its loop is not fair: {group.label} can be taken and is not")
    return f"{group.label}: cannot be taken in state {loop_start + idle[0] + 1}"
