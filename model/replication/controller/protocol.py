"""The controller and one partition, with arbitrary brokers: every decision that the controller can make.

The actions call this package's handlers. Brokers fail and return, the leader proposes any ISR that the rules allow,
and an operator elects, reassigns, and changes min.insync.replicas. The model has no logs: ``outlook`` records which
brokers have every committed record.
"""

from __future__ import annotations

from dataclasses import replace

from highwater.model.language import (
    Bool,
    Number,
    OptionValue,
    SeqValue,
    SetValue,
    State,
    StructValue,
    Truth,
    action,
    eventually_always,
    require,
    where,
)
from highwater.model.language.containers import ascending, mapped
from highwater.model.language.procedures import Procedure, ProcedureStep
from highwater.model.replication.controller import elections, handlers, outlook, recovery_steps, registrations
from highwater.model.replication.controller.partition_change import effective_min_isr, is_empty_record
from highwater.model.replication.controller.state import ControllerBase
from highwater.model.replication.controller.types import (
    ElectionType,
    Handled,
    LeaderRecoveryState,
    RecoveryStrategy,
)
from highwater.model.replication.drawing import CONTROLLER_DRAWING


@eventually_always("966.13")
def led_again(m: ControllerBase, s: State) -> Truth:
    """The operator takes all steps of the procedure, and from then on the partition has a leader."""
    return s.partition.leader.is_some


SHUT_OUT = Procedure(
    # Broker 0 is the ISR's only member, and down. The last known leader, broker 2, is no replica.
    start={
        "complete": [1],
        "diminished": True,
        "partition": {
            "replicas": [0, 1],
            "isr": [0],
            "leader": None,
            "last_known_leader": 2,
            "leader_epoch": 2,
            "partition_epoch": 3,
        },
        "registrations": {0: {"fenced": True}, 1: {"fenced": True}},
    },
    steps=(
        ProcedureStep("change_min_isr", {"value": 1}),
        ProcedureStep("change_min_isr", {"value": 2}),
        ProcedureStep("register", {"broker": 0, "clean": False}),
        ProcedureStep("unfence", {"broker": 0}),
        ProcedureStep("elect_leader", {"election": "UNCLEAN"}),
    ),
    result=led_again,
    without=("fence", "start_controlled_shutdown"),
)
"""The operator lowers min.insync.replicas and restores it, so that a shut-out broker can register and lead."""
PROCEDURES = {"shut_out": SHUT_OUT}


