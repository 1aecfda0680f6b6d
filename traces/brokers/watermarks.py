"""Checks HWM and LEO in brokers' logs against the properties of replication.

The metadata log has the elections with their sources, and the ISR and min ISR of each partition epoch. The brokers'
logs have the start offset of each leader epoch and the HWM reached in it. The clocks of different machines are never
compared: leader epochs and partition epochs order the events, and times order only the lines of one broker.

Properties, each with what violates it:

* **leader_completeness** (B4, KIP-966's promise): a leader starts an epoch at LEO L although the HWM had reached
  H > L. The leader lacks the offsets [L, H), and followers truncate to its log. The same property covers a leader
  that restarts within its epoch with a shorter log.
* **committed_records_survive** (KIP-966's promise): no other replica has the lost offsets either. It is reported only
  if every replica's log shows its end.
* **consumers_read_consistently** (B4, B6): after a loss, consumers see a lower end of the log than before, or other
  records. Kafka shows consumers the end only when the HWM has reached the start offset L of the epoch. So the
  property is violated if records were lost and the epoch's HWM reached L. A new leader's own HWM normally lags (B5),
  which is no violation.
* **hwm_never_moves_back** (B4): the HWM moves back within one tenure of a leader.
* **hwm_stands_under_min_isr** (966.1): the HWM moved while the leader knew a committed ISR that was too small.
* **hwm_waits_for_isr** (B4): the HWM moved above the LEO of a member of the leader's ISR.
* **isr_joined_caught_up** (B5): a replica was proposed for the ISR below the HWM or the start of the leader epoch.
* **electable_completeness** (B4, 966.6): a member of ISR or ELR, or a leader elected from ISR or ELR, has a LEO below
  a committed offset.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from highwater.invariants import statements
from highwater.model.rulebook import RULEBOOK
from highwater.traces.brokers.broker_view import LIMIT_SEEN, Breach, BrokerView, Stint
from highwater.traces.brokers.losses import (
    KIP,
    Epochs,
    Lineage,
    Loss,
    by_broker_logs,
    first_difference,
    is_election,
    place,
)
from highwater.traces.kafka.broker_log import (
    BecameFollower,
    BecameLeader,
    BrokerEvent,
    ControllerResigned,
    IsrUpdated,
    RegistrationFailed,
    StillFollower,
    StillLeader,
    TopicConfigured,
    UtcOffset,
)
from highwater.traces.reports.findings import Finding
from highwater.traces.reports.observed import (
    Controllers,
    Courses,
    PartitionChange,
    ReplicaEnd,
    SettingInForce,
)
from highwater.traces.reports.text import apart, records
from highwater.traces.rules import profiles

MAX_VIEWS = 100_000
"""The most pairs of broker and partition that are checked."""
LIMIT_FAILURES = 100
"""The most kinds of controller failures, and the most brokers with failed registrations, that are counted."""
MAX_VERSIONS = 20_000
"""The most changes stored of a partition: the latest ones."""


class Watermarks:
    """Compares the brokers' logs with the metadata log.

    ``sources`` has an iterable of events for each broker's log file; the files may be in any order. ``finish`` merges
    them and holds one event of each in memory. A broker's logs must be without gaps between their first line and their
    last.

    The lead of a broker's times over UTC is computed from the changes that both its log and the metadata log have.

    ``courses``, if given, gets all events of checked partitions. Memory grows with the changes of partitions and the
    leader epochs.
    """

    def __init__(self, sources: Iterable[Iterable[BrokerEvent]], courses: Courses | None = None) -> None:
        self._courses = courses
        self._paths: dict[str, str] = {}
        self._sources = list(sources)
        self._offsets: dict[int, UtcOffset] = {}
        self._partitions: dict[str, dict[str, Epochs]] = {}
        """By the partition's name and topic id: topics with one name follow each other."""
        self._views: dict[str, list[BrokerView]] = {}
        self._present: dict[tuple[str, int], BrokerView] = {}
        """By partition and broker: the view of the topic that the broker's log named last."""
        self._of_topic: dict[tuple[str, int], list[BrokerView]] = {}
        self._brokers: set[int] = set()
        self._number_of_views, self._is_full = 0, False
        self._touched: set[str] = set()
        self.notes: list[str] = []
        """The parts that were not checked, and why; complete after ``finish``."""
        self.figures: dict[str, int] = {}
        """Totals by name, after ``finish``."""
        self.complete: dict[tuple[str, int], dict[str, int]] = {}
        """By partition and metadata offset: LEO and HWM at elections whose leader had all committed records."""
        self.controllers = Controllers()
        """Counts of controllers' resignations and of failed registrations; complete after ``finish``."""
        self.set_clocks: dict[int, set[str]] = {}
        """The partitions of each broker whose clock may have been set: its files' lines are in no known order."""
        self.ends: dict[str, list[ReplicaEnd]] = {}
        """The last known end of each replica's log, by partition; complete after ``finish``."""

    def change(self, change: PartitionChange) -> None:
        """Process the next change of a partition, in the order of the metadata log."""
        known = self._partitions.setdefault(change.name, {}).setdefault(change.topic_id, Epochs())
        after = change.after
        if after is None:
            known.is_deleted = True
            return
        known.versions[after.partition_epoch] = change
        for broker in after.isr if after.leader is not None else ():
            epochs = known.in_sync.setdefault(broker, [])
            if not epochs or epochs[-1] < after.leader_epoch:
                epochs.append(after.leader_epoch)
                del epochs[:-MAX_VERSIONS]
        known.changed = change.position
        known.latest = max(known.latest, after.partition_epoch)
        if is_election(change):
            known.elections[after.leader_epoch] = change
        for kept in (known.versions, known.elections):
            while len(kept) > MAX_VERSIONS:
                del kept[next(iter(kept))]

    def _latest(self, name: str) -> Epochs | None:
        """The history of the latest topic with this name; None if the metadata log has none so far."""
        return next(reversed(self._partitions.get(name, {}).values()), None)

    def _topic_id(self, name: str, view: BrokerView) -> str:
        """The id of a view's topic. If lines or changes do not show it: the only topic's that there is, else ""."""
        ids = [*self._partitions.get(name, {})]
        return ids[0] if len(ids) == 1 and "" in (ids[0], view.topic_id) else view.topic_id

    def _known(self, name: str, view: BrokerView) -> Epochs | None:
        """The history of a view's topic; None if the metadata log does not show it."""
        return self._partitions.get(name, {}).get(self._topic_id(name, view))

    def setting(self, name: str, setting: SettingInForce) -> None:
        """Process a change of a setting that applies to the partition ``name``, in the order of the metadata log.

        Only the check of 966.1 needs this call: a setting that changes and changes back between two changes of a
        partition shows in neither of them.
        """
        known = self._latest(name)
        if known is None or known.changed is None:
            return
        if not known.settings or known.settings[-1] < known.changed:
            known.settings.append(setting.change.position)
            del known.settings[:-MAX_VERSIONS]

    def finish(self, min_isr: Mapping[str, int] | None = None) -> list[Finding]:
        """Read the brokers' logs, and return all violations, ordered by partition.

        ``min_isr`` is the effective min ISR (966.2) of partitions, by name, at the end of the metadata log. Without
        it, 966.1 is not checked after the last change of a partition, as the setting may have changed. Raises
        TraceError if a log cannot be read.
        """
        for name in self._partitions:
            self._set_min_isr(name, (min_isr or {}).get(name))
        events = self._read()
        self._paths = apart(self._paths)
        findings: list[Finding] = []
        for name in sorted(self._views):
            findings += self._judge(name)
        all_views = [view for of_partition in self._views.values() for view in of_partition]
        self.figures = {
            "broker log events": events,
            "leader epochs led": sum(len(view.stints) for view in all_views),
            "HWM moves": sum(view.moves for view in all_views),
            "HWM moves held against min ISR": sum(view.judged_min_isr for view in all_views),
            "LEOs of ISR members held against HWM moves": sum(view.judged_members for view in all_views),
        }
        for broker in sorted(self._brokers):
            views = [view for view in all_views if view.broker == broker]
            if not any(view.has_state_changes for view in views):
                self.notes.append(
                    f"broker {broker} has no state-change.log, which says when it leads: replay checks little of it"
                )
            if dropped := sum(view.dropped for view in views):
                self.notes.append(f"{dropped} more lines of broker {broker} are not reported")
        return findings

    # --- reading ---------------------------------------------------------------------------------------

    def _read(self) -> int:
        count = 0
        sources = (self._noted(source) for source in self._sources)
        for _, event in heapq.merge(*map(ordered, sources), key=lambda pair: pair[0]):
            count += 1
            self.take(event)
        if self._is_full:
            self.notes.append(f"more than {MAX_VIEWS} pairs of broker and partition: replay ignores the rest")
        return count

    def take(self, event: BrokerEvent) -> None:
        """For a caller that reads the brokers' logs itself: process the next event, in the order of ``ordered``."""
        if isinstance(event, TopicConfigured):
            for of_topic in self._of_topic.get((event.topic, event.broker), ()):
                of_topic.take(event)
            return
        if isinstance(event, ControllerResigned | RegistrationFailed):
            self._failed(event)
            return
        view = self._present.get((event.name, event.broker))
        if view is None or event.topic_id not in ("", view.topic_id):
            view = self._view(view, event)
            if view is None:
                self._is_full = True
                return
        self._learn_offset(event, view)
        view.take(event)
        self._touched.add(event.name)
        if self._courses is not None:
            self._courses.take(event)

    def news(self, min_isr: Callable[[str], int | None]) -> Iterator[Finding]:
        """Check the partitions that had events since the last call, and return all their findings so far.

        ``min_isr`` gives the effective min ISR (966.2) of a partition by name.
        """
        for name in sorted(self._touched):
            self._set_min_isr(name, min_isr(name))
            yield from self._judge(name, finish=False)
        self._touched.clear()

    def _failed(self, event: ControllerResigned | RegistrationFailed) -> None:
        """Count the exception of a controller that resigned, or the broker whose registration failed."""
        if isinstance(event, ControllerResigned):
            counts, key = self.controllers.failures, f"{event.event}: {event.exception}"
        else:
            counts, key = self.controllers.refused, str(event.broker)
        if key in counts or len(counts) < LIMIT_FAILURES:
            counts[key] = counts.get(key, 0) + 1

    def _noted(self, source: Iterable[BrokerEvent]) -> Iterator[BrokerEvent]:
        """Yield the events of a file, and record the file's path at its first event."""
        path = None
        for event in source:
            if event.path is not path:
                path = event.path
                self._paths[str(path)] = str(path)
            yield event

    def _set_min_isr(self, name: str, min_isr: int | None) -> None:
        if (known := self._latest(name)) is not None:
            known.last_min_isr = min_isr

    def _view(self, present: BrokerView | None, event: BrokerEvent) -> BrokerView | None:
        """The view for an event that is the first of its partition, or of another topic than before.

        None if there are too many views.
        """
        name, broker = event.name, event.broker
        if present is not None and not present.topic_id:  # this is the first line that names the topic
            present.topic_id = event.topic_id
            return present
        if self._number_of_views >= MAX_VIEWS:
            return None
        self._number_of_views += 1

        def min_isr(epoch: int) -> tuple[int | None, int | None]:
            known = self._known(name, view)
            return (None, None) if known is None else known.min_isr(epoch)

        def next_epoch(epoch: int) -> tuple[int, int] | None:
            known = self._known(name, view)
            return None if known is None else known.next_in_sync(broker, epoch, self.utc_offset_ms(broker))

        view = BrokerView(broker, min_isr, next_epoch)
        view.topic_id = event.topic_id
        self._present[name, broker] = view
        self._views.setdefault(name, []).append(view)
        self._of_topic.setdefault((event.topic, broker), []).append(view)
        self._brokers.add(broker)
        return view

    def _learn_offset(self, event: BrokerEvent, view: BrokerView) -> None:
        if isinstance(event, (IsrUpdated, BecameLeader, StillLeader, BecameFollower, StillFollower)):
            known = self._known(event.name, view)
            version = None if known is None else known.versions.get(event.partition_epoch)
            if version is not None:
                self._offsets.setdefault(event.broker, UtcOffset()).add(event.time_ms, version.time)

    def utc_offset_ms(self, broker: int) -> int | None:
        """How many ms a broker's event times are ahead of UTC; None if unknown."""
        found = self._offsets.get(broker)
        return None if found is None or found.was_set else found.offset_ms

    # --- judging ---------------------------------------------------------------------------------------

    def _judge(self, name: str, *, finish: bool = True) -> list[Finding]:
        """The findings about the partitions with this name, one for each topic id."""
        by_topic: dict[str, dict[int, BrokerView]] = {}
        for view in self._views[name]:
            by_topic.setdefault(self._topic_id(name, view), {})[view.broker] = view
        findings: list[Finding] = []
        for topic_id, views in by_topic.items():
            known = self._partitions.get(name, {}).get(topic_id)
            if known is None and not topic_id and name in self._partitions:
                self._note(
                    f"{name} was created again: replay ignores lines that do not show which topic they mean"
                )
                continue
            known = known or Epochs()
            found = self._over_epochs(name, known, views)
            for broker in sorted(views):
                views[broker].confirm(known.latest if known.versions else None)
                if finish:
                    views[broker].finish()
                found += [self._from_view(name, seen) for seen in views[broker].seen if seen.sure]
            findings += [replace(one, facts={**one.facts, "topic_id": topic_id}) for one in found]
        return findings

    def _from_view(self, name: str, seen: Breach) -> Finding:
        return Finding(
            seen.violated.source, seen.violated.name, name, place(seen.event), self._utc(seen.event), seen.summary,
            seen.at_risk, RULEBOOK.origin(seen.violated.source),
            facts={"broker": seen.event.broker, "records": seen.lost},
        )  # fmt: skip

    def _utc(self, event: BrokerEvent) -> int | None:
        offset = self.utc_offset_ms(event.broker)
        return None if offset is None else event.time_ms - offset

    def _over_epochs(self, name: str, known: Epochs, views: dict[int, BrokerView]) -> list[Finding]:
        """Check the leader epochs of a partition in order, and store the ends of its replicas' logs in ``ends``.

        At the start of each epoch, the new leader's log must hold every offset that an earlier leader committed.
        """
        findings: list[Finding] = []
        stints = [stint for broker in sorted(views) for stint in views[broker].stints]
        stints.sort(key=lambda stint: stint.epoch)
        lineage = Lineage(views, known)
        committed: Stint | None = None
        high = 0
        steps: list[tuple[int, int, int]] = []
        for number, stint in enumerate(stints):
            if stint.start is not None:
                start = stint.start.start_offset
                former = None if committed is None else lineage.written(committed.epoch)
                log = lineage.starts(stint.broker, stint.epoch, start)
                kept = first_difference(former, log, min(high, start))
                if committed is not None and not profiles.is_held(end=kept, hwm=high):
                    if len(findings) >= LIMIT_SEEN:
                        self._note(f"{name}: more than {LIMIT_SEEN} findings")
                        break
                    findings += Loss(
                        name, views, stints[:number], stint, stint.start, committed, kept, high, known, self._utc,
                        self._named, former is not None and log is not None,
                    ).findings()  # fmt: skip
                    committed, high = stint, kept
                elif committed is not None and log is not None and former is not None:
                    self._is_complete(name, known, stint, start, high)
            started = high
            if stint.hwm > high:
                high, committed = stint.hwm, stint
            steps.append((stint.epoch, started, high))
        set_back = {b for b in views if b in self._offsets and self._offsets[b].was_set}
        for broker in set_back:
            self.set_clocks.setdefault(broker, set()).add(name)
        if not known.is_deleted and (self._latest(name) or known) is known:
            ordered_views = {b: view for b, view in views.items() if b not in set_back}
            self.ends[name] = list(by_broker_logs(ordered_views, lineage, self._utc, known))
        levels = Levels(steps, self._unseen(known))
        for broker in sorted(views):
            findings += self._incomplete(name, known, views[broker], levels)
        return findings

    def _is_complete(self, name: str, known: Epochs, stint: Stint, start: int, high: int) -> None:
        """Record that an elected leader had every committed record: its LEO was ``start``, the HWM was ``high``.

        Nothing is recorded if the log of an earlier leader is missing, because the HWM may then have been higher.
        """
        version = known.elections.get(stint.epoch)
        unseen = self._unseen(known)
        if version is not None and (not unseen or unseen[0] > stint.epoch):
            self.complete[name, version.position] = {"leo": start, "hwm": high}

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _named(self, event: BrokerEvent) -> str:
        """The file and line of an event, without the directories that all files share."""
        return f"{self._paths.get(str(event.path), event.path)}:{event.line}"

    def _unseen(self, known: Epochs) -> list[int]:
        return sorted(e for e, v in known.elections.items() if v.state.leader not in (None, *self._brokers))

    def _incomplete(self, name: str, known: Epochs, view: BrokerView, levels: Levels) -> Iterator[Finding]:
        """The findings about a follower: it was in ISR or ELR although its LEO was below a committed offset."""
        for event in view.followed:
            version = known.versions.get(event.partition_epoch)
            if version is None:
                continue
            state = version.state
            member = "ISR" if view.broker in state.isr else "ELR" if view.broker in state.elr else None
            high = levels.at(event.leader_epoch)
            if member is None or high is None or profiles.is_held(end=event.leo, hwm=high):
                continue
            yield Finding(
                "966.6" if member == "ELR" else "B5", statements.electable_completeness.name, name, place(event),
                self._utc(event),
                f"broker {view.broker} was in the {member} (metadata offset {version.position}) with LEO "
                f"{event.leo}, below the HWM {high}",
                f"{records(event.leo, high)} are lost if it is elected", KIP,
                facts={
                    "broker": view.broker, "member_of": member, "offset": version.position, "leo": event.leo,
                    "hwm": high,
                },
            )  # fmt: skip


