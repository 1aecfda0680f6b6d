"""The events of a broker's log (server.log, state-change.log): HWM, LEO, ISR and leadership of partitions.

Offsets, epochs and ids are Kafka's numbers. An ISR lists its members in the order of the log line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from highwater.traces.kafka.log_lines import LogLines, broker_of
from highwater.traces.reading import (
    INT32,
    INT64,
    Source,
    TraceError,
    printable,
    split,
)


@dataclass(frozen=True, slots=True)
class BrokerEvent:
    """An event from one line of a broker's log; ``partition`` is -1 if the event is not about one partition.

    ``time_ms`` is the local time as if it were UTC, in ms since the epoch. ``topic_id`` is empty if the line has none.
    """

    path: Path
    line: int
    time_ms: int
    broker: int
    topic: str
    partition: int
    topic_id: str = field(default="", kw_only=True)

    @property
    def name(self) -> str:
        """The partition's name, as Kafka writes it: topic, dash, number."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class HwmMoved(BrokerEvent):
    """The leader's HWM moved (B4), from the offset ``before`` to ``after``."""

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class HwmLowered(BrokerEvent):
    """A replica lowered its HWM from ``before`` to ``after``.

    A follower may do so (B4, B3); the line does not show whether this broker leads or follows.
    """

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class LeoRecorded(BrokerEvent):
    """The leader recorded a follower's LEO, from the follower's Fetch (B1)."""

    replica: int
    leo: int


@dataclass(frozen=True, slots=True)
class IsrUpdated(BrokerEvent):
    """The controller accepted the leader's AlterPartition: the committed ISR and its partition epoch.

    ``under_min_isr`` is true if the leader logged that the ISR is under min ISR.
    """

    isr: tuple[int, ...]
    partition_epoch: int
    under_min_isr: bool


@dataclass(frozen=True, slots=True)
class IsrShrinking(BrokerEvent):
    """The leader is about to remove members from the ISR.

    ``hwm`` and ``leo`` are the leader's own. ``out_of_sync`` has pairs of a member and its LEO, -1 if the leader does
    not know the LEO.
    """

    isr: tuple[int, ...]
    proposed: tuple[int, ...]
    hwm: int
    leo: int
    out_of_sync: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class IsrSubmitted(BrokerEvent):
    """The leader proposes an ISR with AlterPartition (B7).

    ``added`` is the replica that an expansion adds; ``removed`` has the replicas that a shrink removes.
    ``partition_epoch`` is the latest one that the leader knows.
    """

    leader_epoch: int
    partition_epoch: int
    proposed: tuple[int, ...]
    committed: tuple[int, ...]
    added: int | None
    removed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BecameLeader(BrokerEvent):
    """This broker starts to lead in a leader epoch, with its LEO as the epoch's start offset (B5).

    A restarted broker may have led in the same leader epoch before.
    """

    leader_epoch: int
    start_offset: int
    partition_epoch: int
    hwm: int
    isr: tuple[int, ...]
    under_min_isr: bool


@dataclass(frozen=True, slots=True)
class StillLeader(BrokerEvent):
    """The leader replayed a change of the partition from the metadata log; the leader epoch is the same.

    ``hwm`` is -1 if the leader already knew a later change, and did not apply this one.
    """

    leader_epoch: int
    partition_epoch: int
    hwm: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BecameFollower(BrokerEvent):
    """This broker starts to follow in a leader epoch, with this LEO and HWM. ``leader`` is None if there is none."""

    leader_epoch: int
    leo: int
    partition_epoch: int
    hwm: int
    leader: int | None


@dataclass(frozen=True, slots=True)
class StillFollower(BrokerEvent):
    """The follower replayed a change of the partition from the metadata log; the leader epoch is the same."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FetcherRemoved(BrokerEvent):
    """The broker stopped fetching the partition, because it is about to apply a change of the partition."""


@dataclass(frozen=True, slots=True)
class Truncating(BrokerEvent):
    """The follower truncates its log to end at or before ``offset`` (B3)."""

    leader: int
    offset: int


@dataclass(frozen=True, slots=True)
class InitialHwm(BrokerEvent):
    """A started broker loads the partition's log, with the HWM of the checkpoint file."""

    hwm: int


@dataclass(frozen=True, slots=True)
class LogLoaded(BrokerEvent):
    """A started broker loaded a log with this LEO."""

    leo: int


