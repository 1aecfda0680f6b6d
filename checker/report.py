"""The report of a run for people: counterexamples, the verdict table, and what to know about each result."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

import click

from highwater.checker import counterexample
from highwater.checker.output import JsonOutput
from highwater.checker.results import Outcome
from highwater.checker.vacuity import CONSTANT
from highwater.model.language.model import Model

Echo = Callable[[str], None]

_HEADS = ("scenario", "verdict", "promise", "states", "depth", "seconds", "states/s")
_LEFT = 3
"""So many columns hold texts; the others hold numbers and are aligned to the right."""

STOPPED = {
    "states": "the limit on states was reached",
    "seconds": "the limit on seconds was reached",
    "memory": "the memory that it may use was full",
    "disk": "the disk does not take what is to be written",
    "interrupted": "it was interrupted",
    "violation": "it stopped when there was no property left to decide",
}
"""What ended a search early, in words."""


def runs(model: Model, outcome: Outcome, echo: Echo, *, full: bool) -> None:
    """Say the counterexamples of one scenario, with the whole state after each step where ``full``."""
    width = counterexample.terminal_width() if sys.stdout.isatty() else None
    for line in told(model, outcome, full=full, width=width):
        echo(line)


def finish(outcomes: Sequence[Outcome], output: JsonOutput, *, quiet: bool) -> None:
    """Give out the results: the verdict table and its notes for people, warnings, and the JSON."""
    if not output.to_stdout:
        verdicts(outcomes, output.say, notes_too=not quiet)
    warn(outcomes)
    output.write([outcome.as_json() for outcome in outcomes])


def warn(outcomes: Iterable[Outcome]) -> None:
    """Say on standard error what does nothing, however quiet the rest is."""
    for outcome in outcomes:
        for line in warnings(outcome):
            click.echo(line, err=True)


def warnings(outcome: Outcome) -> Iterator[str]:
    """A line for each thing that does nothing and nobody said of."""
    for warning in outcome.warnings:
        key = "constant" if warning.kind == CONSTANT else "impossible"
        meant = f'if it is meant, the scenario says so: [expect] {key} = ["{warning.name}"]'
        yield f"highwater: warning: {outcome.request.scenario.name}: {warning.text} ({meant})"


def told(model: Model, outcome: Outcome, *, full: bool = False, width: int | None = None) -> Iterator[str]:
    """The counterexamples of one scenario; a run that violates several properties is told once."""
    names: dict[tuple[object, ...], str] = {}
    for example in outcome.examples:
        key = (example.loop and example.loop.start, *((s.action, repr(s.parameters)) for s in example.steps))
        yield ""
        yield click.style(outcome.request.scenario.name, bold=True)
        if key in names:
            rule = f" ({example.source})" if example.source else ""
            yield f"{example.name}{rule} is violated by the same run as {names[key]}."
            yield f"  It says: {example.meaning}"
            continue
        names[key] = example.name
        yield from counterexample.tell(model, example, full=full, width=width)


def rows(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """The cells of the verdict table, heads first."""
    return [_HEADS, *map(_row, outcomes)]


def table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The verdict table in plain text, columns aligned."""
    shown = rows(outcomes)
    widths = [max(len(row[i]) for row in shown) for i in range(len(_HEADS))]
    for row in shown:
        cells = (
            f"{c:<{w}}" if i < _LEFT else f"{c:>{w}}"
            for i, (c, w) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def rich_table(outcomes: Sequence[Outcome]) -> None:
    """The verdict table in a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for i, head in enumerate(_HEADS):
        shown.add_column(head, justify="left" if i < _LEFT else "right", overflow="fold")
    colours = {"violated": "red", "holds": "green", "inconclusive": "yellow"}
    for outcome in outcomes:
        name, said, promise, *numbers = _row(outcome)
        bad = "bold red" if outcome.broken else "dim"
        expected = outcome.promised and outcome.verdict == "violated"
        colour = "yellow" if expected else colours[outcome.verdict]
        shown.add_row(Text(name), Text(said, colour), Text(promise, bad), *numbers)
    Console(highlight=False).print(shown)


def notes(outcome: Outcome) -> Iterator[str]:
    """What a reader must know of a result that its row does not say."""
    result, request = outcome.result, outcome.request
    if outcome.walks is not None:
        yield f"{outcome.walks:,} random walks, seed {getattr(result, 'seed', 0)}: nothing is proved"
    if result.stopped_by:
        short = "not all states were seen" if outcome.walks is None else "not all walks were made"
        seen = "" if result.stopped_by == "violation" else f": {short}"
        trouble = f" ({result.trouble})" if result.trouble else ""
        yield f"{STOPPED.get(result.stopped_by or '', f'stopped by {result.stopped_by}')}{trouble}{seen}"
    if not request.properties:
        yield "no property was checked"
    promised = [
        key for key in ("distinct_states", "depth") if getattr(request.scenario.promise, key) is not None
    ]
    if promised and request.as_written and not request.counts_promised:
        counted = f"{'with' if request.scenario.symmetry else 'without'} symmetry"
        how = "inside the bounds" if request.outside else counted
        yield f"not compared: {' and '.join(promised)}, promised of a search {how}"
    if outcome.outside_states is not None:
        yield f"{outcome.outside_states:,} of these states are outside the bounds: checked, not gone on from"
    never = [name for name, taken in result.actions.items() if not taken and name not in outcome.ruled_out]
    if never:
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
    if cuts:
        yield f"cut {', '.join(cuts)}"
    idle = [name for name, met in result.premises.items() if not met and result.generated_states]
    of_steps = [p.name for p in request.step_properties if p.name in idle]
    if of_states := [name for name in idle if name not in of_steps]:
        yield f"had nothing to say in any state: {', '.join(of_states)}"
    if of_steps:
        yield f"had nothing to say of any step: {', '.join(of_steps)}"
    if result.collision_probability:
        yield f"chance that a collision hid a state {result.collision_probability:.1e}"


def verdicts(outcomes: Sequence[Outcome], echo: Echo, *, notes_too: bool = True) -> None:
    """The verdict table, and the notes under it."""
    if sys.stdout.isatty():
        rich_table(outcomes)
    else:
        echo("")
        for line in table(outcomes):
            echo(line)
    if notes_too:
        echo("")
        for outcome in outcomes:
            for line in below(outcome):
                echo(line)


def below(outcome: Outcome) -> Iterator[str]:
    """What stands under the table: promises that were not kept, and the notes."""
    for line in outcome.broken if outcome.request.as_written else ():
        yield click.style(f"{outcome.request.scenario.name}: {line}", fg="red")
    if noted := "; ".join(notes(outcome)):
        yield f"{outcome.request.scenario.name}: {noted}"


def lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The table and what stands under it, in plain text."""
    yield ""
    yield from table(outcomes)
    yield ""
    for outcome in outcomes:
        yield from map(click.unstyle, below(outcome))
        yield from warnings(outcome)


def _row(outcome: Outcome) -> tuple[str, ...]:
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


def verdict(outcome: Outcome) -> str:
    """The verdict, with the properties that are violated."""
    if outcome.examples:
        return "violated: " + _join(f"{e.name} at depth {e.depth}" for e in outcome.examples)
    return outcome.verdict


def _promise(outcome: Outcome) -> str:
    if not outcome.request.as_written:
        return "not as written"
    return {True: "as promised", False: "broken", None: "open"}[outcome.promised]


def _join(texts: Iterable[str]) -> str:
    return ", ".join(texts)
