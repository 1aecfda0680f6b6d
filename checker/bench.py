"""Benchmarks: ``python -m checker.bench`` measures and writes docs/benchmarks.md.

Every figure is of a whole process started afresh: its wall time, the peak of its memory as the operating
system counts it, and what its result says of the search. Runs are repeated and the median is
reported with the least and the most; nothing is decided by a figure.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import ModuleType

import click

from checker import bench_liveness, bench_proofs, bench_replay
from checker.bench_figures import Run, measure, spread

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"


@dataclass(frozen=True)
class Case:
    """Something to measure: its title, the arguments of ``highwater``, how often, and the figure to reach."""

    title: str
    arguments: tuple[str, ...]
    repeat: int
    goal: str
    show: str  # which figure: rate, wall, bytes, spill or symmetry


KIP_320 = ("check", "truncation/kip-320", "--set", "max_leader_epoch=2")
REASSIGN = ("check", "replication/reassign-fencing")
PEER = ("check", "replication/peer")
FOUR = (*KIP_320, "--set", "replicas=4")
CASES = (
    Case("Kip320, 3 replicas, 2/2/2: rate of the search", KIP_320, 7, "4 million a second", "rate"),
    Case("the same, whole command, cold", KIP_320, 7, "1.4 s", "wall"),
    Case("the same, one worker", (*KIP_320, "--workers", "1"), 5, "", "rate"),
    Case("the same, with symmetry", (*KIP_320, "--symmetry"), 5, "", "symmetry"),
    Case("the same, search with the interpreter", (*KIP_320, "--engine", "interpreter"), 1, "", "rate"),
    Case("Kip320, 4 replicas, 2/2/2: whole command", FOUR, 3, "30 s", "wall"),
    Case("the same: rate of the search", FOUR, 3, "", "rate"),
    Case("the same: memory a visited state, disk aside", FOUR, 3, "at most 12 bytes", "bytes"),
    Case("the same, given 1 GiB: spilled to disk", (*FOUR, "--memory", "1"), 1, "counts as above", "spill"),
    Case("the same, with symmetry", (*FOUR, "--symmetry"), 1, "", "symmetry"),
    Case(
        "KRaft replication, a reassignment and a fencing: rate of the search",
        REASSIGN,
        3,
        "1 million a second",
        "rate",
    ),
    Case("the same: whole command", REASSIGN, 3, "", "wall"),
    Case(
        "KRaft replication, the bounds of the peer's model: rate of the search",
        PEER,
        1,
        "1 million a second",
        "rate",
    ),
    Case("the same: whole command", PEER, 1, "", "wall"),
    Case("the same: memory a visited state, disk aside", PEER, 1, "at most 12 bytes", "bytes"),
)


def idle_memory() -> int:
    """Peak resident bytes of a check that visits next to nothing: what the program itself takes."""
    return measure(("check", "truncation/kip-320", "--set", "max_leader_epoch=0")).peak


def row(case: Case, runs: list[Run], idle: int) -> str:
    """The table row of a case."""
    results = [r.results[0] for r in runs]
    states = results[0]["distinct_states"]
    if case.show == "wall":
        figure = spread([r.wall for r in runs], "{:.2f} s")
    elif case.show == "bytes":
        figure = spread([(r.peak - idle) / states for r in runs], "{:.1f} bytes")
    elif case.show == "spill":
        spilled = results[0]["spilled_bytes"] / 1e9
        figure = f"{spilled:.2f} GB on disk, {spread([r.wall for r in runs], '{:.1f} s')}"
    elif case.show == "symmetry":
        figure = spread([r["seconds"] for r in results], "{:.2f} s of search")
    else:
        figure = spread([states / r["seconds"] / 1e6 for r in results], "{:.2f} million a second")
    return f"| {case.title} | {states:,} | {results[0]['depth']} | {figure} | {case.goal} |"


def machine() -> str:
    """The machine's size in a sentence."""
    model = next(
        (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor() or "unknown processor",
    )
    total = next((int(x.split()[1]) for x in _lines("/proc/meminfo") if x.startswith("MemTotal")), 0)
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cores} cores of {model}, {total / (1 << 20):.0f} GiB of memory, Python {platform.python_version()}"
    )


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def with_section(text: str, heading: str, section: str) -> str:
    """The page with one of its parts in another version; at the end where it has none yet."""
    before, found, after = text.partition(f"\n{heading}\n")
    rest = after[after.index("\n## ") :] if found and "\n## " in after else "\n"
    return f"{before.rstrip()}\n\n{section.rstrip()}\n{rest}".rstrip() + "\n"


