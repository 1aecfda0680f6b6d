"""State that the controller does not know: complete logs, and whether elections were needless.

``complete`` is the set of replicas whose log has every record that can have been committed (966.6).
"""

from __future__ import annotations

from dataclasses import dataclass

from highwater.model.language import Number, SetValue, StructValue, Truth, size, where
from highwater.model.language.containers import members_of
from highwater.model.replication.controller import elections
from highwater.model.replication.controller.partition_change import (
    effective_min_isr,
)
from highwater.model.replication.controller.types import ControllerTypes, ElectionType
from highwater.model.replication.logs import gate_is_open

# --- logs without their records -------------------------------------------------------------------------------


@dataclass(frozen=True)
class AbstractLogs:
    """``complete``: brokers with every committed record. ``diminished``: true if they can be fewer than min ISR."""

    complete: SetValue
    diminished: Truth


@dataclass(frozen=True)
class Decision:
    """A partition change from ``old`` to ``new``, and its effects on brokers.

    - ``live``: brokers that may lead after the change.
    - ``joining``: brokers with the leader's whole log; only those that join the ISR in this change count.
    - ``lost``: brokers that lost their log.
    - ``chosen``: true if fewer than min ISR copies may remain although no log is lost. The reason is an operator's
      choice, or a member that registers and counts as unclean.
    - ``offline``, ``online``: brokers whose replica's directory goes offline or online.
    - ``election``: the type of an election by request or by the task that balances leaders; else None.
    - ``requested``: the operator's request of a recovery; None if there was none.
    """

    old: StructValue
    new: StructValue
    min_insync_replicas: Number
    live: SetValue
    joining: SetValue
    lost: SetValue
    chosen: Truth
    offline: SetValue
    online: SetValue
    election: Number | None = None
    requested: StructValue | None = None


@dataclass(frozen=True)
class RegistrationEffect:
    """The effect of a broker's registration on the partition.

    - ``record``: the partition's change; empty if there is none.
    - ``again``: how many more times the controller writes the record, because of entries in its index of ELR members
      (K8); None, which means never, without the rule ``cleared_elr_stays_indexed``.
    - ``counts_as_clean``: the controller takes the preceding shutdown for a clean one.
    """

    record: StructValue
    again: Number | None
    counts_as_clean: Truth


def commits(partition: StructValue, min_insync_replicas: Number) -> Truth:
    """966.1. True if the HWM may advance: there is a leader, and the ISR has at least min ISR members."""
    needed = effective_min_isr(min_insync_replicas, partition.replicas.length)
    return partition.leader.is_some & gate_is_open(size(partition.isr), needed)


def _joining(decision: Decision) -> SetValue:
    """The brokers that join the ISR with the leader's whole log."""
    return decision.joining & (decision.new.isr - decision.old.isr)


def is_unclean(decision: Decision) -> Truth:
    """966.13. True if the leader after a decision comes from outside ISR and ELR."""
    electable = (elections.electable(decision.old) - decision.lost) | _joining(decision)
    return decision.new.leader.is_some & ~elections.is_clean(electable, decision.new.leader)


def holding_all(logs: AbstractLogs, decision: Decision) -> SetValue:
    """The brokers whose logs have every committed record when a decision is made."""
    return (logs.complete | _joining(decision)) - decision.lost


def loses_records(logs: AbstractLogs, decision: Decision) -> Truth:
    """966.6. True if a decision elects a leader that lacks committed records: they are then lost."""
    leader = decision.new.leader
    return leader.is_some & (decision.old.leader != leader) & ~holding_all(logs, decision).has(leader)


def after_decision(t: ControllerTypes, logs: AbstractLogs, decision: Decision) -> AbstractLogs:
    """The brokers with complete logs after a decision, and whether they can be fewer than min ISR.

    If the new leader is from outside ISR and ELR, only that leader is complete, because its log becomes the committed
    one. While the HWM may advance, only ISR members count as complete: other brokers lack the next committed record.
    """
    old, new, lost, setting = decision.old, decision.new, decision.lost, decision.min_insync_replicas
    outside = is_unclean(decision)
    alone = t.brokers.zero().with_(new.leader.value)
    holding = where(outside, alone, holding_all(logs, decision))
    hit = ~(elections.electable(old) & lost).is_empty
    enough = size(new.isr) >= effective_min_isr(setting, new.replicas.length)
    still = ~enough & (logs.diminished | hit | outside | decision.chosen)
    return AbstractLogs(where(commits(new, setting), holding & new.isr, holding), still)


def is_needless(t: ControllerTypes, decision: Decision, elr: SetValue) -> Truth:
    """966.13, 966.17. True if a decision changes the leader needlessly.

    ``elr`` is the previous ELR, empty while the ELR is off. An election ends a leader epoch, and an unclean one loses
    records. A change is needless if
    - the previous leader was a live ISR member, and no PREFERRED election made the preferred replica leader; or
    - some live replica is electable, but the new leader is not electable, or there is no new leader.
    """
    old, new = decision.old, decision.new
    electable = ((old.isr | elr) - decision.lost) | (decision.joining & new.isr)
    candidates = electable & decision.live & members_of(new.replicas, t.brokers)
    before, after = old.leader, new.leader
    changes = before != after
    ended = before.is_some & (candidates & old.isr).has(before)
    if decision.election is not None:
        ended = ended & ~(
            (decision.election == ElectionType.PREFERRED) & after.is_some & elections.preferred_leads(new)
        )
    passed_over = ~candidates.is_empty & ~candidates.has(after)
    return changes & (ended | passed_over)


def may_have_best_log(complete: SetValue, winner: Number, compared: SetValue) -> Truth:
    """966.14. True if ``winner`` can have the best log among the ``compared`` replicas.

    Logs are compared by last leader epoch, then by length. A log that lacks a committed record is never better than a
    complete log. So either the winner is complete, or no compared replica is.
    """
    return complete.has(winner) | (compared & complete).is_empty


def without_promise(partition: StructValue, complete: SetValue) -> SetValue:
    """The brokers that count as complete while the ELR is off.

    If no ISR member is complete, all ISR members count as complete. Without the ELR the last ISR member stays in the
    ISR, even if it lost its log, and the proposals then guarantee nothing about committed records.
    """
    nobody_left = (partition.isr & complete).is_empty
    return where(nobody_left, complete | partition.isr, complete)
