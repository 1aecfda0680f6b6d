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
from highwater.traces.metadata.reporting import Watch
from highwater.traces.reading import TraceError
from highwater.traces.reports.findings import Unexplained
from highwater.traces.reports.observed import PartitionChange
from highwater.traces.reports.report import Report
from tests.generation.records import ELR, METADATA, MIN_ISR, UNCLEAN
from tests.traces.metadata.mutations import (
    CONFIG,
    CREATION,
    FEATURE,
    FOLLOWED,
    Log,
    Mutation,
)

SAME, ANOTHER = "the same meaning", "another history that the protocol allows"
"""The reasons why a change is not reported."""
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
        replay_metadata(opened, found.report, watch=Watch([found.changes.append]))
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
        self._beliefs: dict[frozenset[str], BeliefStates] = {}
        self._automata: dict[frozenset[str], Automaton] = {}

    def beliefs(self, rules: frozenset[str]) -> BeliefStates:
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


def reason(mutation: Mutation, original: Replayed, changed: Replayed) -> str:
    """Why a change is not reported: SAME or ANOTHER; other words for a change that should have been.

    A record that is not followed, and the order within the creation of a topic, change nothing.
    """
    types = {record.type for record in mutation.touched}
    is_same = _states(original) == _states(changed)
    if not all(is_followed(record) for record in mutation.touched):
        # Only the causes may differ.
        return SAME if _states(original, False) == _states(changed, False) else "it is followed"
    if "swapped" in mutation.kind and types <= {"TOPIC_RECORD", CONFIG, CREATION}:
        return SAME if is_same else "the order within a creation counts"
    if unknown := [c for c in changed.changes if c.cause is None]:
        return f"no decision explains offset {unknown[0].position}"
    return SAME if is_same else ANOTHER


def is_followed(record: MetadataRecord) -> bool:
    """True if the replay follows a record."""
    if record.type == CONFIG:
        return record.data["name"] in FOLLOWED_SETTINGS
    if record.type == FEATURE:
        return record.data["name"] in FOLLOWED_FEATURES
    return record.type in FOLLOWED


def _states(replay: Replayed, with_causes: bool = True) -> dict[str, list[object]]:
    """The states of each partition, and the decisions between them."""
    found: dict[str, list[object]] = {}
    for c in replay.changes:
        found.setdefault(c.name, []).append((c.before, c.after, c.cause if with_causes else None))
    return found
