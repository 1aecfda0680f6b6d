"""Records about brokers: registrations, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from highwater.model.language.interpreter import differences
from highwater.traces.metadata.beliefs.observations import Flags
from highwater.traces.metadata.beliefs.transitions import Settings
from highwater.traces.metadata.image import Broker, Partition
from highwater.traces.metadata.pending import Pending
from highwater.traces.metadata.records import accepted, directories
from highwater.traces.metadata.records.topics import BEFORE
from highwater.traces.reports.observed import PartitionState
from highwater.traces.rules.decisions import decisions

if TYPE_CHECKING:
    from highwater.traces.metadata.follow import Follower, Found

LOG_DIRS_VERSION = 2
"""From this version on a BrokerRegistrationChangeRecord can be about log directories alone; one without flags and
without directories says nothing, and none is written: a broker that has none left has stopped."""
_WHOLE = Settings((1,), (False,))


def register(follower: Follower, pending: Pending, found: Found) -> None:
    """A broker registers. The broker epoch is the offset of the first record of the decision, and grows (B8)."""
    data = found.data
    broker, epoch, incarnation = data["brokerId"], data["brokerEpoch"], data["incarnationId"]
    flags = Flags(True, data["fenced"], data.get("inControlledShutdown", False))
    listed = tuple(data.get("logDirs") or ())
    known = follower.image.brokers.get(broker)
    supported = accepted.supported_by(data)
    if follower.is_loading:
        stored = _store(follower, broker, epoch, incarnation, flags)
        stored.directories, stored.supported = listed, supported
        return
    if lacking := accepted.registration(follower, supported):
        _wrong(follower, found, "register", lacking)
    if known is not None and known.incarnation == incarnation:
        known.supported = supported
        _same_incarnation(follower, known, flags, found)
        _lists_others(follower, pending, found, known, listed)
        return
    first = pending.first_of_decision(found.offset)
    if not first <= epoch <= found.offset or (known is not None and epoch <= known.epoch):
        said = f"{found.offset}" if first == found.offset else f"{first} to {found.offset}"
        if known is not None:
            said += f", and above {known.epoch}"
        _wrong(follower, found, "register", {"brokerEpoch": (said, epoch)})
    pending.registration(epoch, found.offset)
    if known is None:
        known = _store(follower, broker, epoch, incarnation, Flags())
    known.epoch, known.incarnation, known.flags = epoch, incarnation, flags
    known.directories, known.supported = listed, supported
    event = follower.event("register", broker, flags)
    pending.broker(event, found.offset, directories.registered(follower, broker, event))


def _store(follower: Follower, broker: int, epoch: int, incarnation: str, flags: Flags) -> Broker:
    """A broker that is new, with the stand-in that its registration is followed by."""
    found = follower.image.brokers[broker] = Broker(epoch, incarnation, flags)
    found.partition = Partition(
        None, 0, *follower.situations().initial(PartitionState((broker,), ()), _WHOLE)
    )
    follower.image.place(found.partition, ())
    return found


def _same_incarnation(follower: Follower, known: Broker, flags: Flags, found: Found) -> None:
    """The incarnation that is registered registers again: what is stored then, the rules say (B8)."""
    rules = follower.situations().beliefs.rules[0]
    # Epochs are relative here: the registered one is 0, and a new one would be any that is greater.
    stored = decisions(1, rules).registration_after(
        registration=known.flags.to_plain(), same_incarnation=True, new_epoch=1
    )
    expected, kept = known.epoch + stored["epoch"], Flags.of(stored)
    epoch = found.data["brokerEpoch"]
    wrong: dict[str, tuple[Any, Any]] = {}
    if epoch != expected:
        wrong["brokerEpoch"] = (expected, epoch)
    wrong |= differences(kept._asdict(), flags._asdict(), "registration")
    if wrong:
        _wrong(follower, found, "register the same incarnation", wrong)
    known.epoch, known.flags = epoch, flags


def _lists_others(
    follower: Follower, pending: Pending, found: Found, known: Broker, listed: tuple[str, ...]
) -> None:
    """The incarnation that is registered lists directories anew."""
    if {*known.directories} != {*listed}:
        known.directories = listed
        if follower.follows_directories:
            event = follower.event("list_directories", found.data["brokerId"], known.flags)
            variant = directories.registered(follower, event.broker, event)
            pending.broker(event, found.offset, variant)


def change(follower: Follower, pending: Pending, found: Found) -> None:
    """A registration's flags change, or its log directories."""
    fenced, shutdown = found.data.get("fenced", 0), found.data.get("inControlledShutdown", 0)
    listed = tuple(found.data.get("logDirs") or ())
    lists = bool(listed) or not (fenced or shutdown)
    if lists and found.version < LOG_DIRS_VERSION:
        _wrong(follower, found, "change a registration", {"record": ("none", "written")})
    elif lists and not follower.follows_directories:
        follower.telling.skipped("BROKER_REGISTRATION_CHANGE_RECORD of log directories")
    known = _known(follower, found, found.data["brokerId"], found.data["brokerEpoch"])
    if known is None:
        return
    _flags(follower, pending, found, found.data["brokerId"], known, fenced, shutdown)
    if lists and found.version >= LOG_DIRS_VERSION:
        _lost_directories(follower, pending, found, known, listed, bool(fenced or shutdown))


