"""Statements: what is promised, once and under one name, for everybody who checks it.

A statement is a function of symbolic values, as a rule is. An exploration and a proof ask it of the states of a
protocol, a replay asks it of what was observed. Its docstring is what it says in every report. Here is what more than
one checker asks, and what only logs of brokers are asked; a property of a single protocol stands with that protocol's
others. ``catalogue.py`` has all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from highwater.model.language import all_of, any_of, implies, size
from highwater.model.language.errors import first_paragraph
from highwater.model.language.protocol import Invariant
from highwater.model.language.values import Number, SetValue, StructValue, Truth
from highwater.model.replication import logs


@dataclass(frozen=True)
class Statement:
    """Something that is promised: its name, the numbers of its rules, and a function to whether it holds."""

    name: str
    function: Callable[..., Truth]
    source: str

    @property
    def meaning(self) -> str:
        """The docstring's first paragraph: what must hold."""
        return first_paragraph(self.function)

    def __call__(self, *values: Any) -> Truth:
        """Whether it holds of these values."""
        return self.function(*values)

    def seen(
        self, source: str | None = None, *, rule: str | None = None
    ) -> Callable[[Callable[[Any, Any], Any]], Invariant]:
        """Mark a function of (protocol, state) as the invariant that this is in that protocol.

        Name and meaning are the statement's; so are the numbers of its rules, unless the protocol's differ. The
        function's own docstring says how the protocol sees it.
        """

        def mark(function: Callable[[Any, Any], Any]) -> Invariant:
            @wraps(function)
            def stated(m: Any, s: Any) -> Any:
                return function(m, s)

            stated.__doc__ = self.function.__doc__
            return Invariant(self.name, stated, self.source if source is None else source, rule)

        return mark


def statement(source: str, /) -> Callable[[Callable[..., Truth]], Statement]:
    """Mark a function of symbolic values as a statement."""

    def mark(function: Callable[..., Truth]) -> Statement:
        return Statement(function.__name__, function, source)

    return mark


# --- who holds what is committed ------------------------------------------------------------------------------


@statement("B4, 966.6")
def leader_completeness(leads: Truth, holds: Truth) -> Truth:
    """The leader holds every committed record.

    A record that it lacks is lost: followers truncate to the leader's log.
    """
    return implies(leads, holds)


@statement("966.6")
def electable_completeness(can_be_elected: Truth, holds: Truth) -> Truth:
    """Every member of ISR and ELR holds every committed record: each can be elected as a clean leader.

    This is what acks=all rests on: each of them becomes leader without anybody being asked.
    """
    return implies(can_be_elected, holds)


@statement("P1")
def committed_records_survive(committed: Truth, copies: Sequence[Truth]) -> Truth:
    """Every committed record is still in some replica's log.

    It holds as long as fewer than min ISR brokers have lost data. ``copies`` says of each replica whether it has it.
    """
    return implies(committed, any_of(copies))


@statement("966.6")
def enough_are_electable(electable: SetValue, min_isr: Number) -> Truth:
    """ISR and ELR together have min ISR members, unless one of them lost its log or an operator chose otherwise.

    Each of them holds what is committed, so that many copies are left to lose.
    """
    return size(electable) >= min_isr


@statement("B4, B6")
def consumers_read_consistently(shown: Sequence[Truth], same: Sequence[Truth]) -> Truth:
    """What consumers were shown stays: no leader takes back, or changes, what is below an HWM that they were told.

    ``shown`` and ``same`` say for each offset whether a leader shows it, and whether it is what was shown there first.
    """
    return all_of(implies(there, as_before) for there, as_before in zip(shown, same, strict=True))


@statement("B3")
def logs_match(same: Sequence[Truth]) -> Truth:
    """Two logs that hold the same record at an offset hold the same records before it.

    ``same`` says of each offset whether they do.
    """
    return all_of(implies(same[offset], all_of(same[:offset])) for offset in range(1, len(same)))


# --- ISR and ELR of a partition -------------------------------------------------------------------------------


@statement("B8")
def isr_within_replicas(partition: StructValue, replicas: SetValue) -> Truth:
    """The ISR is made of replicas of the partition: only they have the log."""
    return partition.isr <= replicas


@statement("966.9")
def elr_within_replicas(partition: StructValue, replicas: SetValue) -> Truth:
    """The ELR is made of replicas of the partition, also after a reassignment or its cancellation."""
    return implies(~partition.elr.is_empty, partition.elr <= replicas)


