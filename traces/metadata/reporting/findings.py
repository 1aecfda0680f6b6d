"""Findings in words: which promise is not kept, of which partition, and what is at risk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from highwater.model.language.protocol import Invariant
from highwater.model.rulebook import RULEBOOK
from highwater.traces.metadata.beliefs.evidence import PROPERTIES
from highwater.traces.metadata.image.image import Image
from highwater.traces.metadata.image.partitions import Partition
from highwater.traces.reports.findings import Finding
from highwater.traces.reports.observed import PartitionState
from highwater.traces.reports.settings import MIN_ISR, UNCLEAN

BY_NAME: dict[str, Invariant] = {p.name: p for p in PROPERTIES}

_LOSS = "acknowledged records: a leader that lacks them makes the others truncate them"
_STANDSTILL = "availability: nobody writes or reads until somebody else is elected"
_AT_RISK = {
    "isr_within_replicas": "acknowledged records: a member that is no replica is counted as a copy and holds none",
    "leader_in_isr": "acknowledged records: what the leader alone holds is not counted",
    "leader_is_active": _STANDSTILL,
    "isr_members_are_eligible": "progress: the HWM waits for a member that does not fetch",
    "isr_and_elr_are_disjoint": "acknowledged records: a copy is counted twice",
    "elr_only_under_min_isr": _LOSS + "; an ELR member lacks what is committed while it is not waited for",
    "elr_within_replicas": _LOSS
    + "; a broker that is no replica any more deletes its log and can be elected",
    "electable_completeness": _LOSS + ", once such a member is elected",
    "enough_are_electable": "acknowledged records: fewer brokers hold them than min ISR, so fewer "
    "losses than promised can be borne",
    "last_known_elr_is_not_electable": "nothing by itself; an unclean recovery asks brokers that it need not ask",
    "last_known_leader_only_without_leader": "nothing by itself; the next election without ISR goes by it",
    "last_known_leader_is_a_broker": _STANDSTILL + "; the last known leader cannot be elected",
    "reassignment_within_replicas": "the reassignment: it cannot complete",
    "leader_epoch_behind_partition_epoch": "fencing: brokers tell old states from new ones by these epochs",
    "recovering_leader_is_alone": "acknowledged records, until the leader has recovered",
    "leader_elected_cleanly": _LOSS,
    "leader_completeness": _LOSS,
    "every_broker_comes_back": "availability: at its registration the controller resigns, and so does the next",
    "somebody_is_electable": _STANDSTILL + "; then, by an unclean election, acknowledged records",
}


def facts(
    image: Image, partition: Partition, before: PartitionState, after: PartitionState, cause: str | None
) -> dict[str, Any]:
    """The facts around a change after which a property does not hold: see docs/replay-reference.md."""
    assert partition.topic is not None
    min_isr, unclean = image.effective(partition, len(after.replicas))
    in_force = {name: image.in_force(partition.topic, name) for name in (MIN_ISR, UNCLEAN)}
    return {
        "cause": cause,
        "before": _members(before),
        "after": _members(after),
        "leader_epoch": after.leader_epoch,
        "min_isr": min_isr,
        "unclean_election": unclean,
        "settings": {name: change.to_json() for name, change in in_force.items() if change is not None},
        "resized": None if partition.resized is None else partition.resized.to_json(),
    }


def _members(state: PartitionState) -> dict[str, Any]:
    return {
        "replicas": list(state.replicas),
        "leader": state.leader,
        "isr": list(state.isr),
        "elr": list(state.elr),
        "last_known_elr": list(state.last_known_elr),
    }


def finding(
    name: str,
    certain: bool,
    partition: str,
    state: PartitionState,
    offset: int,
    time: int,
    around: Mapping[str, Any],
) -> Finding:
    """The finding of a property that does not hold any more; ``around`` are the facts around it."""
    known = BY_NAME[name]
    promise = " ".join((known.function.__doc__ or "").split("\n")[0].split())
    seen = "Observed" if certain else "It may be broken, the log alone does not say"
    leader = "none" if state.leader is None else str(state.leader)
    elr = f", ELR {list(state.elr)}" if state.elr else ""
    known_elr = f", last known {list(state.last_known_elr)}" if state.last_known_elr else ""
    return Finding(
        known.source,
        name,
        partition,
        {"offset": offset},
        time,
        f"Promised: {promise} {seen}: replicas {list(state.replicas)}, leader {leader}, "
        f"ISR {list(state.isr)}{elr}{known_elr}",
        _AT_RISK.get(name, ""),
        RULEBOOK.origin(known.source),
        certain,
        facts=around,
    )
