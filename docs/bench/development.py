"""The part of the benchmarks about the project's own targets: a fresh clone's first check, and the tests.

It takes half an hour to hours and installs packages, so it is measured only where it is asked for.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

from docs.bench.figures import spread
from docs.bench.page import PAGE
from docs.bench.whole import Whole, run_whole
from highwater.checker.engines.cache import VARIABLE

HEADING = "## From a clone to the last test"
REPEAT = 1
ROOT = PAGE.parents[1]

FRESH, TESTS, SLOW = "fresh-clone", "tests", "slow-tests"
_GOALS = {FRESH: "75 s", TESTS: "4 min", SLOW: "25 min"}
_TITLES = {
    FRESH: "fresh clone, empty environment and caches: `make check` to its last line",
    TESTS: "`make test`",
    SLOW: "the tests marked slow",
}


def fresh_clone() -> Whole:
    """Clone what is committed here and run ``make check`` in it: no environment, no cache, no variable of ours."""
    with tempfile.TemporaryDirectory(prefix="highwater-clone-") as name:
        place = Path(name)
        clone = place / "clone"
        subprocess.run(["git", "clone", "--quiet", "--no-local", str(ROOT), str(clone)], check=True)
        ours = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
        environment = {key: value for key, value in os.environ.items() if key not in ours}
        environment |= {VARIABLE: str(place / "code"), "PIP_CACHE_DIR": str(place / "pip")}
        path = os.pathsep.join(
            p for p in environment["PATH"].split(os.pathsep) if not p.startswith(str(ROOT))
        )
        return run_whole(["make", "check"], directory=clone, environment={**environment, "PATH": path})


def tests() -> Whole:
    """``make test`` in this tree."""
    return run_whole(["make", "test"], directory=ROOT)


def slow_tests() -> Whole:
    """The tests that ``make test`` leaves out, spread over the cores as the Makefile has it."""
    spread_over = re.search(r"^XDIST := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    options = spread_over[1].split() if spread_over else []
    return run_whole([sys.executable, "-m", "pytest", *options, "-m", "slow"], directory=ROOT)


_WORK: dict[str, Callable[[], Whole]] = {FRESH: fresh_clone, TESTS: tests, SLOW: slow_tests}


def rows(repeat: int) -> Iterator[str]:
    """The rows of the table, each when it is measured."""
    for name, work in _WORK.items():
        runs = [work() for _ in range(repeat)]
        last = next((line for line in reversed(runs[-1].said.splitlines()) if line.strip()), "")
        yield (
            f"| {_TITLES[name]} | {spread([r.wall for r in runs], '{:.0f} s')} | "
            f"{spread([r.processor for r in runs], '{:.0f} s')} | "
            f"{spread([r.memory / 1e9 for r in runs], '{:.1f} GB')} | {last.strip('= ')} | {_GOALS[name]} |"
        )


def section(rows: list[str], machine: str) -> str:
    """The part of the page."""
    return "\n".join(
        [
            HEADING,
            "",
            f"Measured on {date.today().isoformat()}: {machine}.",
            "The clone is of what was committed; its packages come from the registry, so the network is in its time.",
            "",
            "| work | wall time | processor time | memory, all processes | its last line | figure to reach |",
            "| --- | --- | --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )
