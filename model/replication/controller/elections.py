"""Leader elections: who may lead a partition, and who of them does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from highwater.model.language import (
    Checks,
    Number,
    Option,
    OptionValue,
    SeqValue,
    SetValue,
    StructValue,
    Truth,
    where,
)
from highwater.model.language.sequences import first_of, first_some
from highwater.model.replication.controller.types import ElectionType, Error, Terms


@dataclass(frozen=True)
class Elected:
    """What an election comes to: the leader, if any, and whether it was elected from outside ISR and ELR."""

    leader: OptionValue
    unclean: Truth


def electable(partition: StructValue) -> SetValue:
    """966.13. Who can become leader without anybody being asked: ISR and ELR, of which each holds what is committed."""
    return partition.isr | partition.elr


def is_clean(electable: SetValue, leader: Number | OptionValue) -> Truth:
    """966.13. Whether an election is clean: the leader is one of those who could be elected."""
    return electable.has(leader)


def may_lead(isr: SetValue, elr: SetValue, acceptable: SetValue) -> SetValue:
    """966.13, steps 1 and 2. Who can be elected cleanly: the ISR, or the ELR where the ISR is empty; only live ones."""
    return where(isr.is_empty, elr, isr) & acceptable


def elect(
    t: Terms,
    election: Number,
    partition: StructValue,
    replicas: SeqValue,
    isr: SetValue,
    elr: SetValue,
    acceptable: SetValue,
) -> Elected:
    """966.13, 966.15. The leader for these replicas, ISR and ELR.

    The first of: the preferred replica (PREFERRED only), the leader as it is, the first in replica order,
    each where it may lead; then, uncleanly, the last known leader, and (UNCLEAN only) the first acceptable
    replica in replica order; else none. Where any of several can be elected, clean or not, it is the one that ``t``
    has picked. While one of the former is elected nothing is lost; what comes after them
    trades records for availability.
    """
    node = t.partition.fields["leader"]
    assert isinstance(node, Option)
    candidates = may_lead(isr, elr, acceptable)
    preferred = first_of(replicas, lambda r: (r == replicas.at(0)) & candidates.has(r))
    stays = where(candidates.has(partition.leader), partition.leader, node.none())
    clean = [where(election == ElectionType.PREFERRED, preferred, node.none())]
    if t.on("leader_stays"):
        clean.append(stays)
    clean.append(_one_of(t, replicas, candidates, t.on("clean_election_picks_any")))

    last = partition.last_known_leader
    last_known = where(last.value >= 0, node.some(last.value), node.none())
    can_elect_last_known = can_elect_last_known_leader(t, partition, replicas, isr, elr, acceptable)
    one = _one_of(t, replicas, acceptable, t.on("unclean_election_picks_any"))
    any_live = where(election == ElectionType.UNCLEAN, one, node.none())
    if t.on("unclean_recovery"):
        unclean = node.none()
    elif t.on("last_known_leader_first"):
        # Where it is remembered that there was no leader, that is who is elected: nobody.
        unclean = where(can_elect_last_known, last_known, any_live)
    else:
        unclean = where(any_live.is_none & can_elect_last_known, last_known, any_live)

    cleanly = first_some(*clean)
    return Elected(first_some(cleanly, unclean), cleanly.is_none & unclean.is_some)


def _one_of(t: Terms, replicas: SeqValue, candidates: SetValue, any_of_them: bool) -> OptionValue:
    """966.13, 966.15. A candidate: the one that is picked where any can be, else the first in the replicas' order."""
    first = first_of(_order(t, replicas), candidates.has)
    if not any_of_them or t.picked is None:
        return first
    return where(candidates.has(t.picked) & replicas.has(t.picked), first.type.some(t.picked), first)


def _order(t: Terms, replicas: SeqValue) -> SeqValue:
    if t.on("replica_order"):
        return replicas
    result: Any = replicas.type.zero()
    for broker in t.broker:
        result = where(replicas.has(broker), result.append(broker), result)
    return result


def can_elect_last_known_leader(
    t: Terms, partition: StructValue, replicas: SeqValue, isr: SetValue, elr: SetValue, acceptable: SetValue
) -> Truth:
    """966.15. Whether the last known leader can lead: nobody is in ISR or ELR, and (KIP-966) it is live.

    It was the last to have everything. Whether it has lost the end of its log since, nobody asks.
    """
    last = partition.last_known_leader
    possible = isr.is_empty & elr.is_empty & last.is_some
    if not t.on("last_known_leader"):
        return possible & False
    if t.on("last_known_leader_unfenced"):
        # That it is no replica is seen only where its directory is looked for, which fails the election.
        assigned = t.on("unassigned_candidate_fails") | replicas.has(last.value)
        return possible & acceptable.has(last.value) & assigned
    return possible


def election_checks(partition: StructValue, election: Number, partition_known: Truth | bool = True) -> Checks:
    """966.17. Whether an election on request (PREFERRED or UNCLEAN) is needed at all, in the order of the checks.

    An operator asks. An unclean election under a leader that is there would lose records for nothing.
    """
    checks, needless = Checks(Error.NONE), Error.ELECTION_NOT_NEEDED
    another_leads = ~preferred_leads(partition)
    leaderless = partition.leader.is_none
    for_preferred, uncleanly = election == ElectionType.PREFERRED, election == ElectionType.UNCLEAN
    checks.check("the partition exists", partition_known, Error.UNKNOWN_TOPIC_OR_PARTITION)
    checks.check("the preferred replica does not lead already", ~for_preferred | another_leads, needless)
    checks.check("there is no leader, or the preferred one is asked for", ~uncleanly | leaderless, needless)
    return checks


def preferred_leads(partition: StructValue) -> Truth:
    """966.17. Whether the preferred replica, the first in the list, leads."""
    return ~partition.replicas.is_empty & partition.leader.is_(partition.replicas.at(0))


def election_error(election: Number, nothing_changed: Truth) -> Number:
    """What an election on request answers when it was needed: an error where it changes nothing."""
    failed = where(
        election == ElectionType.PREFERRED,
        Error.PREFERRED_LEADER_NOT_AVAILABLE,
        Error.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    )
    return where(nothing_changed, failed, Error.NONE)
