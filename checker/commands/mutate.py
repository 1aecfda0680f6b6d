"""``highwater mutate``: each operation of a protocol's text got wrong, and whether a scenario notices."""

from __future__ import annotations

import os
from pathlib import Path

import click

from highwater.checker.asking import scenarios
from highwater.checker.base import terminal
from highwater.checker.base.output import JsonOutput, refuse_unwritable, write_text
from highwater.checker.base.problems import InputError
from highwater.checker.base.status import Status
from highwater.checker.commands import options
from highwater.checker.comparing.mutation import listed as listing
from highwater.checker.comparing.mutation import report, told
from highwater.checker.comparing.mutation.examining import SURVIVED, UNFINISHED
from highwater.checker.comparing.mutation.findings import WITHIN
from highwater.checker.comparing.mutation.run import Findings, MutationRun
from highwater.checker.running.progress import LiveLine


@click.command(short_help="Every guard and write got wrong, and who notices.")
@click.argument("names", metavar="[SCENARIO]...", nargs=-1)
@click.option("--only", metavar="FILE[:LINE]|ACTION", multiple=True, help="Only these mutants; may repeat.")
@click.option(
    "--limit-states",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    metavar="N",
    help="The most states of a scenario that is asked in all of them.",
)
@click.option(
    "--nearest",
    type=click.IntRange(0),
    default=30_000,
    show_default=True,
    metavar="N",
    help="Of larger scenarios ask the nearest N states; 0: leave them out.",
)
@click.option("--liveness/--no-liveness", default=True, help="Whether liveness properties are asked, too.")
@click.option("--keep", metavar="FILE", help="Keep what is found in this file, and go on from what it holds.")
@click.option("--again", metavar="FILE", help="Tell a run again from what --json wrote, and run nothing.")
@click.option("--listed", metavar="FILE", help="Holes that are known, each with its reason.")
@options.allow_code_option
@options.workers_option
@options.memory_option
@options.cache_option
@click.option("--html", metavar="FILE", help="Write the source with its mutants beside its lines.")
@click.option("--markdown", metavar="FILE", help="Write a page of Markdown.")
@options.json_option
@click.option("--verbose", is_flag=True, help="Every mutant, not only those that nothing notices.")
@options.quiet_option("the last line")
def mutate(
    names: tuple[str, ...],
    only: tuple[str, ...],
    limit_states: int,
    nearest: int,
    liveness: bool,
    keep: str | None,
    again: str | None,
    listed: str | None,
    workers: int | None,
    memory_bytes: int | None,
    html: str | None,
    markdown: str | None,
    json_file: str | None,
    verbose: bool,
    quiet: bool,
) -> Status:
    """Get each guard, write and operation of a protocol's actions wrong, and see which SCENARIO notices.

    Without a SCENARIO the standard scenarios are asked, the smallest first; of those with more states than the limit
    only the nearest states. A mutant that no property notices is a hole, unless its steps are the same in every
    reachable state.

    Exit status: 0 all are noticed, equal or listed, 1 there are holes, 2 bad request, 3 not all is decided,
    130 interrupted.
    """
    output = JsonOutput(json_file)
    for option, file in (("--html", html), ("--markdown", markdown), ("--keep", keep)):
        if file is not None:
            refuse_unwritable(option, file)
    known = [] if listed is None else listing.read(Path(listed))
    if again is not None:
        if names or only or keep:
            raise InputError("--again: nothing is run, so no SCENARIO, --only or --keep goes with it")
        found = told.read(Path(again))
    else:
        chosen = [scenarios.find(n) for n in scenarios.expanded(names)] if names else scenarios.standard()
        live = LiveLine(quiet=quiet)
        run = MutationRun(
            chosen,
            only=only,
            limit_states=limit_states,
            nearest=nearest,
            liveness=liveness,
            processes=min(len(chosen), workers or len(os.sched_getaffinity(0))),
            memory_bytes=memory_bytes,
            keep=None if keep is None else Path(keep),
            progress=live,
        )
        found = run.run()
        live.end()
    if only and not found.records and not found.interrupted:
        raise InputError(f"--only {' --only '.join(only)}: no mutant of these scenarios is of it")
    found.notes += listing.apply(known, found.records.values())
    said = (report.summary(found),) if quiet else report.lines(found, full=verbose, width=terminal.width())
    for line in said:
        output.say(line)
    if html is not None:
        from highwater.checker.comparing.mutation.page import page

        write_text("--html", html, page(found))
    if markdown is not None:
        from highwater.checker.comparing.mutation.markdown import lines as page_lines

        write_text("--markdown", markdown, "\n".join(page_lines(found)) + "\n")
    output.write(report.as_json(found))
    return status_of(found)


def status_of(found: Findings) -> Status:
    """The exit status that the findings stand for."""
    verdicts = {r.verdict for r in found.records.values()}
    if found.interrupted:
        return Status.INTERRUPTED
    if verdicts & {WITHIN, SURVIVED}:
        return Status.VIOLATED
    return Status.INCONCLUSIVE if UNFINISHED in verdicts or found.left_out else Status.AS_PROMISED
