"""Brokers' lives: start, crash, shut down; and the metadata that they replay while they run."""

from __future__ import annotations

from typing import Any

from highwater.model.language import State, action, least, require, spend, where
from highwater.model.language.values import Number, StructValue
from highwater.model.replication.cluster import Status
from highwater.model.replication.control import Control
from highwater.model.replication.controller import brokers, sessions
from highwater.model.replication.controller.partition_change import merge


class Lifecycle(Control):
    """Actions of a broker's process."""

    def define(self) -> Any:
        """Offsets that a crash can leave."""
        state = super().define()
        self.kept = range(self.p.records)
        return state

    def stopped(self, broker: StructValue, status: Any) -> StructValue:
        """A broker without a process: what is on disk stays, what is in memory goes."""
        return self.broker_type.zero().replace(
            status=status, epoch=broker.epoch, log=broker.log, flushed=broker.flushed, hwm=broker.hwm
        )

    def crash(self, s: State, b: Number, broker: StructValue) -> None:
        """The process is gone without a CleanShutdownFile."""
        require("the broker runs", self.is_up(s.brokers[b]))
        s.next.brokers[b] = self.stopped(broker, Status.CRASHED)
        self.forget_messages(s, b)

    @action("966.12", says="broker {b} crashes; its page cache is kept", b="broker")
    def crash_broker(self, s: State, b: Number) -> None:
        """Kill -9: the log stays whole."""
        spend(s, "crashes")
        self.crash(s, b, s.brokers[b])

    @action("966.12", says="broker {b} crashes and keeps only {keep} records", b="broker", keep="kept")
    def crash_and_lose(self, s: State, b: Number, keep: int) -> None:
        """Power loss: any suffix that was not flushed is gone."""
        spend(s, "lossy_crashes")
        broker = s.brokers[b]
        require("records are lost", broker.log.length > keep)
        require("flushed records are kept", broker.flushed <= keep)
        self.crash(s, b, broker.replace(log=broker.log.truncate(keep), hwm=least(broker.hwm, keep)))

    @action("966.12", says="broker {b} crashes and loses its disk", b="broker")
    def lose_disk(self, s: State, b: Number) -> None:
        """The disk is replaced by an empty one."""
        spend(s, "disk_losses")
        broker = s.brokers[b]
        self.crash(s, b, broker.replace(log=broker.log.truncate(0), hwm=0, flushed=0))

    @action("966.12", says="broker {b} starts and registers", b="broker")
    def start_broker(self, s: State, b: Number) -> None:
        """It sends its PreviousBrokerEpoch if it stopped cleanly, and replays metadata up to its registration."""
        t, broker, registration = self.t, s.brokers[b], s.registrations[b]
        require("the broker is down", ~self.is_up(broker))
        if self.on("fenced_before_registration"):
            require("its former registration is fenced", registration.fenced)
        never = t.brokers.zero().has(b)
        previous = where(broker.status == "STOPPED", broker.epoch, -1)
        clean = brokers.is_clean_registration(t, registration, previous, never)
        record = self.decided(
            s,
            lambda terms: brokers.on_registration(
                terms, s.partition, s.registrations, b, clean, never, self.min_isr(s), self.unclean_allowed
            ),
        )
        partition = merge(t, s.partition, record)
        registered = sessions.register(t, registration, never, registration.epoch + 1)
        registrations = s.registrations.set(b, registered)
        s.next.partition = partition
        s.next.registrations[b] = registered
        latest = self.view_of(partition, registrations, s.min_insync_replicas)
        started = broker.replace(
            status="RUNNING", epoch=registered.epoch, hwm=least(broker.hwm, broker.log.length)
        )
        self.settle(s, b, self.with_metadata(b, started, latest, restarts=True))

    @action("841.5", says="broker {b} begins a controlled shutdown", b="broker")
    def begin_shutdown(self, s: State, b: Number) -> None:
        """The broker asks the controller to move its leaderships; it goes on replaying metadata."""
        spend(s, "controlled_shutdowns")
        require("the broker runs", s.brokers[b].status == "RUNNING")
        require("the broker is not fenced", ~s.registrations[b].fenced)
        require("the broker's epoch is the registered one", s.brokers[b].epoch == s.registrations[b].epoch)
        self.append(s, self.on_broker(s, b, brokers.on_fencing))
        s.next.registrations[b].in_controlled_shutdown = True
        s.next.brokers[b].status = "SHUTTING_DOWN"

    @action("841.5, 966.12", says="broker {b} flushes its log and stops", b="broker")
    def finish_shutdown(self, s: State, b: Number) -> None:
        """The controller grants the shutdown to who leads nothing, and fences it."""
        broker = s.brokers[b]
        require("the broker is shutting down", broker.status == "SHUTTING_DOWN")
        require("it leads nothing any more", ~s.partition.leader.is_(b))
        s.next.registrations[b].fenced = True
        s.next.brokers[b] = self.stopped(broker.replace(flushed=broker.log.length), Status.STOPPED)
        self.forget_messages(s, b)

    @action("966.12", says="broker {b} flushes its log", b="broker")
    def flush_log(self, s: State, b: Number) -> None:
        """Records go from the page cache to the disk."""
        if not self.p.flushes:
            require("brokers flush now and then", False)
        broker = s.brokers[b]
        require("the broker runs", self.is_up(broker))
        require("there is something to flush", broker.flushed < broker.log.length)
        s.next.brokers[b].flushed = broker.log.length

    # --- metadata ---------------------------------------------------------------------------------

    @action("B8", says="broker {b} replays the metadata log", b="broker")
    def replay_metadata(self, s: State, b: Number) -> None:
        """A broker comes to know all there is, or what was there when its metadata fetch was answered."""
        broker = s.brokers[b]
        require("the broker runs", self.is_up(broker))
        latest = self.latest_view(s)
        if self.p.metadata_in_flight:
            require("a batch of metadata is under way", s.metadata[b].is_some)
            latest = s.metadata[b].value
            s.next.metadata[b] = None
        after = self.with_metadata(b, broker, latest)
        if not self.p.metadata_in_flight:
            news = after.view != broker.view
            if not self.on("proposal_outlives_known_metadata"):
                news = news | broker.ahead
            require("there is something to replay", news)
        self.settle(s, b, after)

    @action("B8", says="the controller sends broker {b} a batch of metadata", b="broker")
    def send_metadata(self, s: State, b: Number) -> None:
        """The answer to a metadata fetch: the log as it is now."""
        if not self.p.metadata_in_flight:
            require("metadata travels in batches", False)
            return
        require("the broker runs", self.is_up(s.brokers[b]))
        require("no batch is under way", s.metadata[b].is_none)
        latest = self.latest_view(s)
        require("there is something to send", latest != s.brokers[b].view)
        s.next.metadata[b] = latest


__all__ = ["Lifecycle"]
