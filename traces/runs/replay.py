"""Compare a trace with its protocol: the states that fit each line, the closest steps, and one possible run."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

from highwater.invariants.catalogue import stated
from highwater.model import registry
from highwater.model.language.errors import LanguageError
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import BoundError, Interpreter, differences
from highwater.model.language.model import Instance, Model
from highwater.model.language.protocol import ChoiceError, parameter_value, rules_on
from highwater.model.language.tracker import (
    NEAREST,
    OF_THE_TYPES,
    Advance,
    Nearest,
    Observation,
    Reached,
    StateTracker,
    Steps,
    TooManyStatesError,
    model_steps,
)
from highwater.model.language.types import Type
from highwater.model.rulebook import RULEBOOK
from highwater.traces.reading import Place, TraceError, printable
from highwater.traces.reports.findings import LIMIT, Candidate, Finding, Unexplained
from highwater.traces.reports.report import Report, nonconforming
from highwater.traces.runs.format import Expected, LineReader, RunTrace, StepLine, read_run

# --- nearest steps ---------------------------------------------------------------------------------------


def nearest_steps(
    interpreter: Interpreter, before: Iterable[Reached[Scalars]], expected: Expected
) -> tuple[Candidate, ...]:
    """The model's steps from these states that are nearest to a line, the nearest first.

    An action occurs at most once with the same parameter values. If the model lacks the line's action
    (``Expected.absent``), the action itself is the only candidate.
    """
    if expected.absent is not None:
        action, parameters = expected.line.action or "", dict(expected.line.parameters)
        return (Candidate(action, parameters, refused_by=(expected.absent,)),)
    nearest: Nearest[Candidate] = Nearest()
    for basis, state in before:
        refused = interpreter.refusals_of(state, expected.numbers)
        for number in sorted(expected.numbers, key=lambda n: len(refused[n])):
            if not nearest.admits(len(refused[number])):
                break
            nearest.add((number,), *_candidate(interpreter, state, basis, number, refused[number], expected))
    return tuple(nearest.ranked())


def nearest_initial(model: Model, expected: Expected) -> tuple[Candidate, ...]:
    """The initial states that are nearest to line 0, as candidates."""
    found = [_differences(model, (), state, expected) for state in model.initial]
    found.sort(key=len)
    return tuple(Candidate("initial", {}, differences=d) for d in found[:NEAREST])


def _candidate(
    interpreter: Interpreter,
    state: Scalars,
    basis: Scalars,
    number: int,
    refused: list[str],
    expected: Expected,
) -> tuple[int, Candidate]:
    """The distance of a step from a line, and the step as a candidate."""
    instance = interpreter.model.instances[number]
    reasons, different = list(dict.fromkeys(refused)), {}
    try:
        step = interpreter.step(state, number)
        after, bound = step.state, f"bound {step.cut}"
    except BoundError:
        after, bound = None, "the step would leave the types of the state"
    if after is None:
        reasons.append(bound)
        distance = len(reasons) + len(expected.seen.between)
    else:
        different = _differences(interpreter.model, basis, after, expected)
        distance = len(reasons) + len(different)
    passed = tuple(dict.fromkeys(g.name for g in instance.guards if g.name not in refused))
    parameters = dict(instance.parameters)
    return distance, Candidate(instance.action.name, parameters, tuple(reasons), passed, different)


def _differences(
    model: Model, basis: Scalars, state: Scalars, expected: Expected
) -> dict[str, tuple[Any, Any]]:
    """The differences of a state from a line, by path: the model's value and the recorded one."""
    return differences(model.decode(state), model.decode(expected.recorded(basis, state)))


# --- history ---------------------------------------------------------------------------------------------

KEPT_STATES = 100_000
"""The most states in a history. Beyond it, the oldest lines are dropped."""


