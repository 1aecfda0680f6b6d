"""Random single changes of fields of request logs that the replay checks, and how the replay detects each."""

from __future__ import annotations

import gzip
import json
import random
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import structs

from highwater.traces.kafka.metadata_log import open_metadata_log
from highwater.traces.messages.context import Context, Verdicts
from highwater.traces.messages.metadata_index import MetadataIndex
from highwater.traces.messages.request_lines import READ, Counted, RequestLine, read_request_log
from highwater.traces.messages.request_replay import Requests
from highwater.traces.metadata.replay import replay_metadata
from highwater.traces.metadata.reporting import Watch
from highwater.traces.reading import TraceError
from highwater.traces.reports.report import Report
from tests.traces.kafka.made import CLUSTERS_4_2

FINDING, UNEXPLAINED, ERROR, UNSEEN = "finding", "not explained", "error", "not seen"


@dataclass
class Recording:
    """A recorded cluster. Its metadata log is read once, its request logs once per change."""

    name: str
    index: MetadataIndex = field(default_factory=MetadataIndex)
    report: Report = field(default_factory=lambda: Report("", "", ""))

    def __post_init__(self) -> None:
        self.directory = CLUSTERS_4_2 / self.name
        metadata = self.directory / "__cluster_metadata-0"
        watch = Watch([self.index.change], [self.index.setting], [self.index.record])
        replay_metadata(open_metadata_log(metadata), self.report, watch=watch)
        self.paths = list(logs_below(self.directory))
        self.log = Log(self.paths)
        self.texts = {path: list(texts) for path, texts in self.log.texts.items()}
        self._parsed: dict[str, RequestLine | None] = {}
        self._alone = Path(tempfile.mkdtemp())

    def judged(self, paths: tuple[Path, ...]) -> Verdicts:
        """The replay's verdicts on these request logs. Raises TraceError."""
        context = Context(self.index, Report("", "", self.report.profile, self.report.rules))
        requests = Requests(context, paths, self._read)
        requests.replay()
        assert context.asked.offset_ms == 0
        return context.verdicts

    def _read(
        self, path: Path, counted: Counted, wanted: frozenset[int] = READ, utc_offset_ms: float = 0
    ) -> Iterator[RequestLine]:
        """The wanted lines of a log; lines with equal text are parsed once."""
        for number, text in enumerate(self.texts[path], start=1):
            if text not in self._parsed:
                self._parsed[text] = self._parse(path, number, text)
            line = self._parsed[text]
            if line is not None and line.api in wanted:
                yield structs.replace(line, path=path, line=number) if line.line != number else line

    def _parse(self, path: Path, number: int, text: str) -> RequestLine | None:
        alone = self._alone / "one.log"
        alone.write_text(text + "\n")
        return next(iter(read_request_log(alone, Counted())), None)

    def seen(self, changed: Changed, directory: Path) -> str:
        """How the replay detects a change: FINDING, UNEXPLAINED, ERROR or UNSEEN."""
        controller = next(p for p in self.paths if p.parent.name == "node100")
        paths = tuple(self.paths) if changed.path == controller else (changed.path, controller)
        written = directory / changed.path.parent.name / "kafka-request.log"
        written.parent.mkdir(exist_ok=True)
        written.write_text(changed.lines[0] + "\n")
        self.texts[written] = changed.lines
        try:
            found = self.judged(tuple(written if p == changed.path else p for p in paths))
        except TraceError:
            return ERROR
        if found.report.findings:
            return FINDING
        return UNEXPLAINED if found.report.unexplained_count else UNSEEN


def noticed(name: str, seeds: range) -> Iterator[tuple[int, Changed, str]]:
    """For each seed: the seed, the change and how the replay detects it."""
    recording = Recording(name)
    with tempfile.TemporaryDirectory() as directory:
        for seed in seeds:
            changed = recording.log.change(seed)
            yield seed, changed, recording.seen(changed, Path(directory))


# --- changes ------------------------------------------------------------------------------------------


