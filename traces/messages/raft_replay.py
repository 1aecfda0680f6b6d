"""Replay of a cluster's raft logs: conformance with the quorum's rules, violations, and delays of commits."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from statistics import median_high

from highwater.invariants.quorum import INVARIANTS
from highwater.model.language.protocol import rules_on
from highwater.model.quorum import Quorum
from highwater.model.rulebook import RULEBOOK
from highwater.traces.messages import raft_events as e
from highwater.traces.messages.copies import without_copies
from highwater.traces.messages.quorum import (
    OBSERVERS,
    PROFILE,
    Judge,
    TooLarge,
)
from highwater.traces.messages.quorum_roles import Follower
from highwater.traces.messages.raft_events import (
    Appended,
    Event,
    Hwm,
    Order,
)
from highwater.traces.messages.raft_lines import RaftLog, first_line
from highwater.traces.reading import TraceError
from highwater.traces.reports.findings import Finding
from highwater.traces.reports.report import RAFT_LOGS, Report

# --- delays ----------------------------------------------------------------------------------------------

MAX_APPENDS = 200
"""The most appends that are followed at a time; older ones are dropped."""


class Delays:
    """Measures how long a leader's append takes until the leader's HWM reaches its end. ``ms`` has the delays.

    Pass events to ``take`` in order.
    """

    def __init__(self) -> None:
        self.ms: list[int] = []
        self._leader: int | None = None
        self._open: deque[tuple[int, int]] = deque(maxlen=MAX_APPENDS)
        """The end and the time of each append that the HWM has not reached."""

    def take(self, event: Event) -> None:
        """Process the next event."""
        what = event.what
        if isinstance(what, Appended):
            if event.node != self._leader:
                self._leader = event.node
                self._open.clear()
            self._open.append((what.end, event.time_ms))
        elif isinstance(what, Hwm) and what.final and what.leads and event.node == self._leader:
            while self._open and self._open[0][0] <= what.offset:
                self.ms.append(event.time_ms - self._open.popleft()[1])

    def figures(self) -> dict[str, int]:
        """Figures for a report: the median delay and the longest one."""
        return (
            {"commit, median ms": median_high(self.ms), "commit, longest ms": max(self.ms)} if self.ms else {}
        )


# --- replay ----------------------------------------------------------------------------------------------

TOPIC = "__cluster_metadata-0"
PROGRESS_EVERY = 5_000
MAX_MEMBERS = 5
"""The most voters in the model."""

Progress = Callable[[Report], None]

_judge = lru_cache(maxsize=4)(Judge)
"""Cached: the next cluster reuses the model and its evaluated steps."""


@dataclass
class _NodeLogs:
    """The log files of one node, in order of time."""

    node: int
    logs: list[RaftLog]

    def __iter__(self) -> Iterator[e.Event]:
        for log in self.logs:
            for event in log:
                if event.node != self.node:
                    raise event.place.wrong(f"a line of node {event.node} in the log of node {self.node}")
                yield event


def replay_raft(
    files: Sequence[Path],
    profile: str | None = None,
    rules: Mapping[str, bool] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Replay the raft logs of one cluster in the protocol `quorum`.

    A node may have several files of different times; copies of a file are skipped.
    ``progress`` gets the report now and then; KeyboardInterrupt ends the replay early. Raises TraceError if a file
    cannot be read or has an impossible value, or if no line names the voters or one names more than MAX_MEMBERS. Raises
    LanguageError if the profile or a rule does not exist.
    """
    begun = time.monotonic()
    profile = profile or PROFILE
    in_force = rules_on(Quorum, profile, rules or {})
    report = Report(str(_common(files)), RAFT_LOGS, profile, tuple(sorted(in_force)))
    nodes = _nodes(files, report)
    voters = next(
        (event.what.voters for node in nodes for event in _first(node) if isinstance(event.what, e.Started)),
        (),
    )
    if not voters:
        raise TraceError(
            files[0],
            None,
            None,
            "no line names the voters: add a log from before a node's process started",
        )
    if len(voters) > MAX_MEMBERS:
        raise TraceError(files[0], None, "voters", f"more than {MAX_MEMBERS}")
    order = Order((node.node, node) for node in nodes)
    follower, delays = Follower(_judge(len(voters), in_force), order, voters, report), Delays()
    asked, evaluated = _Asked(follower, report), follower.judge.steps.missed
    try:
        for count, (event, exchange) in enumerate(order, start=1):
            asked.before(event)
            follower.follow(event, exchange)
            delays.take(event)
            if progress is not None and count % PROGRESS_EVERY == 0:
                report.operations = count
                progress(report)
    except KeyboardInterrupt:
        report.interrupted = True
    follower.finish()
    asked.ask(None)
    _tell(report, nodes, follower, delays)
    if asked.not_asked:
        report.notes.append(f"properties not checked in {asked.not_asked} states: too many offsets or epochs")
    report.figures["steps evaluated"] = follower.judge.steps.missed - evaluated
    report.seconds = time.monotonic() - begun
    return report


