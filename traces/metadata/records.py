"""The handlers of record types: each updates the image, and checks the record against the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

from highwater.model.language.interpreter import differences
from highwater.traces.kafka.values import encode_change
from highwater.traces.metadata.beliefs.belief_states import CannotFollow
from highwater.traces.metadata.beliefs.controller_stepper import MAX_BROKERS
from highwater.traces.metadata.beliefs.evidence import (
    BrokerChange,
    Change,
    Flags,
    TopicSettings,
)
from highwater.traces.metadata.image import BROKER, TOPIC, Broker, Partition, TopicImage, undefined_setting
from highwater.traces.metadata.pending import Pending, Variant
from highwater.traces.metadata.tracker import BEFORE, LogRecord, Tracker
from highwater.traces.reports.observed import BROKER as OF_BROKER
from highwater.traces.reports.observed import (
    CLUSTER,
    MIN_ISR,
    UNCLEAN,
    PartitionState,
    Resized,
    SettingChange,
    SettingInForce,
)
from highwater.traces.reports.observed import TOPIC as OF_TOPIC
from highwater.traces.rules.decisions import decisions, default_directory, is_online
from highwater.traces.rules.profiles import ELR_VERSION

Supported = Mapping[str, tuple[int, int]]
"""The least and the greatest level of each feature that a broker supports."""
Differences = dict[str, tuple[Any, Any]]


def supported_by(data: Mapping[str, Any]) -> Supported:
    """The supported levels of features in a record that registers a broker; empty if the record has none."""
    return {f["name"]: (f["minSupportedVersion"], f["maxSupportedVersion"]) for f in data["features"]}


def without(supported: Supported, levels: Iterable[tuple[str, int]]) -> list[str]:
    """The features whose level a broker does not support; empty if the broker lists no features."""
    return [
        name
        for name, level in levels
        if supported and not supported.get(name, (0, 0))[0] <= level <= supported.get(name, (0, 0))[1]
    ]


def creation(tracker: Tracker, replicas: Sequence[int]) -> Differences:
    """B8. The check that refuses the creation of a partition with these replicas; empty if none does."""
    order = list(dict.fromkeys(replicas))
    if not order or len(replicas) > MAX_BROKERS:
        return {}
    flags = tuple(tracker.image.flags(broker) for broker in order)
    refused_by = _refusal(tracker.rules.rules, tuple(order.index(broker) for broker in replicas), flags)
    return {} if refused_by is None else {"replicas": (refused_by, list(replicas))}


@lru_cache(maxsize=10_000)
def _refusal(rules: frozenset[str], replicas: tuple[int, ...], flags: tuple[Flags, ...]) -> str | None:
    """The check that refuses a partition with replicas on the brokers with these flags; None if none does."""
    size, nobody = len(replicas), Flags().to_plain()
    verdict = decisions(size, rules).new_partition_checks(
        replicas=list(replicas),
        registrations=[*(f.to_plain() for f in flags), *[nobody] * (size - len(flags))],
        factor=size,
    )
    return None if verdict.answer == "NONE" else str(verdict.refused_by[0])


_CHECKS_FEATURES = "finalized_features_check"


def registration(tracker: Tracker, supported: Supported) -> Differences:
    """584.1. The finalized features that a registering broker does not support; empty if no rule checks them."""
    levels = tracker.image.features
    lacking = without(supported, ((name, level) for name, level in levels.items() if level))
    if _CHECKS_FEATURES not in tracker.beliefs.rules:
        return {}
    return {f"support of {name}": (levels[name], _range(supported.get(name, (0, 0)))) for name in lacking}


def level(tracker: Tracker, name: str, now: int) -> Differences:
    """584.1. The brokers that do not support the new level of a feature; empty if no rule checks them."""
    brokers = tracker.image.brokers
    if _CHECKS_FEATURES not in tracker.beliefs.rules:
        return {}
    against = [broker for broker, known in brokers.items() if without(known.supported, [(name, now)])]
    return {f"broker {b}": (now, _range(brokers[b].supported.get(name, (0, 0)))) for b in sorted(against)}


def min_isr(tracker: Tracker, kind: int, resource: str, removes: bool) -> str | None:
    """K15. The check that refuses a valid new value of min.insync.replicas; None if no check refuses it.

    ``kind`` and ``resource`` identify what it is set for: a topic, a broker, or the cluster. ``removes``: the setting
    is removed.
    """
    of = "TOPIC" if kind == TOPIC else "BROKER" if resource else "CLUSTER"
    verdict = decisions(1, tracker.rules.rules).min_isr_checks(resource=of, removes=removes)
    return None if verdict.answer == "NONE" else str(verdict.refused_by[0])


def unsafe(tracker: Tracker) -> Differences:
    """K15. The changes of min.insync.replicas that eligible.leader.replicas.version requires, but the log lacks."""
    image = tracker.image
    now = image.features.get(ELR_VERSION, 0)
    of_cluster = MIN_ISR in image.configs.get((BROKER, ""), {})
    own = [
        name for (kind, name), found in image.configs.items() if kind == BROKER and name and MIN_ISR in found
    ]
    needed = decisions(1, tracker.rules.rules).elr_settings(
        level=now, cluster_has_min_isr=of_cluster, broker_has_min_isr=bool(own)
    )
    found: Differences = {}
    if needed["writes_cluster"]:
        found[f"{MIN_ISR} of the cluster"] = ("written", "not written")
    if needed["removes_broker"]:
        found |= {f"{MIN_ISR} of broker {name}": ("removed", "not removed") for name in own}
    return found


def _range(levels: tuple[int, int]) -> str:
    return f"{levels[0]} to {levels[1]}"


def at_creation(tracker: Tracker, data: Mapping[str, Any]) -> tuple[str, ...]:
    """The directories of a new partition's replicas: the default directories of their brokers."""
    return tuple(default_directory(tracker.image.listed(broker)) for broker in data["replicas"])


