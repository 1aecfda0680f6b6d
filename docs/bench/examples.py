"""The part of the benchmarks about published specifications: TLC and we in turn on models of tlaplus/Examples."""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from docs.bench import tlc
from docs.bench.figures import spread
from docs.bench.whole import SAMPLE_SECONDS, Whole, run_whole
from highwater.checker.engines.cache import VARIABLE

HEADING = "## Published specifications, TLC beside us"
REPEAT = 3
WORKERS = 2
HERE = Path(__file__).resolve().parents[1] / "examples/tla"
SPECIFICATIONS = "specifications"
PROVERS = "TLAPS.tla"
"""A module of the proof system, which TLC needs to read proofs, and nothing of which it evaluates."""
_PROVERS = """---- MODULE TLAPS ----
SMT == TRUE
SMTT(X) == TRUE
PTL == TRUE
Zenon == TRUE
Isa == TRUE
===="""
_GOAL_RATE, _LONG = 100, 2.0
"""So many times TLC's rate is asked for; and where TLC takes longer than this, a shorter whole command."""


@dataclass(frozen=True)
class Example:
    """A model of tlaplus/Examples: its folder and module with a configuration, and our scenario with what is set."""

    title: str
    folder: str
    module: str
    configuration: str
    scenario: str
    settings: tuple[str, ...] = ()


EXAMPLES = (
    Example(
        "PaxosCommit: two managers, three acceptors, two ballots",
        "transaction_commit",
        "PaxosCommit",
        """CONSTANTS
  RM = {r1, r2}
  Acceptor = {a1, a2, a3}
  Majority = {{a1, a2}, {a1, a3}, {a2, a3}}
  Ballot = {0, 1}
INVARIANT PCTypeOK
SPECIFICATION PCSpec
CHECK_DEADLOCK FALSE
""",
        "paxos_commit",
    ),
    Example(
        "LamportMutex: three processes, clocks up to 8",
        "lamport_mutex",
        "MCLamportMutex",
        """CONSTANTS
  N = 3
  MaxNat = 9
  maxClock = 8
  Nat <- NatOverride
INVARIANTS TypeOK BoundedNetwork Mutex
CONSTRAINT ClockConstraint
SPECIFICATION Spec
CHECK_DEADLOCK FALSE
""",
        "lamport_mutex",
        ("clocks=8",),
    ),
    Example(
        "Bakery: from every state in which its invariant holds",
        "Bakery-Boulangerie",
        "MCBakery",
        """CONSTANTS
  N = 2
  MaxNat = 2
  Nat <- NatOverride
INVARIANTS MutualExclusion TypeOK Inv
SPECIFICATION ISpec
CHECK_DEADLOCK FALSE
""",
        "bakery",
    ),
    Example(
        "TwoPhase: eight managers",
        "transaction_commit",
        "TwoPhase",
        """CONSTANT RM = {r1, r2, r3, r4, r5, r6, r7, r8}
INVARIANT TPTypeOK
SPECIFICATION TPSpec
CHECK_DEADLOCK FALSE
""",
        "two_phase",
        ("managers=8",),
    ),
)


@dataclass
class Measured:
    """The runs of a model: ours with an empty cache of machine code, again right after that, and TLC's."""

    cold: list[Whole] = field(default_factory=list)
    again: list[Whole] = field(default_factory=list)
    tlc: list[Whole] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    """Of ours: distinct states by the seconds of the search, cold and again."""
    tlc_rates: list[float] = field(default_factory=list)
    states: set[int] = field(default_factory=set)
    """Distinct states: as many in each run, or something is wrong."""


def measure(example: Example, repeat: int) -> Measured:
    """Run a model in turn: ours cold, ours again, TLC. RuntimeError where one counts other states than another."""
    found = Measured()
    for _ in range(repeat):
        with tempfile.TemporaryDirectory(prefix="highwater-cache-") as cache:
            for runs in (found.cold, found.again):
                run, result = _ours(example, Path(cache))
                runs.append(run)
                found.states.add(result["distinct_states"])
                found.rates.append(result["distinct_states"] / result["seconds"])
        if tlc.absent(tlc.EXAMPLES, _file(example)) is None:
            run, states = _theirs(example)
            found.tlc.append(run)
            found.states.add(states)
            begun, ended = run.marks
            if begun is None or ended is None:
                raise RuntimeError(f"{example.title}: TLC did not say when its search began and ended")
            found.tlc_rates.append(states / max(ended - begun, SAMPLE_SECONDS))
    if len(found.states) != 1:
        raise RuntimeError(f"{example.title}: runs counted different states: {sorted(found.states)}")
    return found


