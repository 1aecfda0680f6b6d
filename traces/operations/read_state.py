"""The state after an operation: all partitions and all registered brokers."""

from __future__ import annotations

from typing import Any

from highwater.traces.operations.format import RECOVERY_STATES, Key
from highwater.traces.reading.fields import INT64, Fields


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
        if "directories" in f:
            found[key]["directories"] = texts(f, "directories")
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
        }
        if "lastContactMs" in f:
            is_none = f.raw("lastContactMs") is None
            found[broker]["lastContactMs"] = None if is_none else f.number("lastContactMs", 0, INT64)
        if "onlineDirs" in f:
            found[broker]["onlineDirs"] = sorted(texts(f, "onlineDirs"))
    return found


def read_stale_entries(line: Fields) -> list[tuple[int, str, int]]:
    """The entries (broker, topic, partition) of the index of ELR members that no partition has. Raises TraceError."""
    found = []
    for place, item in line.items("elrIndexExtra"):
        if not isinstance(item, list) or len(item) != 3:
            raise place.wrong("expected a broker, a topic and a partition")
        names = ("broker", "topic", "partition")
        f = Fields(place, dict(zip(names, item, strict=True)), names)
        found.append((f.number("broker"), f.text("topic"), f.number("partition")))
    return sorted(found)


def texts(f: Fields, name: str) -> list[str]:
    """A list of strings. Raises TraceError."""
    return [Fields(place, {name: item}, (name,)).text(name) for place, item in f.items(name)]


__all__ = ["read_brokers", "read_partitions", "read_stale_entries", "texts"]
