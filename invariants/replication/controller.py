"""Properties of a partition as the controller sees it, in every state that its decisions reach.

Liveness: no budget bounds fencing, shutdowns and registrations in this protocol. The return of brokers and the
controller's own tasks are fair. The protocol has no logs. So if a property needs a replica to join the ISR, it
assumes that the leader proposes every possible ISR infinitely often. ``liveness.py`` has the properties of logs.
"""

from __future__ import annotations

from collections.abc import Iterator

from highwater.invariants import statements
from highwater.invariants.replication import steps
from highwater.invariants.replication.steps import favours_availability, is_requested, min_isr_of
from highwater.invariants.statements import defined, goals
from highwater.model.language import (
    Invariant,
    Liveness,
    Number,
    SetValue,
    State,
    StepProperty,
    StructValue,
    Truth,
    all_of,
    always_eventually,
    any_of,
    as_bool,
    implies,
    invariant,
    reachable,
    size,
    strong,
    weak,
    where,
)
from highwater.model.replication.controller import Controller, handlers
from highwater.model.replication.controller.elections import electable
from highwater.model.replication.controller.partition_change import RequestedChange, partition_change
from highwater.model.replication.controller.types import (
    LeaderRecoveryState,
    RecoveryRequest,
    RecoveryStrategy,
)

# --- the future of a partition --------------------------------------------------------------------------------

# A failing decision makes the controller resign, and the next controller fails at the same decision. So a request that
# is repeated must not fail.


def _goes_on(m: Controller, s: State) -> Truth:
    """True if no leader's AlterPartition and no periodic task can make the controller fail.

    Two AlterPartitions are considered: one that proposes all acceptable replicas, and one that proposes the leader
    alone.
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


def _healthy(m: Controller, s: State) -> Truth:
    """True if every replica's broker is registered and active, and its log directory is online."""
    up = m.t.brokers.of(lambda b: s.registrations[b].registered)
    up = up & m.t.acceptable(s.partition, s.registrations)
    return m.assigned(s.partition) <= (up - s.restarting if m.p.failovers > 1 else up)


def _can_return(m: Controller, s: State) -> Truth:
    """True if no replica's log directory is offline, and the brokers of replicas, ISR and ELR are registered.

    So no broker needs an operator to return.
    """
    partition, everyone = s.partition, as_bool(True)
    if m.p.directories and m.on("offline_directory_check"):
        everyone = everyone & partition.offline.is_empty
    if m.p.removals:
        registered = m.t.brokers.of(lambda b: s.registrations[b].registered)
        everyone = everyone & ((m.assigned(partition) | partition.isr | partition.elr) <= registered)
    return everyone


def _promised(m: Controller, s: State) -> StructValue:
    """The partition as properties see it: with an empty ELR while the ELR is off."""
    if not m.p.elr_changes:
        return s.partition
    return s.partition.replace(elr=where(m.elr_is_on(s), s.partition.elr, m.t.brokers.zero()))


# --- invariants -----------------------------------------------------------------------------------------------


@statements.isr_within_replicas.seen()
def isr_within_replicas(m: Controller, s: State) -> Truth:
    """Checks the partition's ISR."""
    return statements.isr_within_replicas(s.partition, m.assigned(s.partition))


@invariant("B8")
def leader_in_isr(m: Controller, s: State) -> Truth:
    """The leader is in the ISR, because its log has every record that it acknowledges."""
    return implies(s.partition.leader.is_some, s.partition.isr.has(s.partition.leader))


@invariant("B8, 841.5")
def leader_is_active(m: Controller, s: State) -> Truth:
    """The leader is unfenced and not shutting down; otherwise the partition would have no working leader."""
    return implies(s.partition.leader.is_some, m.active(s).has(s.partition.leader))


@statements.isr_members_are_eligible.seen("841.2")
def isr_members_are_eligible(m: Controller, s: State) -> Truth:
    """Checks the partition's ISR against the brokers' registrations."""
    return statements.isr_members_are_eligible(s.partition, m.active(s))


@statements.isr_and_elr_are_disjoint.seen()
def isr_and_elr_are_disjoint(m: Controller, s: State) -> Truth:
    """Checks the partition's ISR and ELR."""
    return statements.isr_and_elr_are_disjoint(s.partition)


