"""The state of a cluster: the controller, brokers with their views and logs, and messages in flight.

The model has one partition. The controller is a single thread (B8), so its state changes in one step. A broker has a
log (a suffix may be unflushed), and a *view*: the metadata that it has replayed so far. A broker acts on its view,
which can be stale; most rules of the proposals exist because views are stale. Messages can be delayed without limit;
budgets of the scenario bound how many are lost or duplicated.

Actions are functions of (m, s, …) in the other modules. ``m`` is the cluster with its types, parameters and rules;
``s`` is the state before the step, and ``s.next`` the state after the step.
"""

from __future__ import annotations

import itertools
from typing import Any

from highwater.model.language import (
    Array,
    ArrayValue,
    Bool,
    Budgets,
    Enum,
    Index,
    Int,
    Number,
    Only,
    Option,
    Parameter,
    Seq,
    SetValue,
    State,
    Struct,
    StructValue,
    Truth,
    as_bool,
    size,
    where,
)  # fmt: skip
from highwater.model.language.containers import members_of
from highwater.model.replication.controller.partition_change import effective_min_isr
from highwater.model.replication.controller.rules import RULES as CONTROLLER_RULES
from highwater.model.replication.controller.types import ControllerTypes, EpochBounds
from highwater.model.replication.features import RULES as FEATURE_RULES
from highwater.model.replication.features import FeatureCluster
from highwater.model.replication.rules import PROFILES, RULES
from highwater.model.rulebook import RULEBOOK

Status = Enum("Status", "RUNNING SHUTTING_DOWN STOPPED CRASHED")
"""The status of a broker's process. STOPPED, CRASHED: it has ended. The next registration of a STOPPED broker names its
broker epoch, from the CleanShutdownFile; that of a CRASHED one names none (966.12).
"""

Write = Enum("Write", "UNUSED WRITTEN PENDING ACKNOWLEDGED")
"""The state of a write, UNUSED at first. acks 0 or 1: WRITTEN. acks=all: PENDING, then ACKNOWLEDGED."""

Outcome = Enum("Outcome", "COMMITTED REVERT KEEP")
"""A leader's reaction to an AlterPartition response: take over the response's ISR, revert to the committed ISR (841.3),
or keep the proposal pending.
"""

BUDGETS = Budgets(
    {
        "fencings": "fencings of brokers that run (zombies)",
        "controlled_shutdowns": "controlled shutdowns",
        "unseen_stops": "clean stops that the controller does not see",
        "early_stops": "stops of brokers that have started and are not registered yet",
        "crashes": "crashes with the page cache kept",
        "lossy_crashes": "crashes that lose unflushed records",
        "disk_losses": "disks replaced by empty ones",
        "shrinks": "ISR shrinks because a follower lags",
        "weak_writes": "records written with acks 0 or 1",
        "losses": "AlterPartition requests or answers lost",
        "duplicates": "fetches and AlterPartition requests that arrive a second time",
        "elections": "elections on request",
        "reassignments": "reassignments and their cancellations",
        "min_isr_changes": "changes of min.insync.replicas",
        "failovers": "controller failovers",
        "downgrades": "downgrades of the metadata version that end the ELR feature",
        "upgrades": "upgrades of the metadata version that begin the ELR feature",
        "flag_changes": "changes of eligible.leader.replicas.enabled and unclean.recovery.manager.enabled",
    },
    most=3,
)
"""Budgets of faults and operator actions. Steps that heal, such as a restart, need no budget; nor do delays."""


