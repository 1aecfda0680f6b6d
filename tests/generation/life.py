"""The life of a busy cluster: what brokers and operators do, drawn at random, until a log has its records.

What happens, and about how often in a cluster of 10,000 partitions:

* a few partitions of a leader lose a follower for a while (1 to 10 a request): twice a second;
* a slow broker falls behind with a tenth to two thirds of its partitions: every minute;
* a broker crashes, is fenced when its session is over, and comes back: every quarter of an hour;
* all brokers are restarted one after the other: every two hours;
* preferred replicas are made leaders: every five minutes, at most 1000 a decision;
* one to twenty partitions are reassigned, and some of these are cancelled: every minute;
* a topic's min.insync.replicas changes for a while: every ten minutes; a topic is created or deleted: every five;
* another controller is elected: every two hours; a NO_OP_RECORD: every 500 ms.

In a smaller cluster all of it but the last comes oftener, by the number of partitions, so that a small log has
lived through the same. Each time a follower has fallen behind, its leaders bring it back in requests of 1 (two fifths),
2 to 10, 10 to 60, or 60 to 300 partitions. Decisions within 25 ms share a batch, as they do in Kafka.

So a log of 5 million records (10,000 partitions, seed 0) has 755,000 batches, 6.6 records each on average: two thirds
have one record, a quarter 2 to 10, a tenth 11 to 100, and every two-hundredth more; these hold 31% of all records.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from random import Random

from tests.generation.cluster import Cluster, Partition
from tests.generation.partitions import Ids
from tests.generation.writing import LogWriter

START = 1_700_000_000_000
"""The time of the first record, in ms since the epoch."""
SEGMENT_BYTES, NO_OP_EVERY = 100 << 20, 500
TOPIC_SIZES = (1, 1, 3, 6, 12, 12, 24, 50, 100, 200)
"""Numbers of partitions that topics have, each as likely."""
SESSION = 9000
"""Kafka's ``broker.session.timeout.ms``."""
FULL_SIZE = 10_000
"""The partitions of a cluster in which things happen as often as said above."""

Task = Generator[float, None, None]
"""Something that goes on for a while: it yields the ms until its next step."""


@dataclass(frozen=True)
class Written:
    """The figures of a log: records, batches, ms from the first to the last, and different states of partitions."""

    records: int
    batches: int
    duration: int
    states: int


def write_log(
    directory: Path,
    partitions: int = 10_000,
    records: int = 5_000_000,
    brokers: int = 12,
    replication_factor: int = 3,
    min_isr: int = 2,
    seed: int = 0,
    elr: bool = True,
    segment_bytes: int = SEGMENT_BYTES,
    snapshot_every: int = 0,
) -> Written:
    """Write a metadata log of at least so many records into a directory that exists; the same one for the same seed.

    ``elr``: as Kafka's trunk of 2024-10 does it with ELR on, else as before KIP-966 (metadata version 4.0-IV0).
    ``segment_bytes``: a segment ends before it gets larger. ``snapshot_every``: after about so many records a snapshot
    is written; 0 for none. Raises ValueError for numbers that make no cluster.
    """
    if (
        not 1 <= replication_factor <= brokers <= 63
        or not 1 <= min_isr <= replication_factor
        or partitions < 1
    ):
        raise ValueError(
            "there have to be 1 to 63 brokers, no more replicas than brokers, min ISR within them"
        )
    random = Random(seed)
    with LogWriter(directory, segment_bytes) as log:
        cluster = Cluster(log, brokers, elr, random, START)
        life = _Life(cluster, partitions, replication_factor, min_isr)
        life.begin()
        life.live(records, snapshot_every)
    return Written(log.offset, log.batches, cluster.time - START, len(cluster.rules))


