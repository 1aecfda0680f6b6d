"""Records about topics, their partitions and their settings, and about features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from highwater.traces.kafka.partition_records import encode_change
from highwater.traces.metadata.beliefs.belief_states import CannotFollow
from highwater.traces.metadata.beliefs.evidence import Change
from highwater.traces.metadata.image.image import BROKER, TOPIC, undefined_setting
from highwater.traces.metadata.image.partitions import Partition, TopicImage
from highwater.traces.metadata.pending import Pending
from highwater.traces.metadata.records import accepted, directories, settings
from highwater.traces.metadata.tracker import BEFORE, LogRecord, Tracker
from highwater.traces.reports.observed import PartitionState
from highwater.traces.reports.settings import MIN_ISR, UNCLEAN
from highwater.traces.rules.decisions import is_online
from highwater.traces.rules.profiles import ELR_VERSION, newer_than_profiles


def create(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """A topic is created."""
    pending.flush()
    topic = TopicImage(record.data["name"])
    if topic.name in tracker.image.names:
        tracker.reporter.wrong(
            record.offset, record.time, topic.name, "create a topic that exists", None, True
        )
    tracker.image.names[topic.name] = tracker.image.topics[record.data["topicId"]] = topic


def remove(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """A topic is deleted, with its partitions and its settings."""
    pending.flush()
    image, reporter, identity = tracker.image, tracker.reporter, record.data["topicId"]
    topic = image.topics.pop(identity, None)
    if topic is None:
        what = "delete a topic that does not exist"
        if tracker.lacks_beginning:
            reporter.skipped(BEFORE)
        else:
            reporter.wrong(record.offset, record.time, None, what, None, True, topicId=identity)
        return
    image.names.pop(topic.name, None)
    for setting in image.configs.pop((TOPIC, topic.name), {}):
        image.changed.pop((TOPIC, topic.name, setting), None)
    for partition in topic.partitions.values():
        if image.partitions.pop(partition.key, None) is None:
            continue
        tracker.populated(record.offset, -1)
        reporter.close(partition, record.time)
        image.remove(partition)
        if partition.state is not None:
            reporter.change(partition, record.offset, record.time, partition.state, None, "delete the topic")


def create_partition(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """A partition is created; in a snapshot, it is taken as it is."""
    pending.flush()
    data, image, reporter = record.data, tracker.image, tracker.reporter
    topic, number = image.topics.get(data["topicId"]), data["partitionId"]
    name = None if topic is None else f"{topic.name}-{number}"
    automaton = tracker.automaton()
    if topic is None and tracker.lacks_beginning:
        reporter.skipped_of_partition(BEFORE)
        return
    if topic is None or record.partition_key in image.partitions:
        what = "a topic that does not exist" if topic is None else "a topic that has it"
        reporter.wrong(
            record.offset, record.time, name, f"create a partition of {what}", topicId=data["topicId"]
        )
        return
    state = partition_state(data)
    try:
        possible, where = image.settings(topic, number, len(state.replicas)), _directories(data)
        belief, binding = automaton.initial(state, possible, offline=_offline(tracker, data, where))
        wrong = {} if tracker.is_loading else automaton.wrong_creation(state)
        if not tracker.is_loading and not tracker.lacks_beginning:
            wrong = accepted.creation(tracker, state.replicas) | wrong
        if where and not tracker.is_loading and tracker.follows_directories:
            expected = directories.at_creation(tracker, data)
            wrong = wrong | ({} if where == expected else {"directories": (list(expected), list(where))})
    except CannotFollow as why:
        tracker.lost(f"{topic.name}-{number}", record.offset, record.time, str(why))
        return
    partition = Partition(topic, number, belief, binding, record.partition_key)
    partition.leader_epoch, partition.partition_epoch = state.leader_epoch, state.partition_epoch
    if where and tracker.follows_directories:
        image.put_in(partition, where, state.replicas)
    if wrong:
        reporter.wrong(record.offset, record.time, name, "create", wrong)
    image.partitions[partition.key] = topic.partitions[number] = partition
    image.place(partition, ())
    tracker.populated(record.offset, 1)
    reporter.conditions(partition, belief, record.time)
    if tracker.watch.tracks(partition.name):
        partition.state = state
        cause = "snapshot" if tracker.is_loading else "create"
        reporter.change(partition, record.offset, record.time, None, state, cause)


def _directories(data: Mapping[str, Any]) -> tuple[str, ...]:
    """The log directories of a PartitionRecord. Raises CannotFollow where they are not as many as the replicas."""
    found = tuple(data.get("directories") or ())
    if found and len(found) != len(data["replicas"]):
        raise CannotFollow(f"{len(data['replicas'])} replicas in {len(found)} log directories")
    return found


def _offline(tracker: Tracker, data: Mapping[str, Any], where: tuple[str, ...]) -> list[int]:
    """The replicas of a partition in a snapshot that are in directories which their brokers do not list."""
    if not tracker.follows_directories:
        return []
    pairs = zip(data["replicas"], where, strict=False)
    return [b for b, directory in pairs if not is_online(directory, tracker.image.listed(b) or ())]


def configure(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """A setting of a topic, or the default of all: min.insync.replicas and unclean.leader.election.enable."""
    data, image = record.data, tracker.image
    resource = (data["resourceType"], data["resourceName"])
    pending.before_settings()
    if data["name"] not in (MIN_ISR, UNCLEAN) or resource[0] not in (TOPIC, BROKER):
        tracker.reporter.skipped("CONFIG_RECORD of another setting")
        return
    if (defined := undefined_setting(data["name"], data.get("value"))) is not None:
        # It is kept, and stands for any value.
        wrong = {data["name"]: (defined, data["value"])}
        tracker.reporter.wrong(record.offset, record.time, None, f"write a {record.type}", wrong, True)
        summary = f"{record.type} with {data['name']} {data['value']}"
        tracker.doubt("undefined value", summary, record.offset, None, record.offset + 1)
    topics = list(image.names.values())
    if resource[0] == TOPIC:
        topics = [t for t in topics if t.name == resource[1]]
    concerned = [partition for topic in topics for partition in topic.partitions.values()]
    with settings.changing(tracker, record, concerned):
        _set(tracker, resource, data["name"], data.get("value"))
    if data["name"] == MIN_ISR:
        _change_min_isr(tracker, pending, record, resource, defined is None)
    if tracker.watch.on_setting is not None:
        tracker.watch.on_setting(resource[1] if resource[0] == TOPIC else None)
    for partition in concerned:
        now = image.settings_of(partition)._replace(of_min_isr=data["name"] == MIN_ISR)
        pending.add(partition, now, record.offset)


def _set(tracker: Tracker, resource: tuple[int, str], name: str, value: str | None) -> None:
    image = tracker.image
    configs = image.configs.setdefault(resource, {})
    if resource[0] == BROKER and resource[1]:
        image.nodes.add(resource[1])
    if value is None:
        configs.pop(name, None)
    else:
        configs[name] = value


def _change_min_isr(
    tracker: Tracker, pending: Pending, record: LogRecord, resource: tuple[int, str], is_defined: bool
) -> None:
    """A setting of min.insync.replicas: whether it is accepted, and that ELRs are cleared with it."""
    if tracker.is_loading:
        return
    kind, name = resource
    refused = accepted.min_isr(tracker, kind, name, record.data.get("value") is None) if is_defined else None
    if refused is not None:
        wrong = {MIN_ISR: (refused, f"of {'topic' if kind == TOPIC else 'broker'} {name or 'default'}")}
        tracker.reporter.wrong(record.offset, record.time, None, "change_min_isr", wrong, True)
    pending.min_isr(name if kind == TOPIC else "", record.offset)


def after_group(tracker: Tracker, pending: Pending, time: int) -> None:
    """All records of a decision are there: what it should have written, too, is looked for."""
    if tracker.is_loading:
        return
    uncleared = pending.uncleared()
    if uncleared and tracker.automaton().beliefs.has_rule("min_isr_change_clears_elr"):
        for topic, offset in uncleared:
            missing = {"CLEAR_ELR_RECORD": ("written", "not written")}
            tracker.reporter.wrong(offset, time, None, "change_min_isr", missing, True, topic=topic)
    if pending.sets_elr is not None and not tracker.lacks_beginning and (wrong := accepted.unsafe(tracker)):
        tracker.reporter.wrong(pending.sets_elr, time, None, "turn ELR on", wrong, True)


def feature(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """A feature's level; it can call for other rules, and for rules that no profile has."""
    pending.flush()
    name, new = record.data["name"], record.data["featureLevel"]
    if name == ELR_VERSION:
        pending.sets_elr = record.offset
    if not tracker.is_loading:
        wrong = accepted.level(tracker, name, tracker.image.features.get(name, 0), new)
        if wrong:
            tracker.reporter.wrong(record.offset, record.time, None, f"set {name}", wrong, True)
    tracker.image.features[name] = new
    tracker.has_new_features = True
    _newer(tracker, record)


