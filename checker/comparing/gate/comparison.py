"""Compare an entry with its baseline: it is the same, renamed, changed, different, failed, or not run.

A missing name counts as renamed if a new name has the same facts, and one of two conditions holds. Either the model's
fingerprint, which contains no names, equals the baseline's, or all facts except names are equal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any

from highwater.checker.base.memory import available_memory
from highwater.checker.base.processes import Pool, ProcessEnded, Say, cores
from highwater.checker.comparing.gate.entries import (
    EXPRESSIONS,
    PROTOCOL,
    TABLES,
    Facts,
    GateEntry,
    Ran,
    fingerprint,
    run,
    run_image,
)
from highwater.checker.comparing.revisions import Image
from highwater.checker.runner import LiveLine, Reuse

GRAPH = "graph"
"""The key of the model's fingerprint. This fact may change without being a difference."""

KINDS = {
    "actions": "action",
    "premises": "property",
    "violated": "property",
    "reachable": "goal",
    "cut": "bound",
    "properties": "property",
}


class EntryState(StrEnum):
    """The result of comparing an entry. DIFFERENT, FAILED and NOT_RUN do not pass.

    CHANGED, the state of a protocol with other expressions, passes unless the gate is strict.
    """

    SAME = "same"
    RENAMED = "renamed"
    CHANGED = "changed"
    DIFFERENT = "different"
    FAILED = "failed"
    NOT_RUN = "not run"
    SKIPPED = "unchanged"
    UPDATED = "updated"


@dataclass(frozen=True)
class Difference:
    """A fact that differs between the baseline and a result.

    ``before`` is the baseline's value, ``after`` the result's; None if one of them lacks the fact. ``table`` is the
    table of the baseline that has the fact, or "" if it is in no table.
    """

    table: str
    name: str
    before: Any
    after: Any

    def __str__(self) -> str:
        if self.table == EXPRESSIONS:
            change = (
                "is new"
                if self.before is None
                else "is gone"
                if self.after is None
                else "has other expressions"
            )
            return f"{self.name} {change}"
        what = f"{KINDS[self.table]} {self.name}" if self.table else self.name
        done = {"violated": "violated", "reachable": "reached"}.get(self.table)
        match self.table, self.before, self.after:
            case (_, None, depth) if done:
                return f"{what} is {done} at depth {depth}, and was not"
            case (_, depth, None) if done:
                return f"{what} is not {done} any more (it was at depth {depth})"
            case (_, before, depth) if done:
                return f"{what} is {done} at depth {depth}, not {before}"
            case (_, None, after):
                return f"{what} is new: {_say(after, self.table)}"
            case (_, before, None):
                return f"{what} is gone: it was {_say(before, self.table)}"
            case ("actions", before, 0):
                return f"{what} is never taken any more (it was taken {before:,} times)"
            case ("premises", before, 0):
                return f"{what} is vacuous now (its premise held in {before:,} states or steps)"
        return f"{what}: {_say(self.before, self.table)} → {_say(self.after, self.table)}"


def _say(value: Any, table: str = "") -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        return str(value)
    unit = {"actions": " times taken", "premises": " states or steps", "cut": " steps cut"}.get(table, "")
    return f"{value:,}{unit}"


@dataclass
class EntryVerdict:
    """An entry with the state of its comparison. ``renamed`` lists (kind, name before, name after)."""

    entry: GateEntry
    state: EntryState
    before: Facts | None = None
    ran: Ran = field(default_factory=Ran)
    differences: list[Difference] = field(default_factory=list)
    renamed: list[tuple[str, str, str]] = field(default_factory=list)
    note: str = ""

    @property
    def graph_changed(self) -> bool:
        """True if the model's fingerprint differs from the baseline's; False if the entry has no facts to compare."""
        facts = self.ran.facts
        return facts is not None and self.before is not None and facts.get(GRAPH) != self.before.get(GRAPH)

    @property
    def passes(self) -> bool:
        """True if every fact of the baseline still holds, or the entry was skipped or updated."""
        return self.state in (EntryState.SAME, EntryState.RENAMED, EntryState.SKIPPED, EntryState.UPDATED)


def compare(entry: GateEntry, before: Facts, ran: Ran | None) -> EntryVerdict:
    """Compare the result of an entry (None: not run) with its facts in the baseline."""
    if ran is None:
        return EntryVerdict(entry, EntryState.NOT_RUN, before, note="the budget was used up")
    if ran.error is not None:
        return EntryVerdict(entry, EntryState.FAILED, before, ran, note=ran.error)
    if ran.facts is None:
        return EntryVerdict(entry, EntryState.NOT_RUN, before, ran, note=f"stopped: {ran.stopped}")
    renamed = renamings(before, ran.facts)
    found = list(differences(before, ran.facts, {(t, old): new for t, old, new in renamed}))
    if found and before.get(GRAPH) != ran.facts.get(GRAPH):
        # Other facts differ too, so equal numbers do not prove a renaming.
        renamed, found = [], list(differences(before, ran.facts, {}))
    state = (
        EntryState.DIFFERENT if found or ran.broken else EntryState.RENAMED if renamed else EntryState.SAME
    )
    if entry.kind == PROTOCOL and found:
        state = EntryState.CHANGED
    told = list(dict.fromkeys(_renamed(*names) for names in renamed))
    return EntryVerdict(entry, state, before, ran, found, told, "; ".join(ran.broken))


