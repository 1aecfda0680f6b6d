"""What the explorer finds in Kafka 4.2's controller: each scenario breaks, and a smallest set of rules closes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from highwater.checker import scenarios
from highwater.checker.cli import cli
from highwater.checker.counterexample import follow_all
from highwater.checker.docs.findings_4_2 import TEXTS
from highwater.checker.native import search
from highwater.checker.request import Overrides, Request
from highwater.checker.search import SearchOptions
from highwater.model.replication.controller import protocol
from tests.slow import all_but

DIRECTORY = Path(protocol.__file__).parent / "scenarios"
PLACE = "replication/controller/kafka-4.2-"

CLOSED_BY: dict[str, list[dict[str, bool]]] = {
    found["name"]: found["closes"] for found in TEXTS["finding"] if found["name"] != "cleared-elr"
}
"""Sets of switches, each of which closes the finding; no smaller part of one does. cleared-elr (liveness): below."""

DEPTHS = {
    "elr-turned-off": 6, "shut-out": 7, "reassignment": 4, "reassignment-loss": 6, "assignment": 3,
    "forgotten-leader": 6, "first-partition": 3,
}  # fmt: skip


def violated(name: str, rules: dict[str, bool]) -> dict[str, int]:
    """The properties that do not hold, with the states of a shortest run to each."""
    model = Request.of(scenarios.find(PLACE + name), Overrides(rules=rules)).model()
    result = search(model, SearchOptions(workers=1))
    assert result.complete or result.violations
    examples = follow_all(model, result.violations)
    return {v.property: e.depth for v, e in zip(result.violations, examples, strict=True)}


@pytest.mark.parametrize(
    "name", all_but(CLOSED_BY.keys() - {"forgotten-leader"}, CLOSED_BY, "eight searches; the others are fast")
)
def test_a_finding_is_there_and_a_smallest_set_of_rules_closes_it(name: str) -> None:
    assert list(violated(name, {}).values()) == [DEPTHS[name]]
    for switches in CLOSED_BY[name]:
        assert not violated(name, switches)
        for left_out in switches if len(switches) > 1 else ():
            assert violated(name, {rule: on for rule, on in switches.items() if rule != left_out})


def verdict(name: str, *arguments: str) -> str:
    result = CliRunner().invoke(cli, ["check", PLACE + name, "--quiet", "--json", "-", *arguments])
    (shown,) = json.loads(result.stdout)
    return str(shown["verdict"])


def test_a_partition_that_is_never_led_again() -> None:
    """Every replica comes back, and yet nobody can be elected: ELR and last known leader were cleared with no ISR."""
    assert verdict("cleared-elr") == "violated"
    clears, empties = "min_isr_change_clears_elr", "min_isr_change_empties_elr"
    assert verdict("cleared-elr", "--rule", f"{empties}=on") == "violated"
    assert verdict("cleared-elr", "--rule", f"{clears}=off", "--rule", f"{empties}=on") == "holds"


def test_every_scenario_of_4_2_is_here() -> None:
    found = {path.stem.removeprefix("kafka-4.2-") for path in DIRECTORY.glob("kafka-4.2-*.toml")}
    assert found == {*CLOSED_BY, "cleared-elr"}


@pytest.mark.parametrize("name", ["elr-turned-off", "shut-out", "reassignment", "reassignment-loss"])
def test_the_mended_profile_has_none_of_what_it_mends(name: str) -> None:
    model = Request.of(scenarios.find(PLACE + name), Overrides(profile="kafka_4_2_mended")).model()
    result = search(model, SearchOptions(workers=1))
    assert result.complete
    assert not result.violations
