"""``highwater check``: explore scenarios exhaustively and compare the results with their expectations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import click

from highwater.checker.base.files import JsonOutput, refuse_unwritable
from highwater.checker.base.problems import InputError, Status, worst
from highwater.checker.commands.options import (
    first_option,
    fresh_option,
    html_option,
    json_option,
    model_options,
    quiet_option,
    search_engine_options,
    search_options,
    trace_option,
    verbose_option,
)
from highwater.checker.engines.by_name import Engine
from highwater.checker.report import summary
from highwater.checker.report.counterexample import TraceOutput
from highwater.checker.report.results import Result
from highwater.checker.runner import Batch, Reuse, explored
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import SearchOptions


@click.command(short_help="Explore every reachable state of scenarios.")
@click.argument("names", metavar="[SCENARIO]...", nargs=-1)
@model_options(symmetry=True)
@first_option
@search_engine_options
@search_options
@fresh_option
@json_option
@verbose_option
@quiet_option("the verdict table")
@trace_option("the first counterexample")
@html_option("the counterexamples")
def check(
    names: tuple[str, ...],
    overrides: Overrides,
    first: bool,
    engine: Engine,
    options: SearchOptions,
    fresh: bool,
    json_file: str | None,
    verbose: bool,
    quiet: bool,
    trace_out: str | None,
    html: str | None,
) -> Status:
    """Explore every reachable state of each SCENARIO and check its properties.

    A SCENARIO is a name from `highwater list`, a pattern such as 'truncation/*', or the path of a .toml file.
    The default is the standard scenarios. More than 12 scenarios are summed up by protocol; --verbose lists each.

    A scenario can expect violations, for example of a known defect; an expected violation is a success. Options that
    override parameters, rules or properties turn the expectations off; then every violation counts. Limits apply to
    each scenario.

    A scenario that has not changed since it was explored is not explored again; its result is marked as unchanged.
    --fresh explores every scenario, and so does the environment variable CI.

    Exit status: 0 all as expected, 1 an unexpected violation or an expectation not met, 2 bad request,
    3 inconclusive (stopped at a limit), 130 interrupted.
    """
    started = time.perf_counter()
    chosen = scenario_files.expanded(names) if names else scenario_files.standard_names()
    output = JsonOutput(json_file, quiet=quiet)
    _refuse_several(names, trace_out, html)
    trace = TraceOutput(trace_out)
    options = replace(options, stop_at_first=first)
    batch = Batch(
        tuple(chosen),
        overrides,
        engine,
        options,
        Reuse.of(engine, options, fresh=fresh),
        verbose=verbose,
        quiet=quiet,
        with_models=trace_out is not None or html is not None,
    )
    batch.search()  # refuses wrong options before a scenario is read
    requests = [batch.request(number) for number in range(len(chosen))]
    if engine.name == "spark":
        requests = list(_for_spark(requests, named=bool(names), say=output.note))
    results: list[Result] = []
    try:
        for run in explored(batch, requests):
            results.append(replace(run.result, model=None))
            for line in run.lines:
                output.note(line)
            for line in _written(run.result, trace, html):
                output.note(line)
    finally:
        if results:
            seconds = time.perf_counter() - started
            summary.finish(results, output, quiet=quiet, verbose=verbose, seconds=seconds)
    return worst(result.status for result in results)


def _refuse_several(names: Sequence[str], trace_out: str | None, html: str | None) -> None:
    """Raises InputError if ``--trace-out`` or ``--html`` is given without exactly one name.

    Also raises InputError if the file of ``--html`` cannot be written.
    """
    if trace_out is not None and len(names) != 1:
        raise InputError("--trace-out: name one scenario; a trace is one run")
    if html is not None and len(names) != 1:
        raise InputError("--html: name one scenario; the page is about its runs")
    if html is not None:
        refuse_unwritable("--html", html)


def _written(result: Result, trace: TraceOutput, html: str | None) -> Iterator[str]:
    """Write the requested trace and page; yield a line about each. Raises InputError if a file cannot be written."""
    request, model, violations = result.request, result.model, result.search.violations
    if model is None:
        return
    if trace.target is not None:
        if result.runs:
            yield trace.write_violation(request, model, violations, result.runs[0])
        else:
            yield f"--trace-out {trace.target}: not written: no violation found"
    if html is not None:
        from highwater.checker.report.page.content import PageOutput
        from highwater.checker.report.page.run import counterexamples

        runs = counterexamples(model, violations, result.runs)
        yield PageOutput(html).write(request, runs, "no violation found")


def _for_spark(requests: Sequence[Request], named: bool, say: Callable[[str], None]) -> Iterator[Request]:
    """The requests without their liveness properties, which Spark cannot check; a note lists these properties.

    A request that has only liveness properties is left out. If the user ``named`` its scenario, InputError is
    raised instead.
    """
    for request in requests:
        live = ", ".join(p.name for p in request.liveness)
        if live and not (request.invariants or request.step_properties or request.deadlock or named):
            say(f"{request.scenario.name}: skipped: Spark checks no liveness ({live})")
            continue
        fitted = request.safety_only("liveness needs the graph on one machine; use --engine native")
        if live:
            say(f"{request.scenario.name}: Spark checks no liveness: skipped {live}")
        yield fitted
