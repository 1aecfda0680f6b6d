"""``python -m highwater.checker.bench``: measure, and write what was measured into docs/benchmarks.md."""

from __future__ import annotations

import click

from highwater.checker.bench import beyond_memory, exploration, liveness, proofs, replay
from highwater.checker.bench.page import PAGE, machine, write_section

PARTS = {"exploration": exploration, "replay": replay, "liveness": liveness, "proofs": proofs}
LONG = {"beyond-memory": beyond_memory}
"""Parts that are measured only where they are asked for."""
ON_SPARK = "spark-replay"


@click.command()
@click.option("--quick", is_flag=True, help="One run of each, and nothing written.")
@click.option(
    "--only",
    type=click.Choice([*PARTS, *LONG, ON_SPARK]),
    help=f"One part. Only where asked for: {', '.join(LONG)}, which takes hours; {ON_SPARK}, which is printed.",
)
def main(quick: bool, only: str | None) -> None:
    """Measure, show the rows as they come, and write each part that is done."""
    if only == ON_SPARK:
        from highwater.checker.bench import spark_replay  # its packages are an extra

        for line in spark_replay.lines(1 if quick else spark_replay.REPEAT):
            click.echo(line)
        return
    for part in [{**PARTS, **LONG}[only]] if only else PARTS.values():
        rows = []
        for row in part.rows(1 if quick else part.REPEAT):
            rows.append(row)
            click.echo(row)
        if not quick:
            write_section(part.HEADING, part.section(rows, machine()))
            click.echo(f"wrote docs/{PAGE.name}: {part.HEADING.removeprefix('## ')}")


if __name__ == "__main__":
    main()
