"""What ``highwater.check`` and ``highwater.simulate`` give back: a result that reads well in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from os import PathLike, fspath
from typing import Any

import click

from highwater.checker.asking.request import Request
from highwater.checker.telling import counterexample, report
from highwater.checker.telling.counterexample import Counterexample, Step
from highwater.checker.telling.results import ScenarioOutcome
from highwater.checker.telling.trace_output import TraceOutput
from highwater.model.language.model import Model


@dataclass(frozen=True, repr=False)
class Violation:
    """A property that does not hold, and a run that shows it; printed, the run is told step by step."""

    outcome: ScenarioOutcome
    model: Model
    example: Counterexample

    @property
    def name(self) -> str:
        """The property's name."""
        return self.example.name

    @property
    def rule(self) -> str:
        """Where the property comes from: the number of a rule, or a KIP."""
        return self.example.source

    @property
    def meaning(self) -> str:
        """What the property says."""
        return self.example.meaning

    @property
    def depth(self) -> int:
        """How many states the run has; 1 where an initial state violates. The last step may be what violates."""
        return self.example.depth

    @property
    def steps(self) -> tuple[Step, ...]:
        """The run, from the initial state: each step's action, parameters, sentence, changes, and the state after."""
        return self.example.steps

    def write_trace(self, path: str | PathLike[str]) -> None:
        """Write the run as a trace (docs/trace-format.md), which ``replay`` reads; InputError where it cannot be."""
        outcome, target = self.outcome, TraceOutput(fspath(path))
        target.write_violation(outcome.request, self.model, outcome.result.violations, self.example)

    def __str__(self) -> str:
        """The run in words, and the state, or the step, that violates."""
        return "\n".join(counterexample.plain(self.model, self.example))

    def __repr__(self) -> str:
        return f"<Violation of {self.name} at depth {self.depth}>"

    def _repr_html_(self) -> str:
        """For notebooks."""
        how = "by the step to" if self.example.of_step else "at"
        title = escape(f"{self.example.called} is violated {how} depth {self.depth}")
        return f"<details open><summary>{title}</summary><pre>{escape(str(self))}</pre></details>"


@dataclass(frozen=True, repr=False)
class Result:
    """What exploring, or walking at random, found; printed, it is what the command line would say.

    ``to_json()`` has all of it, in the form of docs/results.md. ``outcome`` is what the checker's own modules pass on.
    """

    outcome: ScenarioOutcome
    model: Model | None
    """The traced protocol; None where Ctrl-C came before it was traced."""

    @property
    def request(self) -> Request:
        """What was asked: parameters, rules and properties, each with its value."""
        return self.outcome.request

    @property
    def verdict(self) -> str:
        """``holds`` (every state was seen, none violates), ``violated``, ``inconclusive``, or one about goals.

        ``reached`` and ``not reached`` are about reachability goals, as docs/results.md says.
        """
        return self.outcome.verdict

    @property
    def holds(self) -> bool:
        """Whether every reachable state was seen and every property holds in all of them."""
        return self.verdict == "holds"

    @property
    def promised(self) -> bool | None:
        """Whether the scenario's promise was kept; None where it has none that applies, or it is still open."""
        return self.outcome.promised

    @property
    def complete(self) -> bool:
        """Whether every reachable state was seen."""
        return self.outcome.result.complete

    @property
    def stopped_by(self) -> str | None:
        """Why the search ended before its end, as in docs/results.md; None where it did not."""
        return self.outcome.result.stopped_by

    @property
    def distinct_states(self) -> int:
        """States seen, each counted once; 0 for random walks."""
        return self.outcome.result.distinct_states

    @property
    def generated_states(self) -> int:
        """States that steps led to, each as often as it was reached, and the initial ones."""
        return self.outcome.result.generated_states

    @property
    def depth(self) -> int:
        """Levels of the search; the initial states are level 1."""
        return self.outcome.result.depth

    @property
    def seconds(self) -> float:
        """Of the search, without preparation."""
        return self.outcome.result.seconds

    @property
    def actions(self) -> Mapping[str, int]:
        """How often each action was taken."""
        return self.outcome.result.actions

    @property
    def cut(self) -> Mapping[str, int]:
        """How many steps were cut at each bound."""
        return self.outcome.result.cut

    @cached_property
    def violations(self) -> tuple[Violation, ...]:
        """A run for each property that is violated, shortest first."""
        if self.model is None:
            return ()
        return tuple(Violation(self.outcome, self.model, e) for e in self.outcome.examples)

    @property
    def reachable(self) -> Mapping[str, int | None]:
        """For each reachability goal the depth at which it was reached; None where it was not."""
        return self.outcome.reachable

    @property
    def warnings(self) -> tuple[str, ...]:
        """What does nothing and nobody said of: actions never taken, properties that are constant."""
        return tuple(warning.text for warning in self.outcome.warnings)

    def violation(self, name: str) -> Violation | None:
        """The violation of this property, if there is one."""
        return next((v for v in self.violations if v.name == name), None)

    def to_json(self) -> dict[str, Any]:
        """The result as ``--json`` writes it: an object of the form that docs/results.md describes."""
        return self.outcome.as_json()

    def __str__(self) -> str:
        """The runs to the violations, the table, and what to know about it."""
        told = [] if self.model is None else [click.unstyle(x) for x in report.told(self.model, self.outcome)]
        return "\n".join([*told, *report.lines([self.outcome])]).lstrip("\n")

    def __repr__(self) -> str:
        walks = self.outcome.walks
        seen = f"{self.distinct_states:,} states" if walks is None else f"{walks:,} walks"
        states = f"{seen}, depth {self.depth}"
        return f"<Result of {self.request.scenario.name}: {report.verdict(self.outcome)}; {states}>"

    def _repr_html_(self) -> str:
        """For notebooks: the table, what to know about it, and the runs, folded."""
        heads, row = report.rows([self.outcome])
        cells = [f"<th>{escape(head)}</th>" for head in heads], [f"<td>{escape(cell)}</td>" for cell in row]
        table = "".join(f"<tr>{''.join(line)}</tr>" for line in cells)
        notes = [*self.outcome.broken, *report.notes(self.outcome), *report.warnings(self.outcome)]
        told = "".join(f"<li>{escape(note)}</li>" for note in notes)
        return "".join(
            [f"<table>{table}</table>", f"<ul>{told}</ul>", *(v._repr_html_() for v in self.violations)]
        )