@statements.elr_only_under_min_isr.seen()
def elr_only_under_min_isr(m: Controller, s: State) -> Truth:
    """Checks the partition's ISR and ELR. While the feature is off, the ELR counts as empty."""
    return statements.elr_only_under_min_isr(_promised(m, s), min_isr_of(s))


@statements.elr_within_replicas.seen()
def elr_within_replicas(m: Controller, s: State) -> Truth:
    """Checks the partition's ELR. While the feature is off, the ELR counts as empty."""
    return statements.elr_within_replicas(_promised(m, s), m.assigned(s.partition))


@statements.electable_completeness.seen()
def electable_completeness(m: Controller, s: State) -> Truth:
    """Checks that every electable broker is in ``complete``, because this protocol has no logs.

    A broker enters ``complete`` when it joins the ISR with the leader's whole log. A broker leaves ``complete`` in
    three cases: it loses its log, it is outside the ISR while the HWM may advance, or another broker is elected
    uncleanly.
    """
    can_be_elected = electable(_promised(m, s))
    if m.p.elr_changes:
        return implies(m.elr_is_on(s), can_be_elected <= s.complete)
    return statements.electable_completeness(~can_be_elected.is_empty, can_be_elected <= s.complete)


@statements.enough_are_electable.seen()
def enough_are_electable(m: Controller, s: State) -> Truth:
    """Checks ISR and ELR, except while ``diminished`` is true: an operator or a fault can have reduced the copies."""
    return implies(~s.diminished, statements.enough_are_electable(electable(s.partition), m.min_isr(s)))


@invariant("966.10")
def last_known_elr_only_under_min_isr(m: Controller, s: State) -> Truth:
    """The last known ELR has members only while the ISR is under min ISR."""
    return implies(~s.partition.last_known_elr.is_empty, size(s.partition.isr) < min_isr_of(s))


@invariant("966.11")
def last_known_leader_only_without_leader(m: Controller, s: State) -> Truth:
    """A partition with a leader has no last known leader."""
    return implies(s.partition.last_known_leader.is_some, s.partition.leader.is_none)


@invariant("966.11")
def last_known_leader_is_a_broker(m: Controller, s: State) -> Truth:
    """The last known leader is a broker, not NO_LEADER, so that it can be elected."""
    known = s.partition.last_known_leader
    return implies(known.is_some, known.value >= 0)


@invariant("966.9")
def reassignment_within_replicas(m: Controller, s: State) -> Truth:
    """During a reassignment, the replicas that are being added or removed are replicas of the partition."""
    p = s.partition
    going_on = ~p.adding.is_empty | ~p.removing.is_empty
    return implies(going_on, (p.adding | p.removing) <= m.assigned(p))


@invariant("B8")
def leader_epoch_behind_partition_epoch(m: Controller, s: State) -> Truth:
    """The partition epoch is at least the leader epoch, because a leader change is a partition change."""
    return s.partition.leader_epoch <= s.partition.partition_epoch


@invariant("704.2")
def recovering_leader_is_alone(m: Controller, s: State) -> Truth:
    """While a leader recovers from an unclean election, it is the only ISR member."""
    recovering = s.partition.leader_recovery_state == LeaderRecoveryState.RECOVERING
    return implies(recovering, size(s.partition.isr) <= 1)


@statements.leader_completeness.seen("966.6", rule="leftover_elr_elects")
def leader_completeness(m: Controller, s: State) -> Truth:
    """Checks that the leader is in ``complete`` while the ELR is on, even after the ELR has been turned off and on.

    An unclean leader's log becomes the committed one, so such a leader is complete.
    """
    leads = m.elr_is_on(s) & s.partition.leader.is_some
    return statements.leader_completeness(leads, s.complete.has(s.partition.leader))


@invariant("B8", rule="unassigned_candidate_fails")
def every_broker_comes_back(m: Controller, s: State) -> Truth:
    """The controller can fence, register and unfence every broker without failing.

    Otherwise the controller resigns at each attempt, and so does the next controller.
    """
    return all_of(implies(s.registrations[b].registered, m.comes_back(s, b)) for b in m.t.broker)


