"""The replay of a run of the model as a run to be shown: one that it can have been."""

from __future__ import annotations

from highwater.checker.telling.page.shown import LIMIT_STATES, Shown, ShownRun, said
from highwater.model.language.interpreter import Interpreter
from highwater.traces.reports.report import Report
from highwater.traces.runs.replay import RunHistory, Told


def replayed(report: Report, history: RunHistory) -> ShownRun | None:
    """The run; None where the replay had no line to go through."""
    told = history.told()
    if not told:
        return None
    model = history.model
    kept = told[-LIMIT_STATES:]
    steps = tuple(_shown(i, one, history) for i, one in enumerate(kept))
    interpreter = Interpreter(model)
    violated = [set(interpreter.violated(step.state)) for step in steps]
    name = next((p.name for p in model.properties if any(p.name in v for v in violated)), "")
    found = model.property(name).invariant if name else None
    answer = (
        "explained" if not report.unexplained_count else f"{report.unexplained_count} lines are not explained"
    )
    return ShownRun(
        f"{name} is violated" if name else f"{report.input}: {answer}",
        f"{report.input}: {answer}" if name else report.profile,
        steps,
        name,
        found.source if found else "",
        found.meaning if found else "",
        false_at=tuple(i for i, names in enumerate(violated) if name and name in names),
        left_out=history.left_out + len(told) - len(kept),
    )


def _shown(i: int, told: Told, history: RunHistory) -> Shown:
    base = i - 1 if i else None
    if told.instance is not None:
        note = "" if told.observed else f"Not observed: supposed before line {told.line}."
        return Shown(i + 1, said(told.instance), history.model, told.state, base, told.instance, note)
    sentence = f"line {told.line}: nothing explains it" if told.unexplained else "the first state"
    return Shown(i + 1, sentence, history.model, told.state, base, None, told.unexplained)
