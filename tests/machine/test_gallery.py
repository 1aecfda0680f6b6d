"""The machine finds gallery defects of at most 15 steps; ``python -m tests.machine.test_gallery`` measures
all.

docs/testing.md summarizes the output.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from hypothesis import Verbosity, settings
from hypothesis.stateful import run_state_machine_as_test

from docs.pages import galleries
from highwater.checker.comparing.gate import baseline
from highwater.checker.comparing.gate.entries import SCENARIO
from highwater.checker.testing.machines import ModelMachine, Violated, machine
from highwater.invariants.replication import LIVENESS
from tests.slow import all_but

ROOT = Path(__file__).parents[2]
MOST_STEPS = 15
RUNS = 20_000
RARE = {"reassignment-under-min-isr", "stale-partition-epoch"}
"""Found once in many thousand runs, so no test requires it; measured by hand."""
QUICK = {"min-isr-copies", "join-below-hwm", "stale-epoch-both"}


@dataclass(frozen=True)
class Found:
    """Runs and steps until a defect was found, and the lengths of that run and of the shrunk run."""

    runs: int
    steps: int
    seconds: float
    length: int
    shrunk: int


@cache
def depths() -> dict[str, int]:
    """Gallery defects with a shortest run of at most MOST_STEPS → its length.

    The lengths come from the gate's baseline, so collecting these tests traces no model. Liveness violations
    are left out: a machine's run is finite.
    """
    live, found = {prop.name for prop in LIVENESS}, {}
    facts = baseline.read(ROOT / baseline.DEFAULT).facts
    for name in galleries.names():
        violated = facts.get((SCENARIO, galleries.PLACE + name), {}).get("violated", {})
        if safety := [depth for prop, depth in violated.items() if prop not in live]:
            found[name] = min(safety) - 1
    return {name: steps for name, steps in found.items() if steps <= MOST_STEPS}


def search(name: str) -> Found | None:
    """Search for a defect with fixed seeds; returns None if it is not found."""
    made = machine(galleries.PLACE + name)
    runs, steps, length = 0, 0, 0

    def count(self: ModelMachine) -> None:
        nonlocal runs, steps, length
        if not length:
            runs, steps = runs + 1, steps + len(self.path)
            length = len(self.path) if self.failure else 0

    made.teardown = count  # type: ignore[method-assign, assignment]
    chosen = settings(
        made.TestCase.settings, max_examples=RUNS, derandomize=True, database=None, verbosity=Verbosity.quiet
    )
    started = time.process_time()
    try:
        run_state_machine_as_test(made, settings=chosen)
    except Violated as failure:
        seconds = time.process_time() - started
        return Found(runs, steps, seconds, length, len(failure.violation.path))
    return None


def test_the_lengths_are_those_of_the_gallery() -> None:
    assert set(depths()) <= set(galleries.names())
    assert {"last-replica-standing": 14, "min-isr-copies": 1}.items() <= depths().items()
    assert "late-fetch" not in depths(), "it takes 20 steps"
    assert depths().keys() >= RARE


@pytest.mark.parametrize(
    "name",
    all_but(QUICK, sorted(depths().keys() - RARE), "up to a thousand runs for each defect; fast for some"),
)
def test_a_defect_is_found_and_shrunk(name: str) -> None:
    found = search(name)
    assert found is not None
    assert depths()[name] <= found.shrunk <= found.length


def main() -> None:
    print("| defect | runs | steps | CPU seconds | found with | shrunk to | shortest |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, shortest in sorted(depths().items(), key=lambda item: item[1]):
        found = search(name)
        if found is None:
            print(f"| `{name}` | not in {RUNS:,} runs | | | | | {shortest} |")
        else:
            print(
                f"| `{name}` | {found.runs:,} | {found.steps:,} | {found.seconds:.1f} | {found.length} | "
                f"{found.shrunk} | {shortest} |"
            )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
