"""What must hold of every step of the control plane: who decides what, who is told, and what brokers believe."""

from __future__ import annotations

from highwater.model.language import State, all_of, any_of, implies
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import StructValue, Truth
from highwater.model.zookeeper import ZooKeeperMode
from highwater.model.zookeeper.cluster import Kind


def in_office(s: State, after: State) -> tuple[StructValue, StructValue]:
    """The controller in office after a step, as it was before it and as it is."""
    office = after.zookeeper.controller
    return s.controllers[office], after.controllers[office]


# --- the partition in ZooKeeper -----------------------------------------------------------------------------


@step_property("ZK3", rule="decision_bumps_leader_epoch")
def a_decision_ends_the_leader_epoch(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """Another leader, or an ISR without somebody, has a later leader epoch; without a decision the epoch stays.

    A broker that has bounced is handled as failed and as new, and may lead again in its later epoch. So may one that
    the controller has missed: it is another process by now, and the former one may have led in the epoch before.
    """
    old, new = before.zookeeper.partition, after.zookeeper.partition
    decided = (old.leader != new.leader) | ~(old.isr <= new.isr) | (m.replicas(old) != m.replicas(new))
    me, then = in_office(before, after)
    looked = me.registrations != then.registrations
    later = new.leader_epoch > old.leader_epoch
    is_back = any_of(
        me.active & me.registrations[b].is_none & then.registrations[b].is_some & new.leader.is_(b)
        for b in m.broker
    )
    return (
        implies(decided | is_back, later)
        & (later | (new.leader_epoch == old.leader_epoch))
        & (~later | decided | looked)
    )


@step_property("ZK3")
def who_leaves_the_isr_has_failed_or_shuts_down(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """Nobody is put out of the ISR who runs on, as far as the controller knows; and somebody is left in it.

    Who is outside can lose what is committed, and whoever is left must not have done so.
    """
    old, new = before.zookeeper.partition, after.zookeeper.partition
    me, then = in_office(before, after)
    gone = old.isr - new.isr
    reasons = [
        ~gone.has(b)
        | ~m.replicas(new).has(b)
        | then.registrations[b].is_none
        | then.shutting_down.has(b)
        | (me.registrations[b].is_some & (me.registrations[b] != then.registrations[b]))
        for b in m.broker
    ]
    return implies(old.isr != new.isr, all_of([~new.isr.is_empty, *reasons]))


@step_property("ZK3, 380.3")
def who_has_failed_or_shuts_down_leaves_the_isr(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """Whom the controller in office sees fail is in the ISR no more, unless it was the last one and led, or nobody led.

    Nor is one whose ControlledShutdown it takes, unless it leads and nobody else can, or is the last one. If another
    one leads in its place, nobody who shuts down is left in the ISR.
    """
    old, new = before.zookeeper.partition, after.zookeeper.partition
    me, then = in_office(before, after)
    kept = []
    for b in m.broker:
        fails = me.registrations[b].is_some & then.registrations[b].is_none & me.active
        others = any_of(
            old.isr.has(x) & then.registrations[x].is_some & (me.registrations[x] == then.registrations[x])
            for x in m.broker
            if int(x) != int(b)
        )
        last = ~others & (old.leader.is_none | old.leader.is_(b))
        kept.append(implies(fails, ~new.isr.has(b) | last))
        asks = ~me.shutting_down.has(b) & then.shutting_down.has(b)
        alone = old.isr == [b]
        kept.append(implies(asks, ~new.isr.has(b) | alone | (old.leader.is_(b) & new.leader.is_(b))))
        kept.append(implies(asks & (old.leader != new.leader), (new.isr & then.shutting_down).is_empty))
    return all_of(kept)


@step_property("ZK3")
def who_is_elected_was_in_the_isr(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A leader is elected from the ISR, of brokers that the controller knows as live and not as shutting down."""
    old, new = before.zookeeper.partition, after.zookeeper.partition
    _, then = in_office(before, after)
    elected = new.leader.is_some & (old.leader != new.leader)
    able = [
        ~new.leader.is_(b)
        | (old.isr.has(b) & new.isr.has(b) & then.registrations[b].is_some & ~then.shutting_down.has(b))
        for b in m.broker
    ]
    return implies(elected, all_of(able) & (new.isr <= m.registered(then.registrations)))


@step_property("ZK3")
def a_leader_that_lives_leads_on(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A leader is replaced only when it has failed, bounced, or shuts down; and by nobody only if nobody can lead."""
    old, new = before.zookeeper.partition, after.zookeeper.partition
    me, then = in_office(before, after)
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
    """Who comes into the ISR fetches from the leader, in its leader epoch: else it may lack what is committed.

    That leader has a session, as ZooKeeper takes a write of nobody else.
    """
    old, new = before.zookeeper.partition, after.zookeeper.partition
    joining = new.isr - old.isr
    follows = [
        ~joining.has(b)
        | (
            m.is_up(before.brokers[b])
            & before.brokers[b].stopped_for.is_none
            & (before.brokers[b].leader == new.leader)
            & before.brokers[b].leader_epoch.is_(new.leader_epoch)
            & any_of(
                new.leader.is_(x) & m.leads(x, before.brokers[x]) & before.zookeeper.registrations[x].is_some
                for x in m.broker
            )
        )
        for b in m.broker
    ]
    return implies(~joining.is_empty, all_of(follows))


@step_property("380.2, ZK3")
def replicas_are_the_operators(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """The ISR are replicas. One is taken away, of a broker that does not lead while another one does; or one is given.

    The first is asked for, and so it is done; nobody else is put out of the ISR, or into it, by that.
    """
    old, new = before.zookeeper.partition, after.zookeeper.partition
    had, has = m.replicas(old), m.replicas(new)
    asked = before.budgets.removals > after.budgets.removals
    led = old.leader.is_some & (new.leader == old.leader)
    removed = [(had - has == [b]) & (old.isr - new.isr <= [b]) & ~old.leader.is_(b) for b in m.broker]
    given = [(has - had == [b]) & (had <= has) & (old.isr == new.isr) for b in m.broker]
    return all_of(
        [
            implies(old.isr != new.isr, new.isr <= has),
            implies(asked, led & (has <= had) & any_of(removed)),
            implies((had != has) & ~asked, any_of(given)),
        ]
    )


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


@step_property("ZK4", rule="controller_epoch_fencing")
def who_has_lost_the_node_decides_nothing(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A controller that acts on without the node decides nothing; one that ends tells no decision."""
    office = after.zookeeper.controller
    kept = []
    for c in m.controller:
        old, new = before.controllers[c], after.controllers[c]
        former = old.active & new.active & (office != c)
        kept.append(implies(former & (old != new), old.leadership == new.leadership))
        ends = old.active & ~new.active
        silent = [
            (after.requests[b].length <= i)
            | (before.requests[b].length > i)
            | (after.requests[b].at(i).controller != c)
            | (after.requests[b].at(i).kind == Kind.STOP_REPLICA)
            for b in m.broker
            for i in m.position
        ]
        kept.append(implies(ends, all_of(silent)))
    return all_of(kept)


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
        kept.append(implies(grown, taken))
    return all_of(kept)


WATCHED = (
    a_decision_ends_the_leader_epoch,
    who_leaves_the_isr_has_failed_or_shuts_down,
    who_has_failed_or_shuts_down_leaves_the_isr,
    who_is_elected_was_in_the_isr,
    a_leader_that_lives_leads_on,
    who_joins_the_isr_follows_its_leader,
    replicas_are_the_operators,
    controllers_come_and_go_with_the_node,
    who_has_lost_the_node_decides_nothing,
    who_counts_as_shutting_down_asked_that_controller,
)
