"""The operator's part of unclean recovery: the recovery strategy, and election requests (966.13, 966.17)."""

from __future__ import annotations

from dataclasses import replace

from highwater.model.language import Bool, Number, State, StructValue, action, require
from highwater.model.replication.controller import elections, handlers, outlook
from highwater.model.replication.controller.partition_change import is_empty_record
from highwater.model.replication.controller.state import ControllerBase
from highwater.model.replication.controller.types import Handled, RecoveryRequest


@action(
    "966.12",
    says="broker {broker} registers after an unclean shutdown that lost no record",
    broker="broker",
)
def register_undamaged(m: ControllerBase, s: State, broker: Number) -> None:
    """A broker registers after a crash that lost nothing (966.12).

    The controller cannot know this, and treats the broker as one that lost its log.
    """
    require("an unclean shutdown can lose nothing", m.p.harmless_crashes)
    m.restart(s, broker, clean=Bool.lift(False), whole=Bool.lift(True))


@action(
    "966.13",
    rule="unclean_recovery",
    says="unclean.recovery.strategy becomes {strategy}",
    strategy="strategy_choice",
)
def change_recovery_strategy(m: ControllerBase, s: State, strategy: Number) -> None:
    """The operator changes unclean.recovery.strategy: the topic's or, if the topic has none, the cluster's (966.13).

    The change affects no partition by itself. The state has only the effective strategy. If the topic has its own, a
    change of the cluster's strategy has no effect; the model leaves it out.
    """
    require("an operator changes it", m.p.strategy_changes)
    if m.has_strategy:
        require("the strategy is another one", s.recovery_strategy != strategy)
        s.next.recovery_strategy = strategy


@action(
    "966.17",
    rule="unclean_recovery",
    says="the operator designates broker {broker} as leader",
    broker="broker",
)
def designate_leader(m: ControllerBase, s: State, broker: Number) -> None:
    """DESIGNATION: the operator elects a live replica of a partition without a leader (966.17)."""
    require("an operator asks for it", m.p.recovery_requests)
    handled = handlers.designate_leader(m.context(s), broker)
    elect_from_outside(m, s, handled, _request(m, RecoveryRequest.DESIGNATION, broker))


@action(
    "966.17",
    rule="unclean_recovery",
    says="the operator has broker {winner} elected by its log (balanced: {balanced})",
    winner="broker",
    balanced="balanced",
)
def elect_by_log(m: ControllerBase, s: State, winner: Number, balanced: bool) -> None:
    """LONGEST_LOG_BALANCED, LONGEST_LOG_AGGRESSIVE: the operator elects the best of the compared logs (966.17).

    Preconditions: there is no leader, and the replica with the best log is live. This protocol has no answers in
    flight; ``complete`` determines which log can be the best.
    """
    require("an operator asks for it", m.p.recovery_requests)
    elections.request_checks(m.t, s.partition, balanced).require()
    unfenced = m.assigned(s.partition) & m.active(s)
    compared = elections.compared_logs(s.partition, unfenced, balanced)
    require("the winner's log is compared", compared.has(winner))
    best = outlook.may_have_best_log(s.complete, winner, compared)
    require("no log that is compared is better", best)
    kind = RecoveryRequest.LONGEST_LOG_BALANCED if balanced else RecoveryRequest.LONGEST_LOG_AGGRESSIVE
    handled = handlers.recover_uncleanly(m.context(s), winner)
    elect_from_outside(m, s, handled, _request(m, kind, winner))


def strategy(m: ControllerBase, s: State) -> Number:
    """966.13. The recovery strategy in force: unclean.recovery.strategy, if an operator can change that setting.

    Otherwise unclean.leader.election.enable determines the strategy (966.16).
    """
    if m.has_strategy:
        own: Number = s.recovery_strategy
        return own
    return elections.mapped_strategy(s.unclean_election)


def _request(m: ControllerBase, kind: Number, leader: Number) -> StructValue | None:
    return m.t.requested(kind=kind, leader=leader) if m.p.recovery_requests else None


def elect_from_outside(
    m: ControllerBase, s: State, handled: Handled, requested: StructValue | None = None
) -> None:
    """966.14. Make a live replica leader, whether or not it is in ISR or ELR.

    ``handled`` is the handler's result; the step requires that its checks hold. ``requested`` is the operator's
    request; None if the controller acts without a request.
    """
    handled.checks.require()
    require("the winner is a live replica", ~is_empty_record(m.t, handled.record))
    m.carry_out(s, replace(m.decision(s, handled.record), requested=requested))
