"""The public functions of ``highwater`` and what they give back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Unpack

import click

from highwater.checker.base.problems import InputError
from highwater.checker.engines import by_name as engines
from highwater.checker.engines.by_name import Engine
from highwater.checker.engines.simulation import SimulationOptions
from highwater.checker.report import counterexample, summary
from highwater.checker.report.counterexample import Counterexample, Step
from highwater.checker.report.results import ScenarioOutcome
from highwater.checker.report.trace_output import TraceOutput
from highwater.checker.runner import one as exploration
from highwater.checker.runner.one import ProgressReporter
from highwater.checker.scenarios import catalogue, scenario_files
from highwater.checker.scenarios.request import Request, ScenarioSettings, Subject, asked
from highwater.checker.scenarios.search import SearchOptions
from highwater.model import registry
from highwater.model.language.model import Model
from highwater.model.language.protocol import Protocol

if TYPE_CHECKING:
    from highwater.checker.explore.session import Session


# What ``highwater.check`` and ``highwater.simulate`` give back: a result that reads well in a notebook.


@dataclass(frozen=True, repr=False)
class Violation:
    """A violated property with its counterexample; printed, it lists the run step by step."""

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
        """The request: parameters, rules and properties, each with its value."""
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
        """Whether the scenario's expectations are met; None if options override it, or the search ended too early."""
        return self.outcome.as_expected

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
        """Vacuous actions and properties that the scenario does not expect."""
        return tuple(warning.text for warning in self.outcome.warnings)

    def violation(self, name: str) -> Violation | None:
        """The violation of this property, if there is one."""
        return next((v for v in self.violations if v.name == name), None)

    def to_json(self) -> dict[str, Any]:
        """The result as ``--json`` writes it: an object of the form that docs/results.md describes."""
        return self.outcome.as_json()

    def __str__(self) -> str:
        """The runs to the violations, the table, and what to know about it."""
        told = (
            [] if self.model is None else [click.unstyle(x) for x in summary.told(self.model, self.outcome)]
        )
        return "\n".join([*told, *summary.lines([self.outcome])]).lstrip("\n")

    def __repr__(self) -> str:
        walks = self.outcome.walks
        seen = f"{self.distinct_states:,} states" if walks is None else f"{walks:,} walks"
        states = f"{seen}, depth {self.depth}"
        return f"<Result of {self.request.scenario.name}: {summary.verdict(self.outcome)}; {states}>"

    def _repr_html_(self) -> str:
        """For notebooks: the table, what to know about it, and the runs, folded."""
        expected = {True: "as expected", False: "not as expected", None: "not checked"}[self.promised]
        row = {
            "scenario": self.request.scenario.name,
            "verdict": summary.verdict(self.outcome),
            "expectations": expected,
            "states": f"{self.outcome.states:,}",
            "depth": str(self.depth),
            "seconds": f"{self.seconds:.2f}",
        }
        cells = "".join(
            f"<tr><th>{escape(head)}</th><td>{escape(cell)}</td></tr>" for head, cell in row.items()
        )
        notes = [*self.outcome.broken, *summary.notes(self.outcome), *summary.warnings(self.outcome)]
        told = "".join(f"<li>{escape(note)}</li>" for note in notes)
        return "".join(
            [f"<table>{cells}</table>", f"<ul>{told}</ul>", *(v._repr_html_() for v in self.violations)]
        )


# The public functions of ``highwater``: what the command line asks, asked from Python.


def scenario(
    subject: Subject, *, directory: str | PathLike[str] | None = None, **settings: Unpack[ScenarioSettings]
) -> Request:
    """A request to check a scenario or a protocol, with the settings that override it.

    ``subject`` is a name from ``scenarios()`` or ``protocols()``, the path of a ``.toml`` scenario or of a ``.py`` file
    with a protocol (relative to ``directory``, where that is given), or a Protocol's class. The settings mean what
    the options of the command line do: ``parameters`` and ``rules`` by their names, a ``profile``, the ``properties``
    to check, ``deadlock``, ``symmetry``, ``outside``. Without ``properties`` all are checked; of a protocol that comes
    with Highwater all but liveness. ``check`` and ``simulate`` take the result, and its ``model()`` is the traced
    protocol. Raises InputError if the subject does not exist, or a name or a value does not fit it.
    """
    return asked(subject, directory=directory, **settings)


