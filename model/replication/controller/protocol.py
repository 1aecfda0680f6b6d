"""The controller and one partition, with brokers that may do anything: every decision that it can come to.

The rules are the functions of this package; here they are put behind actions. Brokers come and go, the
leader asks for any ISR that the rules let it ask for, an operator elects, reassigns, and changes
min.insync.replicas. Logs are not modelled. What is known of them without looking at a log is: ``complete`` is
the set of replicas that hold every record that can have been committed.
"""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import Any

from highwater.model.language import (
    Array,
    Bool,
    Int,
    Number,
    Option,
    OptionValue,
    Parameter,
    Protocol,
    SeqValue,
    SetValue,
    State,
    Struct,
    StructValue,
    Truth,
    action,
    require,
    size,
    where,
)
from highwater.model.language.sequences import ascending
from highwater.model.replication.controller import (
    alter_partition,
    brokers,
    election_tasks,
    elections,
    eligible_leader_replicas,
    partition_change,
    reassignment,
    sessions,
    unclean_recovery,
)
from highwater.model.replication.controller.rules import PROFILES, RULES
from highwater.model.replication.controller.types import ElectionType, LeaderRecoveryState, Terms
from highwater.model.replication.high_watermark import gate_is_open
from highwater.model.rulebook import RULEBOOK


