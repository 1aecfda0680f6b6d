"""Belief states, and the transitions between them: what the observations of one batch make of one, in spans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from highwater.model.language.model import Scalars
from highwater.traces.metadata.beliefs.evidence import Evidence, Observed, Slots
from highwater.traces.metadata.beliefs.slots import Symbol
from highwater.traces.reports.findings import Candidate

Tagged = tuple[int, Scalars]
"""A model state, and the number of the set of rules under which it was reached."""
Update = tuple[frozenset[Tagged], frozenset[str]]
"""The model states after evidence, and the names of the actions that lead there."""
Word = Symbol | tuple[Symbol, ...]
"""What a transition is looked up by: the symbol of an observation, or those of several in their order."""


class BeliefState:
    """A set of tagged model states, all with the same observed partition and registrations.

    ``violated`` are the names of properties that hold in no state, ``doubtful`` of those that hold in some only;
    ``tags`` the numbers of the sets of rules under which something fits. ``is_indexed_astray``: the controller's index
    of ELR members can have other entries than one for each member. ``transitions`` are those that
    were explained already, ``updates`` what was made of evidence already; who explains keeps both.
    """

    __slots__ = (
        "doubtful", "is_indexed_astray", "leaderless", "observed", "slots", "states", "tags", "transitions",
        "under_min_isr", "updates", "violated",
    )  # fmt: skip

    def __init__(
        self,
        slots: int,
        states: frozenset[Tagged],
        observed: Observed,
        violated: frozenset[str],
        doubtful: frozenset[str],
        is_indexed_astray: bool = False,
    ) -> None:
        self.slots, self.states, self.observed = slots, states, observed
        self.is_indexed_astray = is_indexed_astray
        self.violated, self.doubtful = violated, doubtful
        self.tags = frozenset(tag for tag, _ in states)
        self.under_min_isr, self.leaderless = "has_min_isr" in violated, "has_leader" in violated
        self.transitions: dict[Word, Transition] = {}
        self.updates: dict[Evidence, Update] = {}


@dataclass(frozen=True)
class Span:
    """A part of a transition: its last observation, by its place, and the belief state after it.

    ``order`` has the slots before the transition, and after them those of brokers that are new to the partition, in the
    order in which they are then. ``changes`` is 1 where a record of the partition is in it, ``bumps`` 1 where it ends
    the leader epoch. ``findings`` are properties that do not hold any more, each with whether that is certain.
    ``before`` and ``candidates`` are there where nothing explains an observation.
    """

    last: int
    belief: BeliefState
    order: Slots
    changes: int = 0
    bumps: int = 0
    causes: frozenset[str] = frozenset()
    findings: tuple[tuple[str, bool], ...] = ()
    before: tuple[Mapping[str, Any], ...] = ()
    candidates: tuple[Candidate, ...] | None = None

    @property
    def cause(self) -> str | None:
        """The actions that explain it, in words; None where none does."""
        return " or ".join(sorted(self.causes)) or None


class Transition:
    """What one or more observations make of a belief state.

    ``is_plain`` where there is nothing to report: no finding, nothing unexplained, the same brokers, and as many
    replicas. ``moves`` where the slots stand for other brokers afterwards.
    """

    __slots__ = ("after", "bumps", "changes", "is_plain", "moves", "spans")

    def __init__(self, before: BeliefState, spans: tuple[Span, ...]) -> None:
        self.spans = spans
        self.after = after = spans[-1].belief
        self.changes = sum([s.changes for s in spans])
        self.bumps = sum([s.bumps for s in spans])
        self.moves = spans[-1].order != tuple(range(before.slots))
        self.is_plain = (
            not self.moves
            and all(not s.findings and s.candidates is None for s in spans)
            and before.under_min_isr == after.under_min_isr
            and before.leaderless == after.leaderless
            # What was a member of the ELR, and no replica, can become one again: the slots stay, the replicas do not.
            and len(before.observed.replicas) == len(after.observed.replicas)
            and before.tags == after.tags
            and not (before.is_indexed_astray and before.observed.elr != after.observed.elr)
        )

    @property
    def is_explained(self) -> bool:
        """Whether every observation is explained."""
        return all(s.candidates is None for s in self.spans)