@dataclass(frozen=True)
class Taken:
    """A replayed line, and the states that fit the line (``after``).

    ``paths`` has, for each of these states, ``Advance.path``; at step 0 these paths have no steps. ``unexplained`` is
    empty if a step explains the line; otherwise it is the reason why none does. In that case ``after`` has only the
    recorded state, or nothing if the line does not give the whole state.
    """

    line: int
    after: Sequence[Scalars]
    paths: Mapping[Scalars, tuple[Scalars, list[int]]] = field(default_factory=dict)
    unexplained: str = ""


@dataclass(frozen=True)
class RunState:
    """A state of a reconstructed run, and the action instance that leads to the state.

    ``instance`` is None for the first state, or if no step explains the state. ``observed`` is False for the state
    after a hidden step.
    """

    line: int
    instance: Instance | None
    state: Scalars
    observed: bool = True
    unexplained: str = ""


class RunHistory:
    """The lines of a replay, from which ``run`` reconstructs one run at the end."""

    def __init__(self) -> None:
        self.interpreter: Interpreter | None = None
        self.lines: deque[Taken] = deque()
        self.left_out = 0
        self._states = 0

    @property
    def model(self) -> Model:
        """The model that the trace was compared with."""
        assert self.interpreter is not None
        return self.interpreter.model

    def add(self, taken: Taken) -> None:
        """Add a line, and drop the oldest lines while there are more than KEPT_STATES states."""
        self.lines.append(taken)
        self._states += len(taken.after)
        while self._states > KEPT_STATES and len(self.lines) > 1:
            self._states -= len(self.lines.popleft().after)
            self.left_out += 1

    def run(self) -> list[RunState]:
        """The states of one run that explains the stored lines; empty if there are none.

        A line that no step explains begins the run anew.
        """
        if not self.lines:
            return []
        found: list[RunState] = []
        last = self.lines[-1]
        state = last.after[0] if last.after else None
        for i in range(len(self.lines) - 1, 0, -1):
            taken, before = self.lines[i], self.lines[i - 1].after
            if taken.unexplained:
                assert before or state is not None
                found.append(RunState(taken.line, None, state or before[0], True, taken.unexplained))
                state = before[0] if before else state
                continue
            assert state is not None
            state, numbers = taken.paths[state]
            found += reversed(list(self._forward(taken.line, state, numbers)))
        assert state is not None
        found.append(RunState(self.lines[0].line, None, state, True, self.lines[0].unexplained))
        return found[::-1]

    def _forward(self, line: int, state: Scalars, numbers: Sequence[int]) -> Iterator[RunState]:
        assert self.interpreter is not None
        for i, number in enumerate(numbers, 1):
            after = self.interpreter.step(state, number).state
            assert after is not None
            state = after
            yield RunState(line, self.model.instances[number], state, observed=i == len(numbers))


# --- protocols -------------------------------------------------------------------------------------------

MAX_CHOICES = 4000
"""The most pairs (action, parameter values) that a trace's model may have."""


def model_for(
    trace: RunTrace, rules: Mapping[str, bool] | None = None, profile: str | None = None
) -> tuple[str | None, Interpreter]:
    """The profile's name and the model's interpreter for a trace.

    ``profile`` replaces the trace's profile. The trace's rules override the profile, and ``rules`` override both.
    Raises TraceError if the trace names something that does not exist, or its parameters give no model. Raises
    ChoiceError if an argument names something that does not exist.
    """
    meta, place = trace.meta, trace.place
    with _blaming(place.at("protocol")):
        protocol = registry.protocol_of(meta.protocol)
    with _blaming(place.at("profile")):
        rules_on(protocol, meta.profile)
    with _blaming(place.at("rules")):
        rules_on(protocol, None, meta.rules)
    place = place.at("parameters")
    for key, value in meta.parameters.items():
        with _blaming(place.at(key) if key in protocol.parameters else place):
            parameter_value(protocol, key, value)
    name = meta.profile if profile is None else profile
    on = rules_on(protocol, name, meta.rules, rules or {})
    try:
        return name, _model(meta.protocol, tuple(sorted(meta.parameters.items())), on)
    except LanguageError as wrong:
        raise place.wrong(f"no model for these parameters: {printable(wrong)}") from None


