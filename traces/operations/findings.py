"""Broken promises in recorded operations: what does not hold of a partition any more after an operation.

Who holds every committed record is carried along twice, as no recording has the logs: as if no broker had lost anything
(a property that does not hold even so is broken for certain), and as if each that did not shut down cleanly had lost
its log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from highwater.invariants.replication.observed import CONDITIONS
from highwater.traces.metadata.beliefs.evidence import MAX_BROKERS, controller_stepper
from highwater.traces.metadata.reporting import finding
from highwater.traces.operations.format import MIN_ISR, Key, Operation
from highwater.traces.operations.model_records import as_seen
from highwater.traces.operations.state import ControllerState
from highwater.traces.reports.findings import Finding
from highwater.traces.reports.observed import PartitionState

_MEASURED = frozenset(p.name for p in CONDITIONS)
_CHOSEN = (
    "alterPartitionReassignments", "incrementalAlterConfigs", "unregisterBroker", "updateFeatures", "registerBroker",
)  # fmt: skip
"""Operations after which there can be fewer than min ISR by an operator's choice, or as a broker lost its log.

A clean restart can count as an unclean one, and takes a member out of ISR and ELR all the same.
"""


@dataclass(frozen=True)
class Logs:
    """Who holds every committed record, and whether fewer than min ISR do for a reason that is allowed."""

    complete: tuple[int, ...]
    diminished: bool


@dataclass(frozen=True)
class _Watched:
    partition: dict[str, Any]
    logs: tuple[Logs, Logs]
    broken: frozenset[str]
    doubtful: frozenset[str]


class PartitionWatch:
    """The partitions of one recording, and what does not hold of each."""

    def __init__(self) -> None:
        self._known: dict[Key, _Watched] = {}

    def after(self, op: Operation, before: ControllerState, state: ControllerState) -> Iterator[Finding]:
        """What an operation has broken; ``before`` and ``state`` are the controller before and after it."""
        lost = _lost(op, before)
        for key in state.partitions:
            known = self._next(op, key, lost, state)
            old = self._known.get(key)
            self._known[key] = known
            for name in sorted(known.broken | known.doubtful):
                certain = name in known.broken
                if old is None or (name not in old.broken and (certain or name not in old.doubtful)):
                    found = finding(
                        name,
                        certain,
                        f"{key[0]}-{key[1]}",
                        PartitionState.of(state.partitions[key]),
                        0,
                        op.time_ms,
                        {},
                    )
                    yield replace(found, position={"line": op.line, "step": op.step})

    def _next(self, op: Operation, key: Key, lost: list[int], state: ControllerState) -> _Watched:
        new, known = as_seen(state, key, state.partitions[key]), self._known.get(key)
        setting = int(state.config(key[0], MIN_ISR))
        if known is None:
            few = len(new["isr"]) < state.min_isr(key[0])
            logs = (Logs(tuple(new["isr"]), few),) * 2
        else:
            joins = op.name == "alterPartition" and (op.arguments["topic"], op.arguments["partition"]) == key
            arguments = {
                "old": known.partition,
                "new": new,
                "min_insync_replicas": setting,
                "joining": new["isr"] if joins else [],
                "chosen": op.name in _CHOSEN,
            }
            logs = tuple(
                Logs(tuple(found["complete"]), found["diminished"])
                for who, kept in zip(([], lost), known.logs, strict=True)
                for found in [
                    state.model.completeness(
                        **arguments, complete=list(kept.complete), diminished=kept.diminished, lost=who
                    )
                ]
            )  # type: ignore[assignment]
        least, most = (self._violated(key, new, setting, one, state) for one in logs)
        return _Watched(new, logs, least & most, (least | most) - (least & most))

    def _violated(
        self, key: Key, partition: dict[str, Any], setting: int, logs: Logs, state: ControllerState
    ) -> frozenset[str]:
        actions = controller_stepper(state.count + 1, state.model.t.rules)
        first = state.partitions.get((key[0], 0)) if key[1] else None
        plain = {
            "registrations": [{**r, "epoch": 0} for r in state.registrations],
            "partition": {**partition, "leader_epoch": 0, "partition_epoch": 0},
            "min_insync_replicas": max(1, min(setting, MAX_BROKERS)),
            "unclean_election": state.unclean_election(key[0]),
            "first_partition_replicas": 0 if first is None else len(first["replicas"]),
            "complete": list(logs.complete),
            "diminished": logs.diminished,
        }
        if actions.protocol.has_index:
            plain["elr_entries"] = [
                min(state.entries.get((b, *key), 0), actions.protocol.p.max_elr_entries)
                for b in range(state.count + 1)
            ]
        return actions.violated(actions.encode(plain)) - _MEASURED


def _lost(op: Operation, before: ControllerState) -> list[int]:
    """The brokers that may have lost their log: one that registers anew, and not after a clean shutdown."""
    if op.name != "registerBroker" or op.error != "NONE":
        return []
    args = op.arguments
    broker = args["broker"]
    if before.incarnations.get(broker) == args["incarnation"]:
        return []
    registration = before.registrations[broker]
    clean = registration["registered"] and args["previousBrokerEpoch"] == registration["epoch"]
    return [] if clean else [broker]
