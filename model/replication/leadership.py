"""A leader's own state: its high watermark, and what a newer piece of metadata makes of a broker."""

from __future__ import annotations

from typing import Any

from highwater.model.language import State, greatest, least, size, where
from highwater.model.language.values import Number, StructValue, Truth
from highwater.model.replication.cluster import Cluster
from highwater.model.replication.high_watermark import gate_is_open, has_caught_up


class Leadership(Cluster):
    """What happens within a broker, on whatever occasion."""

    def reachable_hwm(self, b: Number, broker: StructValue) -> Number:
        """B4, 966.1. How far a leader's HWM may go: the least LEO over its maximal ISR, if the gate is open."""
        waits_for = self.maximal_isr(broker) if self.on("hwm_over_maximal_isr") else broker.view.isr
        end: Any = broker.log.length
        for other in self.broker:
            fetched = broker.followers[other].leo
            leo = where(fetched.is_some, fetched.value, 0)
            waits = waits_for.has(other)
            if self.on("hwm_waits_for_caught_up"):
                state = broker.followers[other]
                eligible = broker.view.active.has(other) & (state.broker_epoch == broker.view.epochs[other])
                waits = waits | (
                    state.caught_up & eligible & fetched.is_some & broker.view.replicas.has(other)
                )
            end = where((other != b) & waits, least(end, leo), end)
        if not self.on("hwm_needs_min_isr"):
            return end
        counted = broker.view.isr if self.on("hwm_gate_is_committed_isr") else self.maximal_isr(broker)
        return where(gate_is_open(size(counted), self.min_isr_in(broker.view)), end, 0)

    def advanced_hwm(self, b: Number, broker: StructValue) -> Number:
        """B4. A leader's HWM once it has moved as far as it can; never back."""
        return greatest(broker.hwm, self.reachable_hwm(b, broker))

    def settle(self, s: State, b: Number, broker: StructValue) -> None:
        """Write a broker after a step. A leader's HWM moves as far as it can, never back (B4)."""
        hwm = where(self.leads(b, broker), self.advanced_hwm(b, broker), broker.hwm)
        s.next.brokers[b] = broker.replace(hwm=hwm)
        committed: Any = s.committed
        for offset in self.offsets:
            news = self.leads(b, broker) & (hwm > offset) & (committed.length == offset)
            committed = where(news, committed.append(broker.log.at(offset)), committed)
        s.next.committed = committed

    def with_metadata(
        self, b: Number, broker: StructValue, latest: StructValue, restarts: bool = False
    ) -> StructValue:
        """B8. A broker after it has replayed metadata.

        A leader's own view of the partition can be ahead, by an answer to its AlterPartition; then only what
        is about brokers and configuration is news.
        """
        old = broker.view
        if restarts:
            newer = new_epoch = self.t.brokers.zero().is_empty
        else:
            newer = latest.partition_epoch > old.partition_epoch
            new_epoch = latest.leader_epoch > old.leader_epoch
        behind = latest.replace(
            leader=old.leader,
            leader_epoch=old.leader_epoch,
            partition_epoch=old.partition_epoch,
            isr=old.isr,
            replicas=old.replicas,
        )
        view = where(newer, latest, behind)
        leads = view.leader.is_(b)
        starts = newer & new_epoch
        followers = self._followers_of(b, broker, view, leads, starts, restarts)
        forgets_proposal, extra = newer | ~leads, {}
        if not self.on("proposal_outlives_known_metadata"):
            repeated = broker.ahead & (latest.partition_epoch == old.partition_epoch)
            forgets_proposal = forgets_proposal | repeated
            extra["ahead"] = broker.ahead & ~newer & ~repeated
        log = broker.log
        if not self.on("divergence_check"):
            log = where(starts & ~leads & view.leader.is_some, log.truncate(broker.hwm), log)
        return broker.replace(
            view=view,
            log=log,
            flushed=least(broker.flushed, log.length),
            leso=where(leads, where(starts, log.length, broker.leso), 0),
            **self.proposal(broker, forgets_proposal),
            followers=followers,
            **extra,
        )

    def proposal(self, broker: StructValue, ends: Truth) -> dict[str, Any]:
        """What a leader has proposed and waits for, unless that ends."""
        kept = {"proposed": where(ends, None, broker.proposed)}
        if "proposed_epochs" in self.broker_type.fields:
            epochs = broker.proposed_epochs
            kept["proposed_epochs"] = where(ends, epochs.type.zero(), epochs)
        return kept

    def _followers_of(
        self,
        b: Number,
        broker: StructValue,
        view: StructValue,
        leads: Truth,
        starts: Truth,
        restarts: bool,
    ) -> Any:
        """B5. What a broker knows of its followers after it has replayed metadata: nothing, in a new leader epoch."""
        followers = broker.followers
        if not self.on("fetch_state_per_epoch"):
            return followers
        forgets = starts
        if not self.on("re_election_forgets_fetches"):
            if not restarts:
                forgets = starts & ~broker.view.leader.is_(b)
            kept = [f.replace(in_epoch=f.in_epoch & ~starts) for f in (followers[o] for o in self.broker)]
            followers = followers.type.lift(kept)
        followers = where(~leads | forgets, followers.type.zero(), followers)
        if self.on("hwm_waits_for_caught_up"):
            counted = [
                followers[o].replace(caught_up=where(starts, view.isr.has(o), followers[o].caught_up) & leads)
                for o in self.broker
            ]
            followers = followers.type.lift(counted)
        return followers

    def forget_messages(self, s: State, b: Number) -> None:
        """Answers that were on their way to a process that is gone reach nobody."""
        s.next.fetch_responses[b] = None
        s.next.alter_responses[b] = None
        if self.p.metadata_in_flight:
            s.next.metadata[b] = None

    def is_eligible(self, b: Number, broker: StructValue, follower: Number) -> Truth:
        """B5, 841.1, 903.2. Whether a leader may propose a follower for its ISR."""
        state, view = broker.followers[follower], broker.view
        leo = where(state.leo.is_some, state.leo.value, 0)
        eligible = state.leo.is_some
        if not self.on("re_election_forgets_fetches"):
            eligible = eligible & state.in_epoch
        rules = self.on("join_at_hwm"), self.on("join_at_epoch_start")
        eligible = eligible & has_caught_up(leo, broker.hwm, broker.leso, *rules)
        if self.on("proposed_replica_eligible_check"):
            eligible = eligible & view.active.has(follower)
        if self.on("proposed_broker_epoch_check"):
            eligible = eligible & (state.broker_epoch == view.epochs[follower])
        return eligible


__all__ = ["Leadership"]
