"""The part of the benchmarks that Z3 answers: bounded checks, proofs by induction, differences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

from docs.bench.figures import Run, measure, spread

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


def rows(repeat: int) -> Iterator[str]:
    """The rows of the table, each when it is measured."""
    yield _row(BOUNDED, _runs(BOUNDED, repeat))
    proofs = {proof: _runs(proof, repeat) for proof in INDUCTIONS}
    for proof, runs in proofs.items():
        yield _row(proof, runs)
    together = Proof("all three together", (), "under 60 s")
    yield _row(together, _sums(list(proofs.values())))
    compared = {proof: _runs(proof, repeat) for proof in DIFFERENCES}
    for proof, runs in compared.items():
        yield _row(proof, runs)
    yield _row(Proof("both together", (), "under 60 s"), _sums(list(compared.values())))


def _runs(proof: Proof, repeat: int) -> list[Run]:
    return [measure(proof.arguments, EXPECTED[proof.arguments[0]]) for _ in range(repeat)]


def _sums(series: list[list[Run]]) -> list[Run]:
    return [
        Run(sum(r.wall for r in runs), sum(r.processor for r in runs), max(r.peak for r in runs), [])
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
