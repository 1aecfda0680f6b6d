"""A partition while an operator carries out a plan: the steps of the plan, faults, and what happens without either.

The controller's decisions are those of ``protocol.py``. This module adds the processes of the brokers, which decide who
registers after which kind of shutdown, and limits the rest: the plan's steps are taken in their order, faults have a
budget, and everything else happens whenever it can. The plan is a part of the state, so plans and partitions that
differ are different initial states of one model.

Epochs stay 0: every request here has the current epochs.
"""

from __future__ import annotations

from dataclasses import replace

from highwater.model.language import (
    Action,
    Array,
    Bool,
    Enum,
    Index,
    Int,
    Number,
    Parameter,
    SetValue,
    State,
    Struct,
    StructValue,
    Truth,
    action,
    all_of,
    any_of,
    require,
    size,
    when,
    where,
)
from highwater.model.replication.controller import handlers, outlook, registrations
from highwater.model.replication.controller.outlook import AbstractLogs, Decision
from highwater.model.replication.controller.partition_change import is_empty_record
from highwater.model.replication.controller.protocol import Controller
from highwater.model.replication.controller.types import ElectionType, Handled

Process = Enum("Process", "UP SLOW STOPPING STOPPED KILLED DAMAGED DOWN")
"""A broker's process. SLOW: it is paused, or lags. STOPPING: it shuts down cleanly. STOPPED: it has. KILLED: it ended
uncleanly, with its log whole. DAMAGED: it ended uncleanly, and its log lacks records. DOWN: the controller has fenced
it, for an unknown reason."""

_RUNS = (Process.UP, Process.SLOW)

StepKind = Enum(
    "StepKind",
    "STOP KILL AWAIT_RETURN AWAIT_ISR SET_MIN_ISR SET_UNCLEAN_ELECTION REASSIGN FIRST_PARTITION CANCEL_REASSIGNMENT "
    "ELECT_PREFERRED ELECT_UNCLEAN CHANGE_ELR_LEVEL UNREGISTER REMOVE_DIRECTORY",
)
"""The kinds of a plan's steps. AWAIT_RETURN waits until a broker is unfenced, AWAIT_ISR until it is in the ISR."""


