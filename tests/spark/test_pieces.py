"""The parts of the Spark engine that need no Spark."""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the extra 'spark' is not installed")

from checker.native.layout import Words
from checker.spark.checkpoint import Checkpoint, Level, Run, Totals
from checker.spark.partition import partition, partition_keys
from checker.spark.program import RowBuffers, RowProgram
from checker.spark.request import ModelRequest
from checker.spark.session import cause
from tests.spark.conftest import scenario


@pytest.fixture(scope="module")
def program() -> RowProgram:
    return compiled("truncation/kip-101")


def compiled(name: str) -> RowProgram:
    model, _ = scenario(name)
    return RowProgram(model, ModelRequest.of(model, symmetry=False, deadlock=True))


def rows_of(program: RowProgram, fingerprints: Words, predecessors: Words) -> Words:
    rows = np.zeros((len(fingerprints), 2 + program.layout.words), dtype=np.uint64)
    rows[:, 0], rows[:, 1] = fingerprints, predecessors
    rows[:, 2] = fingerprints % np.uint64(97)
    return rows


@pytest.mark.parametrize("shift", [1, 3, 9])
def test_merging_is_what_sets_do(program, shift):
    random = np.random.default_rng(shift)
    table, seen = program.table(1 << 26), set()
    # One bucket's: all share their first bits. Few values, so that many are known or double.
    pool = random.integers(1 << 64 - shift, (2 << 64 - shift) - 1, 150_000, dtype=np.uint64)
    for size in (0, 1, 10, 150_000, 5, 80_000):
        fingerprints = pool[random.integers(0, len(pool), size)]
        predecessors = random.permutation(size).astype(np.uint64)
        best: dict[int, int] = {}
        for key, origin in zip(fingerprints.tolist(), predecessors.tolist(), strict=True):
            if key not in seen:
                best[key] = min(origin, best.get(key, origin))
        buffers = RowBuffers(program, judging=False)
        kept = [k.copy() for k in buffers.merge(table, rows_of(program, fingerprints, predecessors), shift)]
        found = np.concatenate(kept) if kept else np.zeros((0, 2 + program.layout.words), dtype=np.uint64)
        assert found[:, 0].tolist() == sorted(best)
        assert found[:, 1].tolist() == [best[key] for key in sorted(best)]
        seen |= set(best)
        assert table.taken == len(seen)
    table.close()


def test_a_fingerprint_of_first_bits_only_is_kept_apart(program):
    table, buffers = program.table(1 << 24), RowBuffers(program, judging=False)
    edge = np.array([1 << 63, (1 << 63) + 1], dtype=np.uint64)
    for expected in (2, 0):
        kept = [len(k) for k in buffers.merge(table, rows_of(program, edge, edge), 1)]
        assert sum(kept) == expected
    table.close()


def test_a_table_is_the_same_from_files_as_from_merging(program, tmp_path):
    table, buffers = program.table(1 << 26), RowBuffers(program, judging=False)
    fingerprints = np.random.default_rng(1).integers(1 << 61, 1 << 62, 250_000, dtype=np.uint64)
    buffers.remember(table, np.unique(fingerprints), 2)
    rows = rows_of(program, fingerprints, fingerprints)
    assert sum(len(k) for k in buffers.merge(table, rows, 2)) == 0
    table.close()


def test_every_bucket_has_a_partition_of_its_own():
    for count in (8, 64, 512):
        assert [partition(key, count) for key in partition_keys(count)] == list(range(count))


def test_a_request_makes_the_same_program_again(program):
    model, _ = scenario("truncation/kip-101")
    compiled("truncation/kip-320")  # what else a process has traced makes no difference
    request = ModelRequest.of(model, symmetry=False, deadlock=True)
    again = ModelRequest.read(request.text())
    assert again == request
    assert RowProgram(again.model(), again).content == program.content
    assert compiled("truncation/kip-279").content != program.content


def test_levels_are_read_as_they_were_written(tmp_path):
    checkpoint = Checkpoint(tmp_path / "new")
    run = Run("name", "{}", "content", 2, 3)
    checkpoint.begin(run)
    assert checkpoint.run() == run
    draw = np.random.default_rng(7)
    rows = draw.integers(0, 1 << 63, (1_000, 4), dtype=np.uint64)
    parts, base = [], 0
    for bucket, some in enumerate(np.array_split(rows, 3)):
        writer = checkpoint.writer(0, bucket, 2)
        writer.add(some)
        writer.close()
        parts.append(writer.part(base))
        base += len(some)
    level = Level(0, tuple(parts), Totals(1_000, 1_000, {"a": 1}, {}, {"p": 2}, {"p": (0, 5)}, 1.5))
    assert checkpoint.levels() == []
    checkpoint.commit(level)
    assert checkpoint.levels() == [level]
    states = np.concatenate([s for part in level.parts for s in checkpoint.states(0, part)])
    assert (states == rows[:, 2:]).all()
    for index in random.Random(1).sample(range(1_000), 50):
        packed = int(rows[index, 1])
        assert checkpoint.origin(0, level, index) == (packed >> 24, packed & 0xFFFFFF)


def test_the_cause_of_an_error_is_its_innermost_one():
    text = "An error occurred\n: org.apache.spark.SparkException: Job aborted\n\tat a.B\n"
    text += "Caused by: java.io.IOException: No space left on device\n\tat c.D\n"
    assert cause(RuntimeError(text)) == "No space left on device"
    assert cause(RuntimeError("")) == "RuntimeError"
