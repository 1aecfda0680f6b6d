"""Changes single fields of a recording's request logs and classifies how the replay detects each.

A broker's log is replayed only with the controller's, because it does not depend on other brokers' logs.
"""

from __future__ import annotations

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
from tests.traces.requests.changes import Changed, Log, logs_below

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