def _common(files: Sequence[Path]) -> Path:
    parents = [file.absolute().parents for file in files]
    shared = [p for p in parents[0] if all(p in of for of in parents)]
    return shared[0] if len(files) > 1 and shared else files[0]


def _first(node: _NodeLogs) -> Iterator[e.Event]:
    """The first 100 events in the first file of a node."""
    for count, event in enumerate(node.logs[0]):
        if count >= 100:
            return
        yield event


def _nodes(files: Sequence[Path], report: Report) -> list[_NodeLogs]:
    found: dict[int, list[tuple[int, RaftLog]]] = {}
    for file in without_copies(files, first_line, report.notes):
        first = next(iter(RaftLog(file)), None)
        if first is None:
            report.notes.append(f"skipped {file}: no line of a raft client")
            continue
        report.bytes_total += file.stat().st_size
        found.setdefault(first.node, []).append((first.time_ms, RaftLog(file)))
    if not found:
        raise TraceError(files[0], None, None, "no line of a raft client")
    in_order = {
        node: [log for _, log in sorted(logs, key=lambda pair: pair[0])] for node, logs in found.items()
    }
    return [_NodeLogs(node, logs) for node, logs in sorted(in_order.items())]


class _Asked:
    """Checks the properties of `quorum` between turns. A property is reported once while it stays violated."""

    def __init__(self, follower: Follower, report: Report) -> None:
        self._follower, self._report = follower, report
        self._violated: frozenset[str] = frozenset()
        self._last: e.Event | None = None
        self._source = {i.name: i for i in INVARIANTS}
        self.not_asked = 0
        """The number of states in which the properties were not checked, because the model is too small."""

    def before(self, event: e.Event) -> None:
        """Check the properties if an event begins a new turn."""
        if isinstance(event.what, e.Sent | e.Received | e.GotAnswer | e.Appended | e.Started):
            self.ask(self._last)
        self._last = event

    def ask(self, event: e.Event | None) -> None:
        """Check the properties of the voters, and of up to OBSERVERS others: the acting node, and members with fetches.

        Members whose log is unknown are left out. ``event`` is the last event; None means the one passed to ``before``.
        """
        event = event or self._last
        if event is None:
            return
        belief = self._follower.belief
        others = [event.node] if event.node not in belief.voters else []
        parked = [f for f in (*belief.responses, *belief.parked) if f not in belief.voters]
        chosen = list(dict.fromkeys([*others, *parked]))[:OBSERVERS]
        nodes = [n for n in (*belief.voters, *chosen) if n in belief.nodes and belief.node(n).log is not None]
        try:
            violated = frozenset(self._follower.judge.violated(belief, nodes))
        except TooLarge:
            self.not_asked += 1
            return
        for name in sorted(violated - self._violated):
            self._find(event, name)
        self._violated = violated

    def _find(self, event: e.Event, name: str) -> None:
        invariant = self._source[name]
        rule = invariant.source.split(",")[0].strip()
        said = f"{invariant.meaning[0].lower()}{invariant.meaning[1:]}"
        self._report.find(
            Finding(
                invariant.source,
                name,
                TOPIC,
                {"file": str(event.place.path), "line": event.place.line},
                event.time_ms,
                f"after this line of node {event.node}, {name} does not hold: {said}",
                kip=RULEBOOK.origin(rule),
                facts={"node": event.node},
            )
        )


def _tell(report: Report, nodes: Sequence[_NodeLogs], follower: Follower, delays: Delays) -> None:
    logs = list(chain.from_iterable(node.logs for node in nodes))
    report.operations = sum(log.lines for log in logs)
    report.bytes_read = sum(log.bytes_read for log in logs)
    report.changes = sum(follower.verdicts.explained.values())
    report.skipped = dict(sorted(follower.verdicts.outside.items()))
    cut = sum(log.cut for log in logs)
    if cut:
        report.notes.append(f"skipped {cut} lines that are cut off: a process died")
    report.figures = delays.figures()
    report.figures |= {
        f"explained: {name}": count for name, count in sorted(follower.verdicts.explained.items())
    }
    report.figures |= {f"guessed: {name}": count for name, count in sorted(follower.verdicts.guessed.items())}
    report.figures["nodes"] = len(nodes)
