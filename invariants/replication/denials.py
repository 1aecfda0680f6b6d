"""What brokers are allowed, denied: each is violated, as a leader proposes whoever has what is asked for, or lags."""

from __future__ import annotations

from collections.abc import Callable

from highwater.model.language import State, all_of, any_of, as_bool, size, total
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import Number, StructValue, Truth
from highwater.model.replication import Replication


def _proposes(m: Replication, before: State, after: State, leader: Number, f: Number, joins: bool) -> Truth:
    """Whether a leader comes to propose an ISR with a follower that is in none, or without one that is."""
    old, new = before.brokers[leader], after.brokers[leader]
    begins = m.leads(leader, old) & old.proposed.is_none & new.proposed.is_some
    there, proposed = old.view.isr.has(f), new.proposed.value.has(f)
    return begins & (~there & proposed if joins else there & ~proposed)


_About = Callable[[StructValue, StructValue], Truth]
"""What is said of a leader, and of what it knows of a follower."""


def _nobody(m: Replication, before: State, after: State, joins: bool, wrong: _About) -> Truth:
    """Whether no leader proposes so about a follower of which it knows what is said to be wrong."""
    kept = []
    for leader in m.broker:
        for f in m.broker:
            broker = before.brokers[leader]
            kept.append(~(_proposes(m, before, after, leader, f, joins) & wrong(broker, broker.followers[f])))
    return all_of(kept)


@step_property("B5")
def nobody_is_proposed_at_the_hwm(m: Replication, before: State, after: State) -> Truth:
    """Who is proposed for the ISR has more than the records below the leader's HWM."""

    def at_the_hwm(leader: StructValue, known: StructValue) -> Truth:
        return known.leo.is_some & (known.leo.value == leader.hwm)

    return _nobody(m, before, after, True, at_the_hwm)


@step_property("B7")
def nobody_lags_who_has_fetched(m: Replication, before: State, after: State) -> Truth:
    """Who is to leave the ISR is one that its leader has not heard of."""
    return _nobody(m, before, after, False, lambda _, known: known.leo.is_some)


@step_property("B7")
def nobody_lags_who_was_not_heard_of(m: Replication, before: State, after: State) -> Truth:
    """Who is to leave the ISR has fetched from its leader."""
    return _nobody(m, before, after, False, lambda _, known: known.leo.is_none)


@step_property("B7")
def nobody_lags_without_a_record(m: Replication, before: State, after: State) -> Truth:
    """Who is to leave the ISR, and was not heard of, lacks a record."""
    return _nobody(
        m, before, after, False, lambda leader, known: known.leo.is_none & (leader.log.length == 0)
    )


def _several(m: Replication, before: State, after: State, joins: bool, about: _About) -> Truth:
    """Whether a leader proposes so about two followers at once, of which it knows this."""
    found = []
    for leader in m.broker:
        known = before.brokers[leader]
        both = [
            _proposes(m, before, after, leader, f, joins) & about(known, known.followers[f]) for f in m.broker
        ]
        found.append(total(both) > 1)
    return any_of(found)


@step_property("B7")
def nobody_leaves_beside_another(m: Replication, before: State, after: State) -> Truth:
    """Who is to leave the ISR leaves it alone."""
    return ~_several(m, before, after, False, lambda _, known: known.leo.is_none)


@step_property("B5, B7")
def nobody_joins_beside_another(m: Replication, before: State, after: State) -> Truth:
    """Who is to join the ISR, and has all that the leader has, joins it alone."""
    return ~_several(m, before, after, True, lambda leader, known: known.leo.is_(leader.log.length))


def _wins_over_a_longer_log(
    m: Replication, before: State, after: State, is_it: Callable[[StructValue, StructValue], Truth]
) -> Truth:
    """Whether a recovery elects somebody over a longer log of which this is right: of its broker, and what it told."""
    old, new = before.partition, after.partition
    by_log = all_of(after.log_infos[b].is_none for b in m.broker)
    over = []
    for winner in m.broker:
        mine = before.log_infos[winner]
        wins = new.leader.is_(winner) & mine.is_some
        for b in m.broker:
            told = before.log_infos[b]
            longer = told.is_some & (told.value.end > mine.value.end)
            over.append(wins & longer & is_it(before.registrations[b], told.value))
    return old.leader.is_none & new.leader.is_some & by_log & any_of(over)


@step_property("966.14", rule="unclean_recovery")
def nobody_wins_over_who_is_fenced(m: Replication, before: State, after: State) -> Truth:
    """No recovery on request elects somebody while a fenced replica has told of a longer log."""
    asked = before.budgets.elections > after.budgets.elections
    if not m.p.recovery:
        return ~(before.partition.leader.is_none & after.partition.leader.is_some & asked)
    return ~(
        asked & _wins_over_a_longer_log(m, before, after, lambda registration, told: registration.fenced)
    )


