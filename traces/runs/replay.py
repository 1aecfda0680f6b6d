"""A trace held against the protocol: whether there is a run of the model that looks like it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path

from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Scalars
from highwater.model.rulebook import RULEBOOK
from highwater.traces.reading.errors import TraceError
from highwater.traces.reports.findings import LIMIT, Finding, Unexplained
from highwater.traces.reports.report import Report
from highwater.traces.runs.carrying import OF_THE_TYPES, Advance, Carrier
from highwater.traces.runs.format import RunTrace, StepLine, read_run
from highwater.traces.runs.history import RunHistory, Taken
from highwater.traces.runs.nearest import Nearest
from highwater.traces.runs.protocols import model_for
from highwater.traces.runs.steps import Expected, Reader

KIND = "run of the model"
ALL_RULES = "all rules"
"""What a report calls the profile of a trace that names none."""
LIMIT_STATES = 10_000
"""So many states of the model are carried at a time."""
TOLD = 3
"""So many of the states before an unexplained line are told."""
COMPARED = 50
"""From so many of them candidates are looked for."""
PROGRESS_EVERY = 100
NOT_LOOKED_AT = "lines after one that nothing explains"

ProgressCallback = Callable[[Report], None]


def replay_run(
    path: str | PathLike[str],
    rules: Mapping[str, bool] | None = None,
    profile: str | None = None,
    progress: ProgressCallback | None = None,
    *,
    limit: int = LIMIT_STATES,
    history: RunHistory | None = None,
) -> Report:
    """Hold a trace in the format ``highwater-trace-1`` against the protocol that its first line names.

    ``rules`` and ``profile`` go over what the first line says. A ``history`` is given what the replay goes through.
    KeyboardInterrupt ends the replay with what was found so far (``Report.interrupted``). Raises TraceError where the
    file is no such trace, or where more than ``limit`` states fit it at some line, so that nothing can be said;
    LanguageError where an argument names a rule or a profile that does not exist.
    """
    file = Path(path)
    if file.exists() and not file.is_file():
        raise TraceError(file, None, None, "not a file")
    trace = read_run(file)
    name, interpreter = model_for(trace.meta, rules, profile)
    report = Report(str(path), KIND, name or ALL_RULES, tuple(sorted(interpreter.model.protocol.rules_on)))
    hold(trace, interpreter, report, progress, limit=limit, history=history)
    return report


def hold(
    trace: RunTrace,
    interpreter: Interpreter,
    report: Report,
    progress: ProgressCallback | None = None,
    *,
    limit: int = LIMIT_STATES,
    history: RunHistory | None = None,
) -> None:
    """Hold an open trace against any model, and add to a report what is found. Raises TraceError as above.

    This is for a protocol of one's own: ``hold(read_run(path), Interpreter(model), report)``.
    """
    started = time.perf_counter()
    run = _Run(trace, interpreter, report, limit, history)
    try:
        for line in trace.lines:
            run.take(line)
            report.operations += 1
            if progress and report.operations % PROGRESS_EVERY == 0:
                progress(report)
    except KeyboardInterrupt:
        report.interrupted = True
    finally:
        report.seconds += time.perf_counter() - started


class _Run:
    """The states that fit so far, and what was found about them. None are carried once the replay has ended."""

    def __init__(
        self,
        trace: RunTrace,
        interpreter: Interpreter,
        report: Report,
        limit: int,
        history: RunHistory | None,
    ) -> None:
        self.history = history or RunHistory()
        self.history.interpreter, self.history.hidden_steps = interpreter, trace.meta.hidden_steps
        self.keeps = history is not None
        self.meta, self.model, self.report = trace.meta, interpreter.model, report
        self.reader = Reader(interpreter.model, trace.meta)
        self.carrier = Carrier(interpreter, trace.meta.hidden_steps, limit)
        self.interpreter = interpreter
        self.nearest = Nearest(interpreter)
        self.states: list[Scalars] = list(interpreter.model.initial)
        self.begun = self.ended = False
        self.violated: dict[str, bool] = {}
        """The properties violated at the line before, and whether in all states that fit."""

    def take(self, line: StepLine) -> None:
        """One line of the trace."""
        expected = self.reader.read(line)
        if self.ended:
            self.report.skipped[NOT_LOOKED_AT] = self.report.skipped.get(NOT_LOOKED_AT, 0) + 1
            return
        if line.step == 0:
            advance = self._start(expected)
        elif not self.begun and self.meta.start == "given":
            raise line.place.at("step").wrong(
                "the start is given: the first line is step 0, with the whole state"
            )
        else:
            if not self.begun:
                self._look(self.states, line, step=0)
                self._keep(Taken(line.place.line, None, self.states))
            advance = self.carrier.advance(self.states, expected)
        self.begun = True
        if advance.states:
            self.states = advance.states
            self._look_at_step(advance, line)
            self._keep(Taken(line.place.line, None if line.step == 0 else expected, self.states))
        else:
            self._unexplained(expected, advance)
            said = self.report.unexplained[-1].lines() if self.report.unexplained_count <= LIMIT else []
            after = [] if self.ended else self.states
            self._keep(Taken(line.place.line, expected, after, "\n".join(said) or "nothing explains it"))
        if not self.ended:
            figures = self.report.figures
            figures["most_states"] = max(figures.get("most_states", 0), len(self.states))
            self._look(self.states, line, line.step)

    def _keep(self, taken: Taken) -> None:
        if self.keeps:
            self.history.add(taken)

    def _start(self, expected: Expected) -> Advance:
        """The states that fit line 0."""
        if self.meta.start == "initial":
            return Advance([state for state in self.states if expected.seen.fits(state)])
        if expected.whole is None:
            raise expected.line.place.at("state").wrong("the start is given: the whole state is needed")
        return Advance([expected.whole])

    def _unexplained(self, expected: Expected, advance: Advance) -> None:
        """Report a line that nothing explains, and go on from its state where it is known."""
        line, known = expected.line, expected.whole
        if known is None and expected.all_changes and len(self.states) == 1:
            state = self.states[0]
            known = expected.recorded(expected.basis(state), state)
        if line.step == 0:
            candidates = self.nearest.initial(expected)
        else:
            candidates = self.nearest.candidates(advance.before[:COMPARED], expected)
        before = {
            "states_that_fit": len(self.states),
            "states": [self.model.decode(state) for state in self.states[:TOLD]],
        }
        position = {"line": line.place.line, "step": line.step}
        self.report.add(Unexplained(position, line.time_ms, None, before, candidates))
        notes = self.report.notes
        if self.report.unexplained_count <= LIMIT:
            notes += [f"line {line.place.line}: {_said(bound)}" for bound in sorted(advance.cut)]
        if known is None:
            self.ended = True
            notes.append(
                f"line {line.place.line}: nothing explains it and it does not hold the whole state, "
                "so the lines after it were not looked at"
            )
        else:
            self.states = [known]

    def _look(self, states: Iterable[Scalars], line: StepLine, step: int) -> None:
        """Report the properties that begin to be violated here, or begin to be for certain."""
        counts: dict[str, int] = {}
        total = 0
        for state in states:
            total += 1
            for name in self.interpreter.violated(state):
                counts[name] = counts.get(name, 0) + 1
        for name, count in counts.items():
            certain = count == total
            if name not in self.violated or (certain and not self.violated[name]):
                self.report.find(self._finding(name, count, total, line, step))
        self.violated = {name: count == total for name, count in counts.items()}

    def _look_at_step(self, advance: Advance, line: StepLine) -> None:
        """Report the properties that the line's own step violates. Steps that were not observed are not asked."""
        counts: dict[str, int] = {}
        for before, after in advance.steps:
            for name in self.interpreter.broken(before, after):
                counts[name] = counts.get(name, 0) + 1
        for name, count in counts.items():
            self.report.find(self._finding(name, count, len(advance.steps), line, line.step, "by", "step"))

    def _finding(
        self,
        name: str,
        count: int,
        total: int,
        line: StepLine,
        step: int,
        word: str = "in",
        kind: str = "state",
    ) -> Finding:
        stated = self.model.stated(name)
        fitting = f"the {kind} that fits" if total == 1 else f"{count} of the {total} {kind}s that fit"
        return Finding(
            rule=stated.source,
            property=name,
            partition=None,
            position={"line": line.place.line, "step": step},
            time=line.time_ms,
            summary=f"violated {word} {fitting}: {stated.meaning}",
            kip=RULEBOOK.origin(stated.source) if self.model.protocol.rulebook is RULEBOOK else "",
            certain=count == total,
        )


def _said(bound: str) -> str:
    """What it means that steps were cut."""
    if bound == OF_THE_TYPES:
        return "a step was not taken that leaves the types of the state: no run comes to where it begins"
    return f"steps were cut at the bound {bound}; a larger one may explain it"
