"""The parameters and state of the controller-only protocol, and how decisions change the state."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cached_property
from typing import Any

from highwater.model.language import (
    Array,
    Bool,
    Int,
    Number,
    Only,
    Option,
    Parameter,
    Protocol,
    SetValue,
    State,
    Struct,
    StructValue,
    Truth,
    all_of,
    any_of,
    require,
    size,
    where,
)
from highwater.model.replication.controller import outlook, registrations
from highwater.model.replication.controller.outlook import AbstractLogs, Decision, RegistrationEffect
from highwater.model.replication.controller.partition_change import effective_min_isr, merge
from highwater.model.replication.controller.rules import ELR_FEATURE, PROFILES, RULES
from highwater.model.replication.controller.types import (
    ControllerContext,
    ControllerTypes,
    ElectionType,
    EpochBounds,
    LeaderRecoveryState,
    RecoveryStrategy,
)
from highwater.model.rulebook import RULEBOOK


class ControllerBase(Protocol):
    """One partition as the controller sees it: parameters, state, and the effects of decisions on the state."""

    rulebook = RULEBOOK
    any_size = ("brokers", "max_min_isr")
    parameters = {
        "brokers": Parameter(3, 1, 12, "brokers of the cluster"),
        "replication_factor": Parameter(3, 1, 5, "replicas of the partition, at most as many as brokers"),
        "min_isr": Parameter(2, 1, 5, "min.insync.replicas at the start"),
        "max_min_isr": Parameter(
            0, 0, 12, "the highest value that min.insync.replicas is changed to; 0: no changes"
        ),
        "reassignments": Parameter.switch("whether replicas are reassigned"),
        "replication_factor_changes": Parameter.switch(
            "whether reassignments also change the number of replicas"
        ),
        "unclean_election": Parameter(
            0,
            0,
            2,
            "unclean.leader.election.enable: 0 false, 1 true, 2 false until an operator sets it to true",
        ),
        "strategy_changes": Parameter.switch(
            "whether an operator changes unclean.recovery.strategy, which begins as Balanced; else "
            "unclean.leader.election.enable determines the strategy (966.16)"
        ),
        "recovery_requests": Parameter.switch(
            "whether an operator asks for DESIGNATION and LONGEST_LOG elections, too (966.17)"
        ),
        "harmless_crashes": Parameter.switch(
            "whether a broker can lose nothing in an unclean shutdown; else it loses its log"
        ),
        "elections_on_request": Parameter.switch(
            "whether an operator requests elections; otherwise only the controller starts them",
            default=True,
        ),
        "resumed_shutdowns": Parameter.switch(
            "whether a fenced broker that was shutting down can be unfenced without a restart"
        ),
        "leads_elsewhere": Parameter.switch(
            "whether brokers lead other partitions, so that each can start a controlled shutdown"
        ),
        "first_partition_replicas": Parameter(
            0,
            0,
            12,
            "the most replicas of the topic's first partition, which determines min ISR; 0: this one is the first",
        ),
        "first_partition_changes": Parameter.switch(
            "whether the number of replicas of the first partition changes"
        ),
        "elr_changes": Parameter(
            0,
            0,
            2,
            "whether eligible.leader.replicas.version changes: 1: from 1 at the start; 2: from 0 at the start",
        ),
        "removals": Parameter.switch("whether brokers are removed from the cluster"),
        "directories": Parameter(
            0,
            0,
            2,
            "1: log directories fail, and replicas in online directories are assigned to others; 2: replicas in failed "
            "directories are assigned, too, and a leader may propose them for the ISR, which the controller accepts",
        ),
        "failovers": Parameter(
            0,
            0,
            2,
            "1: the controller fails in the middle of a registration; 2: then the broker repeats its registration, and "
            "takes part in nothing else until it is registered",
        ),
        "judged_elections": Parameter.switch("whether the state records needless changes of the leader"),
        "max_elr_entries": Parameter(2, 1, 5, "the most entries of a broker in the index of ELR members"),
        "max_broker_epoch": Parameter(1, 0, 20, "registrations of a broker after the first"),
        "max_leader_epoch": Parameter(3, 0, 50, "the last leader epoch"),
        "max_partition_epoch": Parameter(4, 0, 50, "the last partition epoch"),
    }
    rules = RULES
    profiles = PROFILES

    def define(self) -> Struct:
        """Define the type of the state, and the values that actions choose from."""
        p = self.p
        bounds = EpochBounds(p.max_broker_epoch, p.max_leader_epoch, p.max_partition_epoch)
        t = ControllerTypes(p.brokers, self.rules_on, bounds)
        self.t = t = t.under_any_features(ELR_FEATURE)
        self.broker, self.isr_choice = t.broker, t.brokers
        self.stale_choice = Option(t.broker)
        self.clean_choice = Bool
        asked_for = [ElectionType.PREFERRED] + [ElectionType.UNCLEAN] * (not self.on("unclean_recovery"))
        self.election_choice = asked_for if p.elections_on_request else []
        most = p.first_partition_replicas if p.first_partition_changes else 0
        self.first_partition_choice = range(1, most + 1)
        self.strategy_choice = RecoveryStrategy
        self.balanced = (True, False)
        self.min_isr_choice = range(1, p.max_min_isr + 1)
        entries = Int(0, p.max_elr_entries, bound="max_elr_entries")
        return Struct(
            "State",
            registrations=Array(t.broker, t.registration),
            partition=t.partition,
            min_insync_replicas=(
                Int(1, max(p.min_isr, p.max_min_isr)),
                "the topic's min.insync.replicas, in replicas",
            ),
            unclean_election=(Bool, "the topic's unclean.leader.election.enable"),
            first_partition_replicas=(
                Int(0, p.first_partition_replicas),
                "number of replicas of the topic's first partition; 0: this is the first",
            ),
            complete=(t.brokers, "brokers with every committed record; not known to the controller"),
            diminished=(
                Bool,
                "whether fewer than min ISR brokers have them because a member of ISR or ELR lost its log; not "
                "known to the controller",
            ),
            elr_entries=(
                Only(Array(t.broker, entries), self.has_index),
                "the controller's index: how often each broker is entered as an ELR member",
            ),
            elr_on=(
                Only(Bool, p.elr_changes > 0),
                "whether the feature eligible.leader.replicas.version is on",
            ),
            needless=(
                Only(Bool, p.judged_elections),
                "whether a leader changed needlessly; not known to the controller",
            ),
            restarting=(
                Only(t.brokers, p.failovers > 1),
                "brokers that restart and have not registered yet; not known to the controller",
            ),
            recovery_strategy=(
                Only(RecoveryStrategy, self.has_strategy),
                "effective unclean.recovery.strategy: the topic's own, else the cluster's",
            ),
            requested=(
                Only(Option(t.requested), p.recovery_requests),
                "the election that an operator requested in the last decision, if any, and its leader",
            ),
        )

    @property
    def has_index(self) -> bool:
        """True if the controller's index of ELR members can differ from the ELR; the state then contains the index."""
        return self.on("cleared_elr_stays_indexed")

    @property
    def has_strategy(self) -> bool:
        """True if an operator can set unclean.recovery.strategy independently of unclean.leader.election.enable."""
        return self.on("unclean_recovery") and self.p.strategy_changes

    @cached_property
    def factor(self) -> int:
        """The number of replicas at the start."""
        return min(self.p.replication_factor, self.p.brokers)

    @cached_property
    def target_choice(self) -> Any:
        """The replica lists that a reassignment can request: all, if the number of brokers is not known."""
        if self.t.replicas.over is not None:
            return self.t.replicas
        sizes = range(1, self.p.brokers + 1) if self.p.replication_factor_changes else (self.factor,)
        targets = (t for size in sizes for t in itertools.permutations(range(self.p.brokers), size))
        return [self.t.replicas.lift(list(target)) for target in targets]

    def initial(self) -> list[dict[str, Any]]:
        """One initial state: all brokers are up.

        The brokers with the lowest ids are the replicas and the ISR, and broker 0 leads. A field that is not given is
        zero.
        """
        replicas = list(range(self.factor))
        return [
            {
                "registrations": [{"registered": True}] * self.p.brokers,
                "partition": self.t.initial_partition(replicas, replicas),
                "min_insync_replicas": self.p.min_isr,
                "unclean_election": self.p.unclean_election == 1,
                "complete": replicas,
                "diminished": self.p.min_isr > self.factor,
                **({"elr_on": self.p.elr_changes == 1} if self.p.elr_changes else {}),
                **({"recovery_strategy": "BALANCED"} if self.has_strategy else {}),
            }
        ]

    def any_initial(self, s: State) -> Truth:
        """The initial states for any number of brokers and replicas, and any min ISR."""
        t, partition = self.t, s.partition
        replicas = self.assigned(partition)
        start = t.partition.zero().replace(
            replicas=partition.replicas,
            isr=replicas,
            leader=partition.replicas.at(0),
            leader_recovery_state=LeaderRecoveryState.RECOVERED,
        )
        up = t.registration.zero().replace(registered=True)
        is_up = all_of(s.registrations[b] == up for b in t.broker)
        is_known = (s.complete == replicas) & (s.diminished == (size(replicas) < s.min_insync_replicas))
        return (
            ~replicas.is_empty & (partition == start) & is_up & is_known & (s.first_partition_replicas == 0)
        )

    # --- the input of decisions ---------------------------------------------------------------------

    def min_isr(self, s: State) -> Number:
        """966.2. The partition's effective min ISR."""
        return effective_min_isr(s.min_insync_replicas, s.partition.replicas.length)

    def controllers_min_isr(self, s: State) -> Number:
        """966.2. The effective min ISR that the controller uses.

        Kafka's controller uses the replica count of the topic's first partition. After a reassignment that count can
        differ from this partition's.
        """
        of_first = effective_min_isr(s.min_insync_replicas, s.first_partition_replicas)
        return where(s.first_partition_replicas > 0, of_first, self.min_isr(s))

    def unclean_election(self, s: State) -> Truth:
        """True if the topic allows unclean election, and unclean recovery does not replace it (966.13)."""
        return s.unclean_election & (not self.on("unclean_recovery"))

    def context(self, s: State) -> ControllerContext:
        """The controller's state and configuration for a decision.

        If the level of eligible.leader.replicas.version can change, the rules depend on the current level.
        """
        on = self.t.under(self.t.rules)
        by_level = ((Bool.lift(True), self.t.without_elr()), (s.elr_on, on)) if self.p.elr_changes else ()
        return ControllerContext(
            self.t if by_level else on,
            s.partition,
            s.registrations,
            self.controllers_min_isr(s),
            self.unclean_election(s),
            by_level,
        )

    def leads(self, s: State, broker: Number) -> Truth:
        """True if a broker leads this partition or, with ``leads_elsewhere``, possibly another partition."""
        return s.partition.leader.is_(broker) | self.p.leads_elsewhere

    # --- the effects of decisions -------------------------------------------------------------------

    def decision(self, s: State, record: StructValue, again: Number | None = None) -> Decision:
        """The decision to write a record and to repeat it ``again`` times (None: never), without other effects."""
        if self.on("unassigned_candidate_fails"):
            require("no candidate for leader is a broker that is no replica", ~record.fails)
        new = merge(self.t, s.partition, record)
        for repetition in range(self.p.max_elr_entries if again is not None else 0):
            assert again is not None
            new = where(again > repetition, merge(self.t, new, record), new)
        nobody = self.t.brokers.zero()
        live = self.t.active(s.registrations)
        return Decision(
            old=s.partition,
            new=new,
            min_insync_replicas=s.min_insync_replicas,
            live=live,
            joining=nobody,
            lost=nobody,
            chosen=Bool.lift(False),
            offline=nobody,
            online=nobody,
        )

    def carry_out(self, s: State, decision: Decision) -> None:
        """Apply a decision to the partition, the ELR index, and the state that the controller does not know."""
        if self.has_index:
            self.index(s, decision.new)
        self.store(s, decision)

    def own_next(self, s: State) -> Any:
        """This partition's part of the next state. A protocol of several partitions overrides this."""
        return s.next

    def store(self, s: State, decision: Decision) -> None:
        """Apply a decision to everything except the index of ELR members."""
        if self.on("offline_directory_check"):
            decision = self._with_directories(decision)
        if self.p.judged_elections:
            self._judge(s, decision)
        self.own_next(s).partition = decision.new
        self._carry_logs(s, decision)
        if self.p.recovery_requests:
            self.own_next(s).requested = decision.requested

    def _with_directories(self, decision: Decision) -> Decision:
        """The decision with the offline replicas of its new partition updated; a removed replica is not offline."""
        offline = (decision.new.offline | decision.offline) - decision.online
        return replace(decision, new=decision.new.replace(offline=offline & self.assigned(decision.new)))

    def _judge(self, s: State, decision: Decision) -> None:
        """Record whether the decision changes the leader needlessly."""
        if self.on("offline_directory_check"):
            decision = replace(decision, live=decision.live - decision.new.offline)
        elr = where(self.elr_is_on(s), decision.old.elr, self.t.brokers.zero())
        self.own_next(s).needless = s.needless | outlook.is_needless(self.t, decision, elr)

    def _carry_logs(self, s: State, decision: Decision) -> None:
        """Record the brokers that hold every committed record after the decision (966.6)."""
        before = AbstractLogs(s.complete, s.diminished)
        if self.p.elr_changes:  # by turning the ELR off, the operator accepts an empty ELR
            decision = replace(decision, chosen=decision.chosen | ~self.elr_is_on(s))
        after = outlook.after_decision(self.t, before, decision)
        holding = after.complete
        if self.p.elr_changes:
            holding = where(self.elr_is_on(s), holding, outlook.without_promise(decision.new, holding))
        self.own_next(s).complete = holding
        self.own_next(s).diminished = after.diminished

    def index(self, s: State, new: StructValue) -> None:
        """Update the index of ELR members for the change to ``new``.

        Entries that go astray (``elr_index_entries``) move to the topic's first partition. If this partition is not the
        first, the entries leave this partition's part of the index.
        """
        for b in self.t.broker:
            was_member, is_member = s.partition.elr.has(b), new.elr.has(b)
            own, astray = registrations.elr_index_entries(s.elr_entries[b], was_member, is_member)
            if self.p.first_partition_replicas:
                astray = where(s.first_partition_replicas > 0, 0, astray)
            self.own_next(s).elr_entries[b] = own + astray

    def _only(self, broker: Number) -> SetValue:
        return self.t.brokers.zero().with_(broker)

    def restart(self, s: State, broker: Number, clean: Truth, whole: Truth) -> None:
        """A broker registers after a clean or unclean shutdown; ``whole`` is true if it lost no record."""
        self._changes_of_registration(
            s, broker, whole, self.registration(s, broker, clean), online=self._only(broker)
        )
        s.next.registrations[broker] = registrations.registration_after(
            self.t, s.registrations[broker], Bool.lift(False), s.registrations[broker].epoch + 1
        )
        if self.p.failovers > 1:
            s.next.restarting = s.restarting.without(broker)

    def registration(self, s: State, broker: Number, clean: Truth) -> RegistrationEffect:
        """The effect that a broker's registration after a clean or unclean shutdown has on the partition."""
        t, registration, now = self.t, s.registrations[broker], self.context(s)
        previous = where(clean, registration.epoch, -1)
        counts_as_clean = registrations.is_clean_registration(t, registration, previous, Bool.lift(False))
        record = registrations.register(now, broker, previous).record
        if not self.has_index:
            return RegistrationEffect(record, None, counts_as_clean)
        as_fenced = counts_as_clean | now.decided(lambda by: Bool.lift(registrations.treats_as_fenced(by.t)))
        by_index = registrations.elr_index_visits(t, s.elr_entries[broker], s.partition.elr.has(broker))
        visits = where(s.partition.isr.has(broker), 1, 0) + where(as_fenced, 0, by_index)
        return RegistrationEffect(
            where(visits > 0, record, t.record.zero()), where(visits > 0, visits - 1, 0), counts_as_clean
        )

    def _changes_of_registration(
        self, s: State, broker: Number, whole: Truth, registration: RegistrationEffect, online: SetValue
    ) -> None:
        """Apply the partition change that a registration causes (966.5).

        ``whole`` is true if the broker lost no record. ``online`` has the brokers whose directory goes online. It is
        empty if the controller fails before it stores the registration (K14).
        """
        decision = self.decision(s, registration.record, registration.again)
        # A clean restart that is treated as unclean also removes a member from ISR and ELR.
        taken_out = ~registration.counts_as_clean & (s.partition.isr | s.partition.elr).has(broker)
        decision = replace(
            decision,
            live=decision.live - self._only(broker),
            lost=where(whole, self.t.brokers.zero(), self._only(broker)),
            online=online,
            chosen=taken_out,
        )
        self.carry_out(s, decision)

    # --- for properties -------------------------------------------------------------------------------

    def assigned(self, partition: StructValue) -> SetValue:
        """The partition's replicas as a set."""
        return self.t.brokers.of(partition.replicas.has)

    def active(self, s: State) -> SetValue:
        """The brokers that are unfenced and not in controlled shutdown."""
        return self.t.active(s.registrations)

    def elr_is_on(self, s: State) -> Truth:
        """True if the ELR is on: eligible.leader.replicas.version is above 0, and the rules have an ELR."""
        on = Bool.lift(self.on("eligible_leader_replicas"))
        return on & s.elr_on if self.p.elr_changes else on

    def comes_back(self, s: State, broker: Number) -> Truth:
        """True if the controller can fence a broker, register it after a crash, and unfence it, without failing."""
        now = self.context(s)
        decisions = (
            registrations.fence(now, broker).record,
            registrations.unfence(now, broker).record,
            self.registration(s, broker, Bool.lift(False)).record,
        )
        return ~any_of(record.fails for record in decisions)
