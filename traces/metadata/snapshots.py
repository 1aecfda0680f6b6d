"""Snapshots: a log can begin with one, and each later one must hold what the records before it made."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from highwater.traces.kafka.metadata_log import Snapshot
from highwater.traces.kafka.partition_records import is_creation
from highwater.traces.kafka.values import (
    KEYS,
    TYPES,
    DamagedRecord,
    MetadataRecord,
    UnknownRecord,
    api_key,
    decode,
    undefined,
)
from highwater.traces.metadata.follow import MetadataFollower
from highwater.traces.metadata.image.image import BROKER, TOPIC, Image
from highwater.traces.metadata.records.accepted import supported_by
from highwater.traces.metadata.records.topics import partition_state
from highwater.traces.metadata.sharing import Share
from highwater.traces.reading.errors import TraceError
from highwater.traces.reports.settings import MIN_ISR, UNCLEAN

SKIPPED = frozenset(TYPES) - {
    KEYS[name]
    for name in (
        "TOPIC_RECORD", "PARTITION_RECORD", "REGISTER_BROKER_RECORD", "CONFIG_RECORD", "FEATURE_LEVEL_RECORD",
    )
}  # fmt: skip
"""Records that are known, and that are not compared."""
_OF_ELR = ("elr", "lastKnownElr")
LIMIT = 20
"""So many differences of one snapshot are reported."""


def load(follower: MetadataFollower, snapshot: Snapshot) -> None:
    """Begin with a snapshot: what it holds is taken as it is. Raises TraceError."""
    with follower.loading():
        for batch in snapshot.batches():
            follower.take(snapshot.path, batch)


Difference = tuple[str | None, dict[str, tuple[Any, Any]], bool]
"""Partition (or None), field to (ours, the snapshot's), and whether it is of no partition in particular."""


def differences(follower: MetadataFollower, snapshot: Snapshot) -> list[Difference]:
    """The first differences by the partitions' names, at most one more than are reported. Raises TraceError.

    None where the snapshot, or the log, has something that is not known: that is a doubt.
    """
    # A snapshot that is written with ELR off leaves out what partitions still have of it (K9).
    has_elr = any("eligible_leader_replicas" in rules for rules in follower.automaton().beliefs.rules)
    found = compare(follower.image, snapshot, follower.share, has_elr)
    try:
        if follower.lacks_beginning:
            return []
        return heapq.nsmallest(LIMIT + 1, found, key=lambda difference: difference[0] or "")
    except UnknownRecord as unknown:
        what = f"{snapshot.path.name} is not compared: {unknown}"
        follower.doubt("unknown record", what, snapshot.end_offset, ())
        return []


def more_than_limit(snapshot: Snapshot) -> str:
    """The note where there are more."""
    return f"{snapshot.path}: more than {LIMIT} differences"


def compare(
    image: Image, snapshot: Snapshot, share: Share | None, has_elr: bool = True
) -> Iterator[Difference]:
    """What a snapshot has otherwise than the records before it. Raises TraceError, and UnknownRecord.

    ``has_elr``: the snapshot has the ELRs.

    What is in neither the model nor the snapshot is not looked at, and neither are partitions of other shares, nor
    those that could not be followed.
    """
    unfollowed = set(image.unfollowed.values())
    topics: dict[str, str] = {}
    seen: set[tuple[str, int]] = set()
    brokers: set[int] = set()
    features: set[str] = set()
    configs: dict[tuple[int, str, str], str] = {}
    for record in _records(snapshot, share):
        data = record.data
        if (wrong := undefined(record.type, data)) and record.type != "PARTITION_RECORD":
            yield None, {f"{record.type}.{field}": pair for field, pair in wrong.items()}, True
        match record.type:
            case "TOPIC_RECORD":
                topics[data["topicId"]] = data["name"]
            case "PARTITION_RECORD":
                name = topics.get(data["topicId"], "")
                seen.add((name, data["partitionId"]))
                if f"{name}-{data['partitionId']}" in unfollowed:
                    continue
                wrong = wrong or _partition(image, name, data)
                if not has_elr:
                    wrong = {f: pair for f, pair in wrong.items() if f not in _OF_ELR or pair[1]}
                if wrong:
                    yield f"{name}-{data['partitionId']}", wrong, False
            case "REGISTER_BROKER_RECORD":
                brokers.add(data["brokerId"])
                wrong = _broker(image, data)
                if wrong:
                    yield None, wrong, True
            case "CONFIG_RECORD":
                if data["name"] in (MIN_ISR, UNCLEAN) and data["resourceType"] in (TOPIC, BROKER):
                    configs[(data["resourceType"], data["resourceName"], data["name"])] = data["value"]
            case "FEATURE_LEVEL_RECORD":
                features.add(data["name"])
                ours = image.features.get(data["name"])
                if ours != data["featureLevel"]:
                    yield None, {f"feature {data['name']}": (ours, data["featureLevel"])}, True
    for partition in image.of_topics():
        if partition.topic is not None and (partition.topic.name, partition.number) not in seen:
            yield partition.name, {"partition": ("exists", "not in the snapshot")}, False
    for broker in sorted(set(image.brokers) - brokers):
        yield None, {f"broker {broker}": ("registered", "not in the snapshot")}, True
    for name in sorted({name for name, level in image.features.items() if level} - features):
        yield None, {f"feature {name}": (image.features[name], "not in the snapshot")}, True
    ours_all = {(*r, name): v for r, found in image.configs.items() for name, v in found.items()}
    for key in sorted({*ours_all, *configs}):
        if ours_all.get(key) != configs.get(key):
            yield None, {f"{key[2]} of {key[1] or 'all'}": (ours_all.get(key), configs.get(key))}, True


def _records(snapshot: Snapshot, share: Share | None) -> Iterator[MetadataRecord]:
    for batch in snapshot.batches():
        if batch.control:
            continue
        for offset, value in zip(batch.offsets, batch.values, strict=False):
            if share is not None and is_creation(value or b"") and not share.owns(value or b""):
                continue
            try:
                if api_key(value or b"")[0] in SKIPPED:
                    continue
                yield decode(value or b"")
            except DamagedRecord as wrong:
                raise TraceError(snapshot.path, None, f"record {offset}", str(wrong)) from None


def _partition(image: Image, topic: str, data: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    known = image.names.get(topic)
    partition = None if known is None else known.partitions.get(data["partitionId"])
    if partition is None:
        return {"partition": ("does not exist", "in the snapshot")}
    theirs = partition_state(data).to_json()
    ours = partition.observed.to_json()
    wrong = {}
    for name, value in ours.items():
        ordered = name == "replicas" or not isinstance(value, list)
        if (value if ordered else sorted(value)) != (theirs[name] if ordered else sorted(theirs[name])):
            wrong[name] = (value, theirs[name])
    if partition.directories and (listed := data.get("directories")):
        here = dict(zip(partition.replicas, partition.directories, strict=False))
        there = dict(zip(data["replicas"], listed, strict=False))
        if here != there:
            wrong["directories"] = (list(partition.directories), list(listed))
    return wrong


def _broker(image: Image, data: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    name = f"broker {data['brokerId']}"
    known = image.brokers.get(data["brokerId"])
    if known is None:
        return {name: ("not registered", "in the snapshot")}
    pairs = {
        "brokerEpoch": (known.epoch, data["brokerEpoch"]),
        "incarnationId": (known.incarnation, data["incarnationId"]),
        "fenced": (known.flags.fenced, data["fenced"]),
        "inControlledShutdown": (
            known.flags.in_controlled_shutdown,
            data.get("inControlledShutdown", False),
        ),
    }
    theirs = supported_by(data)
    if theirs and known.supported:
        pairs["features"] = (known.supported, theirs)
    if known.directories and (listed := data.get("logDirs")):
        pairs["logDirs"] = (sorted(known.directories), sorted(listed))
    return {f"{name}.{field}": pair for field, pair in pairs.items() if pair[0] != pair[1]}
