"""Inputs of a replay, recognized by content: metadata logs, dumps, runs, brokers' logs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from highwater.traces.kafka import metadata_log
from highwater.traces.kafka.broker_log import is_broker_log
from highwater.traces.kafka.copies import copies, same_logs
from highwater.traces.kafka.data_logs import is_data_dump, is_set_aside
from highwater.traces.messages.request_lines import is_request_log
from highwater.traces.reading import DamagedFileError, Source, TraceError, printable, readable
from highwater.traces.reports.text import count
from highwater.traces.runs.format import is_run_trace

METADATA_LOG, METADATA_DUMP = "metadata log", "metadata log dump"
RUN, BROKER_LOG = "run of the model", "broker log"
DATA_DUMP, REQUEST_LOG = "dump of data segments", "request log"
_COUNTED = {
    BROKER_LOG: ("broker's log", "brokers' logs"),
    DATA_DUMP: ("dump of data segments", "dumps of data segments"),
    REQUEST_LOG: ("request log", "request logs"),
}
"""Singular and plural of the inputs that are replayed only together with a metadata log."""
_NEEDS = "name the cluster's metadata log, too (the directory __cluster_metadata-0 of a controller)"
_ZOOKEEPER = (
    "a log of a cluster with ZooKeeper, which has no metadata log. Replay cannot check such a cluster: brokers' logs "
    "do not show which replicas could be elected"
)
_FORMATTED = "bootstrap.checkpoint"
"""A snapshot that ``kafka-storage format`` writes into a data directory. It belongs to no log."""
OTHERS = re.compile(
    r".*\.(?:index|timeindex|txnindex|snapshot|properties|deleted|cleaned|swap|lock)|\.lock|meta\.properties|quorum-state|"
    r"partition\.metadata|[\w-]*-checkpoint(?:\.tmp)?|\.kafka_cleanshutdown|kafka(?:Server-gc|-authorizer)\.log.*|"
    r"bootstrap\.checkpoint"
)
"""Names of files that Kafka keeps beside its logs, and that a replay does not need."""
_MOST_NAMED = 5
"""The most unrecognized files that a line names."""
MAX_FILES = 100_000
"""The most files below a given directory; more are an error."""
_METADATA = {
    metadata_log.SEGMENT: METADATA_LOG,
    metadata_log.SNAPSHOT: METADATA_LOG,
    metadata_log.SEGMENT_DUMP: METADATA_DUMP,
    metadata_log.SNAPSHOT_DUMP: METADATA_DUMP,
}


@dataclass(frozen=True)
class Input:
    """One input to replay: a file or the directory of a metadata log, with other logs of the same cluster.

    - ``kind`` is one of the constants above, such as METADATA_LOG.
    - ``broker_logs``, ``request_logs`` and dumps of data segments (``data_dumps``) are replayed with a metadata log.
    - ``dumps`` are dumps of the metadata log itself, which the replay skips. ``copies`` are the logs of the cluster's
      other nodes, which supply what this one lacks. ``conflicts`` has pairs of copies, and the first offset at which
      both have committed records that differ.
    """

    path: Path
    kind: str
    broker_logs: tuple[Path, ...] = ()
    dumps: tuple[Path, ...] = ()
    data_dumps: tuple[Path, ...] = ()
    copies: tuple[Path, ...] = ()
    conflicts: tuple[tuple[Path, Path, int], ...] = ()
    request_logs: tuple[Path, ...] = ()

    @property
    def notes(self) -> list[str]:
        """A note for each skipped dump or copy of the metadata log."""
        dumps = [f"{dump}: skipped: a dump of this metadata log" for dump in self.dumps]
        return dumps + [f"{copy}: a copy of this metadata log" for copy in self.copies]


@dataclass
class Inputs:
    """The inputs found in the given paths, and the files that are skipped.

    ``passed_over`` has the unrecognized files. If no metadata log (or its dump) was found, ``alone`` has, by
    kind, the files that can only be replayed with one; otherwise it is empty. ``damaged`` has an error for each damaged
    compressed file that was not recognized.
    """

    found: list[Input] = field(default_factory=list)
    passed_over: list[Path] = field(default_factory=list)
    alone: dict[str, list[Path]] = field(default_factory=dict)
    damaged: list[DamagedFileError] = field(default_factory=list)

    @property
    def skipped(self) -> list[str]:
        """A line of text for each kind of skipped file, with the number of files."""
        lines = [
            f"skipped {count(len(files), *_COUNTED[kind])}: {_NEEDS}" for kind, files in self.alone.items()
        ]
        if self.passed_over:
            named = [str(path) for path in self.passed_over[:_MOST_NAMED]]
            named += [f"{more} more"] if (more := len(self.passed_over) - len(named)) else []
            with Source(self.passed_over[0]) as source:
                begins = beginning(source.read(400))
            files = count(len(self.passed_over), "file")
            lines.append(f"not read: {files} of no known kind: {', '.join(named)}. The first {begins}")
        return lines


def kind_of(file: Path) -> str | None:
    """The kind of input in a file; None for an unrecognized file.

    Raises TraceError if the file cannot be read, or is a damaged compressed file that is not recognized.
    """
    with Source(file) as source:
        head = source.read(metadata_log.LOOKED_AT)
    known = metadata_log.known_by(file, head)
    kind = _kind_of_head(head) if known is None else _METADATA[known.kind]
    if kind is None and source.damage is not None:
        raise source.damage
    return kind


def _kind_of_head(head: bytes) -> str | None:
    if is_request_log(head):
        return REQUEST_LOG
    if is_data_dump(head):
        return DATA_DUMP
    if is_run_trace(head):
        return RUN
    return BROKER_LOG if is_broker_log(head) else None


def inputs(paths: Iterable[Path]) -> Inputs:
    """Find the inputs in files and directories. Unrecognized files in a directory are skipped.

    The files of one metadata log form one input; so do a metadata log and its dump. Brokers' logs, request logs
    and data dumps belong to the metadata logs with which they share the longest path prefix. Raises TraceError if a
    file cannot be read, or if a path does not exist or has nothing that can be replayed.
    """
    result = Inputs()
    logs: dict[str, list[Path]] = {kind: [] for kind in _COUNTED}
    for path in paths:
        before = len(result.found) + len(result.damaged) + sum(map(len, logs.values()))
        if not path.exists():
            raise TraceError(path, None, None, "there is no such file or directory")
        if path.is_dir():
            _in_directory(path, result, logs)
        else:
            try:
                kind = kind_of(path)
            except DamagedFileError as wrong:
                result.damaged.append(wrong)
                continue
            if kind is None:
                raise TraceError(path, None, None, _what_it_is_not(path))
            logs[kind].append(path) if kind in _COUNTED else result.found.append(Input(path, kind))
        if len(result.found) + len(result.damaged) + sum(map(len, logs.values())) == before:
            raise TraceError(path, None, None, "this directory holds nothing that can be replayed")
    if result.damaged and not result.found:
        raise result.damaged[0]
    result.found = _without_dumps(_without_copies(list(dict.fromkeys(result.found))))
    if not any(i.kind in (METADATA_LOG, METADATA_DUMP) for i in result.found):
        result.alone = {kind: files for kind, files in logs.items() if files}
        for kind, (first, *_) in () if result.found else result.alone.items():
            if kind == BROKER_LOG and _is_of_zookeeper(first):
                raise TraceError(first, None, None, _ZOOKEEPER)
            raise TraceError(first, None, None, f"a {_COUNTED[kind][0]} alone cannot be replayed: {_NEEDS}")
        return result
    for kind in _COUNTED:
        result.found = list(_with_logs(result.found, logs[kind], kind))
    return result


def _is_of_zookeeper(log: Path) -> bool:
    """True if a broker's log is from a cluster whose controller keeps its state in ZooKeeper."""
    with Source(log) as source:
        return (
            re.search(
                rb"kafka\.zk\.|kafka\.zookeeper|kafka\.controller\.KafkaController", source.read(1 << 20)
            )
            is not None
        )


