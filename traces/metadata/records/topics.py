"""Records about topics, their partitions and their settings, and about features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from highwater.traces.kafka.codec import uuid_text
from highwater.traces.kafka.values import LATEST, encode
from highwater.traces.metadata.beliefs.slots import CannotFollow
from highwater.traces.metadata.beliefs.transitions import Change
from highwater.traces.metadata.image import (
    BROKER,
    MIN_ISR,
    TOPIC,
    UNCLEAN,
    Partition,
    Topic,
    undefined_setting,
)
from highwater.traces.metadata.pending import Pending
from highwater.traces.metadata.profiles import ELR_VERSION, newer_than_profiles
from highwater.traces.metadata.records import accepted, directories, settings
from highwater.traces.reports.observed import PartitionState
from highwater.traces.rules.log_directories import is_online

if TYPE_CHECKING:
    from highwater.traces.metadata.follow import Follower, Found


BEFORE = "changes of what was there before the log begins"
"""What is not followed where a log lacks its beginning."""


def create(follower: Follower, pending: Pending, found: Found) -> None:
    """A topic is created."""
    pending.flush()
    topic = Topic(found.data["name"])
    if topic.name in follower.image.names:
        follower.telling.wrong(found.offset, found.time, topic.name, "create a topic that exists", None, True)
    follower.image.names[topic.name] = follower.image.topics[found.data["topicId"]] = topic


def remove(follower: Follower, pending: Pending, found: Found) -> None:
    """A topic is deleted, with its partitions and its settings."""
    pending.flush()
    image, telling, identity = follower.image, follower.telling, found.data["topicId"]
    topic = image.topics.pop(identity, None)
    if topic is None:
        what = "delete a topic that does not exist"
        if follower.lacks_beginning:
            telling.skipped(BEFORE)
        else:
            telling.wrong(found.offset, found.time, None, what, None, True, topicId=identity)
        return
    image.names.pop(topic.name, None)
    for setting in image.configs.pop((TOPIC, topic.name), {}):
        image.changed.pop((TOPIC, topic.name, setting), None)
    for partition in topic.partitions.values():
        if image.partitions.pop(partition.key, None) is None:
            continue
        follower.populated(found.offset, -1)
        telling.close(partition, found.time)
        image.remove(partition)
        if partition.state is not None:
            telling.change(partition, found.offset, found.time, partition.state, None, "delete the topic")


def create_partition(follower: Follower, pending: Pending, found: Found) -> None:
    """A partition is created; in a snapshot, it is taken as it is."""
    pending.flush()
    data, image, telling = found.data, follower.image, follower.telling
    topic, number = image.topics.get(data["topicId"]), data["partitionId"]
    name = None if topic is None else f"{topic.name}-{number}"
    situations = follower.situations()
    if topic is None and follower.lacks_beginning:
        telling.skipped_of_partition(BEFORE)
        return
    if topic is None or found.partition_key in image.partitions:
        what = "a topic that does not exist" if topic is None else "a topic that has it"
        telling.wrong(
            found.offset, found.time, name, f"create a partition of {what}", topicId=data["topicId"]
        )
        return
    state = partition_state(data)
    try:
        possible, where = image.settings(topic, number, len(state.replicas)), _directories(data)
        belief, roster = situations.initial(state, possible, offline=_offline(follower, data, where))
        wrong = {} if follower.is_loading else situations.wrong_creation(state)
        if not follower.is_loading and not follower.lacks_beginning:
            wrong = accepted.creation(follower, state.replicas) | wrong
        if where and not follower.is_loading and follower.follows_directories:
            expected = directories.at_creation(follower, data)
            wrong = wrong | ({} if where == expected else {"directories": (list(expected), list(where))})
    except CannotFollow as why:
        follower.lost(f"{topic.name}-{number}", found.offset, found.time, str(why))
        return
    partition = Partition(topic, number, belief, roster, found.partition_key)
    partition.leader_epoch, partition.partition_epoch = state.leader_epoch, state.partition_epoch
    if where and follower.follows_directories:
        image.put_in(partition, where, state.replicas)
    if wrong:
        telling.wrong(found.offset, found.time, name, "create", wrong)
    image.partitions[partition.key] = topic.partitions[number] = partition
    image.place(partition, ())
    follower.populated(found.offset, 1)
    telling.conditions(partition, belief, found.time)
    if follower.tracks(partition.name):
        partition.state = state
        cause = "snapshot" if follower.is_loading else "create"
        telling.change(partition, found.offset, found.time, None, state, cause)


def _directories(data: Mapping[str, Any]) -> tuple[str, ...]:
    """The log directories of a PartitionRecord. Raises CannotFollow where they are not as many as the replicas."""
    found = tuple(data.get("directories") or ())
    if found and len(found) != len(data["replicas"]):
        raise CannotFollow(f"{len(data['replicas'])} replicas in {len(found)} log directories")
    return found


def _offline(follower: Follower, data: Mapping[str, Any], where: tuple[str, ...]) -> list[int]:
    """The replicas of a partition in a snapshot that are in directories which their brokers do not list."""
    if not follower.follows_directories:
        return []
    pairs = zip(data["replicas"], where, strict=False)
    return [b for b, directory in pairs if not is_online(directory, follower.image.listed(b) or ())]


def configure(follower: Follower, pending: Pending, found: Found) -> None:
    """A setting of a topic, or the default of all: min.insync.replicas and unclean.leader.election.enable."""
    data, image = found.data, follower.image
    resource = (data["resourceType"], data["resourceName"])
    pending.before_settings()
    if data["name"] not in (MIN_ISR, UNCLEAN) or resource[0] not in (TOPIC, BROKER):
        follower.telling.skipped("CONFIG_RECORD of another setting")
        return
    if (defined := undefined_setting(data["name"], data.get("value"))) is not None:
        # It is kept, and stands for any value.
        wrong = {data["name"]: (defined, data["value"])}
        follower.telling.wrong(found.offset, found.time, None, f"write a {found.type}", wrong, True)
        summary = f"{found.type} with {data['name']} {data['value']}"
        follower.doubt("undefined value", summary, found.offset, None, found.offset + 1)
    topics = list(image.names.values())
    if resource[0] == TOPIC:
        topics = [t for t in topics if t.name == resource[1]]
    concerned = [partition for topic in topics for partition in topic.partitions.values()]
    with settings.changing(follower, found, concerned):
        _set(follower, resource, data["name"], data.get("value"))
    if data["name"] == MIN_ISR:
        _change_min_isr(follower, pending, found, resource, defined is None)
    if follower.on_setting is not None:
        follower.on_setting(resource[1] if resource[0] == TOPIC else None)
    for partition in concerned:
        now = image.settings_of(partition)._replace(of_min_isr=data["name"] == MIN_ISR)
        pending.add(partition, now, found.offset)


def _set(follower: Follower, resource: tuple[int, str], name: str, value: str | None) -> None:
    image = follower.image
    configs = image.configs.setdefault(resource, {})
    if resource[0] == BROKER and resource[1]:
        image.nodes.add(resource[1])
    if value is None:
        configs.pop(name, None)
    else:
        configs[name] = value


def _change_min_isr(
    follower: Follower, pending: Pending, found: Found, resource: tuple[int, str], is_defined: bool
) -> None:
    """A setting of min.insync.replicas: whether it is accepted, and that ELRs are cleared with it."""
    if follower.is_loading:
        return
    kind, name = resource
    refused = accepted.min_isr(follower, kind, name, found.data.get("value") is None) if is_defined else None
    if refused is not None:
        wrong = {MIN_ISR: (refused, f"of {'topic' if kind == TOPIC else 'broker'} {name or 'default'}")}
        follower.telling.wrong(found.offset, found.time, None, "change_min_isr", wrong, True)
    pending.min_isr(name if kind == TOPIC else "", found.offset)


def decided(follower: Follower, pending: Pending, time: int) -> None:
    """All records of a decision are there: what it should have written, too, is looked for."""
    if follower.is_loading:
        return
    uncleared = pending.uncleared()
    if uncleared and follower.situations().beliefs.has_rule("min_isr_change_clears_elr"):
        for topic, offset in uncleared:
            missing = {"CLEAR_ELR_RECORD": ("written", "not written")}
            follower.telling.wrong(offset, time, None, "change_min_isr", missing, True, topic=topic)
    if pending.sets_elr is not None and not follower.lacks_beginning and (wrong := accepted.unsafe(follower)):
        follower.telling.wrong(pending.sets_elr, time, None, "turn ELR on", wrong, True)


def feature(follower: Follower, pending: Pending, found: Found) -> None:
    """A feature's level; it can call for other rules, and for rules that no profile has."""
    pending.flush()
    name, level = found.data["name"], found.data["featureLevel"]
    if name == ELR_VERSION:
        pending.sets_elr = found.offset
    if not follower.is_loading:
        wrong = accepted.level(follower, name, follower.image.features.get(name, 0), level)
        if wrong:
            follower.telling.wrong(found.offset, found.time, None, f"set {name}", wrong, True)
    follower.image.features[name] = level
    follower.has_new_features = True
    _newer(follower, found)


