"""The result of a scenario: the verdict, whether it is as expected, and its JSON.

The form of the JSON is described in ``docs/results.md`` and in ``checker/report/result.schema.json``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from highwater.checker.base.problems import Status
from highwater.checker.report.counterexample import AbstractRun, AbstractStep, Counterexample, Step
from highwater.checker.report.vacuity import Vacuous
from highwater.checker.scenarios.request import OPTION, Checked, Request
from highwater.checker.scenarios.search import SearchResult
from highwater.model.versions import versions

REACHED, NOT_REACHED = "reached", "not reached"
"""Verdicts about reachability goals."""

STEP = "step"
"""The kind of a property of steps, in JSON."""


@dataclass(frozen=True)
class ScenarioOutcome:
    """An explored scenario: the request, what the search found, and the runs to violations and goals."""

    request: Request
    engine: str
    result: SearchResult
    examples: tuple[Counterexample, ...]
    stop_at_first: bool = False
    ruled_out: tuple[str, ...] = ()
    """Actions that the parameters leave no way to take, as tracing found."""
    constant: tuple[str, ...] = ()
    """Properties that are the same in every state, as tracing found."""
    warnings: tuple[Vacuous, ...] = ()
    """Vacuous actions and properties that the scenario does not expect (``report/vacuity.py``)."""
    outside_states: int | None = None
    """How many of the states are outside the bounds, where these were asked for."""
    goal_runs: tuple[Counterexample, ...] = ()
    """The runs to the reachability goals that were reached."""

    form: ClassVar[str] = "result"
    """Which form the JSON has: see ``highwater.model.versions``."""

    @property
    def verdict(self) -> str:
        """``violated``, ``not reached``, ``holds``, ``reached`` or ``inconclusive``.

        The first that is so counts: a property is violated; all states were seen, and a goal is not among them; every
        property holds; or, where goals alone are checked, the search reached them.
        """
        if self.examples:
            return "violated"
        if self.result.complete and self.unreached:
            return NOT_REACHED
        if self.result.complete and (self.request.properties or not self.goal_runs):
            return "holds"
        return REACHED if self.result.complete or self.result.stopped_by == "violation" else "inconclusive"

    @property
    def runs(self) -> tuple[Counterexample, ...]:
        """All runs that were found: those to violations, then those to goals."""
        return (*self.examples, *self.goal_runs)

    @property
    def reachable(self) -> dict[str, int | None]:
        """For each goal the depth at which it was reached; None where it was not."""
        depths = {run.name: run.depth for run in self.goal_runs}
        return {goal.name: depths.get(goal.name) for goal in self.request.goals}

    @property
    def unreached(self) -> tuple[str, ...]:
        """The goals that were not reached."""
        return tuple(name for name, depth in self.reachable.items() if depth is None)

    @property
    def shown_goals(self) -> tuple[Counterexample, ...]:
        """The runs to goals that a report shows: those that an option named."""
        return self.goal_runs if self.request.narrowed_by == OPTION else ()

    @property
    def walks(self) -> int | None:
        """How many random walks were made; None where the states were explored."""
        return getattr(self.result, "walks", None)

    @property
    def states(self) -> int:
        """The states that were explored, or seen by random walks."""
        return self.result.distinct_states if self.walks is None else self.result.generated_states

    @property
    def checked(self) -> Checked:
        """What was checked and what was not: the request's, without the liveness properties that were not reached."""
        request, result = self.request, self.result
        missed = {p.name for p in request.liveness} - result.premises.keys() - {e.name for e in self.examples}
        return request.checked.undecided(missed, "the search stopped first")

    @property
    def as_expected(self) -> bool | None:
        """Whether all expectations are met; None if options override the scenario, or the search ended too early."""
        if not self.request.as_written:
            return None
        if self.broken:
            return False
        return True if self.result.complete or self.result.stopped_by == "violation" else None

    @property
    def status(self) -> Status:
        """The exit status that this outcome stands for."""
        if self.result.stopped_by == "interrupted":
            return Status.INTERRUPTED
        if self.broken:
            return Status.VIOLATED
        if self.result.stopped_by not in (None, "violation"):
            return Status.INCONCLUSIVE
        return Status.OK

    @cached_property
    def broken(self) -> tuple[str, ...]:
        """Unexpected violations and unmet expectations."""
        found = {e.name for e in self.examples}
        expect, result = self.request.scenario.promise, self.result
        decided = result.complete or (result.stopped_by == "violation" and not self.stop_at_first)
        if not self.request.as_written:
            missing = self.unreached if decided and self.request.narrowed_by == OPTION else ()
            return (*(f"{n} is violated" for n in sorted(found)), *(f"{n} is not reached" for n in missing))
        wrong = [f"{name} is violated, but expected to hold" for name in sorted(found - expect.violated)]
        if decided:
            wrong += [f"{name} is not reached, but expected to be" for name in self.unreached]
            missed = expect.violated & set(self.request.properties) - found
            wrong += [f"{name} holds, but expected to be violated" for name in sorted(missed)]
        if result.complete and self.request.counts_expected:
            for key in ("distinct_states", "depth"):
                expected, actual = getattr(expect, key), getattr(result, key)
                if expected is not None and expected != actual:
                    wrong.append(f"{key} is {actual:,}, but expected to be {expected:,}")
        taken = {name for name in expect.impossible if result.actions.get(name)}
        wrong += [f"{name} is taken, but expected to be impossible" for name in sorted(taken)]
        varied = expect.constant & set(self.request.properties) - set(self.constant)
        wrong += [f"{name} is not constant, but expected to be" for name in sorted(varied)]
        return tuple(wrong)

    def as_json(self) -> dict[str, Any]:
        """The result as ``--json`` writes it."""
        request, result = self.request, self.result
        return {
            "scenario": request.scenario.name,
            "protocol": request.scenario.definition.name,
            "profile": request.profile,
            "engine": self.engine,
            "parameters": dict(request.parameters),
            "rules": dict(request.rules),
            "properties": request.properties,
            **self.checked.as_json(),
            "symmetry": request.symmetry,
            "verdict": self.verdict,
            "complete": result.complete,
            "stopped_by": result.stopped_by,
            "promised": self.as_expected,
            "broken": list(self.broken),
            "distinct_states": None if self.walks is not None else result.distinct_states,
            "outside_states": self.outside_states,
            "generated_states": result.generated_states,
            "depth": result.depth,
            "seconds": round(result.seconds, 6),
            "preparation_seconds": round(result.preparation_seconds, 6),
            "cut": dict(result.cut),
            "actions": dict(result.actions),
            "ruled_out": list(self.ruled_out),
            "warnings": [{"kind": w.kind, "name": w.name, "text": w.text} for w in self.warnings],
            "premises": dict(result.premises),
            "collision_probability": result.collision_probability,
            "peak_memory_bytes": result.peak_memory_bytes,
            "spilled_bytes": result.spilled_bytes,
            **({} if self.walks is None else {"walks": self.walks, "seed": getattr(result, "seed", None)}),
            "reachable": self.reachable,
            "violations": [_violation(e) for e in self.examples],
            "versions": versions(self.form),
        }


