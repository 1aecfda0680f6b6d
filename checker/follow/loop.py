"""The loop of ``replay --follow``: poll the logs and report changes of incidents, until a signal ends it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from highwater.checker.base.problems import InputError, Status, interruption
from highwater.checker.follow.outputs import EventFile, Hook, IncidentsFile, Metrics, note, say
from highwater.checker.plan.answer import margins
from highwater.checker.plan.kinds import ObservedCluster
from highwater.checker.plan.search import Searches
from highwater.traces.follow.session import ClusterLogs, Following, IncidentChange, Notice
from highwater.traces.kafka.metadata_log import PARTITION
from highwater.traces.metadata.replay import rarely_collected
from highwater.traces.reading import printable
from highwater.traces.reports.incident_words import LABELS
from highwater.traces.reports.text import moment

MAX_GARBAGE = 100_000
"""The number of new objects after which Python collects garbage; a larger number would cost more memory."""
POLL_SECONDS = 0.5
_PLAN_SECONDS = 10.0
"""The least seconds between two answers to ``--plan``."""
_HOOK_SECONDS = 0.02
"""The seconds between two looks at a running command."""


class Outputs:
    """The outputs of a follower. An output is None if no option requests it."""

    def __init__(
        self, events: str | None, incidents: IncidentsFile | None, metrics: str | None, command: str | None
    ) -> None:
        self.incidents = incidents
        self.hook = None if command is None else Hook(command)
        self.metrics = None if metrics is None else Metrics(metrics)
        self._events = None if events is None else EventFile(events)

    def take(self, said: IncidentChange | Notice) -> None:
        """Pass a change or a notice on."""
        if self._events is not None:
            self._events.write(said.to_json())
        if isinstance(said, IncidentChange):
            if self.metrics is not None:
                self.metrics.count(said)
            if self.hook is not None:
                self.hook.give(said)

    def update(self, following: Following, *, is_last: bool = False) -> None:
        """Update the metrics and the file of incidents, which is written only after all lines of events."""
        if self.metrics is not None:
            severities = [str(one["severity"]) for one in following.reported.values()]
            self.metrics.update(following.counts, severities)
        now = following.open_incidents
        if (self._events is None or self._events.flush()) and self.incidents is not None and now is not None:
            self.incidents.write(now, always=is_last)

    def wait(self, stop: threading.Event) -> None:
        """Wait for the next poll, and run the user's command meanwhile."""
        end = time.monotonic() + POLL_SECONDS
        while not stop.is_set() and (left := end - time.monotonic()) > 0:
            is_busy = self.hook is not None and self.hook.work()
            stop.wait(min(left, _HOOK_SECONDS) if is_busy else left)

    def close(self) -> None:
        """Close all outputs."""
        for output in (self.hook, self.metrics, self._events):
            if output is not None:
                output.close()


class StandingPlan:
    """The answer to ``--plan``, such as "restart any": it is renewed when the log has grown, but not too often."""

    def __init__(self, plan: str) -> None:
        self._action, _, self._broker = plan.partition(" ")
        if self._action not in ("restart", "kill", "drain") or not self._broker:
            raise InputError(f"--plan {plan}: expected restart, kill or drain, then a broker or any")
        self._offset, self._next, self._searches = -1, 0.0, Searches()

    def update(self, following: Following, metrics: Metrics) -> None:
        """Set the metrics, if they are due."""
        follower, offset, now = following.follower, following.counts.next_offset, time.monotonic()
        if follower is None or following.is_behind or offset == self._offset or now < self._next:
            return
        rules = follower.rules
        cluster = ObservedCluster(follower.image, follower.beliefs, rules.rules, rules.profile, (None, False))
        try:
            metrics.margins(self._action, margins(self._action, self._broker, cluster, self._searches))
        except InputError as wrong:
            note(f"--plan: {printable(wrong, 300)}")
        self._offset, self._next = offset, now + _PLAN_SECONDS


def follow(
    paths: Sequence[Path],
    profile: str | None,
    rules: Mapping[str, bool],
    events: str | None = None,
    incidents: Path | None = None,
    metrics: str | None = None,
    command: str | None = None,
    plan: str | None = None,
    *,
    quiet: bool = False,
) -> Status:
    """Follow the metadata log in the first of ``paths`` until SIGTERM (status 0) or SIGINT (130).

    Further ``paths`` are directories with brokers' logs. ``events``, ``incidents``, ``metrics`` and ``command`` name
    the outputs. Raises InputError if a path is a file or an output cannot be opened, and LanguageError for an unknown
    profile or rule.
    """
    for path in paths:
        if path.exists() and not path.is_dir():
            raise InputError(f"{path}: --follow needs directories: of a metadata log, then of brokers' logs")
    log = paths[0] if paths[0].absolute().name == PARTITION else paths[0] / PARTITION
    standing = None if plan is None else StandingPlan(plan)
    file = None if incidents is None else IncidentsFile(incidents, log)
    outputs = Outputs(events, file, metrics, command)
    before = None if file is None else file.read()
    following = Following(ClusterLogs(log, paths[1:], profile, rules), before)
    stop, interrupted = threading.Event(), threading.Event()

    def interrupt() -> None:
        interrupted.set()
        stop.set()

    try:
        with (
            interruption(interrupt),
            interruption(stop.set, signal.SIGTERM),
            rarely_collected(MAX_GARBAGE),
        ):
            if not quiet:
                note(f"follows {log}; SIGTERM or Ctrl-C ends it")
            if outputs.metrics is not None and outputs.metrics.address is not None:
                note(f"metrics at {outputs.metrics.address}")
            while not stop.is_set():
                for said in following.poll():
                    outputs.take(said)
                    if not quiet:
                        _say(said)
                if standing is not None and outputs.metrics is not None:
                    standing.update(following, outputs.metrics)
                outputs.update(following)
                if not following.is_behind:
                    outputs.wait(stop)
        outputs.update(following, is_last=True)
        return Status.INTERRUPTED if interrupted.is_set() else Status.OK
    finally:
        following.close()
        outputs.close()


def _say(said: IncidentChange | Notice) -> None:
    """Print a change or a notice for people on standard error."""
    if isinstance(said, Notice):
        where = "" if said.offset is None else f" at offset {said.offset}"
        note(f"{said.kind}{where}: {said.text}")
        return
    label = LABELS[str(said.incident["severity"])]
    say(printable(f"{moment(said.time)}  {said.event}  {label}: {said.incident['headline']}", 1000))
