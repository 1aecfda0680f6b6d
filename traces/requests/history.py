"""A partition's versions in the order of the metadata log, and its leader epochs: looked up in the spine's tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec import Struct, msgpack

from highwater.traces.reports.observed import PartitionState
from highwater.traces.requests.tables import Tables

NEVER = float("inf")
TOLD = 4
"""So many epochs are named where one is not known: the last ones."""


class Version(Struct, gc=False, frozen=True):
    """A partition from an offset of the metadata log on; ``min_isr`` is the effective one, None if not known."""

    position: int
    time: int
    state: PartitionState
    min_isr: int | None
    unclean_election: bool | None
    cause: str | None = None
    """The action of the controller that explains it."""

    @property
    def is_recovering(self) -> bool:
        """Whether its leader was elected uncleanly, and has not said yet that it has recovered."""
        return self.state.leader_recovery_state != "RECOVERED"


class EpochBegins(Struct, gc=False, frozen=True):
    """A leader epoch: who leads in it, None for nobody, and where and when it begins."""

    epoch: int
    leader: int | None
    number: int
    time: int
    position: int


encoded, _decoded = msgpack.Encoder().encode, msgpack.Decoder(Version).decode
_EPOCH = "SELECT epoch, leader, number, time, position FROM epoch WHERE life = ?"


@dataclass(slots=True)
class History:
    """A partition's versions in the order of the metadata log. ``number`` names it, and no other."""

    number: int
    name: str
    deleted: int | None
    """When the partition was deleted."""
    _tables: Tables
    _asked: int | None = None
    _later: EpochBegins | None = None
    """The leader epoch behind the one that was asked for last."""

    def versions(self) -> Iterator[Version]:
        """All of them."""
        for (body,) in self._tables.rows(
            "SELECT body FROM version WHERE life = ? ORDER BY number", self.number
        ):
            yield _decoded(body)

    def begins(self, epoch: int) -> EpochBegins | None:
        """A leader epoch; None where there was no such epoch."""
        found = self._tables.row(f"{_EPOCH} AND epoch = ?", self.number, epoch)
        return None if found is None else EpochBegins(*found)

    def later(self, epoch: int) -> EpochBegins | None:
        """The leader epoch behind this one; None where there is none."""
        if epoch != self._asked:
            found = self._tables.row(f"{_EPOCH} AND epoch > ? ORDER BY epoch LIMIT 1", self.number, epoch)
            self._asked, self._later = epoch, None if found is None else EpochBegins(*found)
        return self._later

    def of_epoch(self, epoch: int) -> Iterator[Version]:
        """The versions of a leader epoch; none where there was no such epoch."""
        first, later = self.begins(epoch), self.later(epoch)
        if first is not None:
            for (body,) in self._tables.rows(
                "SELECT body FROM version WHERE life = ? AND number >= ? AND number < ? ORDER BY number",
                self.number, first.number, NEVER if later is None else later.number,
            ):  # fmt: skip
                yield _decoded(body)

    def with_partition_epoch(self, epoch: int, partition_epoch: int) -> Iterator[Version]:
        """Those versions of a leader epoch that have this partition epoch."""
        for (body,) in self._tables.rows(
            "SELECT body FROM version INDEXED BY by_partition_epoch "
            "WHERE life = ? AND partition_epoch = ? ORDER BY number",
            self.number, partition_epoch,
        ):  # fmt: skip
            version = _decoded(body)
            if version.state.leader_epoch == epoch:
                yield version

    def around(self, start_ms: float, end_ms: float) -> list[Version]:
        """The versions that were in force between two times of the controller's clock."""
        before = self._tables.row(
            "SELECT body FROM version WHERE life = ? AND time <= ? ORDER BY time DESC, number DESC LIMIT 1",
            self.number, start_ms,
        )  # fmt: skip
        within = self._tables.rows(
            "SELECT body FROM version WHERE life = ? AND time > ? AND time <= ? ORDER BY time, number",
            self.number, start_ms, end_ms,
        )  # fmt: skip
        return [_decoded(body) for (body,) in (*([] if before is None else [before]), *within)]

    def has_later(self, epoch: int, by_ms: float) -> bool:
        """Whether a later leader epoch had begun by a time of the controller's clock."""
        found = self.later(epoch)
        return found is not None and found.time <= by_ms

    def led_by(self, broker: int, by_ms: float) -> int | None:
        """The last leader epoch of a broker that had begun by a time of the controller's clock."""
        found = self._tables.row(
            "SELECT epoch FROM epoch WHERE life = ? AND leader = ? AND time <= ? "
            "ORDER BY time DESC, epoch DESC LIMIT 1",
            self.number, broker, by_ms,
        )  # fmt: skip
        return None if found is None else int(found[0])

    def begun(self, by_ms: float) -> list[int]:
        """The last leader epochs that had begun by a time of the controller's clock."""
        query = "SELECT epoch FROM epoch WHERE life = ? AND time <= ? ORDER BY epoch DESC LIMIT ?"
        return [epoch for (epoch,) in self._tables.rows(query, self.number, by_ms, TOLD)][::-1]
