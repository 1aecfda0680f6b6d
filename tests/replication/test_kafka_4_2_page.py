"""The page about Kafka 4.2.1: what its text names is there, and what it counts in recordings is counted again."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest

from docs.pages.kafka_4_2 import FINDINGS, full_name
from docs.pages.markdown import DOCS
from highwater.checker.scenarios import scenario_files
from tests.replication.evidence_4_2 import RECORDED, evidence, found_in, lines
from tests.replication.test_kafka_4_2_findings import DEPTHS
from tests.replication.trunk_findings import FINDINGS as TRUNK

needs_recordings = pytest.mark.skipif(not RECORDED.exists(), reason="the recordings are not here")
SHOWN = {name: found["evidence"] for name, found in FINDINGS.items() if "evidence" in found}
"""What the page says of the recordings: how many instances, the first one's recording and line."""


def test_every_scenario_of_4_2_is_on_the_page() -> None:
    assert {full_name(n) for n in FINDINGS} == {n for n in scenario_files.titles() if "/kafka-4.2-" in n}


def test_the_page_has_a_row_for_each_finding_and_a_section_with_drawing_and_closing_rule() -> None:
    page = (DOCS / "kafka-4.2.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"(?m)^\| \[([\w-]+)\]\(#[\w-]+\) (\|.*\|)$", page))
    assert list(rows) == list(FINDINGS)
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


@needs_recordings
def test_the_recordings_hold_what_the_page_counts() -> None:
    assert evidence() == {
        name: (shown["count"], shown["first"], shown["line"]) for name, shown in SHOWN.items()
    }


# --- altered recordings: an instance that is taken away is no longer counted ----------------------------------


Line = dict[str, Any]


def found(name: str, change: Callable[[Line, Line], None]) -> bool:
    """Whether the page's first instance of a finding is counted after a change of its line, by the line before."""
    shown = SHOWN[name]
    path = RECORDED / f"{shown['first']}.ndjson.gz"
    read = [(number, line) for number, line in lines(path) if number <= shown["line"]]
    (_, before), (_, last) = read[-2:]
    changed = copy.deepcopy(last)
    change(changed, before)
    return (name, shown["line"]) in found_in([*read[:-1], (shown["line"], changed)])


def _each(change: Callable[[Line], None]) -> Callable[[Line, Line], None]:
    """Of each partition after the operation."""

    def changed(line: Line, _: Line) -> None:
        for partition in line["partitions"]:
            change(partition)

    return changed


def _set(**fields: Any) -> Callable[[Line, Line], None]:
    return _each(lambda partition: partition.update(fields))


def _line(**fields: Any) -> Callable[[Line, Line], None]:
    return lambda line, _: line.update(fields)


def _as_before(line: Line, before: Line) -> None:
    """Only what the recorder notes beside the partitions changes."""
    notes = ("effectiveMinIsr", "unclean")
    kept = {(p["topic"], p["partition"]): {note: p[note] for note in notes} for p in line["partitions"]}
    line["partitions"] = [{**p, **kept.get((p["topic"], p["partition"]), {})} for p in before["partitions"]]


def _op(name: str) -> Callable[[Line, Line], None]:
    return lambda line, _: line["op"].update(name=name)


def _replies(**fields: Any) -> Callable[[Line, Line], None]:
    return lambda line, _: line["response"].update(fields)


ALTERED: dict[str, dict[str, Callable[[Line, Line], None]]] = {
    "elr-turned-off": {
        "with ELR on": _line(elrVersion=1),
        "an unclean election": _set(leaderRecoveryState="RECOVERING"),
        "another is elected": _set(leader=1),
    },
    "reassignment": {
        "a replica": _each(lambda p: p.update(replicas=[*p["replicas"], *p["elr"]])),
        "no ELR": _set(elr=[]),
    },
    "reassignment-loss": {
        "an unclean election": _set(leaderRecoveryState="RECOVERING"),
        "the leader stays": _set(leader=2),
        "nobody is elected": _set(leader=-1),
    },
    "shut-out": {
        "another operation": _op("brokerHeartbeat"),
        "an answer that is no failure": _replies(causesFailover=False),
        "another exception": _replies(message="Replica 9 is not assigned to this partition."),
        "a replica": _each(lambda p: p.update(replicas=[*p["replicas"], *p["lastKnownElr"]])),
        "nobody remembered": _set(lastKnownElr=[]),
    },
    "cleared-elr": {
        "without the record": _line(records=[]),
        "somebody remembered": _set(lastKnownElr=[2]),
        "with a leader": _set(leader=2),
    },
    "forgotten-leader": {"a broker is remembered": _set(lastKnownElr=[1]), "nobody": _set(lastKnownElr=[])},
    "assignment": {
        "another operation": _op("alterPartition"),
        "the ELR stays": _set(elr=[2]),
        "min ISR members": _set(effectiveMinIsr=1),
    },
    "level-lowered": {
        "with ELR on": _line(elrVersion=1),
        "a member is left": _each(lambda p: p.update(elr=p["replicas"][:1])),
        "with a leader": _set(leader=1),
        "with an ISR": _set(isr=[1]),
    },
    "level-raised": {
        "with ELR off": _line(elrVersion=0),
        "somebody remembered": _set(lastKnownElr=[2]),
        "an ELR": _set(elr=[2]),
        "another operation": _op("brokerHeartbeat"),
    },
    "stuck-elr": {
        "a replica": _each(lambda p: p.update(elr=[*p["elr"], p["replicas"][0]])),
        "no ELR": _set(elr=[]),
        "with a leader": _set(leader=1),
    },
    "cancelled-loss": {
        "another operation": _op("brokerHeartbeat"),
        "another member": _set(isr=[9]),
        "still empty": _set(isr=[]),
    },
    "outlived-leader": {"nobody leads": _set(leader=-1), "nobody remembered": _set(lastKnownElr=[])},
    "first-partition": {
        "an ELR": _set(elr=[2]),
        "the first partition": _each(lambda p: p.update(partition=1 - p["partition"])),
        "with ELR off": _line(elrVersion=0),
        "on request": _op("alterPartitionReassignments"),
    },
}


def test_evidence_of_every_kind_is_altered() -> None:
    assert set(ALTERED) == set(SHOWN)


@needs_recordings
@pytest.mark.parametrize("name", SHOWN)
def test_an_instance_is_counted(name: str) -> None:
    assert found(name, lambda line, before: None)


@needs_recordings
@pytest.mark.parametrize(("name", "what"), [(name, what) for name, of in ALTERED.items() for what in of])
def test_what_is_no_instance_is_not_counted(name: str, what: str) -> None:
    assert not found(name, ALTERED[name][what])


@needs_recordings
@pytest.mark.parametrize("name", sorted(set(SHOWN) - {"shut-out"}))
def test_a_note_beside_a_partition_is_no_change(name: str) -> None:
    """Two changes of a setting, of which the recorder writes a new ``effectiveMinIsr``, were counted once."""
    assert not found(name, _as_before)