def controller(follower: Follower, pending: Pending, found: Found) -> None:
    """A controller registers, and says which levels of features it supports: so new is the code that decides."""
    pending.flush()
    follower.telling.skipped(found.type)
    levels = {feature["name"]: feature["maxSupportedVersion"] for feature in found.data["features"]}
    follower.image.controllers[found.data["controllerId"]] = levels
    follower.has_new_features = True
    _newer(follower, found)


def _newer(follower: Follower, found: Found) -> None:
    if follower.is_newer:
        # The first reason is enough.
        return
    why = newer_than_profiles(follower.image.features, follower.image.controllers)
    if why is not None:
        follower.is_newer = True
        follower.doubt("newer version", why, found.offset)


def begin_transaction(follower: Follower, pending: Pending, found: Found) -> None:
    """A transaction begins that never ends: its records are not followed. Of others nothing is handed on."""
    pending.flush()
    follower.doubt("open transaction", "a metadata transaction that does not end", found.offset)


def end_transaction(follower: Follower, pending: Pending, found: Found) -> None:
    """A transaction ends, or is aborted, that has not begun."""
    pending.flush()
    follower.telling.skipped(found.type)
    if not follower.lacks_beginning:
        what = "end a transaction that has not begun"
        follower.telling.wrong(found.offset, found.time, None, what, None, True)