class Controller(Protocol):
    """One partition in the eyes of the controller, under every history of its brokers and its operator."""

    name = "replication.controller"
    rulebook = RULEBOOK
    parameters = {
        "brokers": Parameter(3, 1, 12, "brokers of the cluster"),
        "replication_factor": Parameter(3, 1, 5, "replicas of the partition, at most as many as brokers"),
        "min_isr": Parameter(2, 1, 5, "min.insync.replicas at the start"),
        "max_min_isr": Parameter(
            0, 0, 12, "the highest value that min.insync.replicas is changed to; 0: no changes"
        ),
        "reassignments": Parameter(0, 0, 1, "whether replicas are reassigned"),
        "unclean_election": Parameter(
            0,
            0,
            2,
            "unclean.leader.election.enable: 0 false, 1 true, 2 false until an operator sets it to true",
        ),
        "resumed_shutdowns": Parameter(
            0, 0, 1, "whether a fenced broker that was shutting down can be unfenced without a restart"
        ),
        "leads_elsewhere": Parameter(
            0, 0, 1, "whether brokers lead other partitions, so that each can start a controlled shutdown"
        ),
        "first_partition_replicas": Parameter(
            0,
            0,
            12,
            "the most replicas that another partition has by which min ISR goes; 0: it goes by this one's",
        ),
        "max_broker_epoch": Parameter(1, 0, 20, "registrations of a broker after the first"),
        "max_leader_epoch": Parameter(3, 0, 50, "the last leader epoch"),
        "max_partition_epoch": Parameter(4, 0, 50, "the last partition epoch"),
    }
    rules = RULES
    profiles = PROFILES

    def define(self) -> Struct:
        """Size the types, and enumerate what actions choose from."""
        p = self.p
        self.t = t = Terms(
            p.brokers,
            self.rules_on,
            p.max_broker_epoch,
            p.max_leader_epoch,
            p.max_partition_epoch,
            bounded=True,
        )
        self.broker, self.isr_choice = t.broker, t.brokers
        self.stale_choice = Option(t.broker)
        self.clean_choice = Bool
        self.election_choice = [ElectionType.PREFERRED] + [ElectionType.UNCLEAN] * (
            not self.on("unclean_recovery")
        )
        self.factor = min(p.replication_factor, p.brokers)
        self.min_isr_choice = range(1, p.max_min_isr + 1)
        return Struct(
            "State",
            registrations=Array(t.broker, t.registration),
            partition=t.partition,
            min_insync_replicas=Int(1, max(p.min_isr, p.max_min_isr)),
            unclean_election=Bool,
            # Of the topic's first partition; 0 where this is the first one.
            first_partition_replicas=Int(0, p.first_partition_replicas),
            # Not known to the controller: who holds every committed record, and whether fewer hold them than
            # min ISR because a member of ISR or ELR lost its log, or an operator chose so.
            complete=t.brokers,
            diminished=Bool,
        )

    @cached_property
    def target_choice(self) -> list[SeqValue]:
        """The lists of replicas that an operator may ask for."""
        targets = itertools.permutations(range(self.p.brokers), self.factor)
        return [self.t.replicas.lift(list(target)) for target in targets]

    def initial(self) -> list[dict[str, Any]]:
        """All brokers are up, the first replicas are the partition's, all in the ISR; the first one leads."""
        replicas = list(range(self.factor))
        broker = {"registered": True, "epoch": 0, "fenced": False, "in_controlled_shutdown": False}
        partition = self.t.initial_partition(replicas, replicas)
        return [
            {
                "registrations": [broker] * self.p.brokers,
                "partition": partition,
                "min_insync_replicas": self.p.min_isr,
                "unclean_election": self.p.unclean_election == 1,
                "first_partition_replicas": 0,
                "complete": replicas,
                "diminished": self.p.min_isr > self.factor,
            }
        ]

    # --- what the rules are asked with --------------------------------------------------------------

    def min_isr(self, s: State) -> Number:
        """966.2. The effective min ISR."""
        return eligible_leader_replicas.effective_min_isr(s.min_insync_replicas, s.partition.replicas.length)

    def controllers_min_isr(self, s: State) -> Number:
        """The effective min ISR that the controller reckons with.

        Kafka's goes by the replicas of the topic's first partition, which a reassignment can make differ.
        """
        of_first = eligible_leader_replicas.effective_min_isr(
            s.min_insync_replicas, s.first_partition_replicas
        )
        return where(s.first_partition_replicas > 0, of_first, self.min_isr(s))

    def unclean_election(self, s: State) -> Truth:
        """Whether the topic allows unclean election; with unclean recovery nobody is elected that way (966.13)."""
        return s.unclean_election & (not self.on("unclean_recovery"))

    def commits(self, partition: StructValue, min_insync_replicas: Number) -> Truth:
        """966.1. Whether the HWM may advance: there is a leader, and the ISR has min ISR members."""
        needed = eligible_leader_replicas.effective_min_isr(min_insync_replicas, partition.replicas.length)
        return partition.leader.is_some & gate_is_open(size(partition.isr), needed)

    def decide(
        self,
        s: State,
        record: StructValue,
        joining: SetValue | None = None,
        lost: SetValue | None = None,
        min_insync_replicas: Number | None = None,
        chosen: Truth | bool = False,
    ) -> None:
        """Append a record, and see what becomes of the logs.

        Who joins the ISR has fetched what the leader has. ``lost`` are brokers that lost their log. A leader from
        outside ISR and ELR starts a new history, in which only it holds everything. While the HWM may advance,
        only the ISR holds everything. ``chosen`` is an operator's choice to have fewer than min ISR.
        """
        old, nobody = s.partition, self.t.brokers.zero()
        new = partition_change.merge(self.t, old, record)
        joining = nobody if joining is None else joining & (new.isr - old.isr)
        lost = nobody if lost is None else lost
        setting = s.min_insync_replicas if min_insync_replicas is None else min_insync_replicas

        outside = new.leader.is_some & ~elections.is_clean(
            (elections.electable(old) - lost) | joining, new.leader
        )
        alone = nobody.with_(new.leader.value)
        complete = where(outside, alone, (s.complete | joining) - lost)
        commits = self.commits(new, setting)
        s.next.partition = new
        s.next.complete = where(commits, complete & new.isr, complete)
        hit = ~(elections.electable(old) & lost).is_empty
        enough = size(new.isr) >= eligible_leader_replicas.effective_min_isr(setting, new.replicas.length)
        s.next.diminished = ~enough & (s.diminished | hit | outside | chosen)

    # --- the leader -----------------------------------------------------------------------------------

    @action(
        "B7, 841.2, 903.4",
        says="the leader asks for ISR {isr}; stale broker epoch: {stale}",
        isr="isr_choice",
        stale="stale_choice",
    )
    def alter_partition(self, s: State, isr: SetValue, stale: OptionValue) -> None:
        """The leader proposes an ISR. It may know a member by the broker epoch that it had before it restarted."""
        t, partition = self.t, s.partition
        joins_stale = stale.is_some & isr.has(stale) & ~partition.isr.has(stale)
        require(
            "a stale broker epoch is that of a follower that joins and has restarted",
            stale.is_none | (joins_stale & (s.registrations[stale.value].epoch >= 1)),
        )
        members = ascending(isr, t.replicas)
        proposed = t.proposed_isr.zero()
        for position in range(t.replicas.maximum):
            member = members.at(position)
            epoch = s.registrations[member].epoch
            sent = where(stale.is_(member), epoch - 1, epoch)
            proposed = where(
                members.length > position, proposed.append(t.isr_member(broker=member, epoch=sent)), proposed
            )
        leader = partition.leader.value
        request = t.alter_partition(
            version=3,
            broker=leader,
            broker_epoch=s.registrations[leader].epoch,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr=proposed,
            leader_recovery_state=LeaderRecoveryState.RECOVERED,
        )
        require("there is a leader", partition.leader.is_some)
        require("everyone in the ISR is a replica", isr <= self.assigned(partition))
        alter_partition.alter_partition_checks(t, request, partition, s.registrations).require()
        record = alter_partition.alter_partition(
            t, request, partition, s.registrations, self.controllers_min_isr(s), self.unclean_election(s)
        )
        require("something changes", ~partition_change.is_empty_record(t, record))
        self.decide(s, record, joining=where(stale.is_some, isr.without(stale.value), isr))

    # --- brokers --------------------------------------------------------------------------------------

    def _about(self, s: State, broker: Number) -> tuple[Any, ...]:
        """What a rule about a broker is asked with."""
        settings = (self.controllers_min_isr(s), self.unclean_election(s))
        return (self.t, s.partition, s.registrations, broker, *settings)

    @action("966.5", says="broker {broker} is fenced", broker="broker")
    def fence(self, s: State, broker: Number) -> None:
        """A session ends, or a broker that leads nothing shuts down."""
        registration = s.registrations[broker]
        require("the broker is not fenced", ~registration.fenced)
        self.decide(s, brokers.on_fencing(*self._about(s, broker)))
        s.next.registrations[broker].fenced = True

    @action("966.5", says="broker {broker} is unfenced", broker="broker")
    def unfence(self, s: State, broker: Number) -> None:
        """A fenced broker has replayed its own registration. One that was shutting down has to restart first."""
        require("the broker is fenced", s.registrations[broker].fenced)
        if not self.p.resumed_shutdowns:
            require("the broker is not shutting down", ~s.registrations[broker].in_controlled_shutdown)
        self.decide(s, brokers.on_unfencing(*self._about(s, broker)))
        s.next.registrations[broker].fenced = False

    @action("841.5", says="broker {broker} starts a controlled shutdown", broker="broker")
    def start_controlled_shutdown(self, s: State, broker: Number) -> None:
        """A broker that leads asks to shut down; one that leads nothing is fenced at once."""
        registration = s.registrations[broker]
        require("the broker is not fenced", ~registration.fenced)
        require("the broker leads", s.partition.leader.is_(broker) | bool(self.p.leads_elsewhere))
        self.decide(s, brokers.on_fencing(*self._about(s, broker)))
        s.next.registrations[broker].in_controlled_shutdown = True

    @action(
        "966.5, 966.12",
        says="broker {broker} registers; clean: {clean}",
        broker="broker",
        clean="clean_choice",
    )
    def register(self, s: State, broker: Number, clean: Truth) -> None:
        """A broker restarts. After a clean shutdown it knows its broker epoch; else its log lost records."""
        t, registration = self.t, s.registrations[broker]
        previous = where(clean, registration.epoch, -1)
        seen_clean = brokers.is_clean_registration(t, registration, previous, Bool.lift(False))
        record = brokers.on_registration(
            t,
            s.partition,
            s.registrations,
            broker,
            seen_clean,
            Bool.lift(False),
            self.controllers_min_isr(s),
            self.unclean_election(s),
        )
        lost = t.brokers.zero().with_(broker)
        # A clean restart that counts as unclean takes a member out of ISR and ELR all the same.
        taken_out = ~seen_clean & (s.partition.isr | s.partition.elr).has(broker)
        self.decide(s, record, lost=where(clean, t.brokers.zero(), lost), chosen=taken_out)
        s.next.registrations[broker] = sessions.register(
            t, registration, Bool.lift(False), registration.epoch + 1
        )

    # --- elections ------------------------------------------------------------------------------------

    @action("966.17", says="a {election} election is asked for", election="election_choice")
    def elect_leader(self, s: State, election: Number) -> None:
        """An operator asks for an election."""
        elections.election_checks(s.partition, election).require()
        record = election_tasks.elect_leader(
            self.t, s.partition, s.registrations, election, self.controllers_min_isr(s)
        )
        require("something changes", ~partition_change.is_empty_record(self.t, record))
        self.decide(s, record)

    @action("966.15, 966.16", says="the controller looks for partitions that may elect uncleanly")
    def maybe_elect_unclean_leader(self, s: State) -> None:
        """The periodic task, where the topic allows unclean election."""
        record = election_tasks.maybe_elect_unclean_leader(
            self.t, s.partition, s.registrations, self.controllers_min_isr(s), self.unclean_election(s)
        )
        require("something changes", ~partition_change.is_empty_record(self.t, record))
        self.decide(s, record)

    @action("966.17", says="the controller balances leaders")
    def maybe_balance_leader(self, s: State) -> None:
        """The periodic task that makes preferred replicas leaders."""
        record = election_tasks.maybe_balance_leader(
            self.t, s.partition, s.registrations, self.controllers_min_isr(s)
        )
        require("something changes", ~partition_change.is_empty_record(self.t, record))
        self.decide(s, record)

    @action(
        "966.13, 966.14",
        rule="unclean_recovery",
        says="unclean recovery elects broker {winner}",
        winner="broker",
    )
    def recover_uncleanly(self, s: State, winner: Number) -> None:
        """The replicas have said how long their logs are. Unclean election enabled means Aggressive (966.16)."""
        require(
            "unclean recovery may elect",
            unclean_recovery.may_recover(self.t, s.partition, s.registrations, s.unclean_election),
        )
        record = unclean_recovery.recover(
            self.t, s.partition, s.registrations, winner, self.controllers_min_isr(s)
        )
        require("the winner is a live replica", ~partition_change.is_empty_record(self.t, record))
        self.decide(s, record)

    # --- the operator ---------------------------------------------------------------------------------

    @action("966.9", says="the partition is to have the replicas {target}", target="target_choice")
    def reassign(self, s: State, target: SeqValue) -> None:
        """An operator asks for other replicas."""
        require("replicas are reassigned", bool(self.p.reassignments))
        reassignment.reassignment_checks(self.t, target, s.registrations).require()
        record = reassignment.reassign(
            self.t, s.partition, target, s.registrations, self.controllers_min_isr(s)
        )
        require("something changes", ~partition_change.is_empty_record(self.t, record))
        self.decide(s, record, chosen=True)

    @action("966.9", says="the reassignment is cancelled")
    def cancel_reassignment(self, s: State) -> None:
        """An operator cancels a reassignment that has not completed."""
        require("replicas are reassigned", bool(self.p.reassignments))
        arguments = (self.controllers_min_isr(s), self.unclean_election(s))
        reassignment.cancellation_checks(self.t, s.partition, *arguments).require()
        self.decide(
            s,
            reassignment.cancel_reassignment(self.t, s.partition, s.registrations, *arguments),
            chosen=True,
        )

    @action("966.8", says="min.insync.replicas becomes {value}", value="min_isr_choice")
    def change_min_isr(self, s: State, value: int) -> None:
        """An operator changes min.insync.replicas."""
        require("the value is another one", s.min_insync_replicas != value)
        setting = s.min_insync_replicas.type.lift(value)
        needed = eligible_leader_replicas.effective_min_isr(setting, s.partition.replicas.length)
        record = eligible_leader_replicas.after_min_isr_change(self.t, s.partition, needed)
        self.decide(s, record, min_insync_replicas=setting, chosen=True)
        s.next.min_insync_replicas = value

    @action("966.16", says="unclean.leader.election.enable becomes true")
    def enable_unclean_election(self, s: State) -> None:
        """An operator gives availability precedence."""
        require("an operator may", self.p.unclean_election == 2)
        require("it is not enabled", ~s.unclean_election)
        s.next.unclean_election = True

    # --- for properties -------------------------------------------------------------------------------

    def assigned(self, partition: StructValue) -> SetValue:
        """The replicas of the partition, as a set."""
        return self.t.brokers.of(partition.replicas.has)

    def active(self, s: State) -> SetValue:
        """The brokers that are neither fenced nor shutting down."""
        return self.t.active(s.registrations)
