"""``highwater replay``: whether the protocol explains what a system did, and what was at risk."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import click
from rich.console import Console

from checker.options import json_output
from checker.output import JsonOutput
from checker.problems import InputError
from checker.status import Status
from model.language.errors import LanguageError
from traces.errors import TraceError, printable
from traces.inputs import inputs
from traces.page import write_page
from traces.replay import replay_input
from traces.report import Report
from traces.summary import rich_summary, summary


@click.command(short_help="Whether the protocol explains what a system did.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--profile", metavar="NAME", help="The rules to replay with, instead of what the input says.")
@click.option("--rule", "rules", metavar="NAME=on|off", multiple=True, help="Switch a rule.")
@json_output
@click.option(
    "--html", "page", metavar="FILE", type=click.Path(path_type=Path), help="Write a page to look at."
)
@click.option("--quiet", is_flag=True, help="Only the last line.")
def replay(
    paths: tuple[Path, ...],
    profile: str | None,
    rules: tuple[str, ...],
    json_file: str | None,
    page: Path | None,
    quiet: bool,
) -> Status:
    """Replay each PATH: every change that was recorded must be one that the protocol allows from the state before it.

    A PATH is Kafka's metadata log (the directory __cluster_metadata-0, a segment or a snapshot) or its dump, a file
    with recorded operations of a controller, a run of a model, or a directory with any of these below it. Logs of
    brokers with kafka.cluster.Partition at DEBUG, given or below a directory, are read with the metadata log.

    Exit status: 0 all is explained and nothing was found; 1 something was; 2 the request or an input is bad; 130
    interrupted.
    """
    output, switched = JsonOutput(json_file), _switched(rules)
    _check_page(page)
    reports: list[Report] = []
    interrupted = False
    try:
        found = inputs(paths)
        for one in found.found:
            report = replay_input(one, profile, switched, None if quiet else _progress(), page is not None)
            reports.append(report)
            _clear()
            if not quiet:
                _print(report, output)
            if report.interrupted:
                break
        if found.passed_over and not quiet:
            output.say(f"passed over: {found.passed_over} files that are nothing to replay")
    except KeyboardInterrupt:
        interrupted = True
    except (TraceError, LanguageError) as wrong:
        _clear()
        if reports:
            _end(reports, output, page)
        raise InputError(printable(wrong, 1000)) from None
    _clear()
    return _end(reports, output, page, interrupted or any(r.interrupted for r in reports))


def _switched(rules: Iterable[str]) -> Mapping[str, bool]:
    switched = {}
    for rule in rules:
        name, _, value = rule.partition("=")
        if value not in ("on", "off"):
            raise InputError(f"--rule {rule}: write NAME=on or NAME=off")
        switched[name] = value == "on"
    return switched


def _check_page(page: Path | None) -> None:
    """A long replay must not end with a page that cannot be written."""
    if page is None:
        return
    if page.is_dir() or not os.access(page if page.exists() else page.parent, os.W_OK):
        raise InputError(f"--html {page}: {'is a directory' if page.is_dir() else 'cannot be written'}")


def _print(report: Report, output: JsonOutput) -> None:
    if sys.stdout.isatty() and not output.to_stdout:
        Console(highlight=False).print(rich_summary(report))
        return
    for line in summary(report):
        output.say(line)


def _end(reports: list[Report], output: JsonOutput, page: Path | None, interrupted: bool = False) -> Status:
    """The last line, the JSON, the page, and the status."""
    output.write([r.to_json() for r in reports])
    if page is not None:
        try:
            write_page(reports, page)
        except OSError as wrong:
            raise InputError(f"--html {page}: {wrong.strerror or wrong}") from None
    output.say(("interrupted: " if interrupted else "") + _in_all(reports))
    if interrupted:
        return Status.INTERRUPTED
    return Status.AS_PROMISED if all(r.explained for r in reports) else Status.VIOLATED


def _in_all(reports: list[Report]) -> str:
    wrong = sum(r.unexplained_count for r in reports)
    found = sum(sum(r.findings_count.values()) for r in reports)
    records, seconds = sum(r.records or r.operations for r in reports), sum(r.seconds for r in reports)
    rate = f", {records / seconds:,.0f} records a second" if seconds else ""
    inputs = f"{len(reports)} input{'s' * (len(reports) != 1)}"
    return f"{inputs}, {records:,} records, {wrong} not explained, {found} findings{rate}"


def _progress() -> Callable[[Report], None] | None:
    """A line on the terminal that tells how far a replay is; nothing where there is no terminal."""
    if not sys.stderr.isatty():
        return None

    def show(report: Report) -> None:
        found = sum(report.findings_count.values())
        done = f"{report.bytes_read / report.bytes_total:.0%}, " if report.bytes_total else ""
        rate = f", {report.records / report.seconds:,.0f} records a second" if report.seconds else ""
        text = (
            f"{Path(report.input).name}: {done}{report.records or report.operations:,} records{rate}, "
            f"{report.unexplained_count} not explained, {found} findings"
        )
        click.echo(f"\r\x1b[K{printable(text, 110)}", nl=False, err=True)

    return show


def _clear() -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)


__all__ = ["replay"]