def controller(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """A controller registers, and says which levels of features it supports: so new is the code that decides."""
    pending.flush()
    tracker.reporter.skipped(record.type)
    levels = {feature["name"]: feature["maxSupportedVersion"] for feature in record.data["features"]}
    tracker.image.controllers[record.data["controllerId"]] = levels
    tracker.has_new_features = True
    _newer(tracker, record)


def _newer(tracker: Tracker, record: LogRecord) -> None:
    if tracker.is_newer:
        # The first reason is enough.
        return
    why = newer_than_profiles(tracker.image.features, tracker.image.controllers)
    if why is not None:
        tracker.is_newer = True
        tracker.doubt("newer version", why, record.offset)


def begin_transaction(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """A transaction begins that never ends: its records are not followed. Of others nothing is handed on."""
    pending.flush()
    tracker.doubt("open transaction", "a metadata transaction that does not end", record.offset)


def end_transaction(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """A transaction ends, or is aborted, that has not begun."""
    pending.flush()
    tracker.reporter.skipped(record.type)
    if not tracker.lacks_beginning:
        what = "end a transaction that has not begun"
        tracker.reporter.wrong(record.offset, record.time, None, what, None, True)


def clear_elr(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """The ELR and the last known ELR of a topic's partitions become empty, of all with an empty name.

    Whoever reads the log merges a change into each partition that has one of the two.
    """
    name, names = record.data["topicName"], tracker.image.names
    topics = list(names.values()) if not name else [names[name]] if name in names else []
    concerned = []
    has_rule = tracker.automaton().beliefs.has_rule("min_isr_change_clears_elr")
    if not pending.cleared(name, record.offset) and has_rule:
        asked = {"min.insync.replicas": ("changed", "not changed")}
        tracker.reporter.wrong(record.offset, record.time, None, "change_min_isr", asked, True, topic=name)
    for topic in topics:
        for partition in topic.partitions.values():
            observed = partition.belief.observed
            if observed.elr or observed.last_known:
                pending.clear(
                    partition, _clearing(bool(observed.elr), bool(observed.last_known)), record.offset
                )
                concerned.append(partition.name)
    if not has_rule:
        tracker.doubt("no rule", f"no profile has a rule for a {record.type}", record.offset, concerned)


@cache
def _clearing(elr: bool, last_known: bool) -> Change:
    """The change that empties the one, or the other, or both."""
    emptied: dict[str, Any] = {"eligibleLeaderReplicas": []} if elr else {}
    return Change(encode_change(emptied | ({"lastKnownElr": []} if last_known else {})))


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


HANDLERS: dict[str, Callable[[Tracker, Pending, LogRecord], None]] = {
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
