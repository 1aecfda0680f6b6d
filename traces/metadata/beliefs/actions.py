"""The controller's actions on one partition, traced and compiled one by one as they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from highwater.invariants.replication.controller import EXPLORED, INVARIANTS
from highwater.invariants.replication.observed import CONDITIONS, FINDINGS, is_promised
from highwater.model.language import graph
from highwater.model.language.function import encoder
from highwater.model.language.interpreter import Evaluate, compile_nodes
from highwater.model.language.model import Instance, Scalars, state_inputs, trace_instance
from highwater.model.language.protocol import Invariant
from highwater.model.language.state import State
from highwater.model.language.tracing import tracing
from highwater.model.language.types import Bool, Option
from highwater.model.language.values import as_bool
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.types import ElectionType

MAX_BROKERS = Controller.parameters["brokers"].high
"""So many brokers can be concerned with one partition at a time: replicas, and those that it is moved to."""

MAX_ENTRIES = 4
"""So often a broker can be in the controller's index of a partition's ELR."""

PROPERTIES: tuple[Invariant, ...] = (*(p for p in INVARIANTS if p not in EXPLORED), *FINDINGS, *CONDITIONS)
"""What is asked of every state."""


class Hypothesis(NamedTuple):
    """An action with its parameters, which can explain an observation; brokers are slots 0, 1, ….

    A set is a tuple in ascending order. ``values`` are in the order of the action's parameters.
    """

    action: str
    values: tuple[Any, ...] = ()


class _Functions:
    """An action's guards and effects as functions of scalars, compiled when they are first asked for."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance

    @cached_property
    def enabled(self) -> Evaluate:
        return compile_nodes([self.instance.enabled])

    @cached_property
    def guards(self) -> Evaluate:
        return compile_nodes([g.node for g in self.instance.guards])

    @cached_property
    def writes(self) -> Evaluate:
        return compile_nodes([w.node for w in self.instance.writes.values()])


class CompiledAction:
    """An action with its parameters fixed, as functions of a state's scalars.

    ``arguments`` are the scalars of a parameter that is an input of the functions, besides the state.
    """

    def __init__(self, functions: _Functions, arguments: Scalars = ()) -> None:
        self.instance, self._functions, self._arguments = functions.instance, functions, arguments

    def enabled(self, state: Scalars) -> bool:
        """Whether every guard holds."""
        return bool(self._functions.enabled(state + self._arguments)[0])

    def refusals(self, state: Scalars) -> tuple[str, ...]:
        """The names of the guards that do not hold."""
        results = self._functions.guards(state + self._arguments)
        return tuple(g.name for g, holds in zip(self.instance.guards, results, strict=True) if not holds)

    def guards(self) -> tuple[str, ...]:
        """The names of the guards."""
        return tuple(g.name for g in self.instance.guards)

    def after(self, state: Scalars) -> Scalars:
        """The state after it; where a guard does not hold, what it would be."""
        after = list(state)
        written = self._functions.writes(state + self._arguments)
        for leaf, value in zip(self.instance.writes, written, strict=True):
            after[leaf] = int(value)
        return tuple(after)


_AS_INPUT = {"alter_partition": "isr", "reassign": "target"}
"""Parameters with so many values that an action is compiled once for all of them."""


