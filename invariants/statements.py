"""Statements: properties with one name and one meaning, for every checker that uses them.

A statement is a function of symbolic values. Explorations and proofs check statements in states of a protocol, a replay
checks them on recorded values. Reports print the docstrings. This module has the statements that several protocols and
replays share, and those that only a replay of request logs checks. ``catalogue.py`` lists all properties.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from types import ModuleType
from typing import Any, TypeVar

from highwater.model.language import (
    Invariant,
    Number,
    SetValue,
    StructValue,
    Truth,
    all_of,
    any_of,
    implies,
    size,
)
from highwater.model.language.errors import first_paragraph
from highwater.model.language.protocol import Goal
from highwater.model.language.step_properties import conjoined


@dataclass(frozen=True)
class Statement:
    """A shared property: its name, the numbers of its rules, and its function."""

    name: str
    function: Callable[..., Truth]
    source: str

    @property
    def meaning(self) -> str:
        """The first paragraph of the statement's docstring."""
        return first_paragraph(self.function)

    def __call__(self, *values: Any) -> Truth:
        """True if the statement holds for these values."""
        return self.function(*values)

    def seen(
        self, source: str | None = None, *, rule: str | None = None
    ) -> Callable[[Callable[[Any, Any], Any]], Invariant]:
        """Mark a function of (protocol, state) as this statement's invariant in that protocol.

        The invariant takes the statement's name and meaning, and its rule numbers unless ``source`` is given. It exists
        only if ``rule`` is on (None: always). The function's own docstring says which values of the protocol it checks.
        """

        def mark(function: Callable[[Any, Any], Any]) -> Invariant:
            holds = conjoined(function)

            @wraps(function)
            def stated(m: Any, s: Any) -> Any:
                return holds(m, s)

            stated.__doc__ = self.function.__doc__
            return Invariant(self.name, stated, self.source if source is None else source, rule)

        return mark


def statement(source: str, /) -> Callable[[Callable[..., Truth]], Statement]:
    """Mark a function of symbolic values as a statement; ``source`` has the numbers of its rules."""

    def mark(function: Callable[..., Truth]) -> Statement:
        return Statement(function.__name__, function, source)

    return mark


# --- committed records ----------------------------------------------------------------------------------------


@statement("B4, 966.6")
def leader_completeness(leads: Truth, holds: Truth) -> Truth:
    """The leader holds every committed record.

    A record that the leader lacks is lost, because followers truncate to the leader's log.
    """
    return implies(leads, holds)


@statement("966.6")
def electable_completeness(can_be_elected: Truth, holds: Truth) -> Truth:
    """Every member of ISR and ELR holds every committed record, because each can be elected cleanly.

    acks=all depends on this, because an election does not compare logs.
    """
    return implies(can_be_elected, holds)


@statement("P1")
def committed_records_survive(committed: Truth, copies: Sequence[Truth]) -> Truth:
    """Every committed record is in at least one replica's log.

    This holds while fewer than min ISR brokers have lost data. ``committed``: whether there is a committed record at
    an offset. ``copies``: for each replica, whether its log has that record.
    """
    return implies(committed, any_of(copies))


@statement("966.6")
def enough_are_electable(electable: SetValue, min_isr: Number) -> Truth:
    """ISR and ELR together have at least min ISR members, unless a member lost its log or an operator chose otherwise.

    Each of these members holds all committed records, so at least min ISR copies exist.
    """
    return size(electable) >= min_isr


@statement("B4, B6")
def consumers_read_consistently(shown: Sequence[Truth], same: Sequence[Truth]) -> Truth:
    """Consumers read consistently: no leader removes or changes a record below an HWM that a leader has had.

    ``shown``: for each offset, whether a leader serves a record there. ``same``: for each offset, whether this record
    is the one that was served there first.
    """
    return all_of(implies(there, as_before) for there, as_before in zip(shown, same, strict=True))


@statement("B3")
def logs_match(same: Sequence[Truth]) -> Truth:
    """Two logs with the same record at an offset have the same records before it.

    ``same``: for each offset, whether both logs have the same record there.
    """
    return all_of(implies(same[offset], all_of(same[:offset])) for offset in range(1, len(same)))


# --- ISR and ELR of a partition -------------------------------------------------------------------------------


@statement("B8")
def isr_within_replicas(partition: StructValue, replicas: SetValue) -> Truth:
    """All ISR members are replicas of the partition."""
    return partition.isr <= replicas


