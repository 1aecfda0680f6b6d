"""The verdict table: a line for each scenario, under its protocol, and a last line that says the whole.

No line is longer than the width, and no name is broken: where there is no room for the properties that are violated,
it says how many they are. What does not fit is in the JSON, and with ``--verbose`` below.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import click

from highwater.checker.asking.scenarios import is_path
from highwater.checker.telling.results import NOT_REACHED, REACHED, ScenarioOutcome

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
        texts = [f"{self.verdict}: {text}" for text in (where, ", ".join(names), many) if text]
        for text in (*(f"{text}{too}" for text in texts), *texts, f"{self.verdict}{too}"):
            if len(text) <= room:
                return text
        return self.verdict

    def numbers(self) -> tuple[str, ...]:
        """States, depth and seconds."""
        result = self.outcome.result
        states = result.distinct_states if self.outcome.walks is None else result.generated_states
        return f"{states:,}", str(result.depth), f"{result.seconds:.2f}"


_HEADS = ("states", "depth", "seconds")


def table(outcomes: Sequence[ScenarioOutcome], width: int = WIDTH) -> Iterator[str]:
    """The lines of the table, with colours."""
    shown = list(_lines(outcomes))
    indent = "  " if any(line.group for line in shown) else ""
    first = max(len("scenario"), *(len(line.name) + len(indent) for line in shown))
    cells = [line.numbers() for line in shown]
    widths = [max(map(len, column)) for column in zip(_HEADS, *cells, strict=True)]
    least = max(len(line.verdict) for line in shown)
    while widths and width - _taken(first, widths) < least:
        widths.pop()  # numbers give way to words
    room = max(least, width - _taken(first, widths))
    verdicts = [line.told(room) for line in shown]
    room = max(len("verdict"), *map(len, verdicts))
    heads = _numbers(_HEADS, widths)
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


def _lines(outcomes: Sequence[ScenarioOutcome]) -> Iterator[_Line]:
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


def total(outcomes: Sequence[ScenarioOutcome], seconds: float) -> str:
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
