"""A rule over one partition or several: they change in the carried state, and their records are returned."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from highwater.model.replication.controller import batches
from highwater.traces.operations.format import Key, Record
from highwater.traces.operations.model_records import partition_change_record
from highwater.traces.operations.state import ControllerState

Rule = Callable[..., Any]
"""A rule about a partition, out of ``Decisions``."""


def store_change(state: ControllerState, key: Key, change: dict[str, Any]) -> list[Record]:
    """Store the partition after a change; its record, unless nothing changes."""
    if change["nothing"]:
        return []
    state.partitions[key] = change["after"]
    return [partition_change_record(state, key, change)]


def change_partitions(
    state: ControllerState, rule: Rule, keys: Iterable[Key], **arguments: Any
) -> list[Record]:
    """The records of a rule over partitions, which change with it."""
    records, before = [], {key: state.partitions[key] for key in keys}
    settings = {topic: state.settings(topic) for topic, _ in before}
    for key, partition in before.items():
        change = rule(partition=partition, registrations=state.registrations, **settings[key[0]], **arguments)
        records += store_change(state, key, change)
    return records


def change_because_of_broker(
    state: ControllerState, order: tuple[str, ...], broker: int, own: list[Record], rule: Rule, **more: Any
) -> list[list[Record]]:
    """The records of a decision about a broker, in the order of its batch; ``own`` are those of the broker."""
    before = dict(state.partitions)
    choose: dict[str, Callable[[dict[str, Any]], bool]] = {
        batches.IN_ISR: lambda p: broker in p["isr"],
        batches.IN_ELR: lambda p: broker in p["elr"],
        batches.LEADERLESS: lambda p: p["leader"] is None,
    }
    groups: list[list[Record]] = []
    done: set[Key] = set()
    for part in order:
        if part == batches.BROKER:
            groups.append(own)
            continue
        keys = [key for key, p in before.items() if key not in done and choose[part](p)]
        done.update(keys)
        groups.append(change_partitions(state, rule, keys, broker=broker, **more))
    return groups


__all__ = ["Rule", "change_because_of_broker", "change_partitions", "store_change"]
