"""What the checker finds in Kafka 4.2.1's controller: searches of the scenarios and of what closes them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docs.analyses import kept
from docs.analyses.kept import once
from docs.analyses.liveness_needs import run_with
from docs.analyses.traced import traced
from highwater.checker.asking import scenarios
from highwater.checker.asking.request import Overrides, Request
from highwater.checker.asking.scenarios import Scenario
from highwater.checker.asking.search import SearchOptions
from highwater.checker.telling.counterexample import Counterexample, follow_all
from highwater.model.language.errors import LanguageError
from highwater.model.language.model import Model

PLACE = "replication/controller/kafka-4.2-"
TEXTS: dict[str, Any] = tomllib.loads((Path(__file__).parent / "kafka-4.2.toml").read_text(encoding="utf-8"))
"""The page's prose, and what is promised of each finding."""

FINDINGS: dict[str, dict[str, Any]] = {finding["name"]: finding for finding in TEXTS["finding"]}
"""By name, in the order of the page. Where an entry names no ``scenario``, it is that of the controller."""

CONTROLLER_TRUNK = ("min-isr", "last-known-leader", "reassignment", "forgotten-leader")
MESSAGES_TRUNK = (
    "min-isr", "min-isr-loss", "min-isr-election", "reassignment", "reassignment-loss", "clean-restart",
    "clean-restart-loss", "fenced-leader", "forgotten-proposal", "two-crashes",
)  # fmt: skip
"""The trunk's findings, those of the controller alone and those with logs and messages."""


@dataclass(frozen=True)
class Outcome:
    """A search to its end or to a violation: the violated properties with their shortest runs."""

    model: Model
    examples: tuple[Counterexample, ...]
    states: int
    complete: bool


def full_name(name: str) -> str:
    """The name of a finding's scenario."""
    found: str = FINDINGS[name].get("scenario", PLACE + name)
    return found


@once
def scenario(name: str) -> Scenario:
    """A finding's scenario."""
    return scenarios.find(full_name(name))


def outcome(name: str, overrides: Overrides) -> Outcome:
    """The search of a scenario, by one worker; a liveness property is looked for in the whole graph."""
    model = traced(Request.of(scenarios.find(name), overrides))
    if not model.liveness:
        result = kept.search(model, SearchOptions(workers=1))
        return Outcome(
            model, tuple(follow_all(model, result.violations)), result.distinct_states, result.complete
        )
    graph = kept.Graph(model)
    runs = (run_with(graph, p.liveness, p.liveness.fair) for p in model.liveness)
    examples = tuple(run for run in runs if run is not None)
    states, _, complete = graph.size
    return Outcome(model, examples, states, complete)


@once
def found(name: str) -> Outcome:
    """The search of a finding's scenario as it is."""
    return outcome(full_name(name), Overrides())


def switched(name: str, rules: dict[str, bool]) -> Outcome:
    """The same with some rules switched."""
    return outcome(full_name(name), Overrides(rules=rules))


def fewer_steps(name: str) -> list[str]:
    """The parameters that are budgets or sizes, each of which cannot be one less: nothing is found then."""
    needed = []
    for parameter, value in scenario(name).parameters.items():
        if value and (parameter == "max_min_isr" or not parameter.startswith("max_")):
            lowest = scenario(name).protocol.parameters[parameter].low
            if parameter.startswith("first_partition") or value == lowest:
                continue
            try:
                less = outcome(full_name(name), Overrides({parameter: value - 1}))
            except (
                LanguageError
            ):  # so many do not go with the others, such as a min ISR of more than there are replicas
                continue
            if less.complete and not less.examples:
                needed.append(f"{parameter} {value}")
    return needed


def of_trunk(name: str, profile: str) -> Outcome:
    """A trunk finding's scenario under another profile."""
    return outcome(name, Overrides(profile=profile))
