"""What must hold of every fetch that is sent: what it says, and that it is the only one."""

from __future__ import annotations

from highwater.model.language import State, all_of, implies
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import Truth, as_bool
from highwater.model.quorum import Quorum


@step_property("1166.1")
def who_knows_the_version_says_its_hwm(m: Quorum, before: State, after: State) -> Truth:
    """A fetch says which HWM its sender knows once that one has learnt that version 18 is finalised, not before."""
    if not m.p.finalised_late or not m.on("fetch_carries_hwm"):
        return as_bool(True)
    kept = []
    for f in m.member:
        old, new = before.requests[f], after.requests[f]
        says = new.value.hwm.is_some
        kept.append(implies(new.is_some & (old != new), implies(says, before.finalised[f])))
        if not m.is_older(f) and not m.is_consumer(f):
            kept.append(implies(new.is_some & (old != new) & before.finalised[f], says))
    return all_of(kept)


@step_property("595.1")
def a_fetch_is_sent_once(m: Quorum, before: State, after: State) -> Truth:
    """In one epoch a member sends no other fetch while one is under way: its answer would be taken for the other's."""
    return all_of(
        before.requests[f].is_none
        | after.requests[f].is_none
        | (before.requests[f] == after.requests[f])
        | (before.requests[f].value.epoch != after.requests[f].value.epoch)
        for f in m.member
    )


@step_property("1166.4")
def a_fetch_without_the_field_waits_for_records(m: Quorum, before: State, after: State) -> Truth:
    """A fetch that carries no HWM is answered when it comes only with a record, or with where to truncate.

    Its sender is of an older version, or a consumer. The leader's HWM is no reason to answer it, even if it has grown.
    """
    kept = []
    for f in m.member:
        request, old, new = before.requests[f], before.responses[f], after.responses[f]
        comes = request.is_some & request.value.hwm.is_none & after.requests[f].is_none
        answered = new.is_some & (old != new)
        kept.append(implies(comes & answered, new.value.record.is_some | new.value.diverging))
    return all_of(kept)


@step_property("1166.5", needs="consumers")
def consumers_are_answered_with_records(m: Quorum, before: State, after: State) -> Truth:
    """A consumer does not set the field; it is answered with a record, with where to truncate, or by its timer.

    No HWM is news to a consumer.
    """
    kept = []
    for f in m.member:
        if m.is_consumer(f):
            old, new = before.responses[f], after.responses[f]
            reason = new.value.record.is_some | new.value.diverging | new.value.timed_out
            kept.append(implies(new.is_some & (old != new), reason))
            kept.append(after.requests[f].is_none | after.requests[f].value.hwm.is_none)
    return all_of(kept)


FETCHES = (
    who_knows_the_version_says_its_hwm,
    a_fetch_is_sent_once,
    a_fetch_without_the_field_waits_for_records,
    consumers_are_answered_with_records,
)
