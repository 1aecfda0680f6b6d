"""Raft logs of a cluster's nodes: whether the quorum's rules explain them, and what promises they break."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path

from highwater.invariants.quorum import INVARIANTS
from highwater.model.language.choices import rules_on
from highwater.model.quorum import Quorum
from highwater.model.rulebook import RULEBOOK
from highwater.traces.raft import events as e
from highwater.traces.raft.delays import Delays
from highwater.traces.raft.follow import Follower
from highwater.traces.raft.judge import PROFILE, Judge
from highwater.traces.raft.order import Order
from highwater.traces.raft.reader import RaftLog
from highwater.traces.raft.window import OBSERVERS, TooLarge
from highwater.traces.reading.errors import TraceError
from highwater.traces.reports.findings import Finding
from highwater.traces.reports.report import Report

KIND = "raft logs"
TOPIC = "__cluster_metadata-0"
PROGRESS_EVERY = 5_000
MAX_MEMBERS = 5
"""Voters that the model can have."""

Progress = Callable[[Report], None]

_judge = lru_cache(maxsize=4)(Judge)
"""What was traced, and evaluated, for one cluster is kept for the next."""


@dataclass
class _NodeLogs:
    """The files of one node, in order of time, and what could not be read of them."""

    node: int
    logs: list[RaftLog]
    wrong: list[TraceError]

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
    """Hold the raft logs of one cluster against the protocol `quorum`: one file a node, or several of different times.

    Raises TraceError where a file cannot be read or says what cannot be, LanguageError where the profile or a rule does
    not exist.
    """
    begun = time.monotonic()
    profile = profile or PROFILE
    in_force = rules_on(Quorum, profile, rules or {})
    report = Report(str(_common(files)), KIND, profile, tuple(sorted(in_force)))
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
            "no line says who the voters are: a log that begins with a process is needed",
        )
    if len(voters) > MAX_MEMBERS:
        raise TraceError(files[0], None, "voters", f"more than {MAX_MEMBERS}")
    order = Order((node.node, node) for node in nodes)
    follower, delays = Follower(_judge(len(voters), in_force), order, voters), Delays()
    asked, evaluated = _Asked(follower, report), follower.judge.steps.missed
    try:
        for count, (event, exchange) in enumerate(order, start=1):
            timers = follower.explained["park_timer"]
            asked.before(event)
            follower.follow(event, exchange)
            delays.take(event, exchange, follower.explained["park_timer"] > timers)
            if progress is not None and count % PROGRESS_EVERY == 0:
                report.operations = count
                progress(report)
    except KeyboardInterrupt:
        report.interrupted = True
    follower.finish()
    asked.ask(None)
    _tell(report, nodes, follower, delays)
    report.figures["steps evaluated"] = follower.judge.steps.missed - evaluated
    report.seconds = time.monotonic() - begun
    return report


def _common(files: Sequence[Path]) -> Path:
    parents = [file.absolute().parents for file in files]
    shared = [p for p in parents[0] if all(p in of for of in parents)]
    return shared[0] if len(files) > 1 and shared else files[0]


def _first(node: _NodeLogs) -> Iterator[e.Event]:
    """The first lines that say something, which every process writes in the same order."""
    for count, event in enumerate(node.logs[0]):
        if count >= 100:
            return
        yield event


def _nodes(files: Sequence[Path], report: Report) -> list[_NodeLogs]:
    found: dict[int, list[tuple[int, RaftLog]]] = {}
    for file in files:
        first = next(iter(RaftLog(file)), None)
        if first is None:
            report.notes.append(f"{file}: no line of a raft client, left out")
            continue
        report.bytes_total += file.stat().st_size
        found.setdefault(first.node, []).append((first.time_ms, RaftLog(file)))
    if not found:
        raise TraceError(files[0], None, None, "no line of a raft client")
    in_order = {
        node: [log for _, log in sorted(logs, key=lambda pair: pair[0])] for node, logs in found.items()
    }
    return [_NodeLogs(node, logs, []) for node, logs in sorted(in_order.items())]


class _Asked:
    """Asks the properties of `quorum` of what is believed between turns, and tells each once while it is violated."""

    def __init__(self, follower: Follower, report: Report) -> None:
        self._follower, self._report = follower, report
        self._violated: frozenset[str] = frozenset()
        self._last: e.Event | None = None
        self._source = {i.name: i for i in INVARIANTS}
        self.not_asked = 0

    def before(self, event: e.Event) -> None:
        """What a line changed is asked when its turn is over: before the next message, on any node."""
        if isinstance(event.what, e.Sent | e.Received | e.GotAnswer | e.Appended | e.Started):
            self.ask(self._last)
        self._last = event

    def ask(self, event: e.Event | None) -> None:
        """Ask, of the voters and of who has just done something."""
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
                f"behind this line of node {event.node} it is not so that {said}",
                kip=RULEBOOK.origin(rule),
                facts={"node": event.node},
            )
        )


def _tell(report: Report, nodes: Sequence[_NodeLogs], follower: Follower, delays: Delays) -> None:
    logs = list(chain.from_iterable(node.logs for node in nodes))
    report.operations = sum(log.lines for log in logs)
    report.bytes_read = sum(log.bytes_read for log in logs)
    report.changes = sum(follower.explained.values())
    report.skipped = dict(sorted(follower.outside.items()))
    for line in follower.unexplained:
        report.add(line)
    report.unexplained_count = follower.unexplained_count
    cut = sum(log.cut for log in logs)
    if cut:
        report.notes.append(f"{cut} lines break off, where a process died, and are left out")
    report.figures = delays.figures()
    report.figures |= {f"explained: {name}": count for name, count in sorted(follower.explained.items())}
    report.figures |= {f"guessed: {name}": count for name, count in sorted(follower.guessed.items())}
    report.figures["nodes"] = len(nodes)
