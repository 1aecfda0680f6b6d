"""Log truncation after a leader change: Kafka before KIP-101, and with KIP-101, KIP-279 and KIP-320.

The model has one partition. The controller shrinks the ISR and elects leaders. Brokers learn of its decisions through
LeaderAndIsr requests, which may arrive late, in any order, more than once, or never. Leaders and followers read each
other's state directly; the model has no fetch requests in flight.

The state space equals the state space of the published specification hachikuji/kafka-specification, state for state.
Each of the five modules of the specification is a profile here.
"""

from __future__ import annotations

from typing import Any

from highwater.model.language import (
    Array,
    Band,
    Delivery,
    Drawing,
    Index,
    Int,
    Lane,
    Log,
    Number,
    Option,
    Parameter,
    Profile,
    Protocol,
    Rule,
    Seq,
    Set,
    Sign,
    State,
    Struct,
    Truth,
    action,
    all_of,
    least,
    require,
    where,
)
from highwater.model.rulebook import RULEBOOK

_REQUEST = Delivery("LeaderAndIsr", "controller", "replica", left="requests", by="epoch")
_ISR = Delivery("ISR", "leader", "controller")

DRAWING = Drawing(
    lanes=(
        Lane("controller", ("the controller",)),
        Lane("replica {}", ("replica {}",), index="replica"),
    ),
    deliveries={
        "become_leader": _REQUEST,
        "become_follower": _REQUEST,
        "follower_fetch": Delivery("record", "leader", "follower"),
        "follower_truncate": Delivery("end of epoch", "leader", "follower"),
        "leader_shrink_isr": _ISR,
        "leader_expand_isr": _ISR,
    },
    tells=("quorum", "replicas.hwm", "replicas.isr", "logs"),
    logs=(Log("replica {}", "logs", {"HWM": "replicas.hwm"}, shows=("id", "epoch")),),
    bands=(
        Band(
            "as the controller has it",
            "replica",
            (Sign("leader", "quorum.leader"), Sign("isr", "quorum.isr")),
        ),
        Band("believes that it leads", "replica", (Sign("leader", "replicas.leader"),)),
    ),
)


_KIP_320 = (
    "matching_tail",
    "fenced_truncation",
    "fenced_fetch",
    "fenced_high_watermark",
    "fenced_shrink",
    "fenced_join",
    "join_at_epoch_start",
)


