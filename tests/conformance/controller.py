"""The implementation under test: an in-memory controller for one partition, written from KIP-966 part 1.

It keeps its state in its own way, as an engineer would write it. Each of DEFECTS is a bug that can be
switched on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

DEFECTS = {
    "fenced_joins": "AlterPartition takes a fenced broker into the ISR",
    "stale_epoch_joins": "AlterPartition does not look at the members' broker epochs",
    "elr_not_emptied": "the ELR stays when the ISR has min ISR members again",
    "no_elr": "who leaves the ISR under min ISR is forgotten",
    "unclean_keeps_elr": "an unclean restart does not take the broker out of the ELR",
    "no_epoch_bump": "a new leader does not begin a leader epoch",
    "first_replica_leads": "an election looks at live brokers, not at the ISR",
    "min_isr_keeps_elr": "a lower min.insync.replicas leaves the ELR",
    "unfencing_elects_nobody": "unfencing a broker elects no leader",
    "shutdown_keeps_isr": "a broker in controlled shutdown stays in the ISR",
}


@dataclass
class Broker:
    epoch: int = 0
    fenced: bool = False
    stopping: bool = False

    @property
    def live(self) -> bool:
        return not self.fenced and not self.stopping


@dataclass
class Controller:
    replicas: list[int]
    brokers: list[Broker]
    min_isr: int
    unclean: bool
    defect: str | None = None
    leader: int | None = None
    isr: set[int] = field(default_factory=set)
    elr: set[int] = field(default_factory=set)
    lost_elr: set[int] = field(default_factory=set)
    last_leader: int | None = None
    leader_epoch: int = 0
    partition_epoch: int = 0
    recovering: bool = False

    def live(self) -> set[int]:
        return {i for i, broker in enumerate(self.brokers) if broker.live}

    def elect(
        self, isr: set[int], elr: set[int], live: set[int], unclean: bool, preferred: bool
    ) -> tuple[Any, ...]:
        """The new leader, and whether the election is unclean."""
        eligible = (isr or elr) & live
        if self.defect == "first_replica_leads":
            eligible = live
        if preferred and self.replicas[0] in eligible:
            return self.replicas[0], False
        if self.leader in eligible:
            return self.leader, False
        for replica in self.replicas:
            if replica in eligible:
                return replica, False
        if unclean:
            for replica in self.replicas:
                if replica in live:
                    return replica, True
        if not isr and not elr and self.last_leader in live:
            return self.last_leader, True
        return None, False

    def change(
        self,
        isr: set[int],
        live: set[int],
        *,
        unclean: bool | None = None,
        preferred: bool = False,
        lost: int | None = None,
        recovered: bool = False,
    ) -> bool:
        """Set the ISR and elect a leader; returns True if the partition changed."""
        before = self.snapshot()
        gone = set() if lost is None or self.defect == "unclean_keeps_elr" else {lost}
        needed = min(self.min_isr, len(self.replicas))
        elr = ((self.elr | self.isr) - isr) - gone
        if self.defect == "no_elr":
            elr = set()
        lost_elr = self.lost_elr | (self.elr & gone)
        if len(isr) >= needed:
            lost_elr = set()
            elr = self.elr - isr if self.defect == "elr_not_emptied" else set()
        allowed = self.unclean if unclean is None else unclean
        leader, uncleanly = self.elect(isr, elr, live, allowed, preferred)
        uncleanly = uncleanly and leader != self.leader
        if leader is not None and leader != self.leader and (uncleanly or leader in elr):
            isr = {leader}
            elr = set() if uncleanly else elr - {leader}
        if len(isr) >= needed:
            lost_elr = set()
            if self.defect != "elr_not_emptied":
                elr = set()
        if isr != self.isr and not isr:
            self.last_leader = self.leader if self.leader is not None else self.last_leader
        elif leader is not None:
            self.last_leader = None
        if recovered:
            self.recovering = False
        if uncleanly:
            self.recovering = True
        moved = leader != self.leader
        self.leader, self.isr, self.elr, self.lost_elr = leader, isr, elr, lost_elr
        if moved and self.defect != "no_epoch_bump":
            self.leader_epoch += 1
        changed = moved or self.snapshot() != before
        self.partition_epoch += changed
        return changed

    def snapshot(self) -> tuple[Any, ...]:
        return (
            self.leader, frozenset(self.isr), frozenset(self.elr), frozenset(self.lost_elr), self.last_leader,
            self.recovering,
        )  # fmt: skip

    # --- requests: each returns an error, or None --------------------------------------------------------

    def alter_partition(self, isr: list[int], epochs: dict[int, int]) -> str | None:
        if self.leader not in isr:
            return "INVALID_REQUEST"
        if self.defect != "fenced_joins" and not set(isr) <= self.live():
            return "INELIGIBLE_REPLICA"
        stale = any(self.brokers[b].epoch != epoch for b, epoch in epochs.items())
        if stale and self.defect != "stale_epoch_joins":
            return "INELIGIBLE_REPLICA"
        self.change(set(isr), self.live(), recovered=True)
        return None

    def leave(self, broker: int) -> None:
        if broker in self.isr:
            self.change(self.isr - {broker}, self.live() - {broker})

    def fence(self, broker: int) -> None:
        self.leave(broker)
        self.brokers[broker].fenced = True

    def unfence(self, broker: int) -> None:
        self.brokers[broker].fenced = False
        if self.leader is None and self.defect != "unfencing_elects_nobody":
            self.change(self.isr, self.live())

    def start_controlled_shutdown(self, broker: int) -> None:
        if self.defect != "shutdown_keeps_isr":
            self.leave(broker)
        self.brokers[broker].stopping = True

    def register(self, broker: int, clean: bool) -> None:
        if clean:
            self.leave(broker)
        elif broker in self.isr | self.elr:
            self.change(self.isr - {broker}, self.live() - {broker}, lost=broker)
        self.brokers[broker] = Broker(self.brokers[broker].epoch + 1, fenced=True)

    def elect_leader(self, kind: str) -> str | None:
        if kind == "PREFERRED" and self.leader == self.replicas[0]:
            return "ELECTION_NOT_NEEDED"
        if kind == "UNCLEAN" and self.leader is not None:
            return "ELECTION_NOT_NEEDED"
        self.change(self.isr, self.live(), unclean=kind == "UNCLEAN", preferred=kind == "PREFERRED")
        return None

    def maybe_elect_unclean_leader(self) -> None:
        if self.leader is None and self.unclean:
            self.change(self.isr, self.live(), unclean=True)

    def maybe_balance_leader(self) -> None:
        if self.leader != self.replicas[0]:
            self.change(self.isr, self.live(), unclean=False, preferred=True)

    def change_min_isr(self, value: int) -> None:
        self.min_isr = value
        reached = len(self.isr) >= min(value, len(self.replicas))
        if reached and self.defect != "min_isr_keeps_elr" and (self.elr or self.lost_elr):
            self.elr, self.lost_elr = set(), set()
            self.partition_epoch += 1
