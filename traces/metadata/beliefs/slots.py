"""Slots and the brokers that they stand for: a partition in both, and after a record, which names brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from highwater.model.replication.controller.types import NO_LEADER
from highwater.traces.metadata.beliefs.actions import MAX_BROKERS
from highwater.traces.metadata.beliefs.evidence import NearMiss, Observed, Slots
from highwater.traces.metadata.beliefs.observations import Brokers, Change, Observation, Placed
from highwater.traces.reports.findings import Candidate
from highwater.traces.reports.observed import PartitionState

Content = Observation | bytes
RECOVERY = ("RECOVERED", "RECOVERING")
NO_REPLICA = "it has no replica"
TOO_MANY = f"more than {MAX_BROKERS} brokers are concerned with it"


class Symbol:
    """An observation with slots for brokers. Two are the same only where they are the same object, to be found fast."""

    __slots__ = ()


class Binding:
    """The brokers that the slots of a belief state stand for, and the symbols of observations that name them."""

    __slots__ = ("brokers", "slots", "symbols")

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.slots = {broker: slot for slot, broker in enumerate(brokers)}
        self.symbols: dict[Content, Symbol] = {}


def content(observation: Observation) -> Content:
    """What an observation is looked up by: a change that says nothing of log directories by its bytes alone."""
    if isinstance(observation, Change) and observation.placed is None:
        return observation.raw
    return observation


class CannotFollow(Exception):
    """What was recorded of a partition is not a state that the model has; the message says why."""


FIELDS = {
    "isr": "isr",
    "eligibleLeaderReplicas": "elr",
    "lastKnownElr": "last_known",
    "replicas": "replicas",
    "addingReplicas": "adding",
    "removingReplicas": "removing",
}


def named(record: Mapping[str, Any]) -> Iterable[int]:
    """The brokers that a record names."""
    for name in FIELDS:
        yield from (b for b in record.get(name) or () if b >= 0)
    if record.get("leader", NO_LEADER) >= 0:
        yield record["leader"]


def merged(
    before: Observed, record: Mapping[str, Any], slots: Mapping[int, int], placed: Placed | None = None
) -> Observed:
    """The partition after a record, which holds what changed; the leader epoch grows when the leader is in it.

    ``placed`` is what the record says of log directories. Raises CannotFollow where that is no partition.
    """
    changed: dict[str, Any] = {"bumped": "leader" in record}
    repeated = []
    for name, target in FIELDS.items():
        if record.get(name) is not None:
            members = tuple(slots.get(b, NO_LEADER) for b in record[name])
            _check_members(name, members)
            changed[target] = members if target == "replicas" else tuple(sorted(members))
            # Of larger sets the order is not kept, and one that is written anew can have another.
            if changed[target] == getattr(before, target) and (target == "replicas" or len(members) < 2):
                repeated.append(name)
    if "leader" in record:
        changed["leader"] = slots.get(record["leader"], NO_LEADER)
    if "leaderRecoveryState" in record:
        if record["leaderRecoveryState"] not in (0, 1):
            raise CannotFollow(f"leaderRecoveryState {record['leaderRecoveryState']}")
        changed["recovery"] = RECOVERY[record["leaderRecoveryState"]]
        if changed["recovery"] == before.recovery:
            repeated.append("leaderRecoveryState")
    moved = set() if placed is None else {slots[broker] for broker in placed.assigned}
    changed["misplaced"] = placed is not None and placed.wrong
    remaining = {*changed.get("replicas", before.replicas)} - moved
    changed["offline"] = tuple(slot for slot in before.offline if slot in remaining)
    return replace(before, repeated=tuple(repeated), **changed)


def _check_members(name: str, members: Slots) -> None:
    if name == "replicas" and not members:
        raise CannotFollow(NO_REPLICA)
    if len(set(members)) != len(members):
        raise CannotFollow(f"{name} has a broker twice")
    if NO_LEADER in members and (name != "lastKnownElr" or len(members) > 1):
        raise CannotFollow(f"{name} has a broker that cannot be one")


def in_slots(state: PartitionState) -> tuple[Observed, Brokers]:
    """A partition in slots, and the brokers of the slots. Raises CannotFollow where it is none."""
    others = {*state.isr, *state.elr, *state.last_known_elr, *state.adding, *state.removing}
    if state.leader is not None:
        others.add(state.leader)
    brokers = (*state.replicas, *sorted(others - {*state.replicas, NO_LEADER}))
    if len(brokers) > MAX_BROKERS:
        raise CannotFollow(TOO_MANY)
    slots = {broker: slot for slot, broker in enumerate(brokers)}
    if any(b < 0 for b in brokers):
        raise CannotFollow("a broker with a negative number")
    if not state.replicas:
        raise CannotFollow(NO_REPLICA)

    def ascending(name: str, ids: Iterable[int]) -> Slots:
        members = tuple(sorted(slots.get(b, NO_LEADER) for b in ids))
        _check_members(name, members)
        return members

    _check_members("replicas", tuple(slots[b] for b in state.replicas))

    return Observed(
        tuple(slots[b] for b in state.replicas),
        ascending("isr", state.isr),
        ascending("eligibleLeaderReplicas", state.elr),
        ascending("lastKnownElr", state.last_known_elr),
        NO_LEADER if state.leader is None else slots[state.leader],
        state.leader_recovery_state,
        ascending("addingReplicas", state.adding),
        ascending("removingReplicas", state.removing),
    ), brokers


def with_brokers(observed: Observed, brokers: Brokers) -> PartitionState:
    """A partition with the numbers of its brokers, without epochs; sets in the order of the replicas."""

    def ids(slots: Slots) -> tuple[int, ...]:
        return tuple(NO_LEADER if s == NO_LEADER else brokers[s] for s in slots)

    return PartitionState(
        ids(observed.replicas),
        ids(observed.isr),
        ids(observed.elr),
        ids(observed.last_known),
        None if observed.leader == NO_LEADER else brokers[observed.leader],
        0,
        0,
        observed.recovery,
        ids(observed.adding),
        ids(observed.removing),
    )


def candidate(near: NearMiss, brokers: Brokers) -> Candidate:
    """What came near, with brokers instead of slots."""

    def readable(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return [readable(v) for v in value]
        is_slot = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(brokers)
        return brokers[value] if is_slot else value

    parameters = {
        name: value if name in ("clean", "value", "stale") else readable(value)
        for name, value in zip(near.parameters, near.hypothesis.values, strict=True)
    }
    changes = {
        _RECORDED.get(path, path): (readable(model), readable(seen))
        for path, (model, seen) in near.differences.items()
    }
    return Candidate(near.hypothesis.action, parameters, near.refused_by, near.passed, changes)


_RECORDED = {
    "elr": "eligibleLeaderReplicas",
    "last_known": "lastKnownElr",
    "adding": "addingReplicas",
    "removing": "removingReplicas",
    "recovery": "leaderRecoveryState",
    "bumped": "leader epoch grows",
    "repeated": "written as it was",
    "misplaced": "directories that no decision writes",
}
