"""What must hold of every step of the control plane: who decides what, who is told, and what brokers believe."""

from __future__ import annotations

from functools import partial
from typing import Any

from highwater.model.language import State, all_of, any_of, implies
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import Number, SeqValue, StructValue, Truth
from highwater.model.zookeeper import ZooKeeperMode
from highwater.model.zookeeper.channels import deliverable
from highwater.model.zookeeper.cluster import Kind


def _deciding(s: State, after: State) -> tuple[StructValue, StructValue]:
    """The controller in office after a step, as it was before it and as it is."""
    office = after.zookeeper.controller
    return s.controllers[office], after.controllers[office]


def _runs_on(m: ZooKeeperMode, before: State, after: State, b: Number) -> Truth:
    """Whether a broker's process is there before and after a step."""
    return m.is_up(before.brokers[b]) & m.is_up(after.brokers[b])


# --- the partition in ZooKeeper -----------------------------------------------------------------------------


@step_property("ZK3", rule="decision_bumps_leader_epoch")
def a_decision_ends_the_leader_epoch(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """Another leader, or an ISR without somebody, has a later leader epoch; without a decision the epoch stays.

    A broker that has bounced is handled as failed and as new, and may lead again in its later epoch.
    """
    old, new = before.zookeeper.partition, after.zookeeper.partition
    decided = (old.leader != new.leader) | ~(old.isr <= new.isr)
    me, then = _deciding(before, after)
    looked = me.registrations != then.registrations
    later = new.leader_epoch > old.leader_epoch
    return (
        implies(decided, later)
        & (later | (new.leader_epoch == old.leader_epoch))
        & (~later | decided | looked)
    )


@step_property("ZK3")
def who_leaves_the_isr_has_failed_or_shuts_down(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """Nobody is put out of the ISR who runs on, as far as the controller knows; and somebody is left in it.

    Who is outside can lose what is committed, and whoever is left must not have done so.
    """
    old, new = before.zookeeper.partition, after.zookeeper.partition
    me, then = _deciding(before, after)
    gone = old.isr - new.isr
    reasons = [
        ~gone.has(b)
        | then.registrations[b].is_none
        | then.shutting_down.has(b)
        | (me.registrations[b] != then.registrations[b])
        for b in m.broker
    ]
    return implies(old.isr != new.isr, all_of([~new.isr.is_empty, *reasons]))


@step_property("ZK3")
def who_is_elected_was_in_the_isr(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A leader is elected from the ISR, of brokers that the controller knows as live and not as shutting down."""
    old, new = before.zookeeper.partition, after.zookeeper.partition
    _, then = _deciding(before, after)
    elected = new.leader.is_some & (old.leader != new.leader)
    able = [
        ~new.leader.is_(b)
        | (old.isr.has(b) & new.isr.has(b) & then.registrations[b].is_some & ~then.shutting_down.has(b))
        for b in m.broker
    ]
    return implies(elected, all_of(able))


@step_property("ZK3")
def a_leader_that_lives_leads_on(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A leader is replaced only when it has failed, bounced, or shuts down; and by nobody only if nobody can lead."""
    old, new = before.zookeeper.partition, after.zookeeper.partition
    me, then = _deciding(before, after)
    replaced = old.leader.is_some & (old.leader != new.leader)
    reason = any_of(
        old.leader.is_(b)
        & (
            then.registrations[b].is_none
            | then.shutting_down.has(b)
            | (me.registrations[b] != then.registrations[b])
        )
        for b in m.broker
    )
    able = any_of(
        old.isr.has(b)
        & then.registrations[b].is_some
        & (me.registrations[b] == then.registrations[b])
        & ~then.shutting_down.has(b)
        for b in m.broker
    )
    return implies(replaced, reason & (new.leader.is_some | ~able))


@step_property("ZK3")
def who_joins_the_isr_follows_its_leader(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """Who comes into the ISR fetches from the leader, in its leader epoch: else it may lack what is committed."""
    old, new = before.zookeeper.partition, after.zookeeper.partition
    joining = new.isr - old.isr
    follows = [
        ~joining.has(b)
        | (
            m.is_up(before.brokers[b])
            & before.brokers[b].stopped_for.is_none
            & (before.brokers[b].leader == new.leader)
            & before.brokers[b].leader_epoch.is_(new.leader_epoch)
            & any_of(new.leader.is_(x) & m.leads(x, before.brokers[x]) for x in m.broker)
        )
        for b in m.broker
    ]
    return implies(~joining.is_empty, all_of(follows))


# --- controllers --------------------------------------------------------------------------------------------


@step_property("ZK1, ZK4")
def controllers_come_and_go_with_the_node(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """Who acts as controller has had the controller node; who has it acts on, and there is a later one at most."""
    office = after.zookeeper.controller
    acts = [
        (before.controllers[c].active == after.controllers[c].active)
        | (after.controllers[c].active == (office == c))
        for c in m.controller
    ]
    return all_of([before.zookeeper.controller <= office, *acts])


@step_property("380.3")
def who_counts_as_shutting_down_asked_that_controller(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A controller takes a broker for one that shuts down when it takes its ControlledShutdown, and takes that once.

    It forgets it when the broker has failed.
    """
    kept = []
    for c in m.controller:
        old, new = before.controllers[c], after.controllers[c]
        for b in m.broker:
            sent = before.shutdown_requests[b]
            asked = sent.is_some & (sent.value.recipient == c)
            kept.append(implies(~old.shutting_down.has(b) & new.shutting_down.has(b), asked))
            failed = (old.registrations[b] != new.registrations[b]) | ~new.active
            kept.append(implies(old.shutting_down.has(b) & ~new.shutting_down.has(b), failed))
    for b in m.broker:
        taken = before.shutdown_requests[b].is_some & after.shutdown_requests[b].is_none
        grown = any_of(
            ~before.controllers[c].shutting_down.has(b) & after.controllers[c].shutting_down.has(b)
            for c in m.controller
        )
        retried = before.budgets.reconnects > after.budgets.reconnects
        kept.append(implies(grown, taken | retried))
    return all_of(kept)


# --- requests -----------------------------------------------------------------------------------------------


@step_property("ZK1")
def requests_are_taken_one_by_one(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """What leaves a channel is one request that could arrive, taken by a broker that runs; none is lost or changed.

    A late copy is one whose answer was lost.
    """
    kept = []
    for b in m.broker:
        old, new = before.requests[b], after.requests[b]
        taken = any_of(left_out(m, old, new, i) & deliverable(old, i) for i in m.position)
        same = [
            (old.length <= i)
            | (old.at(i) == new.at(i))
            | (
                (old.at(i).replace(late=True) == new.at(i))
                & ~old.at(i).late
                & deliverable(old, i)
                & (before.budgets.reconnects > after.budgets.reconnects)
            )
            for i in m.position
        ]
        shorter = (old.length != new.length) & (new.length < old.length)
        kept.append(implies(shorter, taken & m.is_up(before.brokers[b])))
        kept.append(shorter | all_of(same))
    return all_of(kept)


def left_out(m: ZooKeeperMode, old: SeqValue, new: SeqValue, position: int) -> Truth:
    """Whether a channel is another one without the request at a position."""
    before = [(new.length <= i) | (old.at(i) == new.at(i)) for i in m.position[:position]]
    behind = [(new.length <= i) | (old.at(i + 1) == new.at(i)) for i in m.position[position:-1]]
    return all_of([old.length == new.length + 1, old.length > position, *before, *behind])


@step_property("380.2, ZK4")
def requests_say_what_was_decided(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A controller in office tells what is in ZooKeeper, to the generation that it knows, on a request's own terms.

    A StopReplica goes to a broker that shuts down.
    """
    office, p = after.zookeeper.controller, after.zookeeper.partition
    _, then = _deciding(before, after)
    told = []
    for b in m.broker:
        old, new = before.requests[b], after.requests[b]
        for i in m.position:
            sent, known = new.at(i), then.registrations[b]
            says = (sent.leader == p.leader) & sent.leader_epoch.is_(p.leader_epoch)
            stops = sent.leader.is_none & sent.leader_epoch.is_none & then.shutting_down.has(b)
            is_new = (new.length > i) & (old.length <= i) & (sent.controller == office)
            fits = (known.is_none | known.is_(sent.broker_epoch)) & ~sent.late
            told.append(implies(is_new & (sent.kind == Kind.STOP_REPLICA), fits & stops))
            told.append(implies(is_new & (sent.kind != Kind.STOP_REPLICA), fits & says))
    return all_of(told)


@step_property("380.3, ZK3")
def everyone_is_told_of_a_decision(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """Whom the controller in office knows gets a LeaderAndIsr of each decision; but for one that is told to stop."""
    p = after.zookeeper.partition
    decided = before.zookeeper.partition.leader_epoch != p.leader_epoch
    _, then = _deciding(before, after)
    told = [
        then.registrations[b].is_none
        | any_of(
            (after.requests[b].length > i)
            & (before.requests[b].length <= i)
            & (
                after.requests[b].at(i).leader_epoch.is_(p.leader_epoch)
                | (after.requests[b].at(i).kind == Kind.STOP_REPLICA)
            )
            & (after.requests[b].at(i).kind != Kind.UPDATE_METADATA)
            for i in m.position
        )
        for b in m.broker
    ]
    return implies(decided, all_of(told))


# --- brokers ------------------------------------------------------------------------------------------------


def _told(m: ZooKeeperMode, channel: SeqValue, kind: Number, *what: tuple[str, Any]) -> Truth:
    """Whether there is a request of a kind under way with these fields."""
    return any_of(
        (channel.length > i)
        & (channel.at(i).kind == kind)
        & all_of(getattr(channel.at(i), name) == value for name, value in what)
        for i in m.position
    )


@step_property("380.2, ZK1, ZK2")
def brokers_believe_what_they_are_told(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A broker that runs on changes its replica, and what it tells clients, by a request that was on its way to it."""
    kept = []
    for b in m.broker:
        old, new, channel = before.brokers[b], after.brokers[b], before.requests[b]
        told = partial(_told, m, channel)
        runs = _runs_on(m, before, after, b)
        leadership = (("leader", new.leader), ("leader_epoch", new.leader_epoch))
        same = (old.leader == new.leader) & (old.leader_epoch == new.leader_epoch)
        starts = old.stopped_for.is_some & new.stopped_for.is_none
        kept.append(implies(runs & ~(same & ~starts), told(Kind.LEADER_AND_ISR, *leadership)))
        stops = new.stopped_for.is_some & (old.stopped_for != new.stopped_for)
        known = old.leader_epoch.is_some
        for_it = told(Kind.STOP_REPLICA, ("broker_epoch", new.stopped_for.value))
        kept.append(implies(runs & stops, known & for_it))
        heard = new.controller_epoch.is_some & (old.controller_epoch != new.controller_epoch)
        by = any_of(
            (channel.length > i) & (channel.at(i).controller == new.controller_epoch.value)
            for i in m.position
        )
        kept.append(implies(runs & heard, by))
        if m.p.metadata:
            says = (("leader", new.metadata.value.leader),)
            news = new.metadata.is_some & (old.metadata != new.metadata)
            kept.append(implies(runs & news, told(Kind.UPDATE_METADATA, *says)))
        changed = ~same | starts | stops | heard
        kept.append(implies(runs & changed, before.requests[b] != after.requests[b]))
    return all_of(kept)


@step_property("380.1")
def registrations_have_epochs_of_their_own(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """Each registration has the next broker epoch. It ends with its process, or as a session that expires."""
    kept = []
    for b in m.broker:
        old, new = before.zookeeper.registrations[b], after.zookeeper.registrations[b]
        last, then = before.zookeeper.last_epochs[b], after.zookeeper.last_epochs[b]
        registers = (old != new) & new.is_some
        kept.append(implies(registers, old.is_none & (then == last + 1) & new.is_(then)))
        kept.append(registers | (last == then))
        ends = old.is_some & new.is_none
        expires = before.budgets.expirations > after.budgets.expirations
        kept.append(implies(ends, expires | ~m.is_up(after.brokers[b])))
        dies = m.is_up(before.brokers[b]) & ~m.is_up(after.brokers[b])
        kept.append(implies(dies, new.is_none))
    return all_of(kept)


@step_property("380.1, 380.4")
def a_process_remembers_nothing_of_the_former_one(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A process that starts is registered and knows nothing; one that runs takes on only its own registration."""
    kept = []
    for b in m.broker:
        old, new = before.brokers[b], after.brokers[b]
        registered = after.zookeeper.registrations[b].is_(new.epoch)
        knows = new.leader.is_some | new.leader_epoch.is_some | new.controller_epoch.is_some
        starts = (old.status != new.status) & ~m.is_up(old) & m.is_up(new)
        kept.append(implies(starts, registered & ~knows & (new.status == "RUNNING")))
        kept.append(implies(m.is_up(old) & (old.epoch != new.epoch), registered | ~m.is_up(new)))
        led = (old.status != new.status) & ~m.is_up(new) & m.leads(b, old)
        kept.append(_remembers(led, old, new))
    return all_of(kept)


def _remembers(led: Truth, old: StructValue, new: StructValue) -> Truth:
    """What a broker led in last is remembered when its process ends, and stays so."""
    return (led & (new.led_formerly == old.leader_epoch)) | (~led & (new.led_formerly == old.led_formerly))


STEP_PROPERTIES = (
    a_decision_ends_the_leader_epoch,
    who_leaves_the_isr_has_failed_or_shuts_down,
    who_is_elected_was_in_the_isr,
    a_leader_that_lives_leads_on,
    who_joins_the_isr_follows_its_leader,
    controllers_come_and_go_with_the_node,
    who_counts_as_shutting_down_asked_that_controller,
    requests_are_taken_one_by_one,
    requests_say_what_was_decided,
    everyone_is_told_of_a_decision,
    brokers_believe_what_they_are_told,
    registrations_have_epochs_of_their_own,
    a_process_remembers_nothing_of_the_former_one,
)

__all__ = ["STEP_PROPERTIES"]
