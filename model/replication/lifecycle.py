"""Brokers' lives: they start, crash and shut down; what is on disk stays, what is in memory goes (966.12).

A record that is in a broker's log need not be on its disk: it is in the page cache until the broker flushes. A process
that dies loses nothing; a machine that dies loses any suffix that was not flushed. Kafka does not flush before it
acknowledges. It relies on copies, so each rule here is about not trusting a broker that may have lost its copy.
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
from highwater.model.replication import features
from highwater.model.replication.clients import end_waiting
from highwater.model.replication.cluster import Cluster, Status
from highwater.model.replication.control import electing, merged, write_record
from highwater.model.replication.controller import registrations
from highwater.model.replication.controller.partition_change import is_empty_record
from highwater.model.replication.high_watermark import advance_hwm
from highwater.model.replication.metadata import with_metadata


@action("966.12", says="broker {b} crashes; its page cache is kept", b="broker")
def crash_broker(m: Cluster, s: State, b: Number) -> None:
    """Kill -9: the log stays whole.

    Nobody can tell that from outside: without its CleanShutdownFile the broker counts as one that lost data.
    """
    spend(s, "crashes")
    crash(m, s, b, s.brokers[b])


@action("966.12", says="broker {b} crashes and keeps only {keep} records", b="broker", keep="kept")
def crash_and_lose(m: Cluster, s: State, b: Number, keep: int) -> None:
    """Power loss: any suffix that was not flushed is gone.

    Committed records can be among them. They survive on other replicas as long as fewer than min ISR lose data.
    """
    spend(s, "lossy_crashes")
    broker = s.brokers[b]
    require("records are lost", broker.log.length > keep)
    require("flushed records are kept", broker.flushed <= keep)
    crash(m, s, b, broker.replace(log=broker.log.truncate(keep), hwm=least(broker.hwm, keep)))


@action("966.12", says="broker {b} crashes and loses its disk", b="broker")
def lose_disk(m: Cluster, s: State, b: Number) -> None:
    """The disk is replaced by an empty one.

    The broker comes back with its old id and nothing else, flushed records gone as well.
    """
    spend(s, "disk_losses")
    broker = s.brokers[b]
    crash(m, s, b, broker.replace(log=broker.log.truncate(0), hwm=0, flushed=0))


@action("966.12", says="broker {b} starts and registers", b="broker")
def start_broker(m: Cluster, s: State, b: Number) -> None:
    """It sends its PreviousBrokerEpoch if it stopped cleanly, and replays metadata up to its registration.

    The registration is clean exactly if that is the registered epoch: then nothing happened since the flush. Else the
    controller takes the broker out of ISR and ELR *before* it stores the registration (966.5), so that a broker which
    may lack committed records is never electable under its new epoch.
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
    features.store(m, s, partition)
    s.next.registrations[b] = registered
    latest = m.view_of(partition, s.registrations.set(b, registered), s.min_insync_replicas)
    started = broker.replace(status="RUNNING", epoch=registered.epoch, hwm=hwm_at_start(m, broker))
    advance_hwm(m, s, b, with_metadata(m, b, started, latest, restarts=True))


def hwm_at_start(m: Cluster, broker: StructValue) -> Number:
    """B4. The HWM that a broker starts with, from its checkpoint: no more than its log has.

    A clean stop writes the checkpoint. Else it was written some time ago, and the HWM may have moved since. Nobody may
    take it for the end of what is committed.
    """
    known = least(broker.hwm, broker.log.length)
    if not m.p.old_checkpoints:
        return known
    checkpoint = m.offset.lift(one_of("checkpoint", range(m.p.records + 1)))
    is_old = (broker.status == "CRASHED") & (checkpoint < known)
    require("such a checkpoint can be there", is_old | (checkpoint == known))
    return checkpoint


def record_of_registration(m: Cluster, s: State, b: Number) -> StructValue:
    """966.5, 966.12. What the registration of a broker that starts does to the partition."""
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
    """What belongs to the registration is written, and the registration is not: the broker tries again."""
    spend(s, "failovers")
    record = record_of_registration(m, s, b)
    require("something changes", ~is_empty_record(m.t, record))
    write_record(m, s, record)


@action("841.5", says="broker {b} is to shut down, and asks the controller", b="broker")
def ask_for_shutdown(m: Cluster, s: State, b: Number) -> None:
    """The broker knows of its shutdown before the controller does. Until then it is as any other to the controller."""
    require("a shutdown is asked for", bool(m.p.shutdown_requests))
    spend(s, "controlled_shutdowns")
    require("the broker runs", s.brokers[b].status == "RUNNING")
    s.next.brokers[b].status = "SHUTTING_DOWN"


