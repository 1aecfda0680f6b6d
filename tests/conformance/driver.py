"""The adapter of the controller in controller.py, and its contract; run as a program it is the pipe's other end."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from highwater.checker.testing.conformance import Adapter, Contract, Outcome
from highwater.checker.testing.conformance.pipe import serve
from tests.conformance.controller import Broker, Controller

SCENARIO = "replication/controller/small"

CONTRACT = Contract(
    operations=[
        "alter_partition", "fence", "unfence", "start_controlled_shutdown", "register", "elect_leader",
        "maybe_elect_unclean_leader", "maybe_balance_leader", "change_min_isr", "enable_unclean_election",
    ],
    answers={
        "the leader is in the ISR": "INVALID_REQUEST",
        "no member is fenced or shutting down": "INELIGIBLE_REPLICA",
        "every member's broker epoch is the registered one": "INELIGIBLE_REPLICA",
        "the preferred replica does not lead already": "ELECTION_NOT_NEEDED",
        "there is no leader, or the preferred replica is requested": "ELECTION_NOT_NEEDED",
    },
    idle=["something changes"],
)  # fmt: skip


class Driver(Adapter):
    def __init__(self, defect: str | None = None) -> None:
        self.defect = defect

    def reset(self, state: Mapping[str, Any]) -> None:
        partition = state["partition"]
        self.controller = Controller(
            replicas=list(partition["replicas"]),
            brokers=[Broker() for _ in state["registrations"]],
            min_isr=state["min_insync_replicas"],
            unclean=state["unclean_election"],
            defect=self.defect,
            leader=partition["leader"],
            isr=set(partition["isr"]),
        )

    def apply(self, operation: str, parameters: Mapping[str, Any]) -> Outcome:
        controller, error = self.controller, None
        if operation == "alter_partition":
            isr, stale = parameters["isr"], parameters["stale"]
            epochs = {b: controller.brokers[b].epoch - (b == stale) for b in isr}
            error = controller.alter_partition(isr, epochs)
        elif operation == "elect_leader":
            error = controller.elect_leader(parameters["election"])
        elif operation == "enable_unclean_election":
            controller.unclean = True
        else:
            getattr(controller, operation)(**parameters)
        return Outcome(error is None, error)

    def observe(self) -> Mapping[str, Any]:
        c = self.controller
        return {
            "registrations": [
                {"epoch": b.epoch, "fenced": b.fenced, "in_controlled_shutdown": b.stopping}
                for b in c.brokers
            ],
            "partition": {
                "isr": sorted(c.isr),
                "elr": sorted(c.elr),
                "last_known_elr": sorted(c.lost_elr),
                "last_known_leader": c.last_leader,
                "leader": c.leader,
                "leader_epoch": c.leader_epoch,
                "partition_epoch": c.partition_epoch,
                "leader_recovery_state": "RECOVERING" if c.recovering else "RECOVERED",
            },
            "min_insync_replicas": c.min_isr,
            "unclean_election": c.unclean,
        }


if __name__ == "__main__":
    serve(Driver(sys.argv[1] if len(sys.argv) > 1 else None), sys.stdin, sys.stdout, "the example controller")
