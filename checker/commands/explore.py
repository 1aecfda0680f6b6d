"""``highwater explore``: the state space of a scenario by hand, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from highwater.checker.base.problems import InputError, Status
from highwater.checker.commands.options import model_options
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request

if TYPE_CHECKING:
    from highwater.traces.runs.format import StepLine


@click.command(short_help="The state space by hand, in a browser.")
@click.argument("name", metavar="[SCENARIO]", required=False)
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Begin at the end of a run that --trace-out wrote, in place of a SCENARIO.",
)
@model_options()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Listen here.  [default: any that is free]"
)
@click.option("--open/--no-open", "browse", default=True, help="Open a browser, or only say the address.")
def explore(name: str | None, trace: Path | None, overrides: Overrides, port: int, browse: bool) -> Status:
    """Take steps of SCENARIO by hand, in a page: what can be done in a state, what refuses the rest, and what changes.

    The page goes back, branches, walks at random, looks for the nearest state in which a condition holds, watches
    expressions, says what another rule would change, and writes the way to a state as a test. The address of the page
    restores all of a way. It is served to this machine only, under an address that nobody else knows, until Ctrl-C.

    Exit status: 0, 2 bad request.
    """
    from highwater.checker.explore.server import explorer_page, serve
    from highwater.checker.explore.session import Answers, path_of, read_trace

    if (name is None) == (trace is None):
        raise InputError("name a SCENARIO, or a run with --trace")
    lines: list[StepLine] = []
    if trace is None:
        request = Request.of(scenario_files.find(str(name)), overrides).without_symmetry().without_goals()
    elif overrides != Overrides():
        raise InputError("--trace: a run says itself how it is set up")
    else:
        request, lines = read_trace(trace)
    views = Answers(request)
    at = path_of(views.session, lines)
    server, address = serve(views, explorer_page(views), port)
    address += f"#{at}" if at.steps else ""
    click.echo(f"{address}\nCtrl-C ends it.")
    if browse:
        click.launch(address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        click.echo("")
    finally:
        server.server_close()
    return Status.AS_PROMISED
