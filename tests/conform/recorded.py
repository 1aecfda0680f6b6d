"""Recorded operations of a real controller, sent through the bridge again."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from highwater.checker.conform.bridge import Bridge

ADDED = (
    "kind",
    "newIncarnation",
    "previousEpochMatches",
    "sessionValid",
    "sessionExpired",
    "meant",
    "renewed",
    "dirOnline",
)
"""Fields that the recorder adds to an operation."""


def differences(path: Path, bridge: Bridge) -> tuple[int, list[str]]:
    """The number of operations of a recording, and a line for each whose error or records differ in the bridge."""
    with gzip.open(path, "rt") as text:
        lines = [json.loads(line) for line in text if line.strip()]
    bridge.ask({"recording": _beginning(lines)})
    topics: dict[str, str] = {}
    found = []
    for line in lines[1:]:
        answer = bridge.ask(_request(line))
        for recorded, sent in zip(line["records"], answer["records"], strict=False):
            if recorded["type"] == "TOPIC_RECORD" == sent["type"]:
                topics[sent["data"]["topicId"]] = recorded["data"]["topicId"]
        sent = [_named(record, topics) for record in answer["records"]]
        error = next(name for name, code in bridge.errors.items() if code == answer["error"])
        if (line["error"], line["nextOffset"]) != (error, answer["offset"]):
            found.append(f"{path.name} {line['i']}: {line['error']}, {error} {answer.get('message')}")
        if _sorted(line["records"]) != _sorted(sent):
            found.append(f"{path.name} {line['i']} {line['op']}:\n  {line['records']}\n  {sent}")
    return len(lines) - 1, found


def _beginning(lines: list[dict[str, Any]]) -> dict[str, Any]:
    meta = lines[0]["meta"]
    configs = [r["data"] for r in meta["bootstrapRecords"] if r["type"] == "CONFIG_RECORD"]
    return {
        "brokers": meta["brokers"],
        "sessionTimeoutMs": meta["sessionTimeoutMs"],
        "staticMinIsr": meta["staticMinIsr"],
        "elr": int(meta["elrEnabled"]),
        "configs": [[c["name"], c["value"]] for c in configs],
        "nextOffset": lines[1]["nextOffset"],
    }


def _request(line: dict[str, Any]) -> dict[str, Any]:
    op = {name: value for name, value in line["op"].items() if name not in ADDED}
    if op["name"] == "registerBroker":
        registered = [r["data"] for r in line["records"] if r["type"] == "REGISTER_BROKER_RECORD"]
        op["logDirs"] = registered[0]["logDirs"] if registered else ["AAAAAAAAB9AAAAAAAAAAAQ"]
        op["rack"] = ""
    fails_over = (line.get("response") or {}).get("causesFailover", False)
    renewed = line["op"].get("renewed", [])
    return {"op": op, "timeMs": line["timeMs"], "renewed": renewed, "failsOver": fails_over}


def _named(record: dict[str, Any], topics: dict[str, str]) -> dict[str, Any]:
    data = dict(record["data"])
    if "topicId" in data:
        data["topicId"] = topics.get(data["topicId"], data["topicId"])
    return {**record, "data": data}


def _sorted(records: list[dict[str, Any]]) -> list[str]:
    """Records as sorted text. Kafka writes partitions in the order of a hash table, which depends on topic ids."""
    return sorted(json.dumps(record, sort_keys=True) for record in records)
