"""What the controller does not know: the logs, without their records, and what may become of a partition.

Logs are not modelled. ``complete`` is the set of replicas that hold every record that can have been committed
(966.6).
For properties: whether an election was needed, whether the partition's brokers can come back, and whether the
controller can go on. A decision that fails makes the controller resign, and the next one comes upon the same: a
request that is repeated must not fail.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from highwater.model.language import Bool, Number, SetValue, State, StructValue, Truth, any_of, size, where
from highwater.model.language.containers import members_of
from highwater.model.replication.controller import elections, handlers, registrations
from highwater.model.replication.controller.partition_change import (
    RequestedChange,
    effective_min_isr,
    partition_change,
)
from highwater.model.replication.controller.types import ControllerTypes, ElectionType
from highwater.model.replication.logs import gate_is_open

if TYPE_CHECKING:
    from highwater.model.replication.controller.protocol import Controller


# --- logs without their records -------------------------------------------------------------------------------


@dataclass(frozen=True)
class AbstractLogs:
    """The brokers that hold everything, and whether fewer than min ISR do, for a reason that is allowed."""

    complete: SetValue
    diminished: Truth


@dataclass(frozen=True)
class Decision:
    """A change of the partition, and what happens to its brokers with it.

    ``live`` are the brokers that may lead after it. ``joining`` are brokers that have fetched what the leader has, if
    they join the ISR; ``lost`` are brokers that lost their log. ``chosen`` is an operator's choice to have fewer than
    min ISR. The directories of replicas on ``offline`` and ``online`` brokers are so from now on. ``election`` and
    ``requested`` are the elections that were asked for.
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


def commits(partition: StructValue, min_insync_replicas: Number) -> Truth:
    """966.1. Whether the HWM may advance: there is a leader, and the ISR has min ISR members."""
    needed = effective_min_isr(min_insync_replicas, partition.replicas.length)
    return partition.leader.is_some & gate_is_open(size(partition.isr), needed)


def after_decision(t: ControllerTypes, logs: AbstractLogs, decision: Decision) -> AbstractLogs:
    """The logs after a decision.

    A leader from outside ISR and ELR starts a new history, in which only it holds everything. While the HWM may
    advance, only the ISR holds everything.
    """
    old, new, lost, setting = decision.old, decision.new, decision.lost, decision.min_insync_replicas
    joining = decision.joining & (new.isr - old.isr)
    outside = new.leader.is_some & ~elections.is_clean(
        (elections.electable(old) - lost) | joining, new.leader
    )
    alone = t.brokers.zero().with_(new.leader.value)
    holding = where(outside, alone, (logs.complete | joining) - lost)
    hit = ~(elections.electable(old) & lost).is_empty
    enough = size(new.isr) >= effective_min_isr(setting, new.replicas.length)
    still = ~enough & (logs.diminished | hit | outside | decision.chosen)
    return AbstractLogs(where(commits(new, setting), holding & new.isr, holding), still)


def is_needless(t: ControllerTypes, decision: Decision, elr: SetValue) -> Truth:
    """966.13, 966.17. Whether a decision changes leaders without need; ``elr`` is the ELR before it, if ELR is on.

    An election ends a leader epoch, and an unclean one loses records. Without need are: that the leader does not lead
    on though it is a live member of the ISR and nobody asked for another; that nobody leads, or a broker that is not
    electable, though a live replica is electable.
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
    """966.14. Whether a replica can have the best log of those compared, as far as ``complete`` says.

    By last leader epoch and then length, a log that lacks a committed record is never better than one that has all.
    """
    return complete.has(winner) | (compared & complete).is_empty


def without_promise(partition: StructValue, complete: SetValue) -> SetValue:
    """The brokers that count as complete while ELR is off: an ISR without a complete member starts a new history.

    Its last member stays in it whatever becomes of its log. Nobody promises then that nothing is lost by that.
    """
    nobody_left = (partition.isr & complete).is_empty
    return where(nobody_left, complete | partition.isr, complete)


# --- what may become of a partition ---------------------------------------------------------------------------


def comes_back(m: Controller, s: State, broker: Number) -> Truth:
    """Whether a broker can be fenced, register after a crash, and be unfenced: no decision of these fails."""
    now = m.context(s)
    decisions = (
        registrations.fence(now, broker).record,
        registrations.unfence(now, broker).record,
        m.registration(s, broker, Bool.lift(False)).record,
    )
    return ~any_of(record.fails for record in decisions)


def goes_on(m: Controller, s: State) -> Truth:
    """True if no leader's AlterPartition and no periodic task can make the controller fail.

    Leaders ask for all replicas that may be in the ISR, and for themselves alone.
    """
    now, partition = m.context(s), s.partition
    acceptable = m.t.acceptable(partition, s.registrations)

    def asked_for(isr: SetValue) -> StructValue:
        return now.decided(partition_change, RequestedChange(now.election, isr=isr))

    alone = m.t.brokers.zero().with_(partition.leader.value)
    by_leader = [asked_for(isr) for isr in (m.assigned(partition) & acceptable, alone)]
    by_itself = [
        handlers.maybe_balance_leader(now).record,
        handlers.maybe_elect_unclean_leader(now).record,
    ]
    failing = partition.leader.is_some & any_of(record.fails for record in by_leader)
    return ~(failing | any_of(record.fails for record in by_itself))


def healthy(m: Controller, s: State) -> Truth:
    """Whether every replica's broker is registered and active, and its log directory online."""
    up = m.t.brokers.of(lambda b: s.registrations[b].registered)
    up = up & m.t.acceptable(s.partition, s.registrations)
    return m.assigned(s.partition) <= (up - s.restarting if m.p.failovers > 1 else up)


def can_return(m: Controller, s: State) -> Truth:
    """True if no broker needs an operator to return: every replica's broker is registered, every directory online."""
    partition, everyone = s.partition, Bool.lift(True)
    if m.p.directories and m.on("offline_directory_check"):
        everyone = everyone & partition.offline.is_empty
    if m.p.removals:
        registered = m.t.brokers.of(lambda b: s.registrations[b].registered)
        everyone = everyone & ((m.assigned(partition) | partition.isr | partition.elr) <= registered)
    return everyone


def promised(m: Controller, s: State) -> StructValue:
    """The partition as far as properties speak of it: nothing is promised of the ELR while its level is 0."""
    if not m.p.elr_changes:
        return s.partition
    return s.partition.replace(elr=where(m.elr_is_on(s), s.partition.elr, m.t.brokers.zero()))