@step_property("966.13", rule="clean_election_picks_any")
def nobody_is_elected_over_an_earlier_one(m: Replication, before: State, after: State) -> Truth:
    """Who is elected comes, by the order of the brokers, before every other member of the ISR that is active."""
    p, then = before.partition, after.partition
    able = then.isr & m.t.active(after.registrations)
    earlier = [
        then.leader.is_(b) & any_of(able.has(x) for x in m.broker if int(x) < int(b)) for b in m.broker
    ]
    return ~(then.leader.is_some & (p.leader != then.leader) & any_of(earlier))


@step_property("966.14", rule="unclean_recovery")
def nobody_wins_over_a_longer_log(m: Replication, before: State, after: State) -> Truth:
    """No recovery elects somebody while another replica that is live has told of a longer log."""
    if not m.p.recovery:
        return as_bool(True)

    def is_live(registration: StructValue, told: StructValue) -> Truth:
        return (told.broker_epoch == registration.epoch) & ~registration.fenced

    return ~_wins_over_a_longer_log(m, before, after, is_live)


@step_property("966.14", rule="unclean_recovery", needs="unclean_election")
def nobody_wins_before_others_answer(m: Replication, before: State, after: State) -> Truth:
    """No Aggressive recovery elects a leader while the controller lacks the answer of another live replica."""
    if not m.p.recovery:
        return as_bool(True)
    old, new = before.partition, after.partition
    live = m.t.active(before.registrations)
    wins = old.leader.is_none & any_of(new.leader.is_(b) & before.log_infos[b].is_some for b in m.broker)
    return ~(wins & any_of(live.has(b) & before.log_infos[b].is_none for b in m.broker))


@step_property("966.14, 966.18", rule="unclean_recovery")
def nobody_wins_before_the_remembered_answer(m: Replication, before: State, after: State) -> Truth:
    """No recovery elects somebody while one that the partition has in its last known ELR has told nothing."""
    if not m.p.recovery:
        return as_bool(True)
    old, new = before.partition, after.partition
    wins = old.leader.is_none & any_of(new.leader.is_(b) & before.log_infos[b].is_some for b in m.broker)
    return ~(wins & any_of(old.last_known_elr.has(b) & before.log_infos[b].is_none for b in m.broker))


@step_property("966.14", rule="unclean_recovery")
def no_failover_forgets_the_first_answers(m: Replication, before: State, after: State) -> Truth:
    """While some have told of their logs, and others have not, the controller does not fail over."""
    if not m.p.recovery:
        return as_bool(True)
    told = total(before.log_infos[b].is_some for b in m.broker)
    return ~((before.budgets.failovers > after.budgets.failovers) & (told > 0) & (told < m.p.brokers))


@step_property("841.5")
def no_shutdown_is_granted(m: Replication, before: State, after: State) -> Truth:
    """Who asks for a controlled shutdown is not heard by the controller."""
    kept = []
    for b in m.broker:
        old, new = before.registrations[b], after.registrations[b]
        kept.append(~(~old.in_controlled_shutdown & new.in_controlled_shutdown))
    return all_of(kept)


@step_property("B6, 966.1", needs="weak_writes")
def nobody_writes_under_min_isr(m: Replication, before: State, after: State) -> Truth:
    """No leader appends a record with acks 0 or 1 while its ISR has fewer than min ISR members."""
    kept = []
    for b in m.broker:
        broker = before.brokers[b]
        appends = m.leads(b, broker) & (after.brokers[b].log.length > broker.log.length)
        written = any_of((before.writes[v] == "UNUSED") & (after.writes[v] == "WRITTEN") for v in m.value)
        kept.append(~(written & appends & (size(broker.view.isr) < m.min_isr_in(broker.view))))
    return all_of(kept)


@step_property("841.5")
def nobody_fetches_while_shutting_down(m: Replication, before: State, after: State) -> Truth:
    """A follower in a controlled shutdown sends no fetch."""
    kept = []
    for f in m.broker:
        sent = before.fetch_requests[f].is_none & after.fetch_requests[f].is_some
        kept.append(~(sent & (before.brokers[f].status == "SHUTTING_DOWN")))
    return all_of(kept)


DENIALS = (
    nobody_is_proposed_at_the_hwm,
    nobody_lags_who_has_fetched,
    nobody_lags_who_was_not_heard_of,
    nobody_lags_without_a_record,
    nobody_leaves_beside_another,
    nobody_joins_beside_another,
    nobody_wins_over_who_is_fenced,
    nobody_is_elected_over_an_earlier_one,
    nobody_wins_over_a_longer_log,
    nobody_wins_before_others_answer,
    nobody_wins_before_the_remembered_answer,
    no_failover_forgets_the_first_answers,
    no_shutdown_is_granted,
    nobody_fetches_while_shutting_down,
    nobody_writes_under_min_isr,
)
