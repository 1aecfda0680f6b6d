"""``highwater plan``: what can happen to a cluster if an operator does this now."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from highwater.checker.base.files import JsonOutput, refuse_unwritable, written
from highwater.checker.base.problems import InputError, Status
from highwater.checker.base.text import paragraph, width
from highwater.checker.commands.options import (
    json_option,
    limit_seconds_option,
    quiet_option,
    rule_option,
    workers_option,
)
from highwater.checker.plan.answer import PlanAnswer, answer, down_to
from highwater.checker.plan.cluster import read_cluster
from highwater.checker.plan.kinds import MOST_FAULTS
from highwater.checker.plan.page import write_page
from highwater.checker.plan.report import headline, lines, to_json
from highwater.checker.plan.search import Searches
from highwater.checker.plan.steps import ACTIONS, read_plan
from highwater.checker.runner import LiveLine
from highwater.checker.scenarios.request import Overrides
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import LanguageError
from highwater.model.versions import versions
from highwater.traces.reading import TraceError, printable


class _Ordered(click.Command):
    """A command that keeps the actions of its command line in order, as ``context.meta``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line. The values of an option are in order, and so are the options."""
        values, _, order = self.make_parser(ctx).parse_args(args=list(args))
        given = {name: iter(found) for name, found in values.items() if isinstance(found, list)}
        names = [option.name or "" for option in order]
        actions = [(name.replace("_", "-"), next(given.get(name, iter(())), "")) for name in names]
        ctx.meta["actions"] = [action for action in actions if action[0] in ACTIONS]
        return super().parse_args(ctx, args)


def _with_actions(command: Callable[..., Any]) -> Callable[..., Any]:
    for name, (form, text, _) in reversed(ACTIONS.items()):
        kind: dict[str, Any] = {"is_flag": True} if form is None else {"metavar": form, "multiple": True}
        command = click.option(f"--{name}", help=text, expose_value=False, **kind)(command)
    return command


@click.command(cls=_Ordered, short_help="Find out what can happen to a cluster if you do this now.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@_with_actions
@click.option(
    "--faults",
    type=click.IntRange(0, MOST_FAULTS),
    default=1,
    show_default=True,
    help="The most faults that may happen besides the plan, at any moment.",
)
@click.option(
    "--assume",
    metavar="NAME=VALUE",
    multiple=True,
    help="The value of a setting that the log does not have: unclean.leader.election.enable or min.insync.replicas.",
)
@click.option("--kafka", metavar="VERSION", help="Ask under the rules of this version of Kafka, 4.0 to 4.4.")
@rule_option
@click.option(
    "--fail-on",
    type=click.Choice(("lost", "stuck", "offline", "unclean", "min-isr")),
    default="stuck",
    show_default=True,
    help="Exit with 1 if this outcome or a worse one can happen.",
)
@click.option("--added", is_flag=True, help="Exit with 1 only for what cannot happen without the plan.")
@json_option
@click.option("--html", "page", metavar="FILE", type=click.Path(path_type=Path), help="Write an HTML page.")
@workers_option
@limit_seconds_option
@click.option("--verbose", is_flag=True, help="Show a run of every kind and outcome.")
@quiet_option("the answer in one line")
@click.pass_context
def plan(
    context: click.Context,
    paths: tuple[Path, ...],
    faults: int,
    assume: tuple[str, ...],
    kafka: str | None,
    rules: tuple[str, ...],
    fail_on: str,
    added: bool,
    json_file: str | None,
    page: Path | None,
    workers: int | None,
    limit_seconds: float | None,
    verbose: bool,
    quiet: bool,
) -> Status:
    """Find out what can happen to a cluster if you do this now.

    A PATH is what replay takes: Kafka's metadata log, a snapshot or its dump, or a directory with one. The actions are
    carried out in their order. Besides, up to --faults faults happen at any moment: a broker is killed, is slow, loses
    its log or a log directory, or the controller fails over.

    The answer lists how many partitions can lose committed records, stay offline, be offline for a while, elect a
    leader uncleanly, or refuse writes with acks=all; each with a shortest run.

    Exit status: 0 nothing is lost and nothing stays offline; 1 it can (--fail-on sets the least outcome); 2 a bad
    request or input, or a plan that Kafka refuses; 3 a limit was reached; 130 interrupted.
    """
    started = time.perf_counter()
    output = JsonOutput(json_file)
    if page is not None:
        refuse_unwritable("--html", page)
    live = LiveLine(quiet=quiet)
    options = SearchOptions(workers=workers or 0, limit_seconds=limit_seconds)
    searches = Searches(options, lambda p: live.show(f"{p.distinct_states:,} states, {p.seconds:.0f} s"))
    try:
        cluster = read_cluster(paths, kafka, Overrides.parse(rules=rules).rules, assume)
        found = answer(read_plan(context.meta["actions"], cluster.image), cluster, faults, searches)
    except (TraceError, LanguageError) as wrong:
        raise InputError(printable(wrong, 1000)) from None
    finally:
        live.end()
    first = paragraph(headline(found, fail_on, only_added=added))
    for line in [first] if quiet else [first, *lines(found, width(), verbose=verbose)]:
        output.say(line)
    if page is not None:
        with written("--html", page) as beside:
            write_page(found, beside)
    seconds = time.perf_counter() - started
    output.write(to_json(found, str(paths[0]), seconds) | {"versions": versions("plan")})
    return _status(found, fail_on, added)


def _status(found: PlanAnswer, fail_on: str, added: bool) -> Status:
    if found.searches.stopped_by == "interrupted":
        return Status.INTERRUPTED
    if any(f.outcome in down_to(fail_on) and (f.added or not added) for f in found.findings):
        return Status.VIOLATED
    return Status.INCONCLUSIVE if found.why_incomplete else Status.OK
