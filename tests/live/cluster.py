"""A cluster of Kafka's own processes on this machine, its clients, and the follower beside it.

``Cluster``, ``Clients`` and ``Follower`` are context managers: each ends its processes by their ids, also after a
failure. The operating system chooses the ports.
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError

NODES = (1, 2, 3)
CLUSTER_ID = "aGlnaHdhdGVyLWxpdmUtMA"
SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "5000",
    "controller.quorum.election.timeout.ms": "2000",
    "controller.quorum.fetch.timeout.ms": "4000",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "metadata.log.max.snapshot.interval.ms": "10000",
    "num.io.threads": "2",
    "num.network.threads": "1",
    "replica.fetch.max.bytes": "2000",
    "replica.lag.time.max.ms": "3000",
}
"""Settings of all nodes. Fetches are small, so a throttled follower does not catch up with its first one. The log
cleaner's buffer is small, so a node needs little memory."""
LOGGING = Path(__file__).with_name("log4j2.yaml")
"""The nodes' logging: Kafka's usual files, with the loggers that the follower reads at their levels."""
PATIENCE = 120.0
"""Seconds to wait for a condition before the test fails."""
UNCLEAN = 1
"""The election type of Kafka's ElectLeaders request."""
_Found = TypeVar("_Found")


def until(what: str, condition: Callable[[], _Found]) -> _Found:
    """Wait for a condition; returns its first true value. A client's error counts as false.

    Raises AssertionError after ``PATIENCE`` seconds.
    """
    end, wrong = time.monotonic() + PATIENCE, ""
    while time.monotonic() < end:
        try:
            if found := condition():
                return found
        except (KafkaError, OSError) as error:
            wrong = f" ({error!r})"
        time.sleep(0.1)
    raise AssertionError(f"not within {PATIENCE:.0f} s: {what}{wrong}")


def free_ports(number: int) -> list[int]:
    """Free ports on loopback."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Process:
    """A process that writes its output to a file."""

    def __init__(self, command: Sequence[str], output: Path) -> None:
        with open(output, "ab") as file:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        self.id = self._process.pid

    def wait(self, seconds: float = 60) -> int:
        """Wait for the process; returns its exit status. It is killed after ``seconds``."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def send(self, number: signal.Signals) -> None:
        """Send a signal if the process still runs."""
        if self._process.poll() is None:
            self._process.send_signal(number)

    def end(self, number: signal.Signals) -> int:
        """Send a signal if the process still runs; returns its exit status."""
        self.send(number)
        return self.wait()


