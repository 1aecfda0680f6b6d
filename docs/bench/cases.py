"""The cases of the benchmarks: commands of ``highwater``, and TLC on the same published specifications."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docs.bench.measure import Run, run

LOG = "LOG"
"""The argument that stands for the folder of a case's generated log."""
JAR = "HIGHWATER_TLC"
"""The environment variable that names the jar of TLC."""
KAFKA_SPECIFICATION, TLA_EXAMPLES = "HIGHWATER_KAFKA_SPECIFICATION", "HIGHWATER_TLA_EXAMPLES"
"""The environment variables that name checkouts of hachikuji/kafka-specification and tlaplus/Examples."""


@dataclass(frozen=True)
class Specification:
    """A published TLA+ module that TLC can check.

    ``variable`` is the environment variable with the directory of the checkout, ``path`` the module's path in the
    checkout, and ``configuration`` names TLC's configuration.
    """

    variable: str
    path: str
    configuration: str

    def missing(self) -> str | None:
        """The reason why TLC cannot check the module on this machine; None if TLC can."""
        if shutil.which("java") is None:
            return "Java is not installed"
        for name, wanted in ((JAR, ""), (self.variable, self.path)):
            value = os.environ.get(name)
            if value is None:
                return f"{name} is not set"
            if not (Path(value) / wanted).is_file():
                return f"{name} does not lead to {wanted or 'a jar'}"
        return None

    def check(self) -> tuple[Run, int]:
        """Run TLC on all cores. Returns the run, and the number of distinct states.

        Raises RuntimeError if TLC reports an error or does not end its search.
        """
        module = Path(os.environ[self.variable]) / self.path
        with tempfile.TemporaryDirectory(prefix="highwater-tlc-") as name:
            folder = Path(name)
            for path in module.parent.glob("*.tla"):
                shutil.copy(path, folder)
            (folder / "TLAPS.tla").write_text(_TLAPS, encoding="utf-8")
            (folder / "run.cfg").write_text(self.configuration, encoding="utf-8")
            java = ("java", "-XX:+UseParallelGC", "-cp", Path(os.environ[JAR]).resolve(), "tlc2.TLC")
            options = ("-workers", str(len(os.sched_getaffinity(0))), "-metadir", folder / "states")
            ended = run([*java, *options, "-config", "run.cfg", module.name], directory=folder)
        counted = re.search(r"([\d,]+) distinct states found, 0 states left on queue", ended.output)
        if counted is None:
            raise RuntimeError(f"TLC did not end its search:\n{ended.output}")
        return ended, int(counted[1].replace(",", ""))


_TLAPS = "---- MODULE TLAPS ----\nSMT == TRUE\nSMTT(X) == TRUE\nPTL == TRUE\nZenon == TRUE\nIsa == TRUE\n===="
"""A substitute for the module of the proof system, which some specifications extend and TLC does not evaluate."""


@dataclass(frozen=True)
class Case:
    """A command of ``highwater`` to measure, and the target for it."""

    title: str
    arguments: tuple[str, ...]
    goal: str = ""
    repeat: int = 3
    cold: bool = False
    """True if the case is also measured with an empty cache."""
    unchanged: bool = False
    """True if `check` may reuse its stored results; otherwise every run explores."""
    status: int = 0
    beside: Specification | None = None
    """The specification that TLC checks after each run; both must count the same number of states."""
    log: Callable[[Path], object] | None = None
    """A function that writes the log to a folder, which replaces the argument LOG."""
    follows: bool = False
    """True if the case follows the log to its end, and then measures the idle follower; it has no arguments."""


def _generated(records: int) -> Callable[[Path], object]:
    def write(folder: Path) -> object:
        from highwater.traces.kafka.metadata_log import PARTITION
        from tests.generation import write_log

        (folder / PARTITION).mkdir()
        return write_log(folder / PARTITION, records=records)

    return write


