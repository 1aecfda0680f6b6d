"""Cutting a metadata log into ranges that are read apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from highwater.traces.kafka.metadata_log import MetadataLog, Piece, heads
from highwater.traces.metadata.groups import SPLIT
from highwater.traces.metadata.replay import Sequence

MAX_RANGE = 8 << 20
"""The most bytes of a range, apart from what cannot be cut."""


@dataclass(frozen=True)
class Range:
    """Pieces that are read together, in order.

    ``loaded`` of the pieces come first and are of the snapshot that the log begins with. ``checked`` snapshots have
    their places before the range, ``next_offset`` is that behind the last batch before it. ``is_last``: the log ends
    with it.
    """

    pieces: tuple[Piece, ...]
    loaded: int
    checked: int
    next_offset: int
    is_last: bool = False

    def with_next(self, following: Range) -> Range:
        """Both as one."""
        loaded = self.loaded + following.loaded
        return replace(self, pieces=self.pieces + following.pieces, loaded=loaded, is_last=following.is_last)


def ranges(log: MetadataLog, size: int = MAX_RANGE) -> list[Range]:
    """The ranges of a log, of about so many bytes each. Raises TraceError.

    No cut is where a decision that is too large for one batch can go on. One can be within a metadata transaction; who
    reads the range finds that out (``with_next``).
    """
    found: list[Range] = []
    sequence, order = Sequence(log), log.order()
    checks = [snapshot.end_offset for snapshot in sequence.checks]
    if log.start is not None:
        for piece, _ in _pieces(log.start.path, True, size):
            found.append(Range((replace(piece, expected=None),), 1, 0, sequence.next_offset))
    checked = 0
    for segment in log.segments:
        for piece, batches in _pieces(segment.path, segment is log.segments[-1], size):
            placed = replace(piece, expected=order.expected, skipped_below=order.skipped_below)
            found.append(Range((placed,), 0, checked, order.expected))
            for base, last in batches:
                admitted = order.admit(base, last)
                while admitted and checked < len(checks) and checks[checked] <= admitted[0]:
                    checked += 1
    return [*found[:-1], replace(found[-1], is_last=True)]


def _pieces(path: Path, is_last: bool, size: int) -> Iterator[tuple[Piece, list[tuple[int, int]]]]:
    """The pieces of a file, each with the first and last offsets of its batches."""
    start, epoch, before = 0, -1, -1
    count = SPLIT
    batches: list[tuple[int, int]] = []
    for head in heads(path):
        if head.start - start >= size and count % SPLIT:
            yield Piece(str(path), start, head.start, False, epoch, 0), batches
            start, epoch, batches = head.start, before, []
        before, count = head.epoch, head.records
        batches.append((head.base_offset, head.last_offset))
    yield Piece(str(path), start, None, is_last, epoch, 0), batches