@invariant("B8", rule="unassigned_candidate_fails")
def the_controller_goes_on(m: Controller, s: State) -> Truth:
    """No AlterPartition that a leader repeats, and no periodic task, makes the controller fail."""
    return _goes_on(m, s)


@invariant("B8, 966.13", rule="unassigned_candidate_fails")
def leaders_change_for_a_reason(m: Controller, s: State) -> Truth:
    """No election replaces a live leader in the ISR, unless a PREFERRED election picks the preferred replica.

    An election never passes over all live electable replicas.
    """
    return ~s.needless if m.p.judged_elections else as_bool(True)


@invariant("B8", rule="cleared_elr_stays_indexed")
def elr_members_are_indexed(m: Controller, s: State) -> Truth:
    """Every ELR member has an entry in the controller's index. Removing a missing entry would stop the controller."""
    return all_of(implies(s.partition.elr.has(b), s.elr_entries[b] > 0) for b in m.t.broker)


EXPLORED = (
    leader_completeness,
    the_controller_goes_on,
    leaders_change_for_a_reason,
    elr_members_are_indexed,
)
"""The invariants that only explorations check; an observed partition has ``observed.leader_completeness`` instead."""


# --- liveness -------------------------------------------------------------------------------------------------


def broker_is_shutting_down(m: Controller, s: State, broker: Number) -> Truth:
    """True while a broker is in controlled shutdown: it will stop, so fairness requires that it is fenced.

    Fencing any other broker is a fault, and no fairness requires it.
    """
    return s.registrations[broker].in_controlled_shutdown


def broker_has_shut_down(m: Controller, s: State, broker: Number) -> Truth:
    """True while fairness requires that a broker registers: it has shut down, or the controller failed to register it.

    Any other registration follows a crash, and no fairness requires it.
    """
    registration = s.registrations[broker]
    stopped = registration.fenced & registration.in_controlled_shutdown
    return stopped | s.restarting.has(broker) if m.p.failovers > 1 else stopped


_RETURN = (
    weak("unfence")
    + weak("fence", when=broker_is_shutting_down)
    + weak("register", by=["broker"], when=broker_has_shut_down)
)


_RECOVERY = strong("recover_uncleanly", by=[])
_PROPOSALS = strong("alter_partition", by=["isr"], stale=None)


@always_eventually("966.13", fair=_RETURN)
def electable_replicas_come_to_lead(m: Controller, s: State) -> Truth:
    """A partition with an ISR or ELR member eventually has a leader, because these members are eventually unfenced."""
    somebody = ~(s.partition.isr | s.partition.elr).is_empty
    return implies(somebody & _can_return(m, s), s.partition.leader.is_some)


@always_eventually("966.13, 966.14, 966.15", fair=_RETURN + _RECOVERY)
def partitions_are_led(m: Controller, s: State) -> Truth:
    """A partition eventually has a leader, even if no broker is electable.

    Unclean recovery or the election of the last known leader then provides it.
    """
    return implies(_can_return(m, s), s.partition.leader.is_some)


@always_eventually("966.17", fair=weak("maybe_balance_leader"))
def preferred_replicas_lead(m: Controller, s: State) -> Truth:
    """A preferred replica that is active and in the ISR eventually leads."""
    preferred = s.partition.replicas.at(0)
    able = s.partition.isr.has(preferred) & m.t.acceptable(s.partition, s.registrations).has(preferred)
    return implies(able, s.partition.leader.is_(preferred))


@always_eventually("B5, B7", fair=_RECOVERY + _PROPOSALS)
def healthy_replicas_come_to_be_in_the_isr(m: Controller, s: State) -> Truth:
    """If every replica's broker is active and its log directory online, all replicas eventually join the ISR."""
    return implies(_healthy(m, s), s.partition.isr == m.assigned(s.partition))


@always_eventually("966.9", fair=_RECOVERY + _PROPOSALS)
def reassignments_of_healthy_replicas_complete(m: Controller, s: State) -> Truth:
    """If every replica's broker is active and its log directory online, a reassignment eventually ends."""
    partition = s.partition
    return implies(_healthy(m, s), partition.adding.is_empty & partition.removing.is_empty)


# --- reachability goals ---------------------------------------------------------------------------------------


