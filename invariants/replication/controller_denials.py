"""What the controller allows an operator, denied: each is violated, as a reassignment waits for min ISR and no more."""

from __future__ import annotations

from highwater.model.language import State
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import Truth
from highwater.model.replication.controller import Controller


def _ends(before: State, after: State) -> Truth:
    """Whether a step ends a reassignment."""
    p, then = before.partition, after.partition
    going = ~p.adding.is_empty | ~p.removing.is_empty
    return going & then.adding.is_empty & then.removing.is_empty


@step_property("966.9")
def nothing_completes_before_all_have_caught_up(m: Controller, before: State, after: State) -> Truth:
    """A reassignment completes only when everyone who is to stay is in the ISR."""
    p, then = before.partition, after.partition
    completes = _ends(before, after) & (m.assigned(then) == m.assigned(p) - p.removing)
    return ~(completes & ~p.removing.is_empty & ~(m.assigned(then) <= then.isr))


DENIALS = (nothing_completes_before_all_have_caught_up,)
