"""Leader elections: candidates, the elected leader, and unclean recovery (KIP-966)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from highwater.model.language import (
    ArrayValue,
    Checks,
    Number,
    Option,
    OptionValue,
    SeqValue,
    SetValue,
    StructValue,
    Truth,
    size,
    where,
)
from highwater.model.language.containers import first_of, first_some, members_of
from highwater.model.replication.controller.types import (
    ControllerContext,
    ControllerTypes,
    ElectionType,
    Error,
    LeaderRecoveryState,
    RecoveryStrategy,
    written,
)


@dataclass(frozen=True)
class Electorate:
    """The input of an election: replicas in order, ISR, ELR, and the brokers that may lead (``acceptable``)."""

    replicas: SeqValue
    isr: SetValue
    elr: SetValue
    acceptable: SetValue

    @property
    def candidates(self) -> SetValue:
        """966.13, steps 1 and 2. The candidates for a clean election."""
        return may_lead(self.isr, self.elr, self.acceptable)


@dataclass(frozen=True)
class Elected:
    """The result of an election: the leader, if any, and whether the election was unclean."""

    leader: OptionValue
    unclean: Truth


def electable(partition: StructValue) -> SetValue:
    """966.13. The brokers that a clean election can pick: the members of ISR and ELR.

    Each of them holds all committed records.
    """
    return partition.isr | partition.elr


def is_clean(electable: SetValue, leader: Number | OptionValue) -> Truth:
    """966.13. True if the election of this leader is clean: the leader is electable."""
    return electable.has(leader)


def may_lead(isr: SetValue, elr: SetValue, acceptable: SetValue) -> SetValue:
    """966.13. The candidates for a clean election: live ISR members, or live ELR members if the ISR is empty."""
    return where(isr.is_empty, elr, isr) & acceptable


def elect(t: ControllerTypes, election: Number, partition: StructValue, among: Electorate) -> Elected:
    """966.13, 966.15. The leader that an election of this type picks.

    It is the first of the following that can be elected:
    1. the preferred replica, if it is a candidate (PREFERRED only),
    2. the current leader, if it is a candidate,
    3. the first candidate in replica order,
    4. uncleanly, the first acceptable replica in replica order (UNCLEAN only),
    5. uncleanly, the last known leader.
    With ``last_known_leader_first`` (K1), 5 comes before 4. With ``unclean_recovery``, the election stops after 3. The
    first three lose nothing; the last two trade records for availability. With the rule ``clean_election_picks_any``, 3
    prefers ``t.picked``; with ``unclean_election_picks_any``, 4 does.
    """
    node = t.partition.fields["leader"]
    assert isinstance(node, Option)
    replicas, candidates = among.replicas, among.candidates
    preferred = first_of(replicas, lambda r: (r == replicas.at(0)) & candidates.has(r))
    stays = where(candidates.has(partition.leader), partition.leader, node.none())
    clean = [where(election == ElectionType.PREFERRED, preferred, node.none())]
    if t.on("leader_stays"):
        clean.append(stays)
    clean.append(_one_of(t, replicas, candidates, t.on("clean_election_picks_any")))

    last = partition.last_known_leader
    last_known = where(last.value >= 0, node.some(last.value), node.none())
    can_elect_last_known = can_elect_last_known_leader(t, partition, among)
    one = _one_of(t, replicas, among.acceptable, t.on("unclean_election_picks_any"))
    any_live = where(election == ElectionType.UNCLEAN, one, node.none())
    if t.on("unclean_recovery"):
        unclean = node.none()
    elif t.on("last_known_leader_first"):
        # If the last known leader is NO_LEADER, no broker is elected.
        unclean = where(can_elect_last_known, last_known, any_live)
    else:
        unclean = where(any_live.is_none & can_elect_last_known, last_known, any_live)

    cleanly = first_some(*clean)
    return Elected(first_some(cleanly, unclean), cleanly.is_none & unclean.is_some)


def _one_of(t: ControllerTypes, replicas: SeqValue, candidates: SetValue, any_of_them: bool) -> OptionValue:
    """966.13, 966.15. The elected candidate: the first in replica order.

    With ``any_of_them``, it is ``t.picked`` if that broker is a candidate.
    """
    first = first_of(_order(t, replicas), candidates.has)
    if not any_of_them or t.picked is None:
        return first
    return where(candidates.has(t.picked) & replicas.has(t.picked), first.type.some(t.picked), first)


def _order(t: ControllerTypes, replicas: SeqValue) -> SeqValue:
    if t.on("replica_order"):
        return replicas
    result: Any = replicas.type.zero()
    for broker in t.broker:
        result = where(replicas.has(broker), result.append(broker), result)
    return result


def can_elect_last_known_leader(t: ControllerTypes, partition: StructValue, among: Electorate) -> Truth:
    """966.15. True if the last known leader can be elected: it is set, and ISR and ELR are empty.

    With ``last_known_leader_unfenced`` that broker must also be live and, without ``unassigned_candidate_fails``, a
    replica. As the last ISR member it had all committed records; the controller does not check if it has lost some
    since.
    """
    last = partition.last_known_leader
    possible = among.isr.is_empty & among.elr.is_empty & last.is_some
    if not t.on("last_known_leader"):
        return possible & False
    if t.on("last_known_leader_unfenced"):
        # Kafka notices a leader that is not a replica only when it looks up the leader's directory, and then fails.
        assigned = t.on("unassigned_candidate_fails") | among.replicas.has(last.value)
        return possible & among.acceptable.has(last.value) & assigned
    return possible


def election_checks(now: ControllerContext, election: Number) -> Checks:
    """966.17. The checks of a PREFERRED or UNCLEAN election request, in order.

    An unclean election while there is a leader would lose records needlessly.
    """
    checks, needless = Checks(Error.NONE), Error.ELECTION_NOT_NEEDED
    another_leads = ~preferred_leads(now.partition)
    leaderless = now.partition.leader.is_none
    for_preferred, uncleanly = election == ElectionType.PREFERRED, election == ElectionType.UNCLEAN
    checks.check("the partition exists", now.partition_known, Error.UNKNOWN_TOPIC_OR_PARTITION)
    checks.check("the preferred replica does not lead already", ~for_preferred | another_leads, needless)
    checks.check(
        "there is no leader, or the preferred replica is requested", ~uncleanly | leaderless, needless
    )
    return checks


def preferred_leads(partition: StructValue) -> Truth:
    """966.17. True if the preferred replica, the first in the list, leads."""
    return ~partition.replicas.is_empty & partition.leader.is_(partition.replicas.at(0))


def election_error(election: Number, nothing_changed: Truth) -> Number:
    """966.17. The error in the answer to an election request whose checks passed; none if anything changed."""
    failed = where(
        election == ElectionType.PREFERRED,
        Error.PREFERRED_LEADER_NOT_AVAILABLE,
        Error.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    )
    return where(nothing_changed, failed, Error.NONE)


# --- unclean recovery -----------------------------------------------------------------------------------------


def mapped_strategy(unclean_election: Truth | bool) -> Number:
    """966.16. The strategy for unclean.leader.election.enable: Balanced if it is false, Aggressive if it is true."""
    return where(unclean_election, RecoveryStrategy.AGGRESSIVE, RecoveryStrategy.BALANCED)


def may_recover(
    t: ControllerTypes,
    partition: StructValue,
    registrations: ArrayValue,
    strategy: Number,
    keeps_last: Truth | bool = False,
) -> Truth:
    """966.13, steps 3 and 4. True if the controller may start an unclean recovery without a request.

    Preconditions: no leader, an empty ISR, and no live ELR member.
    - Aggressive does not wait.
    - Balanced waits until the ELR is empty and every last known ELR member is live, because any of them can have the
      best log.
    - The strategy None waits for the operator.
    ``keeps_last``: the ELR is off, so the last member stays in the ISR. Balanced waits for that member; Aggressive
    recovers if the member is not live.
    """
    active = t.active(registrations)
    aggressive = strategy == RecoveryStrategy.AGGRESSIVE
    complete_and_live = (partition.isr | partition.elr) & active
    nobody = partition.isr.is_empty | (keeps_last & aggressive)
    stuck = partition.leader.is_none & complete_and_live.is_empty & nobody
    all_are_there = partition.elr.is_empty & (partition.last_known_elr <= active)
    balanced = (strategy == RecoveryStrategy.BALANCED) & all_are_there
    return stuck & (balanced | aggressive)


def request_checks(t: ControllerTypes, partition: StructValue, balanced: bool = False) -> Checks:
    """966.17. The checks of a requested DESIGNATION or LONGEST_LOG election: there is no leader.

    ``balanced``: with ``balanced_election_waits_for_elr``, LONGEST_LOG_BALANCED also requires an empty ELR, because an
    ELR member that returns can be elected without loss.
    """
    checks = Checks(Error.NONE, on=t.on)
    checks.check("there is no leader", partition.leader.is_none, Error.ELECTION_NOT_NEEDED)
    if balanced:
        no_elr, waits = partition.elr.is_empty, "balanced_election_waits_for_elr"
        checks.check("the ELR is empty", no_elr, Error.ELIGIBLE_LEADERS_NOT_AVAILABLE, rule=waits)
    return checks


def compared_logs(partition: StructValue, unfenced: SetValue, balanced: bool) -> SetValue:
    """966.17. The replicas whose logs a LONGEST_LOG election compares.

    BALANCED: the last known ELR, fenced members included. If a fenced member has the best log, the partition waits for
    that member. AGGRESSIVE: the unfenced replicas.
    """
    return partition.last_known_elr if balanced else unfenced


def recover(now: ControllerContext, winner: Number) -> StructValue:
    """966.14. The record that makes ``winner`` leader after a comparison of logs.

    The record is empty if the winner is not a live replica. Metadata does not contain the logs, so the winner is an
    argument: any live replica can have the best log.
    """
    t, partition = now.t, now.partition
    alone, nobody = t.brokers.zero().with_(winner), t.brokers.zero()
    possible = members_of(partition.replicas, t.brokers) & t.active(now.registrations)
    leader, known_leader = partition.leader.type.some(winner), partition.last_known_leader
    forgets = (size(alone) >= now.min_isr) & ~partition.last_known_elr.is_empty
    if not t.on("last_known_elr") and t.on("elr_off_forgets_last_known"):
        forgets = ~partition.last_known_elr.is_empty
    recovering, elr_changes = LeaderRecoveryState.RECOVERING, ~partition.elr.is_empty
    record = t.record(
        replicas=None,
        adding=None,
        removing=None,
        isr=alone,
        elr=written(t, "elr", elr_changes, nobody),
        last_known_elr=written(t, "last_known_elr", forgets, nobody),
        last_known_leader=written(t, "last_known_leader", known_leader.is_some, known_leader.type.none()),
        leader=written(t, "leader", True, leader),
        leader_recovery_state=written(
            t, "leader_recovery_state", partition.leader_recovery_state != recovering, recovering
        ),
        assigns=False,
        fails=False,
    )
    return where(possible.has(winner), record, t.record.zero())
