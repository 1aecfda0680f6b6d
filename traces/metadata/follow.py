"""Following a metadata log: each record changes the image, and must be what the model's actions explain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from traces.errors import TraceError
from traces.kafka.batches import RecordBatch
from traces.kafka.values import TYPES, DamagedRecord, MetadataRecord, UnknownRecord, api_key, decode
from traces.metadata.beliefs import Beliefs, Flags
from traces.metadata.findings import finding
from traces.metadata.image import BROKER, MIN_ISR, TOPIC, UNCLEAN, Broker, Image, Partition, Topic
from traces.metadata.profiles import rule_sets
from traces.metadata.situations import Situations
from traces.metadata.slots import CannotFollow
from traces.metadata.steps import BrokerEvent, Change, Item, Settings, Situation, Step
from traces.observed import PartitionChange, PartitionState
from traces.report import Candidate, Report, Unexplained
from traces.rules import RuleSet

_KEYS = {name: key for key, name in TYPES.items()}
_CHANGE, _PARTITION, _NO_OP = (
    _KEYS["PARTITION_CHANGE_RECORD"],
    _KEYS["PARTITION_RECORD"],
    _KEYS["NO_OP_RECORD"],
)
_QUICK = frozenset({_CHANGE, _NO_OP})
_NAMED_BY = slice(3, 23)
"""Where a partition's number and topic id stand in a record about it."""
_BEGIN, _END, _ABORT = (_KEYS[f"{what}_TRANSACTION_RECORD"] for what in ("BEGIN", "END", "ABORT"))
MAX_TRANSACTION = 1_000_000
"""So many records of a metadata transaction are kept until it ends."""
SPLIT = 10_000
"""A decision with more records than this is appended in several batches (Kafka's limit for one)."""
MAX_LEVEL = 2
LOG_DIRS_VERSION = 2
"""From this version on a BrokerRegistrationChangeRecord can be about log directories alone; before, one without
flags would say nothing, and none is written."""
_WHOLE = Settings((1,), (False,))

OnChange = Callable[[PartitionChange], None]
OnSetting = Callable[[str | None], None]
Tracks = Callable[[str], bool]


