"""Random single changes of a field of request logs that the replay checks."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
