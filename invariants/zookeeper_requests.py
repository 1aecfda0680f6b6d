"""What must hold of every step in which requests are sent or taken: they say what was decided, and are believed."""

from __future__ import annotations

from functools import partial
from typing import Any

from highwater.invariants.zookeeper_steps import in_office
from highwater.model.language import State, all_of, any_of, as_bool, implies, where
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import Number, SeqValue, StructValue, Truth
from highwater.model.zookeeper import ZooKeeperMode
from highwater.model.zookeeper.channels import deliverable
from highwater.model.zookeeper.cluster import Kind


def _runs_on(m: ZooKeeperMode, before: State, after: State, b: Number) -> Truth:
    """Whether a broker's process is there before and after a step."""
    return m.is_up(before.brokers[b]) & m.is_up(after.brokers[b])


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

    A StopReplica goes to a broker that shuts down, or whose replica is taken away, which is to delete it; a
    LeaderAndIsr goes to replicas.
    """
    office, p = after.zookeeper.controller, after.zookeeper.partition
    me, then = in_office(before, after)
    decided = before.zookeeper.partition.leader_epoch != p.leader_epoch
    looked = me.registrations != then.registrations
    told = []
    for b in m.broker:
        old, new, known = before.requests[b], after.requests[b], then.registrations[b]
        for i in m.position:
            sent = new.at(i)
            is_new = (new.length > i) & (old.length <= i) & (sent.controller == office)
            says = (sent.leader == p.leader) & sent.leader_epoch.is_(p.leader_epoch)
            fits = known.is_(sent.broker_epoch) & ~sent.late
            stops = sent.leader.is_none & sent.leader_epoch.is_none
            ends = before.zookeeper.partition.replicas.has(b) & ~p.replicas.has(b) if m.p.removals else False
            stops &= where(sent.deletes, ends, then.shutting_down.has(b))
            led = before.zookeeper.partition.leader.is_(b)
            told.append(implies(is_new & (sent.kind == Kind.STOP_REPLICA), fits & stops & ~led))
            started = me.registrations[b] != known
            news = says & (decided | started) & m.replicas(p).has(b)
            told.append(
                implies(is_new & (sent.kind == Kind.LEADER_AND_ISR), fits & news & ~_is_stopped(m, old, new))
            )
            told.append(
                implies(is_new & (sent.kind == Kind.UPDATE_METADATA), fits & says & (decided | looked))
            )
    return all_of(told)


def _is_stopped(m: ZooKeeperMode, old: SeqValue, new: SeqValue) -> Truth:
    """Whether a StopReplica has come into a channel."""
    return any_of(
        (new.length > i) & (old.length <= i) & (new.at(i).kind == Kind.STOP_REPLICA) for i in m.position
    )


@step_property("380.3, ZK3")
def everyone_is_told_of_a_decision(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """Replicas that the controller in office knows get a LeaderAndIsr of each decision, but who is told to stop."""
    p = after.zookeeper.partition
    decided = before.zookeeper.partition.leader_epoch != p.leader_epoch
    _, then = in_office(before, after)
    told = [
        then.registrations[b].is_none
        | ~(m.replicas(p) | m.replicas(before.zookeeper.partition)).has(b)
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


@step_property("380.3", needs="controlled_shutdowns")
def a_broker_asks_the_controller_in_office(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A ControlledShutdown goes to the controller that ZooKeeper names, with the broker epoch of the broker that asks.

    That broker shuts down, and its session lives. It has one under way at a time.
    """
    kept = []
    for b in m.broker:
        old, new = before.shutdown_requests[b], after.shutdown_requests[b]
        own = after.zookeeper.registrations[b].is_(new.value.broker_epoch)
        shuts_down = after.brokers[b].status == "SHUTTING_DOWN"
        in_office = new.value.recipient == after.zookeeper.controller
        kept.append(implies(new.is_some & (old != new), old.is_none & own & shuts_down & in_office))
    return all_of(kept)


