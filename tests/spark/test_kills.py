"""Driver, executors and Python workers killed at random: equal final counts, or a one-line error.

Seeded; a few kills of each take some minutes. Nearly all levels run on the cluster although they are small.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.engines.native import search
from highwater.checker.scenarios.search import SearchOptions
from tests import models
from tests.native.on_disk import PARTS
from tests.slow import often, slow
from tests.spark.test_survival import descendants, environment

pytestmark = slow("a few kills of each kind of process take some minutes")

SCENARIO = "truncation/kip-320"
KILLS = often(2, 20)
"""The number of kills of each kind of process."""
DRIVER = """
import json, sys
from highwater.checker.base.problems import InputError
from highwater.checker.scenarios.search import EngineError, SearchOptions
from highwater.checker.engines.spark.request import SparkOptions
from highwater.checker.engines.spark.search import search
from tests import models
master, place, resume = sys.argv[1:]
spark = SparkOptions(master, place, resume == "resume", small=300, driver_states=3000)
try:
    found = search(models.scenario_model("%s"), SearchOptions(deadlock=True), None, spark)
    said = {name: getattr(found, name) for name in %r}
except (InputError, EngineError) as wrong:
    said = {"refused": str(wrong)}
print("RESULT " + json.dumps(said), flush=True)
""" % (SCENARIO, PARTS)  # noqa: UP031


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    found = search(models.scenario_model(SCENARIO), SearchOptions(deadlock=True))
    return {name: getattr(found, name) for name in PARTS}


@contextmanager
def driver(master: str, place: Path) -> Iterator[subprocess.Popen[str]]:
    """A search, started or resumed; all its processes end with the context."""
    resume = "resume" if (place / "search.json").exists() else "begin"
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, master, str(place), resume],
        env=environment(),
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def result(process: subprocess.Popen[str]) -> dict[str, Any] | None:
    """The result that the search printed; None if it was killed before."""
    said, _ = process.communicate(timeout=600)
    lines = [line.removeprefix("RESULT ") for line in said.splitlines() if line.startswith("RESULT ")]
    if not lines:
        return None
    found: dict[str, Any] = json.loads(lines[0])
    if "refused" in found:
        assert "\n" not in found["refused"]
    return found


def manifests(place: Path) -> int:
    return len(list(place.glob("level-*.json")))


def at_work(process: subprocess.Popen[str], place: Path, before: int) -> bool:
    """Wait until it has committed another level or ended; returns True if it still runs."""
    end = time.monotonic() + 300
    while process.poll() is None and manifests(place) <= before:
        assert time.monotonic() < end, "nothing happens"
        time.sleep(0.01)
    return process.poll() is None


def test_the_search_of_a_killed_driver_can_be_resumed(tmp_path: Path, expected: dict[str, Any]) -> None:
    """Kills also hit the end of a search, and a search that resumes while killed processes still end."""
    rng, kills, runs = random.Random(1), 0, 0
    while kills < KILLS:
        place, runs, found = tmp_path / f"levels-{runs}", runs + 1, None
        while found is None:
            with driver("local[2]", place) as process:
                if kills < KILLS and at_work(process, place, manifests(place)):
                    time.sleep(rng.uniform(0, 1.5))
                    process.kill()
                    kills += 1
                found = result(process)
        assert found == expected, found
        shutil.rmtree(place)


def executors(pid: int) -> list[int]:
    return [p for p, line in descendants(pid) if "CoarseGrainedExecutorBackend" in line]


def python_workers(pid: int) -> list[int]:
    """The processes of tasks: those that executors' daemons have forked."""
    daemons = [p for p, line in descendants(pid) if "pyspark.daemon" in line or "pyspark/daemon" in line]
    below = {p for daemon in daemons for p, _ in descendants(daemon)}
    return sorted(below) or daemons


@pytest.mark.parametrize(("what", "each"), [(executors, 3), (python_workers, 5)])
def test_a_search_survives_killed_executors_and_workers(
    what: Callable[[int], list[int]], each: int, tmp_path: Path, expected: dict[str, Any]
) -> None:
    """A search survives some kills or reports that Spark gave up; it is resumed until it completes."""
    rng, kills, runs, refused = random.Random(2), 0, 0, 0
    while kills < KILLS:
        place, runs, found, left = tmp_path / f"levels-{runs}", runs + 1, None, each
        while found is None or "refused" in found:
            with driver("local-cluster[2,1,1024]", place) as process:
                while left and kills < KILLS and at_work(process, place, manifests(place)):
                    time.sleep(rng.uniform(0, 1.0))
                    there = what(process.pid)
                    if there:
                        with suppress(ProcessLookupError):
                            os.kill(rng.choice(there), signal.SIGKILL)
                            kills, left = kills + 1, left - 1
                found = result(process)
                assert found is not None, "the driver has ended without a word"
                if "refused" in found:
                    refused, left = refused + 1, 0
        assert found == expected, found
        shutil.rmtree(place)
    print(
        f"{what.__name__}: {kills} killed in {runs} searches, {refused} of which said why they ended and were resumed"
    )
