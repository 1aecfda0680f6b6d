"""Properties of the protocol ``zookeeper``: guarantees of KIP-380, and of the older epoch checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from highwater.invariants import statements
from highwater.invariants.statements import defined, goals
from highwater.model.language import (
    Invariant,
    Liveness,
    Number,
    SeqValue,
    State,
    StepProperty,
    StructValue,
    Truth,
    all_of,
    always_eventually,
    any_of,
    as_bool,
    either,
    enabled,
    implies,
    invariant,
    reachable,
    step_property,
    weak,
)
from highwater.model.zookeeper import ZooKeeperMode


@invariant("380.2")
def former_requests_are_refused(m: ZooKeeperMode, s: State) -> Truth:
    """No broker obeys a request for its former generation: the decision can be wrong for the current generation."""
    return all_of(implies(s.brokers[b].epoch > 0, ~s.brokers[b].misled) for b in m.broker)


@invariant("380.2")
def replicas_are_stopped_by_their_own_requests(m: ZooKeeperMode, s: State) -> Iterator[Truth]:
    """A stopped replica was stopped by a request for the current generation of its broker, or for a later one.

    Otherwise no request starts the replica again, because the controller considers it running.
    """
    for b in m.broker:
        yield implies(s.brokers[b].stopped_for.is_some, s.brokers[b].stopped_for.value >= s.brokers[b].epoch)


@invariant("380.2")
def checkpoints_keep_every_partition(m: ZooKeeperMode, s: State) -> Truth:
    """A broker's HWM checkpoint contains every partition of the broker.

    A restarted process reads a missing HWM as 0. If it then leads, it hides records that consumers have read. If it
    follows, before KIP-101, it truncates its whole log.
    """
    if m.p.partitions == 1:
        return as_bool(True)
    return all_of(s.brokers[b].checkpointed for b in m.broker)


@invariant("380.2")
def isr_members_keep_their_log(m: ZooKeeperMode, s: State) -> Iterator[Truth]:
    """No late StopReplica deletes the log of an ISR member. Otherwise the member could be elected with an empty log."""
    isr = s.zookeeper.partition.isr
    for b in m.broker:
        yield implies(isr.has(b) & (m.p.removals > s.budgets.removals), ~s.brokers[b].deleted)


@invariant("380.3")
def former_shutdowns_take_no_leadership(m: ZooKeeperMode, s: State) -> Truth:
    """A ControlledShutdown of a broker's former generation does not end the leadership of the restarted broker."""
    return implies(m.p.controlled_shutdowns > s.budgets.controlled_shutdowns, s.deposed.is_empty)


@invariant("380.3")
def only_who_asked_is_shut_down(m: ZooKeeperMode, s: State) -> Iterator[Truth]:
    """The active controller considers a broker shutting down only if its current generation requested the shutdown.

    Until such a broker has failed and returned, the controller does not elect it.
    """
    me = s.controllers[s.zookeeper.controller]
    for b in m.broker:
        yield implies(
            me.shutting_down.has(b) & m.is_up(s.brokers[b]) & me.registrations[b].is_(s.brokers[b].epoch),
            s.brokers[b].status == "SHUTTING_DOWN",
        )


@invariant("ZK1, ZK2")
def epochs_never_go_back(m: ZooKeeperMode, s: State) -> Truth:
    """No process obeys a request with a lower controller epoch or leader epoch than one it has obeyed before."""
    return all_of(implies(m.is_up(s.brokers[b]), ~s.brokers[b].reverted) for b in m.broker)


@statements.one_leader_per_epoch.seen("ZK3")
def one_leader_per_epoch(m: ZooKeeperMode, s: State) -> Truth:
    """In each leader epoch, at most one broker believes that it leads."""
    return statements.one_leader_per_epoch(
        [(m.leads(b, s.brokers[b]), s.brokers[b].leader_epoch) for b in m.broker]
    )


@invariant("380.4")
def one_generation_per_leader_epoch(m: ZooKeeperMode, s: State) -> Iterator[Truth]:
    """A restarted broker does not lead in a leader epoch in which its former process led.

    The restarted broker may have lost records that followers have. The leader epoch cannot distinguish the two logs.
    """
    for b in m.broker:
        yield implies(
            m.leads(b, s.brokers[b]) & s.brokers[b].led_formerly.is_some,
            s.brokers[b].leader_epoch.value > s.brokers[b].led_formerly.value,
        )


@invariant("ZK4")
def the_active_controller_decides(m: ZooKeeperMode, s: State) -> Truth:
    """Leader and leader epoch in ZooKeeper equal those that the active controller sends to brokers.

    Otherwise brokers never learn of a decision that ZooKeeper has.
    """
    me = s.controllers[s.zookeeper.controller]
    return me.leadership == m.leadership_of(s.zookeeper.partition)


