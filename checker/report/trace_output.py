"""The output of ``--trace-out``: one run as a file in the format of docs/trace-format.md, or as ITF."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

from highwater.checker.base.files import refuse_unwritable, written
from highwater.checker.report.counterexample import Counterexample
from highwater.checker.scenarios.request import Request
from highwater.checker.scenarios.search import ViolatingRun
from highwater.model.language import Model
from highwater.model.language.initial import Scalars
from highwater.traces.reports.text import count

Command = TypeVar("Command", bound=Callable[..., Any])


def trace_option(what: str) -> Callable[[Command], Command]:
    """The option ``--trace-out``. ``what`` names the written run, in the help text."""
    return click.option(
        "--trace-out",
        metavar="FILE",
        help=f"Write {what} as a trace; as ITF if FILE ends with .itf.json.",
    )


class TraceOutput:
    """The target of ``--trace-out``.

    The constructor checks that the target can be written, so that a long search does not end without its trace.
    """

    def __init__(self, target: str | None) -> None:
        self.target = target
        if target is not None:
            refuse_unwritable("--trace-out", target)

    def write_violation(
        self, request: Request, model: Model, violations: Iterable[ViolatingRun], example: Counterexample
    ) -> str:
        """Write the run of a counterexample. Returns a line with its length and the violated property, if any."""
        run = next(v for v in violations if v.property == example.name and v.depth == example.depth)
        violated = () if example.goal else (example.name,)
        return self._write(request, model, run.initial, run.path, violated, {}, run.loop_start)

    def write_walk(self, request: Request, model: Model, depth: int, seed: int) -> str:
        """Write a random walk of at most ``depth`` states, and return a line with its length.

        The interpreter takes the walk anew, because engines store only walks that violate a property.
        """
        from highwater.traces.runs.writing import random_walk

        walk = random_walk(model, depth, seed)
        return self._write(request, model, walk.initial, walk.path, walk.violated, {"seed": seed})

    def _write(
        self,
        request: Request,
        model: Model,
        initial: Scalars,
        path: Iterable[int],
        violated: Sequence[str],
        about: Mapping[str, Any],
        loop_start: int | None = None,
    ) -> str:
        from highwater.traces.runs import writing

        assert self.target is not None
        about = {**about, "violates": list(violated)} if violated else about
        path, name = tuple(path), request.scenario.name
        steps = len(path)
        with written("--trace-out", self.target) as beside:
            if self.target.endswith(writing.SUFFIX):
                trace = writing.itf(model, initial, path, loop_start=loop_start, source=name, about=about)
                writing.write_itf(beside, trace)
            else:
                steps = writing.write_run(
                    beside,
                    model,
                    initial,
                    path,
                    protocol=request.scenario.definition.name,
                    scenario=name,
                    profile=request.profile,
                    about=about,
                )
        end = f", to a violation of {', '.join(violated)}" if violated else ""
        return f"--trace-out {self.target}: {count(steps, 'step')} written{end}"
