"""What became of an entry: the same, the same under other names, different, or not decided.

A fact is what the protocol does, a name what it is called. Where a name is gone and another has come, and all that is
known of one is known of the other, it is the same thing renamed, which breaks no promise:

* the model's fingerprint, which has no names, is that of the baseline: nothing but names can have changed;
* or all facts are equal but for the names that carry them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from itertools import chain, islice, zip_longest
from typing import Any

import numpy as np

from highwater.checker.base.memory import available_memory
from highwater.checker.base.problems import InputError
from highwater.checker.base.processes import Pool, ProcessEnded, Say, cores
from highwater.checker.comparing.gate.baseline import Baseline
from highwater.checker.comparing.gate.entries import (
    SCENARIO,
    TABLES,
    Facts,
    GateEntry,
    Ran,
    fingerprint,
    run,
    run_image,
)
from highwater.checker.comparing.models.differences import ActionChange, Comparison, instances_of_both
from highwater.checker.comparing.models.revisions import Image, RestoredModel, Revision, UnknownImageError
from highwater.checker.comparing.models.states import answers, described, example, restored
from highwater.checker.engines.native.state_graph import explore
from highwater.checker.runner.one import LiveLine
from highwater.checker.scenarios import catalogue, scenario_files
from highwater.checker.scenarios.model_key import KEPT, by_action
from highwater.checker.scenarios.scenario_files import Scenario
from highwater.checker.scenarios.search import EngineError, SearchOptions
from highwater.model.language.errors import LanguageError
from highwater.model.language.model import Model

GRAPH = "graph"
"""The fact that is no promise: the fingerprint of the model."""

KINDS = {
    "actions": "action",
    "premises": "property",
    "violated": "property",
    "reachable": "goal",
    "cut": "bound",
    "properties": "property",
}


class EntryState(StrEnum):
    """What a gate says of an entry. DIFFERENT, FAILED and NOT_RUN keep it from passing."""

    SAME = "same"
    RENAMED = "renamed"
    DIFFERENT = "different"
    FAILED = "failed"
    NOT_RUN = "not run"
    SKIPPED = "unchanged"
    UPDATED = "updated"


@dataclass(frozen=True)
class Difference:
    """A fact that is not as it was: ``table`` is empty for those of the entry itself. None: it is not there."""

    table: str
    name: str
    before: Any
    after: Any

    def __str__(self) -> str:
        what = f"{KINDS[self.table]} {self.name}" if self.table else self.name
        match self.table, self.before, self.after:
            case ("violated", None, depth):
                return f"{what} is violated at depth {depth}, and was not"
            case ("violated", depth, None):
                return f"{what} is not violated any more (it was at depth {depth})"
            case ("violated", before, after):
                return f"{what} is violated at depth {after}, not {before}"
            case ("reachable", None, depth):
                return f"{what} is reached at depth {depth}, and was not"
            case ("reachable", depth, None):
                return f"{what} is not reached any more (it was at depth {depth})"
            case ("reachable", before, after):
                return f"{what} is reached at depth {after}, not {before}"
            case (_, None, after):
                return f"{what} is new: {_say(after, self.table)}"
            case (_, before, None):
                return f"{what} is gone: it was {_say(before, self.table)}"
            case ("actions", before, 0):
                return f"{what} is never taken any more (it was taken {before:,} times)"
            case ("premises", before, 0):
                return f"{what} has nothing to say any more (it had in {before:,} states or steps)"
        return f"{what}: {_say(self.before, self.table)} → {_say(self.after, self.table)}"


def _say(value: Any, table: str = "") -> str:
    number = isinstance(value, int) and not isinstance(value, bool)
    unit = (
        {"actions": " times taken", "premises": " states or steps", "cut": " steps cut"}.get(table, "")
        if number
        else ""
    )
    return (f"{value:,}" if number else str(value)) + unit


@dataclass
class EntryVerdict:
    """An entry, what it gave, and what that means. ``renamed`` is pairs (kind, name before, name after)."""

    entry: GateEntry
    state: EntryState
    before: Facts | None = None
    ran: Ran = field(default_factory=Ran)
    differences: list[Difference] = field(default_factory=list)
    renamed: list[tuple[str, str, str]] = field(default_factory=list)
    note: str = ""

    @property
    def graph_changed(self) -> bool:
        """Whether the expressions are not those that the facts of before were found with."""
        facts = self.ran.facts
        return facts is not None and self.before is not None and facts.get(GRAPH) != self.before.get(GRAPH)

    @property
    def passes(self) -> bool:
        """Whether what was promised of this entry is kept."""
        return self.state in (EntryState.SAME, EntryState.RENAMED, EntryState.SKIPPED, EntryState.UPDATED)


def compare(entry: GateEntry, before: Facts, ran: Ran | None) -> EntryVerdict:
    """Hold what an entry gave against what the baseline has of it."""
    if ran is None:
        return EntryVerdict(entry, EntryState.NOT_RUN, before, note="the budget was used up")
    if ran.error is not None:
        return EntryVerdict(entry, EntryState.FAILED, before, ran, note=ran.error)
    if ran.facts is None:
        return EntryVerdict(entry, EntryState.NOT_RUN, before, ran, note=f"stopped: {ran.stopped}")
    renamed = renamings(before, ran.facts)
    found = list(differences(before, ran.facts, {(t, old): new for t, old, new in renamed}))
    if found and before.get(GRAPH) != ran.facts.get(GRAPH):
        # Something else is different, too: then equal numbers do not make two names one.
        renamed, found = [], list(differences(before, ran.facts, {}))
    state = (
        EntryState.DIFFERENT if found or ran.broken else EntryState.RENAMED if renamed else EntryState.SAME
    )
    told = list(dict.fromkeys((KINDS[t], old, new) for t, old, new in renamed))
    return EntryVerdict(entry, state, before, ran, found, told, "; ".join(ran.broken))


def renamings(before: Facts, after: Facts) -> list[tuple[str, str, str]]:
    """Names that are gone and have others in their place: (table, before, after)."""
    found = []
    for table in TABLES:
        old, new = before.get(table, {}), after.get(table, {})
        gone = sorted((n for n in old if n not in new), key=lambda n: (str(old[n]), n))
        come = sorted((n for n in new if n not in old), key=lambda n: (str(new[n]), n))
        if gone and [old[n] for n in gone] == [new[n] for n in come]:
            found += [(table, a, b) for a, b in zip(gone, come, strict=True)]
    return found


def differences(before: Facts, after: Facts, renamed: Mapping[tuple[str, str], str]) -> list[Difference]:
    """The facts that differ, names aside that were renamed, and the model's fingerprint aside.

    Where the verdict is another one, other facts are kept of it: that those of before are not there says nothing.
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