@contextmanager
def _blaming(place: Place) -> Iterator[None]:
    """Context manager that turns a ChoiceError into a TraceError at a place of the trace."""
    try:
        yield
    except ChoiceError as wrong:
        raise place.wrong(str(wrong)) from None


@lru_cache(maxsize=8)
def _model(name: str, parameters: tuple[tuple[str, int], ...], rules: frozenset[str]) -> Interpreter:
    """The interpreter of a protocol and its invariants, cached.

    Raises LanguageError if the protocol is too large or invalid.
    """
    protocol = registry.protocol_of(name)(dict(parameters), rules)
    choices = 0
    for action in protocol.actions():
        count = 1
        for attribute in action.domains.values():
            domain = getattr(protocol, attribute)
            count *= sum(1 for _ in (domain.constants() if isinstance(domain, Type) else domain))
        choices += count
    if choices > MAX_CHOICES:
        raise LanguageError(f"{choices} actions, where {MAX_CHOICES} are the most; fewer brokers are needed")
    known = stated(name)
    traced = Model(protocol, known.invariants, step_properties=known.step_properties)
    _ = traced.start  # reports errors of the initial states now
    return Interpreter(traced)


# --- replay ----------------------------------------------------------------------------------------------

KIND = "run of the model"
ALL_RULES = "all rules"
"""The profile in the report of a trace that names no profile."""
LIMIT_STATES = 10_000
"""The most states of the model that are tracked at a time."""
SHOWN_STATES = 3
"""The most states before an unexplained line that are reported."""
COMPARED = 50
"""The most states before an unexplained line from which candidates are computed."""
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
    """Compare a trace in the format ``highwater-trace-1`` with the protocol that its first line names.

    ``rules`` and ``profile`` override the first line. The replay records its lines in ``history``, if given. After
    KeyboardInterrupt the report has the results so far (``Report.interrupted``). Raises TraceError if the file is not a
    trace in this format. Raises TraceError also if more than ``limit`` states fit a line, so that the result is
    inconclusive. Raises LanguageError if an argument names a rule or a profile that does not exist.
    """
    file = Path(path)
    if file.exists() and not file.is_file():
        raise TraceError(file, None, None, "not a file")
    trace = read_run(file)
    name, interpreter = model_for(trace, rules, profile)
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
    """Compare an open trace with any model, and add the results to a report. Raises TraceError like ``replay_run``.

    Use this for your own protocol: ``hold(read_run(path), Interpreter(model), report)``.
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
    """One replay: the states that fit the lines so far, and the results.

    ``ended`` is True after a line from which the replay cannot continue.
    """

    def __init__(
        self,
        trace: RunTrace,
        interpreter: Interpreter,
        report: Report,
        limit: int,
        history: RunHistory | None,
    ) -> None:
        self.history = history
        if history is not None:
            history.interpreter = interpreter
        self.meta, self.model, self.report = trace.meta, interpreter.model, report
        self.reader = LineReader(interpreter.model, trace)
        self.interpreter = interpreter
        self.pruned: set[str] = set()
        """The bounds at which steps to the line were pruned."""
        hidden = self._steps(tuple(range(len(self.model.instances))))
        pairs = bool(self.model.step_properties)
        self.tracker = StateTracker(hidden, trace.meta.hidden_steps, limit, records_pairs=pairs)
        self.states: list[Scalars] = list(interpreter.model.initial)
        self.begun = self.ended = False
        self.violated: dict[str, bool] = {}
        """The properties violated after the previous line; True if all states that fit violate the property."""

    def take(self, line: StepLine) -> None:
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
                self._keep(line, self.states)
            advance = self._advance(expected)
        self.begun = True
        if advance.states:
            self.states = list(advance.states)
            self._look_at_step(advance, line)
            self._keep(line, self.states, advance)
        else:
            self._unexplained(expected, advance)
            stored = self.report.unexplained_count <= LIMIT
            reason = nonconforming(self.report.unexplained[-1]) if stored else "nothing explains it"
            self._keep(line, [] if self.ended else self.states, unexplained=reason)
        if not self.ended:
            figures = self.report.figures
            figures["most_states"] = max(figures.get("most_states", 0), len(self.states))
            self._look(self.states, line, line.step)

    def _keep(
        self,
        line: StepLine,
        after: list[Scalars],
        advance: Advance[Scalars] | None = None,
        unexplained: str = "",
    ) -> None:
        if self.history is not None:
            paths = {} if advance is None else {state: advance.path(state) for state in after}
            self.history.add(Taken(line.place.line, after, paths, unexplained))

    def _steps(self, numbers: tuple[int, ...]) -> Steps[Scalars]:
        return partial(model_steps, self.interpreter, numbers, self.pruned)

    def _advance(self, expected: Expected) -> Advance[Scalars]:
        """The states that fit a line after line 0. Raises TraceError if there are too many."""
        self.pruned.clear()
        observation = Observation(self._steps(expected.numbers), expected.fits, expected.basis)
        try:
            return self.tracker.advance(self.states, observation)
        except TooManyStatesError as wrong:
            raise expected.line.place.wrong(
                f"inconclusive: {wrong} so far; "
                "observe more of the state, name the actions, or suppose fewer hidden steps"
            ) from None

    def _start(self, expected: Expected) -> Advance[Scalars]:
        """The states that fit line 0."""
        if self.meta.start == "initial":
            return Advance(dict.fromkeys(state for state in self.states if expected.seen.fits(state)))
        if expected.whole is None:
            raise expected.line.place.at("state").wrong("the start is given: the whole state is needed")
        return Advance({expected.whole: None})

    def _unexplained(self, expected: Expected, advance: Advance[Scalars]) -> None:
        """Report a line that no step explains. If the line determines the whole state, continue from it, else end."""
        line, known = expected.line, expected.whole
        if known is None and expected.all_changes and len(self.states) == 1:
            state = self.states[0]
            known = expected.recorded(expected.basis(state), state)
        if line.step == 0:
            candidates = nearest_initial(self.model, expected)
        else:
            candidates = nearest_steps(self.interpreter, islice(advance.before, COMPARED), expected)
        before = {
            "states_that_fit": len(self.states),
            "states": [self.model.decode(state) for state in self.states[:SHOWN_STATES]],
        }
        position = {"line": line.place.line, "step": line.step}
        self.report.add(Unexplained(position, line.time, None, before, candidates))
        notes = self.report.notes
        if self.report.unexplained_count <= LIMIT:
            notes += [f"line {line.place.line}: {_pruned(bound)}" for bound in sorted(self.pruned)]
        if known is None:
            self.ended = True
            notes.append(
                f"line {line.place.line}: does not conform, and does not give the whole state: "
                "the lines after it are not replayed"
            )
        else:
            self.states = [known]

    def _look(self, states: Iterable[Scalars], line: StepLine, step: int) -> None:
        """Report the properties whose violation begins, or becomes certain, with a line."""
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

    def _look_at_step(self, advance: Advance[Scalars], line: StepLine) -> None:
        """Report the step properties that the line's own step violates. Unobserved steps are not checked."""
        counts: dict[str, int] = {}
        for before, after in advance.pairs:
            for name in self.interpreter.broken(before, after):
                counts[name] = counts.get(name, 0) + 1
        for name, count in counts.items():
            self.report.find(self._finding(name, count, len(advance.pairs), line, line.step, "by", "step"))

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
            time=line.time,
            summary=f"violated {word} {fitting}: {stated.meaning}",
            kip=RULEBOOK.origin(stated.source) if self.model.protocol.rulebook is RULEBOOK else "",
            certain=count == total,
        )


def _pruned(bound: str) -> str:
    """A note about steps that were pruned at a bound."""
    if bound == OF_THE_TYPES:
        return "skipped a step that leaves the state's types: no run reaches the state that it starts from"
    return f"steps were pruned at bound {bound}; a larger bound may explain the line"
