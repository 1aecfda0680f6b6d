"""What must hold of every step in which the controller elects: for a reason, and of the best that there is."""

from __future__ import annotations

from highwater.model.language import State, all_of, implies
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import SetValue, Truth, as_bool
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.elections import electable


def _clean(m: Controller, before: State, after: State) -> SetValue:
    """Who could be elected cleanly in a step: the ISR, without one the ELR, of those that are active after it."""
    old, new = before.partition, after.partition
    return electable(old) & electable(new) & m.active(after) & m.assigned(new)


@step_property("B8", rule="leader_stays")
def a_leader_that_may_lead_on_is_kept(m: Controller, before: State, after: State) -> Truth:
    """Nobody takes over from a leader that is active and stays in the ISR, but the preferred replica."""
    old, new = before.partition, after.partition
    goes_on = old.leader.is_some & m.active(after).has(old.leader) & new.isr.has(old.leader)
    preferred = new.leader.is_some & new.leader.is_(new.replicas.at(0))
    return implies(old.leader != new.leader, ~goes_on | preferred)


@step_property("966.13")
def nobody_is_passed_over(m: Controller, before: State, after: State) -> Truth:
    """Where somebody who surely holds what is committed is active, no one else is elected, and the partition is led."""
    old, new = before.partition, after.partition
    clean = _clean(m, before, after)
    elected = new.leader.is_some & (old.leader != new.leader)
    completed = old.replicas != new.replicas  # who joins then can lead at once
    passed = elected & ~electable(old).has(new.leader) & ~completed
    lost = old.leader.is_some & new.leader.is_none
    return implies(old.leader != new.leader, ~((passed | lost) & ~clean.is_empty))


@step_property("966.14, 966.15, 966.16")
def unclean_elections_are_allowed(m: Controller, before: State, after: State) -> Truth:
    """Who is in neither ISR nor ELR leads only as the last known leader, by recovery, or as the operator allows.

    It is active, and alone in the ISR then.
    """
    old, new = before.partition, after.partition
    elected = new.leader.is_some & (old.leader != new.leader) & ~electable(old).has(new.leader)
    elected = elected & (old.replicas == new.replicas)
    last = old.last_known_leader.is_some & new.leader.is_(old.last_known_leader.value)
    recovers = m.on("unclean_recovery") & old.leader.is_none
    allowed = before.unclean_election | last | recovers | old.leader.is_none
    alone = all_of(new.isr.has(b) == new.leader.is_(b) for b in m.t.broker)
    return implies(elected, allowed & m.active(after).has(new.leader) & alone)


@step_property("B8, 841.5")
def registrations_change_for_a_reason(m: Controller, before: State, after: State) -> Truth:
    """A broker that is fenced, or begins to shut down, is in the ISR no more; one is unfenced in its own epoch.

    A registration ends a controlled shutdown, and nothing else does; one that is fenced does not begin one.
    """
    kept = []
    for b in m.t.broker:
        old, new = before.registrations[b], after.registrations[b]
        leaves = (~old.fenced & new.fenced) | (~old.in_controlled_shutdown & new.in_controlled_shutdown)
        kept.append(implies(leaves, ~after.partition.isr.has(b)))
        back = old.in_controlled_shutdown & ~new.in_controlled_shutdown
        kept.append(implies(back, (old.epoch != new.epoch) | ~new.registered))
        begins = ~old.in_controlled_shutdown & new.in_controlled_shutdown
        kept.append(implies(begins, ~old.fenced & ~new.fenced & (old.epoch == new.epoch)))
        kept.append(
            implies(old.epoch != new.epoch, (new.epoch == old.epoch + 1) & ~after.partition.isr.has(b))
        )
    return all_of(kept)


@step_property("966.8, 966.16")
def what_an_operator_sets_is_his(m: Controller, before: State, after: State) -> Truth:
    """Settings change in steps of their own: nobody is elected and nobody joins the ISR in them.

    Unclean election is enabled only where an operator may.
    """
    same = before.min_insync_replicas == after.min_insync_replicas
    enabled = ~before.unclean_election & after.unclean_election
    old, new = before.partition, after.partition
    rests = (old.leader == new.leader) & (old.isr == new.isr) & (before.registrations == after.registrations)
    may = as_bool(m.p.unclean_election == 2)
    return implies(~same, rests) & implies(enabled, (old == new) & same & may)


WATCHED = (
    a_leader_that_may_lead_on_is_kept,
    nobody_is_passed_over,
    unclean_elections_are_allowed,
    registrations_change_for_a_reason,
    what_an_operator_sets_is_his,
)

__all__ = ["WATCHED"]