def _ends(before: State, after: State) -> Truth:
    p, then = before.partition, after.partition
    going = ~p.adding.is_empty | ~p.removing.is_empty
    return going & then.adding.is_empty & then.removing.is_empty


@reachable("966.9")
def a_reassignment_completes_before_all_catch_up(m: Controller, before: State, after: State) -> Truth:
    """A reassignment that removes a replica completes, although a replica that stays is outside the ISR."""
    p, then = before.partition, after.partition
    completes = _ends(before, after) & (m.assigned(then) == m.assigned(p) - p.removing)
    return completes & ~p.removing.is_empty & ~(m.assigned(then) <= then.isr)


@reachable("966.9")
def a_reassignment_that_only_removes_is_cancelled(m: Controller, before: State, after: State) -> Truth:
    """A reassignment that only removes replicas is cancelled: it ends, and all replicas stay."""
    p, then = before.partition, after.partition
    return _ends(before, after) & p.adding.is_empty & (m.assigned(then) == m.assigned(p))


def _from_outside(m: Controller, before: State, after: State) -> Truth:
    """True if a leaderless partition elects a replica from outside ISR and ELR, and no registration changes."""
    p, then = before.partition, after.partition
    elected = p.leader.is_none & then.leader.is_some & ~electable(p).has(then.leader)
    if m.on("offline_directory_check"):
        elected = elected & (p.offline == then.offline)
    return elected & (p.replicas == then.replicas) & (before.registrations == after.registrations)


@reachable("966.13, 966.14, 966.17")
def a_replica_is_elected_uncleanly_by_request(m: Controller, before: State, after: State) -> Truth:
    """With unclean election disabled, an operator or a recovery elects a replica from outside ISR and ELR."""
    return _from_outside(m, before, after) & ~favours_availability(m, before)


@reachable("966.13, 966.14", rule="unclean_recovery")
def a_balanced_recovery_waits_for_no_other(m: Controller, before: State, after: State) -> Truth:
    """A Balanced recovery elects a replica while a replica outside the last known ELR is fenced or shutting down."""
    others = m.assigned(before.partition) - before.partition.last_known_elr - m.active(before)
    return _from_outside(m, before, after) & ~favours_availability(m, before) & ~others.is_empty


@reachable("966.15, 966.16")
def the_controller_elects_uncleanly_by_itself(m: Controller, before: State, after: State) -> Truth:
    """With unclean election enabled, or the strategy Aggressive, a replica from outside ISR and ELR is elected.

    No registration changes in the step, so no broker's return has caused the election.
    """
    return _from_outside(m, before, after) & favours_availability(m, before)


@reachable("966.16", rule="unclean_recovery")
def an_aggressive_recovery_ignores_the_elr(m: Controller, before: State, after: State) -> Truth:
    """An Aggressive recovery elects a replica from outside ISR and ELR while the ELR has members."""
    outside = _from_outside(m, before, after) & favours_availability(m, before)
    return outside & ~before.partition.elr.is_empty


@reachable("966.13", rule="unclean_recovery", needs="strategy_changes")
def the_strategy_becomes_aggressive(m: Controller, before: State, after: State) -> Truth:
    """An operator sets unclean.recovery.strategy to Aggressive."""
    was, is_ = (s.recovery_strategy == RecoveryStrategy.AGGRESSIVE for s in (before, after))
    return ~was & is_


@reachable("966.17", rule="unclean_recovery", needs="recovery_requests")
def an_operator_designates_an_outsider(m: Controller, before: State, after: State) -> Truth:
    """An operator designates a leader that is no last known ELR member, while there are such members."""
    known = before.partition.last_known_elr
    outside = ~known.is_empty & ~known.has(after.partition.leader)
    return is_requested(m, before, after, RecoveryRequest.DESIGNATION) & outside


@reachable("966.17", rule="unclean_recovery", needs="recovery_requests")
def an_aggressive_request_ignores_the_elr(m: Controller, before: State, after: State) -> Truth:
    """A LONGEST_LOG_AGGRESSIVE election elects a replica from outside the ELR while the ELR has members."""
    elr = before.partition.elr
    outside = ~elr.is_empty & ~elr.has(after.partition.leader)
    return is_requested(m, before, after, RecoveryRequest.LONGEST_LOG_AGGRESSIVE) & outside


