"""The replay of a changed log, and the reasons why a change is not reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.kafka.metadata_log import open_metadata_log
from highwater.traces.kafka.values import MetadataRecord
from highwater.traces.metadata import tracker
from highwater.traces.metadata.beliefs.automaton import Automaton, FlagsOf
from highwater.traces.metadata.beliefs.belief_states import BeliefStates
from highwater.traces.metadata.replay import replay_metadata
from highwater.traces.metadata.reporting import Watch, every_partition
from highwater.traces.reading import TraceError
from highwater.traces.reports.findings import Unexplained
from highwater.traces.reports.observed import PartitionChange
from highwater.traces.reports.report import Report
from tests.generation.records import ELR, METADATA, MIN_ISR, UNCLEAN
from tests.traces.metadata.corruptions import TIME
from tests.traces.metadata.mutations import (
    CHANGE,
    CONFIG,
    CREATION,
    FEATURE,
    FOLLOWED,
    Log,
    Mutation,
    without_order,
)

SET_ORDER = "order of a set"
NOT_FOLLOWED = "nothing that is followed"
INDEPENDENT = "decisions that do not depend on each other"
REPEATED = "a field repeats what holds"
ENDS_EARLIER = "the log ends earlier"
CREATION_ORDER = "order within the creation of a topic"
SETTING = "a setting on which no decision depends"
ALLOWED = "another history that the protocol allows"
TIMES = "a time, on which nothing depends"
FOLLOWED_FEATURES = (METADATA, ELR)
FOLLOWED_SETTINGS = (MIN_ISR, UNCLEAN)


class Reported(Exception):
    """Ends a replay at the first record that does not conform."""


class First(Report):
    """A report that ends the replay at the first entry that do not conform."""

    def add(self, line: Unexplained) -> None:
        """Keep it, and end. Raises Reported."""
        super().add(line)
        raise Reported


@dataclass
class Replayed:
    """The report on a log, and the changes of its partitions; ``error`` if it could not be read."""

    report: Report
    changes: list[PartitionChange] = field(default_factory=list)
    error: TraceError | None = None

    @property
    def first(self) -> int | None:
        """The offset of the first entry that do not conform; None where it has none."""
        entries = self.report.unexplained
        return entries[0].position.get("offset") if entries else None


def replayed(log: Log, folder: Path) -> Replayed:
    """Write a log, open it and replay it; other files in the folder are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    found = Replayed(First("made", "metadata log", ""))
    try:
        opened = open_metadata_log(log.write(folder))
        replay_metadata(opened, found.report, watch=Watch(every_partition, found.changes.append))
    except TraceError as wrong:
        found.error = wrong
    except Reported:
        pass
    return found


class Shared:
    """Explanations that many replays of similar logs share: one automaton for each set of rules.

    An automaton asks the image of its follower for the flags of brokers, so it is handed from one to the next. That it
    makes no difference is what ``test_shared_tables_give_the_same_reports`` is for.
    """

    def __init__(self) -> None:
        self._beliefs: dict[tuple[frozenset[str], ...], BeliefStates] = {}
        self._automata: dict[tuple[frozenset[str], ...], Automaton] = {}

    def beliefs(self, rules: tuple[frozenset[str], ...]) -> BeliefStates:
        """In the place of BeliefStates."""
        return self._beliefs.setdefault(rules, BeliefStates(rules))

    def automaton(
        self, beliefs: BeliefStates, decode: Callable[[bytes], Mapping[str, Any]], flags: FlagsOf
    ) -> Automaton:
        """In the place of Automaton."""
        found = self._automata.setdefault(beliefs.rules, Automaton(beliefs, decode, flags))
        found._grounds = found._grounds._replace(flags=flags)
        return found


@contextmanager
def shared() -> Iterator[None]:
    """A context in which replays share explanations."""
    known = Shared()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracker, "BeliefStates", known.beliefs)
        patch.setattr(tracker, "Automaton", known.automaton)
        yield


def is_reported(mutation: Mutation, original: Replayed, changed: Replayed) -> bool:
    """True if the replay reports the change.

    By something unexplained, by damage, by a doubt that the log as it is does not have, or by other rules where they
    were changed.
    """
    if changed.error is not None or changed.report.unexplained_count or changed.report.damage:
        return True
    if is_doubted(original, changed):
        return True
    rules = (changed.report.profile, changed.report.rules)
    return mutation.kind in FOLLOWED_FEATURES and rules != (original.report.profile, original.report.rules)


def is_doubted(original: Replayed, changed: Replayed) -> bool:
    """True if the replay has a doubt that the original log does not have."""
    return {(d.kind, d.summary) for d in changed.report.doubts} > {
        (d.kind, d.summary) for d in original.report.doubts
    }