class _Life:
    """Everything that goes on in a cluster, by the time of its next step."""

    def __init__(self, cluster: Cluster, partitions: int, factor: int, min_isr: int) -> None:
        self.cluster, self.random = cluster, cluster.random
        self._wanted, self._factor, self._min_isr = partitions, factor, min_isr
        self._queue: list[tuple[float, int, Task]] = []
        self._started = 0
        self._pace = min(1.0, max(0.004, partitions / FULL_SIZE))
        self._all: list[Partition] = []
        """All partitions; empty where they have to be listed again."""
        self._down: set[int] = set()
        self._behind: dict[tuple[Partition, int], None] = {}

    def begin(self) -> None:
        """The cluster comes up, and topics are created."""
        cluster = self.cluster
        cluster.start()
        for broker in cluster.brokers:
            cluster.time += self.random.randint(5, 300)
            cluster.register(broker.number)
        for broker in cluster.brokers:
            cluster.time += self.random.randint(5, 300)
            cluster.unfence(broker.number)
        left = self._wanted
        while left:
            cluster.time += self.random.randint(20, 2000)
            left -= self._create(left)

    def live(self, records: int, snapshot_every: int) -> None:
        """Go on until the log has its records."""
        minute = 60_000
        self._start(0, self._no_ops())
        self._often(500, self._blip)
        self._often(minute, self._slow_broker)
        self._often(15 * minute, self._crash)
        self._often(120 * minute, self._rolling_restart)
        self._often(minute, self._reassignment)
        self._often(10 * minute, self._other_min_isr)
        self._often(5 * minute, self._topics_come_and_go)
        self._start(0, self._every(5 * minute, self._balance))
        self._start(0, self._every(minute, self._sweep))
        self._often(120 * minute, self._fail_over)
        log, next_snapshot = self.cluster.log, snapshot_every
        while log.offset < records:
            time, _, task = heappop(self._queue)
            self.cluster.time = max(self.cluster.time, int(time))
            delay = next(task, None)
            if delay is not None:
                self._push(time + delay, task)
            if snapshot_every and log.offset >= next_snapshot:
                self.cluster.snapshot()
                next_snapshot = log.offset + snapshot_every

    # --- what goes on -----------------------------------------------------------------------------------

    def _push(self, time: float, task: Task) -> None:
        self._started += 1
        heappush(self._queue, (time, self._started, task))

    def _start(self, delay: float, task: Task) -> None:
        self._push(self.cluster.time + delay, task)

    def _often(self, gap: float, what: Callable[[], Task]) -> None:
        """Start it now and then, every ``gap`` ms on average."""

        def starting() -> Task:
            while True:
                yield self.random.expovariate(1 / (gap * self._pace))
                self._start(0, what())

        self._start(0, starting())

    def _every(self, gap: float, what: Callable[[], Task]) -> Task:
        while True:
            yield gap * self._pace
            self._start(0, what())

    def _while(self, low: float, high: float) -> float:
        """A time that something lasts, in ms; shorter in a smaller cluster."""
        return self.random.uniform(low, high) * max(self._pace, 0.05)

    def _no_ops(self) -> Task:
        while True:
            yield NO_OP_EVERY
            self.cluster.no_op()

    def _fail_over(self) -> Task:
        self.cluster.fail_over()
        yield 0

    def _balance(self) -> Task:
        while self.cluster.balance():
            yield 50

    # --- followers fall behind and come back ------------------------------------------------------------

    def _blip(self) -> Task:
        """A few partitions of a leader lose a follower."""
        first = self._any_partition()
        if first is None or first.node.leader < 0:
            return
        leader = first.node.leader
        followers = [b for b in first.node.state.isr if b != leader]
        if not followers:
            return
        follower = self.random.choice(followers)
        count = self.random.choice((1, 1, 1, 1, 2, 2, 3, 5, 8, 10))
        chosen = [p for p in self._near(first, 4 * count) if p.node.leader == leader][:count]
        yield from self._fall_behind({leader: chosen}, follower, self._while(1000, 60_000))

    def _near(self, partition: Partition, count: int) -> list[Partition]:
        """A partition, and those behind it on its leader's list."""
        return [
            partition,
            *self.random.sample(
                list(partition.topic.partitions), min(count, len(partition.topic.partitions))
            ),
        ]

    def _slow_broker(self) -> Task:
        """A broker falls behind as a follower, with a share of its partitions."""
        follower = self.random.randrange(len(self.cluster.brokers))
        share = self.random.uniform(0.1, 0.66)
        chosen = [p for p in self.cluster.by_broker[follower] if self.random.random() < share]
        by_leader = _by_leader(p for p in chosen if p.node.leader != follower)
        yield from self._fall_behind(by_leader, follower, self._while(10_000, 120_000))

    def _fall_behind(self, by_leader: dict[int, list[Partition]], follower: int, lasting: float) -> Task:
        held = []
        for leader, partitions in by_leader.items():
            for partition in partitions:
                if (partition, follower) not in self._behind:
                    held.append(partition)
                    self._behind[partition, follower] = None
            for chunk in self._chunks(partitions, larger=True):
                yield self.random.expovariate(1 / 300)
                self.cluster.shrink(leader, chunk, follower)
        yield lasting
        for partition in held:
            self._behind.pop((partition, follower), None)
        yield from self._bring_back(held, follower)

    def _bring_back(self, partitions: Iterable[Partition], follower: int) -> Task:
        """Leaders ask for a follower that has caught up, in requests of different sizes."""
        waiting = [p for p in partitions if self._misses(p, follower)]
        requests = [
            (leader, chunk)
            for leader, of_leader in _by_leader(waiting).items()
            for chunk in self._chunks(of_leader)
        ]
        self.random.shuffle(requests)
        for leader, chunk in requests:
            yield self.random.expovariate(1 / 40)
            self.cluster.expand(leader, [p for p in chunk if (p, follower) not in self._behind], follower)

    def _misses(self, partition: Partition, follower: int) -> bool:
        node = partition.node
        return follower in node.state.replicas and not node.isr_mask >> follower & 1 and node.leader >= 0

    def _sweep(self) -> Task:
        """Bring replicas that have caught up back into their ISR."""
        away: dict[int, list[Partition]] = {}
        for partition in self.cluster.partitions():
            if not partition.node.full:
                for broker in partition.node.state.replicas:
                    if self.cluster.is_active(broker) and self._misses(partition, broker):
                        away.setdefault(broker, []).append(partition)
        for broker, partitions in away.items():
            self._start(self._while(0, 20_000), self._bring_back(partitions, broker))
        yield 0

    def _chunks(self, partitions: list[Partition], larger: bool = False) -> list[list[Partition]]:
        """Partitions as a leader puts them into its requests."""
        found, at = [], 0
        sizes = ((1, 1), (1, 1), (2, 10), (2, 10), (10, 60), (60, 300))
        weights = (2, 2, 2, 2, 4, 4) if larger else (20, 20, 18, 17, 20, 5)
        while at < len(partitions):
            low, high = self.random.choices(sizes, weights)[0]
            size = self.random.randint(low, high)
            found.append(partitions[at : at + size])
            at += size
        return found

    # --- brokers ----------------------------------------------------------------------------------------

    def _takes_down(self, broker: int) -> bool:
        """Whether a broker may go down now: at most two are down together, so that the partitions survive."""
        if broker in self._down or len(self._down) >= min(2, len(self.cluster.brokers) - 1):
            return False
        self._down.add(broker)
        return True

    def _rolling_restart(self) -> Task:
        for broker in range(len(self.cluster.brokers)):
            if self._takes_down(broker):
                yield from self._restart(broker)
                yield self._while(5000, 30_000)

    def _restart(self, broker: int) -> Task:
        self.cluster.shut_down(broker)
        yield self._while(1000, 10_000)
        if not self.cluster.brokers[broker].fenced:
            self.cluster.fence(broker)
        yield self._while(5000, 30_000)
        yield from self._come_back(broker)

    def _crash(self) -> Task:
        broker = self.random.randrange(len(self.cluster.brokers))
        if not self._takes_down(broker):
            return
        yield self._while(0, SESSION)
        self.cluster.fence(broker)
        yield self._while(2000, 60_000)
        yield from self._come_back(broker)

    def _come_back(self, broker: int) -> Task:
        self.cluster.register(broker)
        yield self._while(500, 5000)
        self.cluster.unfence(broker)
        self._down.discard(broker)
        yield self._while(200, 5000)
        yield from self._bring_back(list(self.cluster.by_broker[broker]), broker)

    # --- operators --------------------------------------------------------------------------------------

    def _any_partition(self) -> Partition | None:
        if not self._all:
            self._all = list(self.cluster.partitions())
        return self.random.choice(self._all) if self._all else None

    def _reassignment(self) -> Task:
        """Some partitions get another replica in the place of one, or other replicas altogether."""
        chosen: dict[Partition, Ids] = {}
        for _ in range(self.random.randint(1, 20)):
            partition = self._any_partition()
            active = [b.number for b in self.cluster.brokers if self.cluster.is_active(b.number)]
            if partition is None or partition.node.state.adding or partition.node.state.removing:
                continue
            target = list(partition.node.state.replicas)
            others = [b for b in active if b not in target]
            for place in (
                range(self._factor) if self.random.random() < 0.1 else (self.random.randrange(self._factor),)
            ):
                if others:
                    target[place] = others.pop(self.random.randrange(len(others)))
            if self.random.random() < 0.2:
                self.random.shuffle(target)
            chosen[partition] = tuple(target)
        self.cluster.reassign(chosen.items())
        yield self._while(2000, 30_000)
        cancelled = [p for p in chosen if p.node.state.adding and self.random.random() < 0.1]
        self.cluster.cancel(cancelled)
        adding = {b for p in chosen for b in p.node.state.adding}
        for broker in sorted(adding):
            yield self._while(100, 5000)
            yield from self._bring_back([p for p in chosen if broker in p.node.state.adding], broker)

    def _other_min_isr(self) -> Task:
        if not self.cluster.topics or self._factor == 1:
            return
        topic = self.random.choice(self.cluster.topics)
        before = topic.min_isr
        value = self.random.choice([v for v in range(1, self._factor + 1) if v != before])
        self.cluster.configure(topic, "min.insync.replicas", str(value))
        yield self._while(60_000, 600_000)
        if topic in self.cluster.topics and topic.min_isr != self._min_isr:
            self.cluster.configure(topic, "min.insync.replicas", str(self._min_isr))

    def _topics_come_and_go(self) -> Task:
        """A topic is deleted, and another one of its size created."""
        if len(self.cluster.topics) > 1:
            topic = self.random.choice(self.cluster.topics)
            self.cluster.delete(topic)
            self._all = []
            yield self._while(1000, 60_000)
            self._create(len(topic.partitions), len(topic.partitions))

    def _create(self, most: int, size: int | None = None) -> int:
        """Create a topic; the number of its partitions, 0 where too few brokers are there."""
        active = [b.number for b in self.cluster.brokers if self.cluster.is_active(b.number)]
        if len(active) < self._factor:
            return 0
        size = min(most, self.random.choice(TOPIC_SIZES)) if size is None else size
        self.random.shuffle(active)
        assignments = []
        for number in range(size):
            # As Kafka strides over the brokers: the followers are further away with each round.
            first, round_ = number % len(active), number // len(active)
            rest = [active[(first + 1 + i) % len(active)] for i in range(len(active) - 1)]
            followers = [rest[(round_ + i) % len(rest)] for i in range(self._factor - 1)]
            assignments.append((active[first], *followers))
        configs = {"min.insync.replicas": str(self._min_isr)}
        if self.random.random() < 0.3:
            configs["retention.ms"] = "86400000"
        if self.random.random() < 0.05:
            configs["unclean.leader.election.enable"] = "true"
        self.cluster.create(assignments, configs)
        self._all = []
        return size


def _by_leader(partitions: Iterable[Partition]) -> dict[int, list[Partition]]:
    found: dict[int, list[Partition]] = {}
    for partition in partitions:
        if partition.node.leader >= 0:
            found.setdefault(partition.node.leader, []).append(partition)
    return found
