"""The result of a scenario: its verdict, whether it is as expected, its JSON, and its text.

The form of the JSON is described in ``docs/results.md`` and in ``checker/report/result.schema.json``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from html import escape
from os import PathLike, fspath
from typing import Any, ClassVar

import click

from highwater.checker.base.problems import Status
from highwater.checker.report import counterexample
from highwater.checker.report.counterexample import (
    AbstractRun,
    AbstractStep,
    Counterexample,
    Step,
    TraceOutput,
)
from highwater.checker.report.vacuity import CONSTANT, Vacuous
from highwater.checker.scenarios.request import OPTION, Checked, Request
from highwater.checker.scenarios.search import SearchResult, SimulationResult
from highwater.model.language import Model
from highwater.model.versions import versions
from highwater.traces.reports.text import count

REACHED, NOT_REACHED = "reached", "not reached"
"""Verdicts about reachability goals."""

STEP = "step"
"""The ``kind`` of a violated step property in JSON."""

STOPPED = {
    "states": "stopped at --limit-states",
    "seconds": "stopped at --limit-seconds",
    "memory": "stopped: the memory it may use is full",
    "disk": "stopped: cannot write to disk",
    "interrupted": "interrupted",
    "unknown": "stopped: the solver gave no answer",
    "violation": "stopped early: every property is decided",
}
"""The reasons that end a search or a proof early, in words."""


def status_of(stopped_by: str | None, *, violated: bool, decided: bool) -> Status:
    """The exit status of a result: an interruption takes precedence, then a violation, then a limit."""
    if stopped_by == "interrupted":
        return Status.INTERRUPTED
    if violated:
        return Status.VIOLATED
    return Status.OK if decided else Status.INCONCLUSIVE


@dataclass(frozen=True, repr=False)
class Violation:
    """A violated property with its counterexample. As text, it lists the run step by step."""

    result: Result
    model: Model
    example: Counterexample

    @property
    def name(self) -> str:
        """The property's name."""
        return self.example.name

    @property
    def rule(self) -> str:
        """The source of the property: the number of a rule, or a KIP."""
        return self.example.source

    @property
    def meaning(self) -> str:
        """The property's meaning as a sentence."""
        return self.example.meaning

    @property
    def depth(self) -> int:
        """The number of states in the run; 1 if an initial state violates the property."""
        return self.example.depth

    @property
    def steps(self) -> tuple[Step, ...]:
        """The run from the initial state on.

        Each step has its action, parameters, sentence, changes, and the state after it.
        """
        return self.example.steps

    def write_trace(self, path: str | PathLike[str]) -> None:
        """Write the run as a trace (docs/trace-format.md), which ``replay`` reads. Raises InputError if that fails."""
        result = self.result
        TraceOutput(fspath(path)).write_violation(
            result.request, self.model, result.search.violations, self.example
        )

    def __str__(self) -> str:
        """The run as text, with the state or the step that violates the property."""
        return "\n".join(counterexample.plain(self.model, self.example))

    def __repr__(self) -> str:
        return f"<Violation of {self.name} at depth {self.depth}>"

    def _repr_html_(self) -> str:
        """The violation as HTML, for notebooks."""
        how = "by the step to" if self.example.of_step else "at"
        title = escape(f"{self.example.called} is violated {how} depth {self.depth}")
        return f"<details open><summary>{title}</summary><pre>{escape(str(self))}</pre></details>"


