"""Candidates on their way: each arrives at its bucket, none twice from a process, and a damaged file is refused."""

from __future__ import annotations

import gc
import json
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the extra 'spark' is not installed")

from highwater.checker.asking.search import EngineError
from highwater.checker.base.durable.checksum import checksum
from highwater.checker.engines.layout import Words
from highwater.checker.engines.spark.levels import exchange, worker
from highwater.checker.engines.spark.levels.checkpoint import (
    CommittedLevel,
    SearchIdentity,
    SparkCheckpoint,
    Totals,
)
from highwater.checker.engines.spark.levels.driver import packed
from highwater.checker.engines.spark.levels.sent import SentFingerprints
from highwater.checker.engines.spark.program import RowBuffers, RowProgram
from highwater.checker.engines.spark.request import ModelRequest
from tests.spark.conftest import scenario

SHIFT, WIDTH = 2, 3


def rows_of(size: int, seed: int = 1) -> Words:
    rows = np.random.default_rng(seed).integers(0, 1 << 64, (size, WIDTH), dtype=np.uint64)
    return rows


def as_set(rows: Words) -> list[tuple[int, ...]]:
    return sorted(map(tuple, rows.tolist()))


@pytest.mark.parametrize("groups", [(), (0,), (1,), (500, 0, 7), (3, 1_000, 999)])
def test_every_row_arrives_once_at_the_bucket_of_its_fingerprint(tmp_path: Path, groups: Any) -> None:
    files, sent = [], []
    for task in range(3):
        with exchange.Sender(tmp_path, task, SHIFT) as sender:
            for number, size in enumerate(groups):
                sent.append(rows_of(size, seed=10 * task + number))
                sender.send(sent[-1])
        assert sender.count == sum(groups)
        files.append(sender.file)
    everything = np.concatenate([np.empty((0, WIDTH), np.uint64), *sent])
    for bucket in range(1 << SHIFT):
        arrived = exchange.receive(tmp_path, files, bucket, SHIFT, WIDTH)
        assert as_set(arrived) == as_set(everything[everything[:, 0] >> np.uint64(64 - SHIFT) == bucket])


def test_a_file_has_its_name_when_it_is_whole(tmp_path: Path) -> None:
    def fails() -> None:
        with exchange.Sender(tmp_path, 0, SHIFT) as sender:
            sender.send(rows_of(10))
            assert not (tmp_path / sender.file).exists()
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("keep", [slice(0), slice(7), slice(100), slice(None, -8), slice(8, None)])
def test_a_damaged_file_is_refused(tmp_path: Path, keep: Any) -> None:
    with exchange.Sender(tmp_path, 0, SHIFT) as sender:
        sender.send(rows_of(50))
    file = tmp_path / sender.file
    file.write_bytes(file.read_bytes()[keep])
    for bucket in range(1 << SHIFT):
        with pytest.raises(EngineError, match=rf"{sender.file} is damaged"):
            exchange.receive(tmp_path, [sender.file], bucket, SHIFT, WIDTH)


