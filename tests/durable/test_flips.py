"""A flipped bit in a file that Highwater reads back is detected, or does not change the result.

The kinds of files: Spark's checkpoints, machine code, the gate's baseline and traces of runs. test_checkpoint.py flips
bits of native checkpoints, test_spill.py of spilled arrays. A few flips are fast, the rest slow.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.traces.runs.replay import replay_run
from highwater.traces.runs.writing import write_run

pytest.importorskip("pyarrow", reason="the extra 'spark' is not installed")

from highwater.checker.base.problems import InputError
from highwater.checker.comparing.gate import baseline as baselines
from highwater.checker.comparing.gate.baseline import EntryState, compare
from highwater.checker.comparing.gate.entries import SCENARIO as SCENARIO_KIND
from highwater.checker.comparing.gate.entries import Ran
from highwater.checker.engines.cache import Cache
from highwater.checker.engines.native import search
from highwater.checker.engines.spark.request import SparkOptions
from highwater.checker.engines.spark.search import search as on_spark
from highwater.checker.scenarios.search import EngineError, SearchOptions, SearchResult
from highwater.model.language import Model
from highwater.traces.reading import TraceError
from tests import models
from tests.native.on_disk import PARTS, small_batches
from tests.slow import often, slow

SCENARIO = "truncation/kip-101"
SMALL = {"max_records": 1}
Read = Callable[[], Any]
"""Reads everything back; equal results have the same meaning. Raises FOUND if damage is detected."""
FOUND = (InputError, EngineError, TraceError, OSError)


def flips(directory: Path, read: Read, count: int, seed: int = 1) -> tuple[int, int]:
    """Flip ``count`` bits below a directory, one at a time; returns how many were detected and how many
    changed nothing.

    Raises AssertionError if a flip silently changes the result.
    """
    rng, honest = random.Random(seed), {path: path.read_bytes() for path in files(directory)}
    expected, found, same = read(), 0, 0
    restore(directory, honest)
    paths = [path for path, content in honest.items() if content]
    for number in range(count):
        path = paths[number % len(paths)]
        bit = rng.randrange(8 * len(honest[path]))
        content = bytearray(honest[path])
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        try:
            assert read() == expected, f"bit {bit} of {path.name} was read back in silence"
            same += 1
        except FOUND as wrong:
            found += "\n" not in str(wrong)
        restore(directory, honest)
    assert read() == expected
    return found, same


def files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def restore(directory: Path, honest: dict[Path, bytes]) -> None:
    for path in files(directory):
        if path not in honest:
            path.unlink()
    for path, content in honest.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def told(result: SearchResult) -> tuple[Any, ...]:
    return *(getattr(result, part) for part in PARTS), tuple(result.violations)


@pytest.fixture(scope="module")
def model() -> Model:
    return models.scenario_model(SCENARIO, **SMALL)


# --- kinds of files -------------------------------------------------------------------------------


def spark_checkpoint(model: Model, place: Path) -> Read:
    """All of its levels are small enough for the driver, so no Spark is needed."""
    options, spark = SearchOptions(workers=1, deadlock=True), SparkOptions("local[2]", str(place))
    on_spark(model, SearchOptions(workers=1, deadlock=True, limit_states=3000), None, spark)
    resumed = SparkOptions("local[2]", str(place), resume=True)
    return lambda: told(on_spark(model, options, None, resumed))


def machine_code(model: Model, place: Path) -> Read:
    cache, keys = Cache(place), [bytes([n]) * 32 for n in range(4)]
    for key in keys:
        cache.put(key, random.Random(key).randbytes(5000))

    def read() -> list[bytes | None]:
        contents = [cache.get(key) for key in keys]
        if None in contents:
            raise OSError("compiled anew")
        return contents

    return read


BASELINE = Path(__file__).parents[2] / ".highwater" / "gate.toml"


def gate_baseline(model: Model, place: Path) -> Read:
    """Damage also counts as detected if the gate reports a difference, an unknown entry or a missing one."""
    place.mkdir()
    honest = baselines.read(BASELINE)
    facts = {key: honest.facts[key] for key in sorted(honest.facts) if key[0] == SCENARIO_KIND}
    facts = dict([*facts.items()][:8])
    small = baselines.Baseline(
        place / "gate.toml", baselines.Selection([name for _, name in facts]), "e", facts
    )
    small.path.write_text(small.text())

    def read() -> Any:
        found = baselines.read(small.path)
        entries = found.select.entries(BASELINE.parent.parent)
        chosen = {entry.key for entry in entries if entry.key[0] == SCENARIO_KIND}
        if chosen != facts.keys() or found.facts.keys() != facts.keys():
            raise InputError("an entry is not listed, or not there")
        for entry in found.entries():
            verdict = compare(entry, found.facts[entry.key], Ran(facts[entry.key]))
            if verdict.state is not EntryState.SAME or verdict.graph_changed:
                raise InputError("it differs from what is found")
        return found.facts

    return read


def trace_of_a_run(model: Model, place: Path) -> Read:
    place.mkdir()
    (violation,) = search(model, SearchOptions(workers=1)).violations
    write_run(
        place / "run.jsonl",
        model,
        violation.initial,
        violation.path,
        protocol="truncation",
        about={"is": "a run"},
    )

    def read() -> Any:
        report = replay_run(place / "run.jsonl")
        if report.unexplained:
            raise InputError("not explained")
        return report.profile, report.rules, [(f.property, f.position) for f in report.findings]

    return read


WRITERS: dict[str, Callable[[Model, Path], Read]] = {
    "Spark checkpoint": spark_checkpoint,
    "machine code": machine_code,
    "gate's baseline": gate_baseline,
    "trace of a run": trace_of_a_run,
}
"""Kind of file → its writer and reader."""
KINDS = dict.fromkeys(WRITERS, often(30, 120))
"""Kind of file → the number of flips."""

STRICT = ["Spark checkpoint"]
"""The kinds in which every flipped bit must be detected. Machine code is in a file with unused room."""


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stub in place of a Spark session: small levels need no cluster."""
    module = sys.modules[on_spark.__module__]
    monkeypatch.setattr(module, "session", lambda master: SimpleNamespace(cores=2, master=master))


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    small_batches(monkeypatch)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


FEW = {"Spark checkpoint": 3, "machine code": 3, "gate's baseline": 3}
CASES = [
    *FEW.items(),
    *(pytest.param(*case, marks=slow("each flip is a search; fast for three")) for case in KINDS.items()),
]


@pytest.mark.usefixtures("without_spark", "_quick")
@pytest.mark.parametrize(("kind", "count"), CASES)
def test_a_flipped_bit_is_found(kind: str, count: int, model: Model, tmp_path: Path) -> None:
    found, same = flips(tmp_path / "place", WRITERS[kind](model, tmp_path / "place"), count, seed=2)
    assert found + same == count
    assert found > 0
    if kind in STRICT:
        assert same == 0
