"""Each changed field or dropped line of the raft logs is reported by the comparison that checks it."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.messages.raft_replay import replay_raft
from tests.traces.raft.changes import RECORDED, recorded, write

pytestmark = pytest.mark.skipif(
    not RECORDED.is_dir(), reason="shared/traces/kafka-4.2/clusters/raft3-elr is not beside the repository"
)
GROUPS = tomllib.loads(Path(__file__).with_name("changed_fields.toml").read_text("utf-8"))["group"]
UNTIL = "2026-11-21 23:37:40"
"""By this time the first leader is elected and members have fetched its records."""
_VALUE = r"\b{}[= ]\W*(?:Optional\w*\W*)?(?:LogOffsetMetadata\W+offset=|ReplicaKey\W+id=)?([\w-]+)"


@cache
def begin() -> dict[int, list[str]]:
    return {node: [line for line in lines if line[1:24] < UNTIL] for node, lines in recorded().items()}


def changed(changes: list[list[Any]]) -> dict[int, list[str]]:
    logs = {node: list(lines) for node, lines in begin().items()}
    for node, line, field, which, new in sorted(changes, key=lambda change: -change[1]):
        text = logs[node][line - 1]
        if field == "dropped":
            del logs[node][line - 1]
        elif field in ("granted", "rejected"):
            assert f" is {field}" in text
            logs[node][line - 1] = text.replace(f" is {field}", f" is {new}")
        else:
            found = list(re.finditer(_VALUE.format(field), text))[which]
            logs[node][line - 1] = text[: found.start(1)] + new + text[found.end(1) :]
    return logs


def test_the_recording_conforms(tmp_path: Path) -> None:
    assert replay_raft(write(tmp_path, begin())).unexplained == []


@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_each_change_is_reported_by_its_comparison(group: int, tmp_path: Path) -> None:
    wanted = GROUPS[group]
    told = Counter(
        (one.action, *sorted(one.differences), *one.refused_by)
        for line in replay_raft(write(tmp_path, changed(wanted["changes"]))).unexplained
        for one in line.candidates
    )
    assert told == {tuple(what): count for count, *what in wanted["told"]}
