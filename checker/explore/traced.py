"""A written run as the beginning of an exploration: the scenario that it belongs to, and its path."""

from __future__ import annotations

from pathlib import Path as File

from highwater.checker.asking.request import Request
from highwater.checker.asking.subject import asked
from highwater.checker.base.problems import InputError
from highwater.checker.explore.session import LONGEST, Path, Session
from highwater.model import registry
from highwater.model.language.choices import ChoiceError
from highwater.traces.reading.errors import TraceError
from highwater.traces.runs.format import StepLine, read_run


def read_trace(file: File) -> tuple[Request, list[StepLine]]:
    """What a trace asks for, and its lines. InputError where it cannot be read, or is none that names every step."""
    try:
        trace = read_run(file)
        meta = trace.meta
        lines = []
        for line in trace.lines:
            if line.step and line.action is None:
                raise line.place.wrong("the step has no action: what was not seen cannot be gone through")
            lines.append(line)
            if len(lines) > LONGEST:
                raise line.place.wrong(f"a run that is explored has {LONGEST:,} steps at most")
    except TraceError as wrong:
        raise InputError(str(wrong)) from None
    if meta.start != "initial" or meta.hidden_steps:
        raise InputError(
            f"{file}: only a run from an initial state on, without hidden steps, can be explored"
        )
    try:
        registry.protocol_of(meta.protocol)  # by its name only: a path would be a program to execute
    except ChoiceError as wrong:
        raise InputError(str(meta.place.at("protocol").wrong(str(wrong)))) from None
    request = asked(meta.protocol, parameters=meta.parameters, rules=meta.rules, profile=meta.profile)
    return request, lines


def path_of(session: Session, lines: list[StepLine]) -> Path:
    """The path of these lines. InputError, with the line, where one is no step of the model."""
    path = Path(_initial(session, lines))
    state = session.states(path)[-1]
    for line in lines:
        if line.action is None:
            continue
        try:
            number = session.number(line.action, line.parameters)
            state = session.after(state, number)
        except InputError as wrong:
            raise InputError(str(line.place.wrong(str(wrong)))) from None
        path = path.then(number)
    return path


def _initial(session: Session, lines: list[StepLine]) -> int:
    """The number of the initial state that line 0 has; 0 where there is no such line."""
    first = next((line for line in lines if line.step == 0 and line.has_state), None)
    if first is None:
        return 0
    for number, state in enumerate(session.model.initial):
        if session.model.decode(state) == first.state:
            return number
    raise InputError(str(first.place.wrong("this is no initial state of the model")))
