"""What the control plane must be able to reach: requests of two connections overtake each other; controllers resign."""

from __future__ import annotations

from collections.abc import Callable

from highwater.invariants.zookeeper_requests import left_out
from highwater.model.language import State, all_of, any_of, reachable
from highwater.model.language.values import StructValue, Truth
from highwater.model.zookeeper import ZooKeeperMode


def _overtakes(
    m: ZooKeeperMode, before: State, after: State, what: Callable[[StructValue, StructValue], Truth]
) -> Truth:
    """Whether a request arrives before one that was sent earlier: ``what`` is about that one, and the request."""
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
    """A request overtakes a request of the same controller that is meant for a former generation of the broker."""

    def former(ahead: StructValue, request: StructValue) -> Truth:
        same = (ahead.controller == request.controller) & ~ahead.late
        return same & (ahead.broker_epoch < request.broker_epoch)

    return _overtakes(m, before, after, former)


@reachable("380.2")
def a_late_copy_is_overtaken(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A request overtakes a late copy of another request of its controller to the same generation."""

    def late(ahead: StructValue, request: StructValue) -> Truth:
        same = (ahead.controller == request.controller) & (ahead.broker_epoch == request.broker_epoch)
        return same & ahead.late

    return _overtakes(m, before, after, late)


@reachable("380.2")
def a_replica_is_taken_away(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """The controller in office takes a replica away."""
    old, new = before.zookeeper.partition, after.zookeeper.partition
    decided = after.controllers[after.zookeeper.controller].leadership == m.leadership_of(new)
    return decided & ~(m.replicas(old) <= m.replicas(new))


@reachable("ZK4")
def a_former_controller_resigns(m: ZooKeeperMode, before: State, after: State) -> Truth:
    """A controller that lost its node resigns without a decision, and no broker comes or goes."""
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
    """A controller that lost its node takes a ControlledShutdown and stays active."""
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
    """A broker that shuts down asks another controller than the first one."""
    return any_of(
        (before.brokers[b].status == "SHUTTING_DOWN")
        & before.shutdown_requests[b].is_none
        & after.shutdown_requests[b].is_some
        & (after.shutdown_requests[b].value.recipient != 0)
        for b in m.broker
    )


REACHABLE = (
    a_former_controllers_request_is_overtaken,
    a_later_controllers_request_is_overtaken,
    a_former_generations_request_is_overtaken,
    a_late_copy_is_overtaken,
    a_replica_is_taken_away,
    a_former_controller_resigns,
    a_former_controller_takes_a_shutdown,
    a_broker_asks_the_next_controller,
)