def _violation(example: Counterexample) -> dict[str, Any]:
    first, *rest = example.steps
    return {
        "property": example.name,
        **({"parameters": dict(example.parameters)} if example.parameters else {}),
        **({"others": [dict(other) for other in example.others]} if example.others else {}),
        "rule": example.source,
        "meaning": example.meaning,
        "depth": example.depth,
        "trace": [
            {"action": "initial", "parameters": {}, "changes": {}, "state": dict(first.state)},
            *(_step(step) for step in rest),
        ],
        "state": dict(example.steps[-1].state),
        **({} if example.loop is None else {"kind": example.loop.kind, "loop_start": example.loop.start}),
        **({"kind": STEP, "before": dict(example.steps[-2].state)} if example.of_step else {}),
        **({} if example.abstract is None else {"abstract": _abstract(example.abstract)}),
    }


def _step(step: Step | AbstractStep) -> dict[str, Any]:
    return {
        "action": step.action,
        "parameters": dict(step.parameters),
        "sentence": step.sentence,
        "changes": {path: {"before": a, "after": b} for path, (a, b) in step.changes.items()},
    }


def _abstract(run: AbstractRun) -> dict[str, Any]:
    *steps, last = run.steps
    return {
        "protocol": run.name,
        "initial": dict(run.initial),
        "steps": [_step(step) for step in run.steps],
        "before": dict(steps[-1].state if steps else run.initial),
        "after": dict(last.state),
        "leaves": list(last.leaves),
        "near": [
            {
                "action": near.action,
                "parameters": dict(near.parameters),
                "sentence": near.sentence,
                "refused_by": list(near.refused_by),
                "differs": {path: {"would_be": a, "is": b} for path, (a, b) in near.differs.items()},
            }
            for near in last.near
        ],
    }
