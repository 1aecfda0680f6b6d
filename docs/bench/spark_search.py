"""The part of the benchmarks about searching on Spark: beside the native engine, and with an executor that is killed.

It starts some searches on Spark, so it is measured only where it is asked for; its tables are in docs/spark.md.
``python -m docs.bench.spark_search`` is one search, measured from inside by a process started afresh.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from docs.bench.figures import afresh, measure
from docs.bench.page import PAGE
from docs.bench.whole import tree
from highwater.checker.asking import request, scenarios
from highwater.checker.asking.search import Progress, SearchOptions
from highwater.checker.engines.spark import session
from highwater.checker.engines.spark.request import SparkOptions
from highwater.checker.engines.spark.search import exploration

PAGE = PAGE.with_name("spark.md")
HEADING = "## Measured"
REPEAT = 1
HOSTS = "local-cluster[2,1,3072]"
_KIP = "truncation/kip-320"
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Search:
    """A search: scenario and settings, the master, and after how many states an executor is killed."""

    scenario: str
    settings: tuple[str, ...]
    master: str = "local[2]"
    killed_at: int | None = None


SMALL = Search(_KIP, ("replicas=4", "max_leader_epoch=2", "max_records=1"))
RUNS = {
    "4 replicas, 1 record, 2 epochs, logs of 2": SMALL,
    "4 replicas, 2 records, 2 epochs, logs of 1": Search(
        _KIP, ("replicas=4", "max_leader_epoch=2", "log_size=1")
    ),
    "4 replicas, 2 records, 2 epochs, logs of 2": Search(_KIP, ("replicas=4", "max_leader_epoch=2")),
}
DISTURBED = {"two executors of one core": None, "one killed (SIGKILL) in the middle": 3_000_000}
BESIDE = [
    "The native engine and `local[2]` on the same cores, one after the other, in the same run:",
    "",
    "| Kip320 | states | native: rate, processor time | Spark: rate, processor time | of it Python workers, JVM, "
    "driver | candidates a state | Parquet a state | most memory of a Python worker |",
    "| --- | ---: | --- | --- | --- | --- | --- | --- |",
]
KILLED = [
    f"Executors on hosts of their own (`{HOSTS}`):",
    "",
    "| what | states | search |",
    "| --- | ---: | ---: |",
]


def search(asked: Search) -> dict[str, Any]:
    """Search in this process; what it took."""
    chosen = request.Request.of(scenarios.find(asked.scenario), request.Overrides.parse(asked.settings))
    model, options = chosen.model(), SearchOptions(symmetry=chosen.symmetry, deadlock=chosen.deadlock)
    left = [asked.killed_at]

    def kill(progress: Progress) -> None:
        if left[0] is not None and progress.distinct_states >= left[0]:
            left[0] = None
            os.kill(executors()[0], signal.SIGKILL)

    with exploration(model, options, kill, SparkOptions(asked.master)) as (found, levels):
        result = found.explore()
        return {
            "states": result.distinct_states,
            "seconds": result.seconds,
            "sent": levels.work.sent,
            "written": levels.work.written,
            "resident": levels.work.resident,
            "processor": processor_seconds(),
        }


def processor_seconds() -> dict[str, float]:
    """Seconds of processor time of this process and of all below it, ended ones too, by what they are."""
    spent: dict[str, float] = {}
    for pid in set(tree(os.getpid())):
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        name = "driver" if pid == os.getpid() else text[text.index("(") + 1 : text.rindex(")")]
        numbers = text[text.rindex(")") + 2 :].split()[11:15]
        # Children that have ended count with the process that waited for them; the driver has waited for none of these.
        ticks = sum(map(int, numbers[:2] if name == "driver" else numbers))
        spent[name] = spent.get(name, 0.0) + ticks / _TICK
    return spent


def executors() -> list[int]:
    """The processes of the executors of a ``local-cluster``."""
    lines = {pid: Path(f"/proc/{pid}/cmdline") for pid in set(tree(os.getpid()))}
    there = {pid: line.read_bytes() for pid, line in lines.items() if line.exists()}
    return sorted(
        pid
        for pid, line in there.items()
        if b"CoarseGrainedExecutorBackend" in line and line.split(b"\0")[0].endswith(b"java")
    )


def run(asked: Search) -> dict[str, Any]:
    """The measurement of a search by a process started afresh; RuntimeError where it fails."""
    return afresh("spark_search", json.dumps(asdict(asked)))


def rows(repeat: int) -> Iterator[str]:
    """The rows of both tables, each when it is measured."""
    for title, asked in RUNS.items():
        settings = [part for setting in asked.settings for part in ("--set", setting)]
        yield beside(title, run(asked), measure(("check", asked.scenario, *settings)))
    for title, states in DISTURBED.items():
        found = run(replace(SMALL, master=HOSTS, killed_at=states))
        yield f"killed| {title} | {found['states']:,} | {found['seconds']:.0f} s |"


def beside(title: str, found: dict[str, Any], native: Any) -> str:
    """A row of the first table. RuntimeError where the engines found different numbers of states."""
    (result,) = native.results
    states, spent = found["states"], found["processor"]
    if states != result["distinct_states"]:
        raise RuntimeError(f"{title}: {states:,} states and not {result['distinct_states']:,}")
    kinds = [
        sum(s for name, s in spent.items() if name.startswith(kind)) for kind in ("python", "java", "driver")
    ]
    cells = (
        title,
        f"{states:,}",
        f"{states / result['seconds'] / 1e6:.2f} million a second, {native.processor:.0f} s",
        f"{states / found['seconds'] / 1e6:.2f} million a second, {sum(spent.values()):.0f} s",
        ", ".join(f"{seconds:.0f} s" for seconds in kinds),
        f"{found['sent'] / states:.2f}",
        f"{found['written'] / states:.0f} bytes",
        f"{found['resident'] / 1e9:.2f} GB",
    )
    return f"beside| {' | '.join(cells)} |"


def section(rows: list[str], machine: str) -> str:
    """The part of the page."""
    lines = [HEADING, "", f"Measured on {date.today().isoformat()}: {machine}.", ""]
    for name, head in (("beside", BESIDE), ("killed", KILLED)):
        lines += [*head, *(row.removeprefix(name) for row in rows if row.startswith(f"{name}|")), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    plain = json.loads(sys.argv[1])
    print(json.dumps(search(Search(**{**plain, "settings": tuple(plain["settings"])}))))
    session.close()
