"""The output of `check` and `simulate`: the verdict table, the notes under it, and the last line.

No line is longer than the width, and no name is broken. If the violated properties do not fit, the table has their
number; ``--verbose`` and the JSON have their names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import click

from highwater.checker.base import text
from highwater.checker.base.files import JsonOutput
from highwater.checker.report.results import NOT_REACHED, REACHED, Result
from highwater.checker.scenarios.request import total
from highwater.checker.scenarios.scenario_files import is_path
from highwater.traces.reports.text import count, fold

WIDTH = 100
"""The most columns of a line; a narrower terminal has fewer."""
LISTED = 12
"""The most scenarios that are listed one by one; more are summed up by protocol."""
_GAP = 2
_LONGEST_PATH = 40
"""The most columns of a file's path; a longer path loses its beginning."""
_COLOURS = {
    "violated": "red",
    NOT_REACHED: "red",
    "holds": "green",
    REACHED: "green",
    "inconclusive": "yellow",
}


def _verdict(result: Result) -> str:
    """The verdict without properties; also whether it is as expected, and "unchanged" for a stored result."""
    word, as_expected = result.verdict, result.expected
    same = "" if result.explored_at is None else ", unchanged"
    if as_expected is False:
        return f"{word} (not expected){same}"
    return f"{word} (expected){same}" if as_expected and word == "violated" else word + same


def _alarming(result: Result) -> bool:
    """True if a reader must look at the scenario: an expectation is not met, or the verdict is inconclusive."""
    return bool(result.broken) or result.verdict == "inconclusive"


def _fitted(result: Result, room: int) -> str:
    """The verdict with its properties and goals, in at most ``room`` columns.

    If they do not fit, their number takes their place.
    """
    verdict = _verdict(result)
    about = {"violated": result.examples, REACHED: result.goal_runs}.get(result.verdict, ())
    where = ", ".join(f"{run.called} at depth {run.depth}" for run in about)
    names = list(result.unreached) if result.verdict == NOT_REACHED else [run.name for run in about]
    one, several = ("property", "properties") if result.verdict == "violated" else ("goal", "goals")
    many = count(len(names), one, several) if names else ""
    goals = len(result.goal_runs) if result.verdict in ("violated", "holds") else 0
    too = f"; {count(goals, 'goal')} reached" if goals else ""
    texts = [f"{verdict}: {part}" for part in (where, ", ".join(names), many) if part]
    lines = [*(f"{line}{too}" for line in texts), *texts, f"{verdict}{too}"]
    return next((line for line in lines if len(line) <= room), verdict)


_HEADS = ("states", "depth", "seconds")


def table(results: Sequence[Result], width: int = WIDTH) -> Iterator[str]:
    """The lines of the verdict table, with colours: the heads, and one line for each scenario.

    Several scenarios are grouped by protocol, unless one is given as a file.
    """
    names = [result.name.rpartition("/")[::2] for result in results]
    grouped = len(results) > 1 and not any(is_path(result.name) for result in results)
    indent = "  " if grouped else ""
    called = [
        indent + own if grouped else short_name(r.name) for r, (_, own) in zip(results, names, strict=True)
    ]
    first = max(len("scenario"), *map(len, called))
    cells = [(f"{r.states:,}", str(r.depth), f"{r.search.seconds:.2f}") for r in results]
    widths = [max(map(len, column)) for column in zip(_HEADS, *cells, strict=True)]
    least = max(len(_verdict(result)) for result in results)

    def room() -> int:
        return width - first - _GAP - sum(w + _GAP for w in widths)

    while widths and room() < least:
        widths.pop()  # too wide: drop the last column of numbers
    verdicts = [_fitted(result, max(least, room())) for result in results]
    second = max(len("verdict"), *map(len, verdicts))
    heads = _numbers(_HEADS, widths)
    if not grouped:
        yield click.style(f"{'scenario':{first}}{' ' * _GAP}{'verdict':{second}}{heads}".rstrip(), dim=True)
    before = ""
    for result, (group, _), name, numbers, verdict in zip(
        results, names, called, cells, verdicts, strict=True
    ):
        if grouped and group != before:
            yield click.style(f"{group:{first + _GAP + second}}{heads}".rstrip(), bold=True)
            before, heads = group, ""  # the heads only once
        alarming = _alarming(result)
        expected = result.expected and result.verdict == "violated"
        colour = "green" if expected else _COLOURS[result.verdict]
        mark = name.replace("  ", "! ", 1) if alarming and grouped else name
        cell = click.style(f"{verdict:{second}}", fg=colour, bold=alarming)
        yield f"{mark:{first}}{' ' * _GAP}{cell}{_numbers(numbers, widths)}".rstrip()


def by_protocol(results: Sequence[Result]) -> Iterator[str]:
    """The lines of the table by protocol: scenarios, states, seconds, and how many scenarios are as expected."""
    heads = ("protocol", "scenarios", "states", "seconds", "verdict")
    rows: list[tuple[str, ...]] = []
    colours = []
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.request.scenario.definition.name, []).append(result)
    for name, own in groups.items():
        seconds = sum(o.search.seconds + o.search.preparation_seconds for o in own)
        rows.append((name, f"{len(own):,}", f"{sum(o.states for o in own):,}", f"{seconds:.1f}", _kinds(own)))
        colours.append(_colour(own))
    first, *others = text.aligned([heads, *rows], range(1, 4))
    yield click.style("  ".join(first), dim=True)
    for (*cells, verdict), colour in zip(others, colours, strict=True):
        yield "  ".join([*cells, click.style(verdict, fg=colour)])


