"""Replay: check whether the protocol allows a recorded run of a system.

A metadata log is replayed together with the logs of its brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

from highwater.model.rulebook import RULEBOOK
from highwater.traces.brokers.losses import DataLogs, joined_ends
from highwater.traces.brokers.watermarks import Watermarks
from highwater.traces.inputs import RUN, Input, inputs
from highwater.traces.kafka.broker_log import BrokerLog
from highwater.traces.kafka.copies import open_copies
from highwater.traces.kafka.data_logs import read_data_dump
from highwater.traces.kafka.metadata_log import MetadataLog
from highwater.traces.messages.metadata_index import MetadataIndex
from highwater.traces.messages.request_replay import judge
from highwater.traces.metadata.replay import replay_metadata
from highwater.traces.metadata.reporting import NOBODY, Watch
from highwater.traces.reading import DamagedFileError, TraceError, damage_of
from highwater.traces.reports.findings import LIMIT, Doubt, Finding
from highwater.traces.reports.observed import Courses, PartitionChange, SettingInForce
from highwater.traces.reports.report import LIMIT_CHANGES, Report, Timeline
from highwater.traces.reports.text import count
from highwater.traces.runs.replay import RunHistory, replay_run

SMALL = 16 << 20
"""The largest log, in bytes, whose report has the timelines of all partitions."""
MAX_TIMELINES = 500
"""The most timelines of a log above SMALL. Only partitions with nonconforming records or findings get one."""

_SET = "the order of lines is not known, because the clock was set by an hour (daylight saving) in the logs of broker"

Progress = Callable[[Report], None]


class _Timelines:
    """Collects the changes and settings of the partitions that a watch reports."""

    def __init__(self) -> None:
        self.by_name: dict[str, Timeline] = {}

    def change(self, change: PartitionChange) -> None:
        """Add a change of a partition."""
        timeline = self.by_name.setdefault(change.name, Timeline(change.name))
        timeline.total += 1
        if len(timeline.changes) < LIMIT_CHANGES:
            timeline.changes.append(change)

    def setting(self, name: str, setting: SettingInForce) -> None:
        """Add a change of a partition's setting."""
        timeline = self.by_name.get(name)
        if timeline is not None and len(timeline.settings) < LIMIT_CHANGES:
            timeline.settings.append(setting)


def _replay_cluster(
    found: Input,
    profile: str | None,
    rules: Mapping[str, bool] | None,
    progress: Progress | None,
    timelines: bool,
) -> Report:
    """Replay a metadata log together with the brokers' logs, dumps of their data, and request logs.

    A log above SMALL is read once more for the timelines of the partitions that the report mentions.
    """
    log = open_copies(found.path, found.copies)
    report = Report(str(found.path), log.kind, profile or "")
    is_small, shown = log.bytes_total <= SMALL, _Timelines()
    shows = Watch([shown.change], [shown.setting])
    watch = shows if timelines and is_small else NOBODY
    index = MetadataIndex() if found.request_logs else None
    if index is not None:
        watch = Watch([*watch.on_change, index.change], [*watch.on_setting, index.setting], [index.record])
    courses = Courses() if timelines else None
    watermarks = _follow(log, found, report, profile, rules, watch, courses, progress)
    if index is not None and not report.interrupted:
        judge(found.request_logs, index, report)
    mentioned = _mentioned(report)
    if timelines and mentioned and not is_small and not report.interrupted:
        again = Report(report.input, log.kind, profile or "")
        shows = replace(shows, only=frozenset(mentioned))
        replay_metadata(open_copies(found.path, found.copies), again, profile, rules, shows, progress)
        report.interrupted = again.interrupted
    report.timelines |= shown.by_name
    if courses is not None and watermarks is not None:
        for name, timeline in report.timelines.items():
            timeline.courses = courses.of(name, watermarks.utc_offset_ms)
    return report


def _follow(
    log: MetadataLog,
    found: Input,
    report: Report,
    profile: str | None,
    rules: Mapping[str, bool] | None,
    watch: Watch,
    courses: Courses | None,
    progress: Progress | None,
) -> Watermarks | None:
    """Replay the metadata log with the brokers' logs and dumps, and add the results to ``report``.

    Returns what the brokers' logs and dumps show; None if there are none. ``courses`` collects HWM and LEO over time.
    """
    if not found.broker_logs and not found.data_dumps:
        replay_metadata(log, report, profile, rules, watch, progress)
        return None
    broker_logs = [BrokerLog(file) for file in found.broker_logs]
    watermarks = Watermarks([log.events() for log in broker_logs], courses=courses)
    notes: list[str] = []
    data = DataLogs(log for file in found.data_dumps for log in read_data_dump(file, notes))
    watch = replace(
        watch,
        on_change=[watermarks.change, data.change, *watch.on_change],
        on_setting=[watermarks.setting, *watch.on_setting],
    )
    follower = replay_metadata(log, report, profile, rules, watch, progress)
    findings = watermarks.finish(follower.image.min_isr())
    report.doubts += [_unread(log) for log in broker_logs if log.unread]
    report.doubts += [
        Doubt("clocks", f"{_SET} {b}", {}, tuple(sorted(p))) for b, p in watermarks.set_clocks.items()
    ]
    _mark_complete(report, watermarks.complete)
    # If brokers' logs and dumps show the same violation, report it once.
    known = {_named(finding) for finding in findings}
    for finding in (*findings, *(f for f in data.finish() if _named(f) not in known)):
        is_reliable = not report.is_doubted(finding.partition)
        report.find(replace(finding, kip=finding.kip or RULEBOOK.origin(finding.rule), reliable=is_reliable))
    concerned = {f.partition for f in report.findings} | {one.partition for one in report.offline}
    ends = joined_ends(watermarks.ends, data.ends())
    report.logs |= {name: found_ends for name, found_ends in ends.items() if name in concerned}
    report.controllers.failures = watermarks.controllers.failures
    report.controllers.refused = watermarks.controllers.refused
    report.notes += [*watermarks.notes, *notes, *data.notes]
    if found.broker_logs:
        report.figures |= watermarks.figures
        report.figures["broker logs"] = len(found.broker_logs)
    if found.data_dumps:
        report.figures["dumps of data segments"] = len(found.data_dumps)
        report.figures["elections held against logs"] = data.judged
    return watermarks


