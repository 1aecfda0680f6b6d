"""What the rules decide, in the form in which it is recorded, beside what was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from highwater.model.replication.controller.types import NO_LEADER
from highwater.traces.operations.format import Decided, Key, Operation, Record
from highwater.traces.operations.state import ControllerState
from highwater.traces.rules.decisions import zero


def recorded_form(state: ControllerState) -> dict[str, Any]:
    """``partitions`` by name, as Kafka writes it, and the registered ``brokers`` by id."""
    partitions = {}
    for (topic, number), p in state.partitions.items():
        partitions[f"{topic}-{number}"] = {
            "replicas": state.ids(p["replicas"]),
            "isr": state.ids(p["isr"]),
            "elr": state.ids(p["elr"]),
            "lastKnownElr": state.last_known_ids(p),
            "leader": state.leader_id(p["leader"]),
            "leaderEpoch": p["leader_epoch"],
            "partitionEpoch": p["partition_epoch"],
            "leaderRecoveryState": p["leader_recovery_state"],
            "adding": state.ids(p["adding"]),
            "removing": state.ids(p["removing"]),
            "effectiveMinIsr": state.min_isr(topic),
            "unclean": state.unclean_election(topic),
            "directories": state.directories.of((topic, number), p["replicas"]),
        }
    brokers = {
        broker: {
            "epoch": r["epoch"],
            "incarnation": state.incarnations.get(broker, ""),
            "fenced": r["fenced"],
            "inControlledShutdown": r["in_controlled_shutdown"],
            "lastContactMs": state.contacts.get((broker, r["epoch"])),
            "onlineDirs": sorted(state.directories.listed.get(broker, [])),
        }
        for broker, r in enumerate(state.registrations[: state.count])
        if r["registered"]
    }
    return {"partitions": partitions, "brokers": brokers}


def whole_state(state: ControllerState) -> dict[str, Any]:
    """What a recording may have besides: the level of the feature, and the entries of the index that are stale."""
    return {"elrVersion": state.elr_version, "elrIndexExtra": state.stale_entries()}


def adopt(state: ControllerState, before: ControllerState, op: Operation) -> None:
    """Go on from the recorded state, after a line that is not explained; ``before`` is the state before it.

    Topics and configurations become what the line's records make of them. What the recording does not hold stays:
    sessions, unless the line has them. Raises TraceError where the recorded state has a broker that the meta line does
    not.
    """
    state.step, state.next_offset = op.step, op.next_offset + len(op.records)
    state.now_ms = max(state.now_ms, op.time_ms)
    state.follow_records(before, op)
    state.partitions = {key: _partition(state, op, key, p) for key, p in op.partitions.items()}
    if op.elr_version is not None:
        state.elr_version = op.elr_version
        _adopt_index(state, op)
    for key, p in op.partitions.items():
        if "directories" in p:
            state.directories.replicas[key] = dict(zip(p["replicas"], p["directories"], strict=False))
    state.orders = {key: p["isr"] for key, p in state.partitions.items()}
    for topic, _ in state.partitions:
        state.topic_configs.setdefault(topic, {})
        state.topic_ids.setdefault(topic, "")
    nobody = zero(state.model.t.registration)
    for broker in range(state.count):
        if broker not in op.brokers:
            state.registrations[broker] = nobody
            state.incarnations.pop(broker, None)
    for broker, b in op.brokers.items():
        if broker < state.count:
            state.registrations[broker] = {
                "registered": True,
                "epoch": max(0, b["epoch"]),
                "fenced": b["fenced"],
                "in_controlled_shutdown": b["inControlledShutdown"],
            }
            state.incarnations[broker] = b["incarnation"]
            if b.get("onlineDirs"):
                state.directories.listed[broker] = b["onlineDirs"]
            if b.get("lastContactMs") is not None:
                state.contacts[(broker, max(0, b["epoch"]))] = b["lastContactMs"]


def _adopt_index(state: ControllerState, op: Operation) -> None:
    state.entries = {}
    members = [(b, topic, number) for (topic, number), p in state.partitions.items() for b in p["elr"]]
    for entry in [*members, *op.elr_index]:
        state.entries[entry] = state.entries.get(entry, 0) + 1


def _partition(state: ControllerState, op: Operation, key: Key, p: dict[str, Any]) -> dict[str, Any]:
    def known(name: str, low: int = 0) -> list[int]:
        return _known(state.count, op, key, name, p[name], low)

    return {
        "replicas": known("replicas"),
        "adding": known("adding"),
        "removing": known("removing"),
        "isr": known("isr"),
        "elr": known("elr"),
        "last_known_elr": p["lastKnownElr"] if state.last_known_is_elr else [],
        "last_known_leader": known("lastKnownElr", NO_LEADER)[0]
        if p["lastKnownElr"] and not state.last_known_is_elr
        else None,
        "leader": None if p["leader"] == NO_LEADER else state.slot(p["leader"]),
        "leader_epoch": max(0, p["leaderEpoch"]),
        "partition_epoch": max(0, p["partitionEpoch"]),
        "leader_recovery_state": p["leaderRecoveryState"],
        **({"offline": []} if state.rules.t.on("offline_directory_check") else {}),
    }


def _known(count: int, op: Operation, key: Key, name: str, ids: list[int], low: int) -> list[int]:
    at = op.place.at(f"partitions[{key[0]}-{key[1]}]").at(name)
    for broker in ids:
        if not low <= broker < count:
            raise at.wrong(f"broker {broker}, where the meta line has {count} brokers")
    if len(ids) > count:
        raise at.wrong("more replicas than brokers")
    return ids


Difference = tuple[str, tuple[Any, Any]]
"""The path of a field, and its values: the model's and the recorded one."""