class Follower:
    """The metadata image of a log so far, and the report on it.

    ``profile`` and ``switched`` override the rules that the log calls for. ``on_change`` is told each change of
    the partitions whose names ``tracks`` accepts, and ``on_setting`` the topic whose settings changed, None for all.
    Raises LanguageError for a profile or rule that does not exist.
    """

    def __init__(
        self,
        report: Report,
        profile: str | None = None,
        switched: Mapping[str, bool] | None = None,
        tracks: Tracks | None = None,
        on_change: OnChange | None = None,
        on_setting: OnSetting | None = None,
    ) -> None:
        self.report, self.image = report, Image()
        self._profile, self._switched = profile, switched
        self._tracks, self._on_change, self._on_setting = tracks, on_change, on_setting
        self._rule_sets: tuple[RuleSet, ...] = rule_sets({}, profile, switched)
        self._situations = self._with_rules(self._rule_sets)
        self._surviving = set(range(len(self._rule_sets)))
        self._path = Path()
        self._loading = False
        self._transaction: list[tuple[int, int, bytes]] | None = None
        self._held: tuple[list[int], int, list[bytes]] | None = None
        self._last_time = 0
        self._events: dict[tuple[str, int, Flags], BrokerEvent] = {}

    def _with_rules(self, sets: tuple[RuleSet, ...]) -> Situations:
        return Situations(Beliefs(tuple(s.rules for s in sets)), _decode_change, self.image.flags)

    # --- batches ------------------------------------------------------------------------------------

    def take(self, path: Path, batch: RecordBatch) -> None:
        """Follow one batch. Raises TraceError where a record in it cannot be read."""
        self._path = path
        values = batch.values
        report = self.report
        report.records += len(values)
        if batch.control:
            _count(report, "control records", len(values))
            return
        time = batch.timestamp
        if time > self._last_time:
            self._last_time = time
        try:
            kinds = {value[1] for value in values}  # type: ignore[index]
        except (IndexError, TypeError):
            raise self._damaged(batch.base_offset, "a record without a value") from None
        full = len(values) % SPLIT == 0 and len(values) > 0
        if full or not kinds <= _QUICK or self._transaction is not None or self._held is not None:
            self._with_held(batch.offsets, time, values)  # type: ignore[arg-type]
            return
        partitions = self.image.partitions
        changes = 0
        for position, value in enumerate(values):
            assert value is not None
            if value[1] != _CHANGE:
                _count(report, "NO_OP_RECORD", 1)
                continue
            partition = partitions.get(value[_NAMED_BY])
            if partition is None:
                self._unknown_partition(batch.offsets[position], time, value)
                continue
            step = partition.situation.steps.get(value[:3] + value[23:])
            if step is None or step.notable or partition.state is not None:
                self._go_on(partition, [Change(value[:3] + value[23:])], [batch.offsets[position]], time)
                continue
            changes += step.changes
            before, partition.situation = partition.situation, step.after
            partition.partition_epoch += step.changes
            partition.leader_epoch += step.bumps
            if before.brokers is not step.after.brokers:
                self.image.place(partition, before)
        report.changes += changes

    def _with_held(self, offsets: Sequence[int], time: int, values: list[bytes]) -> None:
        """A batch whose records belong together with others of it, or of the next batch where it is full."""
        if self._held is not None:
            earlier, _, kept = self._held
            offsets, values = [*earlier, *offsets], [*kept, *values]
            self._held = None
        full = len(values) % SPLIT == 0 and values[-1][1] == _CHANGE
        if full and len(values) < MAX_TRANSACTION:
            self._held = (list(offsets), time, values)
            return
        self._together(offsets, time, values)

    def settle(self) -> None:
        """Follow what was kept because more of the same decision might have come."""
        if self._held is not None:
            offsets, time, values = self._held
            self._held = None
            self._together(offsets, time, values)

    @contextmanager
    def loading(self) -> Iterator[None]:
        """While a snapshot is loaded: records are states, not changes."""
        self._loading = True
        try:
            yield
        finally:
            self._loading = False

    def finish(self) -> None:
        """Nothing follows any more: close what is open, and name the profile."""
        self.settle()
        if self._transaction is not None:
            self.report.notes.append(
                f"the log ends within a metadata transaction of {len(self._transaction)} records"
            )
        for partition in self.image.of_topics():
            self._close(partition, self._last_time)
            self._survives(partition.situation)
        self._name_profile()
        figures = self.report.figures
        figures["situations"] = len(self._situations)
        figures["brokers"] = len(self.image.brokers)
        self.report.partitions = max(self.report.partitions, len(self.image.partitions))

    def _name_profile(self) -> None:
        chosen = min(self._surviving, default=0)
        if not self._surviving:
            self.unexplained(
                {},
                None,
                None,
                (),
                (Candidate("no one of these explains all partitions", {"profiles": self._profile_names()}),),
            )
        found = self._rule_sets[chosen]
        self.report.profile, self.report.rules = found.profile, tuple(sorted(found.rules))

    def _profile_names(self) -> list[str]:
        return [s.profile for s in self._rule_sets]

    def _survives(self, situation: Situation) -> None:
        self._surviving &= {tag for tag, _ in situation.belief.states}

    # --- records that belong together -----------------------------------------------------------------

    def _together(self, offsets: Sequence[int], time: int, values: Sequence[bytes]) -> None:
        pending = _Pending(self, time)
        for offset, value in zip(offsets, values, strict=True):
            if self._transaction is not None or value[1] == _BEGIN:
                pending.flush()
                self._in_transaction(offset, time, value)
                continue
            self._record(pending, offset, time, value)
        pending.flush()

    def _in_transaction(self, offset: int, time: int, value: bytes) -> None:
        """Records between BEGIN and END count when it ends, and not where it is aborted."""
        key = value[1]
        _count(self.report, TYPES.get(key, f"type {key}"), key in (_BEGIN, _END, _ABORT))
        if key == _BEGIN:
            self._transaction = []
            return
        kept = self._transaction
        assert kept is not None
        if key not in (_END, _ABORT):
            if len(kept) >= MAX_TRANSACTION:
                raise self._damaged(offset, f"a metadata transaction of more than {MAX_TRANSACTION} records")
            kept.append((offset, time, value))
            return
        self._transaction = None
        if key == _ABORT:
            _count(self.report, "records of an aborted transaction", len(kept))
            return
        pending = _Pending(self, time)
        for earlier, when, record in kept:
            self._record(pending, earlier, when, record)
        pending.flush()

    def _record(self, pending: _Pending, offset: int, time: int, value: bytes) -> None:
        if value[1] == _CHANGE:
            partition = self.image.partitions.get(value[_NAMED_BY])
            if partition is None:
                self._unknown_partition(offset, time, value)
            else:
                pending.add(partition, Change(value[:3] + value[23:]), offset)
            return
        try:
            key, version = api_key(value)
            known = decode(value) if key in _HANDLED else None
        except UnknownRecord as unknown:
            _count(self.report, f"{unknown.type or 'type'} version {unknown.version}", 1)
            return
        except DamagedRecord as wrong:
            raise self._damaged(offset, str(wrong)) from None
        if known is None:
            _count(self.report, TYPES.get(key, f"type {key} version {version}"), 1)
            return
        _HANDLED[key](self, pending, offset, time, known, value)

    def _damaged(self, offset: int, message: str) -> TraceError:
        return TraceError(self._path, None, f"offset {offset}", message)

    # --- brokers --------------------------------------------------------------------------------------

    def _event(self, kind: str, broker: int, flags: Flags) -> BrokerEvent:
        """The one event with this content."""
        key = (kind, broker, flags)
        if key not in self._events:
            self._events[key] = BrokerEvent(kind, broker, flags)
        return self._events[key]

    def _register(
        self, pending: _Pending, offset: int, time: int, record: MetadataRecord, value: bytes
    ) -> None:
        data = record.data
        broker, epoch = data["brokerId"], data["brokerEpoch"]
        flags = Flags(True, data["fenced"], data.get("inControlledShutdown", False))
        known = self.image.brokers.get(broker)
        if self._loading:
            self._stored(broker, epoch, data["incarnationId"], flags)
            return
        if known is not None and known.incarnation == data["incarnationId"]:
            self._same_incarnation(known, broker, epoch, flags, offset, time)
            return
        first = pending.first_of_decision(offset)
        if not first <= epoch <= offset or (known is not None and epoch <= known.epoch):
            self._wrong_registration(broker, first, offset, time, epoch)
        pending.registration(epoch, offset)
        if known is None:
            known = self._stored(broker, epoch, data["incarnationId"], Flags())
        known.epoch, known.incarnation, known.flags = epoch, data["incarnationId"], flags
        pending.broker(self._event("register", broker, flags), offset)

    def _stored(self, broker: int, epoch: int, incarnation: str, flags: Flags) -> Broker:
        """A broker that is new, with the stand-in that its registration is followed by."""
        found = self.image.brokers[broker] = Broker(epoch, incarnation, flags)
        self._current_rules()
        found.partition = Partition(None, 0, self._situations.initial(PartitionState((broker,), ()), _WHOLE))
        self.image.place(found.partition, None)
        return found

    def _same_incarnation(
        self, known: Broker, broker: int, epoch: int, flags: Flags, offset: int, time: int
    ) -> None:
        """The same incarnation again: it keeps its epoch and its flags."""
        wrong: dict[str, tuple[Any, Any]] = {}
        if epoch != known.epoch:
            wrong["brokerEpoch"] = (known.epoch, epoch)
        if flags != known.flags:
            wrong["registration"] = (known.flags.to_plain(), flags.to_plain())
        if wrong:
            candidate = Candidate("register", {"broker": broker, "same incarnation": True}, (), (), wrong)
            self.unexplained({"offset": offset}, time, None, (), (candidate,))
            known.epoch, known.flags = epoch, flags

    def _wrong_registration(self, broker: int, first: int, offset: int, time: int, epoch: int) -> None:
        """The broker epoch is the offset of the first record of the decision that registers the broker (B8)."""
        said = f"{offset}" if first == offset else f"{first} to {offset}, and above the one before"
        candidate = Candidate("register", {"broker": broker}, (), (), {"brokerEpoch": (said, epoch)})
        self.unexplained({"offset": offset}, time, None, (), (candidate,))

    def _registration_change(
        self, pending: _Pending, offset: int, time: int, record: MetadataRecord, value: bytes
    ) -> None:
        data = record.data
        fenced, shutdown = data.get("fenced", 0), data.get("inControlledShutdown", 0)
        if not fenced and not shutdown and record.version < LOG_DIRS_VERSION:
            candidate = Candidate(
                "change of a registration",
                {"broker": data["brokerId"]},
                (),
                (),
                {"record": ("none", "written")},
            )
            self.unexplained({"offset": offset}, time, None, (), (candidate,))
        self._broker_changes(pending, offset, time, data["brokerId"], data["brokerEpoch"], fenced, shutdown)

    def _fence(self, pending: _Pending, offset: int, time: int, record: MetadataRecord, value: bytes) -> None:
        fenced = 1 if record.type == "FENCE_BROKER_RECORD" else -1
        self._broker_changes(pending, offset, time, record.data["id"], record.data["epoch"], fenced, 0)

    def _broker_changes(
        self, pending: _Pending, offset: int, time: int, broker: int, epoch: int, fenced: int, shutdown: int
    ) -> None:
        known = self.image.brokers.get(broker)
        if known is None or known.epoch != epoch:
            registered = "not registered" if known is None else known.epoch
            candidate = Candidate(
                "change of a registration", {"broker": broker}, (), (), {"brokerEpoch": (registered, epoch)}
            )
            self.unexplained({"offset": offset}, time, None, (), (candidate,))
            if known is None:
                return
        if shutdown:
            known.flags = replace(known.flags, in_controlled_shutdown=shutdown > 0)
            pending.broker(self._event("start_controlled_shutdown", broker, known.flags), offset)
        if fenced:
            known.flags = replace(known.flags, fenced=fenced > 0)
            pending.broker(self._event("fence" if fenced > 0 else "unfence", broker, known.flags), offset)
        if not shutdown and not fenced:
            _count(self.report, "BROKER_REGISTRATION_CHANGE_RECORD of something else", 1)

    def _unregister(
        self, pending: _Pending, offset: int, time: int, record: MetadataRecord, value: bytes
    ) -> None:
        broker, epoch = record.data["brokerId"], record.data["brokerEpoch"]
        known = self.image.brokers.get(broker)
        if known is None or known.epoch != epoch:
            self._broker_changes(pending, offset, time, broker, epoch, 0, 0)
        if known is not None:
            if not known.flags.fenced:
                pending.broker(self._event("fence", broker, replace(known.flags, fenced=True)), offset)
            pending.broker(self._event("unregister", broker, Flags()), offset)
            pending.flush()
            del self.image.brokers[broker]
            if known.partition is not None:
                self.image.remove(known.partition)

    # --- topics and partitions ------------------------------------------------------------------------

    def _topic(self, pending: _Pending, offset: int, time: int, record: MetadataRecord, value: bytes) -> None:
        pending.flush()
        topic = Topic(record.data["name"])
        identity = record.data["topicId"]
        if topic.name in self.image.names:
            self.unexplained(
                {"offset": offset}, time, topic.name, (), (Candidate("create a topic that exists", {}),)
            )
        self.image.names[topic.name] = self.image.topics[identity] = topic

    def _remove_topic(
        self, pending: _Pending, offset: int, time: int, record: MetadataRecord, value: bytes
    ) -> None:
        pending.flush()
        topic = self.image.topics.pop(record.data["topicId"], None)
        if topic is None:
            self.unexplained(
                {"offset": offset},
                time,
                None,
                (),
                (Candidate("remove a topic that does not exist", {"topicId": record.data["topicId"]}),),
            )
            return
        self.image.names.pop(topic.name, None)
        self.image.configs.pop((TOPIC, topic.name), None)
        for partition in topic.partitions.values():
            if partition.key not in self.image.partitions:
                continue
            self._close(partition, time)
            self._survives(partition.situation)
            self.image.remove(partition)
            del self.image.partitions[partition.key]
            if partition.state is not None and self._on_change is not None:
                self._on_change(
                    PartitionChange(
                        offset, time, topic.name, partition.number, partition.state, None, "delete the topic"
                    )
                )

    def _partition(
        self, pending: _Pending, offset: int, time: int, record: MetadataRecord, value: bytes
    ) -> None:
        pending.flush()
        data = record.data
        topic = self.image.topics.get(data["topicId"])
        key = value[_NAMED_BY]
        if topic is None or key in self.image.partitions:
            what = "a topic that does not exist" if topic is None else "a partition that exists"
            self.unexplained(
                {"offset": offset},
                time,
                None if topic is None else f"{topic.name}-{data['partitionId']}",
                (),
                (Candidate(f"create a partition of {what}", {"topicId": data["topicId"]}),),
            )
            return
        self._current_rules()
        state = partition_state(data)
        try:
            settings = self.image.settings(topic, data["partitionId"], len(state.replicas))
            situation = self._situations.initial(state, settings)
            wrong = {} if self._loading else self._situations.wrong_creation(state)
        except CannotFollow as why:
            self._lost(f"{topic.name}-{data['partitionId']}", offset, time, str(why))
            return
        partition = Partition(topic, data["partitionId"], situation, key)
        partition.leader_epoch, partition.partition_epoch = data["leaderEpoch"], data["partitionEpoch"]
        if wrong:
            self.unexplained(
                {"offset": offset}, time, partition.name, (), (Candidate("create", {}, (), (), wrong),)
            )
        self.image.partitions[key] = topic.partitions[partition.number] = partition
        self.image.place(partition, None)
        self.report.partitions = max(self.report.partitions, len(self.image.partitions))
        self._conditions(partition, situation, time)
        if self._tracks is not None and self._tracks(partition.name):
            partition.state = state
            self._tell(partition, offset, time, None, state, "create" if not self._loading else "snapshot")

    def _lost(self, name: str, offset: int, time: int, why: str) -> None:
        """A partition that cannot be followed any further."""
        candidate = Candidate("any", {}, (why,))
        self.unexplained({"offset": offset}, time, name, (), (candidate,))

    def _unknown_partition(self, offset: int, time: int, value: bytes) -> None:
        try:
            data = decode(value).data
        except (UnknownRecord, DamagedRecord) as wrong:
            raise self._damaged(offset, str(wrong)) from None
        parameters = {"partition": data["partitionId"], "topicId": data["topicId"]}
        candidate = Candidate("change a partition that does not exist, or is not followed", parameters)
        self.unexplained({"offset": offset}, time, None, (), (candidate,))

    # --- settings and features ------------------------------------------------------------------------

    def _config(
        self, pending: _Pending, offset: int, time: int, record: MetadataRecord, value: bytes
    ) -> None:
        data = record.data
        resource = (data["resourceType"], data["resourceName"])
        pending.before_settings()
        if data["name"] not in (MIN_ISR, UNCLEAN) or resource[0] not in (TOPIC, BROKER):
            _count(self.report, "CONFIG_RECORD of another setting", 1)
            return
        configs = self.image.configs.setdefault(resource, {})
        if data.get("value") is None:
            configs.pop(data["name"], None)
        else:
            configs[data["name"]] = data["value"]
        if self._on_setting is not None:
            pending.flush()
            self._on_setting(resource[1] if resource[0] == TOPIC else None)
        topics = list(self.image.names.values())
        if resource[0] == TOPIC:
            topics = [t for t in topics if t.name == resource[1]]
        for topic in topics:
            for partition in topic.partitions.values():
                pending.add(partition, self._settings(partition, topic), offset)

    def _settings(self, partition: Partition, topic: Topic) -> Settings:
        replicas = len(partition.situation.belief.observed.replicas)
        return self.image.settings(topic, partition.number, replicas)

    def _feature(
        self, pending: _Pending, offset: int, time: int, record: MetadataRecord, value: bytes
    ) -> None:
        pending.flush()
        self.image.features[record.data["name"]] = record.data["featureLevel"]

    def _current_rules(self) -> None:
        """Go over to the rules that the features call for, where they have changed."""
        sets = rule_sets(self.image.features, self._profile, self._switched)
        if sets == self._rule_sets:
            return
        self._rule_sets = sets
        self._surviving = set(range(len(sets)))
        self._situations = self._with_rules(sets)
        followed = [
            *self.image.of_topics(),
            *(b.partition for b in self.image.brokers.values() if b.partition),
        ]
        for partition in followed:
            partition.situation = self._situations.adopted(partition.situation)

    # --- going on -------------------------------------------------------------------------------------

    def _go_on(
        self, partition: Partition, items: Sequence[Item], offsets: Sequence[int], time: int
    ) -> Step | None:
        before = partition.situation
        try:
            step = self._situations.step(before, items)
        except CannotFollow as why:
            self._lost(partition.name, offsets[-1], time, str(why))
            self.image.remove(partition)
            self.image.partitions.pop(partition.key, None)
            return None
        except (UnknownRecord, DamagedRecord) as wrong:
            raise self._damaged(offsets[-1], str(wrong)) from None
        partition.situation = step.after
        if before.brokers != step.after.brokers:
            self.image.place(partition, before)
            self._first_of_topic(partition, before, offsets[-1], time)
        self.report.changes += step.changes
        if partition.state is not None or step.notable:
            self._tell_hops(partition, step, items, offsets, time)
        else:
            partition.partition_epoch += step.changes
            partition.leader_epoch += step.bumps
        if step.notable:
            self._conditions(partition, step.after, time)
        return step

    def _first_of_topic(self, partition: Partition, before: Situation, offset: int, time: int) -> None:
        """Where the first partition's number of replicas changes, min ISR can change for the topic's others."""
        replicas = len(partition.situation.belief.observed.replicas)
        topic = partition.topic
        if topic is None or partition.number or replicas == len(before.belief.observed.replicas):
            return
        for other in topic.partitions.values():
            if other is not partition:
                self._go_on(other, [self._settings(other, topic)], [offset], time)

    def _tell_hops(
        self, partition: Partition, step: Step, items: Sequence[Item], offsets: Sequence[int], time: int
    ) -> None:
        for hop in step.hops:
            partition.partition_epoch += hop.changes
            partition.leader_epoch += hop.bumps
            offset = offsets[hop.item]
            if hop.candidates is None and not hop.findings and (partition.state is None or not hop.changes):
                continue
            state = replace(
                hop.state, leader_epoch=partition.leader_epoch, partition_epoch=partition.partition_epoch
            )
            if hop.candidates is not None:
                self.unexplained({"offset": offset}, time, partition.name or None, hop.before, hop.candidates)
            for name, certain in hop.findings if partition.topic is not None else ():
                self.report.find(finding(name, certain, partition.name, state, offset, time))
            if partition.state is not None and hop.changes:
                before, partition.state = partition.state, state
                self._tell(partition, offset, time, before, state, hop.cause)

    def _tell(
        self,
        partition: Partition,
        offset: int,
        time: int,
        before: PartitionState | None,
        after: PartitionState,
        cause: str | None,
    ) -> None:
        if self._on_change is None or partition.topic is None:
            return
        settings = self.image.settings(partition.topic, partition.number, len(after.replicas))
        min_isr = min(settings.min_isr[0], len(after.replicas)) if len(settings.min_isr) == 1 else None
        unclean = settings.unclean[0] if len(settings.unclean) == 1 else None
        self._on_change(
            PartitionChange(
                offset, time, partition.topic.name, partition.number, before, after, cause, min_isr, unclean
            )
        )

    def _conditions(self, partition: Partition, situation: Situation, time: int) -> None:
        """Note since when a partition is under min ISR, or without a leader; or for how long it was."""
        if partition.topic is None:
            return
        if situation.under_min_isr != (partition.under_min_isr_since is not None):
            if situation.under_min_isr:
                partition.under_min_isr_since = time
            else:
                self._measured("under min ISR", partition.under_min_isr_since, time)
                partition.under_min_isr_since = None
        if situation.leaderless != (partition.leaderless_since is not None):
            if situation.leaderless:
                partition.leaderless_since = time
            else:
                self._measured("without a leader", partition.leaderless_since, time)
                partition.leaderless_since = None

    def _close(self, partition: Partition, time: int) -> None:
        self._measured("under min ISR", partition.under_min_isr_since, time)
        self._measured("without a leader", partition.leaderless_since, time)

    def _measured(self, condition: str, since: int | None, time: int) -> None:
        if since is None:
            return
        figures, length = self.report.figures, max(0, time - since)
        figures[f"times {condition}"] = figures.get(f"times {condition}", 0) + 1
        figures[f"ms {condition}"] = figures.get(f"ms {condition}", 0) + length
        figures[f"longest ms {condition}"] = max(figures.get(f"longest ms {condition}", 0), length)

    def unexplained(
        self,
        position: Mapping[str, int],
        time: int | None,
        partition: str | None,
        before: Sequence[Mapping[str, Any]],
        candidates: tuple[Candidate, ...],
    ) -> None:
        """Report something that nothing explains."""
        self.report.add(Unexplained(position, time, partition, {"states": list(before)}, candidates))

    def gap(self, path: Path, expected: int, found: int) -> None:
        """Offsets that are missing, or that are there twice."""
        self._path = path
        wrong = {"offset": (expected, found)}
        self.unexplained(
            {"offset": found}, None, None, (), (Candidate("append the next record", {}, (), (), wrong),)
        )


