"""What the image is made of: partitions, topics, and brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from highwater.traces.metadata.beliefs.belief_states import (
    BeliefState,
    Binding,
    Content,
    Transition,
    with_brokers,
)
from highwater.traces.metadata.beliefs.evidence import Brokers, Flags
from highwater.traces.reports.observed import PartitionState
from highwater.traces.reports.settings import Resized


class Partition:
    """A partition: its belief state, the brokers that the slots stand for, and its epochs.

    ``key`` names it in records. ``directories`` are those of its replicas, in their order; empty where they are not
    known. ``topic`` is None for the stand-in with which a broker's own registration is followed. ``state`` is kept
    where changes are asked for. ``under_min_isr_since`` and ``leaderless_since`` are times in ms. ``resized`` is the
    last change of min.insync.replicas that the partition met under min ISR, until its ISR has as many members again.
    """

    __slots__ = (
        "belief", "binding", "directories", "key", "leader_epoch", "leaderless_since", "number", "partition_epoch",
        "resized", "state", "topic", "under_min_isr_since",
    )  # fmt: skip

    def __init__(
        self, topic: TopicImage | None, number: int, belief: BeliefState, binding: Binding, key: bytes = b""
    ) -> None:
        self.topic, self.number, self.key = topic, number, key
        self.belief, self.binding = belief, binding
        self.directories: tuple[str, ...] = ()
        self.leader_epoch = self.partition_epoch = 0
        self.state: PartitionState | None = None
        self.under_min_isr_since: int | None = None
        self.leaderless_since: int | None = None
        self.resized: Resized | None = None

    @property
    def observed(self) -> PartitionState:
        """As the metadata log has it; members in the order of the replicas."""
        return replace(
            with_brokers(self.belief.observed, self.binding.brokers),
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
        )

    @property
    def replicas(self) -> Brokers:
        """The brokers that are its replicas, in their order."""
        return tuple([self.binding.brokers[slot] for slot in self.belief.observed.replicas])

    def directory(self, broker: int) -> str | None:
        """The log directory of a broker's replica; None where the log has none, or the broker is no replica."""
        if not self.directories:
            return None
        return next((d for b, d in zip(self.replicas, self.directories, strict=False) if b == broker), None)

    @property
    def name(self) -> str:
        """As Kafka writes it: topic, dash, number."""
        return "" if self.topic is None else f"{self.topic.name}-{self.number}"

    @property
    def is_watched(self) -> bool:
        """Whether something is kept of it that each of its changes concerns."""
        return self.state is not None or self.resized is not None

    def transition(self, *contents: Content) -> Transition | None:
        """The transition by observations with these contents (``slots.content``), if it was explained already."""
        symbols = self.binding.symbols
        if len(contents) == 1:
            symbol = symbols.get(contents[0])
            return None if symbol is None else self.belief.transitions.get(symbol)
        word = tuple([found for content in contents if (found := symbols.get(content)) is not None])
        return self.belief.transitions.get(word) if len(word) == len(contents) else None

    def advance(self, transition: Transition) -> None:
        """Go on to the belief state after a transition, with the epochs that its records have grown by."""
        self.belief = transition.after
        self.partition_epoch += transition.changes
        self.leader_epoch += transition.bumps


@dataclass(eq=False)
class TopicImage:
    """A topic with its partitions by number, and its configuration."""

    name: str
    partitions: dict[int, Partition] = field(default_factory=dict)


@dataclass
class Broker:
    """A broker's registration, with the log directories that it lists.

    ``partition`` stands in for it where no partition has it as a replica. ``supported`` are the levels of features
    that it supports, from and to.
    """

    epoch: int
    incarnation: str
    flags: Flags
    directories: tuple[str, ...] = ()
    supported: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    partition: Partition | None = None
