"""Compare the mutants of several scenarios, and report the results as text and as JSON.

Processes take the scenarios, the smallest first. A mutant that a scenario kills is skipped in later scenarios.

Liveness comes after all safety properties, because it needs a graph for each mutant. A report names the first
scenario that kills a mutant. This scenario is the same for any number of processes, because a scenario skips only
mutants that an earlier scenario has killed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from highwater.checker.base.problems import InputError
from highwater.checker.base.processes import Pool, Say
from highwater.checker.comparing.mutants import (
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
    Examination,
    MutantResult,
    Record,
)
from highwater.checker.engines import cache
from highwater.checker.engines.native.levels import search
from highwater.checker.report.summary import short_name
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.scenario_files import Scenario
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import LanguageError
from highwater.model.language.mutation import Mutant
from highwater.model.versions import versions
from highwater.traces.reports.text import fold

SIZE, SAFETY, LIVENESS = "size", "safety", "liveness"
"""The parts of a scenario: count its states; compare mutants by safety properties and counts; compare by liveness."""


@dataclass(frozen=True)
class Task:
    """One part of a scenario to compare, without the mutants that are already ``killed``.

    ``states`` is the protocol's number of states, if known. With ``reuse``, cached results are not computed again.
    """

    scenario: str
    part: str
    limit_states: int | None
    only: tuple[str, ...] = ()
    killed: frozenset[Mutant] = frozenset()
    memory_bytes: int | None = None
    states: int | None = None
    reuse: bool = False


@dataclass(frozen=True)
class TaskResult:
    """A message of a task: first its mutants and the actions that each changes, then results, and at last ``done``.

    After a SIZE task, ``states`` None means more states than the limit. ``left_out``: the scenario could not be
    compared.
    """

    mutants: dict[int, Mutant] | None = None
    actions: dict[int, frozenset[str]] | None = None
    results: dict[int, MutantResult] | None = None
    states: int | None = None
    note: str | None = None
    left_out: bool = False
    done: bool = False
    seconds: float = 0.0


def perform(task: Task, send: Callable[[TaskResult], None]) -> None:
    """Perform one task, and send its messages."""
    started = time.process_time()
    note, states, left_out = None, None, False
    try:
        request = Request.of(scenario_files.find(task.scenario), Overrides()).without_symmetry()
        if task.part == SIZE:
            states = _states(request, task)
        else:
            note = _compare(Examination(request, task.memory_bytes, task.states), task, send)
    except (InputError, LanguageError) as wrong:
        note, left_out = f"left out: {wrong}", True
    seconds = time.process_time() - started
    send(TaskResult(states=states, note=note, left_out=left_out, done=True, seconds=seconds))


@dataclass
class PartResults:
    """The cached results of one part of a scenario, by the mutants' numbers in its model."""

    results: dict[int, MutantResult] = field(default_factory=dict)


_KEEP_EVERY = 5.0
"""The seconds between two writes of the results so far. An interruption ends the process without another write."""


def _compare(examination: Examination, task: Task, send: Callable[[TaskResult], None]) -> str | None:
    key = examination.digest, task.part, task.limit_states, task.memory_bytes
    kept = (cache.found(PartResults, *key) if task.reuse else None) or PartResults()
    actions, known = examination.model.actions_of, kept.results
    send(TaskResult(examination.mutants, actions))
    numbers = [
        number
        for number, mutant in examination.mutants.items()
        if is_wanted(mutant, actions[number], task.only) and mutant not in task.killed
    ]
    send(TaskResult(results={n: known[n] for n in numbers if n in known}))
    if not (left := [n for n in numbers if n not in known]):
        return None
    saved = time.monotonic()

    def report(number: int, found: MutantResult) -> None:
        nonlocal saved
        send(TaskResult(results={number: found}))
        known[number] = found
        if time.monotonic() - saved > _KEEP_EVERY:
            cache.keep(kept, *key)
            saved = time.monotonic()

    compare = examination.liveness if task.part == LIVENESS else examination.safety
    try:
        return compare(left, report, task.limit_states)
    finally:
        cache.keep(kept, *key)


def _states(request: Request, task: Task) -> int | None:
    """The number of states of a scenario; None if it is larger than the limit."""
    options = SearchOptions(
        workers=1,
        limit_states=task.limit_states,
        memory_bytes=task.memory_bytes,
        on_disk=False,
        all_states=True,
    )
    result = search(request.model(), options)
    return result.distinct_states if result.complete else None


def is_wanted(mutant: Mutant, actions: frozenset[str], only: Sequence[str]) -> bool:
    """True if the mutant is in one of the places (``FILE:LINE``, ``FILE``) or actions of ``only``.

    If ``only`` is empty, every mutant is wanted.
    """
    if not only:
        return True
    file, _, line = mutant.place.rpartition(":")

    def is_file(name: str) -> bool:
        return bool(name) and (name in (file, mutant.path) or f"/{file}".endswith(f"/{name}"))

    for one in only:
        name, _, number = one.rpartition(":")
        if one in actions or is_file(one):
            return True
        if is_file(name) and number.isdigit() and int(line) <= int(number) <= mutant.last:
            return True
    return False