def beginning(head: bytes) -> str:
    """The first line of an unrecognized file, given its first bytes, and what replay expects."""
    first = printable(head.partition(b"\n")[0].decode("utf-8", "replace").strip(), 80)
    return f"begins with {first!r}; a line of a log has a date with a time and one of Kafka's messages"


def _what_it_is_not(path: Path) -> str:
    if path.stat().st_size == 0:
        return "the file is empty"
    return (
        "not a file that replay reads: a metadata log or its dump, a broker's log, request log or dump of data "
        "segments, or a run of a model"
    )


def _in_directory(directory: Path, result: Inputs, logs: dict[str, list[Path]]) -> None:
    metadata: dict[Path, str] = {}
    for file in _files(directory):
        try:
            kind = None if file.name == _FORMATTED else kind_of(file)
        except DamagedFileError as wrong:
            result.damaged.append(wrong)
            continue
        if kind is None and is_set_aside(file):
            logs[DATA_DUMP].append(file.parent)
        elif kind is None:
            result.passed_over += [] if OTHERS.fullmatch(file.name) else [file]
        elif kind in _COUNTED:
            logs[kind].append(file)
        elif kind in (METADATA_LOG, METADATA_DUMP):
            # If a directory has a log and its dump, the log is used.
            if metadata.get(file.parent) != METADATA_LOG:
                metadata[file.parent] = kind
        else:
            result.found.append(Input(file, kind))
    result.found += [Input(path, kind) for path, kind in sorted(metadata.items())]


