"""Benchmarks: ``python -m checker.bench`` measures and writes docs/benchmarks.md.

Every figure is of a whole process started afresh: its wall time, the peak of its memory as the operating
system counts it, and what its result JSON says of the search. Runs are repeated and the median is
reported with the least and the most; nothing is decided by a figure.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import click

from checker import bench_liveness, bench_proofs
from traces.generation import write_log
from traces.kafka.metadata_log import open_metadata_log
from traces.metadata.replay import replay_metadata
from traces.report import Report

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"


@dataclass(frozen=True)
class Run:
    """One process: seconds from start to end, peak resident bytes, and its result."""

    wall: float
    peak: int
    result: dict[str, Any]


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


def measure(arguments: tuple[str, ...]) -> Run:
    """Run ``highwater`` once; RuntimeError where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "result.json"
        command = [sys.executable, "-m", "checker", *arguments, "--quiet", "--json", str(output)]
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} ended with status {process.returncode}")
        (result,) = json.loads(output.read_text(encoding="utf-8"))
    return Run(wall, usage.ru_maxrss * 1024, result)


def idle_memory() -> int:
    """Peak resident bytes of a check that visits next to nothing: what the program itself takes."""
    return measure(("check", "truncation/kip-320", "--set", "max_leader_epoch=0")).peak


def row(case: Case, runs: list[Run], idle: int) -> str:
    """The table row of a case."""
    states = runs[0].result["distinct_states"]
    if case.show == "wall":
        figure = _spread([r.wall for r in runs], "{:.2f} s")
    elif case.show == "bytes":
        figure = _spread([(r.peak - idle) / states for r in runs], "{:.1f} bytes")
    elif case.show == "spill":
        spilled = runs[0].result["spilled_bytes"] / 1e9
        figure = f"{spilled:.2f} GB on disk, {_spread([r.wall for r in runs], '{:.1f} s')}"
    elif case.show == "symmetry":
        figure = _spread([r.result["seconds"] for r in runs], "{:.2f} s of search")
    else:
        figure = _spread([states / r.result["seconds"] / 1e6 for r in runs], "{:.2f} million a second")
    return f"| {case.title} | {states:,} | {runs[0].result['depth']} | {figure} | {case.goal} |"


# --- replay of a metadata log ---------------------------------------------------------------------------

REPLAY_HEADING = "## Replay of a metadata log"
REPLAYED = (1_000_000, 5_000_000)
"""Records of the generated logs; the peak of the memory is compared between them."""
REPLAY_REPEAT = 3


