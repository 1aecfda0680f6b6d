"""The part of the benchmarks about exploration: how fast states are found, and what a state takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from docs.bench.figures import Run, measure, spread

HEADING = "## Exploration"
REPEAT = 7
"""Of the cases that are over in seconds; others say how often they are run."""


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


def _idle_memory() -> int:
    """Peak resident bytes of a check that visits next to nothing: what the program itself takes."""
    return measure(("check", "truncation/kip-320", "--set", "max_leader_epoch=0")).peak


def _row(case: Case, runs: list[Run], idle: int) -> str:
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


def rows(repeat: int) -> Iterator[str]:
    """The rows of the table; a command that several of them are about is measured once."""
    idle = _idle_memory()
    done: dict[tuple[str, ...], list[Run]] = {}
    for case in CASES:
        if case.arguments not in done:
            done[case.arguments] = [measure(case.arguments) for _ in range(min(repeat, case.repeat))]
        yield _row(case, done[case.arguments], idle)


def section(rows: list[str], machine: str) -> str:
    """The part of the page."""
    return "\n".join(
        [
            HEADING,
            "",
            f"Measured on {date.today().isoformat()}: {machine}.",
            "Rates are distinct states by the seconds of the search; whole commands include the start of Python,",
            "tracing and compilation. Memory a state is the peak of the process less that of one that visits next to",
            "nothing.",
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
        ]
    )