class _Pending:
    """What the records of a batch mean for each partition, until all of them are known."""

    def __init__(self, follower: Follower, time: int) -> None:
        self._follower, self._time = follower, time
        self._items: dict[Partition, list[tuple[Item, int]]] = {}
        self._first: int | None = None
        self._registrations: list[tuple[int, int]] = []
        self._settings_only = True

    def add(self, partition: Partition, item: Item, offset: int) -> None:
        """An item that concerns a partition."""
        found = self._items.get(partition)
        if found is None:
            self._items[partition] = [(item, offset)]
        else:
            found.append((item, offset))
        if self._first is None:
            self._first = offset
        if item.__class__ is not Change:
            self._first = offset + 1
        if item.__class__ is not Settings:
            self._settings_only = False

    def broker(self, event: BrokerEvent, offset: int) -> None:
        """Something that happened to a broker, for all partitions that have it."""
        items, pair = self._items, (event, offset)
        for partition in self._follower.image.replicas.get(event.broker, ()):
            found = items.get(partition)
            if found is None:
                items[partition] = [pair]
            else:
                found.append(pair)
        self._first = offset + 1
        self._settings_only = False

    def first_of_decision(self, offset: int) -> int:
        """The least offset at which the decision can begin whose broker record stands at an offset."""
        return offset if self._first is None else self._first

    def registration(self, epoch: int, offset: int) -> None:
        """The changes from ``epoch`` to ``offset`` belong to one registration."""
        self._registrations.append((epoch, offset))

    def before_settings(self) -> None:
        """A setting comes: what stands before it was decided with the former one."""
        if not self._settings_only:
            self.flush()

    def flush(self) -> None:
        """Follow each partition through what was collected."""
        items, self._items = self._items, {}
        registrations, self._registrations = self._registrations, []
        self._first, self._settings_only = None, True
        follower, changes = self._follower, 0
        for partition, pairs in items.items():
            situation = partition.situation
            if len(pairs) == 1:
                item = pairs[0][0]
                step = situation.steps.get(item.raw if item.__class__ is Change else item)
            else:
                step = situation.steps.get(tuple([pair[0] for pair in pairs]))
            if (
                step is None
                or step.notable
                or partition.state is not None
                or (step.changes and registrations)
                or step.after.brokers is not situation.brokers
            ):
                events, offsets = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
                taken = follower._go_on(partition, events, offsets, self._time)
                if registrations and taken is not None:
                    self._belongs(partition, taken, offsets, registrations)
                continue
            changes += step.changes
            partition.situation = step.after
            partition.partition_epoch += step.changes
            partition.leader_epoch += step.bumps
        follower.report.changes += changes

    def _belongs(
        self, partition: Partition, step: Step, offsets: Sequence[int], registrations: list[tuple[int, int]]
    ) -> None:
        """A registration's epoch says where its decision begins: what is in it must be of it, and nothing else."""
        for hop in step.hops:
            if not hop.changes or hop.cause is None:
                continue
            offset = offsets[hop.item]
            within = any(epoch <= offset < end for epoch, end in registrations)
            causes = hop.cause.split(" or ")
            if ("register" not in causes) if within else causes == ["register"]:
                wrong = {"brokerEpoch": ("the offset of the decision's first record", "another")}
                self._follower.unexplained(
                    {"offset": offset},
                    self._time,
                    partition.name,
                    (),
                    (Candidate("register", {}, (), (), wrong),),
                )


