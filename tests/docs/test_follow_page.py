"""Alert rules and dashboard use existing metrics, and the page on following lists every metric."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from highwater.checker.follow.metrics import Metrics
from highwater.traces.follow.reading import Counts
from tests.docs.test_language_pages import DOCS

EXAMPLES = DOCS / "examples" / "follow"
RULES, DASHBOARD = EXAMPLES / "alerts.yml", EXAMPLES / "dashboard.json"
NAME = re.compile(r"\bhighwater_[a-z_]+")
LABEL = re.compile(r"(highwater_[a-z_]+)\{[^}]*?(state|severity)(?:=|!=|=~)\"([^\"]+)\"")


@pytest.fixture
def served(tmp_path: Path) -> dict[str, set[str]]:
    """Metric → the values of its label ``state`` or ``severity``."""
    metrics = Metrics(str(tmp_path / "metrics"))
    metrics.update(Counts(), [])
    found: dict[str, set[str]] = {}
    for line in (tmp_path / "metrics").read_text().splitlines():
        if name := NAME.match(line):
            found.setdefault(name[0], set()).update(re.findall(r'(?:state|severity)="([^"]+)"', line))
    return {name: values for name, values in found.items() if not name.endswith("_created")}


def expressions() -> list[str]:
    """The queries of the alert rules and of the dashboard."""
    rules = [rule["expr"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return [*rules, *(target["expr"] for panel in panels for target in panel["targets"])]


def test_queries_name_metrics_and_labels_that_exist(served: dict[str, set[str]]) -> None:
    for query in expressions():
        names = NAME.findall(query)
        assert names, query
        assert set(names) <= served.keys(), query
        for name, _, values in LABEL.findall(query):
            assert set(values.split("|")) <= served[name], query


def test_every_severity_except_notice_has_a_query(served: dict[str, set[str]]) -> None:
    alerted = {
        value for query in expressions() for _, label, value in LABEL.findall(query) if label == "severity"
    }
    assert served["highwater_incidents"] - alerted == {"notice"}


def test_each_rule_has_a_severity_and_a_summary() -> None:
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in ("critical", "warning", "info")
            assert rule["annotations"]["summary"]


def test_the_page_lists_every_metric(served: dict[str, set[str]]) -> None:
    text = (DOCS / "follow.md").read_text()
    listed = set(re.findall(r"^\| `(highwater_[a-z_]+)", text, re.M))
    assert listed == served.keys()