_SAID = {"run": "run", "image": "of the other revision run", "fingerprint": "traced"}


class GateInterrupted(Exception):
    """Ctrl-C, after which what was found so far is still told."""


def run_all(
    entries: Sequence[GateEntry],
    *,
    processes: int | None = None,
    budget: float | None = None,
    quiet: bool = False,
) -> Iterator[tuple[GateEntry, Ran | None]]:
    """Run entries in their order and give each with its result; None for those that the budget left no time for.

    Raises Interrupted where Ctrl-C ended it.
    """
    deadline = None if budget is None else time.perf_counter() + budget
    yield from _all("run", entries, processes, deadline, quiet)


def run_images(
    images: Mapping[tuple[str, str], Image],
    entries: Sequence[GateEntry],
    *,
    processes: int | None = None,
    budget: float | None = None,
    quiet: bool = False,
) -> Iterator[tuple[GateEntry, Ran | None]]:
    """Run entries as another revision has them, from their images."""
    deadline = None if budget is None else time.perf_counter() + budget
    yield from _all("image", entries, processes, deadline, quiet, images)


def fingerprints(
    entries: Sequence[GateEntry], *, processes: int | None = None, quiet: bool = False
) -> dict[tuple[str, str], str | None]:
    """The fingerprint of each entry's model."""
    return {e.key: found for e, found in _all("fingerprint", entries, processes, None, quiet)}


