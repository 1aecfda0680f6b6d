"""``highwater explore``: step through a scenario in a browser."""

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


@click.command(short_help="Step through a scenario by hand, in a browser.")
@click.argument("name", metavar="[SCENARIO]", required=False)
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Start from the end of a run written by --trace-out, instead of a SCENARIO.",
)
@model_options()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="Port to listen on.  [default: any free one]",
)
@click.option(
    "--open/--no-open", "browse", default=True, help="Whether to open a browser, or only print the address."
)
def explore(name: str | None, trace: Path | None, overrides: Overrides, port: int, browse: bool) -> Status:
    """Step through SCENARIO in a browser.

    The page shows the enabled actions, the guards that refuse other actions, and the changes of each step. It goes
    back, branches, walks at random, searches for the nearest state in which a condition holds, watches expressions,
    and shows the effect of another rule. The page's address restores the run. The page is
    served to this machine only, under a secret address, until Ctrl-C.

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
        raise InputError("--trace: the run has its own parameters and rules; do not set them here")
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
    return Status.OK
