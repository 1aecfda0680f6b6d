"""What all readers of request logs share: the controllers' requests, clocks, and where verdicts go.

What came of the messages: how many each action explains, what was guessed, what was outside, what is left.

What the controllers' request logs say: proposals, registrations, and how far brokers had replayed the metadata log.

It is read before the brokers' logs, and lies in tables on disk until it is asked for. Times are those of the logs
until ``settle`` is told how far each log's clock is ahead.

Clocks of nodes that differ from that of the metadata log by more than is allowed for.

A controller's answer to a proposal and the record that it made are one decision: what lies between their times, if it
is much and always so, is between two clocks, and is taken out. A broker's clock is behind where it answers in leader
epochs that have not begun. It is ahead where it answers in some when a heartbeat has told the controller that it
knows the next ones, or where most of its proposals come before the fetches by which somebody is eligible. One such
thing can be wrong; several are a clock.

What all judges share: the metadata log's side, the controller's requests, and where verdicts go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from msgspec import msgpack
from msgspec.structs import replace

from highwater.invariants.statements import Statement
from highwater.model.rulebook import RULEBOOK
from highwater.traces.kafka.broker_log import UtcOffset
from highwater.traces.messages.metadata_index import NEVER, Spine, Tables, Version
from highwater.traces.messages.request_lines import Heartbeat, Proposal, Registered, RequestLine
from highwater.traces.reports.findings import Candidate, Doubt, Finding, Unexplained
from highwater.traces.reports.report import Report

# --- verdicts --------------------------------------------------------------------------------------------

ANSWERED, REFUSED, DIVERGED = "answer_fetch", "refuse_fetch", "answer_fetch where logs diverge"
TAKEN, SENT = "take_fetch_answer", "send_fetch"
WRITTEN, ACKNOWLEDGED, NOT_WRITTEN = "write_acks_all", "acknowledge", "write refused"
PROPOSED, DECIDED = "propose_expand or propose_shrink", "handle_alter_partition"
REGISTERED = "start_broker"

LIMIT = 1000
"""So many lines that are not explained are told, and so many findings."""


@dataclass
class Verdicts:
    """Counts by name, and the lines that are told. ``dropped`` are those over a limit."""

    explained: Counter[str] = field(default_factory=Counter)
    guessed: Counter[str] = field(default_factory=Counter)
    outside: Counter[str] = field(default_factory=Counter)
    unexplained: list[Unexplained] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    unexplained_count: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    limit: int = field(default_factory=lambda: LIMIT)

    def not_explained(
        self,
        line: RequestLine,
        partition: str | None,
        action: str,
        refused_by: tuple[str, ...] = (),
        differences: Mapping[str, tuple[Any, Any]] | None = None,
        **parameters: object,
    ) -> None:
        """A message that nothing explains: the action that should have, and why it does not."""
        candidate = Candidate(action, parameters, refused_by, (), differences or {})
        position = {"file": str(line.path), "line": line.line}
        self.unfit(Unexplained(position, round(line.ended), partition, {}, (candidate,)))

    def unfit(self, line: Unexplained) -> None:
        """A line that nothing explains."""
        self.unexplained_count += 1
        if len(self.unexplained) < self.limit:
            self.unexplained.append(line)

    def found(self, finding: Finding) -> None:
        """A promise that is broken."""
        if len(self.findings) < self.limit:
            self.findings.append(finding)
        else:
            self.dropped[finding.property] += 1

    def figures(self) -> dict[str, int]:
        """The counts by name, for a report."""
        kinds = (("explained", self.explained), ("guessed", self.guessed), ("outside", self.outside))
        totals = {f"messages {kind}": counted.total() for kind, counted in kinds}
        single = {
            f"messages {kind}: {n}": c for kind, counted in kinds for n, c in sorted(counted.items()) if c
        }
        return totals | single

    def tell(self, report: Report) -> None:
        """Add all of it to a report."""
        for line in self.unexplained:
            report.add(line)
        report.unexplained_count += self.unexplained_count - len(self.unexplained)
        for finding in self.findings:
            report.find(finding)
        for name, count in self.dropped.items():
            report.findings_count[name] = report.findings_count.get(name, 0) + count
        report.figures |= self.figures()


# --- asked -----------------------------------------------------------------------------------------------

_SCHEMA = """
CREATE TABLE proposal (
    number INTEGER PRIMARY KEY, log INTEGER, arrived REAL, life INTEGER, broker INTEGER, epoch INTEGER,
    partition_epoch INTEGER, error INTEGER, made INTEGER, topic TEXT, body BLOB
);
CREATE INDEX in_order ON proposal (arrived, number);
CREATE INDEX of_leader ON proposal (broker, life, epoch, arrived, number);
CREATE INDEX of_life ON proposal (life, error, made);
CREATE TABLE apart (log INTEGER, ms REAL);
CREATE INDEX by_ms ON apart (log, ms);
CREATE TABLE registered (number INTEGER PRIMARY KEY, body BLOB);
CREATE TABLE told (number INTEGER PRIMARY KEY, broker INTEGER, log INTEGER, arrived REAL, replayed INTEGER);
CREATE TABLE replayed (broker INTEGER, position INTEGER, time REAL, PRIMARY KEY (broker, position)) WITHOUT ROWID;
CREATE INDEX by_time ON replayed (broker, time);
"""
NEW_LEADER_ELECTED = 108


class AskedOfControllers:
    """The requests to controllers, as they are read (``add_…``), and what they say once they are settled."""

    def __init__(self, spine: Spine) -> None:
        self._spine, self._tables = spine, Tables(_SCHEMA)
        self._paths: list[Path] = []
        self._ahead: dict[Path, float] = {}
        self._offset = UtcOffset()
        self._next: dict[tuple[int, int], float] = {}
        """Of each broker in each log, the first change that it has not said to have replayed."""
        self.unknown = 0
        """Proposals for partitions that the metadata log does not have."""
        # Rows have the number of a line's file, which is the last one when they are written.
        self._encoded = msgpack.Encoder(enc_hook=lambda path: len(self._paths) - 1).encode
        self._proposal = msgpack.Decoder(Proposal, dec_hook=self._path).decode
        self._registered = msgpack.Decoder(Registered, dec_hook=self._path).decode

    # --- what is read -----------------------------------------------------------------------------------

    def _log(self, line: RequestLine) -> int:
        """The number of a line's file."""
        if not self._paths or self._paths[-1] != line.path:
            self._paths.append(line.path)
        return len(self._paths) - 1

    def _path(self, kind: type, number: int) -> Path | None:
        return self._paths[number] if kind is Path else None  # what a request said is not kept

    def add_proposal(self, found: Proposal) -> None:
        """A partition of an AlterPartition. Raises TraceError."""
        line, log = replace(found.line, said=None), self._log(found.line)
        history = self._spine.history(*found.key)
        if history is None:
            self.unknown += 1
        elif not found.error:
            for version in history.with_partition_epoch(found.leader_epoch, found.answer_partition_epoch):
                self._offset.add(round(line.answered), version.time)
                self._tables.write("INSERT INTO apart VALUES (?, ?)", log, line.answered - version.time)
        self._tables.write(
            "INSERT INTO proposal VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            log, line.arrived, None if history is None else history.number, found.broker,
            found.leader_epoch, found.partition_epoch, found.error, found.answer_partition_epoch, found.key[0],
            self._encoded(replace(found, line=line)),
        )  # fmt: skip

    def add_registration(self, line: RequestLine, found: Registered) -> None:
        """A registration of a broker."""
        self._log(line)
        body = self._encoded(found._replace(line=replace(line, said=None)))
        self._tables.write("INSERT INTO registered VALUES (NULL, ?)", body)

    def add_heartbeat(self, line: RequestLine, found: Heartbeat) -> None:
        """A heartbeat, in the order of its log; one that was refused says nothing.

        They come every two seconds of each broker, and of most the offset says nothing new of a partition or a
        broker: kept are those before which something changed.
        """
        if found.error:
            return
        log, offset = self._log(line), found.metadata_offset
        if offset >= self._next.get((found.broker, log), -NEVER):
            self._next[(found.broker, log)] = self._spine.changes_after(offset)
            self._tables.write(
                "INSERT INTO told VALUES (NULL, ?, ?, ?, ?)", found.broker, log, line.arrived, offset
            )

    # --- clocks -----------------------------------------------------------------------------------------

    @property
    def offset_ms(self) -> int:
        """How far the logs' time is ahead of UTC, by its zone."""
        return self._offset.offset_ms or 0

    def apart(self) -> Iterator[tuple[Path, int, float]]:
        """Of each log how many decisions there are, and the median of how many ms it is ahead of the metadata log's."""
        for log, path in enumerate(self._paths):
            row = self._tables.row("SELECT count(*) FROM apart WHERE log = ?", log)
            count = 0 if row is None else int(row[0])
            if count:
                middle = self._tables.rows(
                    "SELECT ms FROM apart WHERE log = ? ORDER BY ms LIMIT ? OFFSET ?",
                    log, 2 - count % 2, (count - 1) // 2,
                )  # fmt: skip
                yield path, count, median(ms for (ms,) in middle)

    def settle(self, ahead: Callable[[Path], float]) -> None:
        """Take out by how many ms the times of each log are ahead. What the controllers said can be asked for then."""
        self._ahead = {path: ahead(path) for path in self._paths}
        for log, path in enumerate(self._paths):
            for table in ("proposal", "told"):
                self._tables.write(
                    f"UPDATE {table} SET arrived = arrived - ? WHERE log = ?", self._ahead[path], log
                )
        of, highest = None, -1
        query = "SELECT broker, arrived, replayed FROM told ORDER BY broker, arrived, number"
        for broker, time, offset in self._tables.rows(query):
            if broker != of or offset > highest:
                self._tables.write("INSERT INTO replayed VALUES (?, ?, ?)", broker, offset, time)
                of, highest = broker, offset

    def _settled(self, line: RequestLine) -> RequestLine:
        by = self._ahead[line.path]
        times = {name: getattr(line, name) - by for name in ("arrived", "taken", "answered", "ended")}
        return replace(line, **times)

    # --- what they say ----------------------------------------------------------------------------------

    def registrations(self) -> Iterator[Registered]:
        """All registrations, in the order of the logs."""
        for (body,) in self._tables.rows("SELECT body FROM registered ORDER BY number"):
            found = self._registered(body)
            yield found._replace(line=self._settled(found.line))

    def proposals(self) -> Iterator[Proposal]:
        """All proposals for partitions that are known, in the order of their arrival."""
        query = "SELECT body FROM proposal WHERE life IS NOT NULL ORDER BY arrived, number"
        return self._read(self._tables.rows(query))

    def proposed(self, broker: int, life: int, epoch: int) -> Iterator[Proposal]:
        """A leader's proposals in a leader epoch, in the order of their arrival."""
        return self._read(self._tables.rows(
            "SELECT body FROM proposal WHERE broker = ? AND life = ? AND epoch = ? ORDER BY arrived, number",
            broker, life, epoch,
        ))  # fmt: skip

    def _read(self, rows: Iterable[tuple[bytes]]) -> Iterator[Proposal]:
        for (body,) in rows:
            found = self._proposal(body)
            yield replace(found, line=self._settled(found.line))

    def topics(self) -> list[str]:
        """The topics of all proposals, as they are named."""
        return [topic for (topic,) in self._tables.rows("SELECT DISTINCT topic FROM proposal ORDER BY topic")]

    def made(self, life: int, version: Version) -> bool:
        """Whether an answer tells of a version of a partition, or that somebody else came to lead in it."""
        epoch, state = version.state.leader_epoch, version.state
        told = self._tables.row(
            "SELECT 1 FROM proposal WHERE life = ? AND error = 0 AND made = ? AND epoch IN (?, ?)",
            life, state.partition_epoch, epoch, epoch - 1,
        )  # fmt: skip
        moved = self._tables.row(
            "SELECT 1 FROM proposal WHERE life = ? AND error = ? AND partition_epoch = ?",
            life, NEW_LEADER_ELECTED, state.partition_epoch - 1,
        )  # fmt: skip
        return told is not None or moved is not None

    def had_replayed(self, broker: int, position: int, by: float) -> bool:
        """Whether a broker had surely replayed the metadata log up to an offset by a time of the controller's clock."""
        query = "SELECT position FROM replayed WHERE broker = ? AND time <= ? ORDER BY time DESC, position DESC LIMIT 1"
        found = self._tables.row(query, broker, by)
        return found is not None and found[0] >= position

    def knew(self, broker: int, position: int | None) -> float:
        """By when, of the controller's clock, a broker had told that it had replayed an offset; never, of None."""
        query = "SELECT time FROM replayed WHERE broker = ? AND position >= ? ORDER BY position LIMIT 1"
        found = None if position is None else self._tables.row(query, broker, position)
        return NEVER if found is None else float(found[0])


