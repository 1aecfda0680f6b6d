"""The part of the benchmarks about whole commands: what a user waits for, cold and again, and TLC beside it."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from docs.bench import tlc
from docs.bench.figures import spread
from docs.bench.whole import Whole, run_whole
from highwater.checker.engines.cache import OFF, VARIABLE

HEADING = "## Whole commands"
REPEAT = 5


@dataclass(frozen=True)
class Command:
    """A command of ``highwater``: its title, its arguments, the figures to reach cold and again, and how often."""

    title: str
    arguments: tuple[str, ...]
    cold: str
    again: str
    repeat: int
    beside_tlc: bool = False


COMMANDS = (
    Command("`highwater check`: the standard scenarios", ("check",), "30 s", "12 s", 3),
    Command(
        "one message-level scenario (`replication/defect-truncate-to-hwm`)",
        ("check", "replication/defect-truncate-to-hwm"),
        "",
        "0.5 s",
        5,
    ),
    Command(
        "Kip320, 3 replicas, 2/2/2",
        ("check", "truncation/kip-320", "--set", "max_leader_epoch=2"),
        "0.8 s",
        "0.35 s",
        5,
        beside_tlc=True,
    ),
)
_TLC_REPEAT = 3
_HIGHWATER: tuple[str | Path, ...] = (sys.executable, "-m", "highwater")
_MEMORY_GOAL = "below 1.5 GB"


@dataclass
class Measured:
    """The runs of a command: with an empty cache of machine code, with what such a run left there, and TLC's."""

    cold: list[Whole] = field(default_factory=list)
    again: list[Whole] = field(default_factory=list)
    tlc: list[Whole] = field(default_factory=list)
    states: set[int] = field(default_factory=set)
    """Distinct states, the sum over the scenarios: as many in each run, or something is wrong."""


def measure(command: Command, repeat: int) -> Measured:
    """Run a command in turn: cold, again, and TLC. RuntimeError where one counts other states than another."""
    found = Measured()
    with tempfile.TemporaryDirectory(prefix="highwater-modules-") as modules:
        user = with_modules(Path(modules))
        for number in range(min(repeat, command.repeat)):
            with tempfile.TemporaryDirectory(prefix="highwater-cache-") as cache:
                for runs in (found.cold, found.again):
                    result = Path(cache) / "result.json"
                    line = [*_HIGHWATER, *command.arguments, "--json", result]
                    runs.append(run_whole(line, environment={**user, VARIABLE: str(Path(cache) / "code")}))
                    results = json.loads(result.read_text(encoding="utf-8"))
                    found.states.add(sum(r["distinct_states"] for r in results))
            if command.beside_tlc and number < _TLC_REPEAT and tlc.absent() is None:
                run, states = tlc.run_kip_320()
                found.tlc.append(run)
                found.states.add(states)
    if len(found.states) != 1:
        raise RuntimeError(f"{command.title}: runs counted different states: {sorted(found.states)}")
    return found


def with_modules(folder: Path) -> dict[str, str]:
    """The environment of somebody whose Python keeps the modules that it compiled; it has run a command before."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPYCACHEPREFIX": str(folder), VARIABLE: OFF}
    run_whole([*_HIGHWATER, "check", "truncation/kip-101", "--quiet"], environment=environment)
    return environment


def rows(repeat: int) -> Iterator[str]:
    """The rows of the table, each when it is measured."""
    for command in COMMANDS:
        found = measure(command, repeat)
        (states,) = found.states
        title = f"{command.title}: {states:,} states"
        yield _row(f"{title}, cold", found.cold, command.cold)
        yield _row(f"{title}, again", found.again, command.again)
        if command.beside_tlc:
            if found.tlc:
                yield _row(f"{title}, TLC on the published specification", found.tlc, "")
            else:
                yield f"| {title}, TLC on the published specification | {tlc.absent()} | | | |"


def _row(title: str, runs: list[Whole], goal: str) -> str:
    goals = [goal, *([_MEMORY_GOAL] if "standard" in title else [])]
    return (
        f"| {title} | {spread([r.wall for r in runs], '{:.2f} s')} | "
        f"{spread([r.processor for r in runs], '{:.2f} s')} | "
        f"{spread([r.memory / 1e6 for r in runs], '{:,.0f} MB')} | {'; '.join(g for g in goals if g)} |"
    )


def section(rows: list[str], machine: str) -> str:
    """The part of the page."""
    return "\n".join(
        [
            HEADING,
            "",
            f"Measured on {date.today().isoformat()}: {machine}.",
            "Each is a command as a user types it. Cold: the cache of machine code is empty; again: right after that.",
            "Python has compiled the checker's modules before, as it does in anybody's first command.",
            "Where TLC stands beside it, all three were run in turn. Memory is the most that a command's processes",
            "were seen to hold at one time; what they share is counted once.",
            f"`{tlc.JAR}` names the jar of TLC, `{tlc.SPECIFICATION}` the folder of hachikuji/kafka-specification.",
            "",
            "| work | wall time | processor time | memory | figure to reach |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )
