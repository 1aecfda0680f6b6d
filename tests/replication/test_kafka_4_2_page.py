"""The page about Kafka 4.2.1: its names exist, and its counts of recorded instances are recomputed."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from itertools import groupby
from typing import Any

import pytest

from docs.pages.markdown import DOCS, FOLDER
from highwater.checker.scenarios import scenario_files
from tests.conform.test_findings import REQUESTS
from tests.replication.evidence_4_2 import RECORDED, evidence, found_in, lines
from tests.replication.findings_4_2 import FINDINGS, full_name
from tests.replication.test_kafka_4_2_findings import DEPTHS
from tests.replication.test_trunk_findings import FINDINGS as TRUNK

needs_recordings = pytest.mark.skipif(
    not RECORDED.exists(), reason="the recordings are not beside the repository"
)
SHOWN = {name: found["evidence"] for name, found in FINDINGS.items() if "evidence" in found}
"""Finding → the number of instances and the first instance's recording and line, from the page."""


def test_every_scenario_of_4_2_is_on_the_page() -> None:
    assert {full_name(n) for n in FINDINGS} == {n for n in scenario_files.titles() if "/kafka-4.2-" in n}


def test_the_page_has_a_row_for_each_finding_and_a_section_with_drawing_and_closing_rule() -> None:
    page = (DOCS / "kafka-4.2.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"(?m)^\| \[([\w-]+)\]\(#[\w-]+\) (\|.*\|)$", page))
    assert list(rows) == [*FINDINGS, *REQUESTS]
    for name, request in REQUESTS.items():
        assert rows[name] == f"| {request['effect']} | {request['closes']} |"
    for name, finding in FINDINGS.items():
        violated = "<br/>".join(f"`{prop}` {depth}" for prop, depth in DEPTHS[name].items())
        closed = (
            " + ".join(f"`{rule}` {'on' if on else 'off'}" for rule, on in c.items())
            for c in finding["closes"]
        )
        assert rows[name] == f"| {violated} | {'<br/>'.join(closed)} | {finding['reproduced']} |"
    for section in page.split("\n## Within which")[0].split("\n## ")[1:]:
        assert all(part in section for part in ("```text", "- Closed by", "- In the code:", "- Upstream:")), (
            section
        )


def test_the_page_has_a_row_for_each_finding_of_trunk() -> None:
    page = (DOCS / "kafka-4.2.md").read_text(encoding="utf-8")
    assert re.findall(r"`replication/trunk-([\w-]+)` \|", page) == [finding.name for finding in TRUNK]


def test_the_page_has_the_committed_searches() -> None:
    page = (DOCS / "kafka-4.2.md").read_text(encoding="utf-8")
    committed = json.loads((FOLDER / "kafka-4.2-bounds.json").read_text(encoding="utf-8"))
    for (protocol, size, epochs), those in groupby(
        committed, lambda r: (r["protocol"], r["size"], r["epochs"])
    ):
        states = [r["states"] for r in those]
        bounds = " | ".join(", ".join(map(str, numbers)) for numbers in (size, epochs))
        assert f"| `{protocol}` | {bounds} | {len(states)} | {min(states):,} to {max(states):,} |" in page
    violated = [
        (r["steps"][0], violation["closed_by"]) for r in committed for violation in r["violated"].values()
    ]
    assert {kind for kind, _ in violated} == {"reassignments", "elr_level", "min_isr_changes", "directories"}
    assert all(closings for _, closings in violated)


@needs_recordings
def test_the_recordings_have_the_page_s_counts() -> None:
    assert evidence() == {
        name: (shown["count"], shown["first"], shown["line"]) for name, shown in SHOWN.items()
    }


Line = dict[str, Any]


def found(name: str, change: Callable[[Line, Line], None]) -> bool:
    """True if the finding's first instance is still counted after ``change(its line, the line before)``."""
    shown = SHOWN[name]
    path = RECORDED / f"{shown['first']}.ndjson.gz"
    read = [(number, line) for number, line in lines(path) if number <= shown["line"]]
    (_, before), (_, last) = read[-2:]
    changed = copy.deepcopy(last)
    change(changed, before)
    return (name, shown["line"]) in found_in([*read[:-1], (shown["line"], changed)])


def _as_before(line: Line, before: Line) -> None:
    """Undo the partition changes; keep only the recorder's notes."""
    notes = ("effectiveMinIsr", "unclean")
    kept = {(p["topic"], p["partition"]): {note: p[note] for note in notes} for p in line["partitions"]}
    line["partitions"] = [{**p, **kept.get((p["topic"], p["partition"]), {})} for p in before["partitions"]]


@needs_recordings
@pytest.mark.parametrize("name", sorted(set(SHOWN) - {"shut-out"}))
def test_a_recorder_s_note_is_not_counted_as_a_change(name: str) -> None:
    """Changes of the recorder's ``effectiveMinIsr`` were once counted by mistake."""
    assert not found(name, _as_before)
