"""Holes within a batch of a metadata log."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.traces.kafka.batches import RecordBatch
from highwater.traces.kafka.metadata_log import Gap
from highwater.traces.metadata.replay import _gap_within


@pytest.mark.parametrize(
    ("offsets", "missing"),
    [
        ([10, 11, 12, 13], None),
        ([10, 11, 13], (12, 13)),
        ([11, 12, 13], (10, 11)),
        ([10, 13], (11, 13)),
        ([10, 11], (12, 14)),
        ([], (10, 14)),
    ],
)
def test_offsets_that_are_missing_within_a_batch(offsets: list[int], missing: tuple[int, int] | None) -> None:
    """A batch of the offsets 10 to 13 says itself how far it goes; the first hole is told."""
    none: list[bytes | None] = [None] * len(offsets)
    batch = RecordBatch(70, 10, 13, 1, 0, False, offsets, none, [], [0] * len(offsets))
    found = _gap_within(Path("x"), batch)
    assert found == (None if missing is None else Gap(Path("x"), 70, *missing))
