"""One run of a live cluster: crashes and an operator's changes, and the events that the follower beside it reports.

``lossy-0`` loses records that were acknowledged: its replica on broker 3 is throttled, so it lacks them when an
operator elects it. ``single-0`` loses all of its first records, with the disk of its only broker. No step may lose a
record of ``kept`` or ``moved``, or open an incident about them.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.live.cluster import NODES, Clients, Cluster, Follower, Record, until

KEPT, MOVED, LOSSY, SINGLE = "kept", "moved", "lossy", "single"
PARTITIONS = 3
"""The number of partitions of ``kept``, to which a producer writes throughout."""
BEFORE, ALONE, AFTER = 50, 600, 20
"""Numbers of records written to ``lossy``: to both replicas, to the one that is lost, and after the loss. The other
topics get ``BEFORE`` and ``AFTER`` records, too."""


@dataclass
class LiveRun:
    """The steps of a run, the follower's events, and the records that clients wrote and read."""

    metadata: Path
    """The data directory of the node that the follower reads."""
    broker_logs: list[Path]
    has_elr: bool
    steps: list[tuple[float, str]] = field(default_factory=list)
    """Each step, with its time in seconds since 1970."""
    lines: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    """Each line of the follower's events, with the time when the test read it, in seconds since 1970."""
    acknowledged: list[Record] = field(default_factory=list)
    read: dict[tuple[str, int, int], bytes] = field(default_factory=dict)
    """The records that a consumer read at the end, by topic, partition and offset."""
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    """The follower's metrics, by the step after which they were read."""
    status: int | None = None
    """The follower's exit status after SIGTERM."""
    output: str = ""
    """The follower's standard error."""
    processes: list[int] = field(default_factory=list)
    """The ids of the nodes' processes at the end of the run."""

    @property
    def events(self) -> list[dict[str, Any]]:
        """The lines that report incidents; the others are notices."""
        return [line for _, line in self.lines if "incident" in line]

    @property
    def delays(self) -> list[float]:
        """For each event of an incident the seconds from its record to its line, sorted."""
        return sorted(at - line["time"] / 1000 for at, line in self.lines if "incident" in line)

    def lost(self, topic: str) -> list[Record]:
        """Acknowledged records of a topic that the consumer did not read at their offset."""
        return [
            one for one in self.acknowledged if one.topic == topic and self.read.get(one.place) != one.value
        ]

    def timeline(self) -> list[str]:
        """Steps and events in order of time, each with the seconds since the start."""
        events = [(at, f"    follower: {_in_words(line, at)}") for at, line in self.lines]
        begin = self.steps[0][0]
        return [f"{at - begin:6.1f} s  {text}" for at, text in sorted([*self.steps, *events])]


def _in_words(line: dict[str, Any], at: float) -> str:
    if "incident" not in line:
        return f"{line['event']}: {line['text']}"
    incident = line["incident"]
    return f"{line['event']} {incident['severity']}: {incident['headline']} (after {at - line['time'] / 1000:.1f} s)"


class Ended(Exception):
    """The run is over. It is an exception so that the run leaves its processes as a failed test does."""


def live_run(
    kafka: Path, folder: Path, show: Callable[[str], object] = lambda text: None, has_elr: bool = True
) -> LiveRun:
    """Start a cluster below a folder, take all steps, and end all processes, also before an AssertionError."""
    cluster = Cluster(kafka, folder, has_elr)
    logs = [node.logs for node in cluster.nodes.values()]
    run = LiveRun(cluster.nodes[1].data, logs, has_elr)
    try:
        with (
            cluster,
            Follower(run.metadata, logs, folder / "follower") as follower,
            Clients(cluster.servers) as clients,
        ):
            _Steps(cluster, follower, clients, run, show).take()
    except Ended:
        return run
    raise AssertionError("the steps did not end the run")


