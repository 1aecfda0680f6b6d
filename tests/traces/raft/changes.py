"""The recorded raft logs."""

from __future__ import annotations

import gzip
from pathlib import Path

NODES = (0, 1, 100, 101, 102)
RECORDED = Path(__file__).parents[4] / "shared" / "traces" / "kafka-4.2" / "clusters" / "raft3-elr" / "logs"


def recorded() -> dict[int, list[str]]:
    return {
        node: gzip.decompress((RECORDED / f"node{node}" / "raft.log.gz").read_bytes()).decode().splitlines()
        for node in NODES
    }


def write(place: Path, logs: dict[int, list[str]]) -> list[Path]:
    files = []
    for node, lines in logs.items():
        file = place / f"node{node}" / "raft.log"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        files.append(file)
    return files
