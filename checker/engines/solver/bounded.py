"""Bounded check: for each depth, whether a run from an initial state ends in a violation there.

Each depth is asked after the one before it, so the first run found for a property is a shortest one. What was
shown for a depth is kept as a constraint: the solver need not find it a second time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import z3

from highwater.checker.asking.search import DEADLOCK, SearchResult
from highwater.checker.engines.solver.limits import Limits, Stopped
from highwater.checker.engines.solver.terms import Numbers, is_wide
from highwater.checker.engines.solver.unrolling import Unrolling, listed, steps
from highwater.model.language.errors import LanguageError, place_of
from highwater.model.language.interpreter import BoundError, Interpreter
from highwater.model.language.model import NO_STATE, Model

LOGIC = "QF_BV"


@dataclass(frozen=True)
class DepthDone:
    """What was found at a depth: the properties violated there for the first time, how many hold, the seconds."""

    depth: int
    violated: tuple[str, ...]
    holding: int
    seconds: float


@dataclass
class BoundedResult(SearchResult):
    """What a bounded check found. ``stopped_by`` "depth" means that all depths that were asked for are done."""

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
    """Check all properties of a model in every state that at most ``depth - 1`` steps lead to.

    Each instance is a choice of its own, as a solver that chooses the parameters of actions was measured to be slower.
    Raises BoundError, as the interpreter does, where a step leaves a type without a declared bound.
    """
    limits = limits or Limits()
    result = BoundedResult(stopped_by="depth")
    started = limits.used
    try:
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
    runs = Unrolling(model, steps(model, grouped=False), Numbers())
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
            result.stopped_by = None  # no run is longer: every state was looked at
            return


def _holding(runs: Unrolling, deadlock: bool) -> dict[str, z3.BoolRef]:
    """For each property, the term that it holds at the last depth; of a property of steps, for the last step."""
    holds = runs.holds(runs.depth) | runs.step_holds(runs.depth)
    return holds | ({DEADLOCK: z3.Not(runs.no_step(runs.depth))} if deadlock else {})


def _errors(runs: Unrolling, solver: z3.Solver, interpreter: Interpreter, limits: Limits) -> None:
    """Ask for a step that leaves a type without a declared bound, and let the interpreter say which it is."""
    term = runs.leaves_a_type(runs.depth)
    if term is None:
        return
    wrong = z3.Bool(f"error@{runs.depth}")
    solver.add(z3.Implies(wrong, term))
    if limits.check(solver, wrong):
        for _ in interpreter.steps(runs.scalars(solver.model(), runs.depth)):
            pass
        raise BoundError("the solver found a step that leaves a type, and the interpreter does not")
