"""Properties of the protocol ``promise``, the promise to clients."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.invariants.statements import defined
from highwater.model.language import (
    Invariant,
    State,
    StepProperty,
    Truth,
    all_of,
    implies,
    invariant,
    step_property,
)
from highwater.model.promise import Promise


@invariant("P1")
def what_is_acknowledged_stays(m: Promise, s: State) -> Truth:
    """An acknowledged record stays in the log, unless min.insync.replicas brokers lost data or an election was unclean.

    The field ``void`` becomes true when either happens.
    """
    return all_of(implies((s.writes[v] == "ACKNOWLEDGED") & ~s.void, s.log.has(v)) for v in m.value)


@invariant("B6")
def consumers_read_the_log(m: Promise, s: State) -> Iterator[Truth]:
    """Every broker shows consumers a prefix of the committed log."""
    for b in m.broker:
        for o in m.lengths[:-1]:
            yield (s.shown[b].length <= o) | ((s.log.length > o) & (s.shown[b].at(o) == s.log.at(o)))


@invariant("B1")
def the_log_is_in_order(m: Promise, s: State) -> Truth:
    """The committed log holds only written records, each once, in the order of their writes."""
    ascending = all_of((s.log.length <= o + 1) | (s.log.at(o) < s.log.at(o + 1)) for o in m.lengths[:-2])
    return ascending & all_of(implies(s.log.has(v), s.writes[v] != "UNUSED") for v in m.value)


@step_property("B6")
def what_a_producer_was_told_stays(m: Promise, before: State, after: State) -> Iterator[Truth]:
    """A record's status changes only from UNUSED to WRITTEN or PENDING, and from PENDING to ACKNOWLEDGED."""
    for v in m.value:
        was, is_ = before.writes[v], after.writes[v]
        yield (was == is_) | (was == "UNUSED") | ((was == "PENDING") & (is_ == "ACKNOWLEDGED"))
        yield implies((was == "UNUSED") & (was != is_), is_ != "ACKNOWLEDGED")


INVARIANTS = defined(Invariant, __name__)
STEP_PROPERTIES = defined(StepProperty, __name__)
