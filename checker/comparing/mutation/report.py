"""Mutants in words and as JSON: how many of each kind were noticed, and what nobody noticed, by source line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from highwater.checker.base.terminal import fold
from highwater.checker.comparing.mutation.examining import (
    EQUAL,
    HOLDS,
    KILLED,
    LEAVES,
    NEVER,
    SURVIVED,
    UNFINISHED,
    MutantResult,
)
from highwater.checker.comparing.mutation.findings import LISTED, REDUNDANT, WITHIN, Record
from highwater.checker.comparing.mutation.run import Findings
from highwater.checker.telling.verdict_table import short_name
from highwater.model.language.mutation import Mutant
from highwater.model.versions import versions

VERDICTS = (KILLED, EQUAL, REDUNDANT, LISTED, WITHIN, SURVIVED, UNFINISHED)
HOLES = (WITHIN, SURVIVED, UNFINISHED)


def holes(found: Findings) -> list[Record]:
    """The mutants that change a step and that nothing notices, by place."""
    return [r for r in in_order(found) if r.verdict in HOLES]


def in_order(found: Findings) -> list[Record]:
    """All mutants by place."""
    return sorted(found.records.values(), key=lambda r: _place(r.mutant))


def _place(mutant: Mutant) -> tuple[str, int, tuple[int, int], str, str]:
    file, _, line = mutant.place.rpartition(":")
    return file, int(line), mutant.columns, mutant.kind, mutant.change


def lines(found: Findings, *, full: bool, width: int | None) -> Iterator[str]:
    """All that there is to say, folded at a width; ``full``: every mutant, else what nothing notices."""
    yield from found.notes
    yield from table(found.records.values())
    shown = in_order(found) if full else holes(found)
    if shown:
        yield ""
        yield "every mutant:" if full else "what nothing notices:"
    file = ""
    for record in shown:
        own = record.mutant.place.rpartition(":")[0]
        if own != file:
            file = own
            yield ""
            yield file
        yield from _told(record, width)
    yield ""
    yield from fold(summary(found), "", width, "  ")


def table(records: Iterable[Record]) -> Iterator[str]:
    """How many mutants of each kind there are, and what came of them."""
    counts = Counter((row_of(r.mutant), r.verdict) for r in records)
    rows = sorted({row for row, _ in counts})
    heads = ("mutants", *VERDICTS)
    yield f"{'':<14}" + "".join(f" {head:>5}" for head in heads)
    for row in (*rows, "all"):
        own = [
            sum(n for (r, v), n in counts.items() if v == verdict and row in (r, "all"))
            for verdict in VERDICTS
        ]
        cells = zip((sum(own), *own), heads, strict=True)
        yield f"{row:<14}" + "".join(f" {n:>{max(5, len(head))},}" for n, head in cells)


def row_of(mutant: Mutant) -> str:
    """What a mutant is counted as."""
    if mutant.kind == "write":
        return "field dropped" if "=" in mutant.change else "write dropped"
    return f"{mutant.kind} {mutant.change}" if mutant.kind in ("guard", "check") else mutant.kind


def _told(record: Record, width: int | None) -> Iterator[str]:
    mutant = record.mutant
    line = mutant.place.rpartition(":")[2]
    name = f' "{mutant.name}"' if mutant.name else ""
    text = "" if name else f" {source_of(mutant)}"
    yield from fold(f"{mutant.kind}{name}{text}", f"{line:>5} ", width, " " * 8)
    yield from fold(f"{mutant.change}: {said(record)}", " " * 6, width, " " * 8)


def said(record: Record) -> str:
    """What came of a mutant, in words."""
    verdict = record.verdict
    if verdict == KILLED:
        assert record.killed is not None
        (_, scenario), result = record.killed
        return f"{how(result)} in {short_name(scenario)}"
    if verdict == EQUAL:
        return f"the same steps in all states of {len({name for _, name in record.results})} scenarios"
    if verdict == REDUNDANT:
        return f"other steps lead where its own do not, in {len(record.differing)} scenarios"
    if verdict == LISTED:
        return f"listed: {record.reason}"
    if not (differing := record.differing):
        return "not asked"
    (_, scenario), first = differing[0]
    new = max(r.new or 0 for _, r in differing)
    states = f"; up to {new:,} other states" if new else ""
    if lost := max(r.lost or 0 for _, r in differing):
        states = f"; up to {lost:,} states are out of its reach"
    more = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
    depth = "" if first.differs is None else f"at depth {first.differs} of "
    return f"{verdict}: another step {depth or 'in '}{short_name(scenario)}{more}{states}"


def how(result: MutantResult) -> str:
    """How a mutant was killed."""
    if result.how == LEAVES:
        return f"leaves its type at depth {result.depth}"
    if result.how == HOLDS:
        return f"{result.property} holds"
    if result.how == NEVER:
        return f"{result.property} is never taken"
    return f"{result.property} at depth {result.depth}"


def summary(found: Findings) -> str:
    """One line: how many mutants, how many noticed, in which time."""
    counts = Counter(r.verdict for r in found.records.values())
    total = sum(counts.values())
    parts = [f"{counts[v]:,} {v}" for v in VERDICTS if counts[v]]
    end = "; interrupted" if found.interrupted else ""
    return f"{total:,} mutants of {len(found.scenarios)} scenarios: {', '.join(parts)}; {found.seconds:.0f} s{end}"


@lru_cache(maxsize=64)
def source(path: str) -> tuple[str, ...]:
    """The lines of a file; none where it is not found."""
    try:
        return tuple(Path(path).read_text(encoding="utf-8", errors="replace").splitlines())
    except OSError:
        return ()


def source_of(mutant: Mutant) -> str:
    """The text that a mutant changes, on one line."""
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
    """Everything, as the command line promises it (``checker/comparing/mutation/mutation.schema.json``)."""
    counts = Counter(r.verdict for r in found.records.values())
    return {
        "scenarios": [{"name": name, "states": found.sizes[name]} for name in found.scenarios],
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
        **({} if record.reason is None else {"reason": record.reason}),
        "results": [
            {"scenario": scenario, **to_builtins(result)}
            for (_, scenario), result in sorted(record.results.items())
        ],
    }
