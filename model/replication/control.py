"""The controller: what it does by itself, for brokers' requests, and for the operator (B8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from highwater.model.language import State, action, require, spend, where
from highwater.model.language.values import Number, StructValue
from highwater.model.replication.cluster import Outcome
from highwater.model.replication.controller import (
    alter_partition,
    brokers,
    elections,
    reassignment,
    unclean_recovery,
)
from highwater.model.replication.controller.eligible_leader_replicas import (
    after_min_isr_change,
    effective_min_isr,
)
from highwater.model.replication.controller.partition_change import is_empty_record, merge, partition_change
from highwater.model.replication.controller.types import ElectionType, Error
from highwater.model.replication.leadership import Leadership


class Control(Leadership):
    """Actions of the controller."""

    def append(self, s: State, record: StructValue) -> StructValue:
        """The partition after a record; written."""
        partition = merge(self.t, s.partition, record)
        s.next.partition = partition
        return partition

    def on_broker(self, s: State, b: Number, rule: Callable[..., StructValue]) -> StructValue:
        """What a rule about a broker says for the state as it is."""
        return self.decided(
            s, lambda t: rule(t, s.partition, s.registrations, b, self.min_isr(s), self.unclean_allowed)
        )

    @action("966.5", says="the controller fences broker {b}", b="broker")
    def fence_broker(self, s: State, b: Number) -> None:
        """A broker's session ends: because it is down, or (a fault) although it runs."""
        require("the broker is not fenced", ~s.registrations[b].fenced)
        left, up = s.budgets.fencings, self.is_up(s.brokers[b])
        require("the broker is down, or the scenario grants fencings", ~up | (left > 0))
        s.next.budgets.fencings = where(up, left - 1, left)
        self.append(s, self.on_broker(s, b, brokers.on_fencing))
        s.next.registrations[b].fenced = True

    @action("841.4, 966.5", says="the controller unfences broker {b}", b="broker")
    def unfence_broker(self, s: State, b: Number) -> None:
        """A heartbeat of a broker that has replayed its own registration."""
        broker, registration = s.brokers[b], s.registrations[b]
        require("the broker is fenced", registration.fenced)
        require("the broker runs", broker.status == "RUNNING")
        require("the broker's epoch is the registered one", broker.epoch == registration.epoch)
        require("the broker has replayed its registration", broker.view.epochs[b] == registration.epoch)
        self.append(s, self.on_broker(s, b, brokers.on_unfencing))
        s.next.registrations[b].fenced = False

    @action(
        "841.2, 903.4", says="the controller takes broker {b}'s AlterPartition", b="broker", again="again"
    )
    def handle_alter_partition(self, s: State, b: Number, again: bool) -> None:
        """Checks in order; the first that fails is the answer. An answer to a stopped process is lost.

        With ``again`` the request will arrive a second time.
        """
        require("a request is under way", s.alter_requests[b].is_some)
        require("no answer is under way", s.alter_responses[b].is_none)
        t, sent = self.t, s.alter_requests[b].value
        members: Any = t.proposed_isr.zero()
        for member in self.broker:
            with_epoch = t.isr_member(broker=member, epoch=sent.epochs[member])
            members = where(sent.isr.has(member), members.append(with_epoch), members)
        request = t.alter_partition(
            version=3,
            broker=b,
            broker_epoch=sent.broker_epoch,
            leader_epoch=sent.leader_epoch,
            partition_epoch=sent.partition_epoch,
            new_isr=members,
            leader_recovery_state="RECOVERED",
        )
        checks = alter_partition.alter_partition_checks(t, request, s.partition, s.registrations)
        wanted = self.decided(
            s,
            lambda terms: alter_partition.alter_partition(
                terms, request, s.partition, s.registrations, self.min_isr(s), self.unclean_allowed
            ),
        )
        record = where(checks.passed, wanted, t.record.zero())
        error = where(checks.passed, alter_partition.alter_partition_error(request, record), checks.answer)
        partition = self.append(s, record)
        answer = self.answer_to(sent, error, partition)
        reaches = self.is_up(s.brokers[b]) & (s.brokers[b].epoch == sent.broker_epoch)
        s.next.alter_responses[b] = where(reaches, s.alter_responses.type.element.some(answer), None)
        if again:
            spend(s, "duplicates")
        else:
            s.next.alter_requests[b] = None

    def answer_to(self, sent: StructValue, error: Number, partition: StructValue) -> StructValue:
        """B8, 841.3. The answer to an AlterPartition, of the partition as it is after it.

        A change can end the leader epoch: a reassignment that completes does. Its answer is of the new one, which
        the sender does not know yet.
        """
        committed = error == Error.NONE
        outcome = where(error == Error.INELIGIBLE_REPLICA, Outcome.REVERT, Outcome.KEEP)
        return self.alter_response(
            leader_epoch=where(committed, partition.leader_epoch, sent.leader_epoch),
            outcome=where(committed, Outcome.COMMITTED, outcome),
            partition_epoch=partition.partition_epoch,
            isr=partition.isr,
        )

    def elect(self, s: State, election: Number) -> None:
        """An election of this kind, where it elects someone."""
        record = self.decided(
            s,
            lambda t: partition_change(t, s.partition, self.min_isr(s), t.active(s.registrations), election),
        )
        require("someone can be elected", ~is_empty_record(self.t, record))
        self.append(s, record)

    # --- the operator -----------------------------------------------------------------------------

    @action("966.17", says="the operator asks for the preferred leader")
    def elect_preferred_leader(self, s: State) -> None:
        """PREFERRED: the first replica, where it may lead."""
        spend(s, "elections")
        elections.election_checks(s.partition, ElectionType.PREFERRED).require()
        self.elect(s, ElectionType.PREFERRED)

    @action("966.17", says="the operator asks for an unclean election")
    def elect_uncleanly(self, s: State) -> None:
        """UNCLEAN: any live replica, where there is no leader. What it lacks is lost; the operator chose so."""
        spend(s, "elections")
        elections.election_checks(s.partition, ElectionType.UNCLEAN).require()
        if self.on("unclean_recovery"):
            require("unclean elections are done by recovery", False)
        self.elect(s, ElectionType.UNCLEAN)

    @action(
        "966.17", rule="unclean_recovery", says="the operator designates broker {b} as leader", b="broker"
    )
    def designate_leader(self, s: State, b: Number) -> None:
        """DESIGNATION: this live replica, where there is no leader."""
        spend(s, "elections")
        require("there is no leader", s.partition.leader.is_none)
        record = unclean_recovery.recover(self.t, s.partition, s.registrations, b, self.min_isr(s))
        require("the replica is live", ~is_empty_record(self.t, record))
        self.append(s, record)

    @action("966.8", says="min.insync.replicas becomes {value}", value="min_isr_values")
    def change_min_isr(self, s: State, value: int) -> None:
        """A change of min.insync.replicas."""
        spend(s, "min_isr_changes")
        require("it is another value", s.min_insync_replicas != value)
        s.next.min_insync_replicas = value
        effective = effective_min_isr(self.min_isr_config.lift(value), s.partition.replicas.length)
        self.append(s, self.decided(s, lambda t: after_min_isr_change(t, s.partition, effective)))

    @action("966.9", says="the operator reassigns the partition to {target}", target="targets")
    def reassign(self, s: State, target: Any) -> None:
        """A reassignment starts; it completes when the ISR allows it."""
        spend(s, "reassignments")
        reassignment.reassignment_checks(self.t, target, s.registrations).require()
        record = self.decided(
            s, lambda t: reassignment.reassign(t, s.partition, target, s.registrations, self.min_isr(s))
        )
        require("it changes something", ~is_empty_record(self.t, record))
        self.append(s, record)

    @action("966.9", says="the operator cancels the reassignment")
    def cancel_reassignment(self, s: State) -> None:
        """A reassignment that has not completed is taken back."""
        spend(s, "reassignments")
        unclean = self.unclean_allowed
        reassignment.cancellation_checks(self.t, s.partition, self.min_isr(s), unclean).require()
        record = self.decided(
            s,
            lambda t: reassignment.cancel_reassignment(
                t, s.partition, s.registrations, self.min_isr(s), unclean
            ),
        )
        self.append(s, record)

    @action("966.18", says="the metadata version is downgraded; the ELR feature ends")
    def downgrade(self, s: State) -> None:
        """The ELR fields are ignored from now on, and vanish with the next change of the partition."""
        spend(s, "downgrades")
        if self.p.downgrades:
            require("the ELR feature is on", s.elr_enabled)
            s.next.elr_enabled = False


__all__ = ["Control"]
