"""Random single changes of request logs: a field, the order of two lines, or a dropped line."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

START, END = "Completed request:", " (kafka.request.logger)"
FETCH, PRODUCE, ALTER, REGISTRATION = 1, 0, 56, 62
QUORUM = '"topicId":"AAAAAAAAAAAAAAAAAAAAAQ"'
FIELDS = {
    "fetchOffset": (FETCH, r'"fetchOffset":(\d+)'),
    "currentLeaderEpoch": (FETCH, r'"currentLeaderEpoch":(\d+)'),
    "highWatermark": (FETCH, r'"highWatermark":(\d+)'),
    "replicaEpoch": (FETCH, r'"replicaEpoch":(\d+)'),
    "replicaId": (FETCH, r'"replicaId":(\d+)'),
    "baseOffset": (PRODUCE, r'"baseOffset":(\d+)'),
    "errorCode": (PRODUCE, r'"errorCode":(\d+),"baseOffset"'),
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
WHAT = (*FIELDS, "order", "dropped")
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
            what = chosen.choice(WHAT)
            found = self._of_field(what, chosen) if what in FIELDS else self._moved(what, chosen)
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

    def _moved(self, what: str, chosen: random.Random) -> Changed | None:
        """Drop a line, or swap the requests of two successive lines of one sender but keep the timestamps."""
        apis = (FETCH, FETCH, PRODUCE, ALTER) if what == "dropped" else (FETCH, FETCH, ALTER)
        api = chosen.choice([a for a in apis if self.places.get(a)])
        at = chosen.randrange(len(self.places[api]))
        path, number = self.places[api][at]
        lines = list(self.texts[path])
        if what == "dropped":
            del lines[number]
            return Changed(what, path, number + 1, "line", "none", lines)
        sender = _sender(lines[number])
        for where, other in self.places[api][at + 1 : at + 40]:
            if where == path and _sender(lines[other]) == sender:
                first, second = lines[number], lines[other]
                cut, end = first.index(START), second.index(START)
                lines[number], lines[other] = first[:cut] + second[end:], second[:end] + first[cut:]
                return Changed(what, path, number + 1, str(number + 1), str(other + 1), lines)
        return None


def _sender(text: str) -> list[str]:
    return re.findall(r'"clientId":"[^"]*"|"sessionId":\d+', text)[:2]


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
    if what in ("errorCode", "replicaId"):
        values = (0, 6, 19) if what == "errorCode" else range(4)
        return str(chosen.choice([value for value in values if value != int(old)]))
    return str(max(0, int(old) + chosen.choice((-1, 1) if what in SMALL else (-10, -2, -1, 1, 2, 10))))


def logs_below(recording: Path) -> Iterator[Path]:
    yield from sorted(recording.glob("logs/*/kafka-request.log.gz"))
