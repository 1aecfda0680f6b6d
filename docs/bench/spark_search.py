"""The part of the benchmarks about searching on Spark: beside the native engine, disturbed, and what more would cost.

It starts some ten searches on Spark, so it is measured only where it is asked for; its tables stand in docs/spark.md.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date

from docs.bench import spark_cost, spark_run
from docs.bench.figures import measure
from docs.bench.page import PAGE
from docs.bench.spark_cost import Cost, Plan, Run, bill, size
from docs.bench.spark_run import KILLED, SKEWED, SLOWED, Asked
from highwater.checker.engines.spark.levels.cluster import shift_for

PAGE = PAGE.with_name("spark.md")
HEADING = "## Measured"
REPEAT = 1

_KIP = "truncation/kip-320"
CORES = 2
EMPTY = Asked(_KIP, ("max_leader_epoch=0",))
LEVELS = Asked(_KIP, (), small=0)
MANY_BUCKETS = Asked(_KIP, (), small=0, buckets=64)
SMALL = Asked(_KIP, ("replicas=4", "max_leader_epoch=2", "max_records=1"))
LARGE = Asked(_KIP, ("replicas=4", "max_leader_epoch=2"))
THIRD = Asked(_KIP, ("replicas=4", "max_leader_epoch=2", "log_size=1"))
RUNS = {
    "small": ("4 replicas, 1 record, 2 epochs, logs of 2", SMALL),
    "third": ("4 replicas, 2 records, 2 epochs, logs of 1", THIRD),
    "large": ("4 replicas, 2 records, 2 epochs, logs of 2", LARGE),
}
HOSTS = "local-cluster[2,1,3072]"
_HALF = 3_000_000
DISTURBED = {
    "two executors of one core, nothing amiss": None,
    "one killed (SIGKILL) in the middle": KILLED,
    "one at half speed from the middle on": SLOWED,
    "7 of 8 buckets in one task": SKEWED,
}
PLANS = tuple(
    Plan(states, 100, executors, cores, 0.1)
    for states in (1e10, 1e11)
    for executors, cores in ((16, 1), (64, 1), (400, 1))
)


def rows(repeat: int) -> Iterator[str]:
    """The rows of all tables, each when it is measured and with the name of its table before it."""
    nothing, levels, many = (spark_run.run(asked) for asked in (EMPTY, LEVELS, MANY_BUCKETS))
    for found in (levels, many):
        wall = statistics.median(found["level_seconds"])
        yield f"parts| a level with next to no states, {found['buckets']} buckets | {wall:.2f} s of wall time |"
    runs: dict[str, Run] = {}
    for name, (title, asked) in RUNS.items():
        native = _native(asked)
        runs[name] = spark_run.run(asked)
        yield f"beside{_beside(title, runs[name], native)}"
    cost = Cost.of(nothing, levels, many, runs["small"])
    yield from (f"parts{row}" for row in _parts(cost))
    for name in ("third", "large"):
        yield f"predicted{_predicted(RUNS[name][0], cost, runs[name])}"
    yield from (f"disturbed{row}" for row in _disturbed())
    large = runs["large"]
    whole = Cost.of(nothing, levels, many, large)
    for plan in PLANS:
        yield f"bills{_bill(whole, plan, large)}"


def _native(asked: Asked) -> Run:
    settings = [part for setting in asked.settings for part in ("--set", setting)]
    run = measure(("check", asked.scenario, *settings))
    return {**run.results[0], "processor": run.processor}


def _same(title: str, found: Run, states: int) -> None:
    if found["states"] != states:
        raise RuntimeError(f"{title}: {found['states']:,} states and not {states:,}")


def _beside(title: str, found: Run, native: Run) -> str:
    _same(title, found, native["distinct_states"])
    spent, states = found["processor"], found["states"]
    cells = (
        title,
        f"{states:,}",
        f"{native['distinct_states'] / native['seconds'] / 1e6:.2f} million a second, {native['processor']:.0f} s",
        f"{states / found['seconds'] / 1e6:.2f} million a second, {sum(spent.values()):.0f} s",
        f"{_share(spent, 'python')}, {_share(spent, 'java')}, {spent['driver']:.0f} s",
        f"{found['sent'] / states:.2f} × {found['row']} bytes",
        f"{found['written'] / states:.0f} bytes",
        f"{found['resident'] / 1e9:.2f} GB, {found['tables'] / 1e9:.2f} GB",
    )
    return _row(cells)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _share(spent: dict[str, float], kind: str) -> str:
    return f"{sum(s for name, s in spent.items() if name.startswith(kind)):.0f} s"


def _parts(cost: Cost) -> Iterator[str]:
    yield f"| the start: Java, Spark, Python workers, the kernels | {cost.start_seconds:.1f} s of processor time |"
    yield f"| a level | {cost.level_seconds:.2f} s of processor time |"
    yield f"| a state: read, expanded, written, caught up with | {cost.state_seconds * 1e6:.2f} µs of processor time |"
    yield (
        f"| a candidate of {cost.row_bytes} bytes: sent, received, merged | "
        f"{cost.byte_seconds * cost.row_bytes * 1e6:.2f} µs of processor time |"
    )


def _predicted(title: str, cost: Cost, found: Run) -> str:
    processor, seconds = sum(found["processor"].values()), found["seconds"]
    told = cost.processor_seconds(found["states"], found["levels"])
    wall = cost.wall_seconds(found["states"], found["levels"], CORES)
    return (
        f"| {title} | {found['states']:,} | {told:.0f} s | {processor:.0f} s | {(told / processor - 1):+.0%} | "
        f"{wall:.0f} s | {seconds:.0f} s | {(wall / seconds - 1):+.0%} |"
    )


def _disturbed() -> Iterator[str]:
    states, usual = None, 0.0
    for title, disturbance in DISTURBED.items():
        asked = replace(SMALL, master=HOSTS, buckets=8, disturbance=disturbance, at_states=_HALF)
        found = spark_run.run(asked)
        _same(title, found, states or found["states"])
        states, usual = found["states"], usual or found["seconds"]
        yield (
            f"| {title} | {found['states']:,} | {found['seconds']:.0f} s | {found['seconds'] / usual:.2f} | "
            f"{found['caught_up']:,} |"
        )


def _bill(cost: Cost, plan: Plan, large: Run) -> str:
    least = bill(cost, plan, cost.sent_per_state, cost.buckets)
    most = bill(cost, plan, spark_cost.most_sent(large), 1 << shift_for(plan.executors * plan.cores))
    cells = (
        f"{plan.states / 1e9:.0f} billion",
        f"{plan.executors} × {plan.cores}",
        _between(least.core_hours, most.core_hours),
        _between(least.hours, most.hours),
        size(most.disk_bytes),
        f"{size(most.memory_bytes)}, {size(most.memory_bytes / plan.executors)} each",
        size(most.moved_bytes),
        f"{most.moved_bytes / most.hours / 3.6e12:.1f} GB a second",
        f"{most.collisions:.1f}",
    )
    return _row(cells)


def _between(least: float, most: float) -> str:
    return f"{least:.2f} to {most:.2f}"


_TABLES = {
    "beside": (
        "The native engine and `local[2]` on the same cores, one after the other, in the same run:",
        "| Kip320 | states | native: rate, processor time | Spark: rate, processor time | of it Python workers, JVM, "
        "driver | candidates sent a state | Parquet a state | most memory of a Python worker, of it tables |",
        "| --- | ---: | --- | --- | --- | --- | --- | --- |",
    ),
    "parts": ("What it is made of:", "| part | measured |", "| --- | --- |"),
    "predicted": (
        "The other runs, predicted from the parts of the first one:",
        "| Kip320 | states | processor time predicted | measured | off by | wall time of the search predicted "
        "| measured | off by |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ),
    "disturbed": (
        f"Executors on hosts of their own (`{HOSTS}`, 8 buckets), disturbed:",
        "| what | states | search | times the first | fingerprints read again from files |",
        "| --- | ---: | ---: | ---: | ---: |",
    ),
    "bills": (
        "By calculation from the parts of the largest run:",
        "| states | executors × cores | core-hours | hours | disk | memory for tables | moved through the directory | "
        "rate that asks of it | states lost to be expected |",
        "| ---: | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ),
}


def section(rows: list[str], machine: str) -> str:
    """The part of the page."""
    lines = [HEADING, "", f"Measured on {date.today().isoformat()}: {machine}.", ""]
    for name, head in _TABLES.items():
        title, *table = head
        lines += [title, "", *table, *(r.removeprefix(name) for r in rows if r.startswith(f"{name}|")), ""]
    return "\n".join(lines)