def _files(directory: Path) -> list[Path]:
    """The files below a directory. A symbolic link to another directory is followed, and no directory is read twice.

    A link to a directory that contains ``directory`` is not followed.
    """
    files: list[Path] = []
    root, waiting = directory.resolve(), [directory]
    seen = set(root.parents)
    while waiting:
        with readable(directory):
            for folder, below, names in os.walk(waiting.pop(0)):
                if (place := Path(folder).resolve()) in seen:
                    below.clear()
                    continue
                seen.add(place)
                waiting += [link for name in sorted(below) if (link := Path(folder, name)).is_symlink()]
                files += [file for name in names if (file := Path(folder, name)).is_file()]
                if len(files) > MAX_FILES:
                    raise TraceError(directory, None, None, f"more than {MAX_FILES} files")
    return sorted(files)


def _without_copies(found: Sequence[Input]) -> list[Input]:
    """The inputs; of several copies of a cluster's metadata log the longest stays, with the paths of the others."""
    groups = {group.logs[0]: group for group in copies([i.path for i in found if i.kind == METADATA_LOG])}
    return [
        replace(i, copies=groups[i.path].logs[1:], conflicts=groups[i.path].conflicts)
        if i.path in groups
        else i
        for i in found
        if i.kind != METADATA_LOG or i.path in groups
    ]


def _without_dumps(found: Sequence[Input]) -> list[Input]:
    """The inputs; each dump of a metadata log moves into the input of that log, if the log is among the inputs."""
    logs = [i.path for i in found if i.kind == METADATA_LOG]
    same = same_logs(logs, [i.path for i in found if i.kind == METADATA_DUMP]) if logs else {}
    kept = [i for i in found if i.kind != METADATA_DUMP or i.path not in same]
    of = {path: tuple(dump for dump, log in same.items() if log == path) for path in logs}
    return [replace(i, dumps=of[i.path]) if i.kind == METADATA_LOG else i for i in kept]


def _with_logs(found: Sequence[Input], logs: Sequence[Path], kind: str) -> Iterator[Input]:
    """Yield the inputs ``found``; each metadata log or dump also gets the files of ``logs`` that belong to it.

    All files in ``logs`` are of this ``kind``. A file belongs to each metadata log or dump with which it shares the
    longest path prefix.
    """
    metadata = [i for i in found if i.kind in (METADATA_LOG, METADATA_DUMP)]
    chosen: dict[Input, list[Path]] = {}
    for log in dict.fromkeys(logs):
        shared = {i: max(_shared(log, path) for path in (i.path, *i.copies)) for i in metadata}
        nearest = max(shared.values())
        for i, length in shared.items():
            if length == nearest:
                chosen.setdefault(i, []).append(log)
    for i in found:
        own = tuple(chosen.get(i, ()))
        if kind == BROKER_LOG:
            yield replace(i, broker_logs=own)
        else:
            yield replace(i, data_dumps=own) if kind == DATA_DUMP else replace(i, request_logs=own)


def _shared(a: Path, b: Path) -> int:
    count = 0
    for x, y in zip(a.absolute().parts, b.absolute().parts, strict=False):
        if x != y:
            break
        count += 1
    return count
