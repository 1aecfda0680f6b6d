"""The recorded clusters of 2024."""

from __future__ import annotations

from pathlib import Path

from tests import recordings

CLUSTERS = recordings.folder("traces/kafka/clusters")
SCENARIOS = sorted(path.name for path in CLUSTERS.glob("*")) if CLUSTERS.is_dir() else []

needs_clusters = recordings.needs("traces/kafka/clusters")


def broker_logs(scenario: str) -> list[Path]:
    return sorted((CLUSTERS / scenario / "logs").glob("node[0-9]/s*.log.gz"))
