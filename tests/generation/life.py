r"""A busy cluster: random actions of brokers and operators until the log has enough records.

Approximate rates in a cluster of 10,000 partitions:

* A leader's partitions lose a follower for a while (1 to 10 in a request): twice a second.
* A slow broker falls behind with a tenth to two thirds of its partitions: every minute.
* A broker crashes, is fenced when its session expires, and comes back: every quarter of an hour.
* All brokers are restarted one after the other: every two hours.
* Preferred replicas are elected, at most 1000 in a decision: every five minutes.
* One to twenty partitions are reassigned, and some reassignments are cancelled: every minute.
* A topic's min.insync.replicas changes for a while: every ten minutes.
* A topic is created or deleted: every five minutes.
* Another controller is elected: every two hours.
* A NO_OP_RECORD: every 500 ms.

In a smaller cluster everything except the NO_OP_RECORD is more frequent, in inverse proportion to the
partitions. Leaders bring back a follower in requests of 1 (two fifths), 2 to 10, 10 to 60, or 60 to 300
partitions. Decisions within 25 ms share a batch, as in Kafka.

A log of 5 million records (10,000 partitions, seed 0) has 755,000 batches with 6.6 records on average. Two
thirds of the batches have one record, a quarter 2 to 10, a tenth 11 to 100, and 0.5% more; the last hold 31%
of all records.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
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
"""Partition counts of topics, all equally likely."""
FACTOR, MIN_ISR = 3, 2
"""The replicas of each partition, and their min.insync.replicas."""
SESSION = 9000
"""Kafka's ``broker.session.timeout.ms``."""
FULL_SIZE = 10_000
"""The number of partitions for which the rates above hold."""

Task = Generator[float, None, None]
"""A process in the cluster: it yields the ms until its next step."""


def write_log(
    directory: Path,
    partitions: int = 10_000,
    records: int = 5_000_000,
    brokers: int = 12,
    seed: int = 0,
    elr: bool = True,
    segment_bytes: int = SEGMENT_BYTES,
    snapshot_every: int = 0,
) -> int:
    """Write a metadata log of at least ``records`` records into an existing directory; a seed always gives
    the same log. Returns the number of records.

    ``elr``: behave like Kafka 4.2 with ELR on, else as before KIP-966 (metadata version 4.0-IV0).
    ``segment_bytes``: the most bytes of a segment. ``snapshot_every``: records between snapshots; 0 for none.
    """
    with LogWriter(directory, segment_bytes) as log:
        life = _Life(Cluster(log, brokers, elr, Random(seed), START), partitions)
        life.begin()
        life.live(records, snapshot_every)
    return log.offset


class _Life:
    """All tasks of the cluster, ordered by the time of their next step."""

    def __init__(self, cluster: Cluster, partitions: int) -> None:
        self.cluster, self.random, self._wanted = cluster, cluster.random, partitions
        self._queue: list[tuple[float, int, Task]] = []
        self._started = 0
        self._pace = min(1.0, max(0.004, partitions / FULL_SIZE))
        self._all: list[Partition] = []
        """A cache of all partitions; empty if it must be rebuilt."""
        self._down: set[int] = set()
        self._behind: dict[tuple[Partition, int], None] = {}

    def begin(self) -> None:
        """Register the brokers and create the topics."""
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
        """Run the tasks until the log has its records."""
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

    # --- scheduling -------------------------------------------------------------------------------------

    def _push(self, time: float, task: Task) -> None:
        self._started += 1
        heappush(self._queue, (time, self._started, task))

    def _start(self, delay: float, task: Task) -> None:
        self._push(self.cluster.time + delay, task)

    def _often(self, gap: float, what: Callable[[], Task]) -> None:
        """Start a task repeatedly, every ``gap`` ms on average."""

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
        """A random duration in ms; shorter in a smaller cluster."""
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

    def _blip(self) -> Task:
        """A few partitions of a leader lose a follower, which returns later."""
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
        """The partition and up to ``count`` random partitions of its topic."""
        return [
            partition,
            *self.random.sample(
                list(partition.topic.partitions), min(count, len(partition.topic.partitions))
            ),
        ]

    def _slow_broker(self) -> Task:
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
        """Leaders return a caught-up follower to the ISR, in requests of different sizes."""
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
        """Return all caught-up replicas to the ISR."""
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
        """Split partitions into requests of random sizes."""
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
        """Mark a broker as down if it may go down: at most two are down together, so partitions survive."""
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
        yield from self._come_back(broker, clean=self.cluster.elr)

    def _crash(self) -> Task:
        broker = self.random.randrange(len(self.cluster.brokers))
        if not self._takes_down(broker):
            return
        yield self._while(0, SESSION)
        self.cluster.fence(broker)
        yield self._while(2000, 60_000)
        yield from self._come_back(broker)

    def _come_back(self, broker: int, clean: bool = False) -> Task:
        self.cluster.register(broker, clean)
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
        """Reassign some partitions: one replica is replaced, or all are."""
        chosen: dict[Partition, Ids] = {}
        for _ in range(self.random.randint(1, 20)):
            partition = self._any_partition()
            active = [b.number for b in self.cluster.brokers if self.cluster.is_active(b.number)]
            if partition is None or partition.node.state.adding or partition.node.state.removing:
                continue
            target = list(partition.node.state.replicas)
            others = [b for b in active if b not in target]
            for place in range(FACTOR) if self.random.random() < 0.1 else (self.random.randrange(FACTOR),):
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
        if not self.cluster.topics:
            return
        topic = self.random.choice(self.cluster.topics)
        before = topic.min_isr
        value = self.random.choice([v for v in range(1, FACTOR + 1) if v != before])
        changed = self.cluster.set_min_isr(topic, value)
        yield self._while(60_000, 600_000)
        while changed and topic in self.cluster.topics and topic.min_isr != MIN_ISR:
            changed = not self.cluster.set_min_isr(topic, MIN_ISR)
            yield self._while(1000, 60_000)

    def _topics_come_and_go(self) -> Task:
        if len(self.cluster.topics) > 1:
            topic = self.random.choice(self.cluster.topics)
            self.cluster.delete(topic)
            self._all = []
            yield self._while(1000, 60_000)
            self._create(len(topic.partitions), len(topic.partitions))

    def _create(self, most: int, size: int | None = None) -> int:
        """Create a topic; returns its number of partitions, 0 if too few brokers are active."""
        active = [b.number for b in self.cluster.brokers if self.cluster.is_active(b.number)]
        if len(active) < FACTOR:
            return 0
        size = min(most, self.random.choice(TOPIC_SIZES)) if size is None else size
        self.random.shuffle(active)
        assignments = []
        for number in range(size):
            # Like Kafka's striped placement, the followers move one broker further with each round.
            first, round_ = number % len(active), number // len(active)
            rest = [active[(first + 1 + i) % len(active)] for i in range(len(active) - 1)]
            followers = [rest[(round_ + i) % len(rest)] for i in range(FACTOR - 1)]
            assignments.append((active[first], *followers))
        configs = {"min.insync.replicas": str(MIN_ISR)}
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
