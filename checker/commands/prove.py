"""``highwater prove``: check a scenario with Z3, up to a depth or by induction."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from highwater.checker.base.files import JsonOutput, write_text
from highwater.checker.base.problems import InputError, Status
from highwater.checker.base.text import folded, width
from highwater.checker.commands import options
from highwater.checker.report import summary
from highwater.checker.report.page.content import PageOutput
from highwater.checker.report.page.run import counterexamples
from highwater.checker.runner import result_of
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import DEADLOCK

if TYPE_CHECKING:
    from highwater.checker.engines.solver.terms import Limits

DEPTH = 10


@click.command(short_help="Check a scenario with Z3: to a depth, or by induction.")
@click.argument("name", metavar="SCENARIO")
@click.option(
    "--depth",
    type=click.IntRange(1),
    metavar="K",
    help=f"Check every run of up to K states, the initial state included.  [default: {DEPTH}]",
)
@click.option(
    "--induction", is_flag=True, help="Check that every action preserves the invariants from any state."
)
@click.option(
    "--helpers/--no-helpers",
    "use_helpers",
    default=True,
    help="Whether to prove the protocol's helper properties with the others.",
)
@click.option(
    "--epochs",
    type=click.Choice(("bounded", "unbounded")),
    default="bounded",
    show_default=True,
    help="Whether epochs and offsets are bounded as in the scenario, or are any numbers.",
)
@click.option(
    "--brokers",
    type=click.Choice(("any",)),
    help="Prove for any number of brokers, instead of the scenario's. Needs --induction.",
)
@click.option(
    "--smt",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write the obligations of --brokers any to DIR, as SMT-LIB files.",
)
@options.model_options()
@options.first_option
@options.limit_seconds_option
@options.memory_option
@options.workers_option
@options.json_option
@options.html_option("the counterexamples, or the steps that do not preserve a property,")
@options.verbose_option
@options.quiet_option("the verdicts")
def prove(
    name: str,
    depth: int | None,
    induction: bool,
    use_helpers: bool,
    epochs: str,
    brokers: str | None,
    smt: str | None,
    overrides: Overrides,
    first: bool,
    limit_seconds: float | None,
    memory_bytes: int | None,
    workers: int | None,
    json_file: str | None,
    html: str | None,
    verbose: bool,
    quiet: bool,
) -> Status:
    """Check SCENARIO with Z3. SCENARIO is a name from `highwater list` or the path of a .toml file.

    --depth searches for the shortest run of at most K states that violates a property. --induction checks that every
    action preserves every invariant, from any state that satisfies them all.

    Exit status: 0 as expected, 1 a property is violated or not preserved, 2 bad request,
    3 inconclusive (stopped at a limit), 130 interrupted.
    """
    if induction and depth is not None:
        raise InputError("--depth and --induction exclude each other")
    if induction and first:
        raise InputError("--first needs --depth")
    if induction and (overrides.deadlock or DEADLOCK in overrides.properties):
        option = "--deadlock" if overrides.deadlock else f"--property {DEADLOCK}"
        raise InputError(f"{option} needs --depth: it is not an invariant")
    if workers is not None and not induction:
        raise InputError("--workers needs --induction: a bounded check uses one process")
    if workers is not None and memory_bytes is not None:
        raise InputError("--memory and --workers exclude each other: the limit is for one process")
    if brokers is not None and not induction:
        raise InputError("--brokers needs --induction: a bounded check has a number of brokers")
    if smt is not None and brokers is None:
        raise InputError("--smt needs --brokers any: other proofs have no SMT-LIB files")
    if brokers is not None and html is not None:
        raise InputError("--brokers any gives no steps for --html")
    if not use_helpers and not induction:
        raise InputError("--no-helpers needs --induction")
    request = Request.of(scenario_files.find(name), overrides).without_symmetry()
    request = request.safety_only("Z3 checks states and steps only; use `highwater check`")
    output, page = JsonOutput(json_file, quiet=quiet), PageOutput(html)
    if epochs == "unbounded":
        request = _unbounded(request)
    if induction:
        from highwater.checker.base.processes import cores
        from highwater.checker.engines.solver.terms import Limits

        limits = Limits(limit_seconds, memory_bytes)
        workers = 1 if memory_bytes else workers or cores()
        if brokers is not None:
            return _any_size(request, use_helpers, workers, limits, output, smt, verbose)
        return _induction(request, use_helpers, workers, limits, output, page, verbose)
    return _bounded(request, depth or DEPTH, first, limit_seconds, memory_bytes, output, page, verbose)


def _unbounded(request: Request) -> Request:
    """The request, with each number that a parameter bounds unbounded; sequences keep their length."""
    from highwater.checker.engines.solver.terms import unbounded

    scenario = request.scenario
    rules = [name for name, on in request.rules.items() if on]
    protocol, parameters = unbounded(
        scenario.protocol, request.parameters, rules, request.invariants, request.step_properties
    )
    definition = replace(scenario.definition, protocol=protocol)
    return replace(
        request, scenario=replace(scenario, definition=definition), parameters=parameters, as_written=False
    )


def _induction(
    request: Request,
    use_helpers: bool,
    workers: int,
    limits: Limits,
    output: JsonOutput,
    page: PageOutput,
    verbose: bool,
) -> Status:
    from highwater.checker.engines.solver import induction
    from highwater.checker.engines.solver.induction import helpers, with_helpers
    from highwater.checker.report.solver_results import ProofResult

    def progress(action: str, seconds: float) -> None:
        output.progress(f"{request.scenario.name}: {action} ({seconds:.2f} s)")

    definition = request.scenario.definition
    helped = with_helpers(request) if use_helpers else request
    helping, model = helpers(definition), helped.model()
    known = (*definition.invariants, *helping.invariants)
    found = induction.prove(model, known=known, limits=limits, workers=workers, progress=progress)
    own = tuple(i.name for i in helped.invariants[len(request.invariants) :])
    result = ProofResult(request, model, found, own)
    for line in folded(result.lines(failures=not output.quiet, full=verbose)):
        output.say(line)
    if page.target is not None:
        from highwater.checker.report.page.run import failures

        runs = list(failures(result))
        output.note(page.write(helped, runs, "every property is preserved, or nothing was decided"))
    output.write([result.to_json()])
    return result.status


def _any_size(
    request: Request,
    use_helpers: bool,
    workers: int,
    limits: Limits,
    output: JsonOutput,
    smt: str | None,
    verbose: bool,
) -> Status:
    from highwater.checker.engines.solver import any_size
    from highwater.checker.engines.solver.induction import with_helpers
    from highwater.checker.report.solver_results import AnySizeProof

    def progress(decided: any_size.Decided) -> None:
        output.progress(f"{request.scenario.name}: {decided.obligation.name} ({decided.seconds:.2f} s)")

    helped = with_helpers(request) if use_helpers else request
    rules = [name for name, on in request.rules.items() if on]
    traced = any_size.trace(
        request.scenario.protocol, request.parameters, rules, helped.invariants, helped.step_properties
    )
    if smt is not None:
        Path(smt).mkdir(parents=True, exist_ok=True)
        for obligation in traced.obligations:
            write_text("--smt", Path(smt) / f"{obligation.name}.smt2", obligation.text())
    found = any_size.decide(traced, limits, workers, progress)
    own = tuple(i.name for i in helped.invariants[len(request.invariants) :])
    result = AnySizeProof(request, found, own)
    for line in folded(result.lines(full=verbose)):
        output.say(line)
    output.write([result.to_json()])
    return result.status


def _bounded(
    request: Request,
    depth: int,
    first: bool,
    limit_seconds: float | None,
    memory_bytes: int | None,
    output: JsonOutput,
    page: PageOutput,
    verbose: bool,
) -> Status:
    from highwater.checker.engines.solver import bounded
    from highwater.checker.engines.solver.terms import Limits
    from highwater.checker.report.results import REACHED
    from highwater.checker.report.solver_results import ENGINE, DepthResult

    request = request.for_first() if first else request
    goals = {goal.name for goal in request.goals}
    left = set(goals)

    def progress(done: bounded.DepthDone) -> None:
        left.difference_update(done.violated)
        words = [f"{name} {REACHED if name in goals else 'violated'}" for name in done.violated]
        verdicts = "".join(f"{one}, " for one in words)
        line = f"{request.scenario.name}: depth {done.depth}: {verdicts}{done.holding - len(left)} hold"
        output.progress(f"{line} ({done.seconds:.2f} s)")

    model = request.model()
    found = bounded.check(
        model,
        depth,
        deadlock=request.deadlock,
        stop_at_first=first,
        limits=Limits(limit_seconds, memory_bytes),
        progress=progress,
    )
    kind = partial(DepthResult, asked_depth=depth)
    result = result_of(kind, request, ENGINE, model, found, stop_at_first=first)
    for line in result.run_lines(full=verbose, width=width()):
        output.note(line)
    output.note("")
    if page.target is not None:
        runs = counterexamples(model, found.violations, result.runs)
        output.note(page.write(request, runs, "no violation found"))
    for line in folded(result.lines()):
        output.say(line)
    summary.warn([result])
    output.write([result.to_json()])
    return result.status
