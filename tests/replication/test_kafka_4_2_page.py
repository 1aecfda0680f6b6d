"""The page about Kafka 4.2.1: what its text names is there, and what it counts in recordings is counted again."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from highwater.checker import scenarios
from highwater.checker.docs.findings_4_2 import FINDINGS, TEXTS, full_name

RECORDED = Path(__file__).parents[3] / "shared" / "traces" / "kafka-4.2" / "controller"


def test_every_scenario_of_4_2_is_on_the_page() -> None:
    assert {full_name(n) for n in FINDINGS} == {n for n in scenarios.titles() if "/kafka-4.2-" in n}


def _told(op: str, level: int, before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What a recorded change of a partition shows."""
    elr, last = now.get("elr", []), now.get("lastKnownElr", [])
    shown = {
        "elr_while_off": bool(level == 0 and elr),
        "elr_not_replicas": bool(set(elr) - set(now["replicas"])),
        "no_leader_remembered": -1 in last,
        "nobody_left": now["leader"] == -1 and not (now["isr"] or elr or last),
        "emptied_by_assignment": bool(op == "assignReplicasToDirs" and before.get("elr") and not elr),
        "outlived": bool(now["leader"] >= 0 and last),
        "cancelled_into_isr": bool(
            op == "alterPartitionReassignments"
            and before
            and not before["isr"]
            and now["isr"] == now["replicas"][:1]
        ),
        **_without_leader(level, before, now),
    }
    return [name for name, is_so in shown.items() if is_so]


def _without_leader(level: int, before: dict[str, Any], now: dict[str, Any]) -> dict[str, bool]:
    """What a change shows that leaves a partition without leader and ISR."""
    elr, last = now.get("elr", []), now.get("lastKnownElr", [])
    nobody = now["leader"] == -1 and not now["isr"]
    lost = before.get("leader") == -1 and bool(before.get("isr"))
    return {
        "level_lowered": bool(nobody and level == 0 and before.get("elr") and not elr),
        "level_raised": bool(nobody and level == 1 and lost and not elr and not last),
        "stuck": bool(nobody and elr and not set(elr) & set(now["replicas"])),
    }


@pytest.mark.skipif(not RECORDED.exists(), reason="the recordings are not here")
def test_the_recordings_hold_what_the_page_counts() -> None:
    counted: Counter[str] = Counter()
    for path in sorted(RECORDED.glob("elr-on*/*.gz")):
        before: dict[tuple[str, int], dict[str, Any]] = {}
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in map(json.loads, lines):
                if "partitions" not in line:
                    continue
                op = line["op"]["name"]
                if line["error"] == "UNKNOWN_SERVER_ERROR":
                    counted["throws"] += 1
                    counted["registrations_that_throw"] += op == "registerBroker"
                now = {(p["topic"], p["partition"]): p for p in line["partitions"]}
                for key, partition in now.items():
                    if before.get(key) != partition:
                        counted.update(_told(op, line["elrVersion"], before.get(key, {}), partition))
                before = now
    assert counted == TEXTS["counts"]
