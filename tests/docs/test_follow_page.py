"""Alert rules and dashboard use existing metrics, and the page on following lists every metric.

Programs of Debian's packages prometheus and prometheus-alertmanager check the examples. Without them these tests are
skipped; if ``HIGHWATER_NEEDS_PROMETHEUS`` is set, as in continuous integration, they fail.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml  # type: ignore[import-untyped]

from highwater.checker.follow.outputs import Metrics
from highwater.checker.plan.answer import NAMES
from highwater.traces.follow.session import STATES, Counts
from highwater.traces.reports.incidents import SEVERITIES
from tests.docs.test_language_pages import DOCS
from tests.traces.follow.clusters import events_of, made_log

EXAMPLES = DOCS / "examples" / "follow"
RULES, DASHBOARD = EXAMPLES / "alerts.yml", EXAMPLES / "dashboard.json"
NAME = re.compile(r"\bhighwater_[a-z_]+")
LABEL = re.compile(r"(highwater_[a-z_]+)\{[^}]*?(state|severity|outcome)(?:=|!=|=~)\"([^\"]+)\"")
REQUIRED = "HIGHWATER_NEEDS_PROMETHEUS"


def rules() -> list[dict[str, Any]]:
    """The alert rules."""
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return list(group["rules"])


@pytest.fixture
def served(tmp_path: Path) -> dict[str, set[str]]:
    """Metric → the values of its label ``state``, ``severity`` or ``outcome``."""
    metrics = Metrics(str(tmp_path / "metrics"))
    metrics.margins("restart", [(2, dict.fromkeys(NAMES, 0))])
    metrics.update(Counts(), [])
    found: dict[str, set[str]] = {}
    for line in (tmp_path / "metrics").read_text().splitlines():
        if name := NAME.match(line):
            found.setdefault(name[0], set()).update(re.findall(r'(?:state|severity|outcome)="([^"]+)"', line))
    return {name: values for name, values in found.items() if not name.endswith("_created")}


def expressions() -> list[str]:
    """The queries of the alert rules and of the dashboard."""
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return [
        *(rule["expr"] for rule in rules()),
        *(target["expr"] for panel in panels for target in panel["targets"]),
    ]


def test_queries_name_metrics_and_labels_that_exist(served: dict[str, set[str]]) -> None:
    for query in expressions():
        names = NAME.findall(query)
        assert names, query
        assert set(names) <= served.keys(), query
        for name, _, values in LABEL.findall(query):
            assert set(values.split("|")) <= served[name], query


def test_each_alert_has_a_severity_and_a_section_of_the_runbooks() -> None:
    text = (DOCS / "runbooks.md").read_text(encoding="utf-8")
    sections = {part.partition("\n")[0]: part for part in text.split("\n## ")[1:]}
    assert list(sections) == [rule["alert"] for rule in rules()]
    for rule in rules():
        name, said = rule["alert"], rule["annotations"]
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert said.keys() == {"summary", "description", "runbook_url"}
        assert "{{" not in said["summary"]
        assert said["runbook_url"].endswith(f"/runbooks.html#{name.lower()}")
        parts = re.findall(r"^\*\*(\w+)\.\*\* \S", sections[name], re.M)
        assert parts == ["Meaning", "Impact", "Diagnosis", "Mitigation"], name


def test_the_rules_for_the_prometheus_operator_are_equal() -> None:
    monitor, rule = yaml.safe_load_all((EXAMPLES / "strimzi.yaml").read_text())
    assert (monitor["kind"], rule["kind"]) == ("PodMonitor", "PrometheusRule")
    assert rule["spec"] == yaml.safe_load(RULES.read_text())


def test_the_page_lists_every_metric(served: dict[str, set[str]]) -> None:
    text = (DOCS / "follow.md").read_text()
    listed = set(re.findall(r"^\| `(highwater_[a-z_]+)", text, re.M))
    assert listed == served.keys()


# --- the programs of Prometheus -----------------------------------------------------------------------------------


def run(program: str, *arguments: object) -> None:
    """Run a program of Prometheus, which must succeed."""
    if shutil.which(program) is None:
        reason = f"no {program} (Debian's packages prometheus and prometheus-alertmanager)"
        if os.environ.get(REQUIRED):
            pytest.fail(f"{REQUIRED} is set: {reason}")
        pytest.skip(reason)
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_accepts_its_configuration_and_the_rules() -> None:
    run("promtool", "check", "config", EXAMPLES / "prometheus.yml")
    run("promtool", "check", "rules", RULES)


def test_alertmanager_accepts_its_configuration() -> None:
    run("amtool", "check-config", EXAMPLES / "alertmanager.yml")


WELL = {
    "up": "1x60",
    "highwater_waiting": "0x60",
    "highwater_last_record_seconds": "0+60x60",
    "highwater_caveats": "0x60",
    "highwater_nonconforming_records": "0x60",
    **{
        f'{name}{{severity="{severity}"}}': "0x60"
        for name in ("highwater_incidents", "highwater_incidents_opened_total")
        for severity in SEVERITIES
    },
    **{f'highwater_partitions{{state="{state}"}}': "0x60" for state in STATES},
    **{
        f'highwater_plan_partitions{{action="restart",broker="2",outcome="{outcome}"}}': "0x60"
        for outcome in NAMES
    },
}
"""Series → values, one a minute, of a cluster without an incident; names are as in the metrics."""
OPEN, OPENED = ('highwater_incidents{{severity="{}"}}', 'highwater_incidents_opened_total{{severity="{}"}}')
PARTITIONS = 'highwater_partitions{{state="{}"}}'
PLANNED = 'highwater_plan_partitions{{action="restart",broker="2",outcome="{}"}}'
ONCE, LONG_AGO, LATER = "0x28 1x40", "0x5 1x60", "0x29 1x40"
"""The value 1 from minute 29, 6 and 30 on."""


CASES: list[tuple[str, str | None, str | None]] = [
    ("up", "1x60", None),
    (OPEN.format("lost"), ONCE, "HighwaterRecordsLost"),
    (OPENED.format("lost"), ONCE, "HighwaterRecordsLost"),
    (OPENED.format("lost"), LONG_AGO, None),
    (OPEN.format("stuck"), ONCE, "HighwaterPartitionStuck"),
    (OPENED.format("stuck"), ONCE, None),
    (OPEN.format("at_risk"), ONCE, "HighwaterAtRisk"),
    (OPENED.format("at_risk"), ONCE, "HighwaterAtRisk"),
    (OPENED.format("at_risk"), LONG_AGO, None),
    (OPENED.format("unclean"), ONCE, "HighwaterUncleanElection"),
    (OPENED.format("unclean"), LONG_AGO, None),
    (OPEN.format("unclean"), "1x60", None),
    (OPEN.format("notice"), "1x60", None),
    (PARTITIONS.format("offline"), ONCE, "HighwaterOffline"),
    (PARTITIONS.format("offline"), LATER, None),
    (PARTITIONS.format("under_min_isr"), "0x24 1x40", "HighwaterUnderMinIsr"),
    (PARTITIONS.format("under_min_isr"), "0x25 1x40", None),
    *((PARTITIONS.format(state), "9x60", None) for state in ("all", "elr", "at_min_isr", "min_isr_unknown")),
    (PLANNED.format("stuck"), "0x24 1x40", "HighwaterRestartIsUnsafe"),
    (PLANNED.format("lost"), "0x25 1x40", None),
    *((PLANNED.format(outcome), "9x60", None) for outcome in ("offline", "unclean", "min-isr")),
    ("highwater_nonconforming_records", ONCE, "HighwaterNonconforming"),
    ("highwater_nonconforming_records", LONG_AGO, None),
    ("highwater_nonconforming_records", "1x28 0x40", None),  # a restart of the follower
    ("up", "1x27 0x40", "HighwaterSeesNothing"),
    ("up", "1x28 0x40", None),
    ("up", None, "HighwaterSeesNothing"),
    ("highwater_waiting", "1x60", "HighwaterSeesNothing"),
    ("highwater_last_record_seconds", "0+60x26 1560x40", "HighwaterSeesNothing"),
    ("highwater_last_record_seconds", "-50+60x60", None),
    ("highwater_caveats", ONCE, "HighwaterCaveats"),
    ("highwater_caveats", LATER, None),
]
"""The series that differs from ``WELL``, its values, and the only alert that fires half an hour later, if any."""


FOLLOWED = [
    ({OPENED.format("at_risk"): ONCE, OPENED.format("unclean"): ONCE}, "HighwaterUncleanElection"),
    ({OPENED.format("at_risk"): ONCE, OPENED.format("lost"): ONCE}, "HighwaterRecordsLost"),
    ({OPEN.format("at_risk"): ONCE, OPENED.format("unclean"): LONG_AGO}, "HighwaterAtRisk"),
    ({OPENED.format("at_risk"): ONCE, OPENED.format("unclean"): LONG_AGO}, "HighwaterAtRisk"),
]
"""Series that differ together: an incident at risk becomes one of another severity, or an earlier one did."""


def test_each_alert_fires_when_it_should_and_no_other_one(tmp_path: Path) -> None:
    test = tmp_path / "test.yml"
    cases: list[tuple[Mapping[str, str | None], str | None]]
    cases = [*(({series: values}, alert) for series, values, alert in CASES), *FOLLOWED]
    head = {"rule_files": [str(RULES)], "evaluation_interval": "1m"}
    test.write_text(json.dumps({**head, "tests": [rule_test(*case) for case in cases]}))
    assert {alert for _, alert in cases if alert is not None} == {rule["alert"] for rule in rules()}
    assert {series for changed, _ in cases for series in changed} <= WELL.keys()
    run("promtool", "test", "rules", test)


def rule_test(changed: Mapping[str, str | None], alert: str | None) -> dict[str, Any]:
    """A case in the form of promtool: the series that differ from ``WELL``, None if one does not exist."""
    name = ", ".join(f"{series} {values}" for series, values in changed.items())
    own = re.findall(r'\b(state|action|broker|outcome)="([\w-]+)"', name)
    labels = {"job": "highwater", **dict(own)}
    if None not in changed.values():
        labels |= {"cluster": "orders", "instance": "kafka-1:9464"}
    expected = []
    for rule in rules():
        said = {
            name: re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels.get(found[1], ""), text).replace(
                "{{ $value }}", "1"
            )
            for name, text in rule["annotations"].items()
        }
        fires = [{"exp_labels": {**labels, **rule["labels"]}, "exp_annotations": said}]
        expected.append(
            {"eval_time": "30m", "alertname": rule["alert"], "exp_alerts": fires * (rule["alert"] == alert)}
        )
    found = {**WELL, **changed}
    inputs = [{"series": with_target(series), "values": of} for series, of in found.items() if of is not None]
    return {"name": name, "interval": "1m", "input_series": inputs, "alert_rule_test": expected}


def with_target(series: str) -> str:
    """A series with the labels that Prometheus adds to those of the follower."""
    name, brace, own = series.partition("{")
    return f'{name}{{job="highwater",cluster="orders",instance="kafka-1:9464"{"," if brace else "}"}{own}'


# --- the script for PagerDuty and Slack ----------------------------------------------------------------------------

INCIDENT = {
    "id": "t-0@5",
    "severity": "lost",
    "partition": "t-0",
    "headline": "t&<-0 lost records",
    "cause": ["An election."],
    "steps": [{"when": "do now", "text": "Copy it.", "commands": []}],
    "certain": True,
    "reliable": True,
}


class Receiver(BaseHTTPRequestHandler):
    """Keeps each request, and answers with 202, or on the path ``/busy`` with 503."""

    got: ClassVar[list[tuple[str, Any]]] = []

    def do_POST(self) -> None:
        assert self.headers["Content-Type"] == "application/json"
        self.got.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
        self.send_response(503 if self.path == "/busy" else 202)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def receiver() -> Iterator[str]:
    """The URL of a server; ``Receiver.got`` has its requests."""
    Receiver.got.clear()
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def notify(event: Mapping[str, Any], **environment: str) -> tuple[int, str]:
    """Give an event to the script; its exit status and standard error."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / "notify.py", "orders"],
        input=json.dumps(event),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def test_pagerduty_gets_one_alert_an_incident_which_is_resolved_when_it_closes(
    receiver: str, tmp_path: Path
) -> None:
    events = events_of(made_log(tmp_path / "made"), tmp_path / "once")[:2]
    for event in events:
        to = {"PAGERDUTY_ROUTING_KEY": "key", "PAGERDUTY_URL": f"{receiver}/v2/enqueue"}
        assert notify(event, **to) == (0, "")
    (path, opened), (_, closed) = Receiver.got
    incident = events[0]["incident"]
    assert path == "/v2/enqueue"
    assert {"routing_key": "key", "dedup_key": incident["id"]}.items() <= opened.items() & closed.items()
    assert (opened["event_action"], closed["event_action"]) == ("trigger", "resolve")
    said = opened["payload"]
    assert said["summary"] == f"orders: AT RISK: {incident['headline']}"
    assert (said["source"], said["severity"], said["component"]) == ("orders", "critical", "t-0")
    assert said["custom_details"] == {"cause": incident["cause"], "steps": incident["steps"]}


@pytest.mark.parametrize(
    ("severity", "expected"),
    [
        ("lost", "critical"),
        ("stuck", "critical"),
        ("at_risk", "critical"),
        ("unclean", "warning"),
        ("notice", None),
    ],
)
def test_a_notice_pages_nobody(receiver: str, severity: str, expected: str | None) -> None:
    event = {"event": "changed", "incident": {**INCIDENT, "severity": severity}}
    assert notify(event, PAGERDUTY_ROUTING_KEY="key", PAGERDUTY_URL=receiver) == (0, "")
    ((_, got),) = Receiver.got
    assert got.get("payload", {}).get("severity") == expected
    assert got["event_action"] == ("trigger" if expected else "resolve")
