"""What messages come to, denied: fetches and AlterPartitions are given up, arrive late, and are refused."""

from __future__ import annotations

from collections.abc import Callable

from highwater.model.language import State, all_of, as_bool, implies
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import Number, StructValue, Truth
from highwater.model.replication import Replication


@step_property("B8, F1")
def no_proposal_arrives_late(m: Replication, before: State, after: State) -> Truth:
    """An AlterPartition that its leader has given up stays under way."""
    if not m.p.late_proposals:
        return as_bool(True)
    return all_of(
        implies(before.late_proposals[b].is_some, after.late_proposals[b].is_some) for b in m.broker
    )


@step_property("B7, B8")
def no_proposal_ends_by_known_metadata(m: Replication, before: State, after: State) -> Truth:
    """Who leads on, and hears neither news nor an answer, goes on waiting for its answer."""
    kept = []
    for b in m.broker:
        old, new = before.brokers[b], after.brokers[b]
        ended = old.proposed.is_some & new.proposed.is_none & (old.view == new.view)
        answered = before.alter_responses[b].is_some & after.alter_responses[b].is_none
        kept.append(~(ended & ~answered))
    return all_of(kept)


@step_property("F1")
def no_fetch_arrives_late(m: Replication, before: State, after: State) -> Truth:
    """A fetch that its sender has given up is never the one that is under way again."""
    if not m.p.late_fetches:
        return as_bool(True)
    kept = []
    for f in m.broker:
        late, new = before.late_fetches[f], after.fetch_requests[f]
        arrives = after.late_fetches[f].is_none & before.fetch_requests[f].is_none & (new == late)
        kept.append(~(late.is_some & arrives))
    return all_of(kept)


@step_property("B1")
def no_fetch_of_this_life_is_given_up(m: Replication, before: State, after: State) -> Truth:
    """Who fetches anew while a fetch is under way has restarted since: another leader epoch is no reason."""
    kept = []
    for f in m.broker:
        old, new = before.fetch_requests[f], after.fetch_requests[f]
        anew = old.is_some & new.is_some & (old != new)
        kept.append(~(anew & (old.value.broker_epoch == new.value.broker_epoch)))
    return all_of(kept)


_About = Callable[[Number, StructValue, StructValue], Truth]
"""What is said of a follower, its fetch, and the broker that it is for."""


def _nobody_is_refused(m: Replication, before: State, after: State, wrong: _About) -> Truth:
    """Whether no fetch goes unanswered and unnoted of which this is wrong."""
    kept = []
    for f in m.broker:
        request, fetch = before.fetch_requests[f], before.fetch_requests[f].value
        old, new = before.brokers[fetch.leader], after.brokers[fetch.leader]
        gone = request.is_some & after.fetch_requests[f].is_none
        unheard = gone & after.fetch_responses[f].is_none & (old == new)
        kept.append(~(unheard & wrong(f, fetch, old)))
    return all_of(kept)


def _leads_it(m: Replication, f: Number, fetch: StructValue, broker: StructValue) -> Truth:
    """Whether whom a fetch is for takes itself for the leader, and its sender for a replica."""
    return m.leads(fetch.leader, broker) & broker.view.replicas.has(f)


@step_property("B2")
def who_is_down_refuses_no_fetch(m: Replication, before: State, after: State) -> Truth:
    """A fetch for a broker that is down stays under way."""
    return _nobody_is_refused(m, before, after, lambda f, fetch, broker: ~m.is_up(broker))


@step_property("B2")
def no_fetch_of_a_former_epoch_is_refused(m: Replication, before: State, after: State) -> Truth:
    """Who takes itself for the leader refuses no fetch of an earlier leader epoch."""

    def is_former(f: Number, fetch: StructValue, broker: StructValue) -> Truth:
        return _leads_it(m, f, fetch, broker) & (fetch.leader_epoch < broker.view.leader_epoch)

    return _nobody_is_refused(m, before, after, is_former)


@step_property("B2")
def no_fetch_of_a_later_epoch_is_refused(m: Replication, before: State, after: State) -> Truth:
    """Who takes itself for the leader refuses no fetch of a leader epoch that it has not heard of."""

    def is_later(f: Number, fetch: StructValue, broker: StructValue) -> Truth:
        return _leads_it(m, f, fetch, broker) & (fetch.leader_epoch > broker.view.leader_epoch)

    return _nobody_is_refused(m, before, after, is_later)


@step_property("K2, 903.2")
def no_fetch_of_a_former_life_is_refused(m: Replication, before: State, after: State) -> Truth:
    """A leader refuses no fetch of its own epoch from a replica that has registered anew since."""

    def is_former(f: Number, fetch: StructValue, broker: StructValue) -> Truth:
        same = fetch.leader_epoch == broker.view.leader_epoch
        return _leads_it(m, f, fetch, broker) & same & (fetch.broker_epoch < broker.view.epochs[f])

    return _nobody_is_refused(m, before, after, is_former)


@step_property("B2, 966.9")
def no_fetch_of_a_new_replica_is_refused(m: Replication, before: State, after: State) -> Truth:
    """A leader refuses no fetch of its own epoch from a replica of which it has not heard that it is one."""

    def is_new(f: Number, fetch: StructValue, broker: StructValue) -> Truth:
        leads = m.leads(fetch.leader, broker) & (fetch.leader_epoch == broker.view.leader_epoch)
        return leads & ~broker.view.replicas.has(f)

    return _nobody_is_refused(m, before, after, is_new)


@step_property("K2, 903.2")
def no_fetch_of_a_former_life_counts(m: Replication, before: State, after: State) -> Truth:
    """A leader learns nothing of a replica that has registered anew by a fetch of its own epoch from before."""
    kept = []
    for f in m.broker:
        request, fetch = before.fetch_requests[f], before.fetch_requests[f].value
        old, new = before.brokers[fetch.leader], after.brokers[fetch.leader]
        taken = request.is_some & after.fetch_requests[f].is_none & (old.view == new.view)
        former = fetch.broker_epoch < old.view.epochs[f]
        kept.append(~(taken & former & (old.followers[f] != new.followers[f])))
    return all_of(kept)


DENIALS = (
    no_proposal_arrives_late,
    no_proposal_ends_by_known_metadata,
    no_fetch_arrives_late,
    no_fetch_of_this_life_is_given_up,
    who_is_down_refuses_no_fetch,
    no_fetch_of_a_former_epoch_is_refused,
    no_fetch_of_a_later_epoch_is_refused,
    no_fetch_of_a_former_life_is_refused,
    no_fetch_of_a_former_life_counts,
    no_fetch_of_a_new_replica_is_refused,
)
