"""``highwater gate``: for continuous integration, everything that the committed baseline promises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from highwater.checker.base.files import JsonOutput, write_text
from highwater.checker.base.problems import InputError, Status
from highwater.checker.commands.options import (
    Positive,
    allow_code_option,
    cache_option,
    json_option,
    quiet_option,
    workers_option,
)
from highwater.checker.comparing.gate import baseline as baselines
from highwater.checker.comparing.gate import report
from highwater.checker.comparing.gate.baseline import Baseline, Selection
from highwater.checker.comparing.gate.comparison import EntryState
from highwater.checker.comparing.gate.gating import Gate, Options, updated, with_baseline, with_revision
from highwater.checker.report.page.content import PageOutput, html_option


@click.command(short_help="Whether the protocol does what the committed baseline says.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option(
    "--baseline",
    "path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=f"The baseline.  [default: {baselines.DEFAULT} here or above]",
)
@click.option("--update", is_flag=True, help="Write the baseline anew; NAMEs are added to what it selects.")
@click.option(
    "--against", metavar="REV", help="Compare with this revision of the protocol in place of the facts."
)
@click.option(
    "--only-changed", is_flag=True, help="Leave out what has the model and the engine of the baseline."
)
@click.option("--strict", is_flag=True, help="Fail where the source differs and no scenario sees it.")
@click.option(
    "--budget",
    type=Positive(),
    metavar="SECONDS",
    help="Stop then; what the change touches comes first, and what was not run is named.",
)
@click.option(
    "--explain",
    type=click.IntRange(0),
    default=2,
    metavar="N",
    show_default=True,
    help="Explain so many of the scenarios that differ, the smallest ones.",
)
@allow_code_option
@workers_option
@cache_option
@json_option
@html_option("the runs to what is new")
@quiet_option("the last lines")
def gate(
    names: tuple[str, ...],
    path: Path | None,
    update: bool,
    against: str | None,
    only_changed: bool,
    strict: bool,
    budget: float | None,
    explain: int,
    workers: int | None,
    json_file: str | None,
    html: str | None,
    quiet: bool,
) -> Status:
    """Run what the baseline names and compare: verdicts, counts, depths, actions taken, premises met, proofs.

    Without NAMEs all of it; a NAME can be a pattern. What is only renamed or written in another way passes. A
    difference, of the source too, is explained by the revision that the baseline was written in, where git has it.

    Exit status: 0 as the baseline promises, 1 something differs, 2 bad request, 3 inconclusive (the budget was used up
    first), 130 interrupted.
    """
    if update and (against or only_changed or strict or budget):
        raise InputError(
            "--update runs everything: it does not go with --against, --only-changed, --strict or --budget"
        )
    if against and only_changed:
        raise InputError("--only-changed is about the baseline; --against leaves out what is the same anyway")
    output, page = JsonOutput(json_file, quiet=quiet), PageOutput(html)
    options = Options(() if update else names, budget, only_changed, explain, workers, quiet, strict)
    path = path or _nearest()
    if path.exists() and not path.is_file():
        raise InputError(f"--baseline {path}: is no file")
    if update:
        found, written = _update(path, names, options, quiet)
    else:
        baseline = baselines.read(path) if path.exists() or not (against and names) else _only(path, names)
        found = with_revision(baseline, against, options) if against else with_baseline(baseline, options)
        written = []
    for line in (*(report.last_lines(found) if quiet else report.lines(found)), *written):
        output.say(line)
    if found.interrupted:
        click.echo("highwater: interrupted", err=True)
    if html is not None:
        about = [("baseline", str(path)), ("compared with", found.against or "the baseline's facts")]
        runs = list(report.new_runs(found))
        output.note(
            page.write_about(report.summary(found), about, runs, "nothing new is violated or reached")
        )
    output.write(report.as_json(found))
    return found.status


def _nearest() -> Path:
    """The baseline of this directory, or of the nearest one above that has one."""
    for directory in (Path(), *Path.cwd().parents):
        if (directory / baselines.DEFAULT).is_file():
            return directory / baselines.DEFAULT
    return baselines.DEFAULT


def _only(path: Path, names: tuple[str, ...]) -> Baseline:
    """A baseline that is not there, for scenarios that are named."""
    return Baseline(path, Selection(list(names)))


def _update(path: Path, names: tuple[str, ...], options: Options, quiet: bool) -> tuple[Gate, list[str]]:
    """Run everything and write the baseline, unless something cannot be run or its own file promises otherwise."""
    before = baselines.read(path) if path.exists() else Baseline(path, Selection())
    before.select.scenarios += [name for name in names if name not in before.select.scenarios]
    if not before.select.scenarios and not before.select.proofs:
        raise InputError(f"{path}: nothing is selected; name scenarios, or `{baselines.STANDARD}`")
    new, found = updated(before, options)
    bad = [v for v in found.verdicts if v.state in (EntryState.FAILED, EntryState.NOT_RUN) or v.ran.broken]
    if bad or found.interrupted:
        return found, [f"{path} was not written" + "".join(f"\n  {v.entry.name}: {v.note}" for v in bad)]
    said = list(_written(before, new))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as wrong:
        raise InputError(f"--baseline {path}: {wrong.filename}: {wrong.strerror}") from None
    write_text("--baseline", path, new.text())
    for verdict in found.verdicts:
        verdict.state = EntryState.UPDATED if not verdict.passes else verdict.state
    entries = f"{len(new.facts)} {'entry' if len(new.facts) == 1 else 'entries'}"
    return found, [*([] if quiet else said), f"{path} was written: {entries}"]


def _written(before: Baseline, new: Baseline) -> Iterator[str]:
    for _, name in sorted(set(new.facts) - set(before.facts)):
        yield f"{name}: added"
    for _, name in sorted(set(before.facts) - set(new.facts)):
        yield f"{name}: taken out"
