"""Steps about unclean recovery beside the controller's own: what an operator sets and asks for (966.13, 966.17)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from highwater.model.language import Bool, Number, Parameter, State, StructValue, action, require
from highwater.model.replication.controller import elections, handlers, outlook
from highwater.model.replication.controller.partition_change import is_empty_record
from highwater.model.replication.controller.types import Handled, RecoveryRequest

if TYPE_CHECKING:
    from highwater.model.replication.controller.protocol import Controller

PARAMETERS = {
    "strategy_changes": Parameter(
        0,
        0,
        1,
        "whether an operator changes unclean.recovery.strategy, which begins as Balanced; else it is as "
        "unclean.leader.election.enable is mapped to it (966.16)",
    ),
    "recovery_requests": Parameter(
        0, 0, 1, "whether an operator asks for DESIGNATION and LONGEST_LOG elections, too (966.17)"
    ),
    "harmless_crashes": Parameter(
        0, 0, 1, "whether a broker can lose nothing in an unclean shutdown; else it loses its log"
    ),
}


@action(
    "966.12",
    says="broker {broker} registers after an unclean shutdown that lost no record",
    broker="broker",
)
def register_undamaged(m: Controller, s: State, broker: Number) -> None:
    """A broker crashes and loses nothing. The controller cannot know, and takes it for one that lost its log."""
    require("an unclean shutdown can lose nothing", bool(m.p.harmless_crashes))
    m.restart(s, broker, clean=Bool.lift(False), whole=Bool.lift(True))


@action(
    "966.13",
    rule="unclean_recovery",
    says="unclean.recovery.strategy becomes {strategy}",
    strategy="strategy_choice",
)
def change_recovery_strategy(m: Controller, s: State, strategy: Number) -> None:
    """An operator changes the strategy that is in force: the topic's own or, where it has none, the cluster's.

    No partition changes by it. A change of the cluster's beside the topic's own is no step: it has no effect.
    """
    require("an operator changes it", bool(m.p.strategy_changes))
    if m.has_strategy:
        require("the strategy is another one", s.recovery_strategy != strategy)
        s.next.recovery_strategy = strategy


@action(
    "966.17",
    rule="unclean_recovery",
    says="the operator designates broker {broker} as leader",
    broker="broker",
)
def designate_leader(m: Controller, s: State, broker: Number) -> None:
    """DESIGNATION: the replica that the operator names, if it is live; only where there is no leader."""
    require("an operator asks for it", bool(m.p.recovery_requests))
    handled = handlers.designate_leader(m.context(s), broker)
    elect_from_outside(m, s, handled, _request(m, RecoveryRequest.DESIGNATION, broker))


@action(
    "966.17",
    rule="unclean_recovery",
    says="the operator has broker {winner} elected by its log (balanced: {balanced})",
    winner="broker",
    balanced="balanced",
)
def elect_by_log(m: Controller, s: State, winner: Number, balanced: bool) -> None:
    """LONGEST_LOG_BALANCED and LONGEST_LOG_AGGRESSIVE: the best log of those that are compared, if it is live.

    Answers take no time here. Which log is the best is only known as far as ``complete`` says.
    """
    require("an operator asks for it", bool(m.p.recovery_requests))
    elections.request_checks(m.t, s.partition, balanced).require()
    unfenced = m.assigned(s.partition) & m.active(s)
    compared = elections.compared_logs(s.partition, unfenced, balanced)
    require("the winner's log is compared", compared.has(winner))
    best = outlook.may_have_best_log(s.complete, winner, compared)
    require("no log that is compared is better", best)
    kind = RecoveryRequest.LONGEST_LOG_BALANCED if balanced else RecoveryRequest.LONGEST_LOG_AGGRESSIVE
    handled = handlers.recover_uncleanly(m.context(s), winner)
    elect_from_outside(m, s, handled, _request(m, kind, winner))


def strategy(m: Controller, s: State) -> Number:
    """966.13. The strategy: a setting of its own or, in scenarios without it, what is mapped to it (966.16)."""
    if m.has_strategy:
        own: Number = s.recovery_strategy
        return own
    return elections.mapped_strategy(s.unclean_election)


def _request(m: Controller, kind: Number, leader: Number) -> StructValue | None:
    return m.t.requested(kind=kind, leader=leader) if m.p.recovery_requests else None


def elect_from_outside(
    m: Controller, s: State, handled: Handled, requested: StructValue | None = None
) -> None:
    """966.14. A live replica leads, whatever ISR and ELR are; ``requested``: what an operator asked for, if any."""
    handled.checks.require()
    require("the winner is a live replica", ~is_empty_record(m.t, handled.record))
    m.carry_out(s, replace(m.decision(s, handled.record), requested=requested))