def _renamed(table: str, old: str, new: str) -> tuple[str, str, str]:
    if table != EXPRESSIONS:
        return KINDS[table], old, new
    kind, _, name = old.partition(" ")
    return kind, name, new.partition(" ")[2]


def renamings(before: Facts, after: Facts) -> list[tuple[str, str, str]]:
    """Triples (table, missing name, new name) in which both names have the same facts.

    A table has triples only if all its missing names can be paired with all its new names in this way.
    """
    found = []
    for table in TABLES:
        old, new = before.get(table, {}), after.get(table, {})
        gone = sorted((n for n in old if n not in new), key=lambda n: (str(old[n]), n))
        come = sorted((n for n in new if n not in old), key=lambda n: (str(new[n]), n))
        if gone and [old[n] for n in gone] == [new[n] for n in come]:
            found += [(table, a, b) for a, b in zip(gone, come, strict=True)]
    return found


def differences(before: Facts, after: Facts, renamed: Mapping[tuple[str, str], str]) -> list[Difference]:
    """The facts that differ, apart from renamed names and the model's fingerprint.

    A verdict determines which facts exist. If the verdicts differ, only ``violated``, ``reachable`` and the facts that
    exist on both sides are compared.
    """
    keys = list(dict.fromkeys([*before, *after]))
    if before.get("verdict") != after.get("verdict"):
        keys = [key for key in keys if (key in before and key in after) or key in ("violated", "reachable")]
    found = [
        Difference("", key, before.get(key), after.get(key))
        for key in keys
        if key != GRAPH and key not in TABLES and before.get(key) != after.get(key)
    ]
    for table in (key for key in TABLES if key in keys):
        old = {renamed.get((table, n), n): v for n, v in before.get(table, {}).items()}
        new = after.get(table, {})
        found += [
            Difference(table, n, old.get(n), new.get(n))
            for n in sorted({*old, *new})
            if old.get(n) != new.get(n)
        ]
    return found


class GateInterrupted(Exception):
    """Ctrl-C ended the gate. The results so far are still reported."""


Entries = Sequence[tuple[GateEntry, Image | None]]
"""Entries to run; an entry with an image runs the model of another revision."""


def run_all(
    entries: Entries,
    *,
    processes: int | None = None,
    budget: float | None = None,
    quiet: bool = False,
    reuse: Reuse = Reuse.NEVER,
) -> Iterator[tuple[GateEntry, Ran | None]]:
    """Start entries in order, and yield each with its result when it ends.

    At the end, yield entries that did not begin within ``budget`` seconds, each with None. Raises GateInterrupted on
    Ctrl-C.
    """
    yield from _in_processes(partial(_run, reuse), "run", entries, processes, budget, quiet)


def fingerprints(
    entries: Sequence[GateEntry], *, processes: int | None = None, quiet: bool = False
) -> dict[tuple[str, str], str | None]:
    """The fingerprint of each entry's model, by the entry's key; None if the model cannot be traced."""
    jobs = [(entry, None) for entry in entries]
    return {e.key: found for e, found in _in_processes(_traced, "traced", jobs, processes, None, quiet)}


_Job = tuple[GateEntry, Image | None, float | None, int]
"""An entry, its image, the remaining seconds, and the bytes of memory that it may use."""


def _in_processes(
    do: Callable[[_Job, Say], Any],
    word: str,
    entries: Entries,
    processes: int | None,
    budget: float | None,
    quiet: bool,
) -> Iterator[tuple[GateEntry, Any]]:
    deadline = None if budget is None else time.perf_counter() + budget
    count = min(len(entries), processes or cores())
    memory = int(available_memory() * 0.8) // max(1, count)
    begun = done = 0

    def jobs() -> Iterator[_Job]:
        nonlocal begun
        for entry, image in entries:
            seconds = None if deadline is None else deadline - time.perf_counter()
            if seconds is not None and seconds <= 0:
                return
            begun += 1
            yield entry, image, seconds, memory

    live = LiveLine(quiet=quiet)
    with Pool(do) as pool:
        try:
            for news in pool.run(jobs(), count, every=0.5):
                under_way = ", ".join(entry.name for entry, *_ in pool.under_way())
                live(f"gate: {done} of {len(entries)} {word}", under_way)
                if news is None:
                    continue
                done += 1
                found = news.said
                if isinstance(found, ProcessEnded):
                    found = Ran(error="its process was ended, perhaps for its memory")
                elif isinstance(found, BaseException):
                    raise found
                yield news.job[0], found
            yield from ((entry, None) for entry, _ in entries[begun:])
        except KeyboardInterrupt:
            raise GateInterrupted from None
        finally:
            live.end()


def _run(reuse: Reuse, job: _Job, say: Say) -> Ran:
    entry, image, seconds, memory = job
    return run(entry, seconds, memory, reuse) if image is None else run_image(image, seconds, memory)


def _traced(job: _Job, say: Say) -> str | None:
    return fingerprint(job[0])