def _lost_directories(
    follower: Follower,
    pending: Pending,
    found: Found,
    known: Broker,
    listed: tuple[str, ...],
    beside_flags: bool,
) -> None:
    """858.1. What a broker lists from now on is a part of what it had, and is said in a record of its own."""
    if not follower.follows_directories:
        known.directories = listed or known.directories
        return
    is_part = {*listed} < {*known.directories}
    if beside_flags or not is_part:
        expected = "a record of its own" if beside_flags else f"fewer of {sorted(known.directories)}"
        _wrong(follower, found, "lose_directory", {"logDirs": (expected, list(listed))})
    event, variant = directories.lost(follower, found.data["brokerId"], known, listed)
    pending.broker(event, found.offset, variant)


def fence(follower: Follower, pending: Pending, found: Found) -> None:
    """A broker is fenced, or unfenced, in the form that old versions write."""
    known = _known(follower, found, found.data["id"], found.data["epoch"])
    if known is not None:
        fenced = 1 if found.type == "FENCE_BROKER_RECORD" else -1
        _flags(follower, pending, found, found.data["id"], known, fenced, 0)


def _known(follower: Follower, found: Found, broker: int, epoch: int) -> Broker | None:
    """The broker that a record is about, which has to name the epoch that is registered."""
    known = follower.image.brokers.get(broker)
    if known is None and follower.lacks_beginning:
        follower.telling.skipped(BEFORE)
        return None
    if known is None or known.epoch != epoch:
        registered = "not registered" if known is None else known.epoch
        _wrong(follower, found, "change a registration", {"brokerEpoch": (registered, epoch)})
    return known


def _flags(
    follower: Follower, pending: Pending, found: Found, broker: int, known: Broker, fenced: int, shutdown: int
) -> None:
    if shutdown:
        known.flags = known.flags._replace(in_controlled_shutdown=shutdown > 0)
        pending.broker(follower.event("start_controlled_shutdown", broker, known.flags), found.offset)
    if fenced:
        again, known.flags = known.flags.fenced, known.flags._replace(fenced=fenced > 0)
        kind = ("fence_again" if again else "fence") if fenced > 0 else "unfence"
        pending.broker(follower.event(kind, broker, known.flags), found.offset)


def unregister(follower: Follower, pending: Pending, found: Found) -> None:
    """An operator removes a broker; one that is not fenced is fenced first."""
    broker = found.data["brokerId"]
    known = _known(follower, found, broker, found.data["brokerEpoch"])
    if known is None:
        return
    if not known.flags.fenced and not follower.situations().beliefs.has_action("unregister"):
        pending.broker(follower.event("fence", broker, known.flags._replace(fenced=True)), found.offset)
    pending.broker(follower.event("unregister", broker, Flags()), found.offset)
    pending.flush()
    del follower.image.brokers[broker]
    if known.partition is not None:
        follower.image.remove(known.partition)


def _wrong(follower: Follower, found: Found, what: str, differences: dict[str, tuple[Any, Any]]) -> None:
    broker = found.data.get("brokerId", found.data.get("id"))
    follower.telling.wrong(found.offset, found.time, None, what, differences, True, broker=broker)


HANDLERS: dict[str, Callable[[Follower, Pending, Found], None]] = {
    "REGISTER_BROKER_RECORD": register,
    "BROKER_REGISTRATION_CHANGE_RECORD": change,
    "FENCE_BROKER_RECORD": fence,
    "UNFENCE_BROKER_RECORD": fence,
    "UNREGISTER_BROKER_RECORD": unregister,
}

__all__ = ["HANDLERS", "change", "fence", "register", "unregister"]
