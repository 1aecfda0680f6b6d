"""How runs of log truncation are drawn: the controller and the replicas, and what the controller's requests say.

A LeaderAndIsr request stays, for whoever takes it late or again; records and offsets pass within a step.
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
        Lane("controller", ("the controller",), state="quorum"),
        Lane("replica {}", ("replica {}",), index="replica", state="replicas"),
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
        Band("takes itself for the leader", "replica", (Sign("leader", "replicas.leader"),)),
    ),
)


# Log truncation after a leader change: what Kafka did before KIP-101, and what each KIP since repaired.
#
# One partition. The controller shrinks the ISR and elects leaders; brokers learn of it through LeaderAndIsr
# requests that may arrive late, in any order, more than once or never. Leaders and followers see each
# other's
# state directly: what is in question is not the transport but which state a broker acts on.
#
# The state space is, state for state, that of the published specification hachikuji/kafka-specification;
# each
# of its five modules is a profile here, and what tells them apart are switches.

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
    """Replication of one partition under LeaderAndIsr requests, with the truncation rule as a choice."""

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
            "320.2", "The truncation point is asked of a leader in the same epoch only."
        ),
        "fenced_fetch": Rule(
            "320.1, B2", "A leader uses a fetch only when its leader epoch is the leader's own."
        ),
        "fenced_high_watermark": Rule(
            "320.3, B4", "The HWM counts only ISR members that fetch in this epoch."
        ),
        "fenced_shrink": Rule(
            "320.4", "A replica that is not in the leader's epoch may be taken out of the ISR."
        ),
        "fenced_join": Rule(
            "320.4, B5", "A follower joins the ISR only when it follows in the leader's epoch."
        ),
        "join_at_epoch_start": Rule(
            "320.5, B5", "No follower joins the ISR before the HWM has reached the leader's own epoch."
        ),
        "divergence_on_fetch": Rule(
            "320.6, B3",
            "A follower truncates when a fetch finds its last record's epoch on the leader to differ, not before.",
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
        """Size the types; `Option` of an epoch is none before the first LeaderAndIsr request."""
        p = self.p
        self.replica = Index("replica", p.replicas)
        self.epoch = Index("leader epoch", p.max_leader_epoch + 1)
        self.isr = Set(self.replica)
        offset = Int(0, p.log_size)
        self.known_epoch = Option(Int(0, p.max_leader_epoch, bound="max_leader_epoch"))
        self.record = Struct("Record", id=Int(0, p.max_records - 1, bound="max_records"), epoch=self.epoch)
        self.record.about(id="which record it is", epoch="leader epoch in which it was appended")
        self.log = Seq(self.record, p.log_size, bound="log_size")
        # What a broker believes: its own HWM, and the last LeaderAndIsr request that it took.
        self.replica_state = Struct(
            "ReplicaState",
            hwm=offset,
            leader_epoch=self.known_epoch,
            leader=Option(self.replica),
            isr=self.isr,
        ).about(
            hwm="high watermark: offset of the first record that is not committed",
            leader_epoch="leader epoch of the last LeaderAndIsr that it took",
            leader="leader by that request",
            isr="in-sync replicas by that request, or its own",
        )
        self.request = Struct("LeaderAndIsr", leader=Option(self.replica), isr=self.isr)
        self.request.about(leader="leader that it names", isr="in-sync replicas")
        quorum = Struct("Quorum", leader_epoch=self.known_epoch, leader=Option(self.replica), isr=self.isr)
        quorum.about(leader_epoch="last leader epoch", leader="broker that leads", isr="in-sync replicas")
        return Struct(
            "State",
            logs=Array(self.replica, self.log),
            replicas=Array(self.replica, self.replica_state),
            next_record_id=Int(0, p.max_records),
            quorum=quorum,
            requests=Array(self.epoch, self.request),
        ).about(
            logs="each replica's log, from offset 0",
            next_record_id="count of records so far",
            quorum="the controller's decision",
            requests="the LeaderAndIsr that it sent in each leader epoch",
        )

    def initial(self) -> list[dict[str, Any]]:
        """Empty logs, everyone in the ISR, no leader yet."""
        unaware: dict[str, Any] = {"hwm": 0, "leader_epoch": None, "leader": None, "isr": []}
        return [
            {
                "logs": [[]] * self.p.replicas,
                "replicas": [unaware] * self.p.replicas,
                "next_record_id": 0,
                "quorum": {"leader_epoch": None, "leader": None, "isr": range(self.p.replicas)},
                "requests": [{"leader": None, "isr": []}] * (self.p.max_leader_epoch + 1),
            }
        ]

    # --- what brokers believe ---------------------------------------------------------------------

    def presumes_leadership(self, s: State, broker: Number) -> Truth:
        """Whether a broker takes itself for the leader, rightly or not."""
        return s.replicas[broker].leader.is_(broker)

    def is_true_leader(self, s: State, broker: Number) -> Truth:
        """Whether a broker leads in the controller's eyes, in the controller's epoch."""
        return (
            s.quorum.leader.is_(broker)
            & self.presumes_leadership(s, broker)
            & (s.replicas[broker].leader_epoch == s.quorum.leader_epoch)
        )

    def follows(self, s: State, follower: Number, leader: Number) -> Truth:
        """Whether the follower's last request named this leader, in whatever epoch."""
        return s.replicas[follower].leader.is_(leader)

    def follows_in_epoch(self, s: State, follower: Number, leader: Number) -> Truth:
        """KIP-320: both took the same leader epoch for the current one (B2)."""
        return (
            self.presumes_leadership(s, leader)
            & self.follows(s, follower, leader)
            & (s.replicas[follower].leader_epoch == s.replicas[leader].leader_epoch)
        )

    def caught_up(self, s: State, follower: Number, leader: Number, end: Number) -> Truth:
        """Whether the follower holds the leader's records up to `end`, by offsets, or by the last record's epoch."""
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
        """A decision of the controller: the next leader epoch, and a LeaderAndIsr request to tell it."""
        epoch = where(s.quorum.leader_epoch.is_some, s.quorum.leader_epoch.value + 1, 0)
        s.next.quorum = {"leader_epoch": epoch, "leader": leader, "isr": isr}
        for e in self.epoch:
            s.next.requests[e] = where(epoch == e, self.request(leader=leader, isr=isr), s.requests[e])

    @action("B8", says="the controller takes replica {replica} out of the ISR", replica="replica")
    def controller_shrink_isr(self, s: State, replica: Number) -> None:
        """A broker failed or shuts down. A leader loses its leadership, and stays in the ISR where it is the last.

        Without an ISR nobody can be elected cleanly ever again. As in the published specification, the last member of a
        partition without a leader leaves it all the same.
        """
        leads = s.quorum.leader.is_(replica)
        require("the replica leads or is in the ISR", leads | s.quorum.isr.has(replica))
        rest = s.quorum.isr.without(replica)
        keeps_last = leads & (s.quorum.isr == [replica])
        self.decide(s, where(leads, None, s.quorum.leader), where(keeps_last, s.quorum.isr, rest))

    @action("B8", says="the controller elects replica {replica}", replica="replica")
    def controller_elect_leader(self, s: State, replica: Number) -> None:
        """Any ISR member can be elected, at any time.

        So everything else is about who is in the ISR: each member must hold what is committed, all the time.
        """
        require("the replica is in the ISR", s.quorum.isr.has(replica))
        require("the replica does not lead already", ~s.quorum.leader.is_(replica))
        self.decide(s, replica, s.quorum.isr)

    # --- becoming leader or follower --------------------------------------------------------------

    def newer_request(self, s: State, epoch: Number, broker: Number) -> Truth:
        """Whether the request of this epoch was sent and is news to the broker."""
        known = s.replicas[broker].leader_epoch
        sent = s.quorum.leader_epoch.is_some & (s.quorum.leader_epoch.value >= epoch)
        return sent & (known.is_none | (known.value < epoch))

    @action("B5", says="replica {replica} becomes leader in epoch {epoch}", replica="replica", epoch="epoch")
    def become_leader(self, s: State, replica: Number, epoch: Number) -> None:
        """A broker takes a LeaderAndIsr request that names it. Its own HWM may lag behind the true one.

        It hears of the HWM with its fetches, one behind. It is to hold what is committed nevertheless: it was in the
        ISR.
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
        """KIP-101: where the epoch of the follower's last record ends on the leader; its HWM where unknown."""
        log, last_epoch, hwm = s.logs[leader], s.logs[follower].last.epoch, s.replicas[follower].hwm
        end: Number = hwm
        for offset in reversed(range(self.p.log_size)):
            end = where((log.length > offset) & (log[offset].epoch > last_epoch), offset, end)
        return where(log.is_empty, hwm, where(log.last.epoch == last_epoch, log.length, end))

    def matching_end_offset(self, s: State, leader: Number, follower: Number) -> Number:
        """KIP-279: one past the last offset at which both logs hold the same record."""
        ours, theirs = s.logs[follower], s.logs[leader]
        end: Any = where(ours.length == 0, 0, 0)
        for offset in range(self.p.log_size):
            same = (ours.length > offset) & (theirs.length > offset) & (ours[offset] == theirs[offset])
            end = where(same, offset + 1, end)
        return end

    def truncation_offset(self, s: State, leader: Number, follower: Number) -> Number:
        """Where a follower truncates its log before it fetches from this leader (B3)."""
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

        The leader may be in another epoch than the request, not yet or no more in this one: where the logs part is then
        found with the wrong log, unless the two are held to one epoch (KIP-320).
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
        """A broker that takes itself for the leader appends a record in its epoch."""
        require("the replica presumes leadership", self.presumes_leadership(s, leader))
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
        """A follower appends the leader's record at its log end, and takes over the leader's HWM (B4).

        A fetch names an offset. That the record before it is the same on both logs the offset does not say: with a
        leader of another epoch the follower would append to a log that has parted from the leader's.
        """
        ours, theirs = s.logs[follower], s.logs[leader]
        require("the replica presumes leadership", self.presumes_leadership(s, leader))
        require("the follower follows it", self.follows(s, follower, leader))
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
        """A fetch finds that the follower's log end is not on the leader's log.

        Truncation at the fetch, not before it (KIP-320): the leader that is asked is then the one that is fetched from.
        """
        ours, theirs = s.logs[follower], s.logs[leader]
        require("the replica presumes leadership", self.presumes_leadership(s, leader))
        require("the follower follows it", self.follows(s, follower, leader))
        end = ours.length
        differs = ~ours.is_empty & (theirs.length >= end) & (theirs[end - 1].epoch != ours.last.epoch)
        require("the logs diverge", (end > theirs.length) | differs)
        offset = self.matching_end_offset(s, leader, follower)
        s.next.logs[follower] = ours.truncate(offset)
        s.next.replicas[follower].hwm = least(offset, s.replicas[follower].hwm)

    @action("B4", says="replica {leader} moves its high watermark", leader="replica")
    def leader_advance_hwm(self, s: State, leader: Number) -> None:
        """The HWM passes the next record when every member of the leader's ISR has it.

        Has it of this leader, in this epoch: a follower whose log is as long may hold something else there.
        """
        me = s.replicas[leader]
        require("the replica presumes leadership", self.presumes_leadership(s, leader))
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
        """Only the true leader changes the ISR, and controller and leader learn of it at once (B8).

        It writes by the version of the partition's state, so that who is none any more fails.
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
        """A follower that lags behind the leader's log end can be taken out.

        Else the HWM, which waits for all ISR members, would wait for it for ever.
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
        """A follower that has caught up with the leader's HWM joins the ISR.

        From then on it can be elected. A new leader's HWM lags behind what is committed, so it is not enough to have
        reached that one before it has come to the leader's own epoch (`join_at_epoch_start`).
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
        """Whether a replica holds every record below a leader's HWM, at the same offset."""
        ours, theirs, hwm = s.logs[replica], s.logs[leader], s.replicas[leader].hwm
        return all_of(
            (hwm <= offset)
            | ((theirs.length > offset) & (ours.length > offset) & (ours[offset] == theirs[offset]))
            for offset in range(self.p.log_size)
        )
