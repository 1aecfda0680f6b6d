"""``highwater replay``: check recordings against the protocol, and report incidents."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from highwater.checker.base.files import JsonOutput, refuse_unwritable, written
from highwater.checker.base.problems import InputError, Status, interruption, worst
from highwater.checker.base.text import width
from highwater.checker.commands.options import json_option, quiet_option, rule_option, spark_master_option
from highwater.checker.engines import by_name as engines
from highwater.checker.runner import LiveLine
from highwater.checker.scenarios.request import Overrides
from highwater.checker.scenarios.search import EngineError
from highwater.model.language import LanguageError
from highwater.traces.inputs import RUN, Input, inputs
from highwater.traces.reading import DamagedFileError, TraceError, printable
from highwater.traces.replay import replay_input
from highwater.traces.reports.incidents import LOST, SEVERITIES
from highwater.traces.reports.page import write_page
from highwater.traces.reports.report import Report, in_all, styled_summary, summary
from highwater.traces.reports.text import count
from highwater.traces.runs.replay import RunHistory


@click.command(short_help="Find lost records, offline partitions and forbidden changes in Kafka's logs.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--profile", metavar="NAME", help="Replay with these rules instead of those that the input names."
)
@rule_option
@click.option(
    "--engine",
    type=click.Choice(("embedded", "spark")),
    default="embedded",
    show_default=True,
    help="Replay in this process or on a Spark cluster.",
)
@spark_master_option
@json_option
@click.option("--html", "page", metavar="FILE", type=click.Path(path_type=Path), help="Write an HTML page.")
@click.option(
    "--fail-on",
    type=click.Choice(("lost", "stuck", "at-risk", "unclean", "any")),
    default="any",
    show_default=True,
    help="Exit with 1 for this severity or worse; any: also for notices and nonconforming records.",
)
@click.option(
    "--follow", is_flag=True, help="Follow the metadata log of a running cluster until SIGTERM or Ctrl-C."
)
@click.option(
    "--incidents",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="--follow: keep the open incidents in this JSON file, and compare with it after a restart.",
)
@click.option("--events", metavar="FILE|-", help="--follow: write each change as a line of JSON.")
@click.option(
    "--metrics",
    metavar="[HOST]:PORT|FILE",
    help="--follow: Prometheus metrics; served on loopback by default.",
)
@click.option(
    "--on-incident", metavar="COMMAND", help="--follow: run this for each change, which it reads from stdin."
)
@click.option(
    "--plan",
    metavar="'ACTION BROKER'",
    help="--follow: metrics of what can happen now, such as 'restart any' (or kill, drain).",
)
@quiet_option("the last line")
def replay(
    paths: tuple[Path, ...],
    profile: str | None,
    rules: tuple[str, ...],
    engine: str,
    spark_master: str | None,
    json_file: str | None,
    page: Path | None,
    fail_on: str,
    follow: bool,
    incidents: Path | None,
    events: str | None,
    metrics: str | None,
    on_incident: str | None,
    plan: str | None,
    quiet: bool,
) -> Status:
    """Find lost records, offline partitions and forbidden changes in recordings.

    A PATH is Kafka's metadata log (the directory __cluster_metadata-0, a segment or a snapshot) or its dump, a run of
    a model, or a directory with any of these below it. Brokers' logs with kafka.cluster.Partition at DEBUG, given or
    below a directory, are read with the metadata log.

    Severities, the worst first: lost (committed records), stuck (offline, does not come back by itself), at_risk,
    unclean (an unclean election that lost no known record), notice.

    Exit status: 0 no problem; 1 a problem (--fail-on sets the least severity); 2 a bad request or input, or a
    damaged log; 3 no reliable problem, but the input is incomplete; 130 interrupted.
    """
    output, switched = JsonOutput(json_file), Overrides.parse(rules=rules).rules
    beside = {
        "--incidents": incidents,
        "--events": events,
        "--metrics": metrics,
        "--on-incident": on_incident,
        "--plan": plan,
    }
    _refuse_with_follow(follow, {"--json": json_file, "--html": page}, engine, beside)
    if plan is not None and metrics is None:
        raise InputError("--plan: only with --follow and --metrics")
    if follow:
        from highwater.checker.follow.loop import follow as follow_cluster

        return follow_cluster(
            paths, profile, switched, events, incidents, metrics, on_incident, plan, quiet=quiet
        )
    if page is not None:
        refuse_unwritable("--html", page)
    _refuse_by_engine(engine, spark_master, page)
    reports: list[Report] = []
    histories: list[RunHistory] = []
    live = LiveLine(quiet=quiet or not sys.stderr.isatty())
    interrupted, skipped, damaged = False, list[str](), list[DamagedFileError]()
    try:
        found = inputs(paths)
        skipped, damaged = found.skipped, found.damaged
        if engine == "spark":
            replayed = _on_spark(found.found, profile, switched, spark_master, live)
        else:
            keep = histories if page is not None and all(i.kind == RUN for i in found.found) else None
            replayed = _each(found.found, profile, switched, live, page is not None, keep, damaged)
        for report in replayed:
            reports.append(report)
            if report.interrupted:
                break
    except KeyboardInterrupt:
        interrupted = True
    except (TraceError, LanguageError, InputError) as wrong:
        live.end()
        if reports:
            _end(reports, output, page, histories, quiet, fail_on)
        raise InputError(printable(wrong, 1000)) from None
    live.end()
    return _end(reports, output, page, histories, quiet, fail_on, skipped, interrupted, damaged)


def _each(
    found: Sequence[Input],
    profile: str | None,
    rules: Mapping[str, bool],
    live: LiveLine,
    timelines: bool,
    histories: list[RunHistory] | None,
    damaged: list[DamagedFileError],
) -> Iterator[Report]:
    """Yield the report of each input. If ``histories`` is not None, add the history of each input to it.

    A compressed file that is cut off or damaged is skipped, and its error is added to ``damaged``. Raises the first
    of these errors if every input is skipped.
    """
    replayed = False
    for one in found:
        history = None if histories is None else RunHistory()
        try:
            report = replay_input(
                one, profile, rules, lambda report: live.show(_progress(report)), timelines, history
            )
        except DamagedFileError as wrong:
            damaged.append(wrong)
            continue
        if histories is not None and history is not None:
            histories.append(history)
        replayed = True
        yield report
    if damaged and not replayed:
        raise damaged[0]


def _refuse_by_engine(engine: str, spark_master: str | None, page: Path | None) -> None:
    if engine != "spark" and spark_master:
        raise InputError("--spark-master: this is an option of --engine spark")
    if engine == "spark" and page is not None:
        raise InputError("--html: only the embedded engine writes a page")


def _refuse_with_follow(
    follow: bool, without: Mapping[str, object], engine: str, beside: Mapping[str, object]
) -> None:
    """Raises InputError for an option that is not allowed with ``--follow``, or not allowed without it.

    ``without`` has the options that are not allowed with ``--follow``, besides the Spark engine. ``beside`` has the
    options that are not allowed without it. Both map an option's name to its value, None if it is not given.
    """
    if follow:
        given = [name for name, value in without.items() if value is not None]
        given += ["--engine spark"] if engine == "spark" else []
    else:
        given = [name for name, value in beside.items() if value is not None]
    if given:
        raise InputError(f"{', '.join(given)}: {'not' if follow else 'only'} with --follow")


def _on_spark(
    found: Sequence[Input],
    profile: str | None,
    switched: Mapping[str, bool],
    master: str | None,
    live: LiveLine,
) -> Iterator[Report]:
    """The Spark engine's report of each input. The first Ctrl-C ends the jobs, then raises KeyboardInterrupt."""
    spark = engines.spark_options(master, None, False, 1)
    from highwater.checker.engines.spark.replay import ReplayInterrupted
    from highwater.checker.engines.spark.replay import replay as replay_on_spark
    from highwater.checker.engines.spark.session import session

    interrupted = threading.Event()
    with interruption(interrupted.set):
        try:
            yield from replay_on_spark(
                session(spark.master), found, profile, switched, live.show, interrupted.is_set
            )
        except ReplayInterrupted:
            raise KeyboardInterrupt from None
        except EngineError as wrong:
            raise InputError(str(wrong)) from None