def _file(example: Example) -> str:
    return f"{SPECIFICATIONS}/{example.folder}/{example.module}.tla"


def _ours(example: Example, cache: Path) -> tuple[Whole, dict[str, Any]]:
    result = cache / "result.json"
    options = ["--workers", str(WORKERS), "--json", str(result), "--property", "invariants"]
    for setting in example.settings:
        options += ["--set", setting]
    command = [sys.executable, "-m", "highwater", "check", str(HERE / f"{example.scenario}.toml")]
    run = run_whole([*command, *options], environment={**os.environ, VARIABLE: str(cache / "code")})
    (found,) = json.loads(result.read_text(encoding="utf-8"))
    return run, found


def _theirs(example: Example) -> tuple[Whole, int]:
    folder = Path(os.environ[tlc.EXAMPLES]) / SPECIFICATIONS / example.folder
    return tlc.run_tlc(
        example.module, example.configuration, folder.glob("*.tla"), WORKERS, {PROVERS: _PROVERS}
    )


def rows(repeat: int) -> Iterator[str]:
    """The rows of the table, each when it is measured: ours cold, ours again, TLC."""
    for example in EXAMPLES:
        found = measure(example, repeat)
        (states,) = found.states
        head = f"{example.title}: {states:,} states"
        ours, theirs = statistics.median(found.rates), statistics.median(found.tlc_rates or [0.0])
        yield _row(f"{head}, cold", found.cold, found.rates[::2], _shorter(found.cold, found.tlc))
        times = f"{ours / theirs:,.0f} times TLC's rate" if theirs else ""
        goal = f"{_GOAL_RATE} times" if theirs else ""
        shorter = _shorter(found.again, found.tlc)
        yield _row(
            f"{head}, again", found.again, found.rates[1::2], "; ".join(filter(None, (times, shorter))), goal
        )
        if found.tlc:
            yield _row(f"{head}, TLC", found.tlc, found.tlc_rates, "")
        else:
            yield f"| {head}, TLC | {tlc.absent(tlc.EXAMPLES, _file(example))} | | | | |"


def _shorter(ours: list[Whole], theirs: list[Whole]) -> str:
    """How many times as long TLC's whole command takes; empty where that is not asked for, or not known."""
    if not theirs:
        return ""
    took = statistics.median(run.wall for run in theirs)
    if took <= _LONG:
        return f"TLC takes {_LONG:.0f} s or less"
    return f"TLC's command takes {took / statistics.median(run.wall for run in ours):.1f} times as long"


def _row(title: str, runs: list[Whole], rates: list[float], told: str, goal: str = "") -> str:
    return (
        f"| {title} | {spread([r.wall for r in runs], '{:.2f} s')} | "
        f"{spread([r.processor for r in runs], '{:.2f} s')} | {spread(rates, '{:,.0f} a second')} | {told} | {goal} |"
    )


def section(rows: list[str], machine: str) -> str:
    """The part of the page."""
    return "\n".join(
        [
            HEADING,
            "",
            f"Measured on {date.today().isoformat()}: {machine}.",
            "The scenarios of [examples/tla](examples/tla/README.md), and TLC 2 on the TLA+ files that they were",
            f"made from, in turn, {WORKERS} workers each, invariants only; the counts are the same. Rates are distinct",
            "states by the seconds of the search alone: of TLC from its first word of initial states to its last",
            f"word. Cold: the cache of machine code is empty. `{tlc.JAR}` names the jar of TLC,",
            f"`{tlc.EXAMPLES}` a checkout of tlaplus/Examples. Asked for are {_GOAL_RATE} times TLC's rate, and a",
            f"shorter command where TLC takes over {_LONG:.0f} s.",
            "",
            "| work | whole command | processor time | rate of the search | beside TLC | figure to reach |",
            "| --- | --- | --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )
