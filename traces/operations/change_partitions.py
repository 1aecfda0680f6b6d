"""A rule over one partition or several: they change in the carried state, and their records are returned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from highwater.model.replication.controller import batches
from highwater.traces.operations.format import Key, Record
from highwater.traces.operations.model_records import partition_change_record
from highwater.traces.operations.state import ControllerState

Rule = Callable[..., Any]
"""A rule about a partition, out of ``Decisions``."""

Partitions = dict[Key, dict[str, Any]]


class DecisionFails(Exception):
    """A decision throws: it has no records, and whatever else belongs to it is not done."""


def store_change(
    state: ControllerState,
    key: Key,
    change: dict[str, Any],
    directory: tuple[int, str] | None = None,
    order: Sequence[int] | None = None,
) -> list[Record]:
    """Store the partition after a change; its record, unless nothing changes.

    ``directory`` is a broker whose replica is in that directory from now on, ``order`` that of the ISR that was asked
    for. Raises DecisionFails.
    """
    if change["fails"]:
        raise DecisionFails
    if change["nothing"]:
        return []
    state.store(key, change["after"], order=order)
    if change["written"]["replicas"]:
        state.directories.place(key, change["after"]["replicas"])
    if directory is not None:
        state.directories.assign(key, *directory)
    return [partition_change_record(state, key, change)]


def as_seen(state: ControllerState, key: Key, partition: dict[str, Any]) -> dict[str, Any]:
    """A partition as the rules see it: with its replicas in directories that are offline."""
    if "offline" not in partition:
        return partition
    return {**partition, "offline": state.directories.offline(key)}


def change_partitions(
    state: ControllerState, rule: Rule, keys: Iterable[Key], **arguments: Any
) -> list[Record]:
    """The records of a rule over partitions, which change with it. Raises DecisionFails."""
    records = []
    before = {key: as_seen(state, key, state.partitions[key]) for key in keys}
    settings = {topic: state.settings(topic) for topic, _ in before}
    for key, partition in before.items():
        change = rule(partition=partition, registrations=state.registrations, **settings[key[0]], **arguments)
        records += store_change(state, key, change)
    return records


class BrokerDecision:
    """The records of one decision about a broker: all are built for the partitions as they were before it.

    So a partition that is visited twice has two records, of which the second says again what the first said.
    """

    def __init__(self, state: ControllerState, broker: int) -> None:
        self.state, self.broker = state, broker
        self.before = {key: as_seen(state, key, p) for key, p in state.partitions.items()}
        self.registrations = list(state.registrations)
        self.settings = {topic: state.settings(topic) for topic in {t for t, _ in self.before}}
        self._visits = {key: state.visits(broker, key) for key in self.before}

    def visited(self, part: str) -> list[Key]:
        """The partitions of a part of a batch, once for each record."""
        choose: dict[str, Callable[[Key, dict[str, Any]], int]] = {
            batches.IN_ISR: lambda key, p: self.broker in p["isr"],
            batches.IN_ELR: lambda key, p: self._visits[key],
            batches.LEADERLESS: lambda key, p: p["leader"] is None,
        }
        return [key for key, p in self.before.items() for _ in range(choose[part](key, p))]

    def change(self, keys: Iterable[Key], rule: Rule, **more: Any) -> list[Record]:
        """The records of a rule over partitions. Raises DecisionFails."""
        records: list[Record] = []
        for key in keys:
            change = rule(
                partition=self.before[key],
                onto=self.state.partitions[key],
                registrations=self.registrations,
                broker=self.broker,
                **self.settings[key[0]],
                **more,
            )
            records += store_change(self.state, key, change)
        return records

    def batch(self, order: tuple[str, ...], own: list[Record], rule: Rule, **more: Any) -> list[list[Record]]:
        """The records in the order of a batch; ``own`` are those of the broker. Raises DecisionFails."""
        return [
            own if part == batches.BROKER else self.change(self.visited(part), rule, **more) for part in order
        ]