@invariant("ZK2, ZK4")
def nobody_is_ahead_of_zookeeper(m: ZooKeeperMode, s: State) -> Iterator[Truth]:
    """No broker is in a later leader epoch than ZooKeeper's partition; in the same epoch both have the same leader."""
    p = s.zookeeper.partition
    for b in m.broker:
        yield implies(
            s.brokers[b].leader_epoch.is_some,
            (s.brokers[b].leader_epoch.value < p.leader_epoch)
            | (s.brokers[b].leader_epoch.is_(p.leader_epoch) & (s.brokers[b].leader == p.leader)),
        )


@invariant("380.2")
def requests_arrive(m: ZooKeeperMode, s: State) -> Iterator[Truth]:
    """A broker that is up can take the first request of its channel, also while it shuts down."""
    takes = ("take_leader_and_isr", "take_update_metadata", "take_stop_replica")
    for b in m.broker:
        arrives = any_of(enabled(action, b=b, position=0) for action in takes)
        yield implies(m.is_up(s.brokers[b]) & (s.requests[b].length > 0), arrives)


# --- steps ----------------------------------------------------------------------------------------------------


def in_office(s: State, after: State) -> tuple[StructValue, StructValue]:
    """The state, before and after a step, of the controller that is active after the step."""
    office = after.zookeeper.controller
    return s.controllers[office], after.controllers[office]