def reason(mutation: Mutation, log: Log, original: Replayed, changed: Replayed) -> tuple[str, str]:
    """The reason why a change is not reported, and the decisions at its offset, before and after it.

    ("", what) where there is no reason.
    """
    if mutation.kind == TIME:
        return (TIMES, "") if _without_times(original) == _without_times(changed) else ("", "a time counts")
    made = mutation.make()
    before = [without_order(r) for _, _, r in log.records()]
    after = [without_order(r) for _, _, r in made.records()]
    if before == after and _snapshots(log) == _snapshots(made):
        return SET_ORDER, ""
    if "removed" in mutation.kind and after == before[: len(after)]:
        return ENDS_EARLIER, ""
    one, other = mutation.touched[0], mutation.touched[-1]
    if not is_followed(one) or not is_followed(other):
        same = _states(original, False) == _states(changed, False)
        return (NOT_FOLLOWED, "") if same else ("", "it is followed")
    if "swapped" in mutation.kind:
        if {one.type, other.type} <= {"TOPIC_RECORD", CONFIG, CREATION}:
            return (CREATION_ORDER if _states(original) == _states(changed) else ""), "creation"
        if independent(one, other, log, original):
            return INDEPENDENT, ""
    unknown = [c for c in changed.changes if c.cause is None]
    if unknown:
        return "", f"no decision explains offset {unknown[0].position}"
    if {one.type, other.type} <= {CONFIG, FEATURE} and _states(original) == _states(changed):
        return SETTING, ""
    if one.type == CHANGE and len(mutation.touched) == 1 and _states(original) == _states(changed):
        return REPEATED, ""
    return ALLOWED, _cause(mutation, original, changed)


def is_followed(record: MetadataRecord) -> bool:
    """True if the replay follows a record."""
    if record.type == CONFIG:
        return record.data["name"] in FOLLOWED_SETTINGS
    if record.type == FEATURE:
        return record.data["name"] in FOLLOWED_FEATURES
    return record.type in FOLLOWED


def independent(one: MetadataRecord, other: MetadataRecord, log: Log, original: Replayed) -> bool:
    """True if neither of two records writes a thing that the decision of the other reads or writes."""
    names = {r.data["topicId"]: r.data["name"] for _, _, r in log.records() if r.type == "TOPIC_RECORD"}
    (reads, writes), (others_reads, others_writes) = (
        _reads_and_writes(r, names, original) for r in (one, other)
    )
    return not (writes & (others_reads | others_writes) or others_writes & reads)


def _reads_and_writes(
    record: MetadataRecord, names: dict[str, str], original: Replayed
) -> tuple[set[str], set[str]]:
    """A decision about a partition reads its topic's settings and all brokers that it ever names."""
    data = record.data
    match record.type:
        case "PARTITION_CHANGE_RECORD" | "PARTITION_RECORD":
            topic = names[data["topicId"]]
            named: set[int] = set()
            for c in original.changes:
                if c.name == f"{topic}-{data['partitionId']}" and c.after is not None:
                    named |= {*c.after.replicas, *c.after.isr, *c.after.elr, *c.after.last_known_elr}
            reads = {f"settings of {topic}", f"topic {topic}", "settings", *(f"broker {b}" for b in named)}
            return reads, {f"partition {topic}-{data['partitionId']}"}
        case "REGISTER_BROKER_RECORD" | "BROKER_REGISTRATION_CHANGE_RECORD":
            return set(), {f"broker {data['brokerId']}"}
        case "TOPIC_RECORD":
            return set(), {f"topic {data['name']}"}
        case "CONFIG_RECORD":
            return set(), {f"settings of {data['resourceName']}" if data["resourceName"] else "settings"}
    return set(), {record.type}


def _without_times(replay: Replayed) -> object:
    """The results of a replay without times and durations."""
    said = replay.report.to_json()
    work = ("beliefs", "steps explained")
    found = replay.report.figures.items()
    figures = {name: number for name, number in found if "ms " not in name and name not in work}
    lines = [*said["unexplained"], *said["findings"]]
    return _timeless(lines), figures, said["doubts"], said["profile"], said["rules"], _states(replay)


def _timeless(said: Any) -> Any:
    """JSON without its members that are times, however deep."""
    if isinstance(said, dict):
        return {name: _timeless(value) for name, value in said.items() if name != "time"}
    return [_timeless(value) for value in said] if isinstance(said, list) else said


def _snapshots(log: Log) -> list[tuple[int, list[MetadataRecord]]]:
    return [(s.end_offset, [without_order(r) for _, _, r in Log(s.batches).records()]) for s in log.snapshots]


def _states(replay: Replayed, with_causes: bool = True) -> dict[str, list[object]]:
    """The states of each partition, and the decisions between them."""
    found: dict[str, list[object]] = {}
    for c in replay.changes:
        found.setdefault(c.name, []).append((c.before, c.after, c.cause if with_causes else None))
    return found


def _cause(mutation: Mutation, original: Replayed, changed: Replayed) -> str:
    """The decisions at the changed offset, before and after."""

    def at(replay: Replayed) -> str:
        causes = sorted({c.cause or "" for c in replay.changes if c.position == mutation.offset})
        return "; ".join(causes) or "no change of a partition"

    return f"{at(original)} => {at(changed)}"
