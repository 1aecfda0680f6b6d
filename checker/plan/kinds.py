"""The partitions of a cluster by kind: partitions of a kind differ in nothing that a plan or a fault can tell apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from highwater.checker.base.problems import InputError
from highwater.checker.plan.steps import OwnPlan, Plan, SlotStep, own_plan
from highwater.model.language.initial import Scalars
from highwater.model.replication.controller.planned import Planned
from highwater.traces.metadata.beliefs.belief_states import BeliefState, BeliefStates
from highwater.traces.metadata.beliefs.controller_stepper import MAX_BROKERS, MAX_ENTRIES, encode
from highwater.traces.metadata.image import Image, Partition

_STEPS = 4
"""Models have room for a multiple of so many steps, so that different plans share them."""
MOST_FAULTS = Planned.parameters["faults"].high


@dataclass(frozen=True)
class Shape:
    """The sizes of a model: all partitions of one shape are explored by one model.

    ``elr`` is the level of the ELR feature if the plan changes it; None if it does not.
    """

    slots: int
    steps: int
    faults: int
    rules: frozenset[str]
    elr: bool | None = None

    def protocol(self, partitions: int = 1) -> Planned:
        """The protocol of this shape."""
        return Planned(
            {
                "brokers": self.slots,
                "min_isr": 1,
                "max_min_isr": MAX_BROKERS,
                "unclean_election": 2,
                "leads_elsewhere": 1,
                "first_partition_replicas": MAX_BROKERS,
                "removals": 1,
                "reassignments": 1,
                "directories": 1,
                "failovers": 1,
                "elr_changes": 0 if self.elr is None else 1,
                "max_elr_entries": MAX_ENTRIES,
                "max_broker_epoch": 0,
                "max_leader_epoch": 1 + MAX_ENTRIES,
                "max_partition_epoch": 1 + MAX_ENTRIES,
                "steps": self.steps,
                "faults": self.faults,
                "partitions": partitions,
            },
            self.rules,
        )


@dataclass(frozen=True)
class PlanStart:
    """A state in which a partition can be when a plan begins, as plain values without the partition's number.

    ``settings`` are min.insync.replicas and unclean election in this state.
    """

    shape: Shape
    scalars: Scalars
    settings: tuple[int, bool]


@dataclass
class PartitionKind:
    """Partitions with equal states and equal parts of the plan; brokers are slots.

    - ``partitions``: the partitions, each with the brokers of its slots
    - ``starts``: the possible states under the plan
    - ``alone``: the same states without the plan
    """

    own: OwnPlan
    belief: BeliefState
    starts: tuple[PlanStart, ...] = ()
    alone: tuple[PlanStart, ...] = ()
    partitions: list[tuple[Partition, tuple[int, ...]]] = field(default_factory=list)

    @cached_property
    def settings(self) -> set[tuple[int, bool]]:
        """The settings that are possible."""
        return {start.settings for start in self.starts}


@dataclass
class ObservedCluster:
    """A cluster at the end of its metadata log.

    - ``rules``: those that its controllers follow from now on
    - ``assumed``: min.insync.replicas and unclean election where the log does not have them; None: any value
    - ``as_of``: the time of the last record
    - ``doubts``, ``notes``: what is not known about the cluster, and what was noted about the log, in sentences
    """

    image: Image
    beliefs: BeliefStates
    rules: frozenset[str]
    profile: str
    assumed: tuple[int | None, bool | None] = (None, None)
    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    as_of: str = ""

    def kinds(self, plan: Plan, faults: int) -> list[PartitionKind]:
        """The kinds of all partitions. Raises InputError if a partition is too large for the model."""
        found: dict[Any, PartitionKind] = {}
        for partition in self.image.of_topics():
            own = own_plan(plan, partition, self.image)
            more = tuple(b for b in own.slots if b not in partition.binding.slots)
            flags = tuple(self.image.flags(b) for b in more)
            kind = found.get(key := (partition.belief, own.steps, own.target, own.order(partition), flags))
            if kind is None:
                if len(own.slots) > MAX_BROKERS:
                    raise InputError(
                        f"{partition.name}: more than {MAX_BROKERS} brokers are concerned with it"
                    )
                belief, brokers = (
                    self.beliefs.widened(partition.belief, flags),
                    (*partition.binding.brokers, *more),
                )
                order = tuple(brokers.index(b) for b in own.slots)
                kind = found[key] = PartitionKind(own, self.beliefs.renumbered(belief, order))
            kind.partitions.append((partition, own.slots))
        kinds = list(found.values())
        elr = next((not s.value for s in plan.steps if s.kind == "CHANGE_ELR_LEVEL"), None)
        for slots in {kind.belief.slots for kind in kinds}:
            same = [kind for kind in kinds if kind.belief.slots == slots]
            steps = max(len(kind.own.steps) for kind in same)
            shape = Shape(slots, -(-max(1, steps) // _STEPS) * _STEPS, faults, self.rules, elr)
            for kind in same:
                kind.starts = self._starts(shape, kind.belief, kind.own)
                kind.alone = self._starts(shape, kind.belief, OwnPlan((), (), kind.own.slots))
        return kinds

    def _starts(self, shape: Shape, belief: BeliefState, own: OwnPlan) -> tuple[PlanStart, ...]:
        decode = self.beliefs.actions(belief.slots).decode
        found = list(dict.fromkeys(_start(shape, decode(state), own) for state in belief.states))
        for place, value in enumerate(self.assumed):  # an assumption counts if the log allows it
            found = [s for s in found if value is None or s.settings[place] == value] or found
        return tuple(found)


def _start(shape: Shape, plain: dict[str, Any], own: OwnPlan) -> PlanStart:
    protocol, registrations = _protocol(shape), plain["registrations"]
    steps = own.steps + (SlotStep("STOP"),) * (shape.steps - len(own.steps))
    state = {
        **plain,
        "process": [_process(r) for r in registrations],
        "returning": [slot for slot, r in enumerate(registrations) if r["registered"]],
        "plan": [vars(step) for step in steps],
        "length": len(own.steps),
        "taken": 0,
        "target": list(own.target),
        "faults_left": shape.faults,
        "diminished": True,
        "elr_on": bool(shape.elr),
        "lost": False,
        "unclean": False,
        "number": 0,
    }
    return PlanStart(
        shape, encode(protocol, state), (plain["min_insync_replicas"], plain["unclean_election"])
    )


def _process(registration: Mapping[str, Any]) -> str:
    """A broker's process, as far as its registration shows it."""
    if registration["fenced"] or not registration["registered"]:
        return "DOWN"
    return "STOPPING" if registration["in_controlled_shutdown"] else "UP"


@lru_cache(maxsize=64)
def _protocol(shape: Shape) -> Planned:
    return shape.protocol()
