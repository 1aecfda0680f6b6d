"""The page about Kafka 4.2.1: its names and its figures are those of the findings and the searches."""

from __future__ import annotations

import json
import re
from itertools import groupby

from docs.pages.markdown import DOCS, FOLDER
from highwater.checker.scenarios import scenario_files
from tests.conform.test_findings import REQUESTS
from tests.replication.findings_4_2 import FINDINGS, full_name
from tests.replication.test_kafka_4_2_findings import DEPTHS


def test_every_scenario_of_4_2_is_on_the_page() -> None:
    assert {full_name(n) for n in FINDINGS} == {n for n in scenario_files.titles() if "/kafka-4." in n}


def test_the_page_has_a_row_for_each_finding_and_a_section_with_drawing_and_closing_rule() -> None:
    page = (DOCS / "kafka.md").read_text().partition("\n## Findings by release")[0]
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


def test_the_page_has_the_committed_searches() -> None:
    page = (DOCS / "kafka.md").read_text()
    committed = json.loads((FOLDER / "kafka-4.2-bounds.json").read_text())
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