def replay_log(directory: Path) -> dict[str, Any]:
    """Replay a metadata log in this process; what it took, by name."""
    log = open_metadata_log(directory)
    report = Report(str(directory), log.kind, "")
    processor = time.process_time()
    replay_metadata(log, report)
    return {
        "seconds": report.seconds,
        "processor_seconds": time.process_time() - processor,
        "records": report.records,
        "changes": report.changes,
        "unexplained": report.unexplained_count,
        "beliefs": report.figures["beliefs"],
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def measure_replay(directory: Path) -> dict[str, Any]:
    """Replay a log in a process started afresh; RuntimeError where it fails or something is not explained."""
    command = [sys.executable, "-m", "checker.bench", "--replay", str(directory)]
    found = subprocess.run(command, check=False, stdout=subprocess.PIPE)
    if found.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with status {found.returncode}")
    result: dict[str, Any] = json.loads(found.stdout)
    if result["unexplained"]:
        raise RuntimeError(f"{result['unexplained']} records of a generated log are not explained")
    return result


def replay_rows(repeat: int) -> list[str]:
    """The rows of the replay table: a log is generated and then replayed, in processes of their own."""
    rows = []
    for records in REPLAYED:
        with tempfile.TemporaryDirectory() as folder:
            written = write_log(Path(folder), records=records)
            size = sum(f.stat().st_size for f in Path(folder).iterdir())
            runs = [measure_replay(Path(folder)) for _ in range(repeat)]
        rates = _spread([r["records"] / r["seconds"] for r in runs], "{:,.0f}")
        rows.append(
            f"| {written.records:,} | {size / 1e6:.0f} MB | {written.records / written.batches:.1f} | "
            f"{runs[0]['changes']:,} | {runs[0]['beliefs']:,} | {rates} | "
            f"{_spread([r['processor_seconds'] for r in runs], '{:.1f} s')} | "
            f"{_spread([r['peak'] / (1 << 20) for r in runs], '{:.0f} MiB')} |"
        )
        click.echo(rows[-1])
    return rows


def replay_section(rows: list[str]) -> str:
    """The part of the page about replay."""
    return "\n".join(
        [
            REPLAY_HEADING,
            "",
            f"Measured on {date.today().isoformat()}: {machine()}.",
            "The log is a generated one (`traces.generation.write_log`): 10,000 partitions on 12 brokers, ELR on,",
            "restarts, crashes, slow followers, reassignments. It is replayed by one process started afresh for each",
            "run; the time is that of `replay_metadata`, without the start of Python. Everything in it is explained.",
            "",
            "To reach: 200,000 records a second, and memory below 1 GiB that does not grow with the log's length.",
            "",
            "| records | size | records a batch | partition changes | beliefs | records a second | processor time | "
            "peak memory |",
            "| ---: | ---: | ---: | ---: | ---: | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def _spread(values: list[float], form: str) -> str:
    middle = form.format(statistics.median(values))
    if len(values) == 1:
        return middle
    number = form.split("}")[0] + "}"
    return f"{middle} ({number.format(min(values))} to {number.format(max(values))}, {len(values)} runs)"


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


def proofs_section(repeat: int) -> str:
    """The part of the page about proofs."""
    rows = []
    for measured in bench_proofs.rows(repeat):
        rows.append(measured)
        click.echo(measured)
    return bench_proofs.section(rows, machine())


def liveness_section(repeat: int) -> str:
    """The part of the page about liveness."""
    rows = []
    for measured in bench_liveness.rows(repeat):
        rows.append(measured)
        click.echo(measured)
    return bench_liveness.section(rows, machine())


def page(rows: list[str], idle: int, replay: str, proofs: str, liveness: str) -> str:
    """The page's text; ``replay``, ``proofs`` and ``liveness`` are its parts about these."""
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
            replay,
            proofs,
            liveness,
        ]
    )


@click.command()
@click.option("--quick", is_flag=True, help="One run of each, and nothing written.")
@click.option("--only-replay", is_flag=True, help="Only the replay of a metadata log.")
@click.option("--only-prove", is_flag=True, help="Only what Z3 is asked.")
@click.option("--only-liveness", is_flag=True, help="Only the search for liveness.")
@click.option("--only-spark-replay", is_flag=True, help="Only the replay on Spark, printed and not written.")
@click.option(
    "--replay", type=Path, hidden=True, help="Replay a log in this process, and print what it took."
)
def main(
    quick: bool,
    only_replay: bool,
    only_prove: bool,
    only_liveness: bool,
    only_spark_replay: bool,
    replay: Path | None,
) -> None:
    """Measure, and write docs/benchmarks.md."""
    if replay is not None:
        click.echo(json.dumps(replay_log(replay)))
        return
    if only_replay:
        section = replay_section(replay_rows(1 if quick else REPLAY_REPEAT))
        if not quick:
            write_section(REPLAY_HEADING, section)
        return
    if only_spark_replay:
        from checker import bench_spark_replay  # its packages are an extra

        for line in bench_spark_replay.lines(1 if quick else bench_spark_replay.REPEAT):
            click.echo(line)
        return
    if only_prove:
        section = proofs_section(1 if quick else bench_proofs.REPEAT)
        if not quick:
            write_section(bench_proofs.HEADING, section)
        return
    if only_liveness:
        section = liveness_section(1 if quick else bench_liveness.REPEAT)
        if not quick:
            write_section(bench_liveness.HEADING, section)
        return
    idle = idle_memory()
    rows = []
    done: dict[tuple[str, ...], list[Run]] = {}
    for case in CASES:
        if case.arguments not in done:
            done[case.arguments] = [measure(case.arguments) for _ in range(1 if quick else case.repeat)]
        rows.append(row(case, done[case.arguments], idle))
        click.echo(rows[-1])
    replay_part = replay_section(replay_rows(1 if quick else REPLAY_REPEAT))
    proofs_part = proofs_section(1 if quick else bench_proofs.REPEAT)
    liveness_part = liveness_section(1 if quick else bench_liveness.REPEAT)
    if not quick:
        PAGE.write_text(page(rows, idle, replay_part, proofs_part, liveness_part), encoding="utf-8")
        click.echo(f"wrote docs/{PAGE.name}")


if __name__ == "__main__":
    main()