def distribute(tasks: Sequence[Callable[[], Task]], processes: int) -> Iterator[tuple[int, TaskResult]]:
    """Perform tasks in order, in ``processes`` processes. Yields each message with the index of its task.

    A task is made when a process is free, so that it can skip the mutants killed by then. Closing the iterator ends
    all processes.
    """
    jobs = ((number, make()) for number, make in enumerate(tasks))
    with Pool(_perform) as pool:
        for news in pool.run(jobs, min(processes, len(tasks))):
            assert news is not None
            if isinstance(news.value, BaseException):
                raise news.value
            if news.value is not None:
                yield news.job[0], news.value


def _perform(job: tuple[int, Task], say: Say) -> None:
    perform(job[1], say)


Progress = Callable[[str, str], None]


@dataclass
class Findings:
    """The results of a run: the record of each mutant, and the number of states of each scenario, in order.

    The number of states is None if it is beyond the limit. ``left_out`` is true if a scenario could not be compared;
    ``notes`` has the reasons.
    """

    scenarios: dict[str, int | None] = field(default_factory=dict)
    records: dict[Mutant, Record] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    left_out: bool = False
    seconds: float = 0.0
    processor_seconds: float = 0.0
    interrupted: bool = False


class MutationRun:
    """Runs the chosen scenarios, the smallest first, each with all mutants that no earlier one has killed."""

    def __init__(
        self,
        chosen: Sequence[Scenario],
        *,
        only: Sequence[str] = (),
        limit_states: int | None = None,
        liveness: bool = True,
        processes: int = 1,
        memory_bytes: int | None = None,
        reuse: bool = False,
        progress: Progress = lambda done, under_way: None,
    ) -> None:
        self._chosen, self._only, self._limit = list(chosen), tuple(only), limit_states
        self._liveness, self._processes, self._memory = liveness, processes, memory_bytes
        self._reuse, self._progress = reuse, progress
        self._found = Findings()
        self._parts: list[tuple[str, str]] = []
        self._numbers: dict[int, dict[int, Mutant]] = {}
        self._killed = set[Mutant]()

    def run(self) -> Findings:
        """Run to the end or to an interruption, and return the results."""
        found, started = self._found, time.perf_counter()
        try:
            self._order()
            tasks = [lambda p=position: self._task(p) for position in range(len(self._parts))]
            done = 0
            for position, message in distribute(tasks, self._processes):
                self._take(position, message)
                done += message.done
                killed = f"{len(self._killed):,} of {len(found.records):,} mutants killed"
                self._progress(
                    f"{done} of {len(tasks)} parts, {killed}",
                    self._parts[position][0],
                )
        except KeyboardInterrupt:
            found.interrupted = True
        finally:
            found.seconds = time.perf_counter() - started
        return found

    def _order(self) -> None:
        """Count the states of each scenario, and put the parts in order; scenarios beyond the limit come last."""
        found, sizes = self._found, dict[str, int | None]()
        tasks = [lambda s=s: Task(s.name, SIZE, self._limit, memory_bytes=self._memory) for s in self._chosen]
        for number, message in distribute(tasks, self._processes):
            name = self._chosen[number].name
            found.processor_seconds += message.seconds
            if message.left_out:
                self._note(name, message)
                continue
            sizes[name] = message.states
            self._progress(f"{len(sizes)} of {len(tasks)} scenarios explored as they are", name)
        smallest = sorted(sizes.items(), key=lambda item: (item[1] is None, item[1] or 0, item[0]))
        found.scenarios = dict(smallest)
        self._parts = [(name, SAFETY) for name in found.scenarios]
        if self._liveness:
            live = {s.name for s in self._chosen if Request.of(s, Overrides()).liveness}
            self._parts += [(name, LIVENESS) for name in found.scenarios if name in live]

    def _task(self, position: int) -> Task:
        name, part = self._parts[position]
        return Task(
            name,
            part,
            self._limit,
            self._only,
            frozenset(self._killed),
            self._memory,
            self._found.scenarios[name],
            self._reuse,
        )

    def _note(self, name: str, message: TaskResult) -> None:
        self._found.notes.append(f"{name}: {message.note}")
        self._found.left_out |= message.left_out

    def _take(self, position: int, message: TaskResult) -> None:
        found, part = self._found, self._parts[position]
        found.processor_seconds += message.seconds
        if message.mutants is not None:
            assert message.actions is not None
            self._numbers[position] = message.mutants
            protocol = next(s for s in self._chosen if s.name == part[0]).definition.name
            for number, mutant in message.mutants.items():
                if is_wanted(mutant, message.actions[number], self._only):
                    record = found.records.setdefault(mutant, Record(mutant, protocol))
                    record.actions |= message.actions[number]
        for number, result in (message.results or {}).items():
            mutant = self._numbers[position][number]
            found.records[mutant].results[position, part[0]] = result
            if result.kind == KILLED:
                self._killed.add(mutant)
        if message.note:
            self._note(part[0], message)


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
    """The whole result as plain data, in the form of ``checker/comparing/mutation.schema.json``."""
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
