"""``python -m docs.bench``: measure, and write the figures into docs/benchmarks.md."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import click

from docs.bench import cases
from docs.bench.cases import Case
from docs.bench.measure import Run, follow, highwater, machine, spread
from highwater.checker.engines.cache import VARIABLE
from highwater.checker.runner import CI

PAGE = Path(__file__).resolve().parents[1] / "benchmarks.md"
_COLUMNS = "| work | result | wall time | processor time | memory | rate | target |"


@dataclass
class Measured:
    """The measured runs of one case.

    ``cold`` has the runs with an empty cache, ``again`` the runs with a filled cache, and ``tlc`` the runs of TLC.
    """

    cold: list[Run] = field(default_factory=list)
    again: list[Run] = field(default_factory=list)
    tlc: list[Run] = field(default_factory=list)
    counts: set[int] = field(default_factory=set)
    """The numbers of distinct states that the runs counted, TLC included. Two different numbers are an error."""


def measure(case: Case, repeat: int) -> Measured:
    """Run a case ``repeat`` times: cold, again and TLC in turn.

    Raises RuntimeError if two runs count different numbers of states.
    """
    found = Measured()
    with tempfile.TemporaryDirectory(prefix="highwater-bench-") as name:
        folder = Path(name)
        arguments = [str(folder / "log") if a == cases.LOG else a for a in case.arguments]
        if case.log is not None:
            (folder / "log").mkdir()
            case.log(folder / "log")
        highwater(("check", "truncation/kip-101"))  # afterwards Python has compiled all modules
        for number in range(repeat):
            environment = {**os.environ, VARIABLE: str(folder / (f"{number}" if case.cold else "cache"))}
            environment.pop(CI, None)
            if not case.unchanged:
                environment[CI] = "1"
            if case.follows:
                found.again.append(follow(folder / "log"))
                found.counts |= {0}
                continue
            runs = [found.cold, found.again] if case.cold else [found.again]
            if not case.cold and not number and case.log is None:
                highwater(arguments, case.status, environment)  # fills the cache
            for kind in runs:
                kind.append(highwater(arguments, case.status, environment))
                found.counts |= {states(kind[-1])}
            if case.beside is not None and case.beside.missing() is None:
                run, counted = case.beside.check()
                found.tlc.append(run)
                found.counts.add(counted)
    if len(found.counts) != 1:
        raise RuntimeError(f"{case.title}: runs counted different states: {sorted(found.counts)}")
    return found


def states(run: Run) -> int:
    """The number of distinct states in all results of a run; 0 for a command that explores no states."""
    return sum(r.get("distinct_states", 0) for r in run.results)


def rows(case: Case, found: Measured) -> Iterator[str]:
    """The table rows of a case: one for its cold runs, one for its repeated runs, and one or two for TLC."""
    for kind, runs in (
        ("cold", found.cold),
        ("again" if found.cold else "", found.again),
        ("TLC", found.tlc),
    ):
        if runs:
            title = f"{case.title}, {kind}" if kind else case.title
            target = case.goal if runs is found.again else ""
            result = _result(found.again[0]) if runs is not found.tlc else f"{max(found.counts):,} states"
            yield (
                f"| {title} | {result} | {spread([r.wall for r in runs], '{:.2f} s')} | "
                f"{spread([r.processor for r in runs], '{:.2f} s')} | "
                f"{spread([r.memory / 1e6 for r in runs], '{:,.0f} MB')} | {_rate(runs)} | {target} |"
            )
    if case.beside is not None and (missing := case.beside.missing()):
        yield f"| {case.title}, TLC | not measured: {missing} | | | | | |"
    elif found.tlc:
        times = statistics.median(r.wall for r in found.tlc) / statistics.median(r.wall for r in found.again)
        yield f"| TLC's command, in ours | {times:.0f} times as long | | | | | |"


def _result(run: Run) -> str:
    """The result of a command, in a few words."""
    first = run.results[0]
    if "distinct_states" in first:
        return f"{states(run):,} states"
    if "idle" in first:
        return f"{_amount(first):,} records, then {first['idle']:.1%} of a core"
    if "records" in first:
        return f"{_amount(first):,} records or lines, {first['unexplained_count']} do not conform"
    different = [r for r in run.results if r["verdict"] == "different"]
    return f"{len(different)} of {len(run.results)} differ" if different else str(first["verdict"])


def _amount(result: dict[str, Any]) -> int:
    """The states that a search counted, or the lines or records that a replay read; 0 for a proof."""
    figures = result.get("figures", {})
    lines = figures.get("request log lines") or result.get("records") or result.get("operations")
    return int(result.get("distinct_states") or lines or 0)


def _rate(runs: list[Run]) -> str:
    """The states, records or lines per second of search or replay; "" if there are none."""
    amounts = [sum(map(_amount, run.results)) for run in runs]
    seconds = [sum(r.get("seconds", 0.0) for r in run.results) for run in runs]
    if not all(amounts) or not all(seconds):
        return ""
    return spread([a / s for a, s in zip(amounts, seconds, strict=True)], "{:,.0f} a second")


def with_part(text: str, heading: str, part: str) -> str:
    """Return the page ``text`` with ``part`` in place of the section under ``heading``.

    If the page has no such heading, ``part`` is appended.
    """
    before, found, after = text.partition(f"\n{heading}\n")
    rest = after[after.index("\n## ") :] if found and "\n## " in after else "\n"
    return f"{before.rstrip()}\n\n{part.rstrip()}\n{rest}".rstrip() + "\n"


@click.command()
@click.option("--quick", is_flag=True, help="One run of each, and nothing written.")
@click.option("--only", type=click.Choice(list(cases.PARTS)), help="Only one part.")
def main(quick: bool, only: str | None) -> None:
    """Measure the cases of the part ``only``, or of all default parts; print each row, and write each part to the page.

    With ``quick``, each case runs once and the page is not written.
    """
    for name in [only] if only else cases.BY_DEFAULT:
        lines = []
        for case in cases.PARTS[name]:
            for row in rows(case, measure(case, 1 if quick else case.repeat)):
                lines.append(row)
                click.echo(row)
        if not quick:
            heading = f"## {name.capitalize()}"
            measured = f"Measured on {date.today().isoformat()}: {machine()}."
            part = "\n".join([heading, "", measured, "", _COLUMNS, "| --- " * 7 + "|", *lines])
            PAGE.write_text(with_part(PAGE.read_text(encoding="utf-8"), heading, part), encoding="utf-8")
            click.echo(f"wrote {name} into docs/{PAGE.name}")


if __name__ == "__main__":
    main()