@action("841.5", says="broker {b} begins a controlled shutdown", b="broker")
def begin_shutdown(m: Cluster, s: State, b: Number) -> None:
    """The broker asks the controller to move its leaderships; it goes on replaying metadata.

    To the ISR it counts as fenced from now on (841.2): else it could be taken in again, and be elected, right before
    it stops.
    """
    if m.p.shutdown_requests:
        require("it was asked for", s.brokers[b].status == "SHUTTING_DOWN")
        require("it was not granted before", ~s.registrations[b].in_controlled_shutdown)
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
    """The controller grants the shutdown to who leads nothing, and fences it.

    The CleanShutdownFile is written after the flush, never before: it vouches for the disk.
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
    """A controlled shutdown takes too long, or no controller is reachable: the broker stops without leave.

    It flushes and writes its CleanShutdownFile all the same. To the controller its session ends, as after a crash;
    its registration will tell.
    """
    spend(s, "unseen_stops")
    require("the broker runs", m.is_up(s.brokers[b]))
    stop(m, s, b, clean=m.on("unseen_stop_is_clean"))


@action("966.12", says="broker {b} starts, and stops before it is registered", b="broker")
def stop_before_registration(m: Cluster, s: State, b: Number) -> None:
    """It has loaded its logs, and so removed its CleanShutdownFile; for a new one it has no epoch, so it writes −1.

    Nothing was appended since the last time that it ran; but what a crash has cost then is not known by this stop.
    """
    spend(s, "early_stops")
    broker = s.brokers[b]
    require("the broker is down", ~m.is_up(broker))
    says_none = m.on("early_stop_writes_none")
    s.next.brokers[b].status = Status.CRASHED if says_none else Status.STOPPED


@action("966.12", says="the disk of broker {b} is replaced while the broker is down", b="broker")
def replace_disk(m: Cluster, s: State, b: Number) -> None:
    """The log directory with the replica is an empty one now; another one still has its CleanShutdownFile."""
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
    """The copy was made after a clean stop in an earlier broker epoch: its CleanShutdownFile has that epoch.

    The copy is a prefix of the log. Whether the broker ever stopped cleanly in that epoch is not checked.
    """
    require("there are older copies of disks", bool(m.p.old_disks))
    spend(s, "disk_losses")
    broker = s.brokers[b]
    require("the broker is down", ~m.is_up(broker))
    require("the copy is shorter", broker.log.length > keep)
    require("there was an earlier broker epoch", s.registrations[b].epoch > 0)
    copy = broker.replace(log=broker.log.truncate(keep), hwm=least(broker.hwm, keep), flushed=keep)
    s.next.brokers[b] = copy.replace(status=Status.STOPPED, epoch=s.registrations[b].epoch - 1)


@action("966.12", says="broker {b} flushes its log", b="broker")
def flush_log(m: Cluster, s: State, b: Number) -> None:
    """Records go from the page cache to the disk.

    The operating system does it when it likes. It only takes from what a crash can do, so few scenarios have it.
    """
    require("brokers flush now and then", bool(m.p.flushes))
    broker = s.brokers[b]
    require("the broker runs", m.is_up(broker))
    require("there is something to flush", broker.flushed < broker.log.length)
    s.next.brokers[b].flushed = broker.log.length


def stop(m: Cluster, s: State, b: Number, clean: bool = True) -> None:
    """The process ends in order: its log is on disk whole, and a CleanShutdownFile says so (``clean``)."""
    broker = s.brokers[b]
    log = broker.log if m.on("file_after_flush") else broker.log.truncate(broker.flushed)
    whole = broker.replace(log=log, flushed=log.length, hwm=least(broker.hwm, log.length))
    s.next.brokers[b] = stopped(m, whole, Status.STOPPED if clean else Status.CRASHED)
    forget_messages(m, s, b)


def crash(m: Cluster, s: State, b: Number, remains: StructValue) -> None:
    """The process is gone without a CleanShutdownFile, and this remains. Nobody is told: fencing comes later."""
    require("the broker runs", m.is_up(s.brokers[b]))
    s.next.brokers[b] = stopped(m, remains, Status.CRASHED)
    forget_messages(m, s, b)


def stopped(m: Cluster, broker: StructValue, status: Number) -> StructValue:
    """A broker without a process: its log and its HWM's checkpoint are on disk, view and leadership are gone."""
    return m.broker_type.zero().replace(
        status=status, epoch=broker.epoch, log=broker.log, flushed=broker.flushed, hwm=broker.hwm
    )


def forget_messages(m: Cluster, s: State, b: Number) -> None:
    """Answers that were on their way to a process that is gone reach nobody. What it sent itself still arrives."""
    s.next.fetch_responses[b] = None
    s.next.alter_responses[b] = None
    s.next.metadata[b] = None
    end_waiting(m, s, b)
