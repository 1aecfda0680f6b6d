"""Sequence charts are valid Mermaid and show which broker did what."""

from __future__ import annotations

import re

import pytest

from highwater.checker.engines.native import search
from highwater.checker.report.charts import Lanes, SequenceChart, escape
from highwater.checker.report.counterexample import Counterexample, follow_all
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.scenario_files import find
from highwater.checker.scenarios.search import SearchOptions
from highwater.model import registry
from highwater.model.language import Model


def run_of(name: str) -> tuple[Model, Counterexample]:
    model = Request.of(find(name), Overrides()).model()
    result = search(model, SearchOptions(workers=1, stop_at_first=True))
    return model, follow_all(model, result.violations)[0]


@pytest.mark.parametrize(
    "name",
    ["replication/defect-stale-epoch-both", "replication/defect-weak-writes", "truncation/truncate-to-hwm"],
)
def test_mermaid_is_well_formed(name: str) -> None:
    model, example = run_of(name)
    head, *lines = SequenceChart(model.protocol).mermaid(example).splitlines()
    assert head == "sequenceDiagram"
    declared = [m[1] for line in lines if (m := re.fullmatch(r"    participant (\w+) as [^;#]+", line))]
    assert len(declared) == len(set(declared)) >= 1
    for line in lines[len(declared) :]:
        found = re.fullmatch(r"    (?:Note over (\w+)(?:,(\w+))?|(\w+)-\)(\w+)): (.+)", line)
        assert found, line
        assert {lane for lane in found.groups()[:4] if lane} <= set(declared)
        text = re.sub(r"#\d+;|<br/>", "", found[5])
        assert not re.search(r"[;#<>]|\bend\b", text), line


def test_steps_are_in_their_actor_s_lane_and_messages_go_to_their_receivers() -> None:
    model, example = run_of("replication/defect-stale-epoch-both")
    text = SequenceChart(model.protocol).mermaid(example)
    assert "participant L0 as controller" in text
    assert "participant L2 as broker 1" in text
    assert re.search(r"Note over L2: \d+\. broker 1 sends a fetch\n    L2-\)L1: Fetch: offset 0", text)
    assert re.search(
        r"Note over L1: .*proposes broker 1 for.*\n    L1-\)L0: AlterPartition: isr \{0,1\}", text
    )
    assert re.search(r"Note over L0: .*the controller fences broker 1<br/>partition\.isr", text)
    assert (
        text.rstrip().splitlines()[-1].startswith("    Note over L0,L2: electable_completeness is violated")
    )
    numbers = [int(n) for n in re.findall(r"Note over \S+: (\d+)\. ", text)]
    assert numbers == list(range(2, example.depth + 1))


def test_a_protocol_without_a_drawing_has_one_lane() -> None:
    model, example = run_of("docs/examples/register-hasty.toml")
    assert model.protocol.drawing is None
    text = SequenceChart(model.protocol).mermaid(example)
    assert text.count("participant") == 1
    assert text.count("Note over L0:") == example.depth


def test_data_passed_by_a_step_is_an_arrow() -> None:
    model, example = run_of("truncation/truncate-to-hwm")
    text = SequenceChart(model.protocol).mermaid(example)
    assert re.search(
        r"Note over L3: \d+\. replica 2 becomes follower in epoch 0.*\n    L0-\)L3: LeaderAndIsr\n", text
    )
    assert re.search(
        r"Note over L3: \d+\. replica 2 fetches a record from replica 0.*\n    L1-\)L3: record\n", text
    )


def test_mermaid_syntax_is_escaped() -> None:
    assert escape("a;b #1\nthe end") == "a#59;b #35;1 the e#110;d"
    assert escape("weekend <b>") == "weekend #60;b#62;"


def test_a_lane_shows_its_own_fields_without_their_path() -> None:
    lanes = Lanes(registry.protocol_of("truncation")())
    assert lanes.own == ["quorum", "replicas[0]", "replicas[1]", "replicas[2]"]
