"""The controller's decisions about a partition, computed once for each partition state and cached.

A ``Node`` is a partition state without epochs. A ``Step`` is the controller's record and the node after it.
The rules (``tests.generation.decided``) use slots (places of brokers in the partition), so partitions
with other brokers share the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from highwater.model.replication.controller.types import NO_LEADER
from highwater.traces.kafka.values import encode
from tests.generation.decided import decisions_in_full

Ids = tuple[int, ...]
NAMED_TO = 23
"""The length of a record's prefix that names its type and partition."""


class State(NamedTuple):
    """A partition without epochs. ``isr`` is in the order of joining; ``last_known`` is LastKnownElr."""

    replicas: Ids
    isr: Ids
    elr: Ids = ()
    last_known: Ids = ()
    leader: int = NO_LEADER
    recovering: bool = False
    adding: Ids = ()
    removing: Ids = ()


class Node:
    """A partition state with derived values. Sets of brokers are bit masks."""

    __slots__ = ("balanced", "elr_mask", "full", "isr_mask", "leader", "mask", "state", "steps")

    def __init__(self, state: State) -> None:
        self.state, self.leader = state, state.leader
        self.isr_mask, self.elr_mask = mask_of(state.isr), mask_of(state.elr)
        self.mask = mask_of(
            b for b in (*state.replicas, *state.isr, *state.elr, *state.last_known) if b != NO_LEADER
        )
        self.full = len(state.isr) == len(state.replicas)
        self.balanced = state.leader == state.replicas[0]
        self.steps: dict[tuple[Any, int], Step | None] = {}


class Step(NamedTuple):
    """The record's bytes after the partition's name (None: no record), and the state afterwards."""

    tail: bytes | None
    after: Node
    bumps: int


class Question(NamedTuple):
    """A decision's name, and its broker (``of``) or list of brokers (``members``)."""

    decision: str
    min_isr: int
    unclean: bool
    of: int = NO_LEADER
    members: Ids = ()