@dataclass(frozen=True, slots=True)
class EndShown(BrokerEvent):
    """The broker shows the LEO of its log in passing, for example after a truncation."""

    leo: int


@dataclass(frozen=True, slots=True)
class LogSetAside(BrokerEvent):
    """The broker renamed the directory of a replica that it should not have.

    A name that ends in ``-stray`` stays. One that ends in ``-delete`` is deleted after ``file.delete.delay.ms``.
    """

    directory: str


@dataclass(frozen=True, slots=True)
class LogDeleted(BrokerEvent):
    """The broker deleted a directory that it had renamed."""

    directory: str


@dataclass(frozen=True, slots=True)
class TopicConfigured(BrokerEvent):
    """The broker is about to apply new settings of a topic.

    ``min_isr`` is the setting ``min.insync.replicas``, None if it is not set. ``partition`` is -1.
    """

    min_isr: int | None


@dataclass(frozen=True, slots=True)
class ControllerResigned(BrokerEvent):
    """A controller event failed, so the active controller of this node resigned.

    ``event`` is the event's name, ``exception`` the cause. ``partition`` is -1.
    """

    event: str
    exception: str


@dataclass(frozen=True, slots=True)
class RegistrationFailed(BrokerEvent):
    """The controller refused to register this broker after an unexpected error. ``partition`` is -1."""


# Moves of the HWM and the LEOs of followers are logged only if the logger ``kafka.cluster.Partition`` is at DEBUG; all
# other events at INFO. Lines without an event are skipped. ``log_lines.py`` finds message and time in any layout.
#
# A date without a time zone is the local time, counted as UTC. ``UtcOffset`` finds the offset from changes whose time
# is in the metadata log.

MAX_MEMBERS = 1000
"""A line that lists more ISR members is refused."""
_LOOKED_AT = 1 << 20
"""The bytes of a file in which the broker's number is looked for first."""
QUARTER_MS = 900_000
"""Time zones differ from UTC by whole quarters of an hour."""
MAX_OFFSET_QUARTERS = 4 * 18


# --- lines ----------------------------------------------------------------------------------------------

_BROKER = re.compile(
    rb"(?:(?:BrokerServer|ControllerServer|QuorumController|Broker|broker) id|nodeId|node\.id|broker)=(\d{1,10})\]"
)
_TP = r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>\d+)"
_PARTITION = rf"\[Partition {_TP} broker=(?P<broker>\d+)\] "
_STATE = r"\[Broker id=(?P<broker>\d+)\] "
_LOG_OFFSET = r"\(offset=(?P<{}>-?\d+)[ ,)][^()]*\)?"
_BRACKETS = r"\[(?P<{}>[\d, ]*)\]"

_Reader = Callable[["_Line"], BrokerEvent]


class _Line:
    """The named parts of a log line that a pattern matched, read with checks of their bounds."""

    def __init__(self, path: Path, line: int, time_ms: int, broker: int | None, match: re.Match[str]) -> None:
        self.path, self.line, self.time_ms, self._broker, self._match = path, line, time_ms, broker, match

    def base(self) -> tuple[Path, int, int, int, str, int]:
        """The values of the fields of ``BrokerEvent``."""
        groups = self._match.groupdict()
        broker = self.number("broker", 0, INT32) if "broker" in groups else self._broker
        assert broker is not None
        partition = self.number("partition", 0, INT32) if "partition" in groups else -1
        return self.path, self.line, self.time_ms, broker, groups.get("topic", ""), partition

    def topic_id(self) -> str:
        """The topic's id; empty if the line has none."""
        found = self._match.groupdict().get("id")
        return "" if found in (None, "None", "null") else found

    def wrong(self, name: str, message: str) -> TraceError:
        """A TraceError about the part ``name`` of this line, for the caller to raise."""
        return TraceError(self.path, self.line, name, message)

    def has(self, name: str) -> bool:
        """True if the line has the optional part ``name``."""
        return self._match[name] is not None

    def text(self, name: str) -> str:
        return self._match[name]

    def number(self, name: str, low: int = -1, high: int = INT64) -> int:
        """The line's part ``name`` as a number within bounds; the default bounds are those of an offset."""
        return self._bounded(name, self._match[name], low, high)

    def epoch(self, name: str) -> int:
        return self.number(name, 0, INT32)

    def ids(self, name: str) -> tuple[int, ...]:
        parts = [part for part in re.split(r"[, ]+", self._match[name]) if part]
        if len(parts) > MAX_MEMBERS:
            raise self.wrong(name, f"more than {MAX_MEMBERS} members")
        found = tuple(self._bounded(name, part, 0, INT32) for part in parts)
        if len(set(found)) != len(found):
            raise self.wrong(name, "a member stands twice")
        return found

    def _bounded(self, name: str, text: str, low: int, high: int) -> int:
        if len(text) > 20 or not low <= int(text) <= high:
            raise self.wrong(name, f"{printable(text, 40)} is outside {low}..{high}")
        return int(text)