class ControllerActions:
    """The controller with ``slots`` brokers under a set of rules.

    Epochs are relative: a state has them at 0, and a step shows by how much they grow. ``partition`` is the place of
    the partition among the scalars.
    """

    def __init__(self, slots: int, rules: frozenset[str]) -> None:
        self.slots, self.rules = slots, rules
        self.protocol = Controller(
            {
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
            },
            rules,
        )
        self.leaves = self.protocol.state.leaves("")
        self.paths = tuple(leaf.path for leaf in self.leaves)
        self.inputs = state_inputs(self.leaves)
        self._by_name = {a.name: a for a in self.protocol.actions() if a.rule is None or a.rule in rules}
        self._compiled: dict[Hypothesis, CompiledAction | None] = {}
        self._functions: dict[Hypothesis, _Functions | None] = {}
        self.partition = slice(*self._places("partition"))
        first, size = self._places("registrations")[0], self.protocol.t.registration.leaf_count
        has_index = self.protocol.has_index
        self._entries = slice(*self._places("elr_entries")) if has_index else slice(0)
        self._registrations = [slice(first + size * i, first + size * (i + 1)) for i in range(slots)]
        self._epochs = [i for i, leaf in enumerate(self.leaves) if leaf.path.endswith("epoch")]
        self._properties = self._trace_properties()
        self._encode = encoder(self.protocol.state)
        self._encode_partition = encoder(self.protocol.t.partition)

    def names(self) -> frozenset[str]:
        """The actions that exist under these rules."""
        return frozenset(self._by_name)

    def compiled(self, hypothesis: Hypothesis) -> CompiledAction | None:
        """An action, compiled when it is first asked for; None where it can never be taken."""
        if hypothesis not in self._compiled:
            values = dict(zip(self._by_name[hypothesis.action].domains, hypothesis.values, strict=True))
            name = _AS_INPUT.get(hypothesis.action)
            lifted = {n: self._lift(n, value) for n, value in values.items()}
            arguments: Scalars = ()
            if name is not None:
                given = lifted[name]
                arguments = tuple(node.value for node in given.nodes)
                leaves, start = given.type.leaves(name), len(self.leaves)
                lifted[name] = given.type.wrap(
                    [graph.leaf(start + i, x.sort, x.low, x.high) for i, x in enumerate(leaves)]
                )
                values[name] = None
            functions = self._traced(Hypothesis(hypothesis.action, tuple(values.values())), lifted)
            self._compiled[hypothesis] = None if functions is None else CompiledAction(functions, arguments)
        return self._compiled[hypothesis]

    def _traced(self, hypothesis: Hypothesis, lifted: Mapping[str, Any]) -> _Functions | None:
        if hypothesis not in self._functions:
            action = self._by_name[hypothesis.action]
            pairs = {
                n: (lifted[n], value) for n, value in zip(action.domains, hypothesis.values, strict=True)
            }
            instance = trace_instance(self.protocol, self.leaves, self.inputs, action, pairs)
            self._functions[hypothesis] = None if instance is None else _Functions(instance)
        return self._functions[hypothesis]

    def _lift(self, name: str, value: Any) -> Any:
        t = self.protocol.t
        match name:
            case "isr":
                return t.brokers.lift(set(value))
            case "stale":
                return Option(t.broker).lift(value)
            case "broker" | "winner":
                return t.broker.lift(value)
            case "clean":
                return Bool.lift(value)
            case "election":
                return ElectionType.lift(value)
            case "target":
                return t.replicas.lift(list(value))
        return value

    def encode(self, plain: Mapping[str, Any]) -> Scalars:
        """A state from plain values."""
        scalars: list[int] = []
        self._encode(self._with_hidden(plain), scalars)
        return tuple(scalars)

    def _with_hidden(self, plain: Mapping[str, Any]) -> Mapping[str, Any]:
        """With what these rules have and the log does not show, where it is not given: as it is at first."""
        partition = plain["partition"]
        hidden: dict[str, Any] = {"partition": self._partition_with_hidden(partition)}
        if self.protocol.has_index and "elr_entries" not in plain:
            hidden["elr_entries"] = [int(slot in partition["elr"]) for slot in range(self.slots)]
        return {**plain, **hidden}

    def _partition_with_hidden(self, plain: Mapping[str, Any]) -> Mapping[str, Any]:
        has_offline = "offline" in self.protocol.t.partition.fields
        found = {"offline": [], **plain}
        return found if has_offline else {name: v for name, v in found.items() if name != "offline"}

    def with_offline(self, state: Scalars, offline: Iterable[int]) -> Scalars:
        """A state whose replicas of these slots, and no others, are in log directories that are offline."""
        if "offline" not in self.protocol.t.partition.fields:
            return state
        plain = self.decode(state)
        plain["partition"]["offline"] = list(offline)
        return self.encode(plain)

    def flags(self, state: Scalars, slot: int) -> tuple[bool, bool, bool]:
        """Whether the broker of a slot is registered, fenced, and in controlled shutdown."""
        registered, _, fenced, in_controlled_shutdown = state[self._registrations[slot]]
        return bool(registered), bool(fenced), bool(in_controlled_shutdown)

    def entries(self, state: Scalars) -> Scalars:
        """How often each slot's broker is in the controller's index of ELR members; empty where that is no state."""
        return state[self._entries]

    def with_entries(self, state: Scalars, entries: Scalars) -> Scalars:
        """A state with another index."""
        return (*state[: self._entries.start or 0], *entries, *state[self._entries.stop :])

    def encode_partition(self, plain: Mapping[str, Any]) -> Scalars:
        """A partition from plain values, as its part of a state's scalars."""
        scalars: list[int] = []
        self._encode_partition(self._partition_with_hidden(plain), scalars)
        return tuple(scalars)

    def _places(self, field: str) -> tuple[int, int]:
        """Where a field of the state begins and ends among its scalars."""
        start = 0
        for name, type_ in self.protocol.state.fields.items():
            if name == field:
                return start, start + type_.leaf_count
            start += type_.leaf_count
        raise KeyError(field)

    def decode(self, state: Sequence[int]) -> dict[str, Any]:
        """A state as plain values."""
        return self.protocol.state.decode(state)

    def without_epochs(self, state: Scalars) -> Scalars:
        """The state with its epochs at 0 again."""
        after = list(state)
        for leaf in self._epochs:
            after[leaf] = 0
        return tuple(after)

    def violated(self, state: Scalars) -> frozenset[str]:
        """The names of the properties that do not hold in a state."""
        results = self._properties(state)
        return frozenset(p.name for p, holds in zip(PROPERTIES, results, strict=True) if not holds)

    def _trace_properties(self) -> Evaluate:
        nodes: list[graph.Node] = []
        for found in PROPERTIES:
            with tracing(self.protocol.on):
                # What does not exist under these rules, or is not promised, is not asked.
                exists = found.rule is None or found.rule in self.rules
                asked = exists and (found in CONDITIONS or is_promised(found, self.rules))
                state = State(self.protocol.state, self.inputs)
                holds = found.function(self.protocol, state) if asked else True
                nodes.append(as_bool(holds).node)
        return compile_nodes(nodes)


@lru_cache(maxsize=64)
def controller_actions(slots: int, rules: frozenset[str]) -> ControllerActions:
    """The controller's actions; traced once for a number of slots and a set of rules."""
    return ControllerActions(slots, rules)