def _snapshot(folder: Path) -> object:
    """Write the snapshot of a cluster with 10,000 partitions of 12 brokers, in the middle of its life."""
    from tests.generation import write_log

    with tempfile.TemporaryDirectory(prefix="highwater-bench-") as name:
        write_log(Path(name), records=300_000, snapshot_every=100_000)
        newest = max(Path(name).glob("*.checkpoint"))
        return shutil.copy(newest, folder / newest.name)


def _model_runs(fetches: int) -> Callable[[Path], object]:
    def write(folder: Path) -> object:
        from tests.generation.laps import write_runs

        return write_runs(folder, fetches)

    return write


_KIP_320 = ("check", "truncation/kip-320", "--set", "max_leader_epoch=2")
_FOUR = (*_KIP_320, "--set", "replicas=4")
_TLA = "docs/examples/tla"
_INDUCTION = (
    "prove",
    "replication/controller/large-unclean-recovery",
    "--induction",
    "--epochs",
    "unbounded",
)
_OPERATOR = ("--set", "reassignments=1", "--set", "leads_elsewhere=1")

_PLAN = ("plan", LOG)
_OF_PLAN: dict[str, Any] = {"cold": True, "status": 1, "log": _snapshot}

PARTS: dict[str, tuple[Case, ...]] = {
    "check": (
        Case("the standard scenarios", ("check",), "30 s cold, 12 s again", cold=True),
        Case("the standard scenarios, unchanged", ("check",), "2 s", unchanged=True),
        Case("a known defect", ("check", "replication/defect-truncate-to-hwm"), "0.5 s again", cold=True),
        Case(
            "Kip320, 3 replicas, 2/2/2",
            _KIP_320,
            "4 million states a second",
            cold=True,
            beside=Specification(
                KAFKA_SPECIFICATION,
                "Kip320.tla",
                "CONSTANTS\n  Replicas = {r1, r2, r3}\n  LogSize = 2\n  MaxRecords = 2\n  MaxLeaderEpoch = 2\n"
                "SPECIFICATION Spec\nINVARIANT StrongIsr\nCHECK_DEADLOCK FALSE\n",
            ),
        ),
        Case("the same, with symmetry", (*_KIP_320, "--symmetry")),
        Case("the same, the interpreter", (*_KIP_320, "--engine", "interpreter"), repeat=1),
        Case("Kip320, 4 replicas, 2/2/2", _FOUR, "30 s"),
        Case("the same, given 0.15 GiB", (*_FOUR, "--memory", "0.15"), "the same count", repeat=1),
        Case(
            "a reassignment and a fencing",
            ("check", "replication/large-reassign-fencing"),
            "1 million a second",
        ),
        Case(
            "liveness: views converge",
            ("check", "replication/large-crashes", "--property", "metadata_views_converge"),
            "60 s for 5 million transitions",
        ),
    ),
    "examples": (
        Case(
            "PaxosCommit: 2 managers, 3 acceptors, 2 ballots",
            ("check", f"{_TLA}/paxos_commit.toml", "--property", "invariants"),
            "100 times TLC's rate",
            beside=Specification(
                TLA_EXAMPLES,
                "specifications/transaction_commit/PaxosCommit.tla",
                "CONSTANTS\n  RM = {r1, r2}\n  Acceptor = {a1, a2, a3}\n"
                "  Majority = {{a1, a2}, {a1, a3}, {a2, a3}}\n  Ballot = {0, 1}\n"
                "INVARIANT PCTypeOK\nSPECIFICATION PCSpec\nCHECK_DEADLOCK FALSE\n",
            ),
        ),
        Case(
            "LamportMutex: 3 processes, clocks up to 8",
            ("check", f"{_TLA}/lamport_mutex.toml", "--property", "invariants", "--set", "clocks=8"),
            "100 times TLC's rate",
            beside=Specification(
                TLA_EXAMPLES,
                "specifications/lamport_mutex/MCLamportMutex.tla",
                "CONSTANTS\n  N = 3\n  MaxNat = 9\n  maxClock = 8\n  Nat <- NatOverride\n"
                "INVARIANTS TypeOK BoundedNetwork Mutex\nCONSTRAINT ClockConstraint\n"
                "SPECIFICATION Spec\nCHECK_DEADLOCK FALSE\n",
            ),
        ),
        Case(
            "Bakery: from every state in which its invariant holds",
            ("check", f"{_TLA}/bakery.toml", "--property", "invariants"),
            "100 times TLC's rate",
            beside=Specification(
                TLA_EXAMPLES,
                "specifications/Bakery-Boulangerie/MCBakery.tla",
                "CONSTANTS\n  N = 2\n  MaxNat = 2\n  Nat <- NatOverride\n"
                "INVARIANTS MutualExclusion TypeOK Inv\nSPECIFICATION ISpec\nCHECK_DEADLOCK FALSE\n",
            ),
        ),
        Case(
            "TwoPhase: 8 managers",
            ("check", f"{_TLA}/two_phase.toml", "--property", "invariants", "--set", "managers=8"),
            "100 times TLC's rate",
            beside=Specification(
                TLA_EXAMPLES,
                "specifications/transaction_commit/TwoPhase.tla",
                "CONSTANT RM = {r1, r2, r3, r4, r5, r6, r7, r8}\n"
                "INVARIANT TPTypeOK\nSPECIFICATION TPSpec\nCHECK_DEADLOCK FALSE\n",
            ),
        ),
    ),
    "prove": (
        Case(
            "a standard scenario to depth 20",
            ("prove", "replication/large-messages", "--depth", "20"),
            "depth 10 within 5 minutes",
            repeat=1,
        ),
        *(
            Case(
                f"the controller's rules are inductive, {brokers} brokers",
                (
                    *(*_INDUCTION, *_OPERATOR, "--set", f"brokers={brokers}"),
                    *("--set", f"replication_factor={brokers}", "--set", f"max_min_isr={brokers + 1}"),
                ),
                "60 s for all three",
            )
            for brokers in (3, 4, 5)
        ),
        Case(
            "KIP-966 and Kafka 4.2, each rule alone",
            ("diff", "kip_966", "kafka_4_2", "--each-rule", *_OPERATOR, "--set", "max_min_isr=3"),
            "60 s",
            status=1,
        ),
    ),
    "plan": (
        Case(
            "10,000 partitions, restart of a broker, a fault", (*_PLAN, "--restart", "2"), "2 s", **_OF_PLAN
        ),
        Case("the same, two faults", (*_PLAN, "--restart", "2", "--faults", "2"), "10 s", **_OF_PLAN),
        Case("a roll of all 12 brokers, a fault", (*_PLAN, "--roll", "all"), "20 s, 500 MB", **_OF_PLAN),
    ),
    "replay": (
        Case(
            "a generated metadata log",
            ("replay", LOG),
            "200,000 records a second",
            status=1,
            log=_generated(1_000_000),
        ),
        Case(
            "the same, five times as long",
            ("replay", LOG),
            "the same memory",
            status=1,
            log=_generated(5_000_000),
        ),
        Case(
            "following it; the rate is by processor time",
            (),
            "150,000 records a second; idle: 1% of a core, 150 MB",
            log=_generated(1_000_000),
            follows=True,
        ),
        Case(
            "generated request logs",
            ("replay", LOG),
            "30,000 lines a second",
            log=_model_runs(100_000),
        ),
    ),
    "spark": (
        Case(
            "Kip320, 4 replicas, 2/2/2, on local[2]",
            (*_FOUR, "--engine", "spark", "--spark-master", "local[2]"),
            "500,000 states a second",
            repeat=1,
        ),
    ),
    "large": (
        Case(
            "1 GB of metadata log",
            ("replay", LOG),
            "500 MB",
            1,
            status=1,
            log=_generated(20_000_000),
        ),
        Case("`replication/peer`: 248 million states", ("check", "replication/peer"), "12 bytes a state", 1),
        Case(
            "`replication/large`, given 0.45 GiB", ("check", "replication/large", "--memory", "0.45"), "", 1
        ),
    ),
}
"""The parts of the benchmarks, by name."""
BY_DEFAULT = ("check", "examples", "prove", "plan", "replay", "spark")
"""The parts that ``make bench`` measures."""
