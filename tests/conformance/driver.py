"""The adapter of the controller in controller.py. As a program, it serves the other end of the pipe."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from highwater.checker.testing.conformance import Adapter, Outcome
from highwater.checker.testing.conformance.pipe import serve
from tests.conformance.controller import Broker, Controller

SCENARIO = "replication/controller/small"


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