START = {
    "brokers": Parameter(3, 2, 4, "brokers of the cluster"),
    "replication_factor": Parameter(3, 1, 4, "replicas of the partition"),
    "initial_isr": Parameter(3, 1, 4, "ISR members at the start"),
    "any_first_leader": Parameter.switch("whether any ISR member leads at the start, not the first alone"),
    "min_isr": Parameter(2, 1, 3, "min.insync.replicas at the start"),
    "records": Parameter(1, 1, 4, "records that producers write"),
    "initial_records": Parameter(0, 0, 4, "records that are committed at the start"),
    "unclean_election": Parameter.switch("unclean.leader.election.enable; Balanced or Aggressive recovery"),
    "recovers_by_itself": Parameter.switch(
        "whether the controller begins unclean recoveries; false: unclean.recovery.strategy is None",
        default=True,
    ),
    "elr_at_start": Parameter.switch("whether the metadata version has the ELR at the start", default=True),
}
"""Parameters of the cluster's size, configuration and initial state."""

MESSAGES = {
    "recovery": Parameter.switch("whether unclean recovery (966.14) is part of the exploration"),
    "metadata_in_flight": Parameter.switch("whether metadata travels in batches, which can be in flight"),
    "late_fetches": Parameter.switch("whether a fetch can arrive after its sender has sent another one"),
    "late_reads": Parameter.switch(
        "whether a leader reads the record of a fetch response when it sends the response, which can be later"
    ),
}
"""Parameters that add messages or delays. They are off by default, because they enlarge the state space."""

OLDER_BROKERS = {
    "ungated_broker": Parameter(
        -1, -1, 3, "the broker whose HWM also advances under min ISR (966.1); -1: none"
    ),
    "old_fetcher": Parameter(
        -1, -1, 3, "the broker whose fetches have no broker epoch (version 14); -1: none"
    ),
    "old_proposer": Parameter(
        -1, -1, 3, "the broker whose AlterPartitions have no broker epochs (version 2); -1: none"
    ),
}
"""Parameters that name a broker of an older version during a rolling upgrade (``is_the``)."""

DISKS = {
    "log_directories": Parameter(
        1, 1, 2, "log directories of a broker; with 2, disks of brokers that are down are replaced, too"
    ),
    "flushes": Parameter.switch("whether brokers flush their logs now and then"),
}

BOUNDS = {
    "max_leader_epoch": Parameter(3, 0, 9, "the last leader epoch"),
    "max_partition_epoch": Parameter(7, 0, 20, "the last partition epoch"),
    "max_broker_epoch": Parameter(3, 0, 9, "registrations of a broker after the first"),
}
"""The largest epochs of an exploration; steps beyond them are pruned."""

FREEDOMS = {
    "shutdown_requests": Parameter.switch(
        "whether a broker knows of its shutdown before the controller does"
    ),
    "many_at_once": Parameter.switch("whether an AlterPartition can change several members of the ISR"),
    "late_proposals": Parameter.switch(
        "whether an AlterPartition can arrive after its sender has given it up and sent another one"
    ),
    "former_controller": Parameter.switch(
        "whether a replaced controller that does not know of its successor can answer an AlterPartition"
    ),
    "old_checkpoints": Parameter.switch(
        "whether a broker that has crashed can come back with an older HWM than it had"
    ),
    "old_disks": Parameter.switch(
        "whether a broker that is down can get an older copy of its disk, with its CleanShutdownFile"
    ),
    "risky_elections": Parameter.switch(
        "whether an operator requests UNCLEAN, DESIGNATION and LONGEST_LOG_AGGRESSIVE elections", default=True
    ),
    "waiting_producers": Parameter.switch(
        "whether a producer waits at its leader beyond the epoch that it wrote in"
    ),
}
"""Optional behaviours of brokers, controllers and operators; each enlarges the state space."""


