"""``highwater replay``: whether the protocol explains what a system did."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from checker.options import json_output
from checker.output import JsonOutput
from checker.problems import InputError
from checker.status import Status
from model.language.errors import LanguageError
from traces.errors import TraceError, printable
from traces.replay import replay as replay_file
from traces.report import Report

SHOWN = 10
"""So many unexplained lines of an input are printed; JSON has more."""


@click.command(short_help="Whether the protocol explains what a system did.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--profile", metavar="NAME", help="The rules to replay with, instead of what the input says.")
@click.option("--rule", "rules", metavar="NAME=on|off", multiple=True, help="Switch a rule.")
@json_output
@click.option("--quiet", is_flag=True, help="Only the last line.")
def replay(
    paths: tuple[str, ...], profile: str | None, rules: tuple[str, ...], json_file: str | None, quiet: bool
) -> Status:
    """Replay each PATH: every recorded operation is run through the rules, from the state before it.

    A PATH is a file with the recorded operations of a controller, plain or compressed, or a directory, which
    means every file below it.

    Exit status: 0 all is explained; 1 something is not; 2 the request or an input is bad; 130 interrupted.
    """
    output = JsonOutput(json_file)
    switched = _switched(rules)
    reports: list[Report] = []
    try:
        for file in _files(paths):
            report = replay_file(file, profile, switched, None if quiet else _progress())
            reports.append(report)
            _clear()
            if not quiet:
                _print(report, output)
            if report.interrupted:
                break
    except KeyboardInterrupt:
        _clear()
        return _end(reports, output, interrupted=True)
    except (TraceError, LanguageError) as wrong:
        _clear()
        if reports:
            _end(reports, output)
        raise InputError(printable(wrong, 1000)) from None
    return _end(reports, output, interrupted=any(r.interrupted for r in reports))


def _switched(rules: Iterable[str]) -> Mapping[str, bool]:
    switched = {}
    for rule in rules:
        name, _, value = rule.partition("=")
        if value not in ("on", "off"):
            raise InputError(f"--rule {rule}: write NAME=on or NAME=off")
        switched[name] = value == "on"
    return switched


def _files(paths: Iterable[str]) -> list[Path]:
    """The files that the arguments mean, those of a directory in the order of their paths."""
    found: list[Path] = []
    for argument in paths:
        path = Path(argument)
        if not path.exists():
            raise InputError(f"{printable(argument)}: there is no such file or directory")
        if not path.is_dir():
            found.append(path)
            continue
        below = sorted(p for p in path.rglob("*") if p.is_file())
        if not below:
            raise InputError(f"{printable(argument)}: no file in this directory")
        found += below
    return found


def _print(report: Report, output: JsonOutput) -> None:
    output.say(f"{printable(report.input)}: {_verdict(report)}")
    for line in report.unexplained[:SHOWN]:
        for text in line.lines():
            output.say(f"  {text}")
    if report.unexplained_count > SHOWN:
        output.say(f"  and {report.unexplained_count - SHOWN} more lines that are not explained")


def _verdict(report: Report) -> str:
    what = f"{report.operations} operations, {report.changes} partition changes, {report.profile}"
    end = "interrupted; " if report.interrupted else ""
    if report.explained:
        return f"{end}explained ({what})"
    return f"{end}{report.unexplained_count} lines not explained ({what})"


def _end(reports: list[Report], output: JsonOutput, interrupted: bool = False) -> Status:
    """The last line, the JSON, and the status."""
    output.write([r.to_json() for r in reports])
    operations, seconds = sum(r.operations for r in reports), sum(r.seconds for r in reports)
    wrong = sum(r.unexplained_count for r in reports)
    rate = f", {operations / seconds:,.0f} operations a second" if seconds else ""
    output.say(
        f"{'interrupted: ' if interrupted else ''}{len(reports)} inputs, {operations} operations, "
        f"{wrong} not explained{rate}"
    )
    if interrupted:
        return Status.INTERRUPTED
    return Status.AS_PROMISED if all(r.explained for r in reports) else Status.VIOLATED


def _progress() -> Any:
    """A line on the terminal that tells how far a replay is; nothing where there is no terminal."""
    if not sys.stderr.isatty():
        return None

    def show(report: Report) -> None:
        text = f"{Path(report.input).name}: {report.operations} operations, {report.unexplained_count} not explained"
        click.echo(f"\r\x1b[K{printable(text, 100)}", nl=False, err=True)

    return show


def _clear() -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)


__all__ = ["replay"]
