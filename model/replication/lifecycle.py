"""Brokers start, crash and shut down: the disk survives, memory does not (966.12).

A record in a broker's log is in the page cache until the broker flushes it. If the process dies, the log stays whole.
If the machine dies, any part of the unflushed suffix can be lost. Kafka acknowledges records before it flushes them,
and relies on copies. So the rules here decide when the controller must assume that a broker has lost records.
"""

from __future__ import annotations

from highwater.model.language import (
    Number,
    Option,
    State,
    StructValue,
    action,
    as_bool,
    least,
    one_of,
    require,
    spend,
    where,
)
from highwater.model.replication.clients import end_waiting
from highwater.model.replication.cluster import Cluster, Status
from highwater.model.replication.control import electing, merged, write_record
from highwater.model.replication.controller import registrations
from highwater.model.replication.controller.partition_change import is_empty_record
from highwater.model.replication.high_watermark import advance_hwm
from highwater.model.replication.metadata import news_at_start, with_metadata


@action("966.12", says="broker {b} crashes; its page cache is kept", b="broker")
def crash_broker(m: Cluster, s: State, b: Number) -> None:
    """A broker's process is killed; its log stays whole.

    Without a CleanShutdownFile the controller must assume that the broker lost records.
    """
    spend(s, "crashes")
    crash(m, s, b, s.brokers[b])


@action("966.12", says="broker {b} crashes and keeps only {keep} records", b="broker", keep="kept")
def crash_and_lose(m: Cluster, s: State, b: Number, keep: int) -> None:
    """A broker's machine fails, and an unflushed suffix of its log is lost.

    The first ``keep`` records remain. Lost records can be committed ones: these survive on other replicas while fewer
    than min ISR brokers lose data.
    """
    spend(s, "lossy_crashes")
    broker = s.brokers[b]
    require("records are lost", broker.log.length > keep)
    require("flushed records are kept", broker.flushed <= keep)
    crash(m, s, b, broker.replace(log=broker.log.truncate(keep), hwm=least(broker.hwm, keep)))


@action("966.12", says="broker {b} crashes and loses its disk", b="broker")
def lose_disk(m: Cluster, s: State, b: Number) -> None:
    """A broker crashes, and an empty disk replaces its own.

    The broker keeps its id. Flushed records are lost as well.
    """
    spend(s, "disk_losses")
    broker = s.brokers[b]
    crash(m, s, b, broker.replace(log=broker.log.truncate(0), hwm=0, flushed=0))


@action("966.12", says="broker {b} starts and registers", b="broker")
def start_broker(m: Cluster, s: State, b: Number) -> None:
    """A broker starts, registers, and replays the metadata log up to its registration.

    Precondition: the broker is down, and its previous registration is fenced.
    966.12: after a clean stop the broker sends its PreviousBrokerEpoch. The registration is clean if that epoch is
    still the registered one: no other incarnation has then registered since the flush.
    966.5: for an unclean registration the controller removes the broker from ISR and ELR before it writes the
    registration.
    A broker that may lack committed records is therefore never electable under its new epoch.
    """
    t, broker, registration = m.t, s.brokers[b], s.registrations[b]
    record = record_of_registration(m, s, b)
    if m.on("registration_bumps_leader_epoch"):
        led = Option(Option(m.broker)).some(s.partition.leader)
        hosts = s.partition.replicas.has(b) & record.leader.is_none
        record = record.replace(leader=where(hosts, led, record.leader))
    same_incarnation = as_bool(False)
    partition = merged(m, s, record)
    registered = registrations.registration_after(t, registration, same_incarnation, registration.epoch + 1)
    m.store(s, partition)
    s.next.registrations[b] = registered
    latest = m.view_of(partition, s.registrations.set(b, registered), s.min_insync_replicas)
    started = broker.replace(status="RUNNING", epoch=registered.epoch, hwm=hwm_at_start(m, broker))
    advance_hwm(m, s, b, with_metadata(m, b, started, news_at_start(b, latest)))


def hwm_at_start(m: Cluster, broker: StructValue) -> Number:
    """B4. The HWM of a starting broker: its checkpoint, at most its LEO.

    A clean stop writes the checkpoint. After a crash the checkpoint can be older than the last HWM
    (``old_checkpoints``).
    """
    known = least(broker.hwm, broker.log.length)
    if not m.p.old_checkpoints:
        return known
    checkpoint = m.offset.lift(one_of("checkpoint", range(m.p.records + 1)))
    is_old = (broker.status == "CRASHED") & (checkpoint < known)
    require("such a checkpoint can be there", is_old | (checkpoint == known))
    return checkpoint