class Rules:
    """The cached decisions of one controller. ``version`` is that of PartitionChangeRecord."""

    def __init__(self, rules: frozenset[str], version: int, directories: Sequence[str]) -> None:
        self._rules, self._version, self._directories = rules, version, directories
        self._nodes: dict[State, Node] = {}
        self._answers: dict[Any, tuple[dict[str, Any], frozenset[str]] | None] = {}

    def node(self, state: State) -> Node:
        """The only node of a state."""
        found = self._nodes.get(state)
        if found is None:
            found = self._nodes[state] = Node(state)
        return found

    def step(self, node: Node, question: Question, active: int) -> Step | None:
        """The step for a question, given the mask of active brokers; None if the request is refused."""
        key = (question, active & (node.mask | mask_of(question.members)))
        if key not in node.steps:
            node.steps[key] = self._step(node, question, active)
        return node.steps[key]

    def created(self, replicas: Ids, active: int) -> Node:
        flags = [_registration(bool(active >> b & 1)) for b in replicas]
        slots = list(range(len(replicas)))
        new = decisions_in_full(len(slots), self._rules).new_partition(replicas=slots, registrations=flags)
        isr = tuple(replicas[s] for s in slots if s in new["isr"])
        leader = NO_LEADER if new["leader"] is None else replicas[new["leader"]]
        return self.node(State(replicas, isr, leader=leader))

    def _step(self, node: Node, question: Question, active: int) -> Step | None:
        state = node.state
        brokers = _brokers(state, question)
        slots = {broker: slot for slot, broker in enumerate(brokers)}
        asked = question._replace(
            of=slots.get(question.of, NO_LEADER), members=tuple(slots[b] for b in question.members)
        )
        there = State(
            _renamed(state.replicas, slots),
            tuple(sorted(_renamed(state.isr, slots))),
            tuple(sorted(_renamed(state.elr, slots))),
            _renamed(state.last_known, slots),
            slots.get(state.leader, NO_LEADER),
            state.recovering,
            tuple(sorted(_renamed(state.adding, slots))),
            tuple(sorted(_renamed(state.removing, slots))),
        )
        flags = tuple(bool(active >> b & 1) for b in brokers)
        key = (there, asked, flags)
        if key not in self._answers:
            self._answers[key] = self._ask(there, asked, flags)
        answer = self._answers[key]
        if answer is None:
            return None
        after, written = answer
        if not written:
            return Step(None, node, 0)
        isr = {brokers[s] for s in after["isr"]}
        order = [b for b in (question.members if question.decision == "alter" else state.isr) if b in isr]
        last_known = after["last_known_leader"]
        new = State(
            tuple(brokers[s] for s in after["replicas"]),
            (*order, *sorted(isr.difference(order))),
            tuple(sorted(brokers[s] for s in after["elr"])),
            () if last_known is None else (NO_LEADER if last_known < 0 else brokers[last_known],),
            NO_LEADER if after["leader"] is None else brokers[after["leader"]],
            after["leader_recovery_state"] == "RECOVERING",
            tuple(sorted(brokers[s] for s in after["adding"])),
            tuple(sorted(brokers[s] for s in after["removing"])),
        )
        return Step(self._tail(new, written), self.node(new), int("leader" in written))

    def _ask(
        self, state: State, asked: Question, flags: tuple[bool, ...]
    ) -> tuple[dict[str, Any], frozenset[str]] | None:
        """The partition after a decision and the written fields, in slots; None if it is refused."""
        rules = decisions_in_full(len(flags), self._rules)
        last_known = state.last_known[0] if state.last_known else None
        inputs: dict[str, Any] = {
            "partition": {
                "replicas": list(state.replicas),
                "adding": list(state.adding),
                "removing": list(state.removing),
                "isr": list(state.isr),
                "elr": list(state.elr),
                "last_known_elr": [],
                "last_known_leader": last_known,
                "leader": None if state.leader == NO_LEADER else state.leader,
                "leader_epoch": 0,
                "partition_epoch": 0,
                "leader_recovery_state": "RECOVERING" if state.recovering else "RECOVERED",
            },
            "registrations": [_registration(is_active) for is_active in flags],
            "min_isr": asked.min_isr,
            "unclean_election": asked.unclean,
        }
        if "offline" in rules.t.partition.fields:
            inputs["partition"]["offline"] = []
        match asked.decision:
            case "leave":
                found = rules.fencing(**inputs, broker=asked.of)
            case "register" | "restart":
                clean = asked.decision == "restart"
                found = rules.registration(**inputs, broker=asked.of, clean=clean, same_incarnation=False)
            case "unfence":
                found = rules.unfencing(**inputs, broker=asked.of)
            case "balance":
                found = rules.balance_task(**inputs)
            case "reassign":
                found = rules.reassign(
                    **inputs, target=list(asked.members), partition_known=True, factor_may_change=True
                )
            case "cancel":
                found = rules.cancel(**inputs, partition_known=True)
            case "alter":
                request = {
                    "version": 3,
                    "broker": state.leader,
                    "broker_epoch": 0,
                    "leader_epoch": 0,
                    "partition_epoch": 0,
                    "new_isr": [{"broker": s, "epoch": 0} for s in asked.members],
                    "leader_recovery_state": "RECOVERED",
                }
                found = rules.alter_partition(
                    **inputs, request=request, topic_known=True, partition_known=True
                )
            case _:
                raise ValueError(f"no decision is called {asked.decision!r}")
        if "checks" in found and found["checks"].answer != "NONE":
            return None
        return found["after"], frozenset(name for name, is_written in found["written"].items() if is_written)

    def _tail(self, new: State, written: Iterable[str]) -> bytes:
        values: dict[str, tuple[str, Any]] = {
            "isr": ("isr", list(new.isr)),
            "leader": ("leader", new.leader),
            "replicas": ("replicas", list(new.replicas)),
            "removing": ("removingReplicas", list(new.removing)),
            "adding": ("addingReplicas", list(new.adding)),
            "leader_recovery_state": ("leaderRecoveryState", int(new.recovering)),
            "elr": ("eligibleLeaderReplicas", list(new.elr)),
            "last_known_leader": ("lastKnownElr", list(new.last_known)),
        }
        data: dict[str, Any] = {"partitionId": 0, "topicId": "A" * 22}
        data.update(values[name] for name in written)
        if "replicas" in written:
            data["directories"] = [self._directories[b] for b in new.replicas]
        return encode("PARTITION_CHANGE_RECORD", self._version, data)[NAMED_TO:]


def mask_of(brokers: Iterable[int]) -> int:
    mask = 0
    for broker in brokers:
        mask |= 1 << broker
    return mask


def _brokers(state: State, question: Question) -> list[int]:
    """The brokers of the slots: the replicas in order, then the others.

    Reassignments write removed replicas in numeric order, so their slots are in numeric order too.
    """
    others = {*state.isr, *state.elr, *state.last_known, *question.members, state.leader, question.of}
    brokers = [*state.replicas, *sorted(others - {*state.replicas, NO_LEADER})]
    return sorted(brokers) if question.decision in ("reassign", "cancel") else brokers


def _renamed(brokers: Ids, slots: dict[int, int]) -> Ids:
    return tuple(slots.get(b, NO_LEADER) for b in brokers)


def _registration(active: bool) -> dict[str, Any]:
    return {"registered": True, "epoch": 0, "fenced": not active, "in_controlled_shutdown": False}
