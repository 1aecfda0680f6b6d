"""``highwater simulate``: random walks through a scenario that is too large to explore."""

from __future__ import annotations

import time

import click

from highwater.checker.base.files import JsonOutput
from highwater.checker.base.problems import Status
from highwater.checker.base.text import width
from highwater.checker.commands.options import (
    cache_option,
    html_option,
    json_option,
    limit_seconds_option,
    model_options,
    quiet_option,
    trace_option,
    verbose_option,
    workers_option,
)
from highwater.checker.report import summary
from highwater.checker.report.counterexample import TraceOutput
from highwater.checker.report.page.content import PageOutput
from highwater.checker.report.page.run import ShownRun, counterexamples, shown_walk
from highwater.checker.runner import walk
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import SimulationOptions
from highwater.model.language import Model


@click.command(short_help="Walk at random through a scenario too large to explore.")
@click.argument("name", metavar="SCENARIO")
@click.option(
    "--walks", type=click.IntRange(1), default=10_000, metavar="N", help="Number of walks.  [default: 10000]"
)
@click.option(
    "--depth",
    type=click.IntRange(1, 10_000_000),
    default=100,
    metavar="N",
    help="Most states in a walk.  [default: 100]",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    metavar="N",
    help="The same seed makes the same walks.  [default: 0]",
)
@model_options()
@workers_option
@limit_seconds_option
@cache_option
@json_option
@verbose_option
@quiet_option("the verdict table")
@html_option("the counterexamples, or one walk,")
@trace_option("one walk (if possible one that violates a property)")
def simulate(
    name: str,
    walks: int,
    depth: int,
    seed: int,
    overrides: Overrides,
    workers: int | None,
    limit_seconds: float | None,
    json_file: str | None,
    verbose: bool,
    quiet: bool,
    trace_out: str | None,
    html: str | None,
) -> Status:
    """Walk at random through the states of SCENARIO until a property is violated.

    Walks can show that a property is violated, never that it holds: without a violation the verdict is
    inconclusive, and exit status 0 means that all walks were made.
    """
    started = time.perf_counter()
    output = JsonOutput(json_file, quiet=quiet)
    trace, page = TraceOutput(trace_out), PageOutput(html)
    request = Request.of(scenario_files.find(name), overrides).for_walks()
    options = SimulationOptions(
        walks=walks,
        depth=depth,
        seed=seed,
        workers=workers or 0,
        limit_seconds=limit_seconds,
        deadlock=request.deadlock,
    )
    result = walk(request, options, quiet=quiet)
    model = result.model
    if not quiet:
        for line in result.run_lines(full=verbose, width=width()):
            output.say(line)
    if model is not None and trace_out is not None:
        if result.runs:
            line = trace.write_violation(request, model, result.search.violations, result.runs[0])
        else:
            line = trace.write_walk(request, model, depth, seed)
        output.note(line)
    if model is not None and html is not None:
        runs = counterexamples(model, result.search.violations, result.runs)
        output.note(page.write(request, runs or [_walk(model, depth, seed)], ""))
    summary.finish([result], output, quiet=quiet, verbose=verbose, seconds=time.perf_counter() - started)
    return result.status


def _walk(model: Model, depth: int, seed: int) -> ShownRun:
    """A random walk made by the interpreter, because engines store only walks that violate a property."""
    from highwater.traces.runs.writing import random_walk

    walk = random_walk(model, depth, seed)
    return shown_walk(model, walk.initial, walk.path)
