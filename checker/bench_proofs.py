"""The part of the benchmarks that Z3 answers: bounded checks, proofs by induction, differences."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from checker.bench_figures import spread

HEADING = "## Proofs"
REPEAT = 3

_CONTROLLER = ("prove", "replication/controller/unclean-recovery", "--induction", "--epochs", "unbounded")
_OPERATOR = ("--set", "reassignments=1", "--set", "leads_elsewhere=1")
_BROKERS = (3, 4, 5)
_DIFF = ("diff", "kip_966", "kafka_trunk_2024_10", "--each-rule")


@dataclass(frozen=True)
class Proof:
    """Something that is asked of Z3: its title, the arguments of ``highwater``, and the figure to reach."""

    title: str
    arguments: tuple[str, ...]
    goal: str = ""


BOUNDED = Proof(
    "Standard scenario (`replication/standard-messages`), to depth 20",
    ("prove", "replication/standard-messages", "--depth", "20"),
    "to depth 10 or more within 5 minutes",
)
INDUCTIONS = tuple(
    Proof(
        f"The controller's rules are inductive, {brokers} brokers, unbounded epochs",
        (
            *_CONTROLLER,
            *_OPERATOR,
            *("--set", f"brokers={brokers}", "--set", f"replication_factor={min(brokers, 5)}"),
            *("--set", f"max_min_isr={brokers + 1}"),
        ),
    )
    for brokers in _BROKERS
)
DIFFERENCES = (
    Proof(
        "KIP-966 and Kafka trunk, each rule alone: the controller's 10 rules",
        (*_DIFF, *_OPERATOR, "--set", "max_min_isr=3"),
    ),
    Proof(
        "the same, messages and brokers: 15 rules",
        (*_DIFF, "--in", "replication/recovery-balanced", "--set", "fencings=1", "--set", "elections=1"),
    ),
)
EXPECTED = {"prove": 0, "diff": 1}
"""The exit status of each command: the profiles differ."""


@dataclass(frozen=True)
class Run:
    """One process: seconds from start to end, seconds of processors, and its results."""

    wall: float
    processor: float
    results: list[dict[str, Any]]


def measure(arguments: tuple[str, ...]) -> Run:
    """Run ``highwater`` once, in a process started afresh; RuntimeError where it does not end as expected."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "result.json"
        command = [sys.executable, "-m", "checker", *arguments, "--quiet", "--json", str(output)]
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != EXPECTED[arguments[0]]:
            raise RuntimeError(f"{' '.join(command)} ended with status {process.returncode}")
        results = json.loads(output.read_text(encoding="utf-8"))
    return Run(wall, usage.ru_utime + usage.ru_stime, results)


def rows(repeat: int) -> Iterator[str]:
    """The rows of the table, each when it is measured."""
    yield _row(BOUNDED, [measure(BOUNDED.arguments) for _ in range(repeat)])
    proofs = {proof: [measure(proof.arguments) for _ in range(repeat)] for proof in INDUCTIONS}
    for proof, runs in proofs.items():
        yield _row(proof, runs)
    together = Proof("all three together", (), "under 60 s")
    yield _row(together, _sums(list(proofs.values())))
    compared = {proof: [measure(proof.arguments) for _ in range(repeat)] for proof in DIFFERENCES}
    for proof, runs in compared.items():
        yield _row(proof, runs)
    yield _row(Proof("both together", (), "under 60 s"), _sums(list(compared.values())))


def _sums(series: list[list[Run]]) -> list[Run]:
    return [
        Run(sum(r.wall for r in runs), sum(r.processor for r in runs), [])
        for runs in zip(*series, strict=True)
    ]


def _row(proof: Proof, runs: list[Run]) -> str:
    found = _found(runs[0].results)
    return (
        f"| {proof.title} | {found} | {spread([r.wall for r in runs], '{:.1f} s')} | "
        f"{spread([r.processor for r in runs], '{:.1f} s')} | "
        f"{proof.goal} |"
    )


def _found(results: list[dict[str, Any]]) -> str:
    if not results:
        return ""
    if results[0]["question"] == "difference":
        different = sum(r["verdict"] == "different" for r in results)
        return f"{different} of {len(results)} differ"
    (result,) = results
    if result["question"] == "induction":
        return f"{result['verdict']}: {len(result['verdicts'])} verdicts"
    seconds, said = 0.0, []
    for depth in result["depths"]:
        seconds += depth["seconds"]
        if depth["depth"] % 5 == 0:
            said.append(f"to depth {depth['depth']} {seconds:.1f} s")
    return f"{result['verdict']}; {', '.join(said)}"


def section(rows: list[str], machine: str) -> str:
    """The part of the page about proofs."""
    return "\n".join(
        [
            HEADING,
            "",
            f"Measured on {date.today().isoformat()}: {machine}.",
            "Each is a whole process started afresh: there is no cache. Processor time is that of all its processes.",
            "[prove.md](prove.md) says what is asked.",
            "",
            "| question to Z3 | found | whole command | processor time | figure to reach |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


__all__ = ["BOUNDED", "DIFFERENCES", "HEADING", "INDUCTIONS", "REPEAT", "measure", "rows", "section"]
