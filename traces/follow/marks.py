"""Marks of a log: checksums by which a later reading recognizes the log, and finds where its content differs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

MAX_MARKS = 512
_MAX_PROPERTIES = 1 << 16
Mark = tuple[int, int]
"""An offset, and the checksum of the batch that begins there; ``~offset`` for the snapshot that ends there."""


class Marks:
    """Marks of the batches that were read: of each of the last 256 batches, and of ever fewer older ones.

    ``known`` has the marks of an earlier reading. ``add`` compares new marks with them, until ``accept`` is called.
    """

    def __init__(self, known: Iterable[Mark] = ()) -> None:
        self.known = dict(known)
        self.read: list[Mark] = []
        self.differs_at: int | None = None
        """The first offset at which the log has another batch than before, as far as the marks show."""
        self._agrees = False

    @property
    def is_other(self) -> bool:
        """True if the log differs from the earlier reading, and no mark before the difference agrees."""
        return self.differs_at is not None and not self._agrees

    def begin(self) -> None:
        """Begin a reading. If ``known`` is empty, the marks of the reading so far become ``known``."""
        self.known = self.known or dict(self.read)
        self.read, self.differs_at, self._agrees = [], None, False

    def accept(self) -> None:
        """Forget the marks of the earlier reading."""
        self.known = {}
        self.differs_at = None

    def add(self, offset: int, checksum: int) -> None:
        """Store a mark of this reading, and compare it with the earlier reading's mark at this offset."""
        known = self.known.get(offset)
        if known is not None and self.differs_at is None:
            if known == checksum:
                self._agrees = True
            else:
                self.differs_at = offset
        self.read.append((offset, checksum))
        if len(self.read) > MAX_MARKS:
            del self.read[1 : MAX_MARKS // 2 : 2]


def cluster_id(directory: Path) -> str:
    """The id of the cluster from meta.properties beside a log's directory; empty if it is not there."""
    try:
        with open(directory.parent / "meta.properties", encoding="utf-8", errors="replace") as file:
            lines = file.read(_MAX_PROPERTIES).splitlines()
    except OSError:
        return ""
    return next((value.strip() for line in lines if (value := line.removeprefix("cluster.id=")) != line), "")
