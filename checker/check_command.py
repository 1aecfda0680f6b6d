"""``highwater check``: explore scenarios exhaustively and compare what is found with what they promise."""

from __future__ import annotations

import click

from checker import counterexample, engines, report, scenarios
from checker.options import run_options, scenario_options, spark_options
from checker.output import JsonOutput
from checker.problems import InputError
from checker.progress import Reporter
from checker.request import Overrides, Request
from checker.results import Outcome
from checker.search import SearchOptions, SearchResult
from checker.status import Status, worst
from checker.trace_output import TraceOutput, trace_option
from model.language.model import Model


@click.command(short_help="Explore scenarios exhaustively.")
@click.argument("names", metavar="[SCENARIO]...", nargs=-1)
@scenario_options
@click.option(
    "--symmetry/--no-symmetry", default=None, help="Whether states that differ by names only are one."
)
@click.option("--first", is_flag=True, help="Stop at the first violation.")
@run_options
@click.option(
    "--limit-states", type=click.IntRange(1), metavar="N", help="Stop after so many states of a scenario."
)
@click.option(
    "--memory", type=click.FloatRange(0, min_open=True), metavar="GIB", help="Memory that the engine may use."
)
@click.option(
    "--spill",
    type=click.Path(exists=True, file_okay=False, writable=True),
    metavar="DIR",
    help="Where states go that memory has no room for.",
)
@spark_options
@trace_option("the counterexample (the one that is told first)")
def check(
    names: tuple[str, ...],
    settings: tuple[str, ...],
    rules: tuple[str, ...],
    profile: str | None,
    properties: tuple[str, ...],
    deadlock: bool | None,
    symmetry: bool | None,
    first: bool,
    engine: str,
    workers: int | None,
    limit_seconds: float | None,
    json_file: str | None,
    verbose: bool,
    quiet: bool,
    limit_states: int | None,
    memory: float | None,
    spill: str | None,
    spark_master: str | None,
    checkpoint: str | None,
    resume: bool,
    trace_out: str | None,
) -> Status:
    """Explore every reachable state of each SCENARIO and check its properties.

    A SCENARIO is a name from `highwater list`, or the path of a .toml file. Without one the standard
    scenarios are explored. What a scenario promises is void where an option changes its parameters, rules or
    properties: then every violation counts.

    Exit status: 0 as promised, 1 a property is violated or a promise is not kept, 2 bad request,
    3 inconclusive (a limit was reached first), 130 interrupted.
    """
    overrides = Overrides.parse(settings, rules, profile, properties, symmetry, deadlock)
    if engine == "spark":
        search = engines.on_spark(spark_master, checkpoint, resume, len(names))
    elif spark_master or checkpoint or resume:
        raise InputError("--spark-master, --checkpoint, --resume: these are options of --engine spark")
    else:
        search = engines.search(engine)
    if symmetry and engine == "interpreter":
        raise InputError("--symmetry: the interpreter engine does not reduce by symmetry")
    output = JsonOutput(json_file)
    if trace_out is not None and len(names) != 1:
        raise InputError("--trace-out: name one scenario; a trace is one run")
    trace = TraceOutput(trace_out)
    chosen = [scenarios.find(name) for name in names] if names else scenarios.standard()
    requests = [Request.of(scenario, overrides) for scenario in chosen]
    if engine == "spark" and (live := [r for r in requests if r.liveness]):
        raise InputError(
            f"--engine spark: {live[0].scenario.name} has liveness properties "
            f"({', '.join(p.name for p in live[0].liveness)}), which need the graph on one machine; use --engine native"
        )
    if engine == "interpreter":
        requests = [request.without_symmetry() for request in requests]
    outcomes: list[Outcome] = []
    try:
        for request in requests:
            options = SearchOptions(
                workers=workers or 0,
                limit_states=limit_states,
                limit_seconds=limit_seconds,
                memory_bytes=None if memory is None else int(memory * 2**30),
                spill_directory=spill,
                symmetry=request.symmetry,
                deadlock=request.deadlock,
                stop_at_first=first,
            )
            model, outcome = explore(request, engine, search, options, quiet=quiet)
            outcomes.append(outcome)
            if model is not None and not quiet and (verbose or outcome.broken or len(requests) == 1):
                report.runs(model, outcome, output.say, full=verbose)
            if model is not None and trace_out is not None:
                said = f"--trace-out {trace_out}: not written, as no violation was found"
                if outcome.examples:
                    violations = outcome.result.violations
                    said = trace.write_violation(request, model, violations, outcome.examples[0])
                if not quiet:
                    output.say(said)
            if outcome.status is Status.INTERRUPTED:
                break
    finally:
        if outcomes:
            report.finish(outcomes, output, quiet=quiet)
    return worst(outcome.status for outcome in outcomes)


def explore(
    request: Request, engine: str, search: engines.Search, options: SearchOptions, *, quiet: bool
) -> tuple[Model | None, Outcome]:
    """Trace, search, and follow the runs to violations. The model is None where tracing was interrupted."""
    model: Model | None = None
    result = SearchResult(stopped_by="interrupted")
    try:
        model = request.model()
        with Reporter(request.scenario.name, quiet=quiet) as progress:
            result = search(model, options, progress)
            if model.liveness:
                from checker.liveness import decide

                decide(model, engines.explore(engine), options, result, progress)
    except KeyboardInterrupt:
        pass
    examples = () if model is None else counterexample.follow_all(model, result.violations)
    ruled_out = () if model is None else tuple(model.ruled_out)
    return model, Outcome(request, engine, result, examples, options.stop_at_first, ruled_out)
