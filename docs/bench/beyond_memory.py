"""What the search takes beyond memory: ``python -m docs.bench --only beyond-memory``.

It takes long, the last case an hour and more with some 60 GB of disk, so it is no part of a plain `make bench`.

Kip320 with 4 replicas and 2/3/3 has some 6 billion states: with 2/2/1 and 2/2/2 it has 1,426,977 and 71,885,361, with
3 replicas and 2/2/1, 2/2/2, 2/2/3 and 2/3/2 39,619, 737,794, 9,985,570 and 1,694,476. So it is ended by a limit. With 5
replicas there are as many, in states of three words rather than two.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from docs.bench.figures import Run, measure

HEADING = "## Beyond memory"
REPEAT = 1


@dataclass(frozen=True)
class Case:
    """A search in memory (``memory`` None), or with so many GiB; ``kill_after`` seconds: killed then, and resumed."""

    title: str
    arguments: tuple[str, ...]
    memory: float | None = None
    kill_after: float | None = None
    states: int | None = None
    """How many distinct states it has, where that is known; else at least ``least``."""
    least: int = 0
    status: int = 0
    """The exit status: 3 where a limit ends it."""
    goal: str = ""


KIP_320 = ("check", "truncation/kip-320", "--set", "max_leader_epoch=2", "--set", "replicas=4")
LARGE = ("check", "replication/large")
BILLIONS = (
    *("check", "truncation/kip-320", "--set", "replicas=4", "--set", "max_leader_epoch=3"),
    *("--set", "max_records=3", "--limit-states", "3050000000"),
)
SMALL = Case("Kip320, 4 replicas, 2/2/2, given 0.15 GiB", KIP_320, 0.15, states=71_885_361)
CASES = (
    Case("Kip320, 4 replicas, 2/2/2", KIP_320, states=71_885_361),
    SMALL,
    Case("`replication/large`", LARGE, states=209_556_493),
    Case(
        "the same, given a third of the memory",
        LARGE,
        0.45,
        states=209_556_493,
        goal="same counts, at most 3 times the time",
    ),
    Case("the same, killed and resumed", LARGE, 0.45, 40, states=209_556_493, goal="same counts"),
    Case(
        "Kip320, 4 replicas, 2/3/3, to 3.05 billion states, killed and resumed",
        BILLIONS,
        4.5,
        900,
        least=3_000_000_000,
        status=3,
        goal="3 billion states, memory below 8 GiB",
    ),
)


def run(case: Case, directory: Path) -> Run:
    """Measure a case; its files lie in a directory. RuntimeError where the counts are not those expected."""
    arguments = list(case.arguments)
    if case.memory is not None:
        arguments += ["--memory", str(case.memory), "--spill", str(directory)]
    if case.kill_after is not None:
        arguments += ["--checkpoint", str(directory / "kept")]
        if killed(arguments, case.kill_after, directory / "kept"):
            arguments.append("--resume")
    found = measure(arguments, case.status)
    states = found.results[0]["distinct_states"]
    if states < case.least or case.states not in (None, states):
        raise RuntimeError(f"{case.title}: {states:,} states")
    return found


def killed(arguments: list[str], after: float, directory: Path) -> bool:
    """Start a search, and kill it after so many seconds; whether it was there to be killed, with a checkpoint."""
    process = subprocess.Popen(
        [sys.executable, "-m", "highwater", *arguments, "--quiet"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        process.wait(timeout=after)
    except subprocess.TimeoutExpired:
        while process.poll() is None and not (directory / "manifest.json").is_file():
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True
    raise RuntimeError(f"{' '.join(arguments)} ended within {after} s, before it was to be killed")


def rows(repeat: int) -> Iterator[str]:
    """The rows of the table, each when it is measured."""
    for case in CASES:
        yield row(case)


def row(case: Case) -> str:
    """A case, measured, as a row of the table."""
    with tempfile.TemporaryDirectory(prefix="highwater-bench-") as folder:
        found = run(case, Path(folder))
    (result,) = found.results
    return (
        f"| {case.title} | {result['distinct_states']:,} | {result['depth']} | {result['seconds']:.0f} s | "
        f"{found.processor:.0f} s | {found.peak / (1 << 20):,.0f} MiB | "
        f"{result['spilled_bytes'] / 1e9:.1f} GB | {case.goal} |"
    )


def section(rows: list[str], machine: str) -> str:
    """The part of the page."""
    return "\n".join(
        [
            HEADING,
            "",
            f"Measured on {date.today().isoformat()}: {machine}; load at the end {os.getloadavg()[0]:.1f}.",
            "A search is given less memory than its visited states take, and goes on on disk; some are killed with",
            "SIGKILL on the way and resumed. Time is that of the search, before the kill included; processor time,",
            "peak memory and disk are those of the process that ended it.",
            "",
            "| work | distinct states | depth | search | processor time | peak memory | on disk | figure to reach |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
            *rows,
            "",
        ]
    )
