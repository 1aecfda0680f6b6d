"""Tracks the partitions of a log: the metadata image, the belief state of each partition, and the report.

``follow`` reads the records; ``records`` and ``pending`` turn them into observations for this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from highwater.traces.kafka.values import LATEST, DamagedRecord, UnknownRecord, decode_change, undefined
from highwater.traces.metadata.beliefs import updates
from highwater.traces.metadata.beliefs.automaton import Automaton
from highwater.traces.metadata.beliefs.belief_states import (
    BeliefState,
    BeliefStates,
    CannotFollow,
    Transition,
)
from highwater.traces.metadata.beliefs.controller_stepper import MAX_BROKERS
from highwater.traces.metadata.beliefs.evidence import Brokers, Change, Observation
from highwater.traces.metadata.image import RULE, Image, Partition, placed
from highwater.traces.metadata.reporting import NOBODY, Doubts, Reporter, Watch
from highwater.traces.reading import TraceError
from highwater.traces.reports.findings import Candidate
from highwater.traces.reports.report import Report
from highwater.traces.rules.profiles import RuleSet, newer_than_profiles, rules_at

BEFORE = "changes of what was there before the log begins"
"""The kind of the records that are skipped because the log lacks its beginning."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record to follow, with its offset and the time of its append (ms since the epoch)."""

    offset: int
    time: int
    type: str
    version: int
    data: Mapping[str, Any]
    partition_key: bytes


class Followed(NamedTuple):
    """A partition's transition and its observations with their offsets.

    The transition is None if nothing could be followed.
    """

    transition: Transition | None
    observations: Sequence[Observation]
    offsets: Sequence[int]


