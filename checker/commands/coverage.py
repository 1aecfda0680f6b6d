"""``highwater coverage``: report the guards, branches and rules of a protocol that a set of states exercises."""

from __future__ import annotations

from pathlib import Path

import click

import highwater
from highwater.checker.base.files import JsonOutput, refuse_unwritable, write_text
from highwater.checker.base.problems import InputError, Status
from highwater.checker.base.text import folded
from highwater.checker.commands.options import (
    cache_option,
    json_option,
    limit_states_option,
    model_options,
    quiet_option,
    workers_option,
)
from highwater.checker.comparing import coverage_report
from highwater.checker.comparing.coverage import Coverage, add_scenario, add_trace
from highwater.checker.comparing.coverage_report import page
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import SearchOptions
from highwater.traces.inputs import RUN, kind_of
from highwater.traces.reading import TraceError


@click.command(short_help="Report guards, branches and rules not exercised.")
@click.argument("names", metavar="SCENARIO|TRACE...", nargs=-1, required=True)
@model_options()
@limit_states_option(300_000)
@click.option(
    "--rules/--no-rules",
    "with_rules",
    default=True,
    help="Whether to evaluate each rule with and without it.",
)
@workers_option
@cache_option
@click.option("--html", metavar="FILE", help="Write the source with counts beside its lines as HTML.")
@json_option
@click.option("--verbose", is_flag=True, help="List every guard, branch and rule with its counts.")
@quiet_option("the last line")
def coverage(
    names: tuple[str, ...],
    overrides: Overrides,
    limit_states: int,
    with_rules: bool,
    workers: int | None,
    html: str | None,
    json_file: str | None,
    verbose: bool,
    quiet: bool,
) -> Status:
    """Report which guards, branches and rules are exercised in the states of SCENARIOs and TRACEs.

    A TRACE is a file in the format highwater-trace-1. All arguments are of one protocol and give one report. Limits
    apply to each SCENARIO.

    Exit status: 0 (also if something is not exercised), 2 bad request, 130 interrupted.
    """
    output = JsonOutput(json_file)
    if html is not None:
        refuse_unwritable("--html", html)
    found, protocols = Coverage(), set[str]()
    options = SearchOptions(workers=workers or 0, limit_states=limit_states)
    try:
        for name in scenario_files.expanded(names):
            path = Path(name)
            if path.is_file() and not scenario_files.is_path(name):
                if overrides.parameters or overrides.properties:
                    raise InputError(f"{name}: --set and --property are for scenarios; a trace says its own")
                if kind_of(path) != RUN:
                    raise InputError(f"{name}: not a trace of a run (docs/trace-format.md)")
                add_trace(found, path, switches=overrides.rules, profile=overrides.profile, rules=with_rules)
            else:
                request = Request.of(scenario_files.find(name), overrides)
                protocols.add(request.scenario.definition.name)
                if len(protocols) > 1:
                    raise InputError(f"{name}: {' and '.join(sorted(protocols))} are different protocols")
                add_scenario(found, request, options, rules=with_rules, quiet=quiet)
    except TraceError as wrong:
        raise InputError(str(wrong)) from None
    except KeyboardInterrupt:
        found.interrupted = True
    lines = (coverage_report.summary(found),) if quiet else coverage_report.lines(found, full=verbose)
    for line in folded(lines):
        output.say(line)
    if html is not None:
        write_text("--html", html, page(found, [Path(), Path(highwater.__file__).parents[1]]))
    output.write(coverage_report.as_json(found))
    return Status.INTERRUPTED if found.interrupted else Status.OK