_PARTS: dict[str, Callable[[_Line, str], object]] = {
    **dict.fromkeys(("before", "after", "leo", "offset", "start"), _Line.number),
    **dict.fromkeys(("le", "pe"), _Line.epoch),
    "hwm": lambda m, name: m.number(name) if m.has(name) else -1,
    "isr": _Line.ids,
    "leader": lambda m, name: m.number(name, -1, INT32),
    "follows": lambda m, name: leader if (leader := m.number(name, -1, INT32)) >= 0 else None,
    "replica": lambda m, name: m.number(name, 0, INT32),
    **dict.fromkeys(("event", "exception", "directory"), _Line.text),
    "under": _Line.has,
}


def _parts(kind: Callable[..., BrokerEvent], *names: str) -> _Reader:
    """Return a reader that makes an event of this kind from a matched line.

    ``names`` are the parts of the line that become the event's own fields, in the order of the fields.
    """
    return lambda m: kind(*m.base(), *(_PARTS[name](m, name) for name in names), topic_id=m.topic_id())


_OUT_OF_SYNC = re.compile(r"\(brokerId: (\d+), endOffset: (-?\d+)[^()]*\)")


def _isr_shrinking(m: _Line) -> BrokerEvent:
    members = []
    for replica, leo in _OUT_OF_SYNC.findall(m.text("out")):
        members.append((m._bounded("brokerId", replica, 0, INT32), m._bounded("endOffset", leo, -1, INT64)))
        if len(members) > MAX_MEMBERS:
            raise m.wrong("brokerId", f"more than {MAX_MEMBERS} members")
    return IsrShrinking(
        *m.base(), m.ids("isr"), m.ids("proposed"), m.number("hwm"), m.number("leo"), tuple(members)
    )


_MEMBER = re.compile(r"BrokerState\(brokerId=(\d+), brokerEpoch=(-?\d+)\)")


def _isr_submitted(m: _Line) -> BrokerEvent:
    proposed = [m._bounded("isr", member, 0, INT32) for member, _ in _MEMBER.findall(m.text("members"))]
    if len(proposed) > MAX_MEMBERS:
        raise m.wrong("isr", f"more than {MAX_MEMBERS} members")
    added = m.number("added", 0, INT32) if m.has("added") else None
    return IsrSubmitted(
        *m.base(), m.epoch("le"), m.epoch("pe"), tuple(proposed), m.ids("committed"), added,
        m.ids("removed") if m.has("removed") else (),
    )  # fmt: skip


_MIN_ISR = re.compile(r"(?:\A|,)min\.insync\.replicas -> (-?\d+)(?:,|\s|\Z)")


def _topic_configured(m: _Line) -> BrokerEvent:
    found = _MIN_ISR.search(m.text("settings"))
    return TopicConfigured(
        *m.base(), None if found is None else m._bounded("min.insync.replicas", found[1], 1, INT32)
    )


def _end_shown(m: _Line) -> BrokerEvent:
    leo = m.number("leo")
    return LogLoaded(*m.base(), leo) if m.text("log") == "LogLoader" else EndShown(*m.base(), leo)


def _nothing_truncated(m: _Line) -> BrokerEvent:
    return EndShown(*m.base(), m.number("last", -1) + 1)


