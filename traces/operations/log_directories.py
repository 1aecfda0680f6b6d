"""In which log directory each replica is, where a recording has directories."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from highwater.traces.operations.format import Key
from highwater.traces.rules.log_directories import UNASSIGNED, default_directory, is_online


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
        self.replicas[key] = {
            b: before.get(b, default_directory(self.listed.get(b) or None)) for b in replicas
        }

    def assign(self, key: Key, broker: int, directory: str) -> None:
        """A replica is in a directory."""
        self.replicas[key] = {**self.replicas.get(key, {}), broker: directory}

    def of(self, key: Key, replicas: Iterable[int]) -> list[str]:
        """The directories of a partition's replicas, in their order."""
        return [self.replicas.get(key, {}).get(b, UNASSIGNED) for b in replicas]

    def offline(self, key: Key) -> list[int]:
        """The replicas of a partition in a directory that their broker does not have any more."""
        replicas = self.replicas.get(key, {}).items()
        return [b for b, directory in replicas if not is_online(directory, self.listed.get(b, []))]

    def within(self, broker: int, directory: str) -> list[Key]:
        """The partitions with the broker's replica in a directory."""
        return [key for key, replicas in self.replicas.items() if replicas.get(broker) == directory]


__all__ = ["Directories"]