def differences(state: ControllerState, op: Operation, outcome: Decided) -> Iterator[Difference]:
    """What differs between the line, and the model's outcome and state after it; nothing where they agree.

    Raises LanguageError, perhaps after some differences, where the state has no recorded form.
    """
    assert state.next_offset is not None
    yield from _unequal("i", state.step, op.step)
    yield from _unequal("nextOffset", state.next_offset - outcome.record_count, op.next_offset)
    if op.time_ms < state.now_ms:
        yield "timeMs", (f"at least {state.now_ms}", op.time_ms)
    for name, value in outcome.annotations.items():
        yield from _unequal(f"op.{name}", value, op.arguments[name])
    yield from _unequal("error", outcome.error, op.error)
    yield from _unequal("response", outcome.response, op.response)
    yield from _in_records(outcome.records, op.records)
    after = recorded_form(state)
    partitions = {f"{topic}-{number}": p for (topic, number), p in op.partitions.items()}
    yield from _in_state("partitions", after["partitions"], partitions)
    yield from _in_state("brokers", after["brokers"], op.brokers)
    if op.elr_version is not None:
        more = whole_state(state)
        yield from _unequal("elrVersion", more["elrVersion"], op.elr_version)
        yield from _unequal("elrIndexExtra", more["elrIndexExtra"], sorted(op.elr_index))


def _unequal(path: str, model: Any, recorded: Any) -> Iterator[Difference]:
    if model != recorded:
        yield path, (model, recorded)


def _in_state(what: str, model: dict[Any, Any], recorded: dict[Any, Any]) -> Iterator[Difference]:
    for key in sorted({*model, *recorded}, key=str):
        ours, theirs = model.get(key), recorded.get(key)
        if ours is None or theirs is None:
            yield from _unequal(f"{what}[{key}]", ours, theirs)
            continue
        for name in [name for name in ours if name in theirs]:
            yield from _unequal(f"{what}[{key}].{name}", ours[name], theirs[name])


def _in_records(groups: list[list[Record]], recorded: list[Record]) -> Iterator[Difference]:
    if sum(len(group) for group in groups) != len(recorded):
        kinds = [kind for group in groups for kind, _, _ in group]
        yield "records", (kinds, [kind for kind, _, _ in recorded])
        return
    start = 0
    for group in groups:
        found = recorded[start : start + len(group)]
        pairs = zip(sorted(group, key=_by_partition), sorted(found, key=_by_partition), strict=True)
        for position, (model, theirs) in enumerate(pairs, start=start):
            yield from _in_record(f"records[{position}]", model, theirs)
        start += len(group)


def _in_record(at: str, model: Record, recorded: Record) -> Iterator[Difference]:
    if model[0] != recorded[0]:
        yield f"{at}.type", (model[0], recorded[0])
        return
    yield from _unequal(f"{at}.version", model[1], recorded[1])
    for name in sorted({*model[2], *recorded[2]}):
        ours, theirs = model[2].get(name, "not written"), recorded[2].get(name, "not written")
        yield from _unequal(f"{at}.data.{name}", ours, theirs)


def _by_partition(record: Record) -> tuple[str, str, int]:
    kind, _, data = record
    return kind, str(data.get("topicId", "")), int(data.get("partitionId", 0))
