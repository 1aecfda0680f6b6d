"""The cluster keeps the promise to its clients (``model/promise``): refinement from cluster states to client views."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from highwater.invariants.replication.commits import history
from highwater.invariants.replication.knowledge import CRASHES, helper, spent
from highwater.model.language import (
    Number,
    Seq,
    SeqValue,
    State,
    Truth,
    all_of,
    as_bool,
    implies,
    least,
    refines,
    total,
    where,
)
from highwater.model.language.refinement import Mapped
from highwater.model.promise import Promise
from highwater.model.replication import logs as log_rules
from highwater.model.replication.cluster import committed_at_start
from highwater.model.replication.protocol import Replication


def tolerated(m: Replication) -> dict[str, int]:
    """The parameters of the protocol ``promise`` for this scenario.

    If the scenario allows changes of min ISR or reassignments, the promise's min ISR is 1. Otherwise it is the
    scenario's min ISR, at most the replication factor.
    """
    changes = m.p.min_isr_changes or m.p.reassignments
    return {
        "records": m.p.records,
        "initial_records": committed_at_start(m),
        "brokers": m.p.brokers,
        "min_isr": 1 if changes else min(m.p.min_isr, m.factor),
        "unclean": int(m.p.unclean_election or (m.p.elections > 0 and m.p.risky_elections)),
    }


CLEAN_OUTAGES = ("fencings", "controlled_shutdowns", "unseen_stops", "early_stops")
"""The budgets of outages in which a broker keeps its log."""


def is_void(m: Replication, s: State) -> Truth:
    """P1. True if the promise no longer applies: too many brokers lost data, or an election can have been unclean.

    Too many means at least as many as the promise's min ISR (``tolerated``). The state does not record whether an
    election was unclean. So after the first unclean shutdown the promise is void in two cases: the configuration allows
    unclean elections, or an operator has requested an election that may be unclean. If the controller elects uncleanly
    without an unclean recovery (966.14), every fencing and clean stop counts as an unclean shutdown here.
    """
    lost = spent(m, s, "lossy_crashes", "disk_losses")
    elects = m.p.unclean_election and (m.p.flag_changes or not m.ever_on("unclean_recovery"))
    failed = spent(m, s, *CRASHES, *(CLEAN_OUTAGES if elects else ())) > 0
    uncleanly = as_bool(m.p.unclean_election)
    if m.p.risky_elections:
        uncleanly = uncleanly | (spent(m, s, "elections") > 0)
    return (lost >= tolerated(m)["min_isr"]) | (failed & uncleanly)


def committed_and_there(m: Replication, s: State) -> SeqValue:
    """B4. The committed records up to the first one that the elected leader lacks.

    If the partition has no leader, or its leader does not run: all committed records.
    """
    there = s.committed.length
    for b in m.broker:
        same = [log_rules.same_record(s.brokers[b].log, s.committed, o) for o in m.offsets]
        leads = s.partition.leader.is_(b) & m.is_up(s.brokers[b])
        there = where(leads, total(all_of(same[: o + 1]) for o in m.offsets), there)
    committed: SeqValue = s.committed.truncate(there)
    return committed


@refines(Promise, "P1, B4, B6", parameters=tolerated)
def keeps_the_promise(m: Replication, s: State) -> Mapped:
    """Clients see the promised log: it only grows, in order, and contains all acknowledged records."""
    log, void = Seq(m.value, m.p.records), is_void(m, s)

    def values(records: SeqValue) -> SeqValue:
        found = log.zero()
        for o in m.offsets:
            found = where(records.length > o, found.append(records.at(o).value), found)
        return where(void, log.zero(), found)

    def shown(b: Number) -> SeqValue:
        broker = s.brokers[b]
        return values(broker.log.truncate(where(m.leads(b, broker), broker.hwm, 0)))

    lost = least(spent(m, s, "lossy_crashes", "disk_losses"), tolerated(m)["min_isr"] - 1)
    return {
        "writes": s.writes,
        "log": values(committed_and_there(m, s)),
        "shown": [shown(b) for b in m.broker],
        "lost": where(void, 0, lost),
        "void": void,
    }


# --- helper invariants ----------------------------------------------------------------------------------------


@helper("B1")
def records_are_written_in_their_order(m: Replication, s: State) -> Truth:
    """Values are written in order: if a value is written, the values before it are too."""
    there = [s.writes[v] != "UNUSED" for v in m.value]
    return all_of(implies(later, earlier) for earlier, later in itertools.pairwise(there))


@helper("B1")
def records_were_written(m: Replication, s: State) -> Iterator[Truth]:
    """Every record in a log, in a fetch response or among the committed records was written by a producer."""
    logs = [*(s.brokers[b].log for b in m.broker), s.committed]
    for log in logs:
        for o in m.offsets:
            yield implies(log.length > o, s.writes[log.at(o).value] != "UNUSED")
    for b in m.broker:
        sent = s.fetch_responses[b].value.record
        yield implies(sent.is_some, s.writes[sent.value.value] != "UNUSED")


@helper("B1")
def records_are_in_order(m: Replication, s: State) -> Iterator[Truth]:
    """Each log has its records in the order of their writes, also with the record of the fetch response in flight."""
    logs = [*(history(m, s, b) for b in m.broker), s.committed]
    for log in logs:
        for o in m.offsets[:-1]:
            yield implies(log.length > o + 1, log.at(o).value < log.at(o + 1).value)