class Cluster(FeatureCluster):
    """The base of the protocol: its types, initial states, and the functions that actions and properties share."""

    rulebook = RULEBOOK
    parameters = {
        **START,
        **MESSAGES,
        **OLDER_BROKERS,
        **DISKS,
        **BOUNDS,
        **FREEDOMS,
        **BUDGETS.parameters,
    }
    rules = RULES
    profiles = PROFILES

    def define(self) -> Struct:
        """Define all types from the parameters and rules, and return the type of the state."""
        self._define_domains()
        self._define_metadata()
        self._define_brokers()
        self._define_fetches()
        self._define_proposals()
        p, t = self.p, self.t
        return Struct(
            "State",
            registrations=(t.registrations, "the controller's registrations of brokers"),
            partition=(t.partition, "the partition as the controller has it"),
            min_insync_replicas=(self.min_isr_config, "the topic's min.insync.replicas, in replicas"),
            brokers=Array(self.broker, self.broker_type),
            fetch_requests=(
                Array(self.broker, Option(self.fetch_request)),
                "the fetch that is under way from each follower",
            ),
            fetch_responses=(
                Array(self.broker, self.some_fetch_response),
                "the answer that is under way to each follower",
            ),
            alter_requests=(
                Array(self.broker, Option(self.alter_request)),
                "the AlterPartition that is under way from each leader",
            ),
            alter_responses=(
                Array(self.broker, self.some_alter_response),
                "the answer that is under way to each leader",
            ),
            writes=(Array(self.value, Write), "the state of each record that a producer wrote"),
            committed=(
                self.log,
                "records below the HWM of some leader at some time: what consumers can have read",
            ),
            budgets=(BUDGETS.type(p), "how many faults and changes are left"),
            **self.feature_fields(),
            late_fetches=(
                Only(Array(self.broker, Option(self.fetch_request)), p.late_fetches),
                "fetches of former leader epochs that are still under way",
            ),
            metadata=(
                Only(Array(self.broker, Option(self.view)), p.metadata_in_flight),
                "metadata that is under way to each broker",
            ),
            log_infos_sent=(
                Only(self.log_infos, p.recovery),
                "answers to GetReplicaLogInfo that are under way",
            ),
            log_infos=(
                Only(self.log_infos, p.recovery),
                "answers to GetReplicaLogInfo that the controller has",
            ),
            late_proposals=(
                Only(Array(self.broker, Option(self.alter_request)), p.late_proposals),
                "AlterPartition requests that were given up and are still under way",
            ),
            former=(
                Only(Option(self.former_controller), p.former_controller),
                "the state of a former controller that can still answer",
            ),
            waiting=(
                Only(Array(self.value, Option(self.waiter)), p.waiting_producers),
                "producers that wait for acks=all",
            ),
        )

    def _define_domains(self) -> None:
        """Define the types of brokers, records and epochs, and the values that action parameters range over."""
        p = self.p
        rules = self.rules_on & set(CONTROLLER_RULES)
        bounds = EpochBounds(p.max_broker_epoch, p.max_leader_epoch, p.max_partition_epoch)
        picks_any = self.on("clean_election_picks_any"), self.on("unclean_election_picks_any")
        unordered = all(picks_any) and not p.elections  # the preferred replica is the first one
        types = ControllerTypes(p.brokers, rules, bounds, in_any_order=unordered)
        self.t = types.under_any_features(FEATURE_RULES)
        self.picks = any(picks_any)
        self.holds_in_order = unordered
        self.broker = self.t.broker
        self.some_isr = Option(self.t.brokers)
        self.broker_epoch = Int(0, p.max_broker_epoch)
        self.leader_epoch = Int(0, p.max_leader_epoch)
        self.some_epoch = Option(self.leader_epoch)
        self.partition_epoch = Int(0, p.max_partition_epoch)

        self.value = Index("value", p.records)
        self.record = Struct(
            "Record",
            value=(self.value, "which record of the producers"),
            epoch=(self.leader_epoch, "leader epoch in which it was appended"),
        )
        self.log = Seq(self.record, p.records, bound="records")
        self.offset = Int(0, p.records)
        self.offsets = self.kept = range(p.records)
        self.waiter = Struct(
            "Waiter",
            leader=(self.broker, "broker that the producer waits for"),
            offset=(Int(0, p.records - 1), "offset of its record"),
        )

        self.factor = min(p.replication_factor, p.brokers)
        self.targets = [
            self.t.replicas.lift(list(chosen))
            for count in range(1, self.factor + 1)
            for chosen in itertools.combinations(range(p.brokers), count)
        ]
        low, high = (1, self.factor) if p.min_isr_changes else (p.min_isr, p.min_isr)
        self.min_isr_config = Int(low, max(low, high))
        self.min_isr_values = range(low, high + 1)
        members = [[b for b in range(p.brokers) if chosen >> b & 1] for chosen in range(1, 1 << p.brokers)]
        self.isrs = [self.t.brokers.lift(isr) for isr in members]
        self.again = (False, True) if p.duplicates else (False,)
        self.balanced = (True, False) if p.risky_elections else (True,)

    def _define_metadata(self) -> None:
        """Define the type of a view: the metadata that a broker has replayed so far."""
        t = self.t
        self.view = Struct(
            "MetadataView",
            leader=(Option(self.broker), "leader that it knows"),
            leader_epoch=(self.leader_epoch, "count of changes of leadership"),
            partition_epoch=(self.partition_epoch, "count of changes of the partition's record"),
            isr=(t.brokers, "in-sync replicas"),
            replicas=(t.brokers, "assigned brokers"),
            removing=(
                Only(t.brokers, not self.on("removed_replicas_delete")),
                "replicas that a reassignment removes",
            ),
            min_isr=(self.min_isr_config, "the topic's min.insync.replicas, in replicas"),
            active=(t.brokers, "brokers that are unfenced and not shutting down"),
            epochs=(Array(self.broker, self.broker_epoch), "broker epochs"),
        )

    def _define_brokers(self) -> None:
        """Define the types of a broker and of a leader's fetch state for a follower.

        Some fields exist only under certain rules.
        """
        # The broker epochs of a pending proposal serve only a retry, after the first request was lost or abandoned.
        again = self.p.losses > 0 or self.p.late_proposals
        self.proposals_keep_epochs = self.on("proposal_keeps_its_epochs") and again
        self.member_epochs = Array(self.broker, Option(self.broker_epoch))
        self.fetch_state = Struct(
            "FetchState",
            leo=(Option(self.offset), "log end offset of the follower; none: not known"),
            broker_epoch=(self.broker_epoch, "broker epoch of its last fetch"),
            in_epoch=(
                Only(Bool, not self.on("re_election_forgets_fetches")),
                "whether it has fetched in this leader epoch",
            ),
            caught_up=(
                Only(Bool, self.on("hwm_waits_for_caught_up")),
                "whether it was at the leader's log end",
            ),
        )
        self.followers = Array(self.broker, self.fetch_state)
        self.broker_type = Struct(
            "Broker",
            status=(Status, "whether the process runs"),
            epoch=(self.broker_epoch, "its broker epoch"),
            log=(self.log, "its log, from offset 0"),
            flushed=(self.offset, "offset up to which the log is on disk"),
            hwm=(self.offset, "high watermark: offset of the first record that is not committed"),
            view=(self.view, "the metadata that it knows"),
            leso=(self.offset, "offset at which its leader epoch starts; leader only"),
            proposed=(
                self.some_isr,
                "the proposed ISR, while its AlterPartition has no answer (B7); leader only",
            ),
            followers=(self.followers, "fetch state of its followers; leader only"),
            ahead=(
                Only(Bool, not self.on("proposal_outlives_known_metadata")),
                "whether its view comes from an answer to AlterPartition that is ahead of its metadata",
            ),
            proposed_epochs=(
                Only(self.member_epochs, self.proposals_keep_epochs),
                "broker epochs that it sent with its proposal",
            ),
        )

    def _define_fetches(self) -> None:
        """Define the types of fetch requests and responses.

        Each follower has at most one of each in flight and, with ``late_fetches``, one abandoned request.
        """
        self.fetch_request = Struct(
            "FetchRequest",
            leader=(self.broker, "recipient of the fetch"),
            leader_epoch=(self.leader_epoch, "leader epoch of the follower"),
            offset=(self.offset, "log end offset of the follower"),
            last_epoch=(self.some_epoch, "leader epoch of its last record"),
            broker_epoch=(self.broker_epoch, "broker epoch of the follower"),
        )
        # A response has a record (none at the leader's log end), or the point where the logs diverge.
        self.some_record = Option(self.record)
        self.fetch_response = Struct(
            "FetchResponse",
            sender=(Only(self.broker, self.p.late_reads), "broker that answers"),
            leader_epoch=(self.leader_epoch, "leader epoch of the answer"),
            offset=(self.offset, "fetch offset of the request"),
            diverging=(Bool, "whether the logs diverge"),
            record=(self.some_record, "the record at the offset; none: log end"),
            hwm=(self.offset, "high watermark of the leader"),
            epoch=(self.some_epoch, "if diverging, the epoch to which the logs can agree"),
            end=(self.offset, "if diverging, its end offset on the leader"),
        )
        self.some_fetch_response = Option(self.fetch_response)

    def _define_proposals(self) -> None:
        """Define the types of AlterPartition and GetReplicaLogInfo messages, and of a former controller's state.

        Each broker has at most one message of each kind in flight and, with ``late_proposals``, one abandoned
        AlterPartition.
        """
        self.alter_request = Struct(
            "AlterPartition",
            leader_epoch=(self.leader_epoch, "leader epoch of the sender"),
            partition_epoch=(self.partition_epoch, "partition epoch of the sender"),
            broker_epoch=(self.broker_epoch, "broker epoch of the sender"),
            isr=(self.t.brokers, "the ISR that it asks for"),
            epochs=(self.member_epochs, "broker epochs of the members"),
        )
        self.alter_response = Struct(
            "AlterPartitionAnswer",
            leader_epoch=(self.leader_epoch, "leader epoch"),
            outcome=(Outcome, "what the controller decided"),
            partition_epoch=(self.partition_epoch, "partition epoch after it"),
            isr=(self.t.brokers, "the ISR after it"),
        )
        self.some_alter_response = Option(self.alter_response)
        self.former_controller = Struct(
            "FormerController", partition=self.t.partition, registrations=self.t.registrations
        )
        # The answer to GetReplicaLogInfo (966.14): in flight, or collected by the controller.
        self.log_info = Struct(
            "ReplicaLogInfo",
            broker_epoch=(self.broker_epoch, "broker epoch of the replica"),
            leader_epoch=(self.leader_epoch, "leader epoch that it knows"),
            last_epoch=(self.some_epoch, "leader epoch of its last record"),
            end=(self.offset, "log end offset"),
        )
        self.some_log_info = Option(self.log_info)
        self.log_infos = Array(self.broker, self.some_log_info)

    def initial(self) -> list[dict[str, Any]]:
        """The initial states: with ``any_first_leader`` one for each ISR member as leader, otherwise one.

        All brokers run, with current metadata and full budgets.
        """
        leaders = range(min(self.p.initial_isr, self.factor) if self.p.any_first_leader else 1)
        budgets = BUDGETS.granted(self.p)
        return [{**initial_state(self, leader), "budgets": budgets} for leader in leaders]

    # --- shared by actions and properties ---------------------------------------------------------

    def min_isr_in(self, view: StructValue) -> Number:
        """966.2. The effective min ISR that a broker computes from its view."""
        if not self.on("min_isr_within_replicas"):
            return view.min_isr
        return effective_min_isr(view.min_isr, size(view.replicas))

    def is_up(self, broker: StructValue) -> Truth:
        """True if a broker's process runs; it may be shutting down."""
        return (broker.status == "RUNNING") | (broker.status == "SHUTTING_DOWN")

    def leads(self, b: Number, broker: StructValue) -> Truth:
        """True if broker ``b`` runs and its view names it as leader.

        The controller may have elected another leader since. So two brokers can lead at a time, in different leader
        epochs.
        """
        return self.is_up(broker) & broker.view.leader.is_(b)

    def follows(self, b: Number, broker: StructValue) -> Truth:
        """True if broker ``b`` runs, and its view names it as a replica and another broker as leader."""
        view = broker.view
        return self.is_up(broker) & view.leader.is_some & ~view.leader.is_(b) & view.replicas.has(b)

    def maximal_isr(self, broker: StructValue) -> SetValue:
        """B7. The maximal ISR: the committed ISR, and while an AlterPartition is pending also the proposed members.

        The controller may have accepted the proposal, and may elect a proposed member. One member too many only delays
        the HWM. With one too few, the leader commits records that the next leader may lack.
        """
        proposed = where(broker.proposed.is_some, broker.proposed.value, self.t.brokers.zero())
        isr: SetValue = broker.view.isr | proposed
        return isr

    def latest_view(self, s: State) -> StructValue:
        """The view of a broker that has replayed the whole metadata log."""
        return self.view_of(s.partition, s.registrations, s.min_insync_replicas)

    def view_of(self, partition: StructValue, registrations: ArrayValue, min_isr: Number) -> StructValue:
        """The view of a broker that knows this partition, these registrations and this min.insync.replicas."""
        return self.view(
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            isr=partition.isr,
            replicas=members_of(partition.replicas, self.t.brokers),
            removing=partition.removing,
            min_isr=min_isr,
            active=self.t.active(registrations),
            epochs=self.view.fields["epochs"].lift([registrations[b].epoch for b in self.broker]),
        )


