"""The report of a run for people: counterexamples, the verdict table, and what to know about each result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import click

from highwater.checker.asking import checked
from highwater.checker.base import terminal
from highwater.checker.base.output import JsonOutput
from highwater.checker.base.terminal import fold
from highwater.checker.telling import counterexample, verdict_table
from highwater.checker.telling.results import REACHED, ScenarioOutcome
from highwater.checker.telling.vacuity import CONSTANT
from highwater.model.language.model import Model

Echo = Callable[[str], None]

_HEADS = ("scenario", "verdict", "promise", "states", "depth", "seconds", "states/s")

STOPPED = {
    "states": "the limit on states was reached",
    "seconds": "the limit on seconds was reached",
    "memory": "the memory that it may use was full",
    "disk": "the disk does not take what is to be written",
    "interrupted": "it was interrupted",
    "violation": "it stopped when there was no property left to decide",
}
"""What ended a search early, in words."""


def runs(model: Model, outcome: ScenarioOutcome, echo: Echo, *, full: bool) -> None:
    """Say the counterexamples of one scenario, with the whole state after each step where ``full``."""
    for line in told(model, outcome, full=full, width=terminal.width()):
        echo(line)


def finish(
    outcomes: Sequence[ScenarioOutcome],
    output: JsonOutput,
    *,
    quiet: bool,
    verbose: bool = False,
    seconds: float,
) -> None:
    """Give out the results: the verdict table and what to know of it, warnings, and the JSON.

    ``seconds`` is how long all of it took.
    """
    if not output.to_stdout:
        width = terminal.width()
        for line in _lines(outcomes, seconds, width, notes_too=not quiet, verbose=verbose):
            output.say(line)
    warn(outcomes)
    output.write([outcome.as_json() for outcome in outcomes])


def warn(outcomes: Iterable[ScenarioOutcome]) -> None:
    """Say on standard error what does nothing, however quiet the rest is."""
    for outcome in outcomes:
        for line in warnings(outcome):
            click.echo(line, err=True)


def warnings(outcome: ScenarioOutcome) -> Iterator[str]:
    """What does nothing and nobody said of: a line for all of which the same is to be said."""
    alike: dict[tuple[str, str], list[str]] = {}
    for warning in outcome.warnings:
        alike.setdefault((warning.kind, warning.text.removeprefix(warning.name)), []).append(warning.name)
    for (kind, how), names in alike.items():
        key = "constant" if kind == CONSTANT else "impossible"
        things = "properties" if kind == CONSTANT else "actions"
        said = f"{names[0]}{how}" if len(names) == 1 else f"{len(names)} {things}, of which each{how}"
        meant = f"if {'it is' if len(names) == 1 else 'they are'} meant, the scenario says so"
        expected = ", ".join(f'"{name}"' for name in names)
        scenario = outcome.request.scenario.name
        yield f"highwater: warning: {scenario}: {said} ({meant}: [expect] {key} = [{expected}])"


def told(
    model: Model, outcome: ScenarioOutcome, *, full: bool = False, width: int | None = None
) -> Iterator[str]:
    """The counterexamples of one scenario; a run that violates several properties is told once."""
    names: dict[tuple[object, ...], str] = {}
    for example in (*outcome.examples, *outcome.shown_goals):
        # What a step is to an abstract protocol is told of the run by itself.
        key = (
            example.abstract is not None,
            example.loop and example.loop.start,
            *((s.action, repr(s.parameters)) for s in example.steps),
        )
        yield ""
        yield click.style(outcome.request.scenario.name, bold=True)
        if key in names:
            rule = f" ({example.source})" if example.source else ""
            yield f"{example.called}{rule} {example.outcome} by the same run as {names[key]}."
            yield f"  It says: {example.meaning}"
            continue
        names[key] = example.called
        yield from counterexample.tell(model, example, full=full, width=width)


def rows(outcomes: Sequence[ScenarioOutcome]) -> list[tuple[str, ...]]:
    """The cells of the verdict table, heads first."""
    return [_HEADS, *map(_row, outcomes)]


def notes(outcome: ScenarioOutcome) -> Iterator[str]:
    """What a reader must know of a result that its row does not say."""
    result, request = outcome.result, outcome.request
    yield outcome.checked.sentence
    if outcome.walks is not None:
        yield f"{outcome.walks:,} random walks, seed {getattr(result, 'seed', 0)}: nothing is proved"
    if result.stopped_by:
        short = "not all states were seen" if outcome.walks is None else "not all walks were made"
        seen = "" if result.stopped_by == "violation" else f": {short}"
        trouble = f" ({result.trouble})" if result.trouble and result.stopped_by == "disk" else ""
        why = STOPPED.get(result.stopped_by or "", f"stopped by {result.stopped_by}")
        why = "it stopped when every goal was reached" if outcome.verdict == REACHED else why
        yield f"{why}{trouble}{seen}"
    if result.trouble and result.stopped_by != "disk":
        yield f"the last checkpoint could not be made ({result.trouble})"
    if result.unspilled:
        yield f"levels that were to wait on disk stayed in memory ({result.unspilled})"
    promised = [
        key for key in ("distinct_states", "depth") if getattr(request.scenario.promise, key) is not None
    ]
    if promised and request.as_written and not request.counts_promised:
        counted = f"{'with' if request.scenario.symmetry else 'without'} symmetry"
        how = "inside the bounds" if request.outside else counted
        yield f"not compared: {' and '.join(promised)}, promised of a search {how}"
    if request.outside and request.scenario.promise.reachable:
        yield "goals are not searched for outside the bounds"
    if outcome.outside_states is not None:
        yield f"{outcome.outside_states:,} of these states are outside the bounds: checked, not gone on from"
    if never := never_taken(outcome):
        so_far = " before the search stopped" if result.stopped_by else ""
        yield f"never taken{so_far}: {', '.join(never)}"
    if outcome.ruled_out:
        few = len(outcome.ruled_out) <= 3
        names = (
            ", ".join(outcome.ruled_out) if few else f"{len(outcome.ruled_out)} actions, listed in the JSON"
        )
        yield f"cannot be taken with these parameters: {names}"
    cuts = [
        f"{count:,} step{'' if count == 1 else 's'} at {bound}"
        for bound, count in result.cut.items()
        if count
    ]
    yield from _goals(outcome)
    if cuts:
        yield f"cut {', '.join(cuts)}"
    idle = _idle(outcome)
    of_steps = [p.name for p in request.step_properties if p.name in idle]
    if of_states := [name for name in idle if name not in of_steps]:
        yield f"had nothing to say in any state: {', '.join(of_states)}"
    if of_steps:
        yield f"had nothing to say of any step: {', '.join(of_steps)}"
    if result.collision_probability:
        yield f"chance that a collision hid a state {result.collision_probability:.1e}"


def lines(outcomes: Sequence[ScenarioOutcome]) -> Iterator[str]:
    """The table and what stands under it, in plain text."""
    seconds = sum(o.result.seconds + o.result.preparation_seconds for o in outcomes)
    yield from map(click.unstyle, _lines(outcomes, seconds, None, verbose=True))
    for outcome in outcomes:
        yield from warnings(outcome)


def _lines(
    outcomes: Sequence[ScenarioOutcome],
    seconds: float,
    width: int | None,
    *,
    notes_too: bool = True,
    verbose: bool = False,
) -> Iterator[str]:
    """The table, what is not as promised, the notes, and the last line, with colours."""
    yield ""
    yield from verdict_table.table(outcomes, min(width or verdict_table.WIDTH, verdict_table.WIDTH))
    yield ""
    for outcome in outcomes:
        for line in outcome.broken:
            told = fold(f"{outcome.request.scenario.name}: {line}", "! ", width, "  ")
            yield from (click.style(part, fg="red") for part in told)
    if notes_too and (verbose or len(outcomes) == 1):
        for outcome in outcomes:
            if len(outcomes) > 1 and any(True for _ in notes(outcome)):
                yield click.style(outcome.request.scenario.name, bold=True)
            for note in notes(outcome):
                yield from fold(note, "  ", width, "    ")
    elif notes_too:
        for note in attention(outcomes):
            yield from fold(note, "", width)
    yield verdict_table.total(outcomes, seconds)


def attention(outcomes: Sequence[ScenarioOutcome]) -> Iterator[str]:
    """The notes of several scenarios: what they check, and in how many what may be less than it seems."""
    yield checked.total([outcome.checked for outcome in outcomes])
    counted = {
        "a bound cut steps": sum(any(o.result.cut.values()) for o in outcomes),
        "an action was never taken": sum(any(never_taken(o)) for o in outcomes),
        "a property had nothing to say": sum(any(_idle(o)) for o in outcomes),
    }
    said = [f"{what} in {number}" for what, number in counted.items() if number]
    if said:
        yield f"--verbose tells where: {', '.join(said)} of {len(outcomes)} scenarios"


def _goals(outcome: ScenarioOutcome) -> Iterator[str]:
    """Which goals were reached, at which depths, and which were not."""
    if outcome.goal_runs:
        yield f"reached: {_join(f'{e.called} at depth {e.depth}' for e in outcome.goal_runs)}"
    if outcome.unreached:
        so_far = "" if outcome.result.complete else " before the search stopped"
        yield f"not reached{so_far}: {', '.join(outcome.unreached)}"


def never_taken(outcome: ScenarioOutcome) -> list[str]:
    """The actions that were not taken, and could be with these parameters."""
    return [n for n, taken in outcome.result.actions.items() if not taken and n not in outcome.ruled_out]


def _idle(outcome: ScenarioOutcome) -> list[str]:
    """The properties whose premise was met in no state."""
    result = outcome.result
    return [name for name, met in result.premises.items() if not met] if result.generated_states else []


def _row(outcome: ScenarioOutcome) -> tuple[str, ...]:
    result = outcome.result
    states = result.distinct_states if outcome.walks is None else result.generated_states
    rate = f"{states / result.seconds:,.0f}" if result.seconds > 0 else ""
    return (
        outcome.request.scenario.name,
        verdict(outcome),
        _promise(outcome),
        f"{states:,}",
        str(result.depth),
        f"{result.seconds:.2f}",
        rate,
    )


def verdict(outcome: ScenarioOutcome) -> str:
    """The verdict, with the properties that are violated."""
    shown = outcome.examples or (outcome.goal_runs if outcome.verdict == REACHED else ())
    if shown:
        return f"{outcome.verdict}: " + _join(f"{e.called} at depth {e.depth}" for e in shown)
    return outcome.verdict


def _promise(outcome: ScenarioOutcome) -> str:
    if not outcome.request.as_written:
        return "not as written"
    return {True: "as promised", False: "broken", None: "open"}[outcome.promised]


def _join(texts: Iterable[str]) -> str:
    return ", ".join(texts)