# Kafka 4.0 and later write the fields in another order, and lists instead of Scala sets.
_SKIPPED = (
    r"(?: and partition state|, partition registration)[^()]*\((?=[^()]*\bleaderEpoch=(?P<le>-?\d+))"
    r"(?=[^()]*\bisr=\[(?P<isr>[\d, ]*)\])(?=[^()]*\bpartitionEpoch=(?P<pe>-?\d+))[^()]*\)"
    r"(?: and isNew=\w+)? since "
)
_IDS = r"(?:Set\(|\[)(?P<{}>[\d, ]*)[)\]]"
_TOPIC_ID = r"(?: with topic id (?:Some\()?(?P<id>[\w-]*)\)?)?"
_PENDING = (
    r"Submitting ISR state change Pending(?:Expand|Shrink)Isr\("
    r"(?:newInSyncReplicaId=(?P<added>-?\d+)|outOfSyncReplicaIds=" + _IDS.format("removed") + r"), "
    r"sentLeaderAndIsr=LeaderAndIsr\(leader=-?\d+, leaderEpoch=(?P<le>-?\d+), "
    r"isrWithBrokerEpoch=\[(?P<members>[^\[\]]*)\], leaderRecoveryState=\w+, partitionEpoch=(?P<pe>-?\d+)\)"
    r".*CommittedPartitionState[(\[]isr=" + _IDS.format("committed")
)  # fmt: skip

