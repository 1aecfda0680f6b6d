"""What the control plane is allowed, denied: each is violated, as requests of two connections come in any order."""

from __future__ import annotations

from collections.abc import Callable

from highwater.invariants.zookeeper_requests import left_out
from highwater.model.language import State, all_of, any_of
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import StructValue, Truth
from highwater.model.zookeeper import ZooKeeperMode


def _overtakes(
    m: ZooKeeperMode, before: State, after: State, what: Callable[[StructValue, StructValue], Truth]
) -> Truth:
    """Whether a request arrives before one that was sent earlier, of which this is said."""
    found = []
    for b in m.broker:
        old, new = before.requests[b], after.requests[b]
        for i in m.position:
            ahead = [what(old.at(j), old.at(i)) for j in m.position[:i]]
            found.append(left_out(m, old, new, i) & any_of(ahead))
    return any_of(found)


@step_property("ZK1")
def requests_of_a_former_controller_come_first(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """No request overtakes one of a former controller to the same broker."""

    def former(ahead: StructValue, request: StructValue) -> Truth:
        same = (ahead.broker_epoch == request.broker_epoch) & ~ahead.late
        return same & (ahead.controller < request.controller)

    return ~_overtakes(m, before, after, former)


@step_property("ZK1")
def requests_of_a_later_controller_come_first(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """No request of a former controller overtakes one of a later controller that was sent before."""

    def later(ahead: StructValue, request: StructValue) -> Truth:
        same = (ahead.broker_epoch == request.broker_epoch) & ~ahead.late
        return same & (ahead.controller > request.controller)

    return ~_overtakes(m, before, after, later)


@step_property("380.2")
def requests_for_a_former_generation_come_first(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """No request overtakes one of the same controller that is meant for a former generation of the broker."""

    def former(ahead: StructValue, request: StructValue) -> Truth:
        same = (ahead.controller == request.controller) & ~ahead.late
        return same & (ahead.broker_epoch < request.broker_epoch)

    return ~_overtakes(m, before, after, former)


@step_property("380.2")
def late_copies_are_not_overtaken(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """No request overtakes a late copy of another one that its controller sent to this generation before."""

    def late(ahead: StructValue, request: StructValue) -> Truth:
        same = (ahead.controller == request.controller) & (ahead.broker_epoch == request.broker_epoch)
        return same & ahead.late

    return ~_overtakes(m, before, after, late)


@step_property("380.2")
def no_replica_is_taken_away(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """The controller in office takes no replica away."""
    old, new = before.zookeeper.partition, after.zookeeper.partition
    decided = after.controllers[after.zookeeper.controller].leadership == m.leadership_of(new)
    return ~(decided & ~(m.replicas(old) <= m.replicas(new)))


@step_property("ZK4")
def no_former_controller_resigns(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """Who has lost the controller node acts on for ever, as long as it decides nothing and no broker comes or goes."""
    office, old, new = after.zookeeper.controller, before.zookeeper, after.zookeeper
    ends = any_of(
        before.controllers[c].active
        & ~after.controllers[c].active
        & (office != c)
        & (before.controllers[c].registrations == old.registrations)
        for c in m.controller
    )
    idle = all_of(before.requests[b] == after.requests[b] for b in m.broker)
    return ~(ends & idle & (old == new))


@step_property("380.3, ZK4")
def no_former_controller_takes_a_shutdown(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """Who has lost the controller node learns it with the next ControlledShutdown that comes to it."""
    office = after.zookeeper.controller
    takes = any_of(
        before.shutdown_requests[b].is_some
        & after.shutdown_requests[b].is_none
        & (before.shutdown_requests[b].value.recipient == c)
        & (office != c)
        & before.controllers[c].active
        & after.controllers[c].active
        for b in m.broker
        for c in m.controller
    )
    return ~takes


@step_property("380.3", needs="controlled_shutdowns")
def nobody_asks_the_next_controller(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A broker that shuts down asks again no controller but the first one."""
    return all_of(
        (before.brokers[b].status != "SHUTTING_DOWN")
        | before.shutdown_requests[b].is_some
        | after.shutdown_requests[b].is_none
        | (after.shutdown_requests[b].value.recipient == 0)
        for b in m.broker
    )


DENIALS = (
    requests_of_a_former_controller_come_first,
    requests_of_a_later_controller_come_first,
    requests_for_a_former_generation_come_first,
    late_copies_are_not_overtaken,
    no_replica_is_taken_away,
    no_former_controller_resigns,
    no_former_controller_takes_a_shutdown,
    nobody_asks_the_next_controller,
)
