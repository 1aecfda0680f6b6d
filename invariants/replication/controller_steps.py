"""What must hold of every step by which the controller keeps books: index, directories, levels, who is remembered.

Most of it is of Kafka 4.2, whose controller does what KIP-966 says nothing of. Each property says what is to be so
after a step, by the states before and after it: which decision it was is not asked.
"""

from __future__ import annotations

from highwater.invariants.replication.choices import favours_availability
from highwater.model.language import Bool, Number, State, StructValue, Truth, all_of, any_of, implies, size
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import SetValue, as_bool
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.elections import electable


def _offline(m: Controller, partition: StructValue) -> SetValue:
    """The replicas whose log directory is lost."""
    return partition.offline if m.on("offline_directory_check") else m.t.brokers.zero()


def _able(m: Controller, s: State) -> SetValue:
    """The replicas that may lead."""
    return m.assigned(s.partition) & m.active(s) - _offline(m, s.partition)


def _registers(before: State, after: State, broker: Number) -> Truth:
    return before.registrations[broker].epoch != after.registrations[broker].epoch


def _same_level(m: Controller, before: State, after: State) -> Truth:
    return before.elr_on == after.elr_on if m.p.elr_changes else Bool.lift(True)


def _cleared(m: Controller, before: State, after: State) -> Truth:
    """Whether a step empties ELR and what is remembered, and changes nothing else of the partition."""
    p, nobody = before.partition, m.t.brokers.zero()
    emptied = p.replace(elr=nobody, last_known_elr=nobody, last_known_leader=None)
    return after.partition == emptied.replace(partition_epoch=after.partition.partition_epoch)


@step_property("K8", rule="cleared_elr_stays_indexed")
def the_index_follows_the_elr(m: Controller, before: State, after: State) -> Truth:
    """Who enters the ELR gains an entry in the index, and who leaves it loses one; nothing else changes it.

    Where another partition is the topic's first one, all entries go. A change of min.insync.replicas empties the ELR
    and leaves the index.
    """
    kept = []
    passed_by = _cleared(m, before, after) & _same_level(m, before, after)
    for b in m.t.broker:
        was, is_ = before.partition.elr.has(b), after.partition.elr.has(b)
        old, new = before.elr_entries[b], after.elr_entries[b]
        loses = (new == 0) if m.p.first_partition_changes else Bool.lift(False)
        loses = (loses & (before.first_partition_replicas > 0)) | (
            (new + 1 == old) & (before.first_partition_replicas == 0)
        )
        kept.append(implies(~was & is_, new == old + 1))
        kept.append(implies(was & ~is_, loses | (passed_by & (new == old))))
        kept.append(implies(was == is_, new == old))
    return all_of(kept)


@step_property("K8, B8", rule="cleared_elr_stays_indexed")
def a_partition_changes_once_for_each_entry(m: Controller, before: State, after: State) -> Truth:
    """A step changes a partition once, and an unclean registration once more for each entry in the index.

    Who was in the ISR, and is not even eligible afterwards though the ISR is under min ISR, has registered uncleanly.
    """
    p, then = before.partition, after.partition
    kept, twice = [], []
    for b in m.t.broker:
        registers = _registers(before, after, b)
        entries, member = before.elr_entries[b], p.isr.has(b)
        by_isr = p.partition_epoch + 1
        fits = (then.partition_epoch == p.partition_epoch) | (member & (then.partition_epoch == by_isr))
        each = then.partition_epoch == p.partition_epoch + entries
        each = (member & (then.partition_epoch == by_isr + entries)) | (~member & each)
        lost = (
            electable(p).has(b) & ~electable(then).has(b) & (size(then.isr) < m.controllers_min_isr(before))
        )
        kept.append(implies(registers, fits | each))
        kept.append(implies(registers & lost & m.assigned(then).has(b) & m.elr_is_on(before), each))
        kept.append(implies(registers & then.elr.has(b), fits))
        twice.append(registers)
    once = (then.partition_epoch == p.partition_epoch) | (then.partition_epoch == p.partition_epoch + 1)
    kept.append(once | any_of(twice))
    return all_of(kept)


@step_property("B8")
def only_changes_are_counted(m: Controller, before: State, after: State) -> Truth:
    """The partition epoch counts changes: it stays where nothing else changes.

    But a replica that says which directory it is in, one that is online, makes a change of that alone.
    """
    p, then = before.partition, after.partition
    same = p.replace(partition_epoch=then.partition_epoch) == then
    in_a_directory = m.assigned(p) - _offline(m, then)
    assigned = ~in_a_directory.is_empty if m.p.directories else as_bool(False)
    return implies(p.partition_epoch != then.partition_epoch, ~same | assigned)


