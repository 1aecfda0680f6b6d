"""``highwater prove``: what Z3 can say of a scenario, to a depth or by induction."""

from __future__ import annotations

import sys

import click

from checker import counterexample, report, scenarios
from checker.options import json_output, scenario_options
from checker.output import JsonOutput
from checker.problems import InputError
from checker.request import Overrides, Request
from checker.status import Status

DEPTH = 10


@click.command(short_help="Ask a solver: to a depth, or by induction.")
@click.argument("name", metavar="SCENARIO")
@click.option(
    "--depth",
    type=click.IntRange(1),
    metavar="K",
    help=f"Look at every run of up to K states (the initial one is the first).  [default: {DEPTH}]",
)
@click.option(
    "--induction", is_flag=True, help="Ask whether every action keeps the invariants, from any state."
)
@scenario_options
@click.option("--first", is_flag=True, help="Stop with the depth of the first violation.")
@click.option(
    "--limit-seconds",
    type=click.FloatRange(0, min_open=True),
    metavar="S",
    help="Stop after so many seconds.",
)
@click.option(
    "--memory", type=click.FloatRange(0, min_open=True), metavar="GIB", help="Memory that the solver may use."
)
@json_output
@click.option("--verbose", is_flag=True, help="Show every run, with the whole state after each step.")
@click.option("--quiet", is_flag=True, help="No progress, no runs: only the verdicts.")
def prove(
    name: str,
    depth: int | None,
    induction: bool,
    settings: tuple[str, ...],
    rules: tuple[str, ...],
    profile: str | None,
    properties: tuple[str, ...],
    deadlock: bool | None,
    first: bool,
    limit_seconds: float | None,
    memory: float | None,
    json_file: str | None,
    verbose: bool,
    quiet: bool,
) -> Status:
    """Ask Z3 about SCENARIO, a name from `highwater list` or the path of a .toml file.

    With --depth: is there a run of at most K states to one that violates a property? The shortest is shown. With
    --induction: does every action keep every invariant, whatever the state before it?

    Exit status: 0 as promised, 1 a property is violated or an invariant is not kept, 2 bad request,
    3 inconclusive (a limit was reached first), 130 interrupted.
    """
    if induction and depth is not None:
        raise InputError("--depth and --induction are two questions: ask one")
    if induction:
        raise InputError("--induction is not available yet")
    request = Request.of(
        scenarios.find(name), Overrides.parse(settings, rules, profile, properties, None, deadlock)
    ).without_symmetry()
    output = JsonOutput(json_file)
    memory_bytes = None if memory is None else int(memory * 2**30)
    return _bounded(request, depth or DEPTH, first, limit_seconds, memory_bytes, output, verbose, quiet)


def _bounded(
    request: Request,
    depth: int,
    first: bool,
    limit_seconds: float | None,
    memory_bytes: int | None,
    output: JsonOutput,
    verbose: bool,
    quiet: bool,
) -> Status:
    from checker.solver import bounded
    from checker.solver.limits import Limits
    from checker.solver.results import ENGINE, BoundedOutcome

    def progress(done: bounded.DepthDone) -> None:
        if not quiet:
            said = f"{', '.join(done.violated)} violated, " if done.violated else ""
            line = f"{request.scenario.name}: depth {done.depth}: {said}{done.holding} hold"
            print(f"{line} ({done.seconds:.2f} s)", file=sys.stderr, flush=True)

    model = request.model()
    result = bounded.check(
        model,
        depth,
        deadlock=request.deadlock,
        stop_at_first=first,
        limits=Limits(limit_seconds, memory_bytes),
        progress=progress,
    )
    examples = counterexample.follow_all(model, result.violations)
    outcome = BoundedOutcome(request, ENGINE, result, examples, first, tuple(model.ruled_out), asked=depth)
    if not quiet:
        report.runs(model, outcome, output.say, full=verbose)
        output.say("")
    for line in outcome.lines():
        output.say(line)
    output.write([outcome.as_json()])
    return outcome.status
