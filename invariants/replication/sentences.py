"""Sentences of the proposals about a single step, each stated without the rule that implements it."""

from __future__ import annotations

from highwater.model.language import State, all_of, implies
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import Truth, as_bool
from highwater.model.replication import Replication, levels


@step_property("966.5, 966.12, 966.18", rule="unclean_registration")
def unclean_registrations_leave_isr_and_elr(m: Replication, before: State, after: State) -> Truth:
    """A broker that registers after an unclean shutdown is in neither ISR nor ELR, unless it is the last ISR member.

    A shutdown is clean if its CleanShutdownFile has the registered broker epoch, and the metadata version knows of it.
    """
    kept = []
    for b in m.broker:
        old, new = before.registrations[b], after.registrations[b]
        file = before.brokers[b]
        level = before.elr_level if levels.level_changes(m.p) else as_bool(True)
        clean = (file.status == "STOPPED") & (file.epoch == old.epoch) & level
        last = before.partition.isr == m.t.brokers.zero().with_(b)
        out = ~after.partition.elr.has(b) & (last | ~after.partition.isr.has(b))
        kept.append(implies((old.epoch != new.epoch) & ~clean, out))
    return all_of(kept)


STEPS = (unclean_registrations_leave_isr_and_elr,)
"""The properties of steps."""
