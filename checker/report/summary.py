"""The verdict table: a line for each scenario, under its protocol, and a last line that says the whole.

No line is longer than the width, and no name is broken: where there is no room for the properties that are violated,
it says how many they are. What does not fit is in the JSON, and with ``--verbose`` below.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import click

from highwater.checker.base import text
from highwater.checker.base.files import JsonOutput
from highwater.checker.report import counterexample
from highwater.checker.report.results import NOT_REACHED, REACHED, ScenarioOutcome
from highwater.checker.report.vacuity import CONSTANT
from highwater.checker.scenarios.request import total
from highwater.checker.scenarios.scenario_files import is_path
from highwater.model.language.model import Model
from highwater.traces.reports.text import fold

WIDTH = 100
"""Columns, where there is no terminal that has fewer."""
_GAP = 2
_LONGEST_PATH = 40
"""Columns of a file's path; of a longer one its end is given."""
_COLOURS = {
    "violated": "red",
    NOT_REACHED: "red",
    "holds": "green",
    REACHED: "green",
    "inconclusive": "yellow",
}


@dataclass(frozen=True)
class _Line:
    """A scenario in the table."""

    group: str
    name: str
    outcome: ScenarioOutcome

    @property
    def verdict(self) -> str:
        """In a word or two, without the properties."""
        word, promised = self.outcome.verdict, self.outcome.promised
        if promised is False:
            return f"{word}, not as promised"
        return f"{word}, as promised" if promised and word in ("violated", REACHED) else word

    @property
    def alarming(self) -> bool:
        """Whether a reader must look at it."""
        return bool(self.outcome.broken) or self.outcome.verdict == "inconclusive"

    def told(self, room: int) -> str:
        """The verdict with the properties and goals that it is about, or how many, in so many columns."""
        outcome = self.outcome
        about = {"violated": outcome.examples, REACHED: outcome.goal_runs}.get(outcome.verdict, ())
        where = ", ".join(f"{run.called} at depth {run.depth}" for run in about)
        names = list(outcome.unreached) if outcome.verdict == NOT_REACHED else [run.name for run in about]
        things = "properties" if outcome.verdict == "violated" else "goals"
        many = f"{len(names)} {things}" if len(names) > 1 else ""
        goals = len(outcome.goal_runs) if outcome.verdict in ("violated", "holds") else 0
        too = f"; {goals} goal{'' if goals == 1 else 's'} reached" if goals else ""
        texts = [f"{self.verdict}: {part}" for part in (where, ", ".join(names), many) if part]
        for line in (*(f"{line}{too}" for line in texts), *texts, f"{self.verdict}{too}"):
            if len(line) <= room:
                return line
        return self.verdict

    def numbers(self) -> tuple[str, ...]:
        """States, depth and seconds."""
        result = self.outcome.result
        states = result.distinct_states if self.outcome.walks is None else result.generated_states
        return f"{states:,}", str(result.depth), f"{result.seconds:.2f}"


_TABLE_HEADS = ("states", "depth", "seconds")


def table(outcomes: Sequence[ScenarioOutcome], width: int = WIDTH) -> Iterator[str]:
    """The lines of the table, with colours."""
    shown = list(_table_lines(outcomes))
    indent = "  " if any(line.group for line in shown) else ""
    first = max(len("scenario"), *(len(line.name) + len(indent) for line in shown))
    cells = [line.numbers() for line in shown]
    widths = [max(map(len, column)) for column in zip(_TABLE_HEADS, *cells, strict=True)]
    least = max(len(line.verdict) for line in shown)
    while widths and width - _taken(first, widths) < least:
        widths.pop()  # numbers give way to words
    room = max(least, width - _taken(first, widths))
    verdicts = [line.told(room) for line in shown]
    room = max(len("verdict"), *map(len, verdicts))
    heads = _numbers(_TABLE_HEADS, widths)
    if not indent:
        yield click.style(f"{'scenario':{first}}{' ' * _GAP}{'verdict':{room}}{heads}".rstrip(), dim=True)
    rows = iter(zip(shown, cells, verdicts, strict=True))
    for group, lines in groupby(rows, key=lambda row: row[0].group):
        if indent:
            yield click.style(f"{group:{first + _GAP + room}}{heads}".rstrip(), bold=True)
            heads = ""  # said once
        for line, numbers, verdict in lines:
            expected = line.outcome.promised and line.outcome.verdict == "violated"
            colour = "yellow" if expected else _COLOURS[line.outcome.verdict]
            mark = f"! {line.name}" if line.alarming and indent else indent + line.name
            said = click.style(f"{verdict:{room}}", fg=colour, bold=line.alarming)
            yield f"{mark:{first}}{' ' * _GAP}{said}{_numbers(numbers, widths)}".rstrip()


