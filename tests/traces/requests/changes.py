"""Random single changes of request logs: a field, the order of two lines, or a dropped line."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START, END = "Completed request:", " (kafka.request.logger)"
FETCH, PRODUCE, ALTER, REGISTRATION = 1, 0, 56, 62
FIELDS = (
    "fetchOffset", "currentLeaderEpoch", "highWatermark", "replicaEpoch", "replicaId", "baseOffset", "errorCode",
    "member", "memberEpoch", "senderEpoch", "partitionEpoch", "leaderEpoch", "answerIsr", "answerEpoch",
    "registeredEpoch", "order", "dropped",
)  # fmt: skip


@dataclass(frozen=True)
class Changed:
    """A change: its kind, file, line, values before and after, and the file's new lines."""

    what: str
    path: Path
    line: int
    before: Any
    after: Any
    lines: list[str]


@dataclass(frozen=True)
class Line:
    path: Path
    number: int
    api: int
    body: dict[str, Any]


class Log:
    """The request logs of a recording, in memory."""

    def __init__(
        self, paths: list[Path], quorum: frozenset[str] = frozenset({"AAAAAAAAAAAAAAAAAAAAAQ"})
    ) -> None:
        self.texts = {path: gzip.decompress(path.read_bytes()).decode().splitlines() for path in paths}
        self.lines: dict[int, list[Line]] = {}
        for path, texts in self.texts.items():
            for number, text in enumerate(texts):
                body = json.loads(text[text.index(START) + len(START) : -len(END)])
                api = body["requestHeader"]["requestApiKey"]
                topics = [t.get("topicId") for t in body["request"].get("topics") or ()]
                if api == FETCH and (
                    set(topics) & quorum or not (topics or body["response"].get("responses"))
                ):
                    continue
                self.lines.setdefault(api, []).append(Line(path, number, api, body))

    def change(self, seed: int) -> Changed:
        chosen = random.Random(seed)
        while True:
            what = chosen.choice(FIELDS)
            found = self._change(what, chosen)
            if found is not None:
                return found

    def _change(self, what: str, chosen: random.Random) -> Changed | None:
        if what in ("order", "dropped"):
            return self._moved(what, chosen)
        api, change = _CHANGES[what]
        if not self.lines.get(api):
            return None
        line = chosen.choice(self.lines[api])
        body = json.loads(json.dumps(line.body))
        told = change(body, chosen)
        if told is None or told[0] == told[1]:
            return None
        texts = list(self.texts[line.path])
        text = texts[line.number]
        head = text[: text.index(START) + len(START)]
        texts[line.number] = head + json.dumps(body, separators=(",", ":")) + END
        return Changed(what, line.path, line.number + 1, *told, texts)

    def _moved(self, what: str, chosen: random.Random) -> Changed | None:
        """Drop a line, or swap the requests of two successive lines of one sender but keep the timestamps."""
        apis = (FETCH, FETCH, PRODUCE, ALTER) if what == "dropped" else (FETCH, FETCH, ALTER)
        api = chosen.choice([a for a in apis if self.lines.get(a)])
        at = chosen.randrange(len(self.lines[api]))
        line = self.lines[api][at]
        texts = list(self.texts[line.path])
        if what == "dropped":
            del texts[line.number]
            return Changed(what, line.path, line.number + 1, "line", "none", texts)
        same = [
            o
            for o in self.lines[api][at + 1 : at + 40]
            if o.path == line.path and _sender(o) == _sender(line)
        ]
        if not same:
            return None
        other = same[0]
        first, second = texts[line.number], texts[other.number]
        cut, end = first.index(START), second.index(START)
        texts[line.number], texts[other.number] = first[:cut] + second[end:], second[:end] + first[cut:]
        return Changed(what, line.path, line.number + 1, line.number + 1, other.number + 1, texts)


def _sender(line: Line) -> tuple[Any, ...]:
    header, request = line.body["requestHeader"], line.body["request"]
    return header["clientId"], request.get("sessionId")


def _numbers(
    parts: Callable[[dict[str, Any]], list[dict[str, Any]]], field: str, by: tuple[int, ...]
) -> Callable[[dict[str, Any], random.Random], tuple[Any, Any] | None]:
    def change(body: dict[str, Any], chosen: random.Random) -> tuple[Any, Any] | None:
        found = [p for p in parts(body) if p[field] >= 0]
        if not found:
            return None
        part = chosen.choice(found)
        before = part[field]
        part[field] = max(0, before + chosen.choice(by))
        return before, part[field]

    return change