Handler = Callable[[Follower, _Pending, int, int, MetadataRecord, bytes], None]
_HANDLED: dict[int, Handler] = {
    _KEYS["REGISTER_BROKER_RECORD"]: Follower._register,
    _KEYS["BROKER_REGISTRATION_CHANGE_RECORD"]: Follower._registration_change,
    _KEYS["FENCE_BROKER_RECORD"]: Follower._fence,
    _KEYS["UNFENCE_BROKER_RECORD"]: Follower._fence,
    _KEYS["UNREGISTER_BROKER_RECORD"]: Follower._unregister,
    _KEYS["TOPIC_RECORD"]: Follower._topic,
    _KEYS["REMOVE_TOPIC_RECORD"]: Follower._remove_topic,
    _KEYS["PARTITION_RECORD"]: Follower._partition,
    _KEYS["CONFIG_RECORD"]: Follower._config,
    _KEYS["FEATURE_LEVEL_RECORD"]: Follower._feature,
}


def _decode_change(raw: bytes) -> Mapping[str, Any]:
    """The fields of a change, of which the partition was left out."""
    return decode(raw[:3] + bytes(20) + raw[3:]).data


def partition_state(data: Mapping[str, Any]) -> PartitionState:
    """The partition that a PartitionRecord holds."""
    recovery = data.get("leaderRecoveryState", 0)
    return PartitionState(
        tuple(data["replicas"]),
        tuple(data["isr"]),
        tuple(data.get("eligibleLeaderReplicas") or ()),
        tuple(data.get("lastKnownElr") or ()),
        None if data["leader"] < 0 else data["leader"],
        data["leaderEpoch"],
        data["partitionEpoch"],
        "RECOVERING" if recovery == 1 else "RECOVERED",
        tuple(data["addingReplicas"]),
        tuple(data["removingReplicas"]),
    )


def _count(report: Report, what: str, number: int) -> None:
    if number:
        report.skipped[what] = report.skipped.get(what, 0) + number


__all__ = ["Follower", "OnChange", "OnSetting", "Tracks", "partition_state"]
