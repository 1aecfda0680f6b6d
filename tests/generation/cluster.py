"""The controller's view of a cluster, and the records that it appends for each decision.

A decision's records are in the order of ``model/replication/controller/registrations.py``.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Any

from highwater.model.replication.controller.rules import PROFILES
from highwater.model.replication.controller.types import NO_LEADER
from highwater.traces.kafka.values import encode
from tests.generation import records
from tests.generation.partitions import NAMED_TO, Ids, Node, Question, Rules, State, Step
from tests.generation.writing import LogWriter

MAX_ELECTIONS = 1000
"""The most preferred elections of one decision of the periodic task (Kafka's limit)."""
CONTROLLERS = (3000, 3001, 3002)
_NAME = struct.Struct(">i16s")


class Partition:
    """A partition of a topic. ``head`` is the first bytes of each record about the partition."""

    __slots__ = ("head", "leader_epoch", "node", "number", "partition_epoch", "topic")

    def __init__(self, topic: Topic, number: int, head: bytes, node: Node) -> None:
        self.topic, self.number, self.head, self.node = topic, number, head, node
        self.leader_epoch = self.partition_epoch = 0


class Topic:
    """A topic with its settings; ``min_isr`` and ``unclean`` are the effective ones."""

    def __init__(self, name: str, identity: bytes, configs: dict[str, str]) -> None:
        self.name, self.identity, self.configs = name, identity, configs
        self.partitions: list[Partition] = []
        self.deleted = False

    @property
    def min_isr(self) -> int:
        """The setting min.insync.replicas, which here never exceeds the number of replicas."""
        return int(self.configs[records.MIN_ISR])

    @property
    def unclean(self) -> bool:
        return self.configs.get(records.UNCLEAN) == "true"


class Broker:
    """A broker's registration."""

    def __init__(self, number: int) -> None:
        self.number, self.epoch, self.incarnation = number, -1, ""
        self.fenced, self.shutting_down = True, False


class Cluster:
    """The cluster's state. Each method makes a controller decision at ``time`` (ms) and appends its records."""

    def __init__(self, log: LogWriter, brokers: int, elr: bool, random: Random, time: int) -> None:
        self.log, self.random, self.elr, self.time = log, random, elr, time
        self.brokers = [Broker(b) for b in range(brokers)]
        self.active = 0
        self.topics: list[Topic] = []
        # For each broker, the partitions that have it as replica or ELR member.
        self.by_broker: list[dict[Partition, None]] = [{} for _ in self.brokers]
        self.directories = [self._uuid() for _ in self.brokers]
        self._controllers = [self._uuid() for _ in CONTROLLERS]
        profile = PROFILES["kafka_4_2" if elr else "before_kip_966"]
        self.metadata_version = 29 if elr else 22
        self._version = 2 if elr else 1
        self.rules = Rules(profile.rules, self._version, self.directories)
        self._change_frame = records.partition_change(0, "A" * 22, self._version)
        self._no_op = encode("NO_OP_RECORD", 0, {})

    def _uuid(self) -> str:
        return _text(self.random.randbytes(16))

    def is_active(self, broker: int) -> bool:
        """True if the broker is registered, unfenced, and not shutting down."""
        return bool(self.active >> broker & 1)

    def partitions(self) -> Iterator[Partition]:
        for topic in self.topics:
            yield from topic.partitions

    def _append(self, values: Sequence[bytes]) -> None:
        if values:
            self.log.append(values, self.time)

    # --- controller -----------------------------------------------------------------------------------

    def start(self) -> None:
        """The first controller is elected and writes the feature levels."""
        self.log.new_epoch(CONTROLLERS[0], self.time)
        self.time += 200
        self._append(records.together(*self._features(), *self._defaults(), name="Bootstrap records"))
        for number in range(len(CONTROLLERS)):
            self.time += 100
            self._append([self._controller(number)])

    def fail_over(self) -> None:
        self.log.new_epoch(self.random.choice(CONTROLLERS), self.time)

    def no_op(self) -> None:
        self._append([self._no_op])

    def _features(self) -> list[bytes]:
        elr = [records.feature(records.ELR, 1)] if self.elr else []
        return [
            records.feature(records.METADATA, self.metadata_version),
            *elr,
            records.feature("group.version", 1),
        ]

    def _defaults(self) -> list[bytes]:
        """K15. With ELR on, the cluster has a min ISR; here every topic has its own."""
        return [records.setting(records.MIN_ISR, "1", "", records.OF_BROKER)] if self.elr else []

    def _controller(self, number: int) -> bytes:
        endpoint = records.endpoint(f"controller-{number}", 9093, "CONTROLLER")
        return records.controller(
            CONTROLLERS[number], self._controllers[number], self._supported(), endPoints=endpoint
        )

    def _supported(self) -> list[records.Data]:
        levels = {"group.version": (0, 1), "kraft.version": (0, 1)} | (
            {records.ELR: (0, 1)} if self.elr else {}
        )
        return records.supported({records.METADATA: (1, self.metadata_version), **levels})

    # --- brokers --------------------------------------------------------------------------------------

    def register(self, number: int, clean: bool = False) -> None:
        """A new incarnation of a broker registers, after a clean shutdown or another one."""
        broker = self.brokers[number]
        values: list[bytes] = []
        if broker.epoch >= 0:
            there = list(self.by_broker[number])
            bit, decision = 1 << number, "restart" if clean else "register"
            self._change(values, [p for p in there if p.node.isr_mask & bit], decision, number)
            if not clean:
                self._change(values, [p for p in there if p.node.elr_mask & bit], decision, number)
        broker.epoch, broker.incarnation = self.log.offset, self._uuid()
        broker.fenced, broker.shutting_down = True, False
        self.active &= ~(1 << number)
        values.append(self._registration(broker))
        self._append(values)

    def fence(self, number: int) -> None:
        values: list[bytes] = []
        self.active &= ~(1 << number)
        self._leave(values, number)
        self.brokers[number].fenced = True
        values.append(self._registration_change(number, fenced=1))
        self._append(values)

    def shut_down(self, number: int) -> None:
        """A broker requests a controlled shutdown; if it leads no partition, it is fenced immediately."""
        if not any(p.node.leader == number for p in self.by_broker[number]):
            self.fence(number)
            return
        self.active &= ~(1 << number)
        self.brokers[number].shutting_down = True
        values = [self._registration_change(number, inControlledShutdown=1)]
        self._leave(values, number)
        self._append(values)

    def unfence(self, number: int) -> None:
        values = [self._registration_change(number, fenced=-1)]
        self.brokers[number].fenced = False
        leaderless = [p for p in self.by_broker[number] if p.node.leader == NO_LEADER]
        self.active |= 1 << number
        self._change(values, leaderless, "unfence", number)
        self._append(values)

    def _leave(self, values: list[bytes], number: int) -> None:
        bit = 1 << number
        self._change(values, [p for p in self.by_broker[number] if p.node.isr_mask & bit], "leave", number)

    def _registration(self, broker: Broker) -> bytes:
        return records.registration(
            broker.number, broker.epoch, broker.incarnation, fenced=broker.fenced,
            inControlledShutdown=broker.shutting_down, logDirs=[self.directories[broker.number]],
            endPoints=records.endpoint(f"broker-{broker.number}", 9092), features=self._supported(),
        )  # fmt: skip

    def _registration_change(self, number: int, **changed: int) -> bytes:
        version = 1 if "inControlledShutdown" in changed else 0
        return records.registration_change(number, self.brokers[number].epoch, version, **changed)

    # --- partitions -----------------------------------------------------------------------------------

    def _change(
        self, values: list[bytes], partitions: Iterable[Partition], decision: str, of: int = NO_LEADER
    ) -> None:
        """Apply one decision to several partitions."""
        active, questions = (
            self.active,
            {t: Question(decision, t.min_isr, t.unclean, of) for t in self.topics},
        )
        for partition in partitions:
            self._take(values, partition, self.rules.step(partition.node, questions[partition.topic], active))

    def _take(self, values: list[bytes], partition: Partition, step: Step | None) -> None:
        if step is None or step.tail is None:
            return
        values.append(partition.head + step.tail)
        partition.partition_epoch += 1
        partition.leader_epoch += step.bumps
        before, after = partition.node, step.after
        partition.node = after
        # A broker that is in the ELR but is no replica counts too.
        if before.mask != after.mask:
            for broker in range(len(self.brokers)):
                if (before.mask & ~after.mask) >> broker & 1:
                    self.by_broker[broker].pop(partition, None)
                elif (after.mask & ~before.mask) >> broker & 1:
                    self.by_broker[broker][partition] = None

    def _decide(self, values: list[bytes], partition: Partition, decision: str, members: Ids = ()) -> None:
        topic = partition.topic
        if topic.deleted:
            return
        question = Question(decision, topic.min_isr, topic.unclean, NO_LEADER, members)
        self._take(values, partition, self.rules.step(partition.node, question, self.active))

    def expand(self, leader: int, partitions: Iterable[Partition], follower: int) -> None:
        """The leader proposes to add the follower to the ISR, for partitions where that is possible."""
        values: list[bytes] = []
        for partition in partitions:
            node = partition.node
            if (
                node.leader == leader
                and follower in node.state.replicas
                and not node.isr_mask >> follower & 1
            ):
                self._decide(values, partition, "alter", (*node.state.isr, follower))
        self._append(values)

    def shrink(self, leader: int, partitions: Iterable[Partition], follower: int) -> None:
        """The leader proposes to remove the follower from the ISR, for partitions where that is possible."""
        values: list[bytes] = []
        for partition in partitions:
            node = partition.node
            if node.leader == leader and node.isr_mask >> follower & 1:
                self._decide(values, partition, "alter", tuple(b for b in node.state.isr if b != follower))
        self._append(values)

    def balance(self) -> bool:
        """Elect preferred replicas; returns True if more elections may be left."""
        active = self.active
        wanted = []
        for partition in self.partitions():
            node = partition.node
            if not node.balanced:
                preferred = 1 << node.state.replicas[0]
                if preferred & active & (node.isr_mask or node.elr_mask):
                    wanted.append(partition)
        values: list[bytes] = []
        self._change(values, wanted[:MAX_ELECTIONS], "balance")
        self._append(values)
        return len(wanted) > MAX_ELECTIONS

    def reassign(self, wanted: Iterable[tuple[Partition, Ids]]) -> None:
        values: list[bytes] = []
        for partition, target in wanted:
            self._decide(values, partition, "reassign", target)
        self._append(values)

    def cancel(self, partitions: Iterable[Partition]) -> None:
        values: list[bytes] = []
        for partition in partitions:
            self._decide(values, partition, "cancel")
        self._append(values)

    # --- topics ---------------------------------------------------------------------------------------

    def create(self, assignments: Sequence[Ids], configs: dict[str, str]) -> Topic:
        """Create a topic with one partition for each entry of ``assignments``."""
        identity = self.random.randbytes(16)
        topic = Topic(f"topic-{identity[:4].hex()}", identity, dict(configs))
        for number, replicas in enumerate(assignments):
            head = self._change_frame[:3] + _NAME.pack(number, identity)
            assert len(head) == NAMED_TO
            partition = Partition(topic, number, head, self.rules.created(replicas, self.active))
            topic.partitions.append(partition)
            for broker in replicas:
                self.by_broker[broker][partition] = None
        self.topics.append(topic)
        self._append(list(self._topic(topic)))
        return topic

    def delete(self, topic: Topic) -> None:
        self.topics.remove(topic)
        topic.deleted = True
        for partition in topic.partitions:
            for of_broker in self.by_broker:
                of_broker.pop(partition, None)
        self._append([records.removed_topic(_text(topic.identity))])

    def set_min_isr(self, topic: Topic, min_isr: int) -> bool:
        """Change a topic's min ISR, unless a partition has an ELR; returns True if it is changed.

        A change that empties an ELR leaves entries in the controller's index (K8), which is not generated.
        """
        if any(p.node.elr_mask or p.node.state.last_known for p in topic.partitions):
            return False
        topic.configs[records.MIN_ISR] = str(min_isr)
        self._append([records.setting(records.MIN_ISR, str(min_isr), topic.name), *self._cleared(topic)])
        return True

    def _cleared(self, topic: Topic) -> list[bytes]:
        """K7. With ELR on, the record that follows each setting of min ISR."""
        return [records.clear(topic.name)] if self.elr else []

    def _topic(self, topic: Topic) -> Iterator[bytes]:
        yield records.topic(topic.name, _text(topic.identity))
        for name in topic.configs:
            yield records.setting(name, topic.configs[name], topic.name)
        yield from self._cleared(topic)
        for partition in topic.partitions:
            yield self._partition(partition)

    def _partition(self, partition: Partition) -> bytes:
        state: State = partition.node.state
        data: dict[str, Any] = {
            "isr": list(state.isr), "removingReplicas": list(state.removing), "addingReplicas": list(state.adding),
            "leader": state.leader, "leaderEpoch": partition.leader_epoch,
            "partitionEpoch": partition.partition_epoch, "directories": [self.directories[b] for b in state.replicas],
        }  # fmt: skip
        if state.recovering:
            data["leaderRecoveryState"] = 1
        if state.elr:
            data["eligibleLeaderReplicas"] = list(state.elr)
        if state.last_known:
            data["lastKnownElr"] = list(state.last_known)
        identity = _text(partition.topic.identity)
        return records.partition(partition.number, identity, state.replicas, self._version, **data)

    # --- snapshots ------------------------------------------------------------------------------------

    def snapshot(self) -> None:
        self.log.flush()
        self.log.snapshot(self._image(), self.time)

    def _image(self) -> Iterator[bytes]:
        yield from self._features()
        for broker in self.brokers:
            yield self._registration(broker)
        for number in range(len(CONTROLLERS)):
            yield self._controller(number)
        for topic in self.topics:
            yield records.topic(topic.name, _text(topic.identity))
            for partition in topic.partitions:
                yield self._partition(partition)
        for topic in self.topics:
            for name in topic.configs:
                yield records.setting(name, topic.configs[name], topic.name)
        yield from self._defaults()


def _text(identity: bytes) -> str:
    return urlsafe_b64encode(identity).decode().rstrip("=")
