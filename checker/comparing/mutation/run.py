"""A run of ``highwater mutate``: what is asked of which scenarios, in which order, and what comes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from highwater.checker.asking.request import Overrides, Request
from highwater.checker.asking.scenarios import Scenario
from highwater.checker.comparing.mutation import findings, work
from highwater.checker.comparing.mutation.examining import SURVIVED, UNFINISHED
from highwater.checker.comparing.mutation.findings import Record, ScenarioResults
from highwater.model.language.mutation import Mutant

_KEEP_EVERY = 5.0
Progress = Callable[[str, str], None]


@dataclass
class Findings:
    """Everything that is known: mutants with their results, scenarios in the order in which they were asked."""

    scenarios: list[str] = field(default_factory=list)
    sizes: dict[str, int | None] = field(default_factory=dict)
    records: dict[Mutant, Record] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    left_out: bool = False
    """Whether a scenario was left out, or could not be asked: ``notes`` say why."""
    seconds: float = 0.0
    processor_seconds: float = 0.0
    interrupted: bool = False


class MutationRun:
    """Asks all mutants of some scenarios, the smallest scenario first."""

    def __init__(
        self,
        chosen: Sequence[Scenario],
        *,
        only: Sequence[str] = (),
        limit_states: int | None = None,
        nearest: int = 0,
        liveness: bool = True,
        processes: int = 1,
        memory_bytes: int | None = None,
        keep: Path | None = None,
        progress: Progress = lambda done, under_way: None,
    ) -> None:
        self._chosen, self._only, self._limit = list(chosen), tuple(only), limit_states
        self._liveness, self._processes, self._memory = liveness, processes, memory_bytes
        self._keep, self._progress = keep, progress
        self._nearest = nearest
        self.kept = findings.KeptFile() if keep is None else findings.read(keep)
        self.parts = self.kept.parts
        self.found = Findings()
        self._numbers: dict[tuple[str, str], dict[int, Mutant]] = {}
        self._order_of: dict[tuple[str, str], int] = {}
        self._requests: dict[str, Request] = {}
        self._started = time.perf_counter()
        self._kept = time.monotonic()

    def run(self) -> Findings:
        """Do it, to the end or to an interruption."""
        found = self.found
        try:
            self._order()
            parts = self._parts()
            self._order_of = {part: position for position, part in enumerate(parts)}
            tasks = [lambda p=part: self._task(*p) for part in parts]
            done = 0
            for number, told in work.share_out(tasks, self._processes):
                self._take(parts[number], told)
                done += told.done
                killed = sum(r.killed is not None for r in found.records.values())
                self._progress(
                    f"{done} of {len(parts)} parts, {killed:,} of {len(found.records):,} mutants killed",
                    parts[number][0],
                )
        except KeyboardInterrupt:
            found.interrupted = True
        finally:
            found.seconds = time.perf_counter() - self._started
            self._save(now=True)
        return found

    def _parts(self) -> list[tuple[str, str]]:
        """What is asked, in this order."""
        names, sizes = self.found.scenarios, self.found.sizes
        whole = [name for name in names if sizes[name] is not None]
        invariants = [name for name in whole if self._has(name, work.INVARIANTS)]
        parts = [(name, work.INVARIANTS) for name in invariants]
        parts += [(name, work.NEAREST) for name in names if sizes[name] is None]
        parts += [(name, work.ONCE_MORE) for name in invariants]
        parts += [(name, work.LESSER) for name in invariants]
        if self._liveness:
            parts += [(name, work.LIVENESS) for name in whole if self._has(name, work.LIVENESS)]
        return parts

    def _has(self, name: str, part: str) -> bool:
        request = self._requests[name]
        if part == work.LIVENESS:
            return bool(request.liveness)
        return bool(request.invariants or request.step_properties or request.goals) or request.deadlock

    def _order(self) -> None:
        """The scenarios by how many states they have; those beyond the limit last, or left out."""
        self._requests = {s.name: Request.of(s, Overrides()) for s in self._chosen}
        tasks = [
            lambda s=s: work.Task(
                s.name, work.SIZE, self._limit, memory_bytes=self._memory, size=self.kept.sizes.get(s.name)
            )
            for s in self._chosen
        ]
        for number, told in work.share_out(tasks, self._processes):
            name = self._chosen[number].name
            self.found.processor_seconds += told.seconds
            if told.note:
                self._leave_out(f"{name}: left out: {told.note}")
                continue
            assert told.size is not None
            self.kept.sizes[name] = told.size
            self.found.sizes[name] = states = told.size.states
            self._progress(f"{len(self.found.sizes)} of {len(tasks)} scenarios explored as they are", name)
            if states is None:
                what = f"only the nearest {self._nearest:,} were asked" if self._nearest else "left out"
                self._leave_out(f"{name}: {what}: it has more than {self._limit:,} states")
        sizes = self.found.sizes
        known = sorted((size, name) for name, size in sizes.items() if size is not None)
        large = [name for name, size in sizes.items() if size is None and self._has(name, work.INVARIANTS)]
        self.found.scenarios = [name for _, name in known] + (sorted(large) if self._nearest else [])

    def _leave_out(self, note: str) -> None:
        self.found.notes.append(note)
        self.found.left_out = True

    def _task(self, name: str, part: str) -> work.Task | None:
        undecided = None
        if part in (work.ONCE_MORE, work.LESSER):
            undecided = self._undecided(name) if part == work.ONCE_MORE else self._within(name)
        if undecided is not None and not undecided:
            return None
        kept = self.parts.get((name, part))
        settled = frozenset(m for m, r in self.found.records.items() if r.killed is not None)
        return work.Task(
            name,
            part,
            self._limit,
            self._only,
            kept.digest if kept else None,
            dict(kept.results) if kept else {},
            settled,
            undecided,
            self._memory,
            self._nearest,
            self.kept.sizes.get(name),
        )

    def _undecided(self, name: str) -> frozenset[Mutant]:
        """The mutants that a scenario has not decided, and no other one kills."""
        key = self._order_of[name, work.INVARIANTS], name
        return frozenset(
            m
            for m, r in self.found.records.items()
            if r.killed is None and key in r.results and r.results[key].kind == UNFINISHED
        )

    def _within(self, name: str) -> frozenset[Mutant]:
        """The mutants that reach nowhere another state, and have another step in a scenario, of which all is known."""
        key = self._order_of[name, work.INVARIANTS], name
        own = [(m, r.results[key]) for m, r in self.found.records.items() if r.is_within and key in r.results]
        return frozenset(m for m, result in own if result.kind == SURVIVED and result.new == 0)

    def _take(self, part: tuple[str, str], told: work.TaskResult) -> None:
        """Take in what a task says."""
        found = self.found
        found.processor_seconds += told.seconds
        if told.mutants is not None:
            assert told.actions is not None
            assert told.digest is not None
            self._numbers[part] = told.mutants
            protocol = self._requests[part[0]].scenario.definition.name
            for number, mutant in told.mutants.items():
                if work.wanted(mutant, told.actions[number], self._only):
                    record = found.records.setdefault(mutant, Record(mutant, protocol))
                    record.actions |= told.actions[number]
            kept = self.parts.get(part)
            if kept is None or kept.digest != told.digest:
                self.parts[part] = ScenarioResults(told.digest)
        for number, result in (told.results or {}).items():
            self.parts[part].results[number] = result
            # What is asked once more takes the place of what was not decided.
            first = (part[0], work.INVARIANTS) if part[1] in (work.ONCE_MORE, work.LESSER) else part
            found.records[self._numbers[part][number]].results[self._order_of[first], part[0]] = result
        if told.note:
            self._leave_out(f"{part[0]}: {told.note}")
        self._save(now=told.done)

    def _save(self, now: bool = False) -> None:
        if self._keep is not None and (now or time.monotonic() - self._kept > _KEEP_EVERY):
            findings.write(self._keep, self.kept)
            self._kept = time.monotonic()