@step_property("966.11, K6", rule="last_known_leader_by_leader")
def the_last_leader_is_remembered(m: Controller, before: State, after: State) -> Truth:
    """Where a partition loses its leader, that one is remembered, or who was remembered before; a new leader ends it.

    Nothing else does but a change of min.insync.replicas or of the level, which forgets. While ELR is off all stays as
    it was.
    """
    p, then = before.partition, after.partition
    known, now = p.last_known_leader, then.last_known_leader
    loses, gains = p.leader.is_some & then.leader.is_none, then.leader.is_some & (p.leader != then.leader)
    remembers = ((known.is_some & (now == known)) | (known.is_none & p.leader.is_(now.value))) & now.is_some
    forgets = now.is_none & _cleared(m, before, after)
    writes_none = p.leader.is_none & then.leader.is_none & (p.leader_epoch != then.leader_epoch)
    same = (now == known) | forgets | writes_none
    on = implies(loses, remembers) & implies(gains, now.is_none) & implies(~loses & ~gains, same)
    off = (now == known) | forgets
    return (m.elr_is_on(before) & on) | (~m.elr_is_on(before) & off)


@step_property("K7", rule="min_isr_change_clears_elr")
def a_change_of_min_isr_forgets(m: Controller, before: State, after: State) -> Truth:
    """After a change of min.insync.replicas nobody is eligible beside the ISR, and no last leader is remembered."""
    then = after.partition
    nobody = then.elr.is_empty & then.last_known_elr.is_empty & then.last_known_leader.is_none
    changed = before.min_insync_replicas != after.min_insync_replicas
    return implies(changed & m.elr_is_on(before), nobody)


@step_property("966.18, K9", rule="leftover_elr_elects")
def nobody_becomes_eligible_while_the_elr_is_off(m: Controller, before: State, after: State) -> Truth:
    """While ELR is off a change of the partition leaves no ELR; a change of the level alone changes no partition."""
    p, then = before.partition, after.partition
    off = ~m.elr_is_on(before)
    forgets = as_bool(m.on("level_change_empties_elr"))
    untouched = (p == then) | (forgets & _cleared(m, before, after))
    kept = [implies(off & (p.partition_epoch != then.partition_epoch), then.elr.is_empty)]
    kept.append(implies(~_same_level(m, before, after), untouched))
    kept.append(
        implies(~_same_level(m, before, after) & forgets, then.elr.is_empty & then.last_known_leader.is_none)
    )
    return all_of(kept)


@step_property("966.4, K10", rule="eligible_leader_replicas")
def who_leaves_the_isr_stays_eligible(m: Controller, before: State, after: State) -> Truth:
    """Who leaves an ISR that is then under min ISR is in the ELR, unless it registers; else there is no ELR.

    Nor does anybody leave the ELR but into the ISR, by a registration, with the replicas or a setting, or as a leader
    is elected uncleanly. What an assignment to a directory does is said elsewhere (K16).
    """
    p, then = before.partition, after.partition
    on = m.elr_is_on(before) & _same_level(m, before, after)
    was, now = m.controllers_min_isr(before), m.controllers_min_isr(after)
    under = (size(then.isr) < was) & (size(then.isr) < now)
    uncleanly = then.leader.is_some & (p.leader != then.leader) & ~electable(p).has(then.leader)
    registered = m.t.brokers.of(lambda b: _registers(before, after, b))
    settled = (before.min_insync_replicas == after.min_insync_replicas) & ~uncleanly
    staying = m.assigned(then) - registered
    left = (p.isr - then.isr) & staying
    kept = [implies(on & under & settled, left <= then.elr)]
    if not (m.p.directories and m.on("assignment_empties_elr")):
        gone = (p.elr - electable(then)) & staying
        kept.append(implies(on & under & settled & ~_cleared(m, before, after), gone.is_empty))
    reached = (size(then.isr) >= was) & (size(then.isr) >= now) & (p.isr != then.isr)
    if not m.on("elr_follows_election"):
        reached = reached & (p.leader == then.leader)
    kept.append(implies(on & reached, then.elr.is_empty))
    return all_of(kept)


@step_property("858.1", rule="offline_directory_check")
def a_lost_directory_is_remembered(m: Controller, before: State, after: State) -> Truth:
    """Whose directory is lost is neither leader nor in the ISR, until its broker registers or it is a replica no more.

    Or, where brokers do so, until it says that it is in another directory. Kafka 4.2 puts one into the ISR itself where
    unclean election is enabled and a reassignment is cancelled: of an ISR of adding replicas alone nobody is left, and
    the first of the others takes their place, whatever its directory (`PartitionReassignmentRevert`, called by
    `ReplicationControlManager.cancelPartitionReassignment`). It does not lead, as who may lead is asked afterwards.
    """
    p, then = before.partition, after.partition
    registered = m.t.brokers.of(lambda b: _registers(before, after, b))
    kept = [then.offline <= m.assigned(then), (then.offline & registered).is_empty]
    kept.append(then.leader.is_none | ~then.offline.has(then.leader))
    if m.p.directories < 2:
        cancelled = (p.replicas != then.replicas) & (p.isr <= p.adding) & (size(then.isr) == 1)
        forced = before.unclean_election & cancelled
        kept.append(forced | ((then.isr & then.offline) <= (p.isr & p.offline)))
        kept.append(p.offline - registered - (m.assigned(p) - m.assigned(then)) <= then.offline)
    lost = then.offline - p.offline
    kept.append(implies(~lost.is_empty, before.registrations == after.registrations))
    return all_of(kept)


