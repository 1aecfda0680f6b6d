"""Replay of a file with a controller's recorded operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from highwater.traces.operations.format import Meta
from highwater.traces.operations.read_recording import read_controller_trace
from highwater.traces.operations.replay import replay_operations
from highwater.traces.reading.errors import TraceError
from highwater.traces.reports.report import Report
from highwater.traces.rules.rule_sets import RuleSet, rule_set

KIND = "controller operations"
PROGRESS_EVERY = 100


def rules_in_force(
    meta: Meta, profile: str | None = None, rules: Mapping[str, bool] | None = None
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


__all__ = ["KIND", "replay_recording", "rules_in_force"]