def ordered(source: Iterable[BrokerEvent]) -> Iterator[tuple[tuple[int, int], BrokerEvent]]:
    """The events of a file, each with its sort key: its time, which never decreases within a file, then its rank.

    Within one ms, lines that say that the broker leads come first, and lines that say that it follows come last.
    """
    latest = -(1 << 62)
    for event in source:
        latest = max(latest, event.time_ms)
        rank = 1
        if isinstance(event, (BecameLeader, StillLeader)):
            rank = 0
        elif isinstance(event, (BecameFollower, StillFollower)):
            rank = 2
        yield (latest, rank), event


class Levels:
    """The committed end offset at the start and at the end of each leader epoch.

    ``steps`` has triples, ascending: leader epoch, committed end when its leader started, committed end at the epoch's
    end. ``unseen`` has the leader epochs whose leader's log is not an input.
    """

    def __init__(self, steps: list[tuple[int, int, int]], unseen: list[int]) -> None:
        self._steps, self._unseen = steps, unseen
        self._epochs = [epoch for epoch, _, _ in steps]

    def at(self, epoch: int) -> int | None:
        """The committed end offset when a leader epoch starts, minus what its leader lost; None if uncertain.

        It is uncertain before the first epoch of ``steps``. It is also uncertain if an epoch in ``unseen`` follows the
        latest one in ``steps``: that leader may have lost records.
        """
        at = bisect_right(self._epochs, epoch)
        if at == 0:
            return None
        last, _, ended = self._steps[at - 1]
        following = bisect_right(self._unseen, last)
        if following < len(self._unseen) and self._unseen[following] <= epoch:
            return None
        return self._steps[bisect_left(self._epochs, epoch)][1] if last == epoch else ended
