"""Replay of recorded operations: each is decided by the rules, and compared with what was recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from highwater.model.language.errors import LanguageError
from highwater.traces.operations.comparison import adopt, differences, recorded_form
from highwater.traces.operations.decide import decide
from highwater.traces.operations.findings import PartitionWatch
from highwater.traces.operations.format import ControllerTrace, Decided, NotKnown, Operation, RecordingMeta
from highwater.traces.operations.read_recording import read_controller_trace
from highwater.traces.operations.state import ControllerState, suppositions
from highwater.traces.reading import TraceError, printable
from highwater.traces.reports.findings import LIMIT, Candidate, Doubt, Unexplained
from highwater.traces.reports.report import Report
from highwater.traces.rules.profiles import RuleSet, rule_set


class ControllerReplay:
    """The controller as the model has it, driven by recorded operations."""

    def __init__(self, trace: ControllerTrace, rules: frozenset[str]) -> None:
        self.state = ControllerState.at_start(trace.meta, rules)

    def take(self, op: Operation) -> Unexplained | None:
        """Run one operation; what the model and the recording disagree about, or None where they agree.

        Where something that the recording does not hold can decide, each possibility is tried. Raises NotKnown where
        the rules say nothing about the operation; the replay goes on from what was recorded.
        """
        kept, before = self.state, self._recorded_form()
        candidates: list[Candidate] = []
        for suppose in (_as_recorded, *suppositions(kept, op)):
            self.state = kept.copy()
            wrong: dict[str, tuple[Any, Any]] = {}
            outcome = Decided()
            try:
                suppose(self.state)
                outcome = self.decide(op)
                for path, values in differences(self.state, op, outcome):
                    wrong[path] = values
            except NotKnown:
                adopt(self.state, kept, op)
                raise
            except LanguageError as left:
                wrong["the model"] = (str(left), "recorded")
            if not wrong:
                return None
            candidates.append(Candidate(op.name, op.arguments, outcome.refused_by, outcome.passed, wrong))
        adopt(self.state, kept, op)
        candidates.sort(key=lambda c: len(c.differences))
        return _unexplained(op, before, candidates)

    def decide(self, op: Operation) -> Decided:
        """What the model does with an operation, whatever is recorded; its state after it is kept."""
        return decide(self.state, op)

    @property
    def registrations(self) -> list[dict[str, Any]]:
        """The registrations of the brokers, by id."""
        return self.state.registrations

    @property
    def next_offset(self) -> int | None:
        """The offset of the next record; None before the first operation."""
        return self.state.next_offset

    def _recorded_form(self) -> dict[str, Any]:
        return recorded_form(self.state)


def _as_recorded(state: ControllerState) -> None:
    """Suppose nothing but what was recorded."""


def _unexplained(op: Operation, before: Mapping[str, Any], candidates: list[Candidate]) -> Unexplained:
    """The line, with the partitions that are concerned as they were before it."""
    nearest = candidates[0].differences
    concerned = [
        k for k in sorted(before["partitions"]) if any(f"partitions[{k}]" in path for path in nearest)
    ]
    if op.arguments.get("topic") is not None and "partition" in op.arguments:
        concerned = [f"{op.arguments['topic']}-{op.arguments['partition']}"]
    return Unexplained(
        {"line": op.line, "step": op.step},
        op.time_ms,
        concerned[0] if concerned else None,
        {
            "partitions": {k: v for k, v in before["partitions"].items() if k in concerned},
            "brokers": {str(k): v for k, v in before["brokers"].items()},
        },
        tuple(candidates),
    )


def replay_operations(trace: ControllerTrace, rules: frozenset[str], report: Report) -> Iterator[int]:
    """Replay a recording into a report; yields the number of operations so far.

    Raises TraceError where the recording cannot be read.
    """
    started = time.perf_counter()
    replay, watch = ControllerReplay(trace, rules), PartitionWatch()
    newer = trace.meta.newer
    if newer is not None:
        report.doubts.append(Doubt("newer version", newer, {"line": 1}))
    not_known: set[str] = set()
    for op in trace.operations:
        report.operations += 1
        report.records += len(op.records)
        report.changes += sum(kind == "PARTITION_CHANGE_RECORD" for kind, _, _ in op.records)
        wrong, before = None, replay.state
        try:
            wrong = replay.take(op)
        except NotKnown as unknown:
            name = printable(unknown, 100)
            report.skipped[name] = report.skipped.get(name, 0) + 1
            if name not in not_known and len(not_known) < LIMIT:
                not_known.add(name)
                summary = f"an operation that the rules do not have: {name}"
                position = {"line": op.line, "step": op.step}
                report.doubts.append(Doubt("unknown operation", summary, position, ()))
        if wrong is not None:
            report.add(replace(wrong, reliable=newer is None))
        for found in watch.after(op, before, replay.state):
            report.find(replace(found, reliable=newer is None))
        report.partitions = len(replay.state.partitions)
        report.seconds = time.perf_counter() - started
        yield report.operations


KIND = "controller operations"
PROGRESS_EVERY = 100


def rules_in_force(
    meta: RecordingMeta, profile: str | None = None, rules: Mapping[str, bool] | None = None
) -> RuleSet:
    """The rules to replay with: what the recording says, unless told otherwise.

    Raises LanguageError for a profile or a rule that does not exist.
    """
    if profile is not None:
        return rule_set(profile, rules)
    return rule_set(meta.profile, rules, ("clean_registration",) * meta.clean_aware_registration)


def replay_recording(
    file: Path,
    profile: str | None = None,
    rules: Mapping[str, bool] | None = None,
    progress: Callable[[Report], None] | None = None,
) -> Report:
    """Replay a recording. KeyboardInterrupt ends it with what was found so far (``Report.interrupted``).

    ``profile`` and ``rules`` go over what the recording says. Raises TraceError where the file cannot be read,
    LanguageError where the profile or a rule does not exist.
    """
    if file.exists() and not file.is_file():
        raise TraceError(file, None, None, "not a file")
    trace = read_controller_trace(file)
    chosen = rules_in_force(trace.meta, profile, rules)
    report = Report(str(file), KIND, chosen.profile, tuple(sorted(chosen.rules)))
    try:
        for done in replay_operations(trace, chosen.rules, report):
            if progress and done % PROGRESS_EVERY == 0:
                progress(report)
    except KeyboardInterrupt:
        report.interrupted = True
    return report
