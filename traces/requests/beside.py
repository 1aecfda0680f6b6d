"""Request logs beside the replay of a metadata log: what the replay tells, and what comes of it in the report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from highwater.traces.kafka.metadata_log import MetadataLog
from highwater.traces.metadata.replay import rarely_collected
from highwater.traces.reports.findings import Finding, Unexplained
from highwater.traces.reports.observed import PartitionChange
from highwater.traces.reports.report import Report
from highwater.traces.reports.settings import SettingInForce
from highwater.traces.requests.around import Around
from highwater.traces.requests.context import Context
from highwater.traces.requests.parts import NodesPart
from highwater.traces.requests.replay import Requests
from highwater.traces.requests.spine import Spine
from highwater.traces.requests.verdicts import Json, Verdicts, from_json, to_json


class RequestsBeside:
    """The request logs of a cluster: told what the metadata log says (``change``, ``setting``), then judged."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths, self._spine = paths, Spine()
        self._requests: Requests | None = None

    def change(self, change: PartitionChange) -> None:
        """A change of a partition, in the order of the metadata log."""
        self._spine.change(change)

    def setting(self, name: str, setting: SettingInForce) -> None:
        """What a setting is for a partition from here on."""
        self._spine.setting(name, setting)

    def judge(self, log: MetadataLog, report: Report) -> None:
        """Read the request logs, and add what came of them to the report of the metadata log.

        KeyboardInterrupt ends it with what was found so far. Raises TraceError where a log cannot be read.
        """
        started = time.perf_counter()
        requests = self._begin(log, report)
        try:
            with rarely_collected():
                requests.replay()
        except KeyboardInterrupt:
            report.interrupted = True
        tell(requests, report)
        report.seconds += time.perf_counter() - started

    def part(self, log: MetadataLog, report: Report, numbers: Sequence[int]) -> Json:
        """Read the brokers' requests of some of the files, by their numbers, for ``joined``. Raises TraceError.

        Returned is JSON: what came of them, with the report of the metadata log and what the controllers' requests say.
        """
        requests, part = self._begin(log, report), NodesPart()
        with rarely_collected():
            requests.controllers()
            requests.read(numbers, part)
        verdicts = requests.context.verdicts
        found = {"report": report.to_json(), "verdicts": to_json(verdicts), "notes": requests.notes}
        return {**found, "part": to_json(part)}

    def _begin(self, log: MetadataLog, report: Report) -> Requests:
        self._spine.tables.check()
        self._spine.read(log)
        context = Context(self._spine, report.profile, frozenset(report.rules))
        self._requests = Requests(context, self._paths)
        return self._requests

    def collect(self, report: Report) -> None:
        """Put messages into the report's timelines, once it is judged: the logs are read again. Raises TraceError."""
        if self._requests is not None and report.timelines:
            try:
                Around(self._requests, report).collect()
            except KeyboardInterrupt:
                report.interrupted = True


def joined(paths: Sequence[Path], found: Sequence[Json]) -> Report:
    """The report of the parts that ``RequestsBeside.part`` gave; that of the metadata log is the first one's.

    Raises SharedNode, TraceError.
    """
    report = Report.from_json(found[0]["report"])
    requests = Requests(Context(Spine(), report.profile, frozenset(report.rules)), paths)
    requests.context.verdicts = from_json(found[0]["verdicts"], Verdicts)
    requests.notes += found[0]["notes"]
    requests.join(from_json(one["part"], NodesPart) for one in found)
    tell(requests, report)
    return report


def tell(requests: Requests, report: Report) -> None:
    """Add what came of request logs to the report of the metadata log."""
    verdicts, off = requests.context.verdicts, requests.files_off
    report.doubts += requests.doubts

    def reliable(of: Unexplained | Finding) -> bool:
        return not report.is_doubted(of.partition) and of.position.get("file") not in off

    verdicts.unexplained = [replace(u, reliable=reliable(u)) for u in verdicts.unexplained]
    verdicts.findings = [replace(f, reliable=reliable(f)) for f in verdicts.findings]
    verdicts.tell(report)
    report.notes += requests.notes
    report.figures["request log lines"] = requests.counted.lines
