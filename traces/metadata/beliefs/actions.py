"""The controller's actions on one partition: a Stepper with as many brokers, epochs and settings as a log can have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

from highwater.invariants.replication.controller import EXPLORED, INVARIANTS
from highwater.invariants.replication.observed import CONDITIONS, FINDINGS
from highwater.invariants.replication.promises import is_promised
from highwater.model.language.function import encoder
from highwater.model.language.model import Scalars
from highwater.model.language.protocol import Invariant
from highwater.model.language.state import State
from highwater.model.language.step import Stepper, TracedStep
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.types import ElectionType

MAX_BROKERS = Controller.parameters["brokers"].high
"""The most brokers that one partition can concern: its replicas, and those that it is moved to."""

MAX_ENTRIES = 4
"""The most entries of a broker in the controller's index of a partition's ELR."""

PROPERTIES: tuple[Invariant, ...] = (*(p for p in INVARIANTS if p not in EXPLORED), *FINDINGS, *CONDITIONS)
"""The properties that every state is checked for."""


class Hypothesis(NamedTuple):
    """An action with its parameters, which can explain an observation; brokers are slots 0, 1, ….

    A set is a tuple in ascending order. ``values`` are in the order of the action's parameters.
    """

    action: str
    values: tuple[Any, ...] = ()


class ControllerStepper(Stepper):
    """The controller with ``slots`` brokers under a set of rules.

    Epochs are relative: a state has them at 0, and a step shows by how much they grow. ``partition`` is the place of
    the partition among the scalars.
    """

    protocol: Controller

    def __init__(self, slots: int, rules: frozenset[str]) -> None:
        self.slots, self.rules = slots, rules
        sizes = {
            "brokers": slots,
            "min_isr": 1,
            "max_min_isr": MAX_BROKERS,
            "reassignments": 1,
            "unclean_election": 2,
            "resumed_shutdowns": 1,
            "leads_elsewhere": 1,
            "first_partition_replicas": MAX_BROKERS,
            "removals": 1,
            "directories": 2,
            "failovers": 1,
            "max_elr_entries": MAX_ENTRIES,
            "max_broker_epoch": 1,
            "max_leader_epoch": 1 + MAX_ENTRIES,
            "max_partition_epoch": 1 + MAX_ENTRIES,
        }
        protocol = Controller(sizes, rules)
        super().__init__(
            protocol,
            {"target_choice": protocol.t.replicas, "election_choice": ElectionType},
            {"alter_partition": "isr", "reassign": "target"},
        )
        self.paths = tuple(leaf.path for leaf in self.leaves)
        self.partition = self.place("partition")
        self._entries = self.place("elr_entries") if protocol.has_index else slice(0)
        first, size = self.place("registrations").start, protocol.t.registration.leaf_count
        self._registrations = [slice(first + size * i, first + size * (i + 1)) for i in range(slots)]
        self._epochs = [i for i, path in enumerate(self.paths) if path.endswith("epoch")]
        self._encode_partition = encoder(protocol.t.partition)
        self._has_offline = "offline" in protocol.t.partition.fields
        self._holds = self.functions([partial(self._property, p) for p in PROPERTIES])

    def taken(self, hypothesis: Hypothesis) -> TracedStep | None:
        """The step of a hypothesis; None if it can never be taken."""
        return self.step(hypothesis.action, hypothesis.values)

    def encode(self, plain: Mapping[str, Any]) -> Scalars:
        """A state from plain values; what the log does not show, and is not given, is as it is at first."""
        partition = plain["partition"]
        hidden: dict[str, Any] = {"partition": {"offline": [], **partition}}
        if self.protocol.has_index and "elr_entries" not in plain:
            hidden["elr_entries"] = [int(slot in partition["elr"]) for slot in range(self.slots)]
        return super().encode({**plain, **hidden})

    def encode_partition(self, plain: Mapping[str, Any]) -> Scalars:
        """A partition from plain values, as its part of a state's scalars."""
        scalars: list[int] = []
        self._encode_partition({"offline": [], **plain}, scalars)
        return tuple(scalars)

    def with_offline(self, state: Scalars, offline: Iterable[int]) -> Scalars:
        """A state in which the replicas of these slots, and no others, are in offline log directories."""
        if not self._has_offline:
            return state
        plain = self.decode(state)
        plain["partition"]["offline"] = list(offline)
        return self.encode(plain)

    def flags(self, state: Scalars, slot: int) -> tuple[bool, bool, bool]:
        """True if the broker of a slot is registered, fenced, and in controlled shutdown."""
        registered, _, fenced, in_controlled_shutdown = state[self._registrations[slot]]
        return bool(registered), bool(fenced), bool(in_controlled_shutdown)

    def entries(self, state: Scalars) -> Scalars:
        """The number of entries of each slot's broker in the index of ELR members; empty if that is no state."""
        return state[self._entries]

    def with_entries(self, state: Scalars, entries: Scalars) -> Scalars:
        """A state with another index."""
        return (*state[: self._entries.start or 0], *entries, *state[self._entries.stop :])

    def without_epochs(self, state: Scalars) -> Scalars:
        """The state with its epochs at 0 again."""
        after = list(state)
        for leaf in self._epochs:
            after[leaf] = 0
        return tuple(after)

    def violated(self, state: Scalars) -> frozenset[str]:
        """The names of the properties that do not hold in a state."""
        return frozenset(p.name for p, holds in zip(PROPERTIES, self._holds(state), strict=True) if not holds)

    def _property(self, stated: Invariant, protocol: Controller, s: State) -> Any:
        """A property; true if it does not exist under these rules, or is not promised."""
        exists = stated.rule is None or stated.rule in self.rules
        promised = exists and (stated in CONDITIONS or is_promised(stated, self.rules))
        return stated.function(protocol, s) if promised else True


@lru_cache(maxsize=64)
def controller_stepper(slots: int, rules: frozenset[str]) -> ControllerStepper:
    """The controller's actions; traced once for a number of slots and a set of rules."""
    return ControllerStepper(slots, rules)