@dataclass
class _Steps:
    """The steps of a run. The follower reads node 1, the only node that never stops."""

    cluster: Cluster
    follower: Follower
    clients: Clients
    run: LiveRun
    show: Callable[[str], object]

    def take(self) -> None:
        """Take all steps in order. Raises Ended after the last."""
        self.begin()
        self.crash_and_stop()
        self.shrink()
        self.restart_the_follower()
        self.cancel_a_reassignment_and_replace_a_disk()
        self.move_and_create_again()
        self.change_min_isr()
        self.lose_records()
        self.end()

    def note(self, text: str) -> None:
        """Note a step that was taken."""
        self.run.steps.append((time.time(), text))
        self.show(text)

    def all_in_isr(self, *brokers: int) -> None:
        """Wait until each partition of ``kept`` has this ISR."""
        for number in range(PARTITIONS):
            self.cluster.until_isr(f"{KEPT}-{number}", *brokers)

    def begin(self) -> None:
        cluster, clients = self.cluster, self.clients
        cluster.create(KEPT, [NODES[i:] + NODES[:i] for i in range(PARTITIONS)], 2)
        cluster.create(MOVED, [(1, 2)], 1)
        cluster.create(LOSSY, [(2, 3)], 1)
        cluster.create(SINGLE, [(3,)], 1)
        self.all_in_isr(1, 2, 3)
        cluster.set_broker(3, follower_replication_throttled_rate="1")
        clients.write_on(KEPT, PARTITIONS)
        for topic in (LOSSY, MOVED, SINGLE):
            clients.write(topic, BEFORE)
        self.note("four topics exist, and a producer with acks=all writes")

    def crash_and_stop(self) -> None:
        nodes = self.cluster.nodes
        for id in (3, 2):
            nodes[id].kill() if id == 3 else self.cluster.stop_for_long(id)
            self.note(f"broker {id} is {'killed with SIGKILL' if id == 3 else 'stopped cleanly'}")
            self.all_in_isr(*set(NODES) - {id})
            nodes[id].start()
            self.all_in_isr(*NODES)
            self.note(f"broker {id} is back in all ISRs")

    def shrink(self) -> None:
        self.cluster.nodes[3].pause()
        self.cluster.until_isr(f"{KEPT}-0", 1, 2)
        self.cluster.nodes[3].resume()
        self.note(f"broker 3 was suspended, and left the ISR of {KEPT}-0 under load")
        self.all_in_isr(*NODES)
        self.note("broker 3 is back in all ISRs")

    def restart_the_follower(self) -> None:
        self.follower.end(signal.SIGKILL)
        self.follower.start()
        self.note("the follower is killed and started again")

    def cancel_a_reassignment_and_replace_a_disk(self) -> None:
        cluster, node = self.cluster, self.cluster.nodes[3]
        node.kill()
        self.all_in_isr(1, 2)
        cluster.reassign(MOVED, 0, (1, 3))
        assert cluster.reassigned() == [f"{MOVED}-0"]
        cluster.reassign(MOVED, 0, None)
        assert cluster.reassigned() == []
        self.note("a reassignment to broker 3, which is down, is cancelled")
        node.format()
        node.start()
        self.all_in_isr(*NODES)
        self.note("broker 3 is back with an empty disk, formatted anew")
        until("broker 3 leads", self.single_is_led)
        self.note(f"an unclean election on request: broker 3 leads {SINGLE}-0 with an empty log")
        self.clients.write(SINGLE, AFTER)

    def single_is_led(self) -> bool:
        """Request an election as long as ``SINGLE`` has no leader: no event leads to one once the disk is replaced."""
        is_led: bool = self.cluster.partition(f"{SINGLE}-0")["leader_id"] == 3
        if not is_led:
            self.cluster.elect_uncleanly(SINGLE, 0)
        return is_led

    def move_and_create_again(self) -> None:
        cluster = self.cluster
        cluster.reassign(MOVED, 0, (3, 1))
        until("the reassignment ends", lambda: not cluster.reassigned())
        self.note(f"{MOVED}-0 has moved to brokers 3 and 1")
        cluster.delete(MOVED)
        self.clients.acknowledged = [one for one in self.clients.acknowledged if one.topic != MOVED]
        cluster.create(MOVED, [(2, 1)], 2)
        self.clients.write(MOVED, AFTER)
        self.note(f"{MOVED} is deleted and created again")

    def change_min_isr(self) -> None:
        self.cluster.set_topic(KEPT, min_insync_replicas="3")
        self.cluster.nodes[3].kill()
        self.all_in_isr(1, 2)
        self.note("min.insync.replicas is 3, and broker 3 is killed")
        # With ELR on, the ISR of the partition on broker 3 alone is empty.
        self.until_metric("under_min_isr", PARTITIONS + self.cluster.has_elr)
        self.cluster.set_topic(KEPT, min_insync_replicas="2")
        self.until_metric("under_min_isr", int(self.cluster.has_elr))
        self.note("min.insync.replicas is 2 again")

    def lose_records(self) -> None:
        cluster, nodes, clients = self.cluster, self.cluster.nodes, self.clients
        cluster.until_isr(f"{LOSSY}-0", 2)
        clients.write(LOSSY, ALONE)
        cluster.set_topic(LOSSY, follower_replication_throttled_replicas="0:3")
        nodes[3].start()
        self.all_in_isr(*NODES)
        self.note(f"broker 3 is back; throttled, it lacks most of {ALONE} records of {LOSSY}-0")
        nodes[2].kill()
        until("the partition is offline", lambda: cluster.partition(f"{LOSSY}-0")["leader_id"] == -1)
        self.note(f"broker 2 is killed: {LOSSY}-0 is offline")
        self.until_metric("offline", 1)
        cluster.elect_uncleanly(LOSSY, 0)
        until("broker 3 leads", lambda: cluster.partition(f"{LOSSY}-0")["leader_id"] == 3)
        self.note("an unclean election on request: broker 3 leads")
        until(
            "the follower reports the loss",
            lambda: [i for _, i in self.follower.incidents(f"{LOSSY}-0") if i["lost"]],
        )
        self.restart_the_follower()
        cluster.set_topic(LOSSY, follower_replication_throttled_replicas="")
        nodes[2].start()
        cluster.until_isr(f"{LOSSY}-0", 2, 3)
        self.all_in_isr(*NODES)
        self.note("broker 2 is back and has truncated its log")
        clients.write(LOSSY, AFTER)

    def until_metric(self, state: str, number: int) -> None:
        """Wait until the follower's metrics count this number of partitions in a state; keep the metrics."""
        name = f'highwater_partitions{{state="{state}"}}'
        until(f"{name} is {number}", lambda: self.follower.metrics()[name] == number)
        self.run.metrics[f"{state} {number}"] = self.follower.metrics()

    def end(self) -> None:
        run, follower = self.run, self.follower
        until("the incident is closed", lambda: follower.incidents(f"{LOSSY}-0")[-1][0] == "closed")
        self.clients.flush()
        run.read = self.clients.read(KEPT, PARTITIONS)
        for topic in (LOSSY, MOVED, SINGLE):
            run.read |= self.clients.read(topic, 1)
        run.acknowledged = self.clients.acknowledged
        run.metrics["end"] = follower.metrics()
        self.note("the producer ends, and a consumer has read all records")
        run.processes = [node.process.id for node in self.cluster.nodes.values() if node.process is not None]
        run.status = follower.end(signal.SIGTERM)
        time.sleep(0.2)  # until the last lines are read
        run.lines, run.output = list(follower.lines), follower.output.read_text()
        raise Ended
