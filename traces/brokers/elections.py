"""What the metadata log says of a partition, by its epochs: who was elected, from where, under which min ISR."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from highwater.traces.reports.observed import PartitionState
from highwater.traces.rules import log_rules

ISR, ELR, _OUTSIDE = "the ISR", "the ELR", "outside ISR and ELR"


@dataclass(frozen=True, slots=True)
class PartitionVersion:
    """A partition at one partition epoch, with the offset of the change and its time. ``number`` counts changes."""

    number: int
    position: int
    time: int
    leader: int | None
    leader_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    replicas: tuple[int, ...]
    min_isr: int | None
    election: Election | None


@dataclass(frozen=True, slots=True)
class Election:
    """A leader that a change of the partition elected.

    ``source`` is where it came from, in words, and ``clean`` whether from ISR or ELR; None where that is not known.
    """

    source: str | None = None
    clean: bool | None = None


@dataclass(slots=True)
class Epochs:
    """What the metadata log says of a partition, by its epochs."""

    versions: dict[int, PartitionVersion] = field(default_factory=dict)
    elections: dict[int, PartitionVersion] = field(default_factory=dict)
    latest: int = -1
    created: int = 0
    last_min_isr: int | None = None
    settings: tuple[list[int], ...] = ()
    """After which changes min.insync.replicas changed: of the topic, and of all."""

    def min_isr(self, epoch: int) -> tuple[int | None, int | None]:
        """The least min ISR that can have been in force while this was the latest change; the number of replicas.

        The setting can change without the partition, so the changes around this one are asked too. The min ISR is
        None where they do not say.
        """
        version = self.versions.get(epoch)
        if version is None:
            return None, None
        following = self.versions.get(epoch + 1)
        around = [version, self.versions.get(epoch - 1, version), following]
        found = [None if v is None else v.min_isr for v in around]
        if epoch == self.latest:
            found[2] = self.last_min_isr
        known = [v for v in found if v is not None]
        settled = all(_settled(numbers, version, following) for numbers in self.settings)
        return min(known) if settled and len(known) == len(found) else None, len(version.replicas)


def _settled(numbers: list[int], version: PartitionVersion, following: PartitionVersion | None) -> bool:
    """Whether none of these changes of a setting came between two changes of a partition."""
    at = bisect_left(numbers, version.number)
    return at == len(numbers) or (following is not None and numbers[at] >= following.number)


def election(before: PartitionState | None, after: PartitionState) -> Election | None:
    """The election that a change of a partition is, None where it elects nobody."""
    if after.leader is None or (before is not None and before.leader_epoch == after.leader_epoch):
        return None
    if before is None:
        return Election()
    in_isr, in_elr = after.leader in before.isr, after.leader in before.elr
    source = ISR if in_isr else ELR if in_elr else _OUTSIDE
    return Election(source, log_rules.is_clean(in_isr, in_elr))