START, END = "Completed request:", " (kafka.request.logger)"
FETCH, ALTER, REGISTRATION = 1, 56, 62
QUORUM = '"topicId":"AAAAAAAAAAAAAAAAAAAAAQ"'
FIELDS = {
    "currentLeaderEpoch": (FETCH, r'"currentLeaderEpoch":(\d+)'),
    "replicaEpoch": (FETCH, r'"replicaEpoch":(\d+)'),
    "member": (ALTER, r'"newIsrWithEpochs":(\[.*?\])'),
    "memberEpoch": (ALTER, r'"brokerEpoch":(\d+)\}'),
    "senderEpoch": (ALTER, r'"brokerEpoch":(\d+),"topics"'),
    "partitionEpoch": (ALTER, r'\}\],"leaderRecoveryState":\d,"partitionEpoch":(\d+)'),
    "leaderEpoch": (ALTER, r'"leaderEpoch":(\d+),"newIsr'),
    "answerIsr": (ALTER, r'"isr":(\[\d.*?\])'),
    "answerEpoch": (ALTER, r'\d\],"leaderRecoveryState":\d,"partitionEpoch":(\d+)'),
    "registeredEpoch": (REGISTRATION, r'"errorCode":0,"brokerEpoch":(\d+)'),
}
"""By field: the requests that have it, and a regular expression whose group matches its value."""
SMALL = ("currentLeaderEpoch", "partitionEpoch", "leaderEpoch", "answerEpoch")
"""Fields that change by 1; other numbers change by up to 10."""


@dataclass(frozen=True)
class Changed:
    """A change: its kind, file, line, values before and after, and the file's new lines."""

    what: str
    path: Path
    line: int
    before: str
    after: str
    lines: list[str]


class Log:
    """The request logs of a recording, in memory, without the fetches of the quorum and empty ones."""

    def __init__(self, paths: list[Path]) -> None:
        self.texts = {path: gzip.decompress(path.read_bytes()).decode().splitlines() for path in paths}
        self.places: dict[int, list[tuple[Path, int]]] = {}
        for path, texts in self.texts.items():
            for number, text in enumerate(texts):
                (api,) = re.findall(r'"requestApiKey":(\d+)', text)
                is_empty = '"topics":[]' in text and '"responses":[]' in text
                if int(api) != FETCH or not (is_empty or QUORUM in text):
                    self.places.setdefault(int(api), []).append((path, number))

    def change(self, seed: int) -> Changed:
        chosen = random.Random(seed)
        while True:
            found = self._of_field(chosen.choice(tuple(FIELDS)), chosen)
            if found is not None:
                return found

    def _of_field(self, what: str, chosen: random.Random) -> Changed | None:
        api, pattern = FIELDS[what]
        if not self.places.get(api):
            return None
        path, number = chosen.choice(self.places[api])
        text = self.texts[path][number]
        found = list(re.finditer(pattern, text))
        if not found:
            return None
        match = chosen.choice(found)
        new = _another(what, match[1], chosen)
        lines = list(self.texts[path])
        lines[number] = text[: match.start(1)] + new + text[match.end(1) :]
        return Changed(what, path, number + 1, match[1], new, lines) if new != match[1] else None


def _another(what: str, old: str, chosen: random.Random) -> str:
    if old.startswith("["):
        members = json.loads(old)
        if len(members) > 1 and chosen.random() < 0.5:
            members.remove(chosen.choice(members))
        else:
            one = chosen.choice(members)
            ids = [m["brokerId"] if isinstance(m, dict) else m for m in members]
            other = chosen.choice([b for b in range(4) if b not in ids] or [9])
            members.append({**one, "brokerId": other} if isinstance(one, dict) else other)
        return json.dumps(members, separators=(",", ":"))
    return str(max(0, int(old) + chosen.choice((-1, 1) if what in SMALL else (-10, -2, -1, 1, 2, 10))))


def logs_below(recording: Path) -> Iterator[Path]:
    yield from sorted(recording.glob("logs/*/kafka-request.log.gz"))