def _taken(first: int, widths: Sequence[int]) -> int:
    return first + _GAP + sum(w + _GAP for w in widths)


def _numbers(cells: Iterable[str], widths: Sequence[int]) -> str:
    return "".join(f"{cell:>{width + _GAP}}" for cell, width in zip(cells, widths, strict=False))


def _table_lines(outcomes: Sequence[ScenarioOutcome]) -> Iterator[_Line]:
    """Under the protocols that scenarios are named after, where there are several; a file stands for itself."""
    names = [outcome.request.scenario.name for outcome in outcomes]
    grouped = len(names) > 1 and not any(map(is_path, names))
    for name, outcome in zip(names, outcomes, strict=True):
        group, _, own = name.rpartition("/")
        yield _Line(group, own, outcome) if grouped else _Line("", short_name(name), outcome)


def short_name(name: str) -> str:
    """A name, or of a long path the last parts that there is room for, the file's name at least."""
    parts = name.split("/")
    if len(name) <= _LONGEST_PATH or not is_path(name):
        return name
    kept = next(
        (n for n in range(len(parts) - 1, 1, -1) if len("/".join(parts[-n:])) + 2 <= _LONGEST_PATH), 1
    )
    return "/".join(["…", *parts[-kept:]])


def total_line(outcomes: Sequence[ScenarioOutcome], seconds: float) -> str:
    """The last line: what became of the promises, how many states, how long; with its colour."""
    kinds = Counter(_kind(outcome) for outcome in outcomes)
    count = len(outcomes)
    if kinds["as promised"] == count:
        said = f"{_scenarios(count)} as promised"
    elif len(kinds) == 1:
        said = f"{_scenarios(count)} {next(iter(kinds))}"
    else:
        said = f"{_scenarios(count)}: {', '.join(f'{n} {kind}' for kind, n in kinds.most_common())}"
    seen = sum(o.result.distinct_states if o.walks is None else o.result.generated_states for o in outcomes)
    searching = sum(o.result.seconds for o in outcomes)
    rate = f" ({seen / searching:,.0f} a second)" if count == 1 and searching > 0 else ""
    colour = "red" if any(o.broken for o in outcomes) else "green"
    if colour == "green" and kinds["inconclusive"]:
        colour = "yellow"
    return click.style(f"{said}: {_short(seen)} states{rate}, {seconds:.1f} s", fg=colour)


def _kind(outcome: ScenarioOutcome) -> str:
    if outcome.promised is None:
        what = "inconclusive" if outcome.verdict == "inconclusive" else outcome.verdict
        return what if outcome.request.as_written else f"{what} (changed by options: no promise is asked)"
    return "as promised" if outcome.promised else "not as promised"


def _scenarios(count: int) -> str:
    return f"{count:,} scenario{'' if count == 1 else 's'}"


def _short(states: int) -> str:
    return f"{states / 1e6:,.1f} million" if states >= 1_000_000 else f"{states:,}"


# The report of a run for people: counterexamples, the verdict table, and what to know about each result.

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
    for line in told(model, outcome, full=full, width=text.width()):
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
        width = text.width()
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
    yield from table(outcomes, min(width or WIDTH, WIDTH))
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
    yield total_line(outcomes, seconds)


def attention(outcomes: Sequence[ScenarioOutcome]) -> Iterator[str]:
    """The notes of several scenarios: what they check, and in how many what may be less than it seems."""
    yield total([outcome.checked for outcome in outcomes])
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
