"""Records about brokers: registrations, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from highwater.model.language.interpreter import differences
from highwater.traces.decisions import decisions
from highwater.traces.metadata import accepted
from highwater.traces.metadata.beliefs import Flags
from highwater.traces.metadata.image import Broker, Partition
from highwater.traces.metadata.pending import Pending
from highwater.traces.metadata.steps import Settings
from highwater.traces.metadata.topics import BEFORE
from highwater.traces.observed import PartitionState

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
    known = follower.image.brokers.get(broker)
    supported = accepted.supported_by(data)
    if follower.is_loading:
        _store(follower, broker, epoch, incarnation, flags).supported = supported
        return
    if lacking := accepted.registration(follower, supported):
        _wrong(follower, found, "register", lacking)
    if known is not None and known.incarnation == incarnation:
        known.supported = supported
        _same_incarnation(follower, known, flags, found)
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
    known.epoch, known.incarnation, known.flags, known.supported = epoch, incarnation, flags, supported
    pending.broker(follower.event("register", broker, flags), found.offset)


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


def change(follower: Follower, pending: Pending, found: Found) -> None:
    """A registration's flags change."""
    fenced, shutdown = found.data.get("fenced", 0), found.data.get("inControlledShutdown", 0)
    if not fenced and not shutdown:
        if found.version < LOG_DIRS_VERSION or not found.data.get("logDirs"):
            _wrong(follower, found, "change a registration", {"record": ("none", "written")})
        else:
            follower.telling.skipped("BROKER_REGISTRATION_CHANGE_RECORD of log directories")
    known = _known(follower, found, found.data["brokerId"], found.data["brokerEpoch"])
    if known is not None:
        _flags(follower, pending, found, found.data["brokerId"], known, fenced, shutdown)


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