def _print(report: Report, output: JsonOutput) -> None:
    if (columns := width()) is not None and not output.to_stdout:
        for line, style in styled_summary(report, columns):
            click.echo(click.style(line, **style))
        return
    for line in summary(report):
        output.say(line)


def _end(
    reports: list[Report],
    output: JsonOutput,
    page: Path | None,
    histories: Sequence[RunHistory],
    quiet: bool,
    fail_on: str,
    skipped: Sequence[str] = (),
    interrupted: bool = False,
    damaged: Sequence[DamagedFileError] = (),
) -> Status:
    """Print the reports, the worst first, and the last line; write JSON and page; return the exit status."""
    interrupted = interrupted or any(r.interrupted for r in reports)
    ordered = sorted(reports, key=_severity)
    if not quiet:
        for report in ordered:
            _print(report, output)
        for line in skipped:
            output.say(line)
    try:
        output.write([r.to_json() for r in reports])
        if page is not None and histories:
            _runs_page(page, reports, histories)
        elif page is not None:
            with written("--html", page) as beside:
                write_page(ordered, beside)
    finally:  # print the result even if a file cannot be written
        for damage in (found for report in reports for found in report.damage):
            click.echo(
                printable(f"highwater: {damage.message}; replayed up to offset {damage.offset}", 1000),
                err=True,
            )
        for wrong in damaged:
            click.echo(printable(f"highwater: skipped {wrong}", 1000), err=True)
        output.say(("interrupted: " if interrupted else "") + in_all(reports))
    if interrupted:
        return Status.INTERRUPTED
    return worst([*(_status(r, fail_on) for r in reports), *(Status.INCONCLUSIVE for _ in damaged)])