def registered(tracker: Tracker, broker: int, now: BrokerChange) -> Variant | None:
    """A function from a partition to the event of a registration; None if the event is the same for all partitions.

    The event depends on the log directory of the partition's replica.
    """
    listed = tracker.image.listed(broker) or ()
    named = tracker.image.named.get(broker, set())
    if not tracker.follows_directories or all(is_online(directory, listed) for directory in named):
        return None
    offline = tracker.image.broker_change(now.kind, broker, now.flags, True)

    def variant(partition: Partition) -> BrokerChange:
        directory = partition.directory(broker)
        return now if directory is None or is_online(directory, listed) else offline

    return variant


def lost(
    tracker: Tracker, broker: int, known: Broker, listed: tuple[str, ...]
) -> tuple[BrokerChange, Variant]:
    """The event of a broker that loses log directories, and a function from a partition to its event.

    If a broker loses all directories, the registration keeps them.
    """
    gone = frozenset(known.directories) - frozenset(listed)
    known.directories = listed or known.directories
    now = tracker.image.broker_change("lose_directory", broker, known.flags, bool(listed))

    def variant(partition: Partition) -> BrokerChange | None:
        return now if partition.directory(broker) in gone else None

    return now, variant


LOG_DIRS_VERSION = 2
"""The first version of BrokerRegistrationChangeRecord that can hold log directories alone. Kafka never writes a record
with neither flags nor directories: a broker whose last log directory fails stops. A record of cordoned directories,
which get no new replicas, has nothing else."""
_WHOLE = TopicSettings((1,), (False,))