class Planned(Controller):
    """One partition, the brokers of its replicas, and the plan of an operator."""

    name = "replication.plan"
    parameters = {
        **Controller.parameters,
        "steps": Parameter(2, 1, 64, "the most steps of a plan"),
        "faults": Parameter(1, 0, 4, "the most faults"),
        "partitions": Parameter(1, 1, 1 << 20, "partitions that are explored side by side"),
    }

    def define(self) -> Struct:
        """Define the state: the controller's, the processes of brokers, the plan, and what has happened."""
        base = super().define()
        self.step_type = Struct(
            "PlanStep", kind=StepKind, broker=self.broker, value=Int(0, self.parameters["brokers"].high)
        )
        return Struct(
            "State",
            **base.declared_fields,
            process=(Array(self.broker, Process), "the process of each broker; not known to the controller"),
            returning=(self.t.brokers, "brokers that start again after they have stopped"),
            plan=(Array(Index("step", self.p.steps), self.step_type), "the steps of the plan"),
            length=(Int(0, self.p.steps), "how many steps the plan has"),
            taken=(Int(0, self.p.steps), "how many steps of the plan are taken"),
            target=(self.t.replicas, "the replicas to which the plan reassigns the partition"),
            faults_left=(Int(0, self.p.faults), "how many more faults can happen"),
            lost=(Bool, "whether a leader was elected that lacks committed records"),
            unclean=(Bool, "whether a leader was elected from outside ISR and ELR"),
            number=(Int(0, self.p.partitions - 1), "the number of the partition"),
        )

    @classmethod
    def actions(cls) -> list[Action]:
        """The actions of this class; those of the controller happen only through them."""
        return [value for value in vars(cls).values() if isinstance(value, Action)]

    # --- the controller's effects ---------------------------------------------------------------------

    def decision(self, s: State, record: StructValue, again: Number | None = None) -> Decision:
        """The decision to write a record; the epochs of the partition stay 0."""
        found = super().decision(s, record, again)
        return replace(found, new=found.new.replace(leader_epoch=0, partition_epoch=0))

    def store(self, s: State, decision: Decision) -> None:
        """Apply a decision, and record what it loses."""
        super().store(s, decision)
        logs = AbstractLogs(s.complete, s.diminished)
        s.next.lost = s.lost | outlook.loses_records(logs, decision)
        s.next.unclean = s.unclean | outlook.is_unclean(decision)

    def _carry_logs(self, s: State, decision: Decision) -> None:
        """Record the brokers with complete logs, also while the ELR is off. ``diminished`` depends on the ISR alone."""
        decision = replace(decision, chosen=Bool.lift(True))
        after = outlook.after_decision(self.t, AbstractLogs(s.complete, s.diminished), decision)
        s.next.complete, s.next.diminished = after.complete, after.diminished

    # --- brokers and their processes --------------------------------------------------------------------

    def _is(self, s: State, broker: Number, *processes: Number) -> Truth:
        return any_of(s.process[broker] == process for process in processes)

    def _require_process(self, s: State, broker: Number, *processes: Number) -> None:
        require("no record is lost yet", ~s.lost)
        require("the process is in this state", self._is(s, broker, *processes))

    def _take_fault(self, s: State) -> None:
        require("a fault can happen", s.faults_left > 0)
        s.next.faults_left = s.faults_left - 1

    @action("966.5", says="the controller fences broker {broker}", broker="broker")
    def fence(self, s: State, broker: Number) -> None:
        """The session of a broker ends that has stopped, may stop, or sends no heartbeats because it is slow."""
        gone = Process.STOPPED, Process.KILLED, Process.DAMAGED
        self._require_process(s, broker, Process.SLOW, Process.STOPPING, *gone)
        super().fence(s, broker)
        s.next.process[broker] = where(
            self._is(s, broker, Process.STOPPING), Process.STOPPED, s.process[broker]
        )

    @action("841.5", says="broker {broker} starts a controlled shutdown", broker="broker")
    def start_controlled_shutdown(self, s: State, broker: Number) -> None:
        """The controller moves the leaderships of a broker that shuts down."""
        self._require_process(s, broker, Process.STOPPING)
        super().start_controlled_shutdown(s, broker)

    @action(
        "966.5, 966.12",
        says="broker {broker} starts again, clean: {clean}",
        broker="broker",
        clean="clean_choice",
    )
    def register(self, s: State, broker: Number, clean: Truth) -> None:
        """A broker starts again and registers. Its log is whole unless the process was DAMAGED."""
        self._require_starts(s, broker, clean)
        self._register(s, broker, clean, self._only(broker))
        s.next.registrations[broker] = registrations.registration_after(
            self.t, s.registrations[broker], Bool.lift(False), s.registrations[broker].epoch
        )
        s.next.process[broker] = Process.UP

    def _register(self, s: State, broker: Number, clean: Truth, online: SetValue) -> None:
        whole = ~self._is(s, broker, Process.DAMAGED)
        self._changes_of_registration(s, broker, whole, self.registration(s, broker, clean), online)

    def _require_starts(self, s: State, broker: Number, clean: Truth) -> None:
        require("no record is lost yet", ~s.lost)
        require("the broker starts again", s.returning.has(broker))
        require("its former session has ended", s.registrations[broker].fenced)
        cleanly = self._is(s, broker, Process.STOPPED, Process.DOWN)
        uncleanly = self._is(s, broker, Process.KILLED, Process.DAMAGED, Process.DOWN)
        require("so ended its process", where(clean, cleanly, uncleanly))

    @action("966.5", says="broker {broker} is unfenced", broker="broker")
    def unfence(self, s: State, broker: Number) -> None:
        """The controller unfences a broker that runs."""
        self._require_process(s, broker, *_RUNS, Process.DOWN)
        require("the broker runs", s.returning.has(broker) | self._is(s, broker, *_RUNS))
        super().unfence(s, broker)
        s.next.process[broker] = Process.UP

    # --- the leader and the controller's tasks ------------------------------------------------------------

    def _propose(self, s: State, isr: SetValue) -> None:
        self._require_process(s, s.partition.leader.value, *_RUNS, Process.STOPPING)
        self.alter_partition(s, isr=isr, stale=self.stale_choice.none())

    @action("B7, 841.2", says="broker {broker} has caught up and joins the ISR", broker="broker")
    def join(self, s: State, broker: Number) -> None:
        """The leader adds a follower to the ISR that has fetched the leader's whole log."""
        require("the follower is outside the ISR", ~s.partition.isr.has(broker))
        require("the follower runs", self._is(s, broker, *_RUNS))
        self._propose(s, s.partition.isr.with_(broker))
        s.next.process[broker] = Process.UP

    @action("B7", says="the leader removes broker {broker} from the ISR", broker="broker")
    def drop(self, s: State, broker: Number) -> None:
        """The leader removes a follower from the ISR that has ended, or is slow."""
        require("the follower does not keep up", self._lagging(s).has(broker))
        self._propose(s, s.partition.isr.without(broker))

    @action("B7", says="the leader removes several followers from the ISR")
    def drop_all(self, s: State) -> None:
        """The leader removes all followers from the ISR that have ended or are slow, by one AlterPartition."""
        require("several do not keep up", size(self._lagging(s)) > 1)
        self._propose(s, s.partition.isr - self._lagging(s))

    def _lagging(self, s: State) -> SetValue:
        """The ISR members, without the leader, that do not keep up with it."""
        found = self.t.brokers.of(lambda b: s.partition.isr.has(b) & ~self._is(s, b, Process.UP))
        return found.without(s.partition.leader.value)

    @action("966.15, 966.16", says="the controller elects uncleanly, because the topic allows it")
    def maybe_elect_unclean_leader(self, s: State) -> None:
        """The controller's task elects a leader uncleanly."""
        require("no record is lost yet", ~s.lost)
        super().maybe_elect_unclean_leader(s)

    @action("966.17", says="the controller makes the preferred replica leader")
    def maybe_balance_leader(self, s: State) -> None:
        """The controller's task balances leaders."""
        require("no record is lost yet", ~s.lost)
        super().maybe_balance_leader(s)

    @action(
        "966.13, 966.14",
        rule="unclean_recovery",
        says="unclean recovery elects broker {winner}",
        winner="broker",
    )
    def recover_uncleanly(self, s: State, winner: Number) -> None:
        """The controller elects the replica with the best log."""
        require("no record is lost yet", ~s.lost)
        super().recover_uncleanly(s, winner=winner)

    @action(
        "858.1",
        rule="assignment_empties_elr",
        says="broker {broker} assigns its new replica to a log directory",
        broker="broker",
    )
    def assign_directory(self, s: State, broker: Number) -> None:
        """A broker with several directories assigns a replica to one that a reassignment has just added (K16)."""
        self._require_process(s, broker, Process.UP)
        require("the replica is new", s.partition.adding.has(broker))
        super().assign_directory(s, broker)

    # --- faults -------------------------------------------------------------------------------------------

    @action("966.12", says="FAULT: broker {broker} is killed", broker="broker")
    def crash(self, s: State, broker: Number) -> None:
        """A broker's process ends uncleanly. Its log stays whole, but the controller cannot know that."""
        self._require_process(s, broker, *_RUNS, Process.STOPPING)
        self._take_fault(s)
        s.next.process[broker] = Process.KILLED

    @action("966.12", says="FAULT: broker {broker} ends, and its log lacks records", broker="broker")
    def lose_log(self, s: State, broker: Number) -> None:
        """A machine or a disk fails: the broker starts again without the end of its log, or without the log."""
        require("no record is lost yet", ~s.lost)
        require("its log is whole", ~self._is(s, broker, Process.DAMAGED))
        self._take_fault(s)
        s.next.process[broker] = Process.DAMAGED

    @action("B7", says="FAULT: broker {broker} is slow", broker="broker")
    def slow_down(self, s: State, broker: Number) -> None:
        """A broker is paused or slow: it can leave the ISR, and its session can end."""
        self._require_process(s, broker, Process.UP)
        self._take_fault(s)
        s.next.process[broker] = Process.SLOW

    @action(
        "858.1",
        rule="offline_directory_check",
        says="FAULT: the log directory of broker {broker}'s replica fails",
        broker="broker",
    )
    def fail_directory(self, s: State, broker: Number) -> None:
        """A log directory fails: its replicas go offline, and do not come back by themselves."""
        self._require_process(s, broker, *_RUNS)
        self._take_fault(s)
        self.lose_directory(s, broker)

    @action(
        "K14",
        rule="registration_may_be_split",
        says="FAULT: the controller fails while broker {broker} registers, clean: {clean}",
        broker="broker",
        clean="clean_choice",
    )
    def register_in_part(self, s: State, broker: Number, clean: Truth) -> None:
        """The controller fails over in the middle of a registration, which the broker repeats."""
        self._require_starts(s, broker, clean)
        self._take_fault(s)
        self._register(s, broker, clean, self.t.brokers.zero())

    # --- the plan -------------------------------------------------------------------------------------------

    def plan_is_done(self, s: State) -> Truth:
        """True if all steps of the plan are taken."""
        return s.taken == s.length

    def _take_step(self, s: State, *kinds: Number, broker: Number | None = None) -> StructValue:
        """Require that a step of one of these kinds is next, and take it. Returns the step."""
        require("no record is lost yet", ~s.lost)
        require("a step is left", s.taken < s.length)
        step = s.plan[where(s.taken < s.length, s.taken, 0)]
        require("such a step is next", any_of(step.kind == kind for kind in kinds))
        if broker is not None:
            require("it is about this broker", step.broker == broker)
        s.next.taken = s.taken + 1
        return step

    @action("841.5", says="PLAN: broker {broker} is stopped, if it runs", broker="broker")
    def stop(self, s: State, broker: Number) -> None:
        """The operator stops a broker cleanly. ``value`` 0: it stays away. A broker that is down already stays so."""
        step = self._take_step(s, StepKind.STOP, broker=broker)
        stopped = where(s.registrations[broker].fenced, Process.STOPPED, Process.STOPPING)
        up = self._is(s, broker, *_RUNS)
        s.next.process[broker] = where(up, stopped, s.process[broker])
        s.next.returning = where(step.value == 0, s.returning.without(broker), s.returning)

    @action("966.12", says="PLAN: broker {broker} is killed, if it runs", broker="broker")
    def kill(self, s: State, broker: Number) -> None:
        """The operator ends a broker's process uncleanly."""
        self._take_step(s, StepKind.KILL, broker=broker)
        up = self._is(s, broker, *_RUNS, Process.STOPPING)
        s.next.process[broker] = where(up, Process.KILLED, s.process[broker])

    @action("", says="PLAN: broker {broker} is back", broker="broker")
    def await_return(self, s: State, broker: Number) -> None:
        """The operator waits until a broker is unfenced."""
        self._take_step(s, StepKind.AWAIT_RETURN, broker=broker)
        require("the broker is back", self._is(s, broker, *_RUNS) & ~s.registrations[broker].fenced)

    @action("", says="PLAN: broker {broker} is in the ISR", broker="broker")
    def await_isr(self, s: State, broker: Number) -> None:
        """The operator waits until a broker is in the ISR, or is no replica."""
        self._take_step(s, StepKind.AWAIT_ISR, broker=broker)
        is_replica = s.partition.replicas.has(broker)
        require("the broker is in the ISR", s.partition.isr.has(broker) | ~is_replica)

    @action("966.8", says="PLAN: min.insync.replicas changes; {value} is in force", value="min_isr_choice")
    def change_min_isr(self, s: State, value: int) -> None:
        """The operator changes min.insync.replicas of the topic or the cluster."""
        step = self._take_step(s, StepKind.SET_MIN_ISR)
        require("it is this value", step.value == value)
        super().change_min_isr(s, value=value)

    @action("966.8", says="PLAN: min.insync.replicas is set to what it is")
    def keep_min_isr(self, s: State) -> None:
        """The operator sets min.insync.replicas to its value, and the controller changes nothing."""
        require("such a change has no effect", not self.on("min_isr_change_clears_elr"))
        step = self._take_step(s, StepKind.SET_MIN_ISR)
        require("the value stays", step.value == s.min_insync_replicas)

    @action("966.16", says="PLAN: unclean.leader.election.enable changes")
    def change_unclean_election(self, s: State) -> None:
        """The operator enables or disables unclean election."""
        step = self._take_step(s, StepKind.SET_UNCLEAN_ELECTION)
        s.next.unclean_election = step.value > 0

    @action("966.9", says="PLAN: the reassignment begins")
    def reassign(self, s: State) -> None:
        """The operator requests a reassignment. If the controller refuses it, nothing changes."""
        self._take_step(s, StepKind.REASSIGN)
        self._handled(s, handlers.reassign(self.context(s), s.target))

    @action("966.2", says="PLAN: the first partition of the topic gets another number of replicas")
    def resize_first_partition(self, s: State) -> None:
        """The operator reassigns the topic's first partition, which is another one."""
        s.next.first_partition_replicas = self._take_step(s, StepKind.FIRST_PARTITION).value

    @action("966.9", says="PLAN: the reassignment is cancelled")
    def cancel_reassignment(self, s: State) -> None:
        """The operator cancels a reassignment. If the controller refuses that, nothing changes."""
        self._take_step(s, StepKind.CANCEL_REASSIGNMENT)
        self._handled(s, handlers.cancel_reassignment(self.context(s)))

    @action("966.17", says="PLAN: the operator requests an election, {election}", election="election_choice")
    def elect_leader(self, s: State, election: Number) -> None:
        """The operator requests an election. If the controller refuses it, nothing changes."""
        kind = where(election == ElectionType.PREFERRED, StepKind.ELECT_PREFERRED, StepKind.ELECT_UNCLEAN)
        self._take_step(s, kind)
        self._handled(s, handlers.elect_leader(self.context(s), election), election)

    def _handled(self, s: State, handled: Handled, election: Number | None = None) -> None:
        """Carry out the operator's request, unless a check fails."""
        with when(handled.checks.passed):
            decision = self.decision(s, handled.record)
            self.carry_out(s, replace(decision, election=election))

    @action("584.1", rule="leftover_elr_elects", says="PLAN: eligible.leader.replicas.version changes")
    def change_elr_level(self, s: State) -> None:
        """The operator changes the level of the ELR feature."""
        self._take_step(s, StepKind.CHANGE_ELR_LEVEL)
        super().change_elr_level(s)

    @action(
        "B8", rule="registration_leaves_isr", says="PLAN: broker {broker} is unregistered", broker="broker"
    )
    def unregister(self, s: State, broker: Number) -> None:
        """The operator removes a broker from the cluster. It does not come back."""
        self._take_step(s, StepKind.UNREGISTER, broker=broker)
        super().unregister(s, broker)
        s.next.returning = s.returning.without(broker)

    @action(
        "858.1",
        rule="offline_directory_check",
        says="PLAN: the log directory of broker {broker}'s replica is removed",
        broker="broker",
    )
    def remove_directory(self, s: State, broker: Number) -> None:
        """The operator removes a log directory."""
        self._take_step(s, StepKind.REMOVE_DIRECTORY, broker=broker)
        self.lose_directory(s, broker)

    def refusal(self, s: State, kind: str) -> Number:
        """The error with which the controller refuses a step of the kind ``kind`` now; NONE if it does not."""
        now = self.context(s)
        if kind == "REASSIGN":
            return handlers.reassign(now, s.target).answer
        of = ElectionType.UNCLEAN if kind == "ELECT_UNCLEAN" else ElectionType.PREFERRED
        return handlers.elect_leader(now, of).answer

    # --- what can come of it ----------------------------------------------------------------------------

    def is_settled(self, s: State) -> Truth:
        """True if the plan is done, every broker that comes back is unfenced, and the controller has nothing to do."""
        back = all_of(
            ~s.returning.has(b) | (self._is(s, b, *_RUNS) & ~s.registrations[b].fenced) for b in self.t.broker
        )
        task = handlers.maybe_elect_unclean_leader(self.context(s)).record
        return self.plan_is_done(s) & back & is_empty_record(self.t, task)
