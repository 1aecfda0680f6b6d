"""Searches that are made to find their duplicates on disk, with batches as small as one likes."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from highwater.checker.engines.breadth_first import BreadthFirst
from highwater.checker.engines.native import worker
from highwater.checker.engines.native.code.program import Program
from highwater.checker.engines.native.levels import NativeLevels
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model.language import Model

PARTS = ("distinct_states", "generated_states", "depth", "cut", "actions", "premises", "stopped_by")
"""What a result says that is the same, wherever the visited states are."""


class FromTheStart(NativeLevels):
    """A search on disk from its first level on, with a table for few candidates at a time."""

    slots = 1 << 20

    def begin(self, search: BreadthFirst) -> None:
        super().begin(search)
        if self.delayed is None:
            self.table._most = self.slots
            self._go_to_disk(self.levels[-1])


def on_disk(model: Model, *, slots: int = FromTheStart.slots, **options: object) -> SearchResult:
    """The result of a search on disk; a table of so many slots is a batch."""
    asked = replace(SearchOptions(), **options)  # type: ignore[arg-type]
    run = FromTheStart(Program(model, asked.symmetry), asked)
    run.slots = slots
    return explored(run)


def explored(levels: NativeLevels) -> SearchResult:
    """The result of a search with these levels, which are closed."""
    with closing(levels):
        return BreadthFirst(levels.program.model, levels, levels.options, None).explore()


def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a worker's output is small, so that a table of few slots has room for it."""
    monkeypatch.setattr(worker, "OUTPUT", 64)


def assert_same(found: SearchResult, expected: SearchResult) -> None:
    """Counts, depths and verdicts are the same; so are runs where there is one worker."""
    for part in PARTS:
        assert getattr(found, part) == getattr(expected, part), part
    assert {v.property: v.depth for v in found.violations} == {
        v.property: v.depth for v in expected.violations
    }
