"""Replay: whether the protocol explains what a system did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path

from model.language.errors import LanguageError
from model.replication.controller.rules import PROFILES, RULES
from traces.errors import TraceError
from traces.operations.format import Meta
from traces.operations.read_recording import read_controller_trace
from traces.operations.replay import replay_operations
from traces.report import Report

ProgressCallback = Callable[[Report], None]
CONTROLLER = "controller operations"
PROGRESS_EVERY = 100


def rules_in_force(
    meta: Meta, profile: str | None = None, rules: Mapping[str, bool] | None = None
) -> tuple[str, frozenset[str]]:
    """The profile and the rules to replay with: what the recording says, unless told otherwise.

    Raises LanguageError for a profile or a rule that does not exist.
    """
    name = meta.profile if profile is None else profile
    if name not in PROFILES:
        raise LanguageError(f"there is no profile {name!r}; there are {', '.join(sorted(PROFILES))}")
    on = set(PROFILES[name].rules)
    if profile is None and meta.clean_aware_registration:
        on.add("clean_registration")
    for rule, is_on in (rules or {}).items():
        if rule not in RULES:
            raise LanguageError(f"there is no rule {rule!r}; there are {', '.join(sorted(RULES))}")
        (on.add if is_on else on.discard)(rule)
    return name, frozenset(on)


def replay(
    path: str | PathLike[str],
    profile: str | None = None,
    rules: Mapping[str, bool] | None = None,
    progress: ProgressCallback | None = None,
) -> Report:
    """Replay a file. KeyboardInterrupt ends it with what was found so far (``Report.interrupted``).

    ``rules`` switches single rules on or off, over the profile. Raises TraceError where the file cannot be
    read, LanguageError where the profile or a rule does not exist.
    """
    file = Path(path)
    if file.exists() and not file.is_file():
        raise TraceError(file, None, None, "not a file")
    trace = read_controller_trace(file)
    name, on = rules_in_force(trace.meta, profile, rules)
    report = Report(str(path), CONTROLLER, name, tuple(sorted(on)))
    try:
        for done in replay_operations(trace, on, report):
            if progress and done % PROGRESS_EVERY == 0:
                progress(report)
    except KeyboardInterrupt:
        report.interrupted = True
    return report


__all__ = ["CONTROLLER", "replay", "rules_in_force"]