@dataclass(frozen=True, repr=False, eq=False)
class Result:
    """The result of exploring a scenario, or of random walks. As text, it lists the runs, the verdict and the notes.

    ``to_json()`` returns the whole result, in the form of docs/results.md.
    """

    request: Request
    """The scenario, and the values of parameters, rules and properties."""
    engine: str
    search: SearchResult
    """The result of the engine."""
    examples: tuple[Counterexample, ...] = ()
    """The runs to violations, shortest first."""
    goal_runs: tuple[Counterexample, ...] = ()
    """The runs to the reachability goals that were reached."""
    stop_at_first: bool = False
    ruled_out: tuple[str, ...] = ()
    """Actions that tracing finds impossible with these parameters."""
    constant: tuple[str, ...] = ()
    """Properties that check nothing, as tracing finds: see ``vacuity.constant_properties``."""
    vacuous: tuple[Vacuous, ...] = ()
    """Vacuous actions and properties that the scenario does not expect (``report/vacuity.py``)."""
    explored_at: str | None = None
    """When a stored result was explored, as 2026-11-22T10:15:00Z; None if it was explored now."""
    model: Model | None = None
    """The traced protocol; None if Ctrl-C came before tracing, or if the result is stored or from another process."""

    form: ClassVar[str] = "result"
    """The form of the JSON: see ``highwater.model.versions``."""

    @property
    def name(self) -> str:
        """The scenario's name."""
        return self.request.scenario.name

    @property
    def verdict(self) -> str:
        """``violated``, ``not reached``, ``holds``, ``reached`` or ``inconclusive``.

        The first that applies counts:

        - ``violated``: a property is violated
        - ``not reached``: all states were explored, and a goal was not reached
        - ``holds``: all states were explored, and every property holds
        - ``reached``: only goals are checked, and the search reached them
        - ``inconclusive``: otherwise
        """
        if self.examples:
            return "violated"
        if self.complete and self.unreached:
            return NOT_REACHED
        if self.complete and (self.request.properties or not self.goal_runs):
            return "holds"
        return REACHED if self._decided else "inconclusive"

    @property
    def holds(self) -> bool:
        """True if every reachable state was explored and every property holds in all of them."""
        return self.verdict == "holds"

    @property
    def expected(self) -> bool | None:
        """True if all expectations are met; None if options override the scenario, or the search ended too early."""
        if not self.request.as_written:
            return None
        if self.broken:
            return False
        return True if self._decided else None

    @property
    def status(self) -> Status:
        """The exit status of a command that has this result."""
        return status_of(self.stopped_by, violated=bool(self.broken), decided=self.reached_end)

    @property
    def reached_end(self) -> bool:
        """True if no limit ended the search, or the walks."""
        return self.stopped_by in (None, "violation")

    @property
    def _decided(self) -> bool:
        """True if all states were explored, or violations ended the search."""
        return self.complete or self.stopped_by == "violation"

    @property
    def complete(self) -> bool:
        """True if every reachable state was explored."""
        return self.search.complete

    @property
    def stopped_by(self) -> str | None:
        """The reason why the search ended early, as in docs/results.md; None if it did not."""
        return self.search.stopped_by

    @property
    def distinct_states(self) -> int:
        """The number of distinct states explored; 0 for random walks."""
        return self.search.distinct_states

    @property
    def depth(self) -> int:
        """The number of levels of the search (initial states are level 1), or of states in the longest random walk."""
        return self.search.depth

    @property
    def walks(self) -> int | None:
        """The number of random walks; None if the states were explored."""
        return getattr(self.search, "walks", None)

    @property
    def states(self) -> int:
        """The number of states that were explored, or visited by random walks."""
        return self.distinct_states if self.walks is None else self.search.generated_states

    @property
    def runs(self) -> tuple[Counterexample, ...]:
        """All runs that were found: those to violations, followed by those to goals."""
        return (*self.examples, *self.goal_runs)

    @cached_property
    def violations(self) -> tuple[Violation, ...]:
        """A violation with its run for each violated property, shortest run first; empty if ``model`` is None."""
        return () if self.model is None else tuple(Violation(self, self.model, e) for e in self.examples)

    def violation(self, name: str) -> Violation | None:
        """The violation of the property with this name; None if ``violations`` has none."""
        return next((v for v in self.violations if v.name == name), None)

    @property
    def reachable(self) -> dict[str, int | None]:
        """For each goal, the depth at which it was reached; None if it was not reached."""
        depths = {run.name: run.depth for run in self.goal_runs}
        return {goal.name: depths.get(goal.name) for goal in self.request.goals}

    @property
    def unreached(self) -> tuple[str, ...]:
        """The names of the goals that were not reached."""
        return tuple(name for name, depth in self.reachable.items() if depth is None)

    @property
    def checked(self) -> Checked:
        """The properties that were checked, and the properties that were not.

        A liveness property counts as not checked if the search stopped before its turn.
        """
        found = {e.name for e in self.examples}
        missed = {p.name for p in self.request.liveness} - self.search.premises.keys() - found
        return self.request.checked.undecided(missed)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings about vacuous actions and properties that the scenario does not expect."""
        return tuple(warning.text for warning in self.vacuous)

    @property
    def broken(self) -> tuple[str, ...]:
        """The unexpected violations and unmet expectations, each as text."""
        return tuple(self.unmet.values())

    @cached_property
    def unmet(self) -> dict[tuple[str, str], str]:
        """The texts of ``broken`` by kind and name of the expectation.

        The kinds are ``holds``, ``reached``, ``violated``, ``distinct_states``, ``depth``, ``impossible`` and
        ``constant``. The name of an expected count is the number.
        """
        found = {e.name for e in self.examples}
        expect = self.request.scenario.expectation
        decided = self.complete or (self.stopped_by == "violation" and not self.stop_at_first)
        if not self.request.as_written:
            missing = self.unreached if decided and self.request.narrowed_by == OPTION else ()
            violated = {("holds", name): f"{name} is violated" for name in sorted(found)}
            return violated | {("reached", name): f"{name} is not reached" for name in missing}
        wrong = {
            ("holds", name): f"{name} is violated, but expected to hold"
            for name in sorted(found - expect.violated)
        }
        if decided:
            for name in self.unreached:
                wrong["reached", name] = f"{name} is not reached, but expected to be"
            for name in sorted(expect.violated & set(self.request.properties) - found):
                wrong["violated", name] = f"{name} holds, but expected to be violated"
        if self.complete and self.request.counts_expected:
            for key in ("distinct_states", "depth"):
                expected, actual = getattr(expect, key), getattr(self, key)
                if expected is not None and expected != actual:
                    wrong[key, str(expected)] = f"{key} is {actual:,}, but expected to be {expected:,}"
        for name in sorted(expect.impossible):
            if self.search.actions.get(name):
                wrong["impossible", name] = f"{name} is taken, but expected to be impossible"
        for name in sorted(expect.constant & set(self.request.properties) - {*self.constant}):
            wrong["constant", name] = f"{name} is not constant, but expected to be"
        return wrong

    # --- JSON -----------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """The result as ``--json`` writes it: an object of the form that docs/results.md describes."""
        request, search = self.request, self.search
        return {
            **request.as_json(self.engine),
            "properties": request.properties,
            **self.checked.as_json(),
            "symmetry": request.symmetry,
            "verdict": self.verdict,
            "complete": self.complete,
            "stopped_by": self.stopped_by,
            "promised": self.expected,
            "broken": list(self.broken),
            "distinct_states": None if self.walks is not None else self.distinct_states,
            "generated_states": search.generated_states,
            "depth": self.depth,
            "seconds": round(search.seconds, 6),
            "preparation_seconds": round(search.preparation_seconds, 6),
            "cut": dict(search.cut),
            "actions": dict(search.actions),
            "ruled_out": list(self.ruled_out),
            "warnings": [{**vars(warning)} for warning in self.vacuous],
            "premises": dict(search.premises),
            "collision_probability": search.collision_probability,
            "peak_memory_bytes": search.peak_memory_bytes,
            "spilled_bytes": search.spilled_bytes,
            **({"walks": search.walks, "seed": search.seed} if isinstance(search, SimulationResult) else {}),
            **({} if self.explored_at is None else {"reused": True, "explored_at": self.explored_at}),
            "reachable": self.reachable,
            "violations": [_violation(e) for e in self.examples],
            "versions": versions(self.form),
        }

    # --- text -----------------------------------------------------------------------------------------

    @property
    def headline(self) -> str:
        """The verdict, with the violated properties or reached goals, and their depths."""
        shown = self.examples or (self.goal_runs if self.verdict == REACHED else ())
        where = ", ".join(f"{e.called} at depth {e.depth}" for e in shown)
        return f"{self.verdict}: {where}" if where else self.verdict

    def run_lines(self, *, full: bool = False, width: int | None = None) -> Iterator[str]:
        """The lines of the counterexamples, with colours; none if ``model`` is None.

        A run that violates several properties is shown once. Runs to goals are included if ``--property`` names the
        goals.
        """
        if self.model is None:
            return
        names: dict[tuple[object, ...], str] = {}
        goals = self.goal_runs if self.request.narrowed_by == OPTION else ()
        for example in (*self.examples, *goals):
            # A run of a refinement also shows the abstract protocol's state, so it is never shared.
            key = (
                example.abstract is not None,
                example.loop and example.loop.start,
                *((s.action, repr(s.parameters)) for s in example.steps),
            )
            yield ""
            yield click.style(self.name, bold=True)
            if key in names:
                rule = f" ({example.source})" if example.source else ""
                yield f"{example.called}{rule} {example.outcome} by the same run as {names[key]}."
                yield f"  It says: {example.meaning}"
                continue
            names[key] = example.called
            yield from counterexample.tell(self.model, example, full=full, width=width)

    def notes(self) -> Iterator[str]:
        """Facts that the verdict and the counts do not show, one line each."""
        search, request = self.search, self.request
        yield self.checked.sentence
        if self.explored_at is not None:
            yield f"not explored again: unchanged since it was explored at {self.explored_at}"
        if isinstance(search, SimulationResult):
            yield f"{search.walks:,} random walks, seed {search.seed or 0}: no proof"
        if self.stopped_by:
            short = "not all states were explored" if self.walks is None else "not all walks were made"
            rest = "" if self.stopped_by == "violation" else f": {short}"
            trouble = f" ({search.trouble})" if search.trouble and self.stopped_by == "disk" else ""
            why = STOPPED.get(self.stopped_by, f"stopped by {self.stopped_by}")
            why = "stopped early: every goal is reached" if self.verdict == REACHED else why
            yield f"{why}{trouble}{rest}"
        if search.trouble and self.stopped_by != "disk":
            yield f"cannot write the last checkpoint ({search.trouble})"
        if search.unspilled:
            yield f"levels stayed in memory: cannot write them to disk ({search.unspilled})"
        expect = request.scenario.expectation
        counts = [key for key in ("distinct_states", "depth") if getattr(expect, key) is not None]
        if counts and request.as_written and not request.counts_expected:
            how = f"{'with' if request.scenario.symmetry else 'without'} symmetry"
            yield f"not compared: {' and '.join(counts)}, expected of a search {how}"
        so_far = " before the search stopped" if self.stopped_by else ""
        if self.never_enabled:
            yield f"never taken{so_far}: {', '.join(self.never_enabled)}"
        if out := self.ruled_out:
            names = ", ".join(out) if len(out) <= 3 else f"{len(out)} actions, listed in the JSON"
            yield f"impossible with these parameters: {names}"
        if self.goal_runs:
            yield f"reached: {', '.join(f'{e.called} at depth {e.depth}' for e in self.goal_runs)}"
        if self.unreached:
            yield f"not reached{so_far}: {', '.join(self.unreached)}"
        if pruned := [f"{count(n, 'step')} at {bound}" for bound, n in search.cut.items() if n]:
            yield f"pruned at a bound: {', '.join(pruned)}"
        if self.never_met:
            yield f"vacuous (premise never holds): {', '.join(self.never_met)}"
        if search.collision_probability:
            yield f"fingerprint collision probability {search.collision_probability:.1e}"

    @property
    def never_enabled(self) -> list[str]:
        """The actions that were never taken within the bounds, although tracing does not find them impossible."""
        return [n for n, taken in self.search.actions.items() if not taken and n not in self.ruled_out]

    @property
    def never_met(self) -> list[str]:
        """The properties whose premise holds in no explored state, or for no explored step."""
        if not self.search.generated_states:
            return []
        return [name for name, met in self.search.premises.items() if not met]

    def warning_lines(self) -> Iterator[str]:
        """The warnings for a terminal: one line for each reason, with the [expect] entry that accepts the warning."""
        alike: dict[tuple[str, str], list[str]] = {}
        for warning in self.vacuous:
            alike.setdefault((warning.kind, warning.text.removeprefix(warning.name)), []).append(warning.name)
        for (kind, how), names in alike.items():
            key, things = ("constant", "properties") if kind == CONSTANT else ("impossible", "actions")
            what = f"{names[0]}{how}" if len(names) == 1 else f"{len(names)} {things}: each{how}"
            expected = ", ".join(f'"{name}"' for name in names)
            yield f"highwater: warning: {self.name}: {what} (if this is intended, add [expect] {key} = [{expected}])"

    def __str__(self) -> str:
        """The runs to the violations, the verdict, and the notes, as text."""
        lines = [click.unstyle(line) for line in self.run_lines()]
        lines += ["", f"{self.name}: {self.headline}; {self._size}, {self.search.seconds:.2f} s"]
        lines += [f"! {line}" for line in self.broken]
        lines += [f"  {note}" for note in self.notes()]
        return "\n".join([*lines, *self.warning_lines()]).lstrip("\n")

    def __repr__(self) -> str:
        return f"<Result of {self.name}: {self.headline}; {self._size}>"

    @property
    def _size(self) -> str:
        seen = f"{self.distinct_states:,} states" if self.walks is None else f"{self.walks:,} walks"
        return f"{seen}, depth {self.depth}"

    def _repr_html_(self) -> str:
        """The result as HTML, for notebooks: a table, the notes, and the runs, folded."""
        row = {
            "scenario": self.name,
            "verdict": self.headline,
            "expectations": {True: "as expected", False: "not as expected", None: "not checked"}[
                self.expected
            ],
            "states": f"{self.states:,}",
            "depth": str(self.depth),
            "seconds": f"{self.search.seconds:.2f}",
        }
        cells = "".join(f"<tr><th>{escape(h)}</th><td>{escape(cell)}</td></tr>" for h, cell in row.items())
        notes = [*self.broken, *self.notes(), *self.warning_lines()]
        items = "".join(f"<li>{escape(note)}</li>" for note in notes)
        runs = "".join(v._repr_html_() for v in self.violations)
        return f"<table>{cells}</table><ul>{items}</ul>{runs}"


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
