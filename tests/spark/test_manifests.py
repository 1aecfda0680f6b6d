"""Manifests of a Spark checkpoint: validated beyond their digest, and written after the files are synced."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the extra 'spark' is not installed")

from highwater.checker.base.problems import InputError
from highwater.checker.engines.breadth_first import Totals
from highwater.checker.engines.spark import checkpoint as module
from highwater.checker.engines.spark.checkpoint import (
    CommittedLevel,
    LevelFile,
    SearchIdentity,
    SparkCheckpoint,
)
from highwater.checker.engines.state_graph import Words
from tests.durable.waiting import without_waiting
from tests.traces.json_changes import put

RUN = SearchIdentity("name", "{}", "content", 2, 3)
LEVELS, EACH = 4, 10


def parts_of(
    checkpoint: SparkCheckpoint, number: int, *rows: Words, divided: bool = True
) -> tuple[LevelFile, ...]:
    """Write the files of a level, one for each array of rows; ``divided``: each is a bucket."""
    parts: list[LevelFile] = []
    for bucket, some in enumerate(rows):
        writer = checkpoint.writer("states", number, bucket if divided else None, module.packed_columns)
        for row in some:
            writer.add(row[np.newaxis])
        file, count, size, checksum = writer.written()
        base = sum(part.count for part in parts)
        parts.append(LevelFile(writer.bucket, file, count, base, size, checksum))
    return tuple(parts)


def level_of(checkpoint: SparkCheckpoint, number: int) -> CommittedLevel:
    rows = np.random.default_rng(number).integers(1, 1 << 63, (EACH, 4), dtype=np.uint64)
    parts = parts_of(checkpoint, number, rows[:3], rows[3:])
    return CommittedLevel(number, parts, Totals(EACH * (number + 1)))


@pytest.fixture
def kept(tmp_path: Path) -> SparkCheckpoint:
    found = SparkCheckpoint(tmp_path / "kept")
    found.take(resume=False)
    found.begin(RUN)
    for number in range(LEVELS):
        found.commit(level_of(found, number))
    found.close()
    found.verify(found.levels())
    assert len(found.levels()) == LEVELS
    return found


def rewrite(kept: SparkCheckpoint, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest, and correct its digest."""
    plain = kept.read_manifest(name)
    change(plain)
    kept.write_manifest(name, plain)


VALUES: dict[str, tuple[str, object]] = {
    "another level's": ("number", 1),
    "totals that are none": ("totals/surprise", 1),
    "states of another search": ("totals/distinct_states", 1),
    "a part that begins elsewhere": ("parts/1/3", 4),
    "a first part that does not begin the level": ("parts/0/3", 1),
    "a file elsewhere": ("parts/0/1", "../level-00001.json"),
    "a file at the root": ("parts/0/1", "/etc/passwd"),
    "a file of candidates": ("parts/0/1", "from-00001-0123456789ab.rows"),
    "transitions elsewhere": ("steps", [[None, "../run.json", 1, 0, 0, 0]]),
    "places that are words": ("totals/found", {"p": "ab"}),
}
"""What is wrong → the path of an entry, and its value. A part has its bucket, file, count of rows, and first row."""
CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "an empty part": lambda plain: plain["parts"].append([2, plain["parts"][0][1], 0, EACH, 0, 0]),
    "a part without its checksum": lambda plain: put(plain, "parts/0", plain["parts"][0][:2]),
    "no totals": lambda plain: plain.pop("totals"),
}


@pytest.mark.parametrize("wrong", [*VALUES, *CHANGES])
def test_a_level_whose_digest_is_right_is_not_believed(wrong: str, kept: SparkCheckpoint) -> None:
    rewrite(kept, "level-00002.json", CHANGES.get(wrong) or (lambda plain: put(plain, *VALUES[wrong])))
    with pytest.raises(InputError, match=r"level-00002.json is damaged"):
        kept.levels()


@pytest.mark.parametrize("number", range(LEVELS - 1))
def test_levels_follow_each_other(number: int, kept: SparkCheckpoint) -> None:
    """A level in the middle is missing, or is another level's."""
    path = kept.directory / f"level-{number:05}.json"
    path.rename(kept.directory / "aside")
    with pytest.raises(InputError, match=rf"level-{number:05}.json is not there"):
        kept.levels()
    path.write_bytes((kept.directory / f"level-{number + 1:05}.json").read_bytes())
    with pytest.raises(InputError, match=rf"level-{number:05}.json is damaged"):
        kept.levels()


@pytest.mark.parametrize(
    "change", [{"buckets": 0}, {"buckets": 1 << 17}, {"buckets": "8"}, {"words": "2"}, {"more": 1}]
)
def test_an_impossible_run_manifest_is_refused(change: dict[str, Any], kept: SparkCheckpoint) -> None:
    rewrite(kept, "search.json", lambda plain: plain.update(change))
    with pytest.raises(InputError, match=r"search.json is damaged"):
        kept.run()


def ways(kept: SparkCheckpoint, level: CommittedLevel) -> list[Callable[[], object]]:
    """All functions that open a file of a level."""
    return [
        lambda: kept.verify([level]),
        lambda: list(kept.states(level.parts[0], lambda states: states[:, 0])),
        lambda: kept.fingerprints(level.parts[0]),
        lambda: kept.origin(level, 0),
    ]


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (pipe, "is damaged"),
        (link, "Too many levels of symbolic links"),
        (lambda path: os.truncate(path, 1 << 40), "is damaged"),
        (lambda path: os.truncate(path, 100), "is damaged"),
        (Path.unlink, "is not there"),
    ],
    ids=["a pipe", "a link", "larger", "cut off", "gone"],
)
def test_a_damaged_level_file_is_refused(
    change: Callable[[Path], None], said: str, kept: SparkCheckpoint
) -> None:
    """Each opening checks the file, so nothing waits for a pipe or reads for hours."""
    level = kept.levels()[2]
    change(kept.directory / "states" / level.parts[0].file)
    for way in ways(kept, level):
        with pytest.raises(InputError, match=said), without_waiting():
            way()


def test_a_file_with_more_rows_than_its_part(kept: SparkCheckpoint) -> None:
    for path, value in (("totals/distinct_states", LEVELS * EACH - 1), ("parts/1/2", 6)):
        rewrite(kept, "level-00003.json", partial(put, path=path, new=value))
    level = kept.levels()[3]
    with pytest.raises(InputError, match="is damaged"):
        kept.fingerprints(level.parts[1])


def test_an_index_beyond_a_level(kept: SparkCheckpoint) -> None:
    level = kept.levels()[1]
    for index in (-1, EACH):
        with pytest.raises(InputError, match=r"level-00001.json is damaged"):
            kept.origin(level, index)


# --- syncing --------------------------------------------------------------------------------------


def test_a_level_counts_when_all_of_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are synced first, then their directory, the manifest, and the manifest's directory."""
    synced: list[str] = []

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}").removeprefix(f"{tmp_path}/"))

    found = SparkCheckpoint(tmp_path)
    found.take(resume=False)
    monkeypatch.setattr(os, "fsync", fsync)
    level = level_of(found, 0)
    found.commit(level)
    found.close()
    *files, folder, manifest, names = synced
    assert files == [f"states/{part.file}" for part in level.parts]
    assert (folder, names) == ("states", str(tmp_path))
    assert manifest.startswith(".level-00000.json.")