class Node:
    """A broker and controller in one process, with a folder for its settings, its data and its logs."""

    def __init__(
        self, id: int, kafka: Path, folder: Path, ports: Sequence[tuple[int, int]], has_elr: bool
    ) -> None:
        self.id, self.kafka, self.folder = id, kafka, folder
        self._features = ("--feature", f"eligible.leader.replicas.version={int(has_elr)}")
        self.data, self.logs = folder / "data", folder / "logs"
        self.port, controller = ports[id - 1]
        self.process: Process | None = None
        self.logs.mkdir(parents=True)
        voters = ",".join(f"{i}@127.0.0.1:{c}" for i, (_, c) in zip(NODES, ports, strict=True))
        own = {
            "node.id": str(id),
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.data),
        }
        lines = (f"{name}={value}\n" for name, value in {**SETTINGS, **own}.items())
        self._settings = folder / "server.properties"
        self._settings.write_text("".join(lines))

    def format(self) -> None:
        """Delete the node's data and format its directory."""
        shutil.rmtree(self.data, ignore_errors=True)
        output = self.folder / "format.txt"
        format = ("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._settings))
        run = self._java(output, *format, *self._features)
        assert run.wait() == 0, output.read_text()

    def start(self) -> None:
        """Start the node, without waiting until its broker is registered."""
        self.process = self._java(self.folder / "output.txt", "kafka.Kafka", str(self._settings))

    def _java(self, output: Path, *arguments: str) -> Process:
        options = ("-Xmx256m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        defined = (
            f"-Dkafka.logs.dir={self.logs}",
            f"-Dlog4j2.configurationFile={LOGGING}",
        )
        return Process(["java", *options, *defined, "-cp", f"{self.kafka}/libs/*", *arguments], output)

    def kill(self) -> None:
        """End the node with SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop the node cleanly."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Suspend the node's process until ``resume``."""
        if self.process is not None:
            self.process.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a suspended node run again."""
        if self.process is not None:
            self.process.send(signal.SIGCONT)

    def _end(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.end(number)
        self.process = None


class Cluster:
    """Three nodes, and an administrator's requests to them."""

    def __init__(self, kafka: Path, folder: Path, has_elr: bool = True) -> None:
        ports = free_ports(2 * len(NODES))
        pairs = list(zip(ports[::2], ports[1::2], strict=True))
        self.nodes = {id: Node(id, kafka, folder / f"node{id}", pairs, has_elr) for id in NODES}
        self.servers = [f"127.0.0.1:{port}" for port, _ in pairs]
        self.has_elr = has_elr
        self._admin: KafkaAdminClient | None = None

    def __enter__(self) -> Self:
        try:
            for node in self.nodes.values():
                node.format()
            for node in self.nodes.values():
                node.start()
            self._admin = until("a broker answers", self._connected)
            until("all brokers are registered", lambda: self.brokers() == set(NODES))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connected(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.servers, request_timeout_ms=15_000)

    @property
    def admin(self) -> KafkaAdminClient:
        """The administrator's client."""
        assert self._admin is not None
        return self._admin

    def close(self) -> None:
        """End every node."""
        if self._admin is not None:
            self._admin.close()
        for node in self.nodes.values():
            node.kill()

    def brokers(self) -> set[int]:
        """The brokers that are not fenced."""
        return {one["broker_id"] for one in self.admin.describe_cluster()["brokers"]}

    def create(self, topic: str, replicas: Sequence[Sequence[int]], min_isr: int) -> None:
        """Create a topic with these replicas of its partitions."""
        configs = {"min.insync.replicas": str(min_isr)}
        placed = {number: list(of) for number, of in enumerate(replicas)}
        self._change(lambda admin: admin.create_topics({topic: {"assignments": placed, "configs": configs}}))

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self._change(lambda admin: admin.delete_topics([topic]))

    def stop_for_long(self, id: int) -> None:
        """Stop a node cleanly, and wait until the controller fences its broker once more, as its session ends.

        A controller that is elected meanwhile has no such session.
        """
        fenced, elected = f"Fencing broker {id} at epoch ", "Becoming the active controller"
        before = self._said(fenced), self._said(elected)
        self.nodes[id].stop()
        until(
            f"the session of broker {id} ends",
            lambda: self._said(fenced) > before[0] or self._said(elected) > before[1],
        )

    def _said(self, text: str) -> int:
        """How often a text stands in the controllers' logs."""
        return sum((node.logs / "controller.log").read_text().count(text) for node in self.nodes.values())

    def partition(self, name: str) -> Mapping[str, Any]:
        """A broker's view of a partition: leader_id, isr_nodes, eligible_leader_replicas."""
        topic, _, number = name.rpartition("-")
        (found,) = self.admin.describe_topic_partitions([topic])["topics"]
        return next(one for one in found["partitions"] if one["partition_index"] == int(number))

    def until_isr(self, name: str, *isr: int) -> None:
        """Wait until a partition has this ISR."""
        until(f"{name} has the ISR {isr}", lambda: set(self.partition(name)["isr_nodes"]) == set(isr))

    def set_topic(self, topic: str, **settings: str) -> None:
        """Change settings of a topic; an underscore in a name stands for a dot."""
        self._set(ConfigResourceType.TOPIC, topic, settings)

    def set_broker(self, id: int, **settings: str) -> None:
        """Change settings of a running broker; an underscore in a name stands for a dot."""
        self._set(ConfigResourceType.BROKER, str(id), settings)

    def _set(self, kind: ConfigResourceType, name: str, settings: Mapping[str, str]) -> None:
        configs = {key.replace("_", "."): value for key, value in settings.items()}
        resource = ConfigResource(kind, name, configs=configs)
        self._change(lambda admin: admin.alter_configs([resource], raise_on_unknown=False))

    def reassign(self, topic: str, number: int, replicas: Sequence[int] | None) -> None:
        """Begin a reassignment of a partition; ``None`` cancels it."""
        place = TopicPartition(topic, number)
        wanted = {place: None if replicas is None else list(replicas)}
        answer = self._change(lambda admin: admin.alter_partition_reassignments(wanted))
        assert answer[place] is None, answer

    def reassigned(self) -> list[str]:
        """The partitions that are being reassigned."""
        found = self._change(lambda admin: admin.list_partition_reassignments())
        return [f"{place.topic}-{place.partition}" for place in found]

    def elect_uncleanly(self, topic: str, number: int) -> None:
        """Let the controller elect a live replica although none is in the ISR or the ELR."""
        self._change(lambda admin: admin.elect_leaders(UNCLEAN, {topic: [number]}))

    def _change(self, request: Callable[[KafkaAdminClient], Any]) -> Any:
        """Send a request with a new client: an old one keeps sending to a broker that was killed."""

        def send() -> tuple[Any]:
            admin = self._connected()
            try:
                return (request(admin),)
            finally:
                admin.close()

        return until("a broker answers a request", send)[0]


class Record(NamedTuple):
    """A record, with its topic, partition and offset."""

    topic: str
    partition: int
    offset: int
    value: bytes

    @property
    def place(self) -> tuple[str, int, int]:
        """Its topic, partition and offset."""
        return self[:3]


class Clients:
    """A producer with acks=all, and a consumer. ``acknowledged`` lists the acknowledged records, in order."""

    def __init__(self, servers: Sequence[str]) -> None:
        self._servers = list(servers)
        # After a loss, a broker refuses an idempotent producer's next record.
        self._producer = KafkaProducer(
            bootstrap_servers=self._servers,
            acks="all",
            enable_idempotence=False,
            batch_size=500,
            request_timeout_ms=8_000,
        )
        self.acknowledged: list[Record] = []
        self._number = 0
        self._stops = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stops.set()
        if self._thread is not None:
            self._thread.join()
        self._producer.close(timeout=10)

    def _send(self, topic: str, partition: int) -> Any:
        self._number += 1
        value = b"%08d " % self._number + b"x" * 200

        def keep(answer: Any) -> None:
            self.acknowledged.append(Record(answer.topic, answer.partition, answer.offset, value))

        return self._producer.send(topic, value, partition=partition).add_callback(keep)

    def write(self, topic: str, number: int) -> None:
        """Write records to partition 0, each in a batch of its own: a fetch has whole batches. Wait for each."""
        for _ in range(number):
            self._send(topic, 0).get(timeout=60)

    def write_on(self, topic: str, partitions: int) -> None:
        """Write to a topic, 30 records a second, until ``flush``."""

        def work() -> None:
            while not self._stops.wait(0.03):
                self._send(topic, self._number % partitions)

        self._thread = threading.Thread(target=work, name="producer", daemon=True)
        self._thread.start()

    def flush(self) -> None:
        """Stop writing, and wait until all records are acknowledged."""
        self._stops.set()
        self._producer.flush(timeout=60)

    def read(self, topic: str, partitions: int) -> dict[tuple[str, int, int], bytes]:
        """All records that a consumer can read now, by topic, partition and offset."""
        places = [TopicPartition(topic, number) for number in range(partitions)]
        found: dict[tuple[str, int, int], bytes] = {}
        consumer = KafkaConsumer(bootstrap_servers=self._servers, group_id=None)
        try:
            consumer.assign(places)
            ends = consumer.end_offsets(places)
            consumer.seek_to_beginning(*places)
            until("a consumer reads to the end", lambda: _read(consumer, found, ends))
        finally:
            consumer.close()
        return found


def _read(consumer: Any, found: dict[tuple[str, int, int], bytes], ends: Mapping[Any, int]) -> bool:
    for records in consumer.poll(timeout_ms=500).values():
        found.update({(one.topic, one.partition, one.offset): one.value for one in records})
    return all(consumer.position(place) >= end for place, end in ends.items())


class Follower:
    """``highwater replay --follow`` beside a node, with the time of each line of its events."""

    def __init__(self, metadata: Path, broker_logs: Sequence[Path], folder: Path) -> None:
        folder.mkdir()
        self.events, self.output = folder / "events", folder / "output.txt"
        (self.port,) = free_ports(1)
        self._command = [sys.executable, "-m", "highwater", "replay", "--follow", str(metadata)]
        self._command += [*map(str, broker_logs), "--events", str(self.events)]
        self._command += ["--incidents", str(folder / "open.json"), "--metrics", f":{self.port}"]
        self.lines: list[tuple[float, dict[str, Any]]] = []
        """Each line of the events, with the time when it was read, in seconds since 1970."""
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="events", daemon=True)
        self._process: Process | None = None

    def __enter__(self) -> Self:
        self.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGKILL)
        self._stops.set()
        self._thread.join()

    def start(self) -> None:
        """Start the follower, or restart it."""
        self._process = Process(self._command, self.output)
        until("the follower serves metrics", self.metrics)

    def end(self, number: signal.Signals) -> int | None:
        """End the follower with a signal; returns its exit status, or None if it does not run."""
        process, self._process = self._process, None
        return None if process is None else process.end(number)

    def metrics(self) -> dict[str, float]:
        """The metrics that the follower serves, by name and labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    def incidents(self, partition: str) -> list[tuple[str, Mapping[str, Any]]]:
        """The events about a partition so far: for each its kind and its incident."""
        events = [line for _, line in list(self.lines) if "incident" in line]
        return [
            (line["event"], line["incident"]) for line in events if line["incident"]["partition"] == partition
        ]

    def _watch(self) -> None:
        rest = ""
        while not self.events.exists():
            time.sleep(0.02)
        with open(self.events, encoding="utf-8") as file:
            while not self._stops.wait(0.02):
                *whole, rest = (rest + file.read()).split("\n")
                self.lines += [(time.time(), json.loads(line)) for line in whole]