@step_property("380.3", needs="controlled_shutdowns")
def only_outdated_shutdowns_are_refused(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """The controller in office grants a ControlledShutdown whose broker epoch is not lower than the one that it knows.

    The same holds where the request is of a version that has no broker epoch.
    """
    me, then = in_office(before, after)
    kept = []
    for b in m.broker:
        old, known = before.shutdown_requests[b], me.registrations[b]
        older = bool(m.p.older_brokers >> int(b) & 1)
        fits = known.is_some & (as_bool(older) | (old.value.broker_epoch >= known.value))
        taken = old.is_some & after.shutdown_requests[b].is_none & me.active
        to_it = old.value.recipient == after.zookeeper.controller
        kept.append(implies(taken & to_it & fits, then.shutting_down.has(b)))
    return all_of(kept)


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
        gone = old.leader_epoch.is_some & new.leader_epoch.is_none
        kept.append(implies(runs & ~gone & ~(same & ~starts), told(Kind.LEADER_AND_ISR, *leadership)))
        deletes = told(Kind.STOP_REPLICA, ("deletes", True)) if m.p.removals else False
        kept.append(implies(runs & gone, as_bool(deletes) & new.leader.is_none & new.stopped_for.is_none))
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


@step_property("380.2", rule="leader_and_isr_epoch_check")
def outdated_requests_change_nothing(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A broker takes over a controller epoch only from a request whose broker epoch is not lower than its own.

    One that it refuses changes nothing: not what it knows of controllers either.
    """
    kept = []
    for b in m.broker:
        old, new, channel = before.brokers[b], after.brokers[b], before.requests[b]
        heard = new.controller_epoch.is_some & (old.controller_epoch != new.controller_epoch)
        fits = [
            (channel.length > i)
            & (channel.at(i).controller == new.controller_epoch.value)
            & ((channel.at(i).broker_epoch >= old.epoch) | m.names_no_epoch(channel.at(i).controller))
            for i in m.position
        ]
        kept.append(implies(heard, any_of(fits)))
    return all_of(kept)


@step_property("380.2, ZK1")
def what_is_meant_for_a_broker_is_done(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A StopReplica that is neither of a former generation nor of a former controller stops the replica that is there.

    Or it deletes it: nothing is left of it, until the ISR takes it in anew, whatever becomes of the process. After a
    LeaderAndIsr about all partitions all are in the checkpoint; after one about fewer the others only if they were.
    """
    if not m.p.removals and m.p.partitions == 1:
        return as_bool(
            True
        )  # replicas are stopped by what brokers are told, which is asked above; this costs more
    kept = []
    for b in m.broker:
        old, new, channel = before.brokers[b], after.brokers[b], before.requests[b]
        for i in m.position:
            request = channel.at(i)
            taken = left_out(m, channel, after.requests[b], i) & deliverable(channel, i)
            seen = old.controller_epoch
            former = (request.broker_epoch < old.epoch) | (seen.is_some & (request.controller < seen.value))
            heard = taken & m.is_up(old) & ~former
            stops = heard & (request.kind == Kind.STOP_REPLICA) & old.leader_epoch.is_some
            stays = (new.leader == old.leader) & (new.leader_epoch == old.leader_epoch)
            stopped = stays & new.stopped_for.is_(request.broker_epoch)
            if m.p.removals:
                nothing = (
                    new.leader.is_none & new.leader_epoch.is_none & new.stopped_for.is_none & new.deleted
                )
                stopped = where(request.deletes, nothing, stopped & (new.deleted == old.deleted))
            kept.append(implies(stops, stopped))
            if m.p.partitions > 1:
                tells = heard & (request.kind == Kind.LEADER_AND_ISR)
                known = old.has_second | request.of_all
                kept.append(
                    implies(
                        tells, (new.has_second == known) & (new.checkpointed == (old.checkpointed & known))
                    )
                )
        if m.p.removals:
            joins = ~before.zookeeper.partition.isr.has(b) & after.zookeeper.partition.isr.has(b)
            kept.append(implies(old.deleted & ~new.deleted, joins))
            told = _told(m, channel, Kind.STOP_REPLICA, ("deletes", True))
            kept.append(implies(~old.deleted & new.deleted, told))
    return all_of(kept)


@step_property("ZK2", rule="leader_epoch_check")
def replicas_go_on_with_a_later_epoch(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A process whose replica has a leader epoch takes only a later one; a stopped replica starts only with that."""
    kept = []
    for b in m.broker:
        old, new = before.brokers[b], after.brokers[b]
        moved = (old.leader_epoch != new.leader_epoch) | (old.leader != new.leader)
        starts = old.stopped_for.is_some & new.stopped_for.is_none
        later = new.leader_epoch.is_some & (old.leader_epoch.value < new.leader_epoch.value)
        known = _runs_on(m, before, after, b) & old.leader_epoch.is_some
        deleted = new.leader_epoch.is_none & new.deleted if m.p.removals else False
        kept.append(implies(known & (moved | starts) & ~as_bool(deleted), later))
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
    """A process that starts is registered and knows nothing; one that runs takes on only its own registration.

    It forgets no controller epoch by that.
    """
    kept = []
    for b in m.broker:
        old, new = before.brokers[b], after.brokers[b]
        registered = after.zookeeper.registrations[b].is_(new.epoch)
        knows = new.leader.is_some | new.leader_epoch.is_some | new.controller_epoch.is_some
        starts = (old.status != new.status) & ~m.is_up(old) & m.is_up(new)
        kept.append(implies(starts, registered & ~knows & (new.status == "RUNNING")))
        kept.append(implies(m.is_up(old) & (old.epoch != new.epoch), registered | ~m.is_up(new)))
        runs = _runs_on(m, before, after, b) & old.controller_epoch.is_some
        kept.append(implies(runs, new.controller_epoch.is_some))
        led = (old.status != new.status) & ~m.is_up(new) & m.leads(b, old)
        kept.append(_remembers(led, old, new))
    return all_of(kept)


def _remembers(led: Truth, old: StructValue, new: StructValue) -> Truth:
    """What a broker led in last is remembered when its process ends, and stays so."""
    return (led & (new.led_formerly == old.leader_epoch)) | (~led & (new.led_formerly == old.led_formerly))


WATCHED = (
    requests_are_taken_one_by_one,
    requests_say_what_was_decided,
    everyone_is_told_of_a_decision,
    a_broker_asks_the_controller_in_office,
    only_outdated_shutdowns_are_refused,
    outdated_requests_change_nothing,
    brokers_believe_what_they_are_told,
    what_is_meant_for_a_broker_is_done,
    replicas_go_on_with_a_later_epoch,
    registrations_have_epochs_of_their_own,
    a_process_remembers_nothing_of_the_former_one,
)
