"""In which log directory each replica is, where a recording has directories."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from highwater.traces.decisions import is_online, names_default
from highwater.traces.operations.format import Key

RESERVED = {
    "AAAAAAAAAAAAAAAAAAAAAA": "MIGRATING",
    "AAAAAAAAAAAAAAAAAAAAAQ": "UNASSIGNED",
    "AAAAAAAAAAAAAAAAAAAAAg": "LOST",
}
"""Identifiers that name no directory, and what they stand for."""

UNASSIGNED = "AAAAAAAAAAAAAAAAAAAAAQ"


@dataclass
class Directories:
    """The directories that brokers list, by broker, and those of a partition's replicas, by partition and broker.

    A broker that lists none is one of a recording without directories: all its replicas are online.
    """

    listed: dict[int, list[str]] = field(default_factory=dict)
    replicas: dict[Key, dict[int, str]] = field(default_factory=dict)

    def copy(self) -> Directories:
        """A copy, which goes its own way."""
        return replace(self, listed=self.listed.copy(), replicas=self.replicas.copy())

    def place(self, key: Key, replicas: Iterable[int]) -> None:
        """The replicas of a partition: those that stay keep their directories, new ones get their broker's default."""
        before = self.replicas.get(key, {})
        self.replicas[key] = {b: before.get(b, self._default(b)) for b in replicas}

    def _default(self, broker: int) -> str:
        listed = self.listed.get(broker, [])
        return listed[0] if names_default(len(listed)) else UNASSIGNED

    def assign(self, key: Key, broker: int, directory: str) -> None:
        """A replica is in a directory."""
        self.replicas[key] = {**self.replicas.get(key, {}), broker: directory}

    def of(self, key: Key, replicas: Iterable[int]) -> list[str]:
        """The directories of a partition's replicas, in their order."""
        return [self.replicas.get(key, {}).get(b, UNASSIGNED) for b in replicas]

    def offline(self, key: Key) -> list[int]:
        """The replicas of a partition in a directory that their broker does not have any more."""
        return [b for b, directory in self.replicas.get(key, {}).items() if not self._is_online(b, directory)]

    def _is_online(self, broker: int, directory: str) -> bool:
        listed = self.listed.get(broker, [])
        return is_online(RESERVED.get(directory, "NAMED"), directory in listed, bool(listed))

    def within(self, broker: int, directory: str) -> list[Key]:
        """The partitions with the broker's replica in a directory."""
        return [key for key, replicas in self.replicas.items() if replicas.get(broker) == directory]


__all__ = ["Directories"]