class Truncation(Protocol):
    """Replication of one partition under LeaderAndIsr requests; the profile selects the truncation rule."""

    name = "truncation"
    rulebook = RULEBOOK
    drawing = DRAWING
    symmetric = ("replica",)
    parameters = {
        "replicas": Parameter(3, 1, 5, "brokers that replicate the partition"),
        "log_size": Parameter(2, 1, 6, "records that fit into a log"),
        "max_records": Parameter(2, 1, 6, "records that producers write, all in all"),
        "max_leader_epoch": Parameter(1, 0, 6, "the last leader epoch that the controller gives out"),
    }
    rules = {
        "leader_epoch_lookup": Rule(
            "101.1",
            "A new follower truncates to where its last leader epoch ends on the leader, not to its HWM.",
        ),
        "matching_tail": Rule(
            "279.1", "A new follower truncates to the end of the last record both logs share."
        ),
        "fenced_truncation": Rule(
            "320.2", "A follower asks for its truncation point only a leader in the same leader epoch."
        ),
        "fenced_fetch": Rule(
            "320.1, B2", "A leader uses a fetch only if the fetch carries the leader's own leader epoch."
        ),
        "fenced_high_watermark": Rule(
            "320.3, B4", "Only ISR members that fetch in the leader's epoch count for the HWM."
        ),
        "fenced_shrink": Rule(
            "320.4", "A leader may remove from the ISR a replica that is not in its leader epoch."
        ),
        "fenced_join": Rule(
            "320.4, B5", "A follower joins the ISR only if it follows in the leader's epoch."
        ),
        "join_at_epoch_start": Rule(
            "320.5, B5", "A follower joins the ISR only after the HWM has reached the leader's own epoch."
        ),
        "divergence_on_fetch": Rule(
            "320.6, B3",
            "A follower truncates when a fetch finds that its last record has another epoch on the leader.",
        ),
    }
    profiles = {
        "truncate_to_hwm": Profile.of("before KIP-101: truncate to the local high watermark"),
        "kip_101": Profile.of("leader epochs decide where to truncate", "leader_epoch_lookup"),
        "kip_279": Profile.of("the last shared record decides where to truncate", "matching_tail"),
        "kip_320_first_try": Profile.of(
            "truncation when a fetch finds divergence",
            "matching_tail",
            "divergence_on_fetch",
            "join_at_epoch_start",
        ),
        "kip_320": Profile.of("leader epochs fence fetches, HWM and ISR", *_KIP_320),
    }

    def define(self) -> Struct:
        """Define the types. An Option of an epoch is none before the first LeaderAndIsr request."""
        p = self.p
        self.replica = Index("replica", p.replicas)
        self.epoch = Index("leader epoch", p.max_leader_epoch + 1)
        self.isr = Set(self.replica)
        offset = Int(0, p.log_size)
        self.known_epoch = Option(Int(0, p.max_leader_epoch, bound="max_leader_epoch"))
        self.record = Struct(
            "Record",
            id=(Int(0, p.max_records - 1, bound="max_records"), "which record it is"),
            epoch=(self.epoch, "leader epoch in which it was appended"),
        )
        self.log = Seq(self.record, p.log_size, bound="log_size")
        # A broker knows its own HWM and the last LeaderAndIsr request that it took.
        self.replica_state = Struct(
            "ReplicaState",
            hwm=(offset, "high watermark: offset of the first record that is not committed"),
            leader_epoch=(self.known_epoch, "leader epoch of the last LeaderAndIsr that it took"),
            leader=(Option(self.replica), "leader by that request"),
            isr=(self.isr, "in-sync replicas by that request, or its own"),
        )
        isr = self.isr, "in-sync replicas"
        self.request = Struct("LeaderAndIsr", leader=(Option(self.replica), "leader that it names"), isr=isr)
        quorum = Struct(
            "Quorum",
            leader_epoch=(self.known_epoch, "last leader epoch"),
            leader=(Option(self.replica), "broker that leads"),
            isr=isr,
        )
        return Struct(
            "State",
            logs=(Array(self.replica, self.log), "each replica's log, from offset 0"),
            replicas=Array(self.replica, self.replica_state),
            next_record_id=(Int(0, p.max_records), "count of records so far"),
            quorum=(quorum, "the controller's decision"),
            requests=(Array(self.epoch, self.request), "the LeaderAndIsr that it sent in each leader epoch"),
        )

    def initial(self) -> list[dict[str, Any]]:
        """Every log is empty, every replica is in the ISR, and no replica leads."""
        return [{"quorum": {"isr": range(self.p.replicas)}}]

    # --- what brokers believe ---------------------------------------------------------------------

    def presumes_leadership(self, s: State, broker: Number) -> Truth:
        """True if a broker believes that it leads, whether or not it still does."""
        return s.replicas[broker].leader.is_(broker)

    def is_true_leader(self, s: State, broker: Number) -> Truth:
        """True if this broker is the controller's leader, and knows that it leads in the controller's leader epoch."""
        return (
            s.quorum.leader.is_(broker)
            & self.presumes_leadership(s, broker)
            & (s.replicas[broker].leader_epoch == s.quorum.leader_epoch)
        )

    def follows(self, s: State, follower: Number, leader: Number) -> Truth:
        """True if the follower's last LeaderAndIsr named this leader, in any epoch."""
        return s.replicas[follower].leader.is_(leader)

    def follows_in_epoch(self, s: State, follower: Number, leader: Number) -> Truth:
        """KIP-320: true if ``follower`` follows ``leader`` in the epoch in which ``leader`` believes it leads (B2)."""
        return (
            self.presumes_leadership(s, leader)
            & self.follows(s, follower, leader)
            & (s.replicas[follower].leader_epoch == s.replicas[leader].leader_epoch)
        )

    def caught_up(self, s: State, follower: Number, leader: Number, end: Number) -> Truth:
        """True if ``follower`` follows ``leader``, and both logs reach the end offset ``end``.

        With ``divergence_on_fetch``, ``leader`` must also believe that it leads, and the last record before ``end``
        must have the same epoch in both logs.
        """
        follower_log, leader_log = s.logs[follower], s.logs[leader]
        holds = (leader_log.length >= end) & (follower_log.length >= end)
        if self.on("divergence_on_fetch"):
            same_epoch = follower_log[end - 1].epoch == leader_log[end - 1].epoch
            return (
                self.presumes_leadership(s, leader)
                & self.follows(s, follower, leader)
                & ((end == 0) | (holds & same_epoch))
            )
        return self.follows(s, follower, leader) & ((end == 0) | holds)

    # --- the controller ---------------------------------------------------------------------------

    def decide(self, s: State, leader: Any, isr: Any) -> None:
        """The controller starts the next leader epoch and sends a LeaderAndIsr request for it."""
        epoch = where(s.quorum.leader_epoch.is_some, s.quorum.leader_epoch.value + 1, 0)
        s.next.quorum = {"leader_epoch": epoch, "leader": leader, "isr": isr}
        for e in self.epoch:
            s.next.requests[e] = where(epoch == e, self.request(leader=leader, isr=isr), s.requests[e])

    @action("B8", says="the controller takes replica {replica} out of the ISR", replica="replica")
    def controller_shrink_isr(self, s: State, replica: Number) -> None:
        """The controller removes from the ISR a broker that failed or shuts down; the broker also loses its leadership.

        Precondition: the replica leads or is in the ISR. A leader that is the last ISR member stays in the ISR, because
        no replica could be elected cleanly from an empty ISR. As in the published specification, the last ISR member of
        a partition without a leader is removed nevertheless.
        """
        leads = s.quorum.leader.is_(replica)
        require("the replica leads or is in the ISR", leads | s.quorum.isr.has(replica))
        rest = s.quorum.isr.without(replica)
        keeps_last = leads & (s.quorum.isr == [replica])
        self.decide(s, where(leads, None, s.quorum.leader), where(keeps_last, s.quorum.isr, rest))

    @action("B8", says="the controller elects replica {replica}", replica="replica")
    def controller_elect_leader(self, s: State, replica: Number) -> None:
        """The controller elects an ISR member that does not lead, and starts a leader epoch.

        Any ISR member can be elected at any time. Every ISR member must therefore always hold every committed record.
        """
        require("the replica is in the ISR", s.quorum.isr.has(replica))
        require("the replica does not lead already", ~s.quorum.leader.is_(replica))
        self.decide(s, replica, s.quorum.isr)

    # --- becoming leader or follower --------------------------------------------------------------

    def newer_request(self, s: State, epoch: Number, broker: Number) -> Truth:
        """True if the controller sent a request in this leader epoch, and the broker knows only an earlier epoch."""
        known = s.replicas[broker].leader_epoch
        sent = s.quorum.leader_epoch.is_some & (s.quorum.leader_epoch.value >= epoch)
        return sent & (known.is_none | (known.value < epoch))

    @action("B5", says="replica {replica} becomes leader in epoch {epoch}", replica="replica", epoch="epoch")
    def become_leader(self, s: State, replica: Number, epoch: Number) -> None:
        """A broker takes a LeaderAndIsr request that names it as leader, and keeps its HWM.

        Precondition: the request is newer than the broker's leader epoch. The broker's HWM may lag behind the former
        leader's HWM, because fetch responses carry the HWM one fetch late. The broker's log holds every committed
        record, because the broker was in the ISR.
        """
        request = s.requests[epoch]
        require("the request names the replica", request.leader.is_(replica))
        require("the request is newer than what the replica knows", self.newer_request(s, epoch, replica))
        s.next.replicas[replica] = {
            "hwm": s.replicas[replica].hwm,
            "leader_epoch": epoch,
            "leader": replica,
            "isr": request.isr,
        }

    def epoch_end_offset(self, s: State, leader: Number, follower: Number) -> Number:
        """KIP-101: the offset at which the follower's last epoch ends in the leader's log.

        It is the follower's HWM if the leader's log has no record of this epoch or a later epoch.
        """
        log, last_epoch, hwm = s.logs[leader], s.logs[follower].last.epoch, s.replicas[follower].hwm
        end: Number = hwm
        for offset in reversed(range(self.p.log_size)):
            end = where((log.length > offset) & (log[offset].epoch > last_epoch), offset, end)
        return where(log.is_empty, hwm, where(log.last.epoch == last_epoch, log.length, end))

    def matching_end_offset(self, s: State, leader: Number, follower: Number) -> Number:
        """KIP-279: the offset after the last record that both logs hold at the same offset; 0 if there is none."""
        ours, theirs = s.logs[follower], s.logs[leader]
        end: Any = where(ours.length == 0, 0, 0)
        for offset in range(self.p.log_size):
            same = (ours.length > offset) & (theirs.length > offset) & (ours[offset] == theirs[offset])
            end = where(same, offset + 1, end)
        return end

    def truncation_offset(self, s: State, leader: Number, follower: Number) -> Number:
        """The offset to which a follower truncates before it fetches from this leader (B3)."""
        if self.on("matching_tail"):
            return self.matching_end_offset(s, leader, follower)
        if self.on("leader_epoch_lookup"):
            empty = s.logs[follower].is_empty
            return where(empty, 0, self.epoch_end_offset(s, leader, follower))
        return s.replicas[follower].hwm

    @action(
        "B3", says="replica {replica} becomes follower in epoch {epoch}", replica="replica", epoch="epoch"
    )
    def become_follower(self, s: State, replica: Number, epoch: Number) -> None:
        """A broker takes a LeaderAndIsr request that names another leader, and truncates its log.

        Precondition: the request is newer than the broker's leader epoch. The named leader may be in an earlier or a
        later epoch than the request. In that case the broker computes the truncation offset from the wrong log. KIP-320
        therefore requires that the named leader is in the request's epoch. With ``divergence_on_fetch`` the broker does
        not truncate in this step but when it fetches.
        """
        request, hwm = s.requests[epoch], s.replicas[replica].hwm
        leader = request.leader.value
        require("the request names another leader", request.leader.is_some & ~request.leader.is_(replica))
        require("the request is newer than what the replica knows", self.newer_request(s, epoch, replica))
        in_epoch = self.presumes_leadership(s, leader) & s.replicas[leader].leader_epoch.is_(epoch)
        require("the leader is in the request's epoch", in_epoch, rule="fenced_truncation")
        if not self.on("divergence_on_fetch"):
            offset = self.truncation_offset(s, leader, replica)
            require("the log reaches the truncation point", offset <= s.logs[replica].length)
            s.next.logs[replica] = s.logs[replica].truncate(offset)
            hwm = least(offset, hwm)
        s.next.replicas[replica] = {
            "hwm": hwm,
            "leader_epoch": epoch,
            "leader": leader,
            "isr": request.isr,
        }

    # --- replication ------------------------------------------------------------------------------

    @action("B1", says="replica {leader} appends a record", leader="replica")
    def leader_write(self, s: State, leader: Number) -> None:
        """A broker that believes it leads appends a record with its leader epoch."""
        require("the replica believes that it leads", self.presumes_leadership(s, leader))
        record = self.record(id=s.next_record_id, epoch=s.replicas[leader].leader_epoch.value)
        s.next.logs[leader] = s.logs[leader].append(record)
        s.next.next_record_id = s.next_record_id + 1

    @action(
        "B2",
        says="replica {follower} fetches a record from replica {leader}",
        follower="replica",
        leader="replica",
    )
    def follower_fetch(self, s: State, follower: Number, leader: Number) -> None:
        """A follower appends the leader's record at its log end; HWM := min(leader's HWM, own LEO) (B4).

        Precondition: the follower follows this broker, which believes it leads and has a record at that offset.
        The fetch offset does not show whether the earlier records are equal. If follower and leader are in different
        epochs, the follower may append to a log that diverges from the leader's log.
        """
        ours, theirs = s.logs[follower], s.logs[leader]
        require("the replica believes that it leads", self.presumes_leadership(s, leader))
        require("the follower follows this leader", self.follows(s, follower, leader))
        if self.on("fenced_fetch"):
            require("both are in the same leader epoch", self.follows_in_epoch(s, follower, leader))
        if self.on("divergence_on_fetch"):
            require("the follower's last record matches", self.caught_up(s, follower, leader, ours.length))
        require("the leader has a record there", theirs.length > ours.length)
        s.next.logs[follower] = ours.append(theirs[ours.length])
        s.next.replicas[follower].hwm = least(s.replicas[leader].hwm, ours.length + 1)

    @action(
        "B3",
        rule="divergence_on_fetch",
        says="replica {follower} truncates to where it matches replica {leader}",
        follower="replica",
        leader="replica",
    )
    def follower_truncate(self, s: State, follower: Number, leader: Number) -> None:
        """A fetch finds that the logs diverge, and the follower truncates to the last record that both share.

        Precondition: the leader's log is shorter, or has another epoch at the follower's last offset. In the first
        draft of KIP-320 the follower compares its log with the leader's log at each fetch (320.6).
        """
        ours, theirs = s.logs[follower], s.logs[leader]
        require("the replica believes that it leads", self.presumes_leadership(s, leader))
        require("the follower follows this leader", self.follows(s, follower, leader))
        end = ours.length
        differs = ~ours.is_empty & (theirs.length >= end) & (theirs[end - 1].epoch != ours.last.epoch)
        require("the logs diverge", (end > theirs.length) | differs)
        offset = self.matching_end_offset(s, leader, follower)
        s.next.logs[follower] = ours.truncate(offset)
        s.next.replicas[follower].hwm = least(offset, s.replicas[follower].hwm)

    @action("B4", says="replica {leader} moves its high watermark", leader="replica")
    def leader_advance_hwm(self, s: State, leader: Number) -> None:
        """A leader advances its HWM by one record that every member of its ISR has.

        With KIP-320 every member must follow in the leader's epoch: the log of a follower in another epoch may hold a
        different record at that offset.
        """
        me = s.replicas[leader]
        require("the replica believes that it leads", self.presumes_leadership(s, leader))
        require("the HWM is not at the end of the log's range", me.hwm < self.p.log_size)
        if self.on("fenced_high_watermark") or self.on("divergence_on_fetch"):
            require("the leader has a record there", s.logs[leader].length > me.hwm)
        for follower in self.replica:
            if self.on("fenced_high_watermark"):
                follows = self.follows_in_epoch(s, follower, leader)
                has_record = s.logs[follower].length > me.hwm
            elif self.on("divergence_on_fetch"):
                follows = self.follows(s, follower, leader)
                has_record = self.caught_up(s, follower, leader, me.hwm + 1)
            else:
                follows = self.follows(s, follower, leader)
                has_record = s.logs[follower].length > me.hwm
            require(f"replica {int(follower)}, if in the ISR, follows", ~me.isr.has(follower) | follows)
            require(
                f"replica {int(follower)}, if in the ISR, has the record", ~me.isr.has(follower) | has_record
            )
        s.next.replicas[leader].hwm = me.hwm + 1

    # --- the ISR ----------------------------------------------------------------------------------

    def alter_isr(self, s: State, leader: Number, isr: Any) -> None:
        """The current leader changes the controller's ISR and its own copy in one step (B8).

        In Kafka the write of a former leader fails, because the partition's version has changed. Here a former leader
        cannot take the step.
        """
        require("the replica is the true leader", self.is_true_leader(s, leader))
        s.next.quorum.isr = isr
        s.next.replicas[leader].isr = isr

    @action(
        "B7",
        says="replica {leader} takes replica {follower} out of the ISR",
        leader="replica",
        follower="replica",
    )
    def leader_shrink_isr(self, s: State, leader: Number, follower: Number) -> None:
        """The current leader removes from the ISR a follower that lags behind the leader's log end.

        320.4: the leader may also remove a follower that is not in the leader's epoch.
        Without shrinks a stopped follower would block the HWM, which waits for every ISR member to have the record.
        """
        isr, end = s.replicas[leader].isr, s.logs[leader].length
        require("the follower is another replica", follower != leader)
        require("the follower is in the ISR", isr.has(follower))
        if self.on("fenced_shrink"):
            lags = ~self.follows_in_epoch(s, follower, leader) | (s.logs[follower].length < end)
        else:
            lags = ~self.caught_up(s, follower, leader, end)
        require("the follower lags", lags)
        self.alter_isr(s, leader, isr.without(follower))

    @action(
        "B5",
        says="replica {leader} takes replica {follower} into the ISR",
        leader="replica",
        follower="replica",
    )
    def leader_expand_isr(self, s: State, leader: Number, follower: Number) -> None:
        """The current leader adds to the ISR a follower that has reached the leader's HWM.

        The follower can then be elected. A new leader's HWM may lag behind the committed records. With
        ``join_at_epoch_start`` a follower joins only after the HWM has passed all records of earlier epochs.
        """
        isr, hwm = s.replicas[leader].isr, s.replicas[leader].hwm
        require("the follower is not in the ISR", ~isr.has(follower))
        if self.on("fenced_join"):
            require("the follower is in the leader's epoch", self.follows_in_epoch(s, follower, leader))
            require("the follower has reached the HWM", s.logs[follower].length >= hwm)
        else:
            require("the follower has reached the HWM", self.caught_up(s, follower, leader, hwm))
        if self.on("join_at_epoch_start"):
            log = s.logs[leader]
            own_epoch = (log.length > hwm) & s.replicas[leader].leader_epoch.is_(log[hwm].epoch)
            require("the HWM has reached the leader's epoch", (hwm == log.length) | own_epoch)
        self.alter_isr(s, leader, isr.with_(follower))

    # --- for properties ---------------------------------------------------------------------------

    def holds_below_hwm(self, s: State, leader: Number, replica: Number) -> Truth:
        """True if a replica holds every record below a leader's HWM, at the same offset."""
        ours, theirs, hwm = s.logs[replica], s.logs[leader], s.replicas[leader].hwm
        return all_of(
            (hwm <= offset)
            | ((theirs.length > offset) & (ours.length > offset) & (ours[offset] == theirs[offset]))
            for offset in range(self.p.log_size)
        )