def register(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """Handle a broker's registration.

    The broker epoch is the offset of the decision's first record, and exceeds the previous broker epoch (B8).
    """
    data = record.data
    broker, epoch, incarnation = data["brokerId"], data["brokerEpoch"], data["incarnationId"]
    flags = Flags(True, data["fenced"], data.get("inControlledShutdown", False))
    listed = tuple(data.get("logDirs") or ())
    known = tracker.image.brokers.get(broker)
    supported = supported_by(data)
    if tracker.is_loading:
        stored = _store(tracker, broker, epoch, incarnation, flags)
        stored.directories, stored.supported = listed, supported
        return
    if lacking := registration(tracker, supported):
        _wrong(tracker, record, "register", lacking)
    if known is not None and known.incarnation == incarnation:
        known.supported = supported
        _same_incarnation(tracker, known, flags, record)
        _lists_others(tracker, pending, record, known, listed)
        return
    first = pending.first_of_decision(record.offset)
    if not first <= epoch <= record.offset or (known is not None and epoch <= known.epoch):
        allowed = f"{record.offset}" if first == record.offset else f"{first} to {record.offset}"
        if known is not None:
            allowed += f", and above {known.epoch}"
        _wrong(tracker, record, "register", {"brokerEpoch": (allowed, epoch)})
    pending.registration(epoch, record.offset)
    if known is None:
        known = _store(tracker, broker, epoch, incarnation, Flags())
    known.epoch, known.incarnation, known.flags = epoch, incarnation, flags
    known.directories, known.supported = listed, supported
    now = tracker.image.broker_change("register", broker, flags)
    pending.broker(now, record.offset, registered(tracker, broker, now))


def _store(tracker: Tracker, broker: int, epoch: int, incarnation: str, flags: Flags) -> Broker:
    """Store a new broker and return it. A placeholder partition tracks the broker's registration in the model."""
    found = tracker.image.brokers[broker] = Broker(epoch, incarnation, flags)
    found.partition = Partition(None, 0, *tracker.automaton().initial(PartitionState((broker,), ()), _WHOLE))
    tracker.image.place(found.partition, ())
    return found


def _same_incarnation(tracker: Tracker, known: Broker, flags: Flags, record: LogRecord) -> None:
    """Handle another registration of the registered incarnation: the rules determine what is stored (B8)."""
    rules = tracker.automaton().beliefs.rules
    # Epochs are relative here: the registered one is 0, and any greater one is a new one.
    stored = decisions(1, rules).registration_again(registration=known.flags.to_plain(), new_epoch=1)
    expected, kept = known.epoch + stored["epoch"], Flags.of(stored)
    epoch = record.data["brokerEpoch"]
    wrong: dict[str, tuple[Any, Any]] = {}
    if epoch != expected:
        wrong["brokerEpoch"] = (expected, epoch)
    wrong |= differences(kept._asdict(), flags._asdict(), "registration")
    if wrong:
        _wrong(tracker, record, "register the same incarnation", wrong)
    known.epoch, known.flags = epoch, flags


def _lists_others(
    tracker: Tracker, pending: Pending, record: LogRecord, known: Broker, listed: tuple[str, ...]
) -> None:
    """Handle another list of log directories from the registered incarnation."""
    if {*known.directories} != {*listed}:
        known.directories = listed
        if tracker.follows_directories:
            now = tracker.image.broker_change("list_directories", record.data["brokerId"], known.flags)
            variant = registered(tracker, now.broker, now)
            pending.broker(now, record.offset, variant)


def change(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """Handle a change of a registration's flags, or of its log directories."""
    fenced, shutdown = record.data.get("fenced", 0), record.data.get("inControlledShutdown", 0)
    listed = tuple(record.data.get("logDirs") or ())
    lists = bool(listed) or not (fenced or shutdown or "cordonedLogDirs" in record.data)
    if lists and record.version < LOG_DIRS_VERSION:
        _wrong(tracker, record, "change a registration", {"record": ("none", "written")})
    elif lists and not tracker.follows_directories:
        tracker.reporter.skipped("BROKER_REGISTRATION_CHANGE_RECORD of log directories")
    known = _known(tracker, record, record.data["brokerId"], record.data["brokerEpoch"])
    if known is None:
        return
    _flags(tracker, pending, record, record.data["brokerId"], known, fenced, shutdown)
    if lists and record.version >= LOG_DIRS_VERSION:
        _lost_directories(tracker, pending, record, known, listed, bool(fenced or shutdown))


def _lost_directories(
    tracker: Tracker,
    pending: Pending,
    record: LogRecord,
    known: Broker,
    listed: tuple[str, ...],
    beside_flags: bool,
) -> None:
    """858.1. Handle the loss of directories: a record without flags lists some of the broker's former directories.

    ``beside_flags``: the record also has flags; this is reported as wrong.
    """
    if not tracker.follows_directories:
        known.directories = listed or known.directories
        return
    is_part = {*listed} < {*known.directories}
    if beside_flags or not is_part:
        expected = "a record of its own" if beside_flags else f"fewer of {sorted(known.directories)}"
        _wrong(tracker, record, "lose_directory", {"logDirs": (expected, list(listed))})
    now, variant = lost(tracker, record.data["brokerId"], known, listed)
    pending.broker(now, record.offset, variant)


def fence(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """Handle a record of old versions that fences or unfences a broker."""
    known = _known(tracker, record, record.data["id"], record.data["epoch"])
    if known is not None:
        fenced = 1 if record.type == "FENCE_BROKER_RECORD" else -1
        _flags(tracker, pending, record, record.data["id"], known, fenced, 0)


def _known(tracker: Tracker, record: LogRecord, broker: int, epoch: int) -> Broker | None:
    """The broker that a record names; None if it is unknown. A broker epoch other than the registered is reported."""
    known = tracker.image.brokers.get(broker)
    if known is None and tracker.lacks_beginning:
        tracker.reporter.skipped(BEFORE)
        return None
    if known is None or known.epoch != epoch:
        registered = "not registered" if known is None else known.epoch
        _wrong(tracker, record, "change a registration", {"brokerEpoch": (registered, epoch)})
    return known


def _flags(
    tracker: Tracker,
    pending: Pending,
    record: LogRecord,
    broker: int,
    known: Broker,
    fenced: int,
    shutdown: int,
) -> None:
    if shutdown:
        known.flags = known.flags._replace(in_controlled_shutdown=shutdown > 0)
        pending.broker(
            tracker.image.broker_change("start_controlled_shutdown", broker, known.flags), record.offset
        )
    if fenced:
        again, known.flags = known.flags.fenced, known.flags._replace(fenced=fenced > 0)
        kind = ("fence_again" if again else "fence") if fenced > 0 else "unfence"
        pending.broker(tracker.image.broker_change(kind, broker, known.flags), record.offset)


def unregister(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """Handle the removal of a broker by an operator.

    If the rules have no action for it, a broker that is not fenced counts as fenced first.
    """
    broker = record.data["brokerId"]
    known = _known(tracker, record, broker, record.data["brokerEpoch"])
    if known is None:
        return
    if not known.flags.fenced and not tracker.automaton().beliefs.has_action("unregister"):
        pending.broker(
            tracker.image.broker_change("fence", broker, known.flags._replace(fenced=True)), record.offset
        )
    pending.broker(tracker.image.broker_change("unregister", broker, Flags()), record.offset)
    pending.flush()
    del tracker.image.brokers[broker]
    if known.partition is not None:
        tracker.image.remove(known.partition)


def _wrong(tracker: Tracker, record: LogRecord, what: str, differences: dict[str, tuple[Any, Any]]) -> None:
    broker = record.data.get("brokerId", record.data.get("id"))
    tracker.reporter.wrong(record.offset, record.time, None, what, differences, broker=broker)


BROKER_HANDLERS: dict[str, Callable[[Tracker, Pending, LogRecord], None]] = {
    "REGISTER_BROKER_RECORD": register,
    "BROKER_REGISTRATION_CHANGE_RECORD": change,
    "FENCE_BROKER_RECORD": fence,
    "UNFENCE_BROKER_RECORD": fence,
    "UNREGISTER_BROKER_RECORD": unregister,
}


@contextmanager
def changing(tracker: Tracker, record: LogRecord, concerned: Sequence[Partition]) -> Iterator[None]:
    """Context manager: its body applies a setting's record, which changes the setting of the partitions ``concerned``.

    After the body, the change is stored, and reported to the watch.
    """
    before = {p: _min_isr(tracker, p) for p in concerned} if record.data["name"] == MIN_ISR else {}
    change = _change(tracker, record)
    yield
    tracker.image.changed[record.data["resourceType"], change.resource, change.name] = change
    for partition in concerned:
        if partition in before:
            _resize(partition, change, before[partition], _min_isr(tracker, partition))
        if tracker.watch.on_setting:
            in_force = tracker.image.effective(partition, len(partition.belief.observed.replicas))
            tracker.reporter.setting(partition, SettingInForce(change, *in_force))


def _min_isr(tracker: Tracker, partition: Partition) -> int | None:
    return tracker.image.effective(partition, len(partition.belief.observed.replicas))[0]


def _change(tracker: Tracker, record: LogRecord) -> SettingChange:
    kind, resource, name = record.data["resourceType"], record.data["resourceName"], record.data["name"]
    configs = tracker.image.configs
    level = OF_TOPIC if kind == TOPIC else OF_BROKER if resource else CLUSTER
    before = configs.get((kind, resource), {}).get(name)
    return SettingChange(record.offset, record.time, name, level, resource, before, record.data.get("value"))


def _resize(partition: Partition, change: SettingChange, before: int | None, after: int | None) -> None:
    """Note a change of min ISR if the partition was under min ISR before it."""
    if before is None or after is None or before == after:
        return
    if len(partition.belief.observed.isr) < before:
        partition.resized = Resized(change, before, after)


def create(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """Handle the creation of a topic."""
    pending.flush()
    topic = TopicImage(record.data["name"])
    if topic.name in tracker.image.names:
        tracker.reporter.wrong(record.offset, record.time, topic.name, "create a topic that exists")
    tracker.image.names[topic.name] = tracker.image.topics[record.data["topicId"]] = topic


def remove(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """Handle the deletion of a topic, with its partitions and its settings."""
    pending.flush()
    image, reporter, identity = tracker.image, tracker.reporter, record.data["topicId"]
    topic = image.topics.pop(identity, None)
    if topic is None:
        what = "delete a topic that does not exist"
        if tracker.lacks_beginning:
            reporter.skipped(BEFORE)
        else:
            reporter.wrong(record.offset, record.time, None, what, topicId=identity)
        return
    image.names.pop(topic.name, None)
    for setting in image.configs.pop((TOPIC, topic.name), {}):
        image.changed.pop((TOPIC, topic.name, setting), None)
    for partition in topic.partitions.values():
        if image.partitions.pop(partition.key, None) is None:
            continue
        reporter.close(partition, record.time)
        image.remove(partition)
        reporter.deleted(partition, record.offset, record.time)


def create_partition(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """Handle the creation of a partition. In a snapshot, or in a migration from ZooKeeper, its state is not checked."""
    pending.flush()
    data, image, reporter = record.data, tracker.image, tracker.reporter
    topic, number = image.topics.get(data["topicId"]), data["partitionId"]
    name = None if topic is None else f"{topic.name}-{number}"
    automaton = tracker.automaton()
    if topic is None and tracker.lacks_beginning:
        reporter.skipped(BEFORE)
        return
    if topic is None or record.partition_key in image.partitions:
        what = "a topic that does not exist" if topic is None else "a topic that has it"
        reporter.wrong(
            record.offset, record.time, name, f"create a partition of {what}", topicId=data["topicId"]
        )
        return
    state, is_given = partition_state(data), tracker.is_loading or tracker.is_migrating
    try:
        possible, where = image.settings(topic, number, len(state.replicas)), _directories(data)
        belief, binding = automaton.initial(state, possible, offline=_offline(tracker, data, where))
        wrong = {} if is_given else automaton.wrong_creation(state)
        if not is_given and not tracker.lacks_beginning:
            wrong = creation(tracker, state.replicas) | wrong
        if where and not is_given and tracker.follows_directories:
            expected = at_creation(tracker, data)
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
    tracker.report.partitions = max(tracker.report.partitions, len(image.partitions))
    reporter.conditions(partition, belief, record.time)
    reporter.created(partition, record.offset, record.time, state, "snapshot" if is_given else "create")


def _directories(data: Mapping[str, Any]) -> tuple[str, ...]:
    """The log directories in a PartitionRecord. Raises CannotFollow if their number differs from the replicas'."""
    found = tuple(data.get("directories") or ())
    if found and len(found) != len(data["replicas"]):
        raise CannotFollow(f"{len(data['replicas'])} replicas in {len(found)} log directories")
    return found


def _offline(tracker: Tracker, data: Mapping[str, Any], where: tuple[str, ...]) -> list[int]:
    """The replicas of a PartitionRecord in directories that their brokers do not list."""
    if not tracker.follows_directories:
        return []
    pairs = zip(data["replicas"], where, strict=False)
    return [b for b, directory in pairs if not is_online(directory, tracker.image.listed(b) or ())]


def configure(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """Handle a setting of a topic, or the cluster's: min.insync.replicas or unclean.leader.election.enable."""
    data, image = record.data, tracker.image
    resource = (data["resourceType"], data["resourceName"])
    pending.before_settings()
    if data["name"] not in (MIN_ISR, UNCLEAN) or resource[0] not in (TOPIC, BROKER):
        tracker.reporter.skipped("CONFIG_RECORD of another setting")
        return
    if (defined := undefined_setting(data["name"], data.get("value"))) is not None:
        # The undefined value is kept, and stands for any value.
        wrong = {data["name"]: (defined, data["value"])}
        tracker.reporter.wrong(record.offset, record.time, None, f"write a {record.type}", wrong)
        summary = f"{record.type} with {data['name']} {data['value']}"
        tracker.doubt("undefined value", summary, record.offset, None, record.offset + 1)
    topics = list(image.names.values())
    if resource[0] == TOPIC:
        topics = [t for t in topics if t.name == resource[1]]
    concerned = [partition for topic in topics for partition in topic.partitions.values()]
    with changing(tracker, record, concerned):
        _set(tracker, resource, data["name"], data.get("value"))
    if data["name"] == MIN_ISR:
        _change_min_isr(tracker, pending, record, resource, defined is None)
    for partition in concerned:
        now = image.settings_of(partition)._replace(of_min_isr=data["name"] == MIN_ISR)
        pending.settings(partition, now, record.offset)


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
    """Check that a setting of min.insync.replicas is accepted, and expect a record that clears ELRs."""
    if tracker.is_loading:
        return
    kind, name = resource
    refused = min_isr(tracker, kind, name, record.data.get("value") is None) if is_defined else None
    if refused is not None:
        wrong = {MIN_ISR: (refused, f"of {'topic' if kind == TOPIC else 'broker'} {name or 'default'}")}
        tracker.reporter.wrong(record.offset, record.time, None, "change_min_isr", wrong)
    pending.min_isr(name if kind == TOPIC else "", record.offset)


def after_group(tracker: Tracker, pending: Pending, time: int) -> None:
    """Check at the end of a decision that it wrote all its records."""
    if tracker.is_loading:
        return
    if tracker.image.partitions:
        tracker.check_features()
    uncleared = pending.uncleared()
    if uncleared and "min_isr_change_clears_elr" in tracker.automaton().beliefs.rules:
        for topic, offset in uncleared:
            missing = {"CLEAR_ELR_RECORD": ("written", "not written")}
            tracker.reporter.wrong(offset, time, None, "change_min_isr", missing, topic=topic)
    if pending.sets_elr is not None and not tracker.lacks_beginning and (wrong := unsafe(tracker)):
        tracker.reporter.wrong(pending.sets_elr, time, None, "turn ELR on", wrong)


def feature(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """Handle a new level of a feature, which can select other rules, or be newer than every profile."""
    pending.flush()
    name, new = record.data["name"], record.data["featureLevel"]
    if name == ELR_VERSION:
        pending.sets_elr = record.offset
    if not tracker.is_loading:
        wrong = level(tracker, name, new)
        if wrong:
            tracker.reporter.wrong(record.offset, record.time, None, f"set {name}", wrong)
    tracker.image.features[name] = new
    tracker.renew_rules(record.offset)


_MIGRATING = (1, 2)
"""The values of ``zkMigrationState`` while the controller copies ZooKeeper's metadata, or may do so."""


def migration(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """Handle a new state of the migration from ZooKeeper, in which partitions begin in any state."""
    pending.flush()
    tracker.reporter.skipped(record.type)
    was, tracker.is_migrating = tracker.is_migrating, record.data["zkMigrationState"] in _MIGRATING
    if tracker.is_migrating and not was:
        summary = (
            "the cluster migrated from ZooKeeper; replay does not check the states that the migration wrote"
        )
        tracker.doubt("migration", summary, record.offset, ())


def controller(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """Handle a controller's registration. The levels of features that it supports show how new its code is."""
    pending.flush()
    tracker.reporter.skipped(record.type)
    levels = {feature["name"]: feature["maxSupportedVersion"] for feature in record.data["features"]}
    tracker.image.controllers[record.data["controllerId"]] = levels
    tracker.renew_rules(record.offset)


def remove_controller(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """Handle the removal of a controller."""
    pending.flush()
    tracker.reporter.skipped(record.type)
    tracker.image.controllers.pop(record.data["controllerId"], None)
    tracker.renew_rules(record.offset)


def begin_transaction(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """Handle the BEGIN of a transaction that never ends: its records are not followed.

    The BEGIN of a transaction that ends has no handler.
    """
    pending.flush()
    tracker.doubt("open transaction", "a metadata transaction that does not end", record.offset)


def end_transaction(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """Handle an END or ABORT without the BEGIN of its transaction."""
    pending.flush()
    tracker.reporter.skipped(record.type)
    if not tracker.lacks_beginning:
        what = "end a transaction that has not begun"
        tracker.reporter.wrong(record.offset, record.time, None, what)


def clear_elr(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """Handle a record that empties the ELR and the last known ELR of a topic's partitions.

    An empty name stands for all topics. The record counts as a change of each partition that has an ELR or a last
    known ELR.
    """
    name, names = record.data["topicName"], tracker.image.names
    topics = list(names.values()) if not name else [names[name]] if name in names else []
    concerned = []
    has_rule = "min_isr_change_clears_elr" in tracker.automaton().beliefs.rules
    if not pending.cleared(name, record.offset) and has_rule:
        differences = {"min.insync.replicas": ("changed", "not changed")}
        tracker.reporter.wrong(record.offset, record.time, None, "change_min_isr", differences, topic=name)
    for topic in topics:
        for partition in topic.partitions.values():
            observed = partition.belief.observed
            if observed.elr or observed.last_known_elr:
                pending.clear(
                    partition, _clearing(bool(observed.elr), bool(observed.last_known_elr)), record.offset
                )
                concerned.append(partition.name)
    if not has_rule:
        tracker.doubt("no rule", f"no profile has a rule for a {record.type}", record.offset, concerned)


@cache
def _clearing(elr: bool, last_known: bool) -> Change:
    """The change that empties the ELR, the last known ELR, or both."""
    emptied: dict[str, Any] = {"eligibleLeaderReplicas": []} if elr else {}
    return Change(encode_change(emptied | ({"lastKnownElr": []} if last_known else {})))


def partition_state(data: Mapping[str, Any]) -> PartitionState:
    """The partition in a PartitionRecord."""
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


TOPIC_HANDLERS: dict[str, Callable[[Tracker, Pending, LogRecord], None]] = {
    "TOPIC_RECORD": create,
    "REMOVE_TOPIC_RECORD": remove,
    "PARTITION_RECORD": create_partition,
    "CONFIG_RECORD": configure,
    "FEATURE_LEVEL_RECORD": feature,
    "REGISTER_CONTROLLER_RECORD": controller,
    "UNREGISTER_CONTROLLER_RECORD": remove_controller,
    "CLEAR_ELR_RECORD": clear_elr,
    "ZK_MIGRATION_STATE_RECORD": migration,
    "BEGIN_TRANSACTION_RECORD": begin_transaction,
    "END_TRANSACTION_RECORD": end_transaction,
    "ABORT_TRANSACTION_RECORD": end_transaction,
}
