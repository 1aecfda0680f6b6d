"""The result of ``highwater mutate`` as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from highwater.checker.comparing.mutation.examining import (
    EQUIVALENT,
    HOLDS,
    KILLED,
    LEAVES,
    LIMIT,
    NOT_COMPARED,
    NOTICED,
    SAME_COUNTS,
    SURVIVED,
    VERDICTS,
    MutantResult,
    Record,
)
from highwater.checker.comparing.mutation.run import Findings
from highwater.checker.report.summary import short_name
from highwater.model.language.mutation import Mutant
from highwater.model.versions import versions
from highwater.traces.reports.text import fold


def in_order(found: Findings) -> list[Record]:
    """The records of all mutants, sorted by place in the source."""
    return sorted(found.records.values(), key=lambda r: _place(r.mutant))


def _place(mutant: Mutant) -> tuple[str, int, tuple[int, int], str, str]:
    file, _, line = mutant.place.rpartition(":")
    return file, int(line), mutant.columns, mutant.kind, mutant.change


def lines(found: Findings, *, full: bool, width: int | None) -> Iterator[str]:
    """The lines of the table: the mutants that no property kills, by file and function, then the totals.

    Equivalent mutants, which no property can detect, and mutants that were not compared are only counted. With ``full``
    all mutants are listed. The table is folded at ``width`` columns.
    """
    yield from found.notes
    heading = None
    for record in in_order(found):
        if not full and record.verdict in (KILLED, EQUIVALENT, NOT_COMPARED):
            continue
        mutant = record.mutant
        file, _, line = mutant.place.rpartition(":")
        if heading != (heading := f"{file} {mutant.within}"):
            yield from fold(heading, "", width, "  ")
        text = f'"{mutant.name}"' if mutant.name else source_of(mutant)
        yield from fold(f"{mutant.kind} {text}", f"{line:>6} ", width, " " * 9)
        yield from fold(f"[{mutant.change}] {because(record)}", " " * 7, width, " " * 9)
    counts = Counter(r.verdict for r in found.records.values())
    yield from (f"{counts[v]:>6,} {v}" for v in VERDICTS if counts[v] or v != NOT_COMPARED)
    yield from fold(summary(found), "", width, "  ")


def because(record: Record) -> str:
    """The verdict on a mutant and the reason for it, as text."""
    verdict, deciding = record.verdict, record.deciding
    if verdict == EQUIVALENT:
        return f"{verdict}: the same steps in all states of {len({name for name, _ in deciding})} scenarios"
    if not deciding:
        return verdict
    scenario, first = deciding[0]
    more = f" and {len(deciding) - 1} more" if len(deciding) > 1 and verdict != KILLED else ""
    return f"{verdict}: {_reason(first)} in {short_name(scenario)}{more}"


def _reason(result: MutantResult) -> str:
    depth = "" if result.depth is None else f" at depth {result.depth}"
    if result.kind == KILLED:
        words = {HOLDS: "holds", LEAVES: f"leaves its type{depth}"}
        return f"{result.property} {words.get(result.how or '', f'is violated{depth}')}"
    if result.kind == NOTICED:
        return f"{result.count} {result.found:,}, not {_expected(result)}"
    differs = "" if result.differs is None else f", another step at depth {result.differs}"
    words = {SAME_COUNTS: "all counts are the same", LIMIT: "the limit of states ended the comparison"}
    return f"{words.get(result.how or '', 'no liveness property is violated')}{differs}"


def _expected(result: MutantResult) -> str:
    return "more than the limit" if result.expected is None else f"{result.expected:,}"


def summary(found: Findings) -> str:
    """One line with the number of mutants of each verdict, and the time."""
    counts = Counter(r.verdict for r in found.records.values())
    parts = ", ".join(f"{counts[v]:,} {v}" for v in VERDICTS if counts[v] or v == SURVIVED)
    end = "; interrupted" if found.interrupted else ""
    total, scenarios = len(found.records), len(found.scenarios)
    some = "1 scenario" if scenarios == 1 else f"{scenarios} scenarios"
    return f"{total:,} mutants of {some}: {parts}; {found.seconds:.0f} s{end}"


@lru_cache(maxsize=64)
def source(path: str) -> tuple[str, ...]:
    """The lines of a source file; empty if it is not found."""
    try:
        return tuple(Path(path).read_text(encoding="utf-8", errors="replace").splitlines())
    except OSError:
        return ()


def source_of(mutant: Mutant) -> str:
    """The source text that a mutant changes, on one line; "" if the file is not found."""
    line = int(mutant.place.rpartition(":")[2])
    found = source(mutant.path)[line - 1 : mutant.last]
    if not found:
        return ""
    first, end = mutant.columns
    whole = [text.encode() for text in found]
    whole[-1] = whole[-1][:end]
    whole[0] = whole[0][first:]
    return " ".join(" ".join(text.decode(errors="replace") for text in whole).split())


def as_json(found: Findings) -> dict[str, Any]:
    """The whole result as plain data, in the form of ``checker/comparing/mutation/mutation.schema.json``."""
    counts = Counter(r.verdict for r in found.records.values())
    return {
        "scenarios": [{"name": name, "states": states} for name, states in found.scenarios.items()],
        "counts": {verdict: counts[verdict] for verdict in VERDICTS},
        "mutants": [_record(r) for r in in_order(found)],
        "notes": found.notes,
        "seconds": round(found.seconds, 3),
        "processor_seconds": round(found.processor_seconds, 3),
        "interrupted": found.interrupted,
        "versions": versions("mutation"),
    }


def _record(record: Record) -> dict[str, Any]:
    mutant = record.mutant
    return {
        "place": mutant.place,
        "last_line": mutant.last,
        "columns": list(mutant.columns),
        "within": mutant.within,
        "protocol": record.protocol,
        "actions": sorted(record.actions),
        "kind": mutant.kind,
        "name": mutant.name,
        "text": source_of(mutant),
        "change": mutant.change,
        "verdict": record.verdict,
        "results": [
            {"scenario": scenario, **to_builtins(result)}
            for (_, scenario), result in sorted(record.results.items())
        ],
    }