def _numbers(cells: Iterable[str], widths: Sequence[int]) -> str:
    return "".join(f"{cell:>{width + _GAP}}" for cell, width in zip(cells, widths, strict=False))


def short_name(name: str) -> str:
    """The name of a scenario. A long path is cut to the last parts that fit, or to the file's name."""
    parts = name.split("/")
    if len(name) <= _LONGEST_PATH or not is_path(name):
        return name
    kept = next(
        (n for n in range(len(parts) - 1, 1, -1) if len("/".join(parts[-n:])) + 2 <= _LONGEST_PATH), 1
    )
    return "/".join(["…", *parts[-kept:]])


def total_line(results: Sequence[Result], seconds: float) -> str:
    """The last line, with its colour: how many scenarios are as expected, states, and seconds."""
    number, states = len(results), sum(o.states for o in results)
    searching = sum(o.search.seconds for o in results)
    dates = sorted(o.explored_at[:10] for o in results if o.explored_at is not None)
    rate = f" ({states / searching:,.0f}/s)" if number == 1 and searching > 0 and not dates else ""
    shown = f"{states / 1e6:,.1f} million" if states >= 1_000_000 else f"{states:,}"
    uniform = len({_kind(o) for o in results}) == 1
    text = f"{count(number, 'scenario')}{' ' if uniform else ': '}{_kinds(results)}"
    if dates:
        when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
        explored = f", {number - len(dates)} explored" if number > len(dates) else ""
        text += f": {len(dates)} unchanged (explored {when}){explored}"
    return click.style(f"{text}: {shown} states{rate}, {seconds:.1f} s", fg=_colour(results))


def _kinds(results: Sequence[Result]) -> str:
    """The number of scenarios of each kind of result (as expected, …); only the kind if all are of one kind."""
    kinds = Counter(map(_kind, results))
    return next(iter(kinds)) if len(kinds) == 1 else ", ".join(f"{n} {k}" for k, n in kinds.most_common())


def _kind(result: Result) -> str:
    if result.expected is None:
        overridden = " (parameters overridden: expectations not checked)"
        return f"{result.verdict}{'' if result.request.as_written else overridden}"
    return "as expected" if result.expected else "not as expected"


def _colour(results: Sequence[Result]) -> str:
    if any(o.broken for o in results):
        return "red"
    return "yellow" if any(o.verdict == "inconclusive" for o in results) else "green"


# --- notes and warnings -------------------------------------------------------------------------------


def finish(
    results: Sequence[Result],
    output: JsonOutput,
    *,
    quiet: bool,
    verbose: bool = False,
    seconds: float,
) -> None:
    """Print the verdict table, notes, warnings and the last line, and write the JSON.

    If the JSON goes to standard output, only the warnings are printed. With ``quiet``, the notes are left out.
    ``seconds`` is the wall-clock time of the whole command.
    """
    if not output.to_stdout:
        for line in _lines(results, seconds, text.width(), notes_too=not quiet, verbose=verbose):
            output.say(line)
    warn(results)
    output.write([result.to_json() for result in results])


def _lines(
    results: Sequence[Result],
    seconds: float,
    width: int | None,
    *,
    notes_too: bool = True,
    verbose: bool = False,
) -> Iterator[str]:
    """The lines of the table, unmet expectations, the notes, and the last line, with colours."""
    yield ""
    listed = results
    if len(results) > LISTED and not verbose:
        yield from by_protocol(results)
        listed = [o for o in results if _alarming(o)]
        if listed:
            yield ""
    if listed:
        yield from table(listed, min(width or WIDTH, WIDTH))
    yield ""
    for result in results:
        for line in result.broken:
            folded = fold(f"{result.name}: {line}", "! ", width, "  ")
            yield from (click.style(part, fg="red") for part in folded)
    if notes_too and (verbose or len(results) == 1):
        for result in results:
            if len(results) > 1:
                yield click.style(result.name, bold=True)
            for note in result.notes():
                yield from fold(note, "  ", width, "    ")
    elif notes_too:
        for note in attention(results):
            yield from fold(note, "", width, "  ")
    yield total_line(results, seconds)


def attention(results: Sequence[Result]) -> Iterator[str]:
    """The notes about several scenarios: the checked properties, and how many scenarios are vacuous or pruned."""
    yield total([result.checked for result in results])
    counted = {
        "check a property vacuously (its premise never holds)": sum(bool(o.never_met) for o in results),
        "have an action that is never taken": sum(bool(o.never_enabled) for o in results),
        "prune steps at a bound": sum(any(o.search.cut.values()) for o in results),
    }
    some = [f"{number} {what}" for what, number in counted.items() if number]
    if some:
        yield f"of {len(results)} scenarios {', '.join(some)} (--verbose lists them)"


def warn(results: Iterable[Result]) -> None:
    """Print warnings about vacuous actions and properties on standard error, even with --quiet."""
    for result in results:
        for line in result.warning_lines():
            click.echo(line, err=True)
