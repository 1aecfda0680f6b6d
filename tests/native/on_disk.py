"""Searches that use the on-disk visited set from the start, with batches of any size."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.base.checkpoint_directory import CheckpointDirectory
from highwater.checker.engines.breadth_first import BreadthFirst
from highwater.checker.engines.native import checkpoint, search, worker
from highwater.checker.engines.native.checkpoint import MANIFEST, Checkpoint
from highwater.checker.engines.native.levels import NativeLevels
from highwater.checker.engines.native.program import Program
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model.language import Model

PARTS = ("distinct_states", "generated_states", "depth", "cut", "actions", "premises", "stopped_by")
"""The parts of a result that do not depend on where the visited set is."""

Manifest = dict[str, Any]


class FromTheStart(NativeLevels):
    """A search on disk from its first level on, with a small table of candidates."""

    slots = 1 << 20

    def begin(self, search: BreadthFirst) -> None:
        super().begin(search)
        if self.delayed is None:
            self.table._most = self.slots
            self._go_to_disk(self.levels[-1])


def on_disk(model: Model, *, slots: int = FromTheStart.slots, **options: object) -> SearchResult:
    """The result of a search on disk; a batch is ``slots`` table slots."""
    asked = replace(SearchOptions(), **options)  # type: ignore[arg-type]
    run = FromTheStart(Program(model, asked.symmetry), asked)
    run.slots = slots
    return explored(run)


def part(
    model: Model, place: str, directory: Path, states: int | None = None, *, resume: bool = True, **more: Any
) -> SearchResult:
    """A search of up to ``states`` states that resumes from a checkpoint and stores each level.

    ``place`` is the place of its visited set: "in memory" or "on disk".
    """
    options = {"workers": 1, "checkpoint": str(directory), "resume": resume, "limit_states": states, **more}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "SHARE", 0)
        if place == "in memory":
            return search(model, SearchOptions(**options))
        return on_disk(model, slots=1 << 12, **options)


def explored(levels: NativeLevels) -> SearchResult:
    """The result of a search with these levels, which are closed afterwards."""
    with closing(levels):
        return BreadthFirst(levels.program.model, levels, levels.options, None).explore()


def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the workers' output small enough for a table of few slots."""
    monkeypatch.setattr(worker, "OUTPUT", 64)


def manifest(directory: Path) -> Manifest:
    """The content of a checkpoint's manifest."""
    return dict(json.loads((directory / MANIFEST).read_text().split("\n")[0]))


def rewrite(directory: Path, change: Callable[[Manifest], object]) -> None:
    """Change a manifest, and correct its digest."""
    plain = manifest(directory)
    change(plain)
    there = Checkpoint.__new__(Checkpoint)
    CheckpointDirectory.__init__(there, directory)
    there.write_manifest(MANIFEST, plain)


def assert_same(found: SearchResult, expected: SearchResult) -> None:
    """Check that counts, depths and verdicts are equal; with one worker, runs are too."""
    for part in PARTS:
        assert getattr(found, part) == getattr(expected, part), part
    assert {v.property: v.depth for v in found.violations} == {
        v.property: v.depth for v in expected.violations
    }