def is_the(b: Number, named: int) -> Truth:
    """True if ``b`` is the broker ``named`` by a parameter of OLDER_BROKERS; -1 names no broker.

    An older broker leaves out broker epochs (903.1, 903.3), or its HWM does not wait for min ISR (966.1). A recipient
    skips the comparison of a broker epoch that is left out (−1); otherwise a rolling upgrade would stop replication.
    """
    return as_bool(False) if named < 0 else b == named


# --- initial states -------------------------------------------------------------------------------------------


def initial_state(m: Cluster, first: int = 0) -> dict[str, Any]:
    """The initial state with ``first`` as leader. A field that is not given is zero.

    Each ISR member's log has the first ``initial_records`` records, committed and acknowledged, but not flushed. All
    other logs are empty. So a scenario about later events skips the steps that write these records. If the ISR is under
    min ISR, no record can be committed, and all logs are empty.
    """
    p = m.p
    replicas, isr = list(range(m.factor)), list(range(min(p.initial_isr, m.factor)))
    count = committed_at_start(m)
    records = [{"value": value, "epoch": 0} for value in range(count)]
    view = {
        "leader": first,
        "isr": isr,
        "replicas": replicas,
        "min_isr": p.min_isr,
        "active": range(p.brokers),
    }
    broker = {"status": "RUNNING", "view": view, "followers": _followers(m, first, isr, None)}
    complete = {**broker, "log": records, "hwm": count}
    brokers = [complete if b in isr else broker for b in range(p.brokers)]
    brokers[first] = {**complete, "followers": _followers(m, first, isr, count if count else None)}
    return {
        "registrations": [{"registered": True}] * p.brokers,
        "partition": {**m.t.initial_partition(replicas, isr), "leader": first},
        "min_insync_replicas": p.min_isr,
        "brokers": brokers,
        "writes": ["ACKNOWLEDGED"] * count + ["UNUSED"] * (p.records - count),
        "committed": records,
        **m.initial_features(),
    }


def committed_at_start(m: Cluster) -> int:
    """The number of records that are committed in the initial state: 0 if the ISR is under min ISR."""
    p = m.p
    enough = min(p.initial_isr, m.factor) >= min(p.min_isr, m.factor)
    return min(p.initial_records, p.records) if enough else 0


def _followers(m: Cluster, first: int, isr: list[int], leo: int | None) -> list[dict[str, Any]]:
    """The fetch state that a broker has of each follower in the initial state.

    ``leo`` is the LEO of each ISR member, or None if no member has fetched from the broker.
    """
    heard = {"leo": leo, "in_epoch": leo is not None}
    return [{**(heard if f in isr and f != first else {}), "caught_up": f in isr} for f in range(m.p.brokers)]