def check(
    subject: Subject,
    *,
    engine: str = engines.DEFAULT,
    spark_master: str | None = None,
    workers: int | None = None,
    limit_states: int | None = None,
    limit_seconds: float | None = None,
    memory_bytes: int | None = None,
    first: bool = False,
    progress: bool = False,
    **settings: Unpack[ScenarioSettings],
) -> Result:
    """Explore every reachable state of a scenario or a protocol, as ``highwater check`` does.

    What is set over ``subject`` is as for ``scenario``, the rest as the options of the command line: ``engine`` is
    ``native``, ``interpreter`` or ``spark``, ``first`` stops with the level of the first violation, ``progress`` says
    on standard error how far the search is. Ctrl-C, or a notebook's interrupt, ends the search with what was found.
    Raises InputError for what cannot be asked, LanguageError for what is wrong with the protocol's text.
    """
    chosen = Engine(engine, spark_master)
    search = chosen.search(1)
    request = chosen.fitted(scenario(subject, **settings), settings.get("symmetry"))
    if engine == "spark" and request.liveness:
        why = "liveness needs the graph on one machine; name other properties, or another engine"
        if request.narrowed_by:
            raise InputError(f"{', '.join(p.name for p in request.liveness)}: {why}")
        request = request.safety_only(why)
    options = SearchOptions(
        workers=workers or 0,
        limit_states=limit_states,
        limit_seconds=limit_seconds,
        memory_bytes=memory_bytes,
        symmetry=request.symmetry,
        deadlock=request.deadlock,
        stop_at_first=first,
    )
    with ProgressReporter(request.scenario.name, quiet=not progress) as reporter:
        model, outcome = exploration.explore(request, engine, search, options, reporter)
    return Result(outcome, model)


def simulate(
    subject: Subject,
    *,
    engine: str = engines.DEFAULT,
    walks: int = 10_000,
    depth: int = 100,
    seed: int = 0,
    workers: int | None = None,
    limit_seconds: float | None = None,
    progress: bool = False,
    **settings: Unpack[ScenarioSettings],
) -> Result:
    """Walk at random through what is too large to explore, as ``highwater simulate`` does; nothing is proved by it.

    The same ``seed`` makes the same walks, ``depth`` is the most states of one. The rest, and what is raised, is as for
    ``check``.
    """
    simulation = engines.simulate(engine)
    request = scenario(subject, **settings).for_walks()
    options = SimulationOptions(walks, depth, seed, workers or 0, limit_seconds, request.deadlock)
    model, outcome = exploration.walk(request, engine, simulation, options, quiet=not progress)
    return Result(outcome, model)


def explore(subject: Subject, **settings: Unpack[ScenarioSettings]) -> Session:
    """The state space of a scenario or a protocol by hand: ``highwater explore`` without its page.

    The arguments are those of ``scenario``. A session takes steps and answers questions about states; a ``Path`` says
    which state. Raises InputError as ``scenario``, LanguageError where the protocol misuses the language.
    """
    from highwater.checker.explore.session import Session

    request = scenario(subject, **settings).without_goals()
    return Session(request.without_symmetry().model())


def protocols() -> list[str]:
    """The names of the protocols that come with Highwater."""
    return list(registry.NAMES)


def protocol(name: str) -> type[Protocol]:
    """The class of one of them: ``parameters``, ``rules`` and ``profiles`` say what can be set. InputError if none."""
    return catalogue.load(name).protocol


def scenarios(*, standard: bool = False) -> dict[str, str]:
    """The scenarios that come with Highwater, name to title; with ``standard`` those that a bare check explores."""
    return {
        name: title
        for name, (title, is_standard) in scenario_files.titles().items()
        if is_standard or not standard
    }