class Tracker:
    """The metadata image of a log so far, and the report on it.

    ``profile`` and ``switched`` override the rules of the log's feature levels. Raises LanguageError for a profile or
    rule that does not exist.
    """

    def __init__(
        self,
        report: Report,
        profile: str | None = None,
        switched: Mapping[str, bool] | None = None,
        watch: Watch = NOBODY,
    ) -> None:
        self.report, self.image = report, Image()
        self.reporter = Reporter(report, self.image, watch)
        self.watch = watch
        self._profile, self._switched = profile, switched
        self.rules = rules_at({}, profile, switched)
        """The rules of the feature levels so far, as ``automaton`` last took them over."""
        self._automaton = self._with_rules(self.rules)
        self.path = Path()
        self.is_loading = False
        self.is_migrating = False
        self.lacks_beginning = False
        """True if the log has neither its first record nor a snapshot."""
        self.has_new_features = False
        """True if features or controllers have changed, but the rules are still those of the former ones."""
        self._features_from: tuple[int, int | None] | None = None
        """The offset of features that ``check_features`` has not checked yet, and the offset from which a doubt about
        them counts (None: the same)."""
        self.doubts = Doubts()
        self._is_newer = False
        """True once the doubt is reported that no profile covers the features. One doubt is enough."""
        self.is_last = False
        """True while the last records of a controller are followed, if it failed in the middle of a decision."""
        self._astray: list[tuple[Partition, int, frozenset[int]]] = []

    @property
    def beliefs(self) -> BeliefStates:
        """All belief states under the rules so far."""
        return self._automaton.beliefs

    @property
    def follows_directories(self) -> bool:
        """True if the rules depend on the log directories of replicas."""
        return RULE in self.beliefs.rules

    def doubt(
        self,
        kind: str,
        summary: str,
        offset: int,
        partitions: Iterable[str] | None = None,
        since: int | None = None,
    ) -> None:
        """Add a doubt, as ``Doubts.add`` does."""
        # Offsets in a snapshot are no offsets of the log: a doubt about it counts from offset 0.
        self.doubts.add(kind, summary, offset, partitions, 0 if self.is_loading else since)

    def damaged(self, offset: int, message: str) -> TraceError:
        """The error for a record that cannot be read; the caller raises it."""
        return TraceError(self.path, None, f"offset {offset}", message)

    def unreadable(self, unknown: UnknownRecord, offset: int, partitions: Iterable[str] | None) -> None:
        """Add a doubt about a record whose type is known and whose version is not.

        ``partitions`` is None if the record can concern any partition.
        """
        newest = LATEST[unknown.type or ""]
        what = (
            f"{unknown.type} version {unknown.version} cannot be read; the newest that is known is {newest}"
        )
        self.doubt("unreadable version", what, offset, partitions)

    def is_newer(self, type: str, version: int, offset: int) -> None:
        """Add a doubt if a record that was read has a version above the newest known one."""
        if version > LATEST[type]:
            what = f"{type} version {version} is read as version {LATEST[type]}, the newest that is known"
            self.doubt("unreadable version", what, offset)

    def fields(self, change: bytes) -> Mapping[str, Any]:
        """The fields of a change. Raises UnknownRecord, DamagedRecord or CannotFollow if it cannot be decoded."""
        return self._automaton.record(change)

    # --- partitions -----------------------------------------------------------------------------------

    def take_plain(self, partition: Partition, transition: Transition | None, time: int) -> bool:
        """Let a partition take its cached transition. False, and nothing is done, if there is none or it has news."""
        if (
            transition is None
            or not transition.is_plain
            or partition.state is not None
            or partition.resized is not None
        ):
            return False
        partition.advance(transition)
        self.report.changes += transition.changes
        if transition.is_timed:
            self.reporter.conditions(partition, transition.after, time)
        return True

    def follow(
        self,
        partition: Partition,
        observations: Sequence[Observation],
        offsets: Sequence[int],
        time: int,
        known: Transition | None = None,
    ) -> Followed:
        """Apply observations to a partition: by ``known``, their cached transition, or else by explaining them.

        Raises TraceError if a record is damaged.
        """
        before, binding = partition.belief, partition.binding
        try:
            if known is None and self.follows_directories:
                observations, offsets = placed(self.image, self.fields, partition, observations, offsets)
            transition, brokers = (
                (known, binding.brokers)
                if known
                else self._automaton.transition(before, binding, observations, self.is_last)
            )
        except CannotFollow as why:
            self.lost(partition.name, offsets[-1], time, str(why))
            self.image.unfollow(partition)
            return Followed(None, observations, offsets)
        except UnknownRecord as unknown:
            self.reporter.skipped(f"{unknown.type} version {unknown.version}")
            self.unreadable(unknown, offsets[0], (partition.name,))
            self.image.unfollow(partition)
            return Followed(None, observations, offsets)
        except DamagedRecord as wrong:
            raise self.damaged(offsets[-1], str(wrong)) from None
        for observation, offset in zip(observations, offsets, strict=True):
            if isinstance(observation, Change):
                self.is_newer("PARTITION_CHANGE_RECORD", observation.raw[2], offset)
        partition.advance(transition)
        if transition.moves:
            order = transition.spans[-1].order
            partition.binding = self._automaton.binding(tuple([brokers[slot] for slot in order]))
            self.image.place(partition, binding.brokers)
        self._first_of_topic(partition, before, offsets[-1], time)
        if before.is_indexed_astray:
            self._goes_astray(partition, before, binding.brokers, transition, brokers)
        self.report.changes += transition.changes
        self.reporter.transition(partition, transition, brokers, offsets, time, (before, binding.brokers))
        self.reporter.conditions(partition, transition.after, time)
        return Followed(transition, observations, offsets)

    def lost(self, name: str, offset: int, time: int, why: str) -> None:
        """Report a partition that cannot be followed any further."""
        self.reporter.unexplained(offset, time, name, (Candidate("any", {}, (why,)),))
        if name:
            self.doubt("not followed", "partitions that cannot be followed", offset, (name,), offset + 1)

    def _first_of_topic(self, partition: Partition, before: BeliefState, offset: int, time: int) -> None:
        """Let the topic's other partitions follow a change of the number of replicas of the first partition.

        That number can change the topic's effective min.insync.replicas (966.2).
        """
        topic = partition.topic
        if topic is None or partition.number:
            return
        if len(partition.belief.observed.replicas) == len(before.observed.replicas):
            return
        for other in topic.partitions.values():
            if other is not partition:
                self.follow(other, [self.image.settings_of(other)], [offset], time)

    def _goes_astray(
        self,
        partition: Partition,
        before: BeliefState,
        members: Brokers,
        transition: Transition,
        brokers: Brokers,
    ) -> None:
        """Note the entries that a transition leaves in the controller's ELR index without a matching ELR member.

        Kafka turns them into entries of the topic's first partition. ``members`` are the brokers of the slots before
        the transition, ``brokers`` are those of the slots in its spans.
        """
        first = None if partition.topic is None else partition.topic.partitions.get(0)
        if first is None or first is partition:
            return
        for span in transition.spans:
            after = tuple([brokers[slot] for slot in span.order])
            slots = {broker: slot for slot, broker in enumerate(after)}
            for slot in before.observed.elr:
                broker = members[slot]
                numbers = updates.astray(self.beliefs, before, span.belief, slot, slots.get(broker))
                if numbers != {0}:
                    self._astray.append((first, broker, numbers))
            before, members = span.belief, after

    def index(self) -> None:
        """Give each topic's first partition the ELR index entries that went astray in decisions (``_goes_astray``)."""
        beliefs = self.beliefs
        for first, broker, numbers in self._astray:
            before = first.binding.brokers
            if broker not in before and len(before) < MAX_BROKERS:
                first.belief = beliefs.widened(first.belief, [self.image.flags(broker)])
                first.binding = self._automaton.binding((*before, broker))
                self.image.place(first, before)
            if broker in first.binding.slots:
                first.belief = updates.with_astray(
                    beliefs, first.belief, first.binding.slots[broker], numbers
                )
        self._astray.clear()

    # --- rules ----------------------------------------------------------------------------------------

    def _with_rules(self, chosen: RuleSet) -> Automaton:
        return Automaton(BeliefStates(chosen.rules), _decoded, self.image.flags)

    def renew_rules(self, offset: int) -> None:
        """Note that the features or the controllers changed at an offset; both decide which rules apply."""
        self.has_new_features = True
        if self._features_from is None:
            self._features_from = offset, 0 if self.is_loading else None

    def check_features(self) -> None:
        """Add a doubt if no profile covers the present features.

        The log begins with one feature after another, and the controllers register later. So features are checked at
        the end of a decision, once there is a partition, or a line of the report.
        """
        if self._features_from is None or self._is_newer:
            return
        (offset, since), self._features_from = self._features_from, None
        why = newer_than_profiles(self.image.features, self.image.controllers)
        if why is not None:
            self._is_newer = True
            self.doubts.add("newer version", why, offset, None, since)

    def automaton(self) -> Automaton:
        """The automaton under the rules of the present feature levels.

        If the levels have changed the rules, the belief states of all partitions are converted to the new rules.
        """
        if not self.has_new_features:
            return self._automaton
        self.has_new_features, image = False, self.image
        chosen = rules_at(image.features, self._profile, self._switched, image.controllers)
        if chosen != self.rules:
            self.rules, followed = chosen, self.follows_directories
            before, self._automaton = self._automaton, self._with_rules(chosen)
            stand_ins = [b.partition for b in self.image.brokers.values() if b.partition is not None]
            for partition in (*self.image.of_topics(), *stand_ins):
                slots = partition.binding.slots
                # Directories that were not followed are unknown.
                partition.directories = partition.directories if followed else ()
                offline = (
                    [slots[b] for b in self.image.offline(partition)] if self.follows_directories else ()
                )
                partition.belief = self._automaton.adopted(partition.belief, before, offline)
        return self._automaton

    def after_failover(self) -> None:
        """Note that another controller writes from here on.

        If it started from a snapshot, its ELR index lacks the entries that match no ELR member.
        """
        for partition in self.image.of_topics():
            if partition.belief.is_indexed_astray:
                partition.belief = updates.after_failover(self.beliefs, partition.belief)

    def close(self, time: int) -> None:
        """Finish at the end of the log: report the final partitions and the sizes of the tables."""
        self.automaton()  # the last features count, even if no partition changes after them
        self.check_features()
        for partition in self.image.of_topics():
            self.reporter.ends(partition, time)
        self.report.figures["beliefs"] = len(self.beliefs)
        self.report.figures["steps explained"] = self._automaton.explained
        self.report.figures["brokers"] = len(self.image.brokers)


def _decoded(change: bytes) -> Mapping[str, Any]:
    """The fields of a change. Raises CannotFollow for a value that the model does not define."""
    kind, _, data = decode_change(change)
    for name, (defined, value) in undefined(kind, data).items():
        raise CannotFollow(f"{name} is {value}, and {defined} is defined")
    return data
