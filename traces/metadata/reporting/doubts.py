"""What of a metadata log is not known, from where on, and about which partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from highwater.traces.reports.findings import LIMIT, Doubt

OTHERS = "others of the kind"
"""The summary of what is beyond the limit of doubts that are told apart."""


@dataclass
class _Doubt:
    """``since`` is from where on all partitions are concerned, None: those in ``partitions``, each from there on."""

    offset: int
    since: int | None = None
    partitions: dict[str, int] = field(default_factory=dict)


class Doubts:
    """Collected while a log is followed. Doubts of one kind with one summary count as one."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], _Doubt] = {}
        self._since: int | None = None
        self._partitions: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(
        self,
        kind: str,
        summary: str,
        offset: int,
        partitions: Iterable[str] | None = None,
        since: int | None = None,
    ) -> None:
        """Something at an offset is not known; ``partitions`` are concerned from ``since`` on (None: the offset)."""
        if (kind, summary) not in self._found and len(self._found) >= LIMIT:
            summary = OTHERS
        doubt = self._found.setdefault((kind, summary), _Doubt(offset))
        doubt.offset = min(doubt.offset, offset)
        begin = offset if since is None else since
        if partitions is None:
            doubt.since = begin if doubt.since is None else min(doubt.since, begin)
            self._since = begin if self._since is None else min(self._since, begin)
            return
        for name in partitions:
            for known in (doubt.partitions, self._partitions):
                known[name] = min(known.get(name, begin), begin)

    def is_reliable(self, offset: int, partition: str | None) -> bool:
        """Whether what is reported of a partition at an offset does not depend on what is not known."""
        if self._since is not None and offset >= self._since:
            return False
        since = None if partition is None else self._partitions.get(partition)
        return since is None or offset < since

    def listed(self) -> list[Doubt]:
        """All of them, in the order of their first places."""
        found = [
            Doubt(
                kind,
                summary,
                {"offset": doubt.offset},
                None if doubt.since is not None else tuple(sorted(doubt.partitions)),
            )
            for (kind, summary), doubt in self._found.items()
        ]
        return sorted(found, key=lambda d: (d.position["offset"], d.kind, d.summary))

    def merge(self, other: Doubts) -> None:
        """Take over those of another share."""
        for (kind, summary), theirs in other._found.items():
            self.add(kind, summary, theirs.offset, None if theirs.since is not None else (), theirs.since)
            for name, since in theirs.partitions.items():
                self.add(kind, summary, theirs.offset, (name,), since)

    def to_json(self) -> list[Any]:
        """As JSON, for another process."""
        return [
            [kind, summary, d.offset, d.since, d.partitions] for (kind, summary), d in self._found.items()
        ]

    @classmethod
    def from_json(cls, data: Iterable[tuple[str, str, int, int | None, Mapping[str, int]]]) -> Doubts:
        """The same again."""
        found = cls()
        for kind, summary, offset, since, partitions in data:
            other = cls()
            other._found[kind, summary] = _Doubt(offset, since, dict(partitions))
            found.merge(other)
        return found