def _asked(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [p for t in body["request"]["topics"] for p in t["partitions"]]


def _answered(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        p for t in body["response"]["responses"] for p in t.get("partitions", t.get("partitionResponses"))
    ]


def _decided(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [p for t in body["response"]["topics"] for p in t["partitions"] if not p["errorCode"]]


def _state(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [body["request"]["replicaState"]]


def _error(body: dict[str, Any], chosen: random.Random) -> tuple[Any, Any] | None:
    found = _answered(body)
    if not found:
        return None
    part = chosen.choice(found)
    before = part["errorCode"]
    part["errorCode"] = chosen.choice([e for e in (0, 6, 19) if e != before])
    return before, part["errorCode"]


def _member(body: dict[str, Any], chosen: random.Random) -> tuple[Any, Any] | None:
    part = chosen.choice(_asked(body))
    members = part["newIsrWithEpochs"]
    before = [m["brokerId"] for m in members]
    if len(members) > 1 and chosen.random() < 0.5:
        members.remove(chosen.choice(members))
    else:
        other = chosen.choice([b for b in range(4) if b not in before] or [9])
        members.append({"brokerId": other, "brokerEpoch": chosen.choice(members)["brokerEpoch"]})
    return before, [m["brokerId"] for m in members]


def _member_epoch(body: dict[str, Any], chosen: random.Random) -> tuple[Any, Any] | None:
    member = chosen.choice(chosen.choice(_asked(body))["newIsrWithEpochs"])
    before = member["brokerEpoch"]
    member["brokerEpoch"] = max(0, before + chosen.choice((-3, -1, 1, 3)))
    return before, member["brokerEpoch"]


def _answer_isr(body: dict[str, Any], chosen: random.Random) -> tuple[Any, Any] | None:
    found = _decided(body)
    if not found:
        return None
    part = chosen.choice(found)
    before = list(part["isr"])
    other = chosen.choice(range(4))
    part["isr"] = [b for b in before if b != other] if other in before else [*before, other]
    return before, part["isr"]


def _other_replica(body: dict[str, Any], chosen: random.Random) -> tuple[Any, Any] | None:
    state = body["request"]["replicaState"]
    before = state["replicaId"]
    state["replicaId"] = chosen.choice([b for b in range(4) if b != before])
    return before, state["replicaId"]


_SMALL, _MORE = (-1, 1), (-10, -2, -1, 1, 2, 10)
_CHANGES: dict[str, tuple[int, Callable[[dict[str, Any], random.Random], tuple[Any, Any] | None]]] = {
    "fetchOffset": (FETCH, _numbers(_asked, "fetchOffset", _MORE)),
    "currentLeaderEpoch": (FETCH, _numbers(_asked, "currentLeaderEpoch", _SMALL)),
    "highWatermark": (FETCH, _numbers(_answered, "highWatermark", _MORE)),
    "replicaEpoch": (FETCH, _numbers(_state, "replicaEpoch", _MORE)),
    "replicaId": (FETCH, _other_replica),
    "baseOffset": (PRODUCE, _numbers(_answered, "baseOffset", _MORE)),
    "errorCode": (PRODUCE, _error),
    "member": (ALTER, _member),
    "memberEpoch": (ALTER, _member_epoch),
    "senderEpoch": (ALTER, _numbers(lambda b: [b["request"]], "brokerEpoch", _MORE)),
    "partitionEpoch": (ALTER, _numbers(_asked, "partitionEpoch", _SMALL)),
    "leaderEpoch": (ALTER, _numbers(_asked, "leaderEpoch", _SMALL)),
    "answerIsr": (ALTER, _answer_isr),
    "answerEpoch": (ALTER, _numbers(_decided, "partitionEpoch", _SMALL)),
    "registeredEpoch": (REGISTRATION, _numbers(lambda b: [b["response"]], "brokerEpoch", _MORE)),
}


def logs_below(recording: Path) -> Iterator[Path]:
    yield from sorted(recording.glob("logs/*/kafka-request.log.gz"))