# --- clocks ----------------------------------------------------------------------------------------------

OWN_MS = 100.0
"""So much later than the end of a request its line can be stamped, on a machine that is busy."""
CLOCKS_MS = 250.0
"""So far the clocks of two nodes may be apart."""
KIND = "clocks"
"""The kind of doubt that there is of what is said of a node whose clock is off."""
EARLY, LATE, JOINS = "early", "late", "joins"
OFF_MS = 2 * CLOCKS_MS
MAX_EPOCHS = 10_000
"""So many differences of a kind are kept."""
PAIRS, EPOCHS = 3, 2
"""From so many decisions, or leader epochs, on a difference is one of clocks."""


def controllers_ahead(asked: AskedOfControllers) -> dict[Path, float]:
    """By how many ms the clock of each controller's log is ahead of the metadata log, where that is too much."""
    middle = {path: ms - asked.offset_ms for path, count, ms in asked.apart() if count >= PAIRS}
    return {path: ms for path, ms in middle.items() if abs(ms) > OFF_MS}


class Apart:
    """Of one broker: by how much its lines came too early, or too late, by its own clock, and where."""

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.joins_in_time = 0
        """Proposals before which a fetch came that made who joins eligible."""
        self._by: dict[str, dict[tuple[int, int], float]] = {EARLY: {}, LATE: {}, JOINS: {}}
        self._first: dict[str, tuple[Path, int]] = {}

    def answer(self, line: RequestLine, history: int, epoch: int, ms: float, early: bool) -> None:
        """An answer before its leader epoch began, or when a heartbeat had told of the next one, by so many ms."""
        self._add(EARLY if early else LATE, (history, epoch), line, ms)

    def join(self, line: RequestLine, ms: float) -> None:
        """A proposal that came so many ms before the first fetch that made who joins eligible."""
        self._add(JOINS, (len(self._by[JOINS]), 0), line, ms)

    def _add(self, kind: str, key: tuple[int, int], line: RequestLine, ms: float) -> None:
        by = self._by[kind]
        if len(by) >= MAX_EPOCHS and key not in by:
            return
        by[key] = max(ms, by.get(key, 0.0))
        self._first.setdefault(kind, (line.path, line.line))

    def doubt(self) -> Doubt | None:
        """What is to be said, if it is a clock that is behind, or ahead."""
        enough = [kind for kind, by in self._by.items() if len(by) >= EPOCHS]
        if JOINS in enough and len(self._by[JOINS]) <= self.joins_in_time:
            enough.remove(JOINS)
        if not enough:
            return None
        kind = max(enough, key=lambda kind: len(self._by[kind]))
        seconds, count = median(self._by[kind].values()) / 1000, len(self._by[kind])
        path, number = self._first[kind]
        summary = (
            f"the clock of broker {self.broker} is {_WAYS[kind]} that of the metadata log, by {seconds:.1f} s or more: "
            f"{_WHY[kind].format(count)} ({path}). What is said of its log is not reliable"
        )
        return Doubt(KIND, summary, {"line": number}, ())


_WAYS = {EARLY: "behind", LATE: "ahead of", JOINS: "ahead of"}
_WHY = {
    EARLY: "it answers in {} leader epochs before they begin",
    LATE: "it answers in {} leader epochs when it has said that it knows the next ones",
    JOINS: "{} of its proposals came before the fetches that they are about",
}


# --- context ---------------------------------------------------------------------------------------------


@dataclass
class Context:
    """The spine, what the controllers' request logs say (``asked``), and the verdicts."""

    spine: Spine
    profile: str
    rules: frozenset[str]
    verdicts: Verdicts = field(default_factory=Verdicts)
    asked: AskedOfControllers = field(init=False)

    def __post_init__(self) -> None:
        self.asked = AskedOfControllers(self.spine)

    def finding(
        self,
        promise: Statement,
        rule: str,
        line: RequestLine,
        partition: str,
        summary: str,
        at_risk: str = "",
        certain: bool = True,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Tell of a promise that a message breaks."""
        position = {"file": str(line.path), "line": line.line}
        self.verdicts.found(
            Finding(
                rule,
                promise.name,
                partition,
                position,
                round(line.ended),
                summary,
                at_risk,
                RULEBOOK.origin(rule),
                certain,
                facts=dict(facts or {}),
            )
        )
