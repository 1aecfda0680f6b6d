"""What the controller allows an operator, denied: each is violated, as a reassignment waits for min ISR and no more."""

from __future__ import annotations

from highwater.model.language import State, size
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import Truth
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.eligible_leader_replicas import effective_min_isr


def _ends(before: State, after: State) -> Truth:
    """Whether a step ends a reassignment."""
    p, then = before.partition, after.partition
    going = ~p.adding.is_empty | ~p.removing.is_empty
    return going & then.adding.is_empty & then.removing.is_empty


def _is_cancelled(m: Controller, before: State, after: State) -> Truth:
    """Whether a step cancels a reassignment that was to add somebody."""
    p, then = before.partition, after.partition
    back = ~p.adding.is_empty & (then.replicas == p.replicas.filter(lambda r: ~p.adding.has(r)))
    return _ends(before, after) & back


@step_property("966.9")
def nothing_completes_before_all_have_caught_up(m: Controller, before: State, after: State) -> Truth:
    """A reassignment completes only when everyone who is to stay is in the ISR."""
    p, then = before.partition, after.partition
    completes = _ends(before, after) & (m.assigned(then) == m.assigned(p) - p.removing)
    return ~(completes & ~p.removing.is_empty & ~(m.assigned(then) <= then.isr))


@step_property("966.9")
def nothing_is_cancelled_with_min_isr_left(m: Controller, before: State, after: State) -> Truth:
    """A reassignment is cancelled only where more than min ISR members are left."""
    then = after.partition
    least_left = effective_min_isr(m.controllers_min_isr(after), size(m.assigned(then)))
    return ~(_is_cancelled(m, before, after) & (size(then.isr) == least_left))


@step_property("966.9")
def nothing_is_cancelled_without_unclean_election(m: Controller, before: State, after: State) -> Truth:
    """A reassignment is cancelled only where an operator allows unclean elections."""
    return ~(_is_cancelled(m, before, after) & ~before.unclean_election)


DENIALS = (
    nothing_completes_before_all_have_caught_up,
    nothing_is_cancelled_with_min_isr_left,
    nothing_is_cancelled_without_unclean_election,
)
