"""Kafka's own code executes the findings of docs/kafka.md."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from docs.pages.markdown import DOCS, FOLDER
from highwater.checker.conform.bridge import Bridge
from tests import kafka_release
from tests.conform.test_conform import run
from tests.replication.findings_4_2 import FINDINGS, full_name
from tests.replication.test_kafka_4_2_findings import DEPTHS
from tests.slow import all_but

ROOT = DOCS.parent
REQUESTS: dict[str, dict[str, Any]] = {
    finding["name"]: finding
    for finding in tomllib.loads((FOLDER / "kafka.toml").read_text(encoding="utf-8"))["request"]
}
"""The findings that one request shows, by name, in the order of the page."""
FAST = ("reassignment-loss-records",)


@pytest.mark.parametrize("name", all_but(FAST, FINDINGS, "each finding, where the fast test takes one"))
def test_a_finding_is_reproduced_as_on_its_page(kafka: Path, tmp_path: Path, name: str) -> None:
    place = kafka_release.kafka(FINDINGS[name]["release"]) if "release" in FINDINGS[name] else kafka
    status, found, output = run(place, tmp_path, full_name(name), "--counterexamples")
    assert status == 0, output
    runs = {one["property"]: one for one in found["scenarios"][0]["runs"]}
    assert {prop: len(one["steps"]) + 1 for prop, one in runs.items()} == DEPTHS[name]
    assert all(one["reproduced"] and one["stopped_at"] is None for one in runs.values())
    lost = runs.get("acknowledged_records_survive", {"lost": []})["lost"]
    on_page = FINDINGS[name]["reproduced"]
    if lost:
        assert on_page == "yes: 1 acknowledged record is lost"
    else:
        assert on_page in ("yes", "controller only")
    if name == "shut-out":
        thrown = "IllegalArgumentException: Replica 2 is not assigned to this partition."
        failures = [one for one in runs["every_broker_comes_back"]["fails"] if thrown in one]
        assert any("registerBroker" in failure for failure in failures)


def test_a_run_that_kafka_does_not_allow_is_not_reproduced(kafka: Path, tmp_path: Path) -> None:
    """The model runs without the gate of the HWM: its leader acknowledges records that Kafka's leader does not."""
    rule = ("--rule", "hwm_needs_min_isr=off", "--rule", "acks_all_needs_min_isr=off")
    goal = ("--property", "acknowledged_records_survive")
    scenario = "replication/small-crash"
    status, found, output = run(
        kafka, tmp_path, scenario, "--profile", "kafka_4_2", *rule, *goal, "--counterexamples"
    )
    assert status == 1, output
    assert not any(one["reproduced"] for one in found["scenarios"][0]["runs"])


@pytest.mark.parametrize(
    "name", all_but(("failed-directory",), REQUESTS, "each request, where the fast test takes one")
)
def test_a_request_is_answered_as_on_the_page(
    kafka: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    finding = REQUESTS[name]
    command = f"highwater conform --request {finding['file']} --kafka 4.2.1"
    page = (DOCS / "kafka.md").read_text(encoding="utf-8")
    assert f"- Command: `{command}`\n" in page
    monkeypatch.chdir(ROOT)
    status, found, output = run(kafka, tmp_path, "--request", finding["file"])
    assert (status, found["same"]) == (0, True), output
    assert ("Kafka throws RuntimeException: " + finding.get("throws", "none") in output) == (
        "throws" in finding
    )
    shown = page.split(f"$ {command}\n")[1:]
    for line in (line for block in shown for line in block.split("```")[0].splitlines() if line != "  …"):
        assert f"{line}\n" in output


"""Numbers of two fields in an observation of two brokers."""


@pytest.mark.parametrize("unfenced_first", [True, False])
def test_a_failed_directory_is_not_elected_by_one_event_in_each_heartbeat(
    bridge: Bridge, unfenced_first: bool
) -> None:
    content = _request("failed-directory")
    events = [{"name": "brokerHeartbeat", "broker": 0}, {"name": "loseDirectory", "broker": 0}]
    first, then = events if unfenced_first else events[::-1]
    after = _answer(bridge, content, [*content["path"], first], then)["after"]
    assert (after["partition.leader"], after["partition.offline"]) == (-1, 0b01)
    expected = content["expected"]["after"]
    assert (expected["partition.leader"], expected["partition.offline"]) == (0, 0b01)


def test_a_topic_that_is_deleted_with_an_isr_leaves_no_directory(bridge: Bridge) -> None:
    content = _request("deleted-topic-directory")
    create, fence, delete, unfence = content["path"]
    assert _answer(bridge, content, [create, delete, fence, unfence], content["request"])["error"] == 0


def test_a_topic_whose_elr_was_not_emptied_leaves_no_index_entry(bridge: Bridge) -> None:
    content = _request("deleted-topic-elr")
    path = [op for op in content["path"] if op["name"] != "incrementalAlterConfigs"]
    assert len(path) == len(content["path"]) - 1
    assert _answer(bridge, content, path, content["request"])["error"] == 0


def _request(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((ROOT / REQUESTS[name]["file"]).read_text(encoding="utf-8"))
    return content


def _answer(bridge: Bridge, content: dict[str, Any], path: list[Any], op: dict[str, Any]) -> dict[str, Any]:
    for number, before in enumerate(path):
        setup = {"scenario": content["scenario"], "path": path[:number], "op": before}
        assert bridge.ask({"explain": setup})["error"] == 0
    return bridge.ask({"explain": {"scenario": content["scenario"], "path": path, "op": op}})
