"""``conform --infer`` finds a switched rule again, and ``diff --kafka`` what changed between two Kafkas."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from highwater.checker.cli import cli
from highwater.checker.conform.bridge import Jars
from highwater.model.replication.controller.rules import PROFILES
from tests import kafka_release
from tests.conform.test_conform import (
    LEVELS,
    SMALL,
    WITHOUT_INDEX,
    run,
)
from tests.conform.test_walks import MESSAGES, ON_KAFKA
from tests.slow import slow

FAST = ("assignment_empties_elr",)
KEPT = ("--infer", "--quiet", "--limit-states", "3000")


def switched(rule: str) -> tuple[str, str]:
    """The option that has a rule otherwise than Kafka 4.2, and the switch that sets it back."""
    is_on = rule in PROFILES["kafka_4_2"].rules
    return f"--rule={rule}={'off' if is_on else 'on'}", f"{rule} {'on' if is_on else 'off'}"


def test_a_switched_rule_is_found_again(kafka: Path, tmp_path: Path) -> None:
    option, back = switched("assignment_empties_elr")
    both = (SMALL, MESSAGES, *ON_KAFKA, "--sample", "60")
    status, found, said = run(kafka, tmp_path, *both, "--infer", "--quiet", option)
    inferred = found["inferred"]
    assert (status, list(inferred["switched"])) == (3, [back]), said  # a sample
    assert [one["protocol"] for one in inferred["follows"]] == ["replication.controller", "replication"]
    assert [(one["profile"], one["otherwise"]) for one in inferred["follows"]] == [("kafka_4_2", {})] * 2
    assert "Kafka 4.2.1 follows kafka_4_2 (replication.controller)" in said
    (kind,) = inferred["switched"][back]
    assert (kind["of"], set(kind["differs"])) == ("assign_directory", {"partition.elr", "elr_entries"})
    assert found["scenarios"][0]["differences"] == []


def changed_kafka(kafka: Path, place: Path) -> Path:
    """A release whose index of ELR members is always empty."""
    source = place / "BrokersToElrs.java"
    (place / "libs").mkdir()
    source.write_text(WITHOUT_INDEX)
    class_path = ":".join(Jars.found(kafka).class_path)
    subprocess.run(
        ["javac", "-nowarn", "-cp", class_path, "-d", str(place / "classes"), str(source)], check=True
    )
    for jar in (kafka / "libs").glob("*.jar"):
        (place / "libs" / jar.name).symlink_to(jar)
    first = ["jar", "--create", "--file", str(place / "libs" / "a.jar"), "-C", str(place / "classes"), "."]
    subprocess.run(first, check=True)
    return place


def between(tmp_path: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """The exit status of ``diff --kafka``, its JSON and its text."""
    target = tmp_path / "diff.json"
    done = CliRunner().invoke(cli, ["diff", *arguments, "--quiet", "--json", str(target)])
    return done.exit_code, json.loads(target.read_text()) if target.exists() else {}, done.output


@slow("many kinds of differences, for each of which all rules are tried")
def test_a_change_that_no_rule_explains_is_left_and_shown_between_two_kafkas(
    kafka: Path, tmp_path: Path
) -> None:
    changed = changed_kafka(kafka, tmp_path)
    limit = ("--limit-states", "60")
    status, found, said = run(changed, tmp_path, SMALL, "--infer", "--quiet", *limit)
    assert (status, found["inferred"]["switched"]) == (1, {}), said
    left = {d["request"] for d in found["scenarios"][0]["differences"]} - {"the state"}
    page, test = tmp_path / "page.html", tmp_path / "ChangedTest.java"
    two = ("--kafka", str(kafka), "--kafka", str(changed), SMALL, "--html", str(page), "--junit", str(test))
    status, found, said = between(tmp_path, *two, "--limit-seconds", "200")
    assert (status, {change["rules"] is None for change in found["changes"]}) == (1, {True}), said
    assert left <= {kind["of"] for change in found["changes"] for kind in change["kinds"]}
    shortest = min(len(change["example"]["path"]) for change in found["changes"])
    assert len(found["changes"][0]["example"]["path"]) == shortest
    assert "register" in page.read_text()
    assert "assertEquals" in test.read_text()
    assert "CHANGES" in said


def test_a_kafka_does_not_differ_from_itself(kafka: Path, tmp_path: Path) -> None:
    two = ("--kafka", str(kafka), "--kafka", str(kafka), "--sample", "8", "--profile", "kafka_4_2")
    status, found, said = between(tmp_path, *two, SMALL, MESSAGES)
    assert (status, found["changes"]) == (3, []), said
    assert [one["differences"] for one in found["scenarios"]] == [[], []]
    assert found["scenarios"][1]["steps"] > 100
    assert "no difference in 2 scenarios" in said


def test_wrong_requests_are_one_sentence(tmp_path: Path) -> None:
    for arguments, wrong in (
        (["diff", "--kafka", "4.2.1"], "--kafka A --kafka B"),
        (["diff", SMALL, "--junit", "A.java", "--profile", "kafka_4_2"], "need --kafka"),
        (["diff", "--kafka", "a", "--kafka", "b", "--each-rule"], "--each-rule"),
        (["diff"], "name A"),
        (
            ["conform", SMALL, "--kafka", "4.2.1", "--infer", "--counterexamples"],
            "--infer compares scenarios",
        ),
    ):
        done = CliRunner().invoke(cli, arguments)
        assert (done.exit_code, wrong in done.output) == (2, True), done.output


@slow("two releases, and the search for the rules by which they differ")
def test_a_change_of_a_release_is_named_by_its_rule(tmp_path: Path) -> None:
    """Two rules explain the answers of ``SMALL``; the answers while the ELR is off tell them apart."""
    releases = (kafka_release.kafka(version) for version in ("4.2.1", "4.3.0"))
    two = [option for place in releases for option in ("--kafka", str(place))]
    status, found, said = between(tmp_path, *two, SMALL, LEVELS)
    assert (status, [change["rules"] for change in found["changes"]]) == (
        1,
        [{"assignment_empties_elr": False}],
    ), said


@slow("a broker's rule, with several comparisons by walks")
@pytest.mark.parametrize("rule", ["hwm_needs_min_isr"])
def test_a_switched_rule_of_brokers_is_found_again(kafka: Path, tmp_path: Path, rule: str) -> None:
    off = (f"--rule={rule}=off", "--infer", "--quiet", "--sample", "40")
    status, found, said = run(kafka, tmp_path, MESSAGES, *ON_KAFKA, *off)
    assert (status, list(found["inferred"]["switched"])) == (3, [f"{rule} on"]), said