@statement("841.2, 903.4")
def isr_members_are_eligible(partition: StructValue, active: SetValue) -> Truth:
    """Nobody but the last member is in the ISR while fenced or shutting down.

    Else records wait for a replica that does not fetch, or are committed without it once it is taken out.
    """
    lonely = (size(partition.isr) <= 1) & partition.leader.is_none
    return implies(~lonely, partition.isr <= active)


@statement("966.6")
def isr_and_elr_are_disjoint(partition: StructValue) -> Truth:
    """No replica is in both ISR and ELR."""
    return implies(~partition.elr.is_empty, (partition.isr & partition.elr).is_empty)


@statement("966.6, 966.8")
def elr_only_under_min_isr(partition: StructValue, min_isr: Number) -> Truth:
    """There is an ELR only while the ISR is under min ISR.

    With min ISR members the HWM advances, and an ELR member does not hold what is committed then.
    """
    return implies(~partition.elr.is_empty, size(partition.isr) < min_isr)


# --- leaders and their HWM ------------------------------------------------------------------------------------


@statement("B8")
def one_leader_per_epoch(leaders: Sequence[tuple[Truth, Number]]) -> Truth:
    """In a leader epoch at most one takes itself for the leader.

    ``leaders`` says of each replica whether it does, and in which leader epoch.
    """
    return all_of(
        implies(leads & also, epoch != other)
        for number, (leads, epoch) in enumerate(leaders)
        for also, other in leaders[number + 1 :]
    )


@statement("B4")
def hwm_never_moves_back(before: Number, after: Number) -> Truth:
    """The HWM that a replica knows never moves back while it runs in one role."""
    return after >= before


@statement("966.1")
def hwm_stands_under_min_isr(isr_size: Number, min_isr: Number) -> Truth:
    """The HWM stands still while the committed ISR has fewer than min ISR members: where it moves, the gate is open."""
    return logs.gate_is_open(isr_size, min_isr)


@statement("B4")
def hwm_waits_for_isr(leo: Number, hwm: Number) -> Truth:
    """The HWM of a leader passes the LEO of no member of its ISR."""
    return logs.is_held(leo, hwm)


@statement("B5")
def isr_joined_caught_up(leo: Number, hwm: Number, epoch_start: Number) -> Truth:
    """A replica joins the ISR once its LEO has reached the HWM and the start of the leader epoch."""
    return logs.has_caught_up(leo, hwm, epoch_start)


# --- messages -------------------------------------------------------------------------------------------------


@statement("B2")
def leader_answers_in_its_epoch(asked: Number, leads: Number) -> Truth:
    """A leader uses a fetch only in the leader epoch in which it leads."""
    return asked == leads


@statement("903.2, 903.4")
def stale_epochs_are_refused(sent: Number, known: Number) -> Truth:
    """Nobody uses what a broker says under an earlier broker epoch than the one that is known of it."""
    return sent >= known


@statement("903.3")
def proposals_name_fetched_epochs(named: Number, fetched: Number) -> Truth:
    """An AlterPartition gives each member the broker epoch of its last fetch."""
    return named == fetched


@statement("B7, B8")
def one_proposal_is_under_way(under_way: Number) -> Truth:
    """A leader has at most one AlterPartition under way: of two it could not say which was carried out."""
    return under_way <= 1


@statement("B6")
def acknowledged_has_copies(hwm: Number, offset: Number, copies: Number, min_isr: Number) -> Truth:
    """What is acknowledged with acks=all is below the leader's HWM, and min ISR replicas have it."""
    return (hwm > offset) & (copies >= min_isr)


STATEMENTS = (
    leader_completeness,
    electable_completeness,
    committed_records_survive,
    enough_are_electable,
    consumers_read_consistently,
    logs_match,
    isr_within_replicas,
    elr_within_replicas,
    isr_members_are_eligible,
    isr_and_elr_are_disjoint,
    elr_only_under_min_isr,
    one_leader_per_epoch,
    hwm_never_moves_back,
    hwm_stands_under_min_isr,
    hwm_waits_for_isr,
    isr_joined_caught_up,
    leader_answers_in_its_epoch,
    stale_epochs_are_refused,
    proposals_name_fetched_epochs,
    one_proposal_is_under_way,
    acknowledged_has_copies,
)
"""All of them."""