def record_of_registration(m: Cluster, s: State, b: Number) -> StructValue:
    """966.5, 966.12. The partition change that the registration of broker ``b`` causes.

    Preconditions: the broker is down, and its previous registration is fenced.
    """
    broker, registration = s.brokers[b], s.registrations[b]
    require("the broker is down", ~m.is_up(broker))
    require("its former registration is fenced", registration.fenced, rule="fenced_before_registration")
    previous_epoch = where(broker.status == "STOPPED", broker.epoch, -1)
    return electing(m, m.context(s), registrations.register, b, previous_epoch).record


@action(
    "K14",
    rule="registration_may_be_split",
    says="broker {b} starts, and the controller fails before its registration is written",
    b="broker",
)
def start_broker_in_part(m: Cluster, s: State, b: Number) -> None:
    """K14. A broker registers; the controller writes the partition change and fails before it writes the registration.

    The broker remains down and registers again.
    """
    spend(s, "failovers")
    record = record_of_registration(m, s, b)
    require("something changes", ~is_empty_record(m.t, record))
    write_record(m, s, record)


@action("841.5", says="broker {b} is to shut down, and asks the controller", b="broker")
def ask_for_shutdown(m: Cluster, s: State, b: Number) -> None:
    """A broker starts its controlled shutdown before the controller knows (841.5)."""
    require("shutdown is requested from the controller", m.p.shutdown_requests)
    spend(s, "controlled_shutdowns")
    require("the broker runs", s.brokers[b].status == "RUNNING")
    s.next.brokers[b].status = "SHUTTING_DOWN"


@action("841.5", says="broker {b} begins a controlled shutdown", b="broker")
def begin_shutdown(m: Cluster, s: State, b: Number) -> None:
    """A broker requests a controlled shutdown, and the controller moves its leaderships (841.5).

    Preconditions: the broker runs, is unfenced, and its broker epoch is registered.
    841.2: from now on the broker is ineligible for the ISR, as if fenced. Otherwise it could rejoin the ISR and be
    elected just before it stops. The broker goes on replaying metadata.
    """
    if m.p.shutdown_requests:
        require("the broker has requested its shutdown", s.brokers[b].status == "SHUTTING_DOWN")
        require("the controller has not granted it yet", ~s.registrations[b].in_controlled_shutdown)
    else:
        spend(s, "controlled_shutdowns")
        require("the broker runs", s.brokers[b].status == "RUNNING")
    require("the broker is not fenced", ~s.registrations[b].fenced)
    require("the broker's epoch is the registered one", s.brokers[b].epoch == s.registrations[b].epoch)
    write_record(m, s, electing(m, m.context(s), registrations.fence, b).record)
    s.next.registrations[b].in_controlled_shutdown = True
    s.next.brokers[b].status = "SHUTTING_DOWN"


@action("841.5, 966.12", says="broker {b} flushes its log and stops", b="broker")
def finish_shutdown(m: Cluster, s: State, b: Number) -> None:
    """The controller grants the shutdown of a broker that leads nothing, and fences the broker, which then stops.

    966.12: the broker flushes its log and then writes the CleanShutdownFile, which shows that the flush is complete.
    """
    broker = s.brokers[b]
    require("the broker is shutting down", broker.status == "SHUTTING_DOWN")
    if m.p.shutdown_requests:
        require("the controller knows", s.registrations[b].in_controlled_shutdown)
    require("it leads nothing any more", ~s.partition.leader.is_(b))
    s.next.registrations[b].fenced = True
    stop(m, s, b)


@action("966.12", says="broker {b} stops in order, and the controller does not hear of it", b="broker")
def stop_unseen(m: Cluster, s: State, b: Number) -> None:
    """A broker stops cleanly, without the controller's permission: its shutdown timed out, or no controller answers.

    The broker still flushes its log and writes its CleanShutdownFile (966.12). The controller sees the session end, as
    after a crash, and learns of the clean stop from the next registration.
    """
    spend(s, "unseen_stops")
    require("the broker runs", m.is_up(s.brokers[b]))
    stop(m, s, b, clean=m.on("unseen_stop_is_clean"))


