"""Followers fetch, leaders answer, the ISR grows and shrinks (B1 to B7)."""

from __future__ import annotations

from typing import Any

from highwater.model.language import Option, State, action, least, require, spend, where
from highwater.model.language.values import Number, StructValue, Truth
from highwater.model.replication import logs
from highwater.model.replication.cluster import Outcome
from highwater.model.replication.lifecycle import Lifecycle


class Fetching(Lifecycle):
    """Actions of followers and leaders."""

    @action("B1, 903.1", says="broker {f} sends a fetch", f="broker")
    def send_fetch(self, s: State, f: Number) -> None:
        """From its LEO, with its leader epoch, the epoch of its last record, and its broker epoch."""
        broker = s.brokers[f]
        old = s.fetch_requests[f]
        outdated = (old.value.broker_epoch != broker.epoch) | (
            old.value.leader_epoch != broker.view.leader_epoch
        )
        require("the broker follows a leader", self.follows(f, broker))
        require("no fetch of its own is under way", old.is_none | outdated)
        require("no answer is under way", s.fetch_responses[f].is_none)
        s.next.fetch_requests[f] = self.fetch_request(
            leader=broker.view.leader.value,
            leader_epoch=broker.view.leader_epoch,
            offset=broker.log.length,
            last_epoch=logs.last_epoch(self.some_epoch, broker.log),
            broker_epoch=broker.epoch,
        )
        if self.p.late_fetches:
            s.next.late_fetches[f] = where(old.is_some, old, s.late_fetches[f])

    @action("F1", says="a fetch that broker {f} sent before arrives late", f="broker")
    def receive_late_fetch(self, s: State, f: Number) -> None:
        """The sender has given it up, and has sent another one since, which has been answered."""
        if not self.p.late_fetches:
            require("fetches can be late", False)
            return
        require("a fetch that was given up is under way", s.late_fetches[f].is_some)
        require("no newer one is under way", s.fetch_requests[f].is_none)
        s.next.fetch_requests[f] = s.late_fetches[f]
        s.next.late_fetches[f] = None

    @action(
        "B2, B3, B4",
        says="leader {leader} answers the fetch of broker {f}",
        leader="broker",
        f="broker",
        again="again",
    )
    def answer_fetch(self, s: State, leader: Number, f: Number, again: bool) -> None:
        """The leader notes how far the follower is and sends the next record, or where the logs diverge.

        With ``again`` the fetch will arrive a second time.
        """
        request, broker = s.fetch_requests[f], s.brokers[leader]
        require("a fetch is under way", request.is_some)
        fetch = request.value
        require("it is for this broker", fetch.leader == leader)
        require("the broker takes itself for the leader", self.leads(leader, broker))
        if self.on("fetch_epoch_check"):
            require("the fetch is in the leader's epoch", fetch.leader_epoch == broker.view.leader_epoch)
        require("the sender is a replica", broker.view.replicas.has(f))
        require("no newer incarnation of the sender is known", ~self._is_stale(f, fetch, broker))
        require("no answer is under way", s.fetch_responses[f].is_none)
        diverging = self.t.brokers.zero().has(f)
        if self.on("divergence_check"):
            diverging = logs.diverges(broker.log, fetch.offset, fetch.last_epoch)
        end = logs.end_offset_for_epoch(broker.log, fetch.last_epoch.value)
        epoch = where(end > 0, self.some_epoch.some(logs.epoch_before(broker.log, end)), None)
        has_record = ~diverging & (broker.log.length > fetch.offset)
        record = self.fetch_response.fields["record"]
        before = broker.followers[f]
        extra: dict[str, Any] = {}
        if not self.on("re_election_forgets_fetches"):
            extra["in_epoch"] = True
        if self.on("hwm_waits_for_caught_up"):
            # By its second fetch it may have been where the leader's log ended at the first; then it counts.
            extra["caught_up"] = before.caught_up | before.leo.is_some | (fetch.offset >= broker.log.length)
        noted = broker.followers.set(
            f, self.fetch_state(leo=fetch.offset, broker_epoch=fetch.broker_epoch, **extra)
        )
        after = broker.replace(followers=where(diverging, broker.followers, noted))
        hwm = where(diverging, broker.hwm, self.advanced_hwm(leader, after))
        answer = self.fetch_response(
            leader_epoch=fetch.leader_epoch,
            offset=fetch.offset,
            diverging=diverging,
            record=where(has_record, record.some(broker.log[fetch.offset]), None),  # type: ignore[attr-defined]
            hwm=hwm,
            epoch=where(diverging, epoch, None),
            end=where(diverging, end, 0),
        )
        reaches = self.is_up(s.brokers[f]) & (s.brokers[f].epoch == fetch.broker_epoch)
        s.next.fetch_responses[f] = where(reaches, s.fetch_responses.type.element.some(answer), None)
        if again:
            spend(s, "duplicates")
        else:
            s.next.fetch_requests[f] = None
        self.settle(s, leader, after)

    def _is_stale(self, f: Number, fetch: StructValue, leader: StructValue) -> Truth:
        """Whether a leader knows by its metadata that a former incarnation sent a fetch."""
        if not self.on("stale_fetch_check"):
            return self.t.brokers.zero().has(f)
        return fetch.broker_epoch < leader.view.epochs[f]

    @action("B2", says="the fetch of broker {f} is refused", f="broker")
    def refuse_fetch(self, s: State, f: Number) -> None:
        """It came to a broker that is down, does not lead, is in another epoch, or knows of a newer incarnation."""
        request = s.fetch_requests[f]
        require("a fetch is under way", request.is_some)
        fetch = request.value
        leader = s.brokers[fetch.leader]
        leads = self.is_up(leader) & leader.view.leader.is_(fetch.leader) & leader.view.replicas.has(f)
        unusable = (
            ~leads | (leader.view.leader_epoch != fetch.leader_epoch) | self._is_stale(f, fetch, leader)
        )
        require("nobody there can use it", unusable)
        s.next.fetch_requests[f] = None

    @action("B3, B4", says="broker {f} takes the answer to its fetch", f="broker")
    def take_fetch_answer(self, s: State, f: Number) -> None:
        """The follower appends, or truncates; its HWM is the lesser of the leader's and its own LEO."""
        broker, response = s.brokers[f], s.fetch_responses[f]
        require("an answer is under way", response.is_some)
        answer = response.value
        current = self.follows(f, broker)
        if self.on("fetch_response_check"):
            current = current & (answer.leader_epoch == broker.view.leader_epoch)
            current = current & (answer.offset == broker.log.length)
        end = logs.truncation_offset(broker.log, answer.epoch, answer.end)
        appended = where(answer.record.is_some, broker.log.append(answer.record.value), broker.log)
        log = where(answer.diverging, broker.log.truncate(end), appended)
        hwm = least(where(answer.diverging, broker.hwm, answer.hwm), log.length)
        after = broker.replace(log=log, hwm=hwm, flushed=least(broker.flushed, log.length))
        s.next.brokers[f] = where(current, after, broker)
        s.next.fetch_responses[f] = None

    # --- the ISR ----------------------------------------------------------------------------------

    def member_epochs_in(self, leader: Number, broker: StructValue, isr: Any) -> Any:
        """903.3. The broker epoch that an AlterPartition gives each ISR member: that of its last fetch."""
        option = Option(self.broker_epoch)
        return self.member_epochs.lift(
            [
                where(
                    leader == b,
                    option.some(broker.epoch),
                    where(
                        isr.has(b) & broker.followers[b].leo.is_some,
                        option.some(broker.followers[b].broker_epoch),
                        option.none(),
                    ),
                )
                for b in self.broker
            ]
        )

    def propose(self, s: State, leader: Number, isr: Any, epochs: Any) -> None:
        """B7. Send an AlterPartition; one at a time."""
        broker = s.brokers[leader]
        require(
            "no AlterPartition is under way",
            s.alter_requests[leader].is_none & s.alter_responses[leader].is_none,
        )
        s.next.alter_requests[leader] = self.alter_request(
            leader_epoch=broker.view.leader_epoch,
            partition_epoch=broker.view.partition_epoch,
            broker_epoch=broker.epoch,
            isr=isr,
            epochs=epochs,
        )

    @action(
        "B5, 841.1, 903.2",
        says="leader {leader} proposes broker {f} for the ISR",
        leader="broker",
        f="broker",
    )
    def propose_expand(self, s: State, leader: Number, f: Number) -> None:
        """A follower has caught up. The proposed ISR counts for the HWM at once (B7)."""
        broker = s.brokers[leader]
        require("the broker takes itself for the leader", self.leads(leader, broker))
        require("nothing is proposed", broker.proposed.is_none)
        require("the follower is outside the ISR", (leader != f) & ~broker.view.isr.has(f))
        require("the follower is a replica", broker.view.replicas.has(f))
        require("the follower is eligible", self.is_eligible(leader, broker, f))
        isr = broker.view.isr.with_(f)
        epochs = self.member_epochs_in(leader, broker, isr)
        self.propose(s, leader, isr, epochs)
        self.settle(s, leader, broker.replace(proposed=isr, **self._only({"proposed_epochs": epochs})))

    @action(
        "B7", says="leader {leader} proposes to take broker {f} out of the ISR", leader="broker", f="broker"
    )
    def propose_shrink(self, s: State, leader: Number, f: Number) -> None:
        """A follower lags. The ISR counts as it is until the controller has answered (B7)."""
        broker = s.brokers[leader]
        require("the broker takes itself for the leader", self.leads(leader, broker))
        require("nothing is proposed", broker.proposed.is_none)
        require("the follower is in the ISR", (leader != f) & broker.view.isr.has(f))
        leo = broker.followers[f].leo
        require("the follower lags", leo.is_none | (leo.value < broker.log.length))
        spend(s, "shrinks")
        isr = broker.view.isr.without(f)
        epochs = self.member_epochs_in(leader, broker, isr)
        self.propose(s, leader, isr, epochs)
        followers = broker.followers
        if self.on("hwm_waits_for_caught_up"):
            followers = followers.set(f, followers[f].replace(caught_up=False))
        kept = self._only({"proposed_epochs": epochs})
        self.settle(s, leader, broker.replace(proposed=isr, followers=followers, **kept))

    @action("841.3, 903.3", says="leader {leader} sends its AlterPartition again", leader="broker")
    def retry_alter_partition(self, s: State, leader: Number) -> None:
        """A proposal without an answer, or with one that says nothing against it, is sent again."""
        broker = s.brokers[leader]
        require("the broker takes itself for the leader", self.leads(leader, broker))
        require("something is proposed", broker.proposed.is_some)
        isr = broker.proposed.value
        kept = "proposed_epochs" in self.broker_type.fields
        epochs = broker.proposed_epochs if kept else self.member_epochs_in(leader, broker, isr)
        self.propose(s, leader, isr, epochs)

    @action("841.3", says="leader {leader} takes the answer to its AlterPartition", leader="broker")
    def take_alter_answer(self, s: State, leader: Number) -> None:
        """Only in the same leader epoch, and while the proposal stands."""
        broker, response = s.brokers[leader], s.alter_responses[leader]
        require("an answer is under way", response.is_some)
        answer = response.value
        current = (
            self.leads(leader, broker)
            & (answer.leader_epoch == broker.view.leader_epoch)
            & broker.proposed.is_some
        )
        takes = (
            current
            & (answer.outcome == Outcome.COMMITTED)
            & (answer.partition_epoch >= broker.view.partition_epoch)
        )
        reverts = current & (answer.outcome == Outcome.REVERT)
        view = broker.view.replace(isr=answer.isr, partition_epoch=answer.partition_epoch)
        extra = {}
        if not self.on("proposal_outlives_known_metadata"):
            extra["ahead"] = broker.ahead | (takes & (answer.partition_epoch > broker.view.partition_epoch))
        s.next.alter_responses[leader] = None
        self.settle(
            s,
            leader,
            broker.replace(
                view=where(takes, view, broker.view),
                **self.proposal(broker, takes | reverts),
                **extra,
            ),
        )

    @action("F1", says="broker {b}'s AlterPartition, or its answer, is lost", b="broker")
    def lose_alter_partition(self, s: State, b: Number) -> None:
        """A fault."""
        require("one is under way", s.alter_requests[b].is_some | s.alter_responses[b].is_some)
        spend(s, "losses")
        s.next.alter_requests[b] = None
        s.next.alter_responses[b] = None


__all__ = ["Fetching"]