@pytest.mark.parametrize("more", [(1 << 40, 0), (-50, 50)], ids=["too many", "less than none"])
def test_an_index_that_lies_is_refused(tmp_path: Path, more: Any) -> None:
    with exchange.Sender(tmp_path, 0, SHIFT) as sender:
        sender.send(rows_of(50))
    file = tmp_path / sender.file
    words = np.fromfile(file, dtype="<i8")
    assert words[-10:-6].sum() == 50
    words[-10:-8] += np.array(more)
    words[-2] = checksum(words[-10:-2].tobytes())  # whoever wrote it meant it
    words.tofile(file)
    with pytest.raises(EngineError, match="is damaged"):
        exchange.receive(tmp_path, [sender.file], 0, SHIFT, WIDTH)


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    """By the bucket whose piece it is in, at the least."""
    with exchange.Sender(tmp_path, 0, SHIFT) as sender:
        for seed in (1, 2):
            sender.send(rows_of(3, seed))
    file = tmp_path / sender.file
    honest = file.read_bytes()
    for bit in range(8 * len(honest)):
        wrong = bytearray(honest)
        wrong[bit // 8] ^= 1 << bit % 8
        file.write_bytes(wrong)
        found = 0
        for bucket in range(1 << SHIFT):
            try:
                exchange.receive(tmp_path, [sender.file], bucket, SHIFT, WIDTH)
            except EngineError:
                found += 1
        assert found, bit


# --- what a process has sent ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def program() -> RowProgram:
    model, _ = scenario("truncation/kip-320")
    return RowProgram(model, ModelRequest.of(model, symmetry=False, deadlock=True))


@pytest.fixture
def task(program: RowProgram, tmp_path: Path) -> worker.LevelTask:
    """A level of some thousand states."""
    table, buffers = program.table(1 << 26), RowBuffers(program, judging=False)
    level = np.concatenate([rows.copy() for rows in buffers.admit(table, packed(program))])
    for _ in range(10):
        level = np.concatenate([rows.copy() for rows in buffers.expand(table, level[:, 2:], 0)])
    table.close()
    model = program.model
    request = ModelRequest.of(model, symmetry=False, deadlock=True)
    run = SearchIdentity("a run", request.text(), program.content, program.layout.words, SHIFT)
    checkpoint = SparkCheckpoint(tmp_path)
    writer = checkpoint.writer(0, None, run.words)
    writer.add(level)
    writer.close()
    checkpoint.commit(CommittedLevel(0, (writer.part(),), Totals()))
    return worker.LevelTask(str(tmp_path), run, 0, (0, 0), 1 << 30)


def expanded(
    task: worker.LevelTask, program: RowProgram, buckets: list[int], monkeypatch: pytest.MonkeyPatch
) -> dict[str, int]:
    """What one process sends that is given these buckets one after the other."""
    monkeypatch.setattr(worker, "_sent", SentFingerprints())
    monkeypatch.setattr(worker, "program", lambda run: program)
    *_, last = (json.loads(text) for text in worker.expand(task, buckets))
    assert "failure" not in last
    return last["files"]


def merged(task: worker.LevelTask, program: RowProgram, files: dict[str, int]) -> Words:
    """The next level, fingerprint and predecessor, from these files."""
    found = []
    for bucket in range(1 << SHIFT):
        table, buffers = program.table(1 << 26), RowBuffers(program, judging=False)
        place = exchange.folder(SparkCheckpoint(task.directory).directory, 0)
        rows = exchange.receive(place, files, bucket, SHIFT, program.layout.words + 2)
        found += [kept.copy() for kept in buffers.merge(table, rows, SHIFT)]
        table.close()
    return np.concatenate(found)[:, :2]


def test_a_process_sends_a_candidate_once_and_with_its_least_predecessor(
    task: worker.LevelTask, program: RowProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone: dict[str, int] = {}
    for bucket in range(1 << SHIFT):
        alone |= expanded(task, program, [bucket], monkeypatch)
    together = expanded(task, program, [*range(1 << SHIFT)], monkeypatch)
    expected = merged(task, program, alone)
    assert sum(together.values()) < sum(alone.values())
    assert sum(together.values()) == len(expected)  # nothing twice
    assert merged(task, program, together).tolist() == expected.tolist()
    # However the tasks come to processes, and in an order that Spark does not keep.
    for split in ([[0, 2], [1, 3]], [[3, 0], [2, 1]], [[1, 1, 3], [0, 2]]):
        files: dict[str, int] = {}
        for buckets in split:
            files |= expanded(task, program, buckets, monkeypatch)
        assert merged(task, program, files).tolist() == expected.tolist()


def test_of_a_task_that_fails_nothing_counts_as_sent(program: RowProgram) -> None:
    sent, run = SentFingerprints(), SearchIdentity("a run", "{}", "content", 2, SHIFT)
    fingerprints = np.arange(1, 9, dtype=np.uint64)
    for bucket, fails in ((0, False), (1, True), (2, False)):
        try:
            with sent.of(run, 5, bucket, program) as (table, files):
                before = table.taken
                RowBuffers(program, judging=False).remember(table, fingerprints + np.uint64(8 * bucket), 0)
                if fails:
                    raise OSError
                files[str(bucket)] = 8
        except OSError:
            pass
        assert before == (8 if bucket == 1 else 0)
    with sent.of(run, 5, 3, program) as (table, files):
        assert (table.taken, [*files]) == (8, ["0", "2"])
    with sent.of(run, 6, 4, program) as (table, files):
        assert (table.taken, files) == (0, {})


def test_a_table_of_another_run_is_not_taken_on() -> None:
    """It would grow by that one's machine code, which a process gives up where it has compiled others since."""
    model, _ = scenario("truncation/kip-320")
    former, latter = (
        RowProgram(model, ModelRequest.of(model, symmetry=False, deadlock=True)) for _ in range(2)
    )
    sent, kept = SentFingerprints(), weakref.ref(former)
    with sent.of(SearchIdentity("a run", "{}", "content", 2, SHIFT), 5, 0, former) as (table, _):
        of_the_former = table
    with sent.of(SearchIdentity("another", "{}", "content", 2, SHIFT), 5, 0, latter) as (table, _):
        assert table is not of_the_former
    table = former.table(1 << 24)
    del former
    gc.collect()
    table.make_room(1 << 16)
    assert kept() is not None, "as long as there is a table of it"
    del table, of_the_former
    gc.collect()
    assert kept() is None