class Controller(ControllerBase):
    """One partition as the controller sees it, with arbitrary actions of brokers and the operator."""

    name = "replication.controller"
    modules = (recovery_steps,)
    drawing = CONTROLLER_DRAWING
    procedures = PROCEDURES

    # --- the leader -----------------------------------------------------------------------------------

    @action(
        "B7, 841.2, 903.4",
        says="the leader asks for ISR {isr}; stale broker epoch: {stale}",
        isr="isr_choice",
        stale="stale_choice",
    )
    def alter_partition(self, s: State, isr: SetValue, stale: OptionValue) -> None:
        """The leader proposes an ISR. The member ``stale``, if any, has its previous broker epoch in the request.

        Precondition: the stale member joins the ISR and has restarted.
        """
        joins_stale = stale.is_some & isr.has(stale) & ~s.partition.isr.has(stale)
        fits = stale.is_none | (joins_stale & (s.registrations[stale.value].epoch >= 1))
        require("a stale broker epoch is that of a follower that joins and has restarted", fits)
        require("there is a leader", s.partition.leader.is_some)
        if self.p.failovers > 1:
            require("the broker does not try to register", ~s.restarting.has(s.partition.leader.value))
        if self.on("offline_directory_check") and self.p.directories < 2:
            require("nobody joins from an offline directory", (isr & s.partition.offline) <= s.partition.isr)
        handled = handlers.alter_partition(self.context(s), self._proposal(s, isr, stale))
        handled.checks.require()
        require("something changes", ~is_empty_record(self.t, handled.record))
        joining = where(stale.is_some, isr.without(stale.value), isr)
        self.carry_out(s, replace(self.decision(s, handled.record), joining=joining))

    def _proposal(self, s: State, isr: SetValue, stale: OptionValue) -> StructValue:
        """The leader's AlterPartition for this ISR, with the previous broker epoch of the member ``stale``, if any."""
        t, partition, leader = self.t, s.partition, s.partition.leader.value

        def member(broker: Number) -> StructValue:
            epoch = s.registrations[broker].epoch
            return t.isr_member(broker=broker, epoch=where(stale.is_(broker), epoch - 1, epoch))

        return t.alter_partition(
            version=3,
            broker=leader,
            broker_epoch=s.registrations[leader].epoch,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr=mapped(ascending(isr, t.replicas), t.proposed_isr, member),
            leader_recovery_state=LeaderRecoveryState.RECOVERED,
        )

    # --- brokers --------------------------------------------------------------------------------------

    @action("966.5", says="broker {broker} is fenced", broker="broker")
    def fence(self, s: State, broker: Number) -> None:
        """The controller fences a broker: its session has ended, or it shuts down and leads nothing."""
        require("the broker is not fenced", ~s.registrations[broker].fenced)
        self._require_registered(s, broker)
        self._fence(s, broker)
        s.next.registrations[broker].fenced = True

    def _fence(self, s: State, broker: Number) -> None:
        """Remove a broker from the ISR and from leadership: it is fenced, or starts a controlled shutdown."""
        decision = self.decision(s, registrations.fence(self.context(s), broker).record)
        self.carry_out(s, replace(decision, live=decision.live - self._only(broker)))

    @action("966.5", says="broker {broker} is unfenced", broker="broker")
    def unfence(self, s: State, broker: Number) -> None:
        """The controller unfences a broker that has replayed its own registration.

        Unless ``resumed_shutdowns`` is set, a broker that was shutting down must restart first.
        """
        require("the broker is fenced", s.registrations[broker].fenced)
        self._require_up(s, broker)
        if not self.p.resumed_shutdowns:
            require("the broker is not shutting down", ~s.registrations[broker].in_controlled_shutdown)
        decision = self.decision(s, registrations.unfence(self.context(s), broker).record)
        self.carry_out(s, replace(decision, live=decision.live.with_(broker)))
        s.next.registrations[broker].fenced = False

    @action("841.5", says="broker {broker} starts a controlled shutdown", broker="broker")
    def start_controlled_shutdown(self, s: State, broker: Number) -> None:
        """A broker that leads a partition starts a controlled shutdown. A broker that leads none is fenced instead.

        Only a broker that has resumed, or whose controller has failed, can start a second one.
        """
        require("the broker is not fenced", ~s.registrations[broker].fenced)
        self._require_up(s, broker)
        if not (self.p.resumed_shutdowns or self.p.failovers):
            require("the broker is not shutting down", ~s.registrations[broker].in_controlled_shutdown)
        require("the broker leads", self.leads(s, broker))
        self._fence(s, broker)
        s.next.registrations[broker].in_controlled_shutdown = True

    @action(
        "966.5, 966.12",
        says="broker {broker} registers; clean: {clean}",
        broker="broker",
        clean="clean_choice",
    )
    def register(self, s: State, broker: Number, clean: Truth) -> None:
        """A broker restarts and registers. In this action, an unclean shutdown has always lost records.

        ``register_undamaged`` has the unclean shutdown that lost none.
        """
        self.restart(s, broker, clean, clean)

    @action(
        "K14",
        rule="registration_may_be_split",
        says="broker {broker} registers (clean: {clean}), and the controller fails before the registration is written",
        broker="broker",
        clean="clean_choice",
    )
    def register_in_part(self, s: State, broker: Number, clean: Truth) -> None:
        """The controller writes a registration's partition changes, and fails before it writes the registration (K14).

        The broker registers again.
        """
        require("the controller fails", bool(self.p.failovers))
        registration = self.registration(s, broker, clean)
        require("something changes", ~is_empty_record(self.t, registration.record))
        self._changes_of_registration(s, broker, clean, registration, online=self.t.brokers.zero())
        if self.p.failovers > 1:
            s.next.restarting = s.restarting.with_(broker)

    @action(
        "K13",
        rule="fenced_broker_has_session",
        says="the session of fenced broker {broker} ends",
        broker="broker",
    )
    def fence_again(self, s: State, broker: Number) -> None:
        """The controller fences a fenced broker again, because the session that its heartbeats started ends (K13)."""
        self._require_registered(s, broker)
        require("the broker is fenced", s.registrations[broker].fenced)
        self._fence(s, broker)

    def _require_up(self, s: State, broker: Number) -> None:
        """Require that the broker is registered and has no failed registration to repeat."""
        self._require_registered(s, broker)
        if self.p.failovers > 1:
            require("the broker does not try to register", ~s.restarting.has(broker))

    def _require_registered(self, s: State, broker: Number) -> None:
        if self.p.removals:
            require("the broker is registered", s.registrations[broker].registered)

    @action(
        "B8",
        rule="registration_leaves_isr",
        says="broker {broker} is removed from the cluster",
        broker="broker",
    )
    def unregister(self, s: State, broker: Number) -> None:
        """The operator unregisters a broker, which leaves the ISR.

        If it is in the ELR or enters the ELR by this change (966.4), it stays there until it registers again.
        """
        require("brokers are removed", self.p.removals)
        self._require_registered(s, broker)
        record = registrations.remove(self.context(s), broker).record
        by_index = registrations.elr_index_visits(self.t, s.elr_entries[broker], s.partition.elr.has(broker))
        visits = where(s.partition.isr.has(broker), 1, 0) + by_index
        record = where(visits > 0, record, self.t.record.zero())
        decision = self.decision(s, record, again=where(visits > 0, visits - 1, 0))
        live = decision.live - self._only(broker)
        self.carry_out(s, replace(decision, live=live, chosen=Bool.lift(True)))
        s.next.registrations[broker].registered = False
        s.next.registrations[broker].fenced = True
        s.next.registrations[broker].in_controlled_shutdown = False

    # --- log directories ------------------------------------------------------------------------------

    @action(
        "858.1",
        rule="offline_directory_check",
        says="the log directory with broker {broker}'s replica fails",
        broker="broker",
    )
    def lose_directory(self, s: State, broker: Number) -> None:
        """A broker reports that its replica's directory is offline (858.1).

        The model allows more than Kafka. If a broker has several directories, a replica that a reassignment has just
        added may have no directory yet. Kafka then changes the partition only once the broker assigns the replica to
        the lost directory, and that assignment also empties the ELR (K16). In the model this action does not wait for
        ``assign_directory``.
        """
        require("directories fail", bool(self.p.directories))
        self._require_up(s, broker)
        has_replica = self.assigned(s.partition).has(broker) & ~s.partition.offline.has(broker)
        require("the broker has a replica in a directory that is online", has_replica)
        decision = self.decision(s, registrations.remove(self.context(s), broker).record)
        self.carry_out(s, replace(decision, offline=self._only(broker)))

    @action(
        "858.1",
        rule="offline_directory_check",
        says="broker {broker} says that its replica is in another log directory",
        broker="broker",
    )
    def assign_directory(self, s: State, broker: Number) -> None:
        """A broker assigns its replica to another directory, which is online (858.1)."""
        require("replicas are assigned to directories", bool(self.p.directories))
        self._require_up(s, broker)
        require("the broker has a replica", self.assigned(s.partition).has(broker))
        if self.p.directories < 2:
            require("its directory is online", ~s.partition.offline.has(broker))
        epoch = s.registrations[broker].epoch
        handled = handlers.assign_directory(self.context(s), broker, epoch, changes=Bool.lift(True))
        decision = self.decision(s, handled.record)
        if self.p.directories > 1:
            decision = replace(decision, online=self._only(broker))
        self.carry_out(s, decision)

    # --- elections ------------------------------------------------------------------------------------

    @action("966.17", says="the operator requests a {election} election", election="election_choice")
    def elect_leader(self, s: State, election: Number) -> None:
        """The operator requests a PREFERRED or UNCLEAN election."""
        self._elect(s, handlers.elect_leader(self.context(s), election), election)

    @action("966.15, 966.16", says="the controller looks for partitions that may elect uncleanly")
    def maybe_elect_unclean_leader(self, s: State) -> None:
        """The periodic task elects a leader uncleanly if there is none and the topic allows it."""
        self._elect(s, handlers.maybe_elect_unclean_leader(self.context(s)))

    @action("966.17", says="the controller balances leaders")
    def maybe_balance_leader(self, s: State) -> None:
        """The periodic task starts a PREFERRED election if the preferred replica does not lead."""
        self._elect(s, handlers.maybe_balance_leader(self.context(s)), ElectionType.PREFERRED)

    def _elect(self, s: State, handled: Handled, election: Number | None = None) -> None:
        handled.checks.require()
        require("something changes", ~is_empty_record(self.t, handled.record))
        self.carry_out(s, replace(self.decision(s, handled.record), election=election))

    @action(
        "966.13, 966.14",
        rule="unclean_recovery",
        says="unclean recovery elects broker {winner}",
        winner="broker",
    )
    def recover_uncleanly(self, s: State, winner: Number) -> None:
        """The controller elects the replica with the best log among those that have answered (966.13, 966.14).

        Balanced: no last known ELR member has a better log than the winner. Aggressive: any live replica can win,
        because it may be the only one that has answered.
        """
        strategy = recovery_steps.strategy(self, s)
        may = elections.may_recover(self.t, s.partition, s.registrations, strategy)
        require("unclean recovery may elect", may)
        best = outlook.may_have_best_log(s.complete, winner, s.partition.last_known_elr)
        alone = strategy == RecoveryStrategy.AGGRESSIVE  # possibly only the winner has answered
        require("no replica that has answered has a better log", best | alone)
        recovery_steps.elect_from_outside(self, s, handlers.recover_uncleanly(self.context(s), winner))

    # --- the operator ---------------------------------------------------------------------------------

    @action("966.9", says="the partition is to have the replicas {target}", target="target_choice")
    def reassign(self, s: State, target: SeqValue) -> None:
        """The operator requests a reassignment to other replicas."""
        require("replicas are reassigned", self.p.reassignments)
        handled = handlers.reassign(self.context(s), target)
        handled.checks.require()
        require("something changes", ~is_empty_record(self.t, handled.record))
        self.carry_out(s, replace(self.decision(s, handled.record), chosen=Bool.lift(True)))

    @action("966.9", says="the reassignment is cancelled")
    def cancel_reassignment(self, s: State) -> None:
        """The operator cancels a reassignment in progress."""
        require("replicas are reassigned", self.p.reassignments)
        handled = handlers.cancel_reassignment(self.context(s))
        handled.checks.require()
        chosen = Bool.lift(not self.on("reassignment_needs_min_isr"))
        self.carry_out(s, replace(self.decision(s, handled.record), chosen=chosen))

    @action(
        "966.8",
        says="min.insync.replicas changes, the topic's or the cluster's; {value} is in force",
        value="min_isr_choice",
    )
    def change_min_isr(self, s: State, value: int) -> None:
        """The operator changes min.insync.replicas of the topic or the cluster.

        The effective value can stay the same (K7): the operator sets the cluster's value to what it is, or changes it
        while the topic has its own. If a topic's own value is set to what it is, Kafka writes no record. The change
        does not update the controller's index of ELR members.
        """
        if not self.on("min_isr_change_clears_elr"):
            require("the value is another one", s.min_insync_replicas != value)
        setting = s.min_insync_replicas.type.lift(value)
        needed = effective_min_isr(setting, s.partition.replicas.length)
        handled = handlers.change_min_isr(replace(self.context(s), min_isr=needed))
        decision = self.decision(s, handled.record)
        self.store(s, replace(decision, min_insync_replicas=setting, chosen=Bool.lift(True)))
        s.next.min_insync_replicas = value

    @action("966.16", says="unclean.leader.election.enable becomes true")
    def enable_unclean_election(self, s: State) -> None:
        """The operator enables unclean election."""
        require("an operator may", self.p.unclean_election == 2)
        require("it is not enabled", ~s.unclean_election)
        s.next.unclean_election = True

    @action("584.1", rule="leftover_elr_elects", says="eligible.leader.replicas.version goes down or up")
    def change_elr_level(self, s: State) -> None:
        """The operator changes eligible.leader.replicas.version: the ELR turns off or on.

        No partition changes, except with ``level_change_empties_elr``.
        """
        require("the level changes", bool(self.p.elr_changes))
        if self.p.elr_changes:
            led = s.partition.leader.is_some
            require("every partition has a leader", led, rule="level_changes_with_leader")
            if self.on("level_change_empties_elr"):
                handled = handlers.change_elr_level(self.context(s))
                self.carry_out(s, replace(self.decision(s, handled.record), chosen=Bool.lift(True)))
            s.next.elr_on = ~s.elr_on

    @action(
        "966.2",
        rule="min_isr_by_first_partition",
        says="the topic's first partition, which is another one, has {count} replicas",
        count="first_partition_choice",
    )
    def change_first_partition(self, s: State, count: int) -> None:
        """The operator changes the number of replicas of the topic's first partition.

        The number 0, with which every run starts, means that this partition is the first.
        """
        require("another number", s.first_partition_replicas != count)
        s.next.first_partition_replicas = count