def _all(
    word: str,
    entries: Sequence[GateEntry],
    processes: int | None,
    deadline: float | None,
    quiet: bool,
    images: Mapping[tuple[str, str], Image] | None = None,
) -> Iterator[tuple[GateEntry, Any]]:
    count = min(len(entries), processes or cores())
    begun = done = 0

    def jobs() -> Iterator[tuple[GateEntry, float | None, Any]]:
        """Entries that are to be run, each with the seconds that are left for it."""
        nonlocal begun
        for entry in entries:
            seconds = None if deadline is None else deadline - time.perf_counter()
            if seconds is not None and seconds <= 0:
                return
            begun += 1
            yield entry, seconds, images and images[entry.key]

    live = LiveLine(quiet=quiet)
    with Pool(partial(_run, word, int(available_memory() * 0.8) // max(1, count))) as pool:
        try:
            for news in pool.run(jobs(), count, every=0.5):
                under_way = ", ".join(entry.name for entry, *_ in pool.under_way())
                live(f"gate: {done} of {len(entries)} {_SAID[word]}", under_way)
                if news is None:
                    continue
                done += 1
                entry, found = news.job[0], news.said
                if isinstance(found, ProcessEnded):
                    found = Ran(error="the process that ran it was ended, perhaps for its memory")
                elif isinstance(found, BaseException):
                    raise found
                yield entry, found
            yield from ((entry, None) for entry in entries[begun:])
        except KeyboardInterrupt:
            raise GateInterrupted from None
        finally:
            live.end()


def _run(word: str, memory_bytes: int, job: tuple[GateEntry, float | None, Any], say: Say) -> Any:
    entry, seconds, image = job
    if word == "fingerprint":
        return fingerprint(entry)
    if word == "image":
        return run_image(image, seconds, memory_bytes)
    return run(entry, seconds, memory_bytes)


# Whether another scenario reaches a state in which an action differs that does the same wherever one
# scenario goes.
#
# Other scenarios of the protocol are searched, those with larger bounds first, and the same scenario with
# one bound a
# step larger: within limits, so that no state was found says little.

SECONDS = 30.0
"""So long is searched for all scenarios that are explained."""
EACH_SECONDS = 8.0
LIMIT_STATES = 200_000
TOGETHER = 8
"""So many others are traced by the other revision at a time."""


def seek(
    explained: Sequence[Comparison], entries: Sequence[GateEntry], baseline: Baseline, old: Revision
) -> None:
    """Add, to each action that does the same wherever its scenario goes, a state of another in which it does not."""
    deadline = time.monotonic() + SECONDS
    for found in explained:
        open_ = [change for change in found.actions if change.same_so_far]
        entry = next((e for e in entries if e.kind == SCENARIO and e.name == found.scenario), None)
        if not open_ or entry is None or time.monotonic() > deadline:
            continue
        others = _others(entry, entries, baseline)
        while open_ and time.monotonic() < deadline and (some := list(islice(others, TOGETHER))):
            for other, before in zip(some, old.images([o.asked() for o in some]), strict=True):
                seconds = min(EACH_SECONDS, deadline - time.monotonic())
                if open_ and seconds > 0 and "error" not in before:
                    _search(other, before, open_, seconds)
                open_ = [change for change in open_ if not change.reached_by]


def _search(other: GateEntry, image: Image, changes: Sequence[ActionChange], seconds: float) -> None:
    """Look for the shallowest state of a scenario in which one of the actions differs."""
    with suppress(InputError, LanguageError, EngineError, UnknownImageError):
        new = other.request().model()
        old, order = restored(image, new)
        if order is not None:
            _compare(other, old, new, changes, seconds)


def _compare(
    other: GateEntry, old: RestoredModel, new: Model, changes: Sequence[ActionChange], seconds: float
) -> None:
    before, now = by_action(old), by_action(new)
    both = [c for c in changes if c.before in before and c.action in now]
    both = [c for c in both if KEPT.action(before[c.before]) != KEPT.action(now[c.action])]
    if not both:
        return
    options = SearchOptions(workers=1, limit_states=LIMIT_STATES, limit_seconds=seconds)
    explored = explore(new, options)
    for change in both:
        pairs = instances_of_both(before[change.before], now[change.action])
        found = [(int(np.argmax(c)), w, a, b) for w, c, a, b in answers(explored, new, pairs) if c.any()]
        if found:
            index, word, a, b = min(found, key=lambda one: one[0])
            state = explored.scalars(index)
            change.reached_by, change.unreached = _called(other), described(new, state)
            change.examples = [example((old, new), word, state, a, b)]


def _called(entry: GateEntry) -> str:
    over = ", ".join(f"{name}={value}" for name, value in entry.parameters.items())
    return f"{entry.name} with {over}" if over else entry.name


def _others(entry: GateEntry, entries: Sequence[GateEntry], baseline: Baseline) -> Iterator[GateEntry]:
    """Other scenarios of the same protocol, and the same with one bound larger, by turns."""
    scenario = entry.found()
    known, values = scenario.protocol.parameters, scenario.parameter_values({})
    more, first = (
        [
            replace(entry, parameters={name: value + 1})
            for name, value in values.items()
            if value < known[name].high and bool(value) == granted
        ]
        for granted in (True, False)
    )
    run_here = {e.name for e in entries}
    near = sorted(
        (o for o in _of_protocol(scenario, baseline) if o.name != entry.name),
        key=lambda o: (o.name in run_here, *_far(scenario, o.found())),
    )
    yield from (one for one in chain(*zip_longest(near, more, first)) if one is not None)


def _of_protocol(scenario: Scenario, baseline: Baseline) -> Iterator[GateEntry]:
    """The scenarios of the same protocol: those that come with it, of one's own those beside its file."""
    definition, root = scenario.definition, baseline.root.resolve()
    files, protocol = catalogue.scenario_files(), definition.name
    if definition.file is not None:
        beside = definition.file.resolve().parent.glob("*.toml")
        files = {p.relative_to(root).as_posix(): p for p in sorted(beside) if p.is_relative_to(root)}
        protocol = definition.file.name
    for name, path in files.items():
        with suppress(InputError):
            if scenario_files.outline(path).get("protocol") == protocol:
                yield GateEntry.of_scenario(name, baseline.root)


def _far(scenario: Scenario, other: Scenario) -> tuple[bool, int]:
    """How far another scenario is: whether one of its bounds is smaller, and how many settings differ."""
    values = [s.parameter_values({}) for s in (scenario, other)]
    rules = [s.rule_values(s.profile, s.rules) for s in (scenario, other)]
    smaller = any(values[1].get(name, 0) < value for name, value in values[0].items())
    return smaller, sum(a.get(n) != b.get(n) for a, b in (values, rules) for n in {*a, *b})
