"""The output of `check` and `simulate`: counterexamples, the verdict table, the notes under it, and the last line.

No line is longer than the width and no name is broken. Where the violated properties do not fit, the table has their
number; ``--verbose`` and the JSON have their names.
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
from highwater.traces.reports.text import count, fold

WIDTH = 100
"""Columns, where there is no terminal that has fewer."""
LISTED = 12
"""Up to so many scenarios are listed one by one; more are summed up by protocol."""
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
STOPPED = {
    "states": "stopped at --limit-states",
    "seconds": "stopped at --limit-seconds",
    "memory": "stopped: the memory it may use is full",
    "disk": "stopped: cannot write to disk",
    "interrupted": "interrupted",
    "violation": "stopped early: every property is decided",
}
"""The reasons that end a search early, in words."""

Echo = Callable[[str], None]


# --- counterexamples ----------------------------------------------------------------------------------


def runs(model: Model, outcome: ScenarioOutcome, echo: Echo, *, full: bool) -> None:
    """Print the counterexamples of one scenario, with the whole state after each step where ``full``."""
    for line in told(model, outcome, full=full, width=text.width()):
        echo(line)


def told(
    model: Model, outcome: ScenarioOutcome, *, full: bool = False, width: int | None = None
) -> Iterator[str]:
    """The counterexamples of one scenario; a run that violates several properties is shown once."""
    names: dict[tuple[object, ...], str] = {}
    for example in (*outcome.examples, *outcome.shown_goals):
        # A run of a refinement also shows the abstract protocol's state, so it is never shared.
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


# --- the table ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Line:
    """A scenario in the table."""

    group: str
    name: str
    outcome: ScenarioOutcome

    @property
    def verdict(self) -> str:
        """In a word or two, without the properties."""
        word, as_expected = self.outcome.verdict, self.outcome.as_expected
        if as_expected is False:
            return f"{word} (not expected)"
        return f"{word} (expected)" if as_expected and word == "violated" else word

    @property
    def alarming(self) -> bool:
        """Whether a reader must look at it."""
        return bool(self.outcome.broken) or self.outcome.verdict == "inconclusive"

    def fitted(self, room: int) -> str:
        """The verdict with its properties and goals, or with their number, in so many columns."""
        outcome = self.outcome
        about = {"violated": outcome.examples, REACHED: outcome.goal_runs}.get(outcome.verdict, ())
        where = ", ".join(f"{run.called} at depth {run.depth}" for run in about)
        names = list(outcome.unreached) if outcome.verdict == NOT_REACHED else [run.name for run in about]
        one, several = ("property", "properties") if outcome.verdict == "violated" else ("goal", "goals")
        many = count(len(names), one, several) if names else ""
        goals = len(outcome.goal_runs) if outcome.verdict in ("violated", "holds") else 0
        too = f"; {count(goals, 'goal')} reached" if goals else ""
        texts = [f"{self.verdict}: {part}" for part in (where, ", ".join(names), many) if part]
        for line in (*(f"{line}{too}" for line in texts), *texts, f"{self.verdict}{too}"):
            if len(line) <= room:
                return line
        return self.verdict

    def numbers(self) -> tuple[str, ...]:
        """States, depth and seconds."""
        result = self.outcome.result
        return f"{self.outcome.states:,}", str(result.depth), f"{result.seconds:.2f}"


_TABLE_HEADS = ("states", "depth", "seconds")


def table(outcomes: Sequence[ScenarioOutcome], width: int = WIDTH) -> Iterator[str]:
    """A line for each scenario, with colours."""
    shown = list(_table_lines(outcomes))
    indent = "  " if any(line.group for line in shown) else ""
    first = max(len("scenario"), *(len(line.name) + len(indent) for line in shown))
    cells = [line.numbers() for line in shown]
    widths = [max(map(len, column)) for column in zip(_TABLE_HEADS, *cells, strict=True)]
    least = max(len(line.verdict) for line in shown)
    while widths and width - _taken(first, widths) < least:
        widths.pop()  # numbers give way to words
    room = max(least, width - _taken(first, widths))
    verdicts = [line.fitted(room) for line in shown]
    room = max(len("verdict"), *map(len, verdicts))
    heads = _numbers(_TABLE_HEADS, widths)
    if not indent:
        yield click.style(f"{'scenario':{first}}{' ' * _GAP}{'verdict':{room}}{heads}".rstrip(), dim=True)
    rows = iter(zip(shown, cells, verdicts, strict=True))
    for group, lines in groupby(rows, key=lambda row: row[0].group):
        if indent:
            yield click.style(f"{group:{first + _GAP + room}}{heads}".rstrip(), bold=True)
            heads = ""  # only once
        for line, numbers, verdict in lines:
            expected = line.outcome.as_expected and line.outcome.verdict == "violated"
            colour = "green" if expected else _COLOURS[line.outcome.verdict]
            mark = f"! {line.name}" if line.alarming and indent else indent + line.name
            cell = click.style(f"{verdict:{room}}", fg=colour, bold=line.alarming)
            yield f"{mark:{first}}{' ' * _GAP}{cell}{_numbers(numbers, widths)}".rstrip()


def by_protocol(outcomes: Sequence[ScenarioOutcome]) -> Iterator[str]:
    """A line for each protocol: its scenarios, their states and seconds, and how many are as expected."""
    heads = ("protocol", "scenarios", "states", "seconds", "verdict")
    rows: list[tuple[str, ...]] = []
    colours = []
    groups: dict[str, list[ScenarioOutcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.request.scenario.definition.name, []).append(outcome)
    for name, own in groups.items():
        seconds = sum(o.result.seconds + o.result.preparation_seconds for o in own)
        rows.append((name, f"{len(own):,}", f"{sum(o.states for o in own):,}", f"{seconds:.1f}", _kinds(own)))
        colours.append(_colour(own))
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]

    def line(cells: Sequence[str], style: Callable[[str], str]) -> str:
        numbers = "".join(f"{cell:>{w + _GAP}}" for cell, w in zip(cells[1:-1], widths[1:-1], strict=True))
        return f"{cells[0]:{widths[0]}}{numbers}{' ' * _GAP}{style(cells[-1])}"

    yield click.style(line(heads, str), dim=True)
    for row, colour in zip(rows, colours, strict=True):
        yield line(row, lambda cell, fg=colour: click.style(cell, fg=fg))  # type: ignore[misc]


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
    """The last line: how many scenarios are as expected, states, and seconds; with its colour."""
    number, states = len(outcomes), sum(o.states for o in outcomes)
    searching = sum(o.result.seconds for o in outcomes)
    rate = f" ({states / searching:,.0f}/s)" if number == 1 and searching > 0 else ""
    shown = f"{states / 1e6:,.1f} million" if states >= 1_000_000 else f"{states:,}"
    uniform = len({_kind(o) for o in outcomes}) == 1
    said = f"{count(number, 'scenario')}{' ' if uniform else ': '}{_kinds(outcomes)}"
    return click.style(f"{said}: {shown} states{rate}, {seconds:.1f} s", fg=_colour(outcomes))


def _kinds(outcomes: Sequence[ScenarioOutcome]) -> str:
    """How many are as expected, or of what other kind; without numbers where all are of one kind."""
    kinds = Counter(map(_kind, outcomes))
    return next(iter(kinds)) if len(kinds) == 1 else ", ".join(f"{n} {k}" for k, n in kinds.most_common())


def _kind(outcome: ScenarioOutcome) -> str:
    if outcome.as_expected is None:
        overridden = " (parameters overridden: expectations not checked)"
        return f"{outcome.verdict}{'' if outcome.request.as_written else overridden}"
    return "as expected" if outcome.as_expected else "not as expected"


def _colour(outcomes: Sequence[ScenarioOutcome]) -> str:
    if any(o.broken for o in outcomes):
        return "red"
    return "yellow" if any(o.verdict == "inconclusive" for o in outcomes) else "green"


# --- notes and warnings -------------------------------------------------------------------------------


def finish(
    outcomes: Sequence[ScenarioOutcome],
    output: JsonOutput,
    *,
    quiet: bool,
    verbose: bool = False,
    seconds: float,
) -> None:
    """Print the verdict table, notes, warnings and the last line, and write the JSON.

    ``seconds`` is the wall-clock time of the whole command.
    """
    if not output.to_stdout:
        for line in _lines(outcomes, seconds, text.width(), notes_too=not quiet, verbose=verbose):
            output.say(line)
    warn(outcomes)
    output.write([outcome.as_json() for outcome in outcomes])


def lines(outcomes: Sequence[ScenarioOutcome]) -> Iterator[str]:
    """The table, notes and warnings in plain text."""
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
    """The table, violated expectations, the notes, and the last line, with colours."""
    yield ""
    listed = outcomes
    if len(outcomes) > LISTED and not verbose:
        yield from by_protocol(outcomes)
        listed = [o for o in outcomes if o.broken or o.verdict == "inconclusive"]
        if listed:
            yield ""
    if listed:
        yield from table(listed, min(width or WIDTH, WIDTH))
    yield ""
    for outcome in outcomes:
        for line in outcome.broken:
            folded = fold(f"{outcome.request.scenario.name}: {line}", "! ", width, "  ")
            yield from (click.style(part, fg="red") for part in folded)
    if notes_too and (verbose or len(outcomes) == 1):
        for outcome in outcomes:
            if len(outcomes) > 1:
                yield click.style(outcome.request.scenario.name, bold=True)
            for note in notes(outcome):
                yield from fold(note, "  ", width, "    ")
    elif notes_too:
        for note in attention(outcomes):
            yield from fold(note, "", width, "  ")
    yield total_line(outcomes, seconds)


def attention(outcomes: Sequence[ScenarioOutcome]) -> Iterator[str]:
    """The notes of several scenarios: what they check, and how many check less than it seems."""
    yield total([outcome.checked for outcome in outcomes])
    counted = {
        "check a property vacuously (its premise never holds)": sum(any(_vacuous(o)) for o in outcomes),
        "have an action that is never enabled": sum(any(never_enabled(o)) for o in outcomes),
        "prune steps at a bound": sum(any(o.result.cut.values()) for o in outcomes),
    }
    some = [f"{number} {what}" for what, number in counted.items() if number]
    if some:
        yield f"of {len(outcomes)} scenarios {', '.join(some)} (--verbose lists them)"


def notes(outcome: ScenarioOutcome) -> Iterator[str]:
    """The notes under a result: facts that its row does not show."""
    result, request = outcome.result, outcome.request
    yield outcome.checked.sentence
    if outcome.walks is not None:
        yield f"{outcome.walks:,} random walks, seed {getattr(result, 'seed', 0)}: no proof"
    if result.stopped_by:
        short = "not all states were explored" if outcome.walks is None else "not all walks were made"
        rest = "" if result.stopped_by == "violation" else f": {short}"
        trouble = f" ({result.trouble})" if result.trouble and result.stopped_by == "disk" else ""
        why = STOPPED.get(result.stopped_by, f"stopped by {result.stopped_by}")
        why = "stopped early: every goal is reached" if outcome.verdict == REACHED else why
        yield f"{why}{trouble}{rest}"
    if result.trouble and result.stopped_by != "disk":
        yield f"cannot write the last checkpoint ({result.trouble})"
    if result.unspilled:
        yield f"levels stayed in memory: cannot write them to disk ({result.unspilled})"
    expected = [
        key for key in ("distinct_states", "depth") if getattr(request.scenario.promise, key) is not None
    ]
    if expected and request.as_written and not request.counts_expected:
        counted = f"{'with' if request.scenario.symmetry else 'without'} symmetry"
        how = "inside the bounds" if request.outside else counted
        yield f"not compared: {' and '.join(expected)}, expected of a search {how}"
    if request.outside and request.scenario.promise.reachable:
        yield "goals are not checked outside the bounds"
    if outcome.outside_states is not None:
        yield f"{outcome.outside_states:,} of these states are outside the bounds: checked, not expanded"
    so_far = " before the search stopped" if result.stopped_by else ""
    if never := never_enabled(outcome):
        yield f"never enabled{so_far}: {', '.join(never)}"
    if out := outcome.ruled_out:
        names = ", ".join(out) if len(out) <= 3 else f"{len(out)} actions, listed in the JSON"
        yield f"impossible with these parameters: {names}"
    if outcome.goal_runs:
        yield f"reached: {', '.join(f'{e.called} at depth {e.depth}' for e in outcome.goal_runs)}"
    if outcome.unreached:
        so_far = "" if result.complete else " before the search stopped"
        yield f"not reached{so_far}: {', '.join(outcome.unreached)}"
    if pruned := [f"{count(n, 'step')} at {bound}" for bound, n in result.cut.items() if n]:
        yield f"pruned at a bound: {', '.join(pruned)}"
    if vacuous := _vacuous(outcome):
        yield f"vacuous (premise never holds): {', '.join(vacuous)}"
    if result.collision_probability:
        yield f"fingerprint collision probability {result.collision_probability:.1e}"


def never_enabled(outcome: ScenarioOutcome) -> list[str]:
    """The actions that no explored state enables, although the parameters allow them."""
    return [n for n, taken in outcome.result.actions.items() if not taken and n not in outcome.ruled_out]


def _vacuous(outcome: ScenarioOutcome) -> list[str]:
    """The properties whose premise holds in no explored state, or of no step."""
    result = outcome.result
    return [name for name, met in result.premises.items() if not met] if result.generated_states else []


def warn(outcomes: Iterable[ScenarioOutcome]) -> None:
    """Print warnings about vacuous actions and properties on standard error, also with --quiet."""
    for outcome in outcomes:
        for line in warnings(outcome):
            click.echo(line, err=True)


def warnings(outcome: ScenarioOutcome) -> Iterator[str]:
    """Vacuous actions and properties that the scenario does not expect: a line for all with the same reason."""
    alike: dict[tuple[str, str], list[str]] = {}
    for warning in outcome.warnings:
        alike.setdefault((warning.kind, warning.text.removeprefix(warning.name)), []).append(warning.name)
    for (kind, how), names in alike.items():
        key, things = ("constant", "properties") if kind == CONSTANT else ("impossible", "actions")
        what = f"{names[0]}{how}" if len(names) == 1 else f"{len(names)} {things}, each of which{how}"
        expected = ", ".join(f'"{name}"' for name in names)
        scenario = outcome.request.scenario.name
        yield f"highwater: warning: {scenario}: {what} (if this is intended, add [expect] {key} = [{expected}])"


def verdict(outcome: ScenarioOutcome) -> str:
    """The verdict, with the properties that are violated."""
    shown = outcome.examples or (outcome.goal_runs if outcome.verdict == REACHED else ())
    where = ", ".join(f"{e.called} at depth {e.depth}" for e in shown)
    return f"{outcome.verdict}: {where}" if where else outcome.verdict
