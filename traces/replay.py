"""Replay: whether the protocol explains what a system did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path

from highwater.traces.cluster import replay_cluster
from highwater.traces.inputs import OPERATIONS, RAFT_LOG, RUN, Input, inputs
from highwater.traces.operations.recording import replay_recording
from highwater.traces.raft.replay import replay_raft
from highwater.traces.reading.errors import TraceError
from highwater.traces.reports.report import Report
from highwater.traces.runs.history import History
from highwater.traces.runs.replay import replay_run

ProgressCallback = Callable[[Report], None]


def replay(
    path: str | PathLike[str],
    profile: str | None = None,
    rules: Mapping[str, bool] | None = None,
    progress: ProgressCallback | None = None,
    *,
    broker_logs: Sequence[str | PathLike[str]] = (),
    timelines: bool = False,
) -> Report:
    """Replay what a path holds: a metadata log or its dump, recorded operations of a controller, or a run of a model.

    A directory has to hold one of them; logs of brokers below it, dumps of their data segments, and request logs are
    read with a metadata log, and so are ``broker_logs``, which can be any of these. ``rules`` switches single rules on
    or off, over the profile. With ``timelines`` the report also has what happened to the partitions. KeyboardInterrupt
    ends a replay with what was found so far (``Report.interrupted``). Raises TraceError where something cannot be read,
    LanguageError where the profile or a rule does not exist.
    """
    found = inputs([Path(path), *(Path(log) for log in broker_logs)]).found
    if len(found) != 1:
        names = ", ".join(str(i.path) for i in found[:5])
        raise TraceError(Path(path), None, None, f"{len(found)} inputs, where one is expected: {names}")
    return replay_input(found[0], profile, rules, progress, timelines)


def replay_input(
    found: Input,
    profile: str | None = None,
    rules: Mapping[str, bool] | None = None,
    progress: ProgressCallback | None = None,
    timelines: bool = False,
    history: History | None = None,
) -> Report:
    """Replay one of the inputs that ``highwater.traces.inputs.inputs`` found; otherwise as ``replay``.

    A ``history`` is given what the replay of a run goes through.
    """
    if found.kind == OPERATIONS:
        return replay_recording(found.path, profile, rules, progress)
    if found.kind == RUN:
        return replay_run(found.path, rules, profile, progress, history=history)
    if found.kind == RAFT_LOG:
        return replay_raft(found.raft_logs, profile, rules, progress)
    report = replay_cluster(
        found.path,
        found.broker_logs,
        profile,
        rules,
        progress,
        timelines,
        found.data_dumps,
        found.request_logs,
    )
    report.notes[:0] = found.notes
    return report


__all__ = ["replay", "replay_input"]