# A text that the message of an event contains, its regular expression, and its reader. The text is found faster than
# the expression, and most lines have none of the texts. Loggers do not count: they move from release to release.
_LOG = rf"\[(?P<log>UnifiedLog|LogLoader|Log) partition={_TP}, dir=[^\]]*\] "
_KINDS = tuple(
    (needle.encode(), re.compile(expression), read)
    for needle, expression, read in (
        ("] Recorded replica ",
         _PARTITION + r"Recorded replica (?P<replica>-?\d+) log end offset \(LEO\) position (?P<leo>-?\d+) "
         r"and log start offset -?\d+\.", _parts(LeoRecorded, "replica", "leo")),
        ("] High watermark updated from ",
         _PARTITION + r"High watermark updated from " + _LOG_OFFSET.format("before") + " to "
         + _LOG_OFFSET.format("after"), _parts(HwmMoved, "before", "after")),
        ("] ISR updated to ",
         _PARTITION + r"ISR updated to (?P<isr>[\d,]*)(?P<under> *\(under-min-isr\))? *"
         r"and version updated to (?P<pe>-?\d+)", _parts(IsrUpdated, "isr", "pe", "under")),
        ("] Shrinking ISR from ",
         _PARTITION + r"Shrinking ISR from (?P<isr>[\d,]*) to (?P<proposed>[\d,]*)\. Leader: \(highWatermark: "
         r"(?P<hwm>-?\d+), endOffset: (?P<leo>-?\d+)\)\. Out of sync replicas: (?P<out>.*)", _isr_shrinking),
        ("] Submitting ISR state change ", _PARTITION + _PENDING, _isr_submitted),
        ("] Log loaded for partition ",
         _PARTITION + r"Log loaded for partition \S+ with initial high watermark (?P<hwm>-?\d+)",
         _parts(InitialHwm, "hwm")),
        ("] Leader ",
         _STATE + rf"Leader {_TP}{_TOPIC_ID} starts at leader epoch (?P<le>-?\d+) from offset (?P<start>-?\d+) "
         r"with partition epoch (?P<pe>-?\d+), high watermark (?P<hwm>-?\d+), ISR " + _BRACKETS.format("isr")
         + r", adding replicas \[[\d, ]*\] and removing replicas \[[\d, ]*\] *(?P<under>\(under-min-isr\))?",
         _parts(BecameLeader, "le", "start", "pe", "hwm", "isr", "under")),
        ("] Skipped the become-leader ",
         _STATE + rf"Skipped the become-leader state change for {_TP}{_TOPIC_ID}"
         + _SKIPPED + r"(?:it is already the leader .*Current high watermark (?P<hwm>-?\d+),"
         r"|the leader is already at a newer partition epoch)",
         _parts(StillLeader, "le", "pe", "hwm", "isr")),
        ("] Follower ",
         _STATE + rf"Follower {_TP}{_TOPIC_ID} starts at leader epoch (?P<le>-?\d+) from offset (?P<leo>-?\d+) "
         r"with partition epoch (?P<pe>-?\d+) and high watermark (?P<hwm>-?\d+)\. "
         r"Current leader is (?P<follows>-?\d+)\.", _parts(BecameFollower, "le", "leo", "pe", "hwm", "follows")),
        ("] Skipped the become-follower ",
         _STATE + rf"Skipped the become-follower state change for {_TP}{_TOPIC_ID}"
         + _SKIPPED + "(?:it is already a follower "
         "|the follower is already at a newer partition epoch)", _parts(StillFollower, "le", "pe", "isr")),
        ("] Truncating partition ",
         r"\[ReplicaFetcher replicaId=(?P<broker>\d+), leaderId=(?P<leader>-?\d+), fetcherId=-?\d+\] "
         rf"Truncating partition {_TP} with TruncationState\(offset=(?P<offset>-?\d+),",
         _parts(Truncating, "leader", "offset")),
        ("] Truncating to ", _LOG + r"Truncating to (?P<target>-?\d+) has no effect as the largest offset in the log "
         r"is (?P<last>-?\d+)", _nothing_truncated),
        ("] Loading producer state till offset ", _LOG + r"Loading producer state till offset (?P<leo>-?\d+)",
         _end_shown),
        ("] Non-monotonic update of high watermark ",
         _LOG + "Non-monotonic update of high watermark from " + _LOG_OFFSET.format("before") + " to "
         + _LOG_OFFSET.format("after"), _parts(HwmLowered, "before", "after")),
        ("] Updating topic ",
         r"\[DynamicConfigPublisher broker id=(?P<broker>\d+)\] Updating topic (?P<topic>[A-Za-z0-9._-]{1,249}) "
         r"with new configuration ?: ?(?P<settings>.*)", _topic_configured),
        (". Renouncing leadership ",
         r"(?P<event>[A-Za-z]{1,100}): event failed with (?P<exception>[A-Za-z]{1,100}) .*\. Renouncing leadership ",
         _parts(ControllerResigned, "event", "exception")),
        ("] Unable to register broker ",
         r"\[BrokerLifecycleManager id=(?P<broker>\d+)\] Unable to register broker \d+ because the controller "
         r"returned error UNKNOWN_SERVER_ERROR", _parts(RegistrationFailed)),
        ("Completed load of Log(",
         r"Completed load of Log\(dir=(?:[^,()]*/)?(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>\d+), "
         r"(?:topicId=(?P<id>[\w-]*), )?topic=[^,()]*, partition=\d+, .*logStartOffset=-?\d+, "
         r"logEndOffset=(?P<leo>-?\d+)\)", _parts(LogLoaded, "leo")),
        (" renamed to ",
         rf"Log (?:for partition |in (?:\S.*[/\\])?){_TP} (?:is )?(?:marked (?:as )?stray and )?renamed to "
         r"(?P<directory>\S.*?-(?:delete|stray))(?![\w.-])", _parts(LogSetAside, "directory")),
        ("Deleted log for partition ", rf"Deleted log for partition {_TP} in (?P<directory>\S.*?-delete)\.",
         _parts(LogDeleted, "directory")),
        ("] Removed fetcher for partitions ",
         r"\[ReplicaFetcherManager on broker (?P<broker>\d{1,10})\] Removed fetcher for partitions [A-Za-z]*"
         r"\((?P<names>[^()]*)\)", None),
    )
)  # fmt: skip
_NEEDLES = re.compile(b"|".join(re.escape(needle) for needle, _, _ in _KINDS))
_BY_NEEDLE = {needle: (expression, read) for needle, expression, read in _KINDS}
_COUNTED = re.compile(
    rb"starts at leader epoch|ISR updated to|Shrinking ISR from|High watermark updated|Recorded replica|TruncationState"
)
"""In a line with such a text that cannot be read, an event is missing; other lines may be messages of another kind."""
_NAME = re.compile(r"([A-Za-z0-9._-]{1,249})-(\d{1,10})")


def read_broker_log(path: Path) -> Iterator[BrokerEvent]:
    """Read the events of a broker's log, as ``BrokerLog.events`` does."""
    return BrokerLog(path).events()


