"""``python -m docs.bench``: measure, and write what was measured into docs/benchmarks.md."""

from __future__ import annotations

import importlib
from typing import Any

import click

from docs.bench import commands, exploration, explore, liveness, proofs, replay, requests
from docs.bench.page import PAGE, machine, write_section

PARTS = {
    "commands": commands,
    "exploration": exploration,
    "explore": explore,
    "replay": replay,
    "requests": requests,
    "liveness": liveness,
    "proofs": proofs,
}
ASKED = ("beyond-memory", "development", "examples", "spark-search")
"""Parts that take long, install something, or need an extra, and so are measured only where they are asked for."""
ON_SPARK = "spark-replay"


@click.command()
@click.option("--quick", is_flag=True, help="One run of each, and nothing written.")
@click.option(
    "--only",
    type=click.Choice([*PARTS, *ASKED, ON_SPARK]),
    help=f"One part; {', '.join(ASKED)} and {ON_SPARK} are measured only so, and {ON_SPARK} is printed only.",
)
def main(quick: bool, only: str | None) -> None:
    """Measure, show the rows as they come, and write each part that is done."""
    if only == ON_SPARK:
        for line in (found := _asked(ON_SPARK)).lines(1 if quick else found.REPEAT):
            click.echo(line)
        return
    for part in [PARTS.get(only) or _asked(only)] if only else PARTS.values():
        rows = []
        for row in part.rows(1 if quick else part.REPEAT):
            rows.append(row)
            click.echo(row)
        if not quick:
            page = getattr(part, "PAGE", PAGE)
            write_section(part.HEADING, part.section(rows, machine()), page)
            click.echo(f"wrote docs/{page.name}: {part.HEADING.removeprefix('## ')}")


def _asked(name: str) -> Any:
    """A part that is imported only when it is measured."""
    return importlib.import_module(f"docs.bench.{name.replace('-', '_')}")


if __name__ == "__main__":
    main()