@action("966.12", says="broker {b} starts, and stops before it is registered", b="broker")
def stop_before_registration(m: Cluster, s: State, b: Number) -> None:
    """A broker starts and stops again before it has registered (966.12).

    When the broker loaded its logs, it removed its CleanShutdownFile. It has no epoch yet, so it writes a new file
    with epoch −1. A file with the previous epoch would make the next registration clean, although an earlier crash may
    have lost records.
    """
    spend(s, "early_stops")
    broker = s.brokers[b]
    require("the broker is down", ~m.is_up(broker))
    says_none = m.on("early_stop_writes_none")
    s.next.brokers[b].status = Status.CRASHED if says_none else Status.STOPPED


@action("966.12", says="the disk of broker {b} is replaced while the broker is down", b="broker")
def replace_disk(m: Cluster, s: State, b: Number) -> None:
    """While a broker is down, an empty log directory replaces the one that has the replica (966.12).

    Another log directory of the broker still has its CleanShutdownFile. With ``clean_in_every_directory`` the next
    registration is unclean nevertheless.
    """
    require("brokers have several log directories", m.p.log_directories > 1)
    spend(s, "disk_losses")
    broker = s.brokers[b]
    require("the broker is down", ~m.is_up(broker))
    empty = broker.replace(log=broker.log.truncate(0), hwm=0, flushed=0)
    s.next.brokers[b] = empty.replace(status=Status.CRASHED) if m.on("clean_in_every_directory") else empty


@action(
    "966.12",
    says="broker {b} gets an older copy of its disk, with {keep} records, while it is down",
    b="broker",
    keep="kept",
)
def restore_disk(m: Cluster, s: State, b: Number, keep: int) -> None:
    """An operator restores an older copy of a broker's disk while the broker is down (966.12).

    The copy has the first ``keep`` records of the log. Its CleanShutdownFile has the broker epoch before the registered
    one. The model does not check if the broker ever stopped cleanly in that epoch.
    """
    require("there are older copies of disks", m.p.old_disks)
    spend(s, "disk_losses")
    broker = s.brokers[b]
    require("the broker is down", ~m.is_up(broker))
    require("the copy is shorter", broker.log.length > keep)
    require("there was an earlier broker epoch", s.registrations[b].epoch > 0)
    copy = broker.replace(log=broker.log.truncate(keep), hwm=least(broker.hwm, keep), flushed=keep)
    s.next.brokers[b] = copy.replace(status=Status.STOPPED, epoch=s.registrations[b].epoch - 1)


@action("966.12", says="broker {b} flushes its log", b="broker")
def flush_log(m: Cluster, s: State, b: Number) -> None:
    """A broker flushes its log to disk.

    Flushing only limits what a crash can lose, so few scenarios need it.
    """
    require("brokers flush now and then", m.p.flushes)
    broker = s.brokers[b]
    require("the broker runs", m.is_up(broker))
    require("there is something to flush", broker.flushed < broker.log.length)
    s.next.brokers[b].flushed = broker.log.length


def stop(m: Cluster, s: State, b: Number, clean: bool = True) -> None:
    """A broker's process stops without a crash: it flushes its log and, if ``clean``, writes its CleanShutdownFile.

    Without ``file_after_flush`` the flush does not finish, and the unflushed records are lost.
    """
    broker = s.brokers[b]
    log = broker.log if m.on("file_after_flush") else broker.log.truncate(broker.flushed)
    whole = broker.replace(log=log, flushed=log.length, hwm=least(broker.hwm, log.length))
    s.next.brokers[b] = stopped(m, whole, Status.STOPPED if clean else Status.CRASHED)
    forget_messages(m, s, b)


def crash(m: Cluster, s: State, b: Number, remains: StructValue) -> None:
    """A broker's process ends without a CleanShutdownFile and leaves ``remains`` on its disk.

    The controller fences the broker later.
    """
    require("the broker runs", m.is_up(s.brokers[b]))
    s.next.brokers[b] = stopped(m, remains, Status.CRASHED)
    forget_messages(m, s, b)


def stopped(m: Cluster, broker: StructValue, status: Number) -> StructValue:
    """The broker after its process has ended, with this status.

    Broker epoch, log and HWM checkpoint stay; view and leader state are lost.
    """
    return m.broker_type.zero().replace(
        status=status, epoch=broker.epoch, log=broker.log, flushed=broker.flushed, hwm=broker.hwm
    )


def forget_messages(m: Cluster, s: State, b: Number) -> None:
    """Drop the responses and metadata in flight to a broker whose process has ended.

    The requests that the broker sent still arrive. The requests of producers that wait at the broker fail.
    """
    s.next.fetch_responses[b] = None
    s.next.alter_responses[b] = None
    s.next.metadata[b] = None
    end_waiting(m, s, b)
