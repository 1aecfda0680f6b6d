"""A run of ``highwater mutate``: the order of the scenarios, and what comes of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from highwater.checker.asking.request import Overrides, Request
from highwater.checker.asking.scenarios import Scenario
from highwater.checker.comparing.mutation import findings, work
from highwater.checker.comparing.mutation.examining import KILLED
from highwater.checker.comparing.mutation.findings import Record, ScenarioResults
from highwater.model.language.mutation import Mutant

_KEEP_EVERY = 5.0
Progress = Callable[[str, str], None]


@dataclass
class Findings:
    """The results of a run: mutants with their records, scenarios with their numbers of states in their order.

    A number is None if it is beyond the limit. ``left_out``: a scenario could not be compared; ``notes`` say why.
    """

    scenarios: dict[str, int | None] = field(default_factory=dict)
    records: dict[Mutant, Record] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    left_out: bool = False
    seconds: float = 0.0
    processor_seconds: float = 0.0
    interrupted: bool = False


class MutationRun:
    """Compares all mutants of some scenarios, the smallest scenario first."""

    def __init__(
        self,
        chosen: Sequence[Scenario],
        *,
        only: Sequence[str] = (),
        limit_states: int | None = None,
        liveness: bool = True,
        processes: int = 1,
        memory_bytes: int | None = None,
        keep: Path | None = None,
        progress: Progress = lambda done, under_way: None,
    ) -> None:
        self._chosen, self._only, self._limit = list(chosen), tuple(only), limit_states
        self._liveness, self._processes, self._memory = liveness, processes, memory_bytes
        self._keep, self._progress = keep, progress
        self._kept = {} if keep is None else findings.read(keep)
        self._saved = time.monotonic()
        self._found = Findings()
        self._parts: list[tuple[str, str]] = []
        self._numbers: dict[int, dict[int, Mutant]] = {}

    def run(self) -> Findings:
        """Do it, to the end or to an interruption."""
        found, started = self._found, time.perf_counter()
        try:
            self._order()
            tasks = [lambda p=position: self._task(p) for position in range(len(self._parts))]
            done = 0
            for position, message in work.distribute(tasks, self._processes):
                self._take(position, message)
                done += message.done
                killed = len(self._killed())
                self._progress(
                    f"{done} of {len(tasks)} parts, {killed:,} of {len(found.records):,} mutants killed",
                    self._parts[position][0],
                )
        except KeyboardInterrupt:
            found.interrupted = True
        finally:
            found.seconds = time.perf_counter() - started
            self._save(now=True)
        return found

    def _order(self) -> None:
        """Count the states of each scenario; the parts in order, scenarios beyond the limit last."""
        found, sizes = self._found, dict[str, int | None]()
        tasks = [
            lambda s=s: work.Task(s.name, work.SIZE, self._limit, memory_bytes=self._memory)
            for s in self._chosen
        ]
        for number, message in work.distribute(tasks, self._processes):
            name = self._chosen[number].name
            found.processor_seconds += message.seconds
            if message.left_out:
                self._note(name, message)
                continue
            sizes[name] = message.states
            self._progress(f"{len(sizes)} of {len(tasks)} scenarios explored as they are", name)
        smallest = sorted(sizes.items(), key=lambda item: (item[1] is None, item[1] or 0, item[0]))
        found.scenarios = dict(smallest)
        self._parts = [(name, work.SAFETY) for name in found.scenarios]
        if self._liveness:
            live = {s.name for s in self._chosen if Request.of(s, Overrides()).liveness}
            self._parts += [(name, work.LIVENESS) for name in found.scenarios if name in live]

    def _task(self, position: int) -> work.Task:
        name, part = self._parts[position]
        kept = self._kept.get((name, part))
        return work.Task(
            name,
            part,
            self._limit,
            self._only,
            kept.digest if kept else None,
            dict(kept.results) if kept else {},
            self._killed(),
            self._memory,
            self._found.scenarios[name],
        )

    def _killed(self) -> frozenset[Mutant]:
        return frozenset(m for m, r in self._found.records.items() if r.verdict == KILLED)

    def _note(self, name: str, message: work.TaskResult) -> None:
        self._found.notes.append(f"{name}: {message.note}")
        self._found.left_out |= message.left_out

    def _take(self, position: int, message: work.TaskResult) -> None:
        """Take over a message of a task."""
        found, part = self._found, self._parts[position]
        found.processor_seconds += message.seconds
        if message.mutants is not None:
            assert message.actions is not None
            assert message.digest is not None
            self._numbers[position] = message.mutants
            protocol = next(s for s in self._chosen if s.name == part[0]).definition.name
            for number, mutant in message.mutants.items():
                if work.is_wanted(mutant, message.actions[number], self._only):
                    record = found.records.setdefault(mutant, Record(mutant, protocol))
                    record.actions |= message.actions[number]
            kept = self._kept.get(part)
            if kept is None or kept.digest != message.digest:
                self._kept[part] = ScenarioResults(message.digest)
        for number, result in (message.results or {}).items():
            self._kept[part].results[number] = result
            found.records[self._numbers[position][number]].results[position, part[0]] = result
        if message.note:
            self._note(part[0], message)
        self._save(now=message.done)

    def _save(self, now: bool = False) -> None:
        if self._keep is not None and (now or time.monotonic() - self._saved > _KEEP_EVERY):
            findings.write(self._keep, self._kept)
            self._saved = time.monotonic()