@step_property("B8, 858.1")
def a_leader_leaves_the_isr_for_a_reason(m: Controller, before: State, after: State) -> Truth:
    """No leader is taken out of the ISR while its broker is active, its directory online, and it stays a replica."""
    p, then = before.partition, after.partition
    removed = p.leader.is_some & p.isr.has(p.leader) & ~then.isr.has(p.leader)
    return implies(removed, ~_able(m, after).has(p.leader))


@step_property("B8, 966.5, 841.5")
def who_is_needed_by_nobody_changes_nothing(m: Controller, before: State, after: State) -> Truth:
    """A broker outside the ISR goes without a change of the partition; one comes back so where there is a leader.

    Where the controller keeps an index of ELR members, one that is not in it either registers without a change, but
    that its directory is not lost any more.
    """
    kept = []
    p, then = before.partition, after.partition
    for b in m.t.broker:
        old, new = before.registrations[b], after.registrations[b]
        same = (old.epoch == new.epoch) & (old.registered == new.registered)
        goes = (~old.fenced & new.fenced) | (~old.in_controlled_shutdown & new.in_controlled_shutdown)
        comes = old.fenced & ~new.fenced & p.leader.is_some
        kept.append(implies(same & ((goes & ~p.isr.has(b)) | comes), p == then))
        if m.has_index:
            found = p.replace(offline=then.offline) if m.on("offline_directory_check") else p
            unknown = ~p.isr.has(b) & (before.elr_entries[b] == 0)
            kept.append(implies(_registers(before, after, b) & unknown, found == then))
    return all_of(kept)


@step_property("966.15, 966.16")
def unclean_election_comes_at_once(m: Controller, before: State, after: State) -> Truth:
    """Where unclean election is enabled, no change loses the leader while a replica may lead; who comes back leads."""
    if m.on("unclean_recovery"):
        return as_bool(True)
    p, then = before.partition, after.partition
    able = _able(m, after)
    back = able - m.active(before)
    lost = p.leader.is_some & then.leader.is_none
    waits = p.leader.is_none & then.leader.is_none
    kept = implies(lost, able.is_empty) & implies(waits, back.is_empty)
    return implies(before.unclean_election, kept)


@step_property("966.9, 966.14, 966.15, 966.16")
def nobody_from_outside_leads_without_leave(m: Controller, before: State, after: State) -> Truth:
    """Who was in neither ISR nor ELR leads only where unclean election is enabled, or asked for, or by a recovery.

    Else it is the last known leader, or one that the leader proposed as its reassignment completed; never one whom a
    reassignment that is asked for or cancelled has put there.
    """
    p, then = before.partition, after.partition
    outside = then.leader.is_some & (p.leader != then.leader) & ~electable(p).has(then.leader)
    last = p.last_known_leader.is_some & then.leader.is_(p.last_known_leader.value)
    asked = p.leader.is_none & (p.replicas == then.replicas) & (before.registrations == after.registrations)
    asked = asked & (bool(m.p.elections_on_request) or m.on("unclean_recovery"))
    proposed = p.leader.is_some & then.isr.has(then.leader) & (before.registrations == after.registrations)
    proposed = proposed & ~p.removing.is_empty & (m.assigned(then) == m.assigned(p) - p.removing)
    return implies(outside & ~favours_availability(m, before), last | asked | proposed)


@step_property("966.9")
def who_is_to_go_is_to_go(m: Controller, before: State, after: State) -> Truth:
    """While replicas stay the same, a reassignment by which somebody is to go or to come does not forget that."""
    p, then = before.partition, after.partition
    same = m.assigned(p) == m.assigned(then)
    goes_on = ~then.adding.is_empty | ~then.removing.is_empty
    forgets = ~p.removing.is_empty & then.removing.is_empty & (goes_on | ~p.adding.is_empty)
    return ~(same & forgets)


WATCHED = (
    the_index_follows_the_elr,
    a_partition_changes_once_for_each_entry,
    only_changes_are_counted,
    the_last_leader_is_remembered,
    a_change_of_min_isr_forgets,
    nobody_becomes_eligible_while_the_elr_is_off,
    who_leaves_the_isr_stays_eligible,
    a_lost_directory_is_remembered,
    a_leader_leaves_the_isr_for_a_reason,
    who_is_needed_by_nobody_changes_nothing,
    unclean_election_comes_at_once,
    nobody_from_outside_leads_without_leave,
    who_is_to_go_is_to_go,
)
"""Asked in explorations that name them."""