class BrokerLog:
    """A broker's log, read line by line. ``unread`` counts the lines whose event or time cannot be read.

    The broker's number is the one that a line shows, else the one in the path.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unread, self.first_unread = 0, ""
        self._number = 0
        self._broker: int | None = None
        self._of_path = broker_of(path)
        self._lines = LogLines()

    def events(self) -> Iterator[BrokerEvent]:
        """The events of the file, plain or compressed, in the order of its lines. An incomplete last line is skipped.

        Raises TraceError if the file cannot be read, is a damaged gzip file, or has a line longer than
        ``highwater.traces.reading.MAX_LINE`` or an event with an impossible number.
        """
        with Source(self.path) as source:  # the first lines may come before the one with the broker's number
            found = _BROKER.search(source.read(_LOOKED_AT))
            self._broker = None if found is None else int(found[1])
        with Source(self.path) as source:
            unread = 0
            for line in split(source):
                unread = self.unread
                yield from self.take(line)
            if not source.terminated:  # the last line may be incomplete
                self.unread = unread

    def take(self, line: bytes) -> Iterator[BrokerEvent]:
        """Read the events of the next line. Raises TraceError if a number is impossible."""
        self._number += 1
        if self._broker is None and (match := _BROKER.search(line, 0, 400)):
            self._broker = int(match[1])
        needle = _NEEDLES.search(line)
        if needle is None:
            return
        expression, read = _BY_NEEDLE[needle[0]]
        found = self._lines.read(line, needle[0], expression)
        if found is None or found.time_ms is None:
            if _COUNTED.search(line):
                self._not_read(line)
            return
        if read is None:
            yield from self._fetchers_removed(found.message, found.time_ms)
            return
        broker = self._of_path if self._broker is None else self._broker
        if broker is not None or "broker" in expression.groupindex:
            yield read(_Line(self.path, self._number, found.time_ms, broker, found.message))
        else:
            self._not_read(line)

    def _not_read(self, line: bytes) -> None:
        self.unread += 1
        self.first_unread = (
            self.first_unread or f"{self._number}: {printable(line.decode('utf-8', 'replace'))}"
        )

    def _fetchers_removed(self, match: re.Match[str], time_ms: int) -> Iterator[BrokerEvent]:
        for part in match["names"].split(","):
            if named := _NAME.fullmatch(part.strip()):
                broker, partition = int(match["broker"]), int(named[2])
                if max(broker, partition) > INT32:
                    wrong = f"{max(broker, partition)} is outside 0..{INT32}"
                    raise TraceError(self.path, self._number, "partition", wrong)
                yield FetcherRemoved(self.path, self._number, time_ms, broker, named[1], partition)


_LOGGER = re.compile(
    rb"\b(?:org\.apache\.kafka|kafka\.[a-z]+)\.[\w.]*[A-Z]\w+|\bstate\.change\.logger\b"
    rb"|\[\w+ (?:id|nodeId|broker|brokerId)=\d{1,10}\] "
)
_CLOCK = re.compile(rb"\d\d:\d\d:\d\d|\dT\d{6}|\d{13}|epochSecond")


def is_broker_log(first_bytes: bytes) -> bool:
    """True if a file with these first bytes, decompressed, is a log that Kafka wrote, in any layout."""
    lines = first_bytes.split(b"\n")
    return any((_NEEDLES.search(line) or _LOGGER.search(line)) and _CLOCK.search(line) for line in lines)


class UtcOffset:
    """Finds the lead of a log's local time over UTC, in whole quarters of an hour.

    A broker applies a change immediately or, after a restart, much later. So the most frequent difference between
    local time and UTC wins; of two equally frequent ones, the smaller.
    """

    def __init__(self) -> None:
        self._quarters: Counter[int] = Counter()
        self._spans: dict[int, tuple[int, int]] = {}
        """By difference: the numbers of the first and the last change that showed it."""

    def add(self, local_ms: int, utc_ms: int) -> None:
        """Add a change's local time in the broker's log, and its time in the metadata log.

        A difference that no time zone explains is ignored.
        """
        quarters = (local_ms - utc_ms + QUARTER_MS // 2) // QUARTER_MS
        if abs(quarters) <= MAX_OFFSET_QUARTERS:
            number = self._quarters.total()
            self._quarters[quarters] += 1
            self._spans[quarters] = self._spans.get(quarters, (number, number))[0], number

    @property
    def was_set(self) -> bool:
        """True if the clock may have been set by an hour: two differences an hour apart follow each other."""
        often = {quarters: span for quarters, span in self._spans.items() if self._quarters[quarters] > 1}
        pairs = ((span, often[quarters + 4]) for quarters, span in often.items() if quarters + 4 in often)
        return any(low[1] < high[0] or high[1] < low[0] for low, high in pairs)

    @property
    def offset_ms(self) -> int | None:
        """The lead over UTC in ms; None if no difference was added."""
        if not self._quarters:
            return None
        most = max(self._quarters.values())
        return min(q for q, count in self._quarters.items() if count == most) * QUARTER_MS
