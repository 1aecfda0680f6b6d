"""Defects of the gallery that take 15 steps or fewer are found: ``python -m tests.machine.test_gallery`` measures all.

docs/testing.md sums up what it prints.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import Verbosity, settings
from hypothesis.stateful import run_state_machine_as_test

from docs.pages import galleries, kept
from highwater.checker.scenarios import scenario_files
from highwater.checker.testing.machines import ModelMachine, Violated, machine
from highwater.invariants.replication import LIVENESS
from tests.slow import all_but

ROOT = Path(__file__).parents[2]
MOST_STEPS = 15
RUNS = 20_000
RARE = {"reassignment-under-min-isr", "stale-partition-epoch"}
"""Found in one of many thousand runs, so that it is luck whether they are: measured by hand, not asked of a test."""
QUICK = {"elr-after-election", "join-below-hwm", "removed-replica-joins", "stale-epoch-both"}


@dataclass(frozen=True)
class Found:
    """When a defect was found: runs and steps until then, and the lengths of the run and of what was told."""

    runs: int
    steps: int
    seconds: float
    length: int
    shrunk: int


def depths() -> dict[str, int]:
    """The defects of the gallery with a run of that many steps, each with the shortest one's length.

    Those that violate a liveness property are left out: a machine's run ends, and says nothing of what never comes.
    """
    live = {prop.name for prop in LIVENESS}
    found = {}
    with kept.in_mode(kept.Mode.ONLY_KEPT):
        for name in galleries.names():
            if scenario_files.find(galleries.PLACE + name).expectation.violated - live:
                found[name] = galleries.find(name).examples[0].depth - 1
    return {name: steps for name, steps in found.items() if steps <= MOST_STEPS}


def search(name: str) -> Found | None:
    """Look for a defect, the same way every time."""
    made = machine(galleries.PLACE + name)
    runs, steps, length = 0, 0, 0

    def count(self: ModelMachine) -> None:
        nonlocal runs, steps, length
        if not length:
            runs, steps = runs + 1, steps + len(self.path)
            length = len(self.path) if self.violated else 0

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


def test_they_are_read_off_the_gallery() -> None:
    assert set(depths()) <= set(galleries.names())
    assert {"last-replica-standing": 14, "min-isr-copies": 1}.items() <= depths().items()
    assert "late-fetch" not in depths(), "it takes 20 steps"
    assert depths().keys() >= RARE


@pytest.mark.parametrize(
    "name",
    all_but(QUICK, sorted(depths().keys() - RARE), "up to a thousand runs for each; some of them are quick"),
)
def test_it_is_found(name: str) -> None:
    found = search(name)
    assert found is not None
    assert depths()[name] <= found.shrunk <= found.length


def main() -> None:
    """Print the table."""
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
