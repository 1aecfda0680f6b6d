"""What an operator chose, as far as properties of the controller's steps go by it: a strategy, an election."""

from __future__ import annotations

from highwater.model.language import Number, State, any_of
from highwater.model.language.values import Truth, as_bool
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.types import RecoveryRequest, RecoveryStrategy


def favours_availability(m: Controller, s: State) -> Truth:
    """966.13, 966.16. Whether the operator chose Aggressive, by either of the two settings."""
    if m.has_strategy:
        chosen: Truth = s.recovery_strategy == RecoveryStrategy.AGGRESSIVE
        return chosen
    return as_bool(s.unclean_election)


def is_requested(m: Controller, before: State, after: State, *kinds: Number) -> Truth:
    """966.17. Whether a step is one of these elections, of an operator."""
    if not m.p.recovery_requests:
        return as_bool(False)
    asked = any_of(after.requested.value.kind == kind for kind in kinds)
    decided = (before.partition != after.partition) | (before.requested != after.requested)
    return after.requested.is_some & decided & asked


def is_risked(m: Controller, before: State, after: State) -> Truth:
    """966.17. Whether a step is an election by which an operator may lose committed records."""
    risky = RecoveryRequest.DESIGNATION, RecoveryRequest.LONGEST_LOG_AGGRESSIVE
    return is_requested(m, before, after, *risky)