@reachable("966.17", rule="unclean_recovery", needs="recovery_requests")
def a_balanced_request_elects_a_leader(m: Controller, before: State, after: State) -> Truth:
    """An operator's LONGEST_LOG_BALANCED election elects a replica."""
    return is_requested(m, before, after, RecoveryRequest.LONGEST_LOG_BALANCED)


@reachable("966.17", rule="unclean_recovery", needs="recovery_requests")
def an_aggressive_request_ignores_a_complete_log(m: Controller, before: State, after: State) -> Truth:
    """A LONGEST_LOG_AGGRESSIVE election elects a replica that lacks committed records, while another has them all."""
    by_any_log = is_requested(m, before, after, RecoveryRequest.LONGEST_LOG_AGGRESSIVE)
    return by_any_log & ~before.complete.is_empty & ~before.complete.has(after.partition.leader)


@reachable("966.12", needs="harmless_crashes")
def a_last_known_member_is_complete(m: Controller, s: State) -> Truth:
    """A member of the last known ELR has every committed record, and is in neither ISR nor ELR."""
    return ~((s.partition.last_known_elr - electable(s.partition)) & s.complete).is_empty


@reachable("858.1", rule="offline_directory_check")
def a_log_directory_fails(m: Controller, before: State, after: State) -> Truth:
    """The log directory of a replica fails."""
    return ~(after.partition.offline - before.partition.offline).is_empty


@reachable("858.1", rule="offline_directory_check")
def an_assignment_advances_the_partition_epoch(m: Controller, before: State, after: State) -> Truth:
    """A replica gets another directory: the partition epoch advances, and no other field of the partition changes."""
    p, then = before.partition, after.partition
    same = p.replace(partition_epoch=then.partition_epoch) == then
    return (p.partition_epoch != then.partition_epoch) & same


INVARIANTS = defined(Invariant, __name__)
STEP_PROPERTIES = defined(StepProperty, steps)
LIVENESS = defined(Liveness, __name__)
REACHABLE = goals(__name__)

# Helper invariants make the invariants inductive. An invariant can hold in every reachable state, and still fail after
# a step from an unreachable state; a helper excludes such states. No helper is assumed: helpers are proved, too.


@invariant("B8")
def brokers_are_registered(m: Controller, s: State) -> Truth:
    """Every broker has a registration: registrations are replaced, never removed.

    From a state in which a broker has none, steps could unfence and elect the broker. The leader would then not be
    active.
    """
    return all_of(s.registrations[b].registered for b in m.broker)


@invariant("966.3", rule="isr_may_become_empty")
def somebody_leads_the_isr(m: Controller, s: State) -> Truth:
    """If there is no leader, the ISR is empty: the last member leaves the ISR when it cannot lead.

    ``isr_members_are_eligible`` permits an ineligible last member while there is no leader; this helper excludes that.
    """
    return implies(s.partition.leader.is_none, s.partition.isr.is_empty)


@invariant("B8, 966.9")
def a_reassignment_has_two_ends(m: Controller, s: State) -> Truth:
    """Each replica is listed once. At least one replica is not being added, and at least one is not being removed.

    So a cancelled or completed reassignment leaves at least one replica.
    """
    p = s.partition
    replicas = m.assigned(p)
    left = ~(replicas - p.adding).is_empty & ~(replicas - p.removing).is_empty
    return left & (size(replicas) == p.replicas.length)


@invariant("966.4, 966.10, 966.11")
def nobody_is_remembered_without_the_rules(m: Controller, s: State) -> Iterator[Truth]:
    """ELR, last known ELR and last known leader are empty if the rules that maintain them are off.

    They are empty in the initial state, and no other rule adds a member.
    """
    p = s.partition
    for rule, nobody in (
        ("eligible_leader_replicas", p.elr.is_empty),
        ("last_known_elr", p.last_known_elr.is_empty),
        ("last_known_leader", p.last_known_leader.is_none),
    ):
        if not m.on(rule):
            yield nobody


HELPERS = defined(Invariant, __name__)[len(INVARIANTS) :]
"""The invariants below ``INVARIANTS``. They are proved together with it."""
