"""``highwater mutate``: change each operation of a protocol's text, and report which scenario detects the change."""

from __future__ import annotations

import os

import click

from highwater.checker.base.files import JsonOutput
from highwater.checker.base.problems import InputError, Status
from highwater.checker.base.text import width
from highwater.checker.commands import options
from highwater.checker.comparing import mutation
from highwater.checker.comparing.mutants import NOT_COMPARED, SURVIVED
from highwater.checker.comparing.mutation import Findings, MutationRun
from highwater.checker.runner import LiveLine, Reuse
from highwater.checker.scenarios import scenario_files


@click.command(short_help="Change the protocol in many places; report which changes go undetected.")
@click.argument("names", metavar="[SCENARIO]...", nargs=-1)
@click.option(
    "--only", metavar="FILE[:LINE]|ACTION", multiple=True, help="Only mutants of this place; may repeat."
)
@click.option(
    "--limit-states",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    metavar="N",
    help="Explore the nearest N states of a scenario.",
)
@click.option("--liveness/--no-liveness", default=True, help="Whether to check liveness properties.")
@options.fresh_option
@options.allow_code_option
@options.workers_option
@options.memory_option
@options.cache_option
@options.json_option
@click.option("--verbose", is_flag=True, help="List every mutant.")
@options.quiet_option("the last line")
def mutate(
    names: tuple[str, ...],
    only: tuple[str, ...],
    limit_states: int,
    liveness: bool,
    fresh: bool,
    workers: int | None,
    memory_bytes: int | None,
    json_file: str | None,
    verbose: bool,
    quiet: bool,
) -> Status:
    """Change each guard, write and operation of a protocol's actions, and report which SCENARIO detects the change.

    The default is the standard scenarios, the smallest first. A changed protocol is a mutant. It is killed by a
    property, noticed by counts, equivalent, or it survives.

    Exit status: 0 no mutant survived, 1 a mutant survived, 2 bad request, 3 no mutant survived but a scenario was
    skipped, 130 interrupted.
    """
    output = JsonOutput(json_file)
    chosen = (
        [scenario_files.find(n) for n in scenario_files.expanded(names)]
        if names
        else scenario_files.standard()
    )
    live = LiveLine(quiet=quiet)
    run = MutationRun(
        chosen,
        only=only,
        limit_states=limit_states,
        liveness=liveness,
        processes=min(len(chosen), workers or len(os.sched_getaffinity(0))),
        memory_bytes=memory_bytes,
        reuse=Reuse.unless(fresh) is Reuse.REUSE,
        progress=live,
    )
    found = run.run()
    live.end()
    if only and not found.records and not found.interrupted:
        raise InputError(f"--only {' --only '.join(only)}: no mutant of these scenarios matches")
    text = (mutation.summary(found),) if quiet else mutation.lines(found, full=verbose, width=width())
    for line in text:
        output.say(line)
    output.write(mutation.as_json(found))
    return status_of(found)


def status_of(found: Findings) -> Status:
    """The exit status of a run of ``highwater mutate``."""
    if found.interrupted:
        return Status.INTERRUPTED
    if any(r.verdict == SURVIVED for r in found.records.values()):
        return Status.VIOLATED
    unfinished = found.left_out or any(r.verdict == NOT_COMPARED for r in found.records.values())
    return Status.INCONCLUSIVE if unfinished else Status.OK