def _unread(log: BrokerLog) -> Doubt:
    lines = count(log.unread, "line")
    summary = (
        f"{log.path}: {lines} about replicas cannot be read. The first is line {log.first_unread}. Expected: a date "
        "with a time, then the message, with the broker's number in the message or in an earlier line"
    )
    return Doubt("unread lines", summary, {}, ())


def _mark_complete(report: Report, complete: Mapping[tuple[str, int], Mapping[str, int]]) -> None:
    """Add the fact ``complete`` to the findings about each election whose leader had every committed record.

    ``complete`` is ``Watermarks.complete``.
    """
    for place, found in enumerate(report.findings):
        held = complete.get((found.partition or "", found.position.get("offset", -1)))
        if held is not None and found.facts:
            report.findings[place] = replace(found, facts={**found.facts, "complete": dict(held)})


def _named(finding: Finding) -> tuple[str, str | None, str]:
    return finding.property, finding.partition, str(finding.position)


def _mentioned(report: Report) -> list[str]:
    """The names of the first ``MAX_TIMELINES`` partitions that the report mentions."""
    names = [*(u.partition for u in report.unexplained), *(f.partition for f in report.findings)]
    return [*dict.fromkeys(name for name in names if name is not None)][:MAX_TIMELINES]


def replay(
    path: str | PathLike[str],
    profile: str | None = None,
    rules: Mapping[str, bool] | None = None,
    progress: Progress | None = None,
    *,
    broker_logs: Sequence[str | PathLike[str]] = (),
    timelines: bool = False,
) -> Report:
    """Replay one input: a metadata log or its dump, or a run of a model.

    - ``path`` is a file, or a directory with exactly one input. Brokers' logs, request logs and dumps of data segments
      in the directory are replayed with the metadata log.
    - ``broker_logs`` are further files of these three kinds.
    - ``rules`` switches single rules on or off, and overrides the profile.
    - With ``timelines``, the report on a metadata log also has the history of the partitions. A log above SMALL bytes
      has it only for partitions with nonconforming records or findings.

    After KeyboardInterrupt the report has the results so far (``Report.interrupted``). Raises TraceError if a file
    cannot be read or the paths hold not exactly one input, and LanguageError if the profile or a rule does not exist.
    """
    all_found = inputs([Path(path), *(Path(log) for log in broker_logs)])
    found = all_found.found
    if len(found) != 1:
        names = ", ".join(str(i.path) for i in found[:5])
        raise TraceError(Path(path), None, None, f"{len(found)} inputs, where one is expected: {names}")
    report = replay_input(found[0], profile, rules, progress, timelines)
    report.doubts += map(_skipped, all_found.damaged)
    return report


def replay_input(
    found: Input,
    profile: str | None = None,
    rules: Mapping[str, bool] | None = None,
    progress: Progress | None = None,
    timelines: bool = False,
    history: RunHistory | None = None,
) -> Report:
    """Replay one input that ``highwater.traces.inputs.inputs`` found. The other arguments are those of ``replay``.

    The lines of a model's run are recorded in ``history``, if given. Compressed logs that are cut off or damaged are
    skipped with a caveat, unless nothing else is left.
    """
    try:
        return _replay_all(found, profile, rules, progress, timelines, history)
    except DamagedFileError:
        found, damaged = _without_damaged(found)
        if not damaged:
            raise
    report = _replay_all(found, profile, rules, progress, timelines, history)
    report.doubts += map(_skipped, damaged)
    return report


def _skipped(wrong: DamagedFileError) -> Doubt:
    return Doubt("damaged file", f"skipped {wrong}", {}, ())


def _without_damaged(found: Input) -> tuple[Input, list[DamagedFileError]]:
    """The input without its compressed logs that are cut off or damaged, and the error of each of them."""
    files = (*found.broker_logs, *found.request_logs, *found.data_dumps)
    errors = {file: damage_of(file) for file in files}

    def whole(files: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(file for file in files if errors[file] is None)

    left = replace(
        found,
        broker_logs=whole(found.broker_logs),
        request_logs=whole(found.request_logs),
        data_dumps=whole(found.data_dumps),
    )
    return left, [wrong for wrong in errors.values() if wrong is not None]


def _replay_all(
    found: Input,
    profile: str | None,
    rules: Mapping[str, bool] | None,
    progress: Progress | None,
    timelines: bool,
    history: RunHistory | None,
) -> Report:
    if found.kind == RUN:
        return replay_run(found.path, rules, profile, progress, history=history)
    report = _replay_cluster(found, profile, rules, progress, timelines)
    report.notes[:0] = found.notes
    report.doubts += [
        Doubt("copies differ", f"{a} and {b} have different committed records", {"offset": offset})
        for a, b, offset in found.conflicts[:LIMIT]
    ]
    return report
