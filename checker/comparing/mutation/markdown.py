"""Mutants as a page of the documentation: how many were noticed, by which property, and what was not, by function."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from highwater.checker.comparing.mutation.examining import HOLDS, KILLED, LEAVES, NEARBY, NEVER
from highwater.checker.comparing.mutation.findings import LISTED, WITHIN, Record
from highwater.checker.comparing.mutation.report import HOLES, VERDICTS, in_order, row_of, source_of
from highwater.checker.comparing.mutation.run import Findings

_MOST = 100
"""So many characters of a text are shown."""


def lines(found: Findings) -> Iterator[str]:
    """The page's lines; ``highwater.checker.comparing.mutation.page`` makes another one, of the source."""
    records = in_order(found)
    yield "# Mutants of the protocols: what the scenarios notice"
    yield ""
    yield "Made by [`highwater mutate --markdown`](mutate.md), which says what is changed and what the verdicts mean."
    yield ""
    whole = [n for n in found.scenarios if found.sizes[n] is not None]
    minutes = (found.processor_seconds / 60, found.seconds / 60)
    yield f"{len(records):,} mutants, {len(whole)} scenarios in all of their states, " + (
        f"{len(found.scenarios) - len(whole)} in their nearest; this run {minutes[1]:.1f} min, "
        f"{minutes[0]:.1f} min of the processor."
    )
    yield ""
    yield from _counted(records)
    yield from _killers(records)
    yield from _by_reason(records)
    for verdict in HOLES:
        own = [r for r in records if r.verdict == verdict]
        if own:
            yield from ("", f"## {verdict.capitalize()}", "")
            yield from _by_function(own)


def _counted(records: Iterable[Record]) -> Iterator[str]:
    """How many there are, by protocol and kind."""
    counts = Counter((r.protocol, row_of(r.mutant), r.verdict) for r in records)
    rows = sorted({key[:2] for key in counts})
    yield f"| protocol | kind | mutants | {' | '.join(VERDICTS)} |"
    yield f"| --- | --- |{' ---: |' * (len(VERDICTS) + 1)}"
    for protocol, kind in rows:
        own = [counts[protocol, kind, verdict] for verdict in VERDICTS]
        yield _row(protocol, kind, own)
    sums = [sum(n for key, n in counts.items() if key[2] == verdict) for verdict in VERDICTS]
    yield _row("all", "", sums)


def _row(protocol: str, kind: str, counts: list[int]) -> str:
    return f"| {protocol} | {kind} | {' | '.join(f'{n:,}' for n in (sum(counts), *counts))} |"


def _killers(records: Iterable[Record]) -> Iterator[str]:
    """Which property was the first to notice, and of how many."""
    counts = Counter(_killer(r) for r in records if r.verdict == KILLED)
    yield from ("", "## Who notices first", "", "| protocol | property | mutants |", "| --- | --- | ---: |")
    for (protocol, name), count in sorted(counts.items(), key=lambda x: (x[0][0], -x[1], x[0][1])):
        yield f"| {protocol} | {name} | {count:,} |"


def _killer(record: Record) -> tuple[str, str]:
    assert record.killed is not None
    result = record.killed[1]
    if result.how == LEAVES:
        return record.protocol, "a type is left"
    if result.how == HOLDS:
        return record.protocol, "what is to be violated holds"
    if result.how == NEVER:
        return record.protocol, "an action is never taken"
    return record.protocol, f"`{result.property}`"


def _by_reason(records: Iterable[Record]) -> Iterator[str]:
    by_reason: dict[str, list[Record]] = {}
    for record in records:
        if record.verdict == LISTED:
            by_reason.setdefault(record.reason or "", []).append(record)
    if by_reason:
        yield from ("", "## Listed")
    for reason, own in by_reason.items():
        yield from ("", f"### {reason}", "")
        yield from _by_function(own)


def _by_function(records: Iterable[Record]) -> Iterator[str]:
    function = None
    for record in records:
        place, _, line = record.mutant.place.rpartition(":")
        own = f"`{record.mutant.within}` in {place.split('highwater/')[-1]}"
        if own != function:
            function = own
            yield f"* {own}"
        yield f"  * {line} {_what(record)}{_seen(record)}"


def _what(record: Record) -> str:
    mutant = record.mutant
    text = f"“{mutant.name}”" if mutant.name else f"`{_shortened(source_of(mutant))}`"
    return f"{mutant.kind} {text} {mutant.change}"


def _shortened(text: str) -> str:
    text = re.sub(r"\s+", " ", text)
    return text if len(text) <= _MOST else text[: _MOST - 1] + "…"


def _seen(record: Record) -> str:
    """Where it takes another step first, and how many states it reaches that the protocol does not."""
    differing = record.differing
    if record.verdict == WITHIN or not differing:
        return ""
    (_, scenario), first = differing[0]
    new = max(r.new or 0 for _, r in differing)
    nearby = " (nearest states)" if first.how == NEARBY else ""
    return f"; {scenario}, depth {first.differs}{nearby}" + (f", +{new:,}" if new else "")
