"""``highwater gate``: compare the protocol with a committed baseline, for continuous integration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from highwater.checker.base.files import JsonOutput, write_text
from highwater.checker.base.problems import InputError, Status
from highwater.checker.base.text import folded
from highwater.checker.commands.options import (
    Positive,
    allow_code_option,
    cache_option,
    fresh_option,
    html_option,
    json_option,
    quiet_option,
    workers_option,
)
from highwater.checker.comparing.gate import baseline as baselines
from highwater.checker.comparing.gate import gating
from highwater.checker.comparing.gate.baseline import Baseline, EntryState, Selection
from highwater.checker.comparing.gate.gating import Gate, Options, updated, with_baseline, with_revision
from highwater.checker.report.page.content import PageOutput
from highwater.checker.runner import Reuse
from highwater.traces.reports.text import count


@click.command(short_help="Compare the protocol with a committed baseline (for CI).")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option(
    "--baseline",
    "path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=f"The baseline.  [default: {baselines.DEFAULT} here or above]",
)
@click.option("--update", is_flag=True, help="Write a new baseline; NAMEs are added to its selection.")
@click.option(
    "--against", metavar="REV", help="Compare with this git revision instead of the baseline's results."
)
@click.option("--only-changed", is_flag=True, help="Skip scenarios whose model and engine have not changed.")
@fresh_option
@click.option("--strict", is_flag=True, help="Fail if the source changed and no scenario detects it.")
@click.option(
    "--budget",
    type=Positive(),
    metavar="SECONDS",
    help="Stop after SECONDS; scenarios that the change touches run first.",
)
@click.option(
    "--explain",
    type=click.IntRange(0),
    default=2,
    metavar="N",
    show_default=True,
    help="Explain the N smallest scenarios that differ.",
)
@allow_code_option
@workers_option
@cache_option
@json_option
@html_option("the counterexamples that are new")
@quiet_option("the last lines")
def gate(
    names: tuple[str, ...],
    path: Path | None,
    update: bool,
    against: str | None,
    only_changed: bool,
    fresh: bool,
    strict: bool,
    budget: float | None,
    explain: int,
    workers: int | None,
    json_file: str | None,
    html: str | None,
    quiet: bool,
) -> Status:
    """Run the scenarios and proofs of a baseline, and compare verdicts, counts, depths, actions and premises.

    A NAME is a scenario or a pattern; the default is the whole baseline. A definition that is renamed, or rewritten
    without changing a fact, passes. A difference is explained by comparing with the git revision that wrote the
    baseline.

    Exit status: 0 the same as the baseline, 1 something differs, 2 bad request, 3 inconclusive (stopped at --budget),
    130 interrupted.
    """
    if update and (against is not None or only_changed or strict or budget):
        raise InputError(
            "--update runs everything: it does not go with --against, --only-changed, --strict or --budget"
        )
    if against is not None and only_changed:
        raise InputError("--only-changed is about the baseline; --against leaves out what is the same anyway")
    output, page = JsonOutput(json_file, quiet=quiet), PageOutput(html)
    reuse = Reuse.unless(fresh or update)
    options = Options(() if update else names, budget, only_changed, explain, workers, quiet, strict, reuse)
    path = path or _nearest()
    if path.exists() and not path.is_file():
        raise InputError(f"--baseline {path}: is no file")
    if update:
        found, written = _update(path, names, options, quiet)
    else:
        alone = against is not None and bool(names) and not path.exists()
        baseline = _only(path, names) if alone else baselines.read(path)
        found = (
            with_baseline(baseline, options) if against is None else with_revision(baseline, against, options)
        )
        written = []
    for line in folded((*(gating.last_lines(found) if quiet else gating.lines(found)), *written)):
        output.say(line)
    if found.interrupted:
        click.echo("highwater: interrupted", err=True)
    if html is not None:
        about = [("baseline", str(path)), ("compared with", found.against or "the baseline's facts")]
        runs = list(gating.new_runs(found))
        output.note(
            page.write_about(gating.summary(found), about, runs, "nothing new is violated or reached")
        )
    output.write(gating.as_json(found))
    return found.status


def _nearest() -> Path:
    """The path of the baseline in this directory or the nearest parent that has one; ``DEFAULT`` if none has."""
    for directory in (Path(), *Path.cwd().parents):
        if (directory / baselines.DEFAULT).is_file():
            return directory / baselines.DEFAULT
    return baselines.DEFAULT


def _only(path: Path, names: tuple[str, ...]) -> Baseline:
    """A baseline without entries that selects the named scenarios."""
    return Baseline(path, Selection(list(names)))


def _update(path: Path, names: tuple[str, ...], options: Options, quiet: bool) -> tuple[Gate, list[str]]:
    """Run every selected entry and write the baseline.

    If an entry cannot run or does not meet its expectations, nothing is written. Returns the new gate and the lines
    to print.
    """
    before = baselines.read(path) if path.exists() else Baseline(path, Selection())
    before.select.scenarios += [name for name in names if name not in before.select.scenarios]
    if not before.select.scenarios and not before.select.proofs:
        raise InputError(f"{path}: nothing is selected; name scenarios, or `{baselines.STANDARD}`")
    new, found = updated(before, options)
    bad = [v for v in found.verdicts if v.state in (EntryState.FAILED, EntryState.NOT_RUN) or v.ran.broken]
    if bad or found.interrupted:
        return found, [f"{path} was not written" + "".join(f"\n  {v.entry.name}: {v.note}" for v in bad)]
    lines = list(_written(before, new))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as wrong:
        raise InputError(f"--baseline {path}: {wrong.filename}: {wrong.strerror}") from None
    write_text("--baseline", path, new.text())
    for verdict in found.verdicts:
        verdict.state = EntryState.UPDATED if not verdict.passes else verdict.state
    entries = count(len(new.facts), "entry", "entries")
    return found, [*([] if quiet else lines), f"{path} was written: {entries}"]


def _written(before: Baseline, new: Baseline) -> Iterator[str]:
    for _, name in sorted(set(new.facts) - set(before.facts)):
        yield f"{name}: added"
    for _, name in sorted(set(before.facts) - set(new.facts)):
        yield f"{name}: taken out"