@step_property("ZK3")
def isr_members_leave_by_failure_or_shutdown(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A controller removes from the ISR only brokers that it considers failed or shutting down, never the last member.

    A bounced broker counts as failed. A broker that is no longer a replica leaves the ISR as well.
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


@step_property("380.4", rule="bounced_broker_fails_first")
def bounced_brokers_leave_the_isr(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A controller handles a bounced broker as failed: leader or follower, it leaves the ISR.

    Exception: no ISR member keeps its registration.
    """
    old, new = before.zookeeper.partition, after.zookeeper.partition
    me, then = in_office(before, after)
    keep = m.brokers.of(lambda b: me.registrations[b] == then.registrations[b])
    bounced = m.registered(me.registrations) & m.registered(then.registrations) - keep
    return implies(~bounced.is_empty & ~(old.isr & keep).is_empty, (new.isr & bounced).is_empty)


@step_property("380.1", rule="epoch_per_registration")
def registrations_have_later_epochs(m: ZooKeeperMode, before: State, after: State) -> Iterator[Truth]:
    """A registration has a greater broker epoch than the broker, a controller or a request has from an earlier one."""
    for b in m.broker:
        old, new = before.zookeeper.registrations[b], after.zookeeper.registrations[b]
        request = before.shutdown_requests[b]
        known = [
            ~m.is_up(before.brokers[b]) | (before.brokers[b].epoch < new.value),
            request.is_none | (request.value.broker_epoch < new.value),
            *(
                c.is_none | (c.value < new.value)
                for c in (before.controllers[x].registrations[b] for x in m.controller)
            ),
        ]
        yield implies(old.is_none & new.is_some, all_of(known))


@step_property("ZK4", needs="failovers")
def controllers_that_resign_send_nothing(m: ZooKeeperMode, before: State, after: State) -> Iterator[Truth]:
    """A controller whose write ZooKeeper refuses, or that learns of its successor, informs no broker of a decision.

    It can send a StopReplica: in a controlled shutdown this request precedes the write.
    """
    for c in m.controller:
        resigns = before.controllers[c].active & ~after.controllers[c].active
        silent = [
            (new.length == old.length) | ((new.length == old.length + 1) & (new.last.kind == "STOP_REPLICA"))
            for old, new in ((before.requests[b], after.requests[b]) for b in m.broker)
        ]
        yield implies(resigns, all_of(silent))


@step_property("ZK3")
def elected_leaders_were_in_the_isr(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A controller elects a leader from the ISR members that it considers live and not shutting down.

    A replica outside the ISR may lack committed records.
    """
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
def live_leaders_lead_on(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A leader is replaced only if it failed, bounced or shuts down.

    A partition loses its leader without a replacement only if no ISR member is eligible.
    """
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
def joining_replicas_follow_their_leader(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A replica joins the ISR only if it fetches in the leader's epoch; otherwise it may lack committed records.

    The leader has a session, because ZooKeeper accepts no write without one.
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


@step_property("380.3", needs="controlled_shutdowns")
def current_shutdown_requests_are_granted(m: ZooKeeperMode, before: State, after: State) -> Iterator[Truth]:
    """The active controller grants a ControlledShutdown if the request's broker epoch is not below the known one.

    The controller must know the broker's registration. It also grants a request of a version without a broker epoch.
    The broker then leaves the ISR, unless it is the only member or no successor can lead.
    """
    me, then = in_office(before, after)
    for b in m.broker:
        old, known = before.shutdown_requests[b], me.registrations[b]
        older = bool(m.p.older_brokers >> int(b) & 1)
        fits = known.is_some & (as_bool(older) | (old.value.broker_epoch >= known.value))
        taken = old.is_some & after.shutdown_requests[b].is_none & me.active
        to_it = old.value.recipient == after.zookeeper.controller
        yield implies(taken & to_it & fits, then.shutting_down.has(b))
        out = ~after.zookeeper.partition.isr.has(b) | (after.zookeeper.partition.isr == [b])
        yield implies(taken & to_it & fits, out | after.zookeeper.partition.leader.is_(b))


@step_property("380.2, ZK1, ZK2")
def current_requests_are_obeyed(m: ZooKeeperMode, before: State, after: State) -> Iterator[Truth]:
    """A broker obeys a LeaderAndIsr for its generation that is of no former controller and starts a leader epoch.

    This holds for a broker that shuts down, too.
    """
    for b in m.broker:
        old, new, seen = before.brokers[b], after.brokers[b], before.brokers[b].controller_epoch
        for i in m.position:
            request = before.requests[b].at(i)
            taken = left_out(m, before.requests[b], after.requests[b], i) & (request.kind == "LEADER_AND_ISR")
            latest = seen.is_none | (seen.value <= request.controller)
            news = old.leader_epoch.is_none | (old.leader_epoch.value < request.leader_epoch.value)
            current = m.is_up(old) & (request.broker_epoch == old.epoch) & latest & news
            obeyed = (new.leader == request.leader) & (new.leader_epoch == request.leader_epoch)
            yield implies(taken & current, obeyed)


# --- liveness -------------------------------------------------------------------------------------------------


DELIVERY = weak(
    either("take_leader_and_isr", "take_update_metadata", "take_stop_replica"), by=["b"], again=False
)
"""Fairness: requests to a running broker arrive."""

LOOKS = weak("read_broker_list")
"""Fairness: a controller whose watch reports a change of the broker list reads the list."""

SESSIONS = weak("register_again", "learn_epoch")
"""Fairness: a broker that has lost its session registers again, and learns its new broker epoch."""


def _is_live(m: ZooKeeperMode, s: State, b: Number) -> Truth:
    """True if broker ``b`` runs, is not shutting down, and is registered with its own epoch."""
    return (s.brokers[b].status == "RUNNING") & s.zookeeper.registrations[b].is_(s.brokers[b].epoch)


@always_eventually("380.4", fair=DELIVERY + LOOKS)
def live_brokers_hear_what_was_decided(m: ZooKeeperMode, s: State) -> Truth:
    """Every live broker with a replica eventually knows ZooKeeper's leader and leader epoch, and its replica runs.

    A broker that gets no requests from the controller serves no client and does not fetch. If there is a second
    partition, the broker's replica of that partition runs, too.
    """
    p = s.zookeeper.partition
    return all_of(
        ~_is_live(m, s, b)
        | ~m.replicas(p).has(b)
        | (
            (s.brokers[b].leader == p.leader)
            & s.brokers[b].leader_epoch.is_(p.leader_epoch)
            & s.brokers[b].stopped_for.is_none
            & (s.brokers[b].has_second if m.p.partitions > 1 else True)
        )
        for b in m.broker
    )


@always_eventually("380.4", fair=DELIVERY + LOOKS)
def live_brokers_know_the_leader(m: ZooKeeperMode, s: State) -> Truth:
    """Every live broker eventually reports to clients the leader that ZooKeeper has."""
    if not m.p.metadata:
        return as_bool(True)
    leadership = m.leadership_of(s.zookeeper.partition)
    return all_of(~_is_live(m, s, b) | s.brokers[b].metadata.is_(leadership) for b in m.broker)


@always_eventually("380.3", fair=LOOKS)
def a_live_isr_member_leads(m: ZooKeeperMode, s: State) -> Truth:
    """While a live broker is in the ISR, the partition eventually has a registered leader."""
    p = s.zookeeper.partition
    nobody = ~any_of(p.isr.has(b) & _is_live(m, s, b) for b in m.broker)
    return nobody | m.registered(s.zookeeper.registrations).has(p.leader)


@always_eventually("380.1", fair=SESSIONS)
def sessions_come_back(m: ZooKeeperMode, s: State) -> Truth:
    """Every running broker is eventually registered and knows its broker epoch."""
    return all_of((s.brokers[b].status != "RUNNING") | _is_live(m, s, b) for b in m.broker)


# --- goals ----------------------------------------------------------------------------------------------------


def left_out(m: ZooKeeperMode, old: SeqValue, new: SeqValue, position: int) -> Truth:
    """True if the channel ``new`` equals ``old`` without the request at ``position``."""
    before = [(new.length <= i) | (old.at(i) == new.at(i)) for i in m.position[:position]]
    behind = [(new.length <= i) | (old.at(i + 1) == new.at(i)) for i in m.position[position:-1]]
    return all_of([old.length == new.length + 1, old.length > position, *before, *behind])


def _overtakes(
    m: ZooKeeperMode, before: State, after: State, what: Callable[[StructValue, StructValue], Truth]
) -> Truth:
    """True if a request arrives before an earlier one of its channel, and ``what(earlier, arrived)`` holds."""
    found = []
    for b in m.broker:
        old, new = before.requests[b], after.requests[b]
        for i in m.position:
            ahead = [what(old.at(j), old.at(i)) for j in m.position[:i]]
            found.append(left_out(m, old, new, i) & any_of(ahead))
    return any_of(found)


@reachable("ZK1")
def a_former_controllers_request_is_overtaken(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A request overtakes a request of a former controller to the same broker."""

    def former(ahead: StructValue, request: StructValue) -> Truth:
        same = (ahead.broker_epoch == request.broker_epoch) & ~ahead.late
        return same & (ahead.controller < request.controller)

    return _overtakes(m, before, after, former)


@reachable("ZK1")
def a_later_controllers_request_is_overtaken(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A request of a former controller overtakes an earlier request of a later controller."""

    def later(ahead: StructValue, request: StructValue) -> Truth:
        same = (ahead.broker_epoch == request.broker_epoch) & ~ahead.late
        return same & (ahead.controller > request.controller)

    return _overtakes(m, before, after, later)


@reachable("380.2")
def a_former_generations_request_is_overtaken(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A request overtakes a request that the same controller sent to a former generation of the broker."""

    def former(ahead: StructValue, request: StructValue) -> Truth:
        same = (ahead.controller == request.controller) & ~ahead.late
        return same & (ahead.broker_epoch < request.broker_epoch)

    return _overtakes(m, before, after, former)


@reachable("380.2")
def a_late_copy_is_overtaken(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A request overtakes a late copy from the same controller to the same generation of the broker."""

    def late(ahead: StructValue, request: StructValue) -> Truth:
        same = (ahead.controller == request.controller) & (ahead.broker_epoch == request.broker_epoch)
        return same & ahead.late

    return _overtakes(m, before, after, late)


@reachable("380.2")
def a_replica_is_taken_away(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """The active controller removes a replica from the partition."""
    old, new = before.zookeeper.partition, after.zookeeper.partition
    decided = after.controllers[after.zookeeper.controller].leadership == m.leadership_of(new)
    return decided & ~(m.replicas(old) <= m.replicas(new))


@reachable("ZK4")
def a_former_controller_resigns(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A controller that lost the controller node, and knows the current broker list, resigns and sends nothing."""
    office, old, new = after.zookeeper.controller, before.zookeeper, after.zookeeper
    ends = any_of(
        before.controllers[c].active
        & ~after.controllers[c].active
        & (office != c)
        & (before.controllers[c].registrations == old.registrations)
        for c in m.controller
    )
    idle = all_of(before.requests[b] == after.requests[b] for b in m.broker)
    return ends & idle & (old == new)


@reachable("380.3, ZK4")
def a_former_controller_takes_a_shutdown(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A controller that lost the controller node takes a ControlledShutdown and stays active."""
    office = after.zookeeper.controller
    return any_of(
        before.shutdown_requests[b].is_some
        & after.shutdown_requests[b].is_none
        & (before.shutdown_requests[b].value.recipient == c)
        & (office != c)
        & before.controllers[c].active
        & after.controllers[c].active
        for b in m.broker
        for c in m.controller
    )


@reachable("380.3", needs="controlled_shutdowns")
def a_broker_asks_the_next_controller(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A broker that is shutting down sends a ControlledShutdown to a controller other than the first."""
    return any_of(
        (before.brokers[b].status == "SHUTTING_DOWN")
        & before.shutdown_requests[b].is_none
        & after.shutdown_requests[b].is_some
        & (after.shutdown_requests[b].value.recipient != 0)
        for b in m.broker
    )


INVARIANTS = defined(Invariant, __name__)
STEP_PROPERTIES = defined(StepProperty, __name__)
LIVENESS = defined(Liveness, __name__)
REACHABLE = goals(__name__)
