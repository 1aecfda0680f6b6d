"""Records about brokers: registrations, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from highwater.model.language.interpreter import differences
from highwater.traces.metadata.beliefs.evidence import Flags, TopicSettings
from highwater.traces.metadata.image.partitions import Broker, Partition
from highwater.traces.metadata.pending import Pending
from highwater.traces.metadata.records import accepted, directories
from highwater.traces.metadata.tracker import BEFORE, LogRecord, Tracker
from highwater.traces.reports.observed import PartitionState
from highwater.traces.rules.decisions import decisions

LOG_DIRS_VERSION = 2
"""From this version on a BrokerRegistrationChangeRecord can be about log directories alone; one without flags and
without directories says nothing, and none is written: a broker that has none left has stopped."""
_WHOLE = TopicSettings((1,), (False,))


def register(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """A broker registers. The broker epoch is the offset of the first record of the decision, and grows (B8)."""
    data = record.data
    broker, epoch, incarnation = data["brokerId"], data["brokerEpoch"], data["incarnationId"]
    flags = Flags(True, data["fenced"], data.get("inControlledShutdown", False))
    listed = tuple(data.get("logDirs") or ())
    known = tracker.image.brokers.get(broker)
    supported = accepted.supported_by(data)
    if tracker.is_loading:
        stored = _store(tracker, broker, epoch, incarnation, flags)
        stored.directories, stored.supported = listed, supported
        return
    if lacking := accepted.registration(tracker, supported):
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
    pending.broker(now, record.offset, directories.registered(tracker, broker, now))


def _store(tracker: Tracker, broker: int, epoch: int, incarnation: str, flags: Flags) -> Broker:
    """A broker that is new, with the stand-in that its registration is followed by."""
    found = tracker.image.brokers[broker] = Broker(epoch, incarnation, flags)
    found.partition = Partition(None, 0, *tracker.automaton().initial(PartitionState((broker,), ()), _WHOLE))
    tracker.image.place(found.partition, ())
    return found


def _same_incarnation(tracker: Tracker, known: Broker, flags: Flags, record: LogRecord) -> None:
    """The incarnation that is registered registers again: what is stored then, the rules say (B8)."""
    rules = tracker.automaton().beliefs.rules[0]
    # Epochs are relative here: the registered one is 0, and a new one would be any that is greater.
    stored = decisions(1, rules).registration_after(
        registration=known.flags.to_plain(), same_incarnation=True, new_epoch=1
    )
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
    """The incarnation that is registered lists directories anew."""
    if {*known.directories} != {*listed}:
        known.directories = listed
        if tracker.follows_directories:
            now = tracker.image.broker_change("list_directories", record.data["brokerId"], known.flags)
            variant = directories.registered(tracker, now.broker, now)
            pending.broker(now, record.offset, variant)


def change(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """A registration's flags change, or its log directories."""
    fenced, shutdown = record.data.get("fenced", 0), record.data.get("inControlledShutdown", 0)
    listed = tuple(record.data.get("logDirs") or ())
    lists = bool(listed) or not (fenced or shutdown)
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
    """858.1. What a broker lists from now on is a part of what it had, and stands in a record of its own."""
    if not tracker.follows_directories:
        known.directories = listed or known.directories
        return
    is_part = {*listed} < {*known.directories}
    if beside_flags or not is_part:
        expected = "a record of its own" if beside_flags else f"fewer of {sorted(known.directories)}"
        _wrong(tracker, record, "lose_directory", {"logDirs": (expected, list(listed))})
    now, variant = directories.lost(tracker, record.data["brokerId"], known, listed)
    pending.broker(now, record.offset, variant)


def fence(tracker: Tracker, pending: Pending, record: LogRecord) -> None:
    """A broker is fenced, or unfenced, in the form that old versions write."""
    known = _known(tracker, record, record.data["id"], record.data["epoch"])
    if known is not None:
        fenced = 1 if record.type == "FENCE_BROKER_RECORD" else -1
        _flags(tracker, pending, record, record.data["id"], known, fenced, 0)


def _known(tracker: Tracker, record: LogRecord, broker: int, epoch: int) -> Broker | None:
    """The broker that a record is about, which has to name the epoch that is registered."""
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
    """An operator removes a broker; one that is not fenced is fenced first."""
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
    tracker.reporter.wrong(record.offset, record.time, None, what, differences, True, broker=broker)


HANDLERS: dict[str, Callable[[Tracker, Pending, LogRecord], None]] = {
    "REGISTER_BROKER_RECORD": register,
    "BROKER_REGISTRATION_CHANGE_RECORD": change,
    "FENCE_BROKER_RECORD": fence,
    "UNFENCE_BROKER_RECORD": fence,
    "UNREGISTER_BROKER_RECORD": unregister,
}