@statement("966.9")
def elr_within_replicas(partition: StructValue, replicas: SetValue) -> Truth:
    """All ELR members are replicas of the partition, also after a reassignment or its cancellation."""
    return implies(~partition.elr.is_empty, partition.elr <= replicas)


@statement("841.2, 903.4")
def isr_members_are_eligible(partition: StructValue, active: SetValue) -> Truth:
    """No ISR member is fenced or shutting down, except the only ISR member of a leaderless partition.

    Otherwise the HWM waits for a replica that does not fetch.
    """
    lonely = (size(partition.isr) <= 1) & partition.leader.is_none
    return implies(~lonely, partition.isr <= active)


@statement("966.6")
def isr_and_elr_are_disjoint(partition: StructValue) -> Truth:
    """No replica is in both ISR and ELR."""
    return implies(~partition.elr.is_empty, (partition.isr & partition.elr).is_empty)


@statement("966.6, 966.8")
def elr_only_under_min_isr(partition: StructValue, min_isr: Number) -> Truth:
    """The ELR has members only while the ISR is under min ISR.

    Once the ISR has at least min ISR members, the HWM advances without the ELR members. A broker that stayed in the ELR
    would lack the records committed since.
    """
    return implies(~partition.elr.is_empty, size(partition.isr) < min_isr)


# --- leaders and their HWM ------------------------------------------------------------------------------------


@statement("B8")
def one_leader_per_epoch(leaders: Sequence[tuple[Truth, Number]]) -> Truth:
    """In each leader epoch, at most one broker believes that it leads.

    ``leaders``: for each broker, whether it believes that it leads, and its leader epoch.
    """
    return all_of(
        implies(leads & also, epoch != other)
        for number, (leads, epoch) in enumerate(leaders)
        for also, other in leaders[number + 1 :]
    )


@statement("B4")
def hwm_never_moves_back(before: Number, after: Number) -> Truth:
    """A partition leader's HWM never decreases; in the metadata quorum, no running member's HWM does."""
    return after >= before


# --- messages -------------------------------------------------------------------------------------------------


@statement("B2")
def leader_answers_in_its_epoch(requested: Number, leads: Number) -> Truth:
    """A leader uses a fetch only if the fetch has the leader epoch in which it leads.

    ``requested`` is the leader epoch in the fetch, ``leads`` the leader's own.
    """
    return requested == leads


@statement("903.2, 903.4")
def stale_epochs_are_refused(sent: Number, known: Number) -> Truth:
    """No broker or controller uses a message with an earlier broker epoch than it knows for the broker in question.

    ``sent`` is the epoch in the message, ``known`` the epoch that the receiver knows.
    """
    return sent >= known


@statement("903.3")
def proposals_name_fetched_epochs(named: Number, fetched: Number) -> Truth:
    """An AlterPartition carries, for each member, the broker epoch of the member's last fetch.

    ``named`` is the epoch in the request, ``fetched`` the epoch of the fetch.
    """
    return named == fetched


@statement("B7, B8")
def one_proposal_is_under_way(under_way: Number) -> Truth:
    """A leader has at most one AlterPartition in flight; with two it could not know which one was accepted.

    ``under_way`` is the number of a leader's AlterPartitions in flight.
    """
    return under_way <= 1


@statement("B6")
def acknowledged_has_copies(hwm: Number, offset: Number, copies: Number, min_isr: Number) -> Truth:
    """An acks=all record is acknowledged only below the leader's HWM, with copies on at least min ISR replicas."""
    return (hwm > offset) & (copies >= min_isr)


_Kind = TypeVar("_Kind")


def defined(kind: type[_Kind], *modules: ModuleType | str) -> tuple[_Kind, ...]:
    """The properties of class ``kind`` that these modules define, without reachability goals."""
    return tuple(p for p in _marked(modules) if isinstance(p, kind) and not getattr(p, "goal", False))


def goals(*modules: ModuleType | str) -> tuple[Goal, ...]:
    """The reachability goals that these modules define."""
    return tuple(p for p in _marked(modules) if isinstance(p, Goal) and p.goal)


def _marked(modules: tuple[ModuleType | str, ...]) -> Iterator[Any]:
    """All values that decorators made from functions of these modules."""
    for module in modules:
        known = vars(sys.modules[module] if isinstance(module, str) else module)
        for value in known.values():
            if getattr(getattr(value, "function", None), "__module__", None) == known["__name__"]:
                yield value