def write_section(heading: str, section: str) -> None:
    """Put a part that was measured alone into docs/benchmarks.md."""
    PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8"), heading, section), encoding="utf-8")
    click.echo(f"wrote docs/{PAGE.name}")


def measured(part: ModuleType, quick: bool) -> str:
    """A part of the page that has a module of its own: its rows are shown as they come."""
    rows = []
    for row in part.rows(1 if quick else part.REPEAT):
        rows.append(row)
        click.echo(row)
    return str(part.section(rows, machine()))


def page(rows: list[str], idle: int, parts: Sequence[str]) -> str:
    """The page's text; ``parts`` are those that have modules of their own."""
    return "\n".join(
        [
            "# Benchmarks",
            "",
            f"Measured by `make bench` on {date.today().isoformat()}: {machine()}.",
            "Every figure is of a whole process started afresh; the median, and the least and the most. Rates are",
            "distinct states by the seconds of the search; whole commands include the start of Python, tracing and",
            f"compilation. Memory a state is the peak of the process less that of an idle one ({idle / 1e6:.0f} MB).",
            "",
            "| work | distinct states | depth | measured | figure to reach |",
            "| --- | ---: | ---: | --- | --- |",
            *rows,
            "",
            "TLC on the published specification, built from source and run with two workers on a machine of the same",
            "size: 34 s and 21,500 distinct states a second for Kip320 with 3 replicas and 2/2/2. On the published",
            "specification of the whole protocol with KIP-966, in its own configuration, it reached 13,600 distinct",
            "states a second and had not ended after 4 minutes; `replication/peer` has the same bounds. The two models",
            "do not state the same things in the same steps, so only their rates can be compared, not their counts.",
            "",
            *parts,
        ]
    )


@click.command()
@click.option("--quick", is_flag=True, help="One run of each, and nothing written.")
@click.option("--only-replay", is_flag=True, help="Only the replay of a metadata log.")
@click.option("--only-prove", is_flag=True, help="Only what Z3 is asked.")
@click.option("--only-liveness", is_flag=True, help="Only the search for liveness.")
@click.option("--only-spark-replay", is_flag=True, help="Only the replay on Spark, printed and not written.")
def main(
    quick: bool, only_replay: bool, only_prove: bool, only_liveness: bool, only_spark_replay: bool
) -> None:
    """Measure, and write docs/benchmarks.md."""
    parts = {bench_replay: only_replay, bench_proofs: only_prove, bench_liveness: only_liveness}
    for part, only in parts.items():
        if only:
            section = measured(part, quick)
            if not quick:
                write_section(part.HEADING, section)
            return
    if only_spark_replay:
        from checker import bench_spark_replay  # its packages are an extra

        for line in bench_spark_replay.lines(1 if quick else bench_spark_replay.REPEAT):
            click.echo(line)
        return
    idle = idle_memory()
    rows = []
    done: dict[tuple[str, ...], list[Run]] = {}
    for case in CASES:
        if case.arguments not in done:
            done[case.arguments] = [measure(case.arguments) for _ in range(1 if quick else case.repeat)]
        rows.append(row(case, done[case.arguments], idle))
        click.echo(rows[-1])
    sections = [measured(part, quick) for part in parts]
    if not quick:
        PAGE.write_text(page(rows, idle, sections), encoding="utf-8")
        click.echo(f"wrote docs/{PAGE.name}")


if __name__ == "__main__":
    main()
