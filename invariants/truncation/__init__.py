"""Properties of the truncation protocol, as the published specification states them."""

from __future__ import annotations

from highwater.invariants.truncation.reachable import REACHABLE
from highwater.invariants.truncation.steps import WATCHED
from highwater.model.language import State, all_of, implies, invariant
from highwater.model.language.values import Truth
from highwater.model.truncation import Truncation


@invariant("B4")
def weak_isr(m: Truncation, s: State) -> Truth:
    """Every record below a presumed leader's HWM is held by all that this leader has in its ISR.

    Weak, because leaders are elected from the controller's ISR, about which a leader may be wrong.
    """
    return all_of(
        implies(
            m.presumes_leadership(s, leader)
            & s.replicas[leader].isr.has(replica)
            & (s.replicas[leader].hwm > 0),
            m.holds_below_hwm(s, leader, replica),
        )
        for leader in m.replica
        for replica in m.replica
    )


@invariant("B4")
def strong_isr(m: Truncation, s: State) -> Truth:
    """Every record below a presumed leader's HWM is held by all that the controller has in the ISR.

    These are the replicas that can be elected: a record that one of them lacks can be lost after a consumer
    has seen it.
    """
    return all_of(
        implies(
            m.presumes_leadership(s, leader) & s.quorum.isr.has(replica) & (s.replicas[leader].hwm > 0),
            m.holds_below_hwm(s, leader, replica),
        )
        for leader in m.replica
        for replica in m.replica
    )


INVARIANTS = (weak_isr, strong_isr)

__all__ = ["INVARIANTS", "REACHABLE", "WATCHED"]
