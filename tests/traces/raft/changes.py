"""Random single changes of the recorded raft logs."""

from __future__ import annotations

import gzip
import random
import re
from dataclasses import dataclass
from pathlib import Path

NODES = (0, 1, 100, 101, 102)
RECORDED = Path(__file__).parents[4] / "shared" / "traces" / "kafka-4.2" / "clusters" / "raft3-elr" / "logs"

_NUMBER = r"(-?\d+)\b"
FIELDS = {
    "epoch": r"\b(?:currentLeaderEpoch|lastFetchedEpoch|leaderEpoch|replicaEpoch|lastOffsetEpoch|epoch)="
    + _NUMBER,
    "offset": r"(?:\b(?:fetchOffset|lastOffset|endOffset|offset|epochStartOffset)=|base offset |at offset |"
    r"Truncated to offset )" + _NUMBER,
    "hwm": r"(?:\bhighWatermark=|high watermark updated to )" + _NUMBER,
    "node": r"\b(?:replicaId|voterId|leaderId|leader|nodeId)=" + _NUMBER,
    "error": r"\berrorCode=" + _NUMBER,
    "flag": r"\b(?:preVote|voteGranted)=(true|false)\b",
}
"""Regular expressions of the fields to change, by kind; the group matches the value."""
WEIGHTS = {"epoch": 4, "offset": 4, "hwm": 4, "node": 2, "error": 1, "flag": 1, "dropped line": 3, "order": 2}


@dataclass(frozen=True)
class Change:
    """One change: its kind, node, line number (from 1), and the values before and after."""

    kind: str
    node: int
    line: int
    before: str
    after: str
    text: str


def recorded() -> dict[int, list[str]]:
    return {
        node: gzip.decompress((RECORDED / f"node{node}" / "raft.log.gz").read_bytes()).decode().splitlines()
        for node in NODES
    }


def change(rng: random.Random, logs: dict[int, list[str]]) -> Change:
    """Make one random change in ``logs``, in place."""
    while True:
        (kind,) = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
        node = rng.choice(NODES)
        place = rng.randrange(len(logs[node]))
        line = logs[node][place]
        if kind == "dropped line":
            del logs[node][place]
            return Change(kind, node, place + 1, "", "", line)
        if kind == "order":
            if place + 1 < len(logs[node]):
                logs[node][place : place + 2] = logs[node][place + 1], line
                return Change(kind, node, place + 1, "", "", line)
            continue
        found = list(re.finditer(FIELDS[kind], line))
        if not found:
            continue
        match = rng.choice(found)
        old = match[1]
        new = {"true": "false", "false": "true"}.get(old) or str(int(old) + rng.choice([-2, -1, 1, 2, 7]))
        logs[node][place] = line[: match.start(1)] + new + line[match.end(1) :]
        around = line[max(0, match.start() - 40) : match.end() + 20]
        return Change(kind, node, place + 1, old, new, f"{line[26:70]} … {around}")


def write(place: Path, logs: dict[int, list[str]]) -> list[Path]:
    files = []
    for node, lines in logs.items():
        file = place / f"node{node}" / "raft.log"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        files.append(file)
    return files