def _severity(report: Report) -> tuple[int, bool, int]:
    """A sort key: reports with a worse incident first, then those not ``explained``, then those that lost more."""
    found = report.incidents
    lost = sum(i.lost or 0 for i in found if i.certain)
    return SEVERITIES.index(found[0].severity) if found else len(SEVERITIES), report.explained, -lost


def _runs_page(page: Path, reports: Sequence[Report], histories: Sequence[RunHistory]) -> None:
    """Write a page to step through replayed runs of the model."""
    from highwater.checker.report.page.content import write_page as write_runs
    from highwater.checker.report.page.run import replayed

    found = [replayed(report, history) for report, history in zip(reports, histories, strict=False)]
    about = [("rules", report.profile) for report in reports[:1]]
    write_runs(str(page), "Replay", [run for run in found if run is not None], about)


def _status(report: Report, fail_on: str) -> Status:
    """The exit status for one report.

    The first that applies counts:

    - BAD_REQUEST: the report has damage
    - VIOLATED: an incident with ``certain`` has severity ``fail_on`` or worse, and it is a loss or ``reliable``; for
      ``fail_on`` "any", its severity can be any, and a report with ``is_violated`` suffices
    - INCONCLUSIVE: the report has caveats (``doubts``)
    """
    if report.damage:
        return Status.BAD_REQUEST
    least = len(SEVERITIES) if fail_on == "any" else SEVERITIES.index(fail_on.replace("-", "_"))
    if (fail_on == "any" and report.is_violated) or any(
        i.certain and (i.reliable or i.severity == LOST) and SEVERITIES.index(i.severity) <= least
        for i in report.incidents
    ):
        return Status.VIOLATED
    return Status.INCONCLUSIVE if report.doubts else Status.OK


def _progress(report: Report) -> str:
    """The line of progress of a replay."""
    found = sum(report.findings_count.values())
    part = report.bytes_read / report.bytes_total if report.bytes_total else 0.0
    done = f"{part:.0%}, " if part else ""
    left = f", {report.seconds * (1 - part) / part:,.0f} s left" if part and report.seconds > 2 else ""
    rate = f", {report.records / report.seconds:,.0f} a second" if report.seconds else ""
    return (
        f"{Path(report.input).name}: {done}{count(report.records or report.operations, 'record')}{rate}{left}, "
        f"{report.unexplained_count:,} not conforming, {count(found, 'violation')}"
    )
