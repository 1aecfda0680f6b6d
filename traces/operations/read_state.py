"""The state after an operation: all partitions and all registered brokers."""

from __future__ import annotations

from typing import Any

from highwater.traces.fields import INT64, Fields
from highwater.traces.operations.format import RECOVERY_STATES, Key


def read_partitions(line: Fields) -> dict[Key, dict[str, Any]]:
    """The partitions of a line, by topic and number. Raises TraceError.

    The members of an ISR are sorted: their order says nothing.
    """
    known = (
        "topic", "partition", "replicas", "isr", "elr", "lastKnownElr", "leader", "leaderEpoch", "partitionEpoch",
        "leaderRecoveryState", "adding", "removing", "effectiveMinIsr", "unclean",
    )  # fmt: skip
    found: dict[Key, dict[str, Any]] = {}
    for place, item in line.items("partitions"):
        f = Fields(place, item, known, ("directories",))
        key = (f.text("topic"), f.number("partition"))
        if key in found:
            raise place.wrong("a second state of a partition")
        found[key] = {
            "replicas": f.numbers("replicas"),
            "isr": sorted(f.numbers("isr", -1)),
            "elr": f.numbers("elr", -1),
            "lastKnownElr": f.numbers("lastKnownElr", -1),
            "leader": f.number("leader", -1),
            "leaderEpoch": f.number("leaderEpoch", -1),
            "partitionEpoch": f.number("partitionEpoch", -1),
            "leaderRecoveryState": f.choice("leaderRecoveryState", RECOVERY_STATES),
            "adding": f.numbers("adding"),
            "removing": f.numbers("removing"),
            "effectiveMinIsr": f.number("effectiveMinIsr"),
            "unclean": f.flag("unclean"),
        }
    return found


def read_brokers(line: Fields) -> dict[int, dict[str, Any]]:
    """The registered brokers of a line, by id. Raises TraceError."""
    known = ("id", "epoch", "incarnation", "fenced", "inControlledShutdown", "processAlive")
    found: dict[int, dict[str, Any]] = {}
    for place, item in line.items("brokers"):
        f = Fields(place, item, known, ("lastContactMs", "onlineDirs"))
        broker = f.number("id")
        if broker in found:
            raise place.wrong("a second state of a broker")
        f.flag("processAlive")
        found[broker] = {
            "epoch": f.number("epoch", -1, INT64),
            "incarnation": f.text("incarnation"),
            "fenced": f.flag("fenced"),
            "inControlledShutdown": f.flag("inControlledShutdown"),
            "lastContactMs": f.number("lastContactMs", 0, INT64) if _is_given(f, "lastContactMs") else None,
        }
    return found


def _is_given(f: Fields, name: str) -> bool:
    return name in f and f.raw(name) is not None


__all__ = ["read_brokers", "read_partitions"]