def clear_elr(follower: Follower, pending: Pending, found: Found) -> None:
    """The ELR and the last known ELR of a topic's partitions become empty, of all with an empty name.

    Whoever reads the log merges a change into each partition that has one of the two.
    """
    name, names = found.data["topicName"], follower.image.names
    topics = list(names.values()) if not name else [names[name]] if name in names else []
    concerned = []
    has_rule = follower.situations().beliefs.has_rule("min_isr_change_clears_elr")
    if not pending.cleared(name, found.offset) and has_rule:
        asked = {"min.insync.replicas": ("changed", "not changed")}
        follower.telling.wrong(found.offset, found.time, None, "change_min_isr", asked, True, topic=name)
    for topic in topics:
        for partition in topic.partitions.values():
            observed = partition.belief.observed
            if observed.elr or observed.last_known:
                pending.clear(
                    partition, _clearing(bool(observed.elr), bool(observed.last_known)), found.offset
                )
                concerned.append(partition.name)
    if not has_rule:
        follower.doubt("no rule", f"no profile has a rule for a {found.type}", found.offset, concerned)


@cache
def _clearing(elr: bool, last_known: bool) -> Change:
    """The change that empties the one, or the other, or both."""
    data: dict[str, Any] = {"partitionId": 0, "topicId": uuid_text(bytes(16))}
    data |= {"eligibleLeaderReplicas": []} if elr else {}
    data |= {"lastKnownElr": []} if last_known else {}
    written = encode("PARTITION_CHANGE_RECORD", LATEST["PARTITION_CHANGE_RECORD"], data)
    return Change(written[:3] + written[23:])


def partition_state(data: Mapping[str, Any]) -> PartitionState:
    """The partition that a PartitionRecord holds."""
    recovery = data.get("leaderRecoveryState", 0)
    return PartitionState(
        tuple(data["replicas"]),
        tuple(data["isr"]),
        tuple(data.get("eligibleLeaderReplicas") or ()),
        tuple(data.get("lastKnownElr") or ()),
        None if data["leader"] < 0 else data["leader"],
        data["leaderEpoch"],
        data["partitionEpoch"],
        "RECOVERING" if recovery == 1 else "RECOVERED",
        tuple(data["addingReplicas"]),
        tuple(data["removingReplicas"]),
    )


HANDLERS: dict[str, Callable[[Follower, Pending, Found], None]] = {
    "TOPIC_RECORD": create,
    "REMOVE_TOPIC_RECORD": remove,
    "PARTITION_RECORD": create_partition,
    "CONFIG_RECORD": configure,
    "FEATURE_LEVEL_RECORD": feature,
    "REGISTER_CONTROLLER_RECORD": controller,
    "CLEAR_ELR_RECORD": clear_elr,
    "BEGIN_TRANSACTION_RECORD": begin_transaction,
    "END_TRANSACTION_RECORD": end_transaction,
    "ABORT_TRANSACTION_RECORD": end_transaction,
}

__all__ = [
    "BEFORE", "HANDLERS", "begin_transaction", "clear_elr", "configure", "controller", "create", "create_partition",
    "decided", "end_transaction", "feature", "partition_state", "remove",
]  # fmt: skip
