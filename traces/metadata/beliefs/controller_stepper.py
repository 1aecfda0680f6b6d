"""The model's controller on one partition, with as many brokers and settings as a metadata log can have.

The interpreter runs a model whose action instances are all traced. A replay uses few instances of a large model, so
``ControllerStepper`` traces an instance on its first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from highwater.invariants.replication.controller import EXPLORED, INVARIANTS
from highwater.invariants.replication.observed import CONDITIONS, FINDINGS, is_guaranteed
from highwater.model.language import graph
from highwater.model.language.errors import LanguageError
from highwater.model.language.graph import Evaluate, Node, compile_nodes
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import TracedStep
from highwater.model.language.model import Instance, state_inputs, trace_instance
from highwater.model.language.protocol import Invariant
from highwater.model.language.state import State
from highwater.model.language.tracing import tracing
from highwater.model.language.types import Type, Value
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.types import ElectionType

MAX_BROKERS = Controller.parameters["brokers"].high
"""The most brokers that one partition can have in the model: its replicas, and the targets of a reassignment."""

MAX_ENTRIES = 4
"""The most entries for one broker and partition in the controller's ELR index that the model distinguishes."""

MAX_STEPS = 5_000
"""The most cached steps of one ``ControllerStepper``."""

INPUTS = {"alter_partition": "isr", "reassign": "target"}
"""By action, its parameter with very many values. The action is traced once for all values of this parameter."""

PROPERTIES: tuple[Invariant, ...] = (*(p for p in INVARIANTS if p not in EXPLORED), *FINDINGS, *CONDITIONS)
"""The properties that every state is checked for."""


class Hypothesis(NamedTuple):
    """An action with its parameters, which can explain an observation. Brokers are slots 0, 1, ….

    A set is a tuple in ascending order. ``values`` are in the order of the action's parameters.
    """

    action: str
    values: tuple[Any, ...] = ()


def encode(protocol: Controller, plain: Mapping[str, Any]) -> Scalars:
    """The scalars of a state given as plain values. Fields that the state type lacks are ignored.

    Missing hidden variables have their initial values. Missing ``elr_entries`` are one entry for each ELR member.
    """
    known, partition = protocol.state.fields, plain["partition"]
    hidden: dict[str, object] = {"partition": {"offline": [], **partition}}
    if protocol.has_index and "elr_entries" not in plain:
        hidden["elr_entries"] = [int(slot in partition["elr"]) for slot in range(protocol.p.brokers)]
    return protocol.state.encode(
        {name: value for name, value in {**plain, **hidden}.items() if name in known}
    )


class ControllerStepper:
    """The controller's actions on one partition with ``slots`` brokers, under a set of rules.

    All epochs are relative: leader, partition and broker epochs are 0 in a state, and a step shows by how much they
    grow. ``partition`` is the slice of the partition's scalars in a state.
    """

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
        self.protocol = protocol = Controller(sizes, rules)
        self._leaves = protocol.state.leaves("")
        self._nodes = state_inputs(self._leaves)
        # A look-up in the long lists of the protocol is slow; these types have the same values.
        self._types: dict[str, Type] = {"target_choice": protocol.t.replicas, "election_choice": ElectionType}
        self._actions = {a.name: a for a in protocol.actions() if protocol.has(a)}
        self._traced: dict[Hypothesis, tuple[Instance, dict[str, Evaluate | None]] | None] = {}
        self.paths = tuple(leaf.path for leaf in self._leaves)
        self._places = {name: protocol.state.field(name)[0] for name in protocol.state.fields}
        self.partition = self._places["partition"]
        self._entries = self._places["elr_entries"] if protocol.has_index else slice(0)
        first, size = self._places["registrations"].start, protocol.t.registration.leaf_count
        self._registrations = [slice(first + size * i, first + size * (i + 1)) for i in range(slots)]
        self._epochs = [i for i, path in enumerate(self.paths) if path.endswith("epoch")]

        self._has_offline = "offline" in protocol.t.partition.fields
        self.step = cache(self._step)
        self.after = lru_cache(maxsize=MAX_STEPS)(self._after)
        self._holds = self._compile_properties()

    # --- steps ----------------------------------------------------------------------------------------

    def has(self, action: str) -> bool:
        """True if the action exists under the rules."""
        return action in self._actions

    def _after(self, hypothesis: Hypothesis, state: Scalars) -> Scalars | None:
        """The state after the step of a hypothesis; None if it cannot be taken."""
        step = self.step(hypothesis)
        return None if step is None or not step.enabled(state) else step.after(state)

    def _step(self, hypothesis: Hypothesis) -> TracedStep | None:
        """The step of a hypothesis.

        None if the action does not exist, a value is outside its domain, or a guard is always false for these values.
        """
        name = hypothesis.action
        if name not in self._actions:
            return None
        action, arguments, key = self._actions[name], (), list(hypothesis.values)
        chosen: dict[str, tuple[Any, Any]] = {}
        for place, (parameter, attribute) in enumerate(action.domains.items()):
            try:
                value = self._lift(attribute, hypothesis.values[place])
            except LanguageError:
                return None
            if parameter == INPUTS.get(name):
                arguments, key[place] = tuple(node.value for node in value.nodes), None
                leaves, start = value.type.leaves(parameter), len(self._leaves)
                value = value.type.wrap(
                    [graph.leaf(start + i, x.sort, x.low, x.high) for i, x in enumerate(leaves)]
                )
            chosen[parameter] = value, key[place]
        traced = Hypothesis(name, tuple(key))
        if traced not in self._traced:
            instance = trace_instance(self.protocol, self._leaves, self._nodes, action, chosen)
            self._traced[traced] = None if instance is None else (instance, {})
        found = self._traced[traced]
        return None if found is None else TracedStep(*found, arguments)

    def _lift(self, attribute: str, plain: object) -> Any:
        """The value that an action function takes for a parameter's plain value.

        Raises LanguageError if the value is not in the domain, which the protocol has as ``attribute``.
        """
        domain = self._types.get(attribute) or getattr(self.protocol, attribute)
        if isinstance(domain, Type):
            return domain.lift(plain)
        for value in domain:
            if value == plain if not isinstance(value, Value) else value._plain() == plain:
                return value
        raise LanguageError(f"{plain!r} is none of {attribute}")

    # --- states ---------------------------------------------------------------------------------------

    def encode(self, plain: Mapping[str, Any]) -> Scalars:
        """The scalars of a state, as the function ``encode`` returns them."""
        return encode(self.protocol, plain)

    def encode_partition(self, plain: Mapping[str, Any]) -> Scalars:
        """The scalars of a partition given as plain values, as a part of a state's scalars."""
        return self.protocol.t.partition.encode({"offline": [], **plain})

    def decode(self, state: Sequence[int]) -> dict[str, Any]:
        """The plain state that has these scalars."""
        return self.protocol.state.decode(state)

    def with_offline(self, state: Scalars, offline: Iterable[int]) -> Scalars:
        """The state with exactly the replicas of these slots offline; unchanged if the rules have no directories."""
        if not self._has_offline:
            return state
        plain = self.decode(state)
        plain["partition"]["offline"] = list(offline)
        return self.encode(plain)

    def flags(self, state: Scalars, slot: int) -> tuple[bool, bool, bool]:
        """The flags of the broker in a slot: registered, fenced, in controlled shutdown."""
        registered, _, fenced, in_controlled_shutdown = state[self._registrations[slot]]
        return bool(registered), bool(fenced), bool(in_controlled_shutdown)

    def entries(self, state: Scalars) -> Scalars:
        """For each slot, the number of index entries that its broker has in the controller's index of ELR members.

        Empty if the rules have no such index.
        """
        return state[self._entries]

    def with_entries(self, state: Scalars, entries: Scalars) -> Scalars:
        """The state with these numbers of index entries."""
        return (*state[: self._entries.start or 0], *entries, *state[self._entries.stop :])

    def renumbered(
        self, before: ControllerStepper, state: Scalars, order: Sequence[int], partition: Mapping[str, Any]
    ) -> Scalars:
        """Convert a state of the stepper ``before``: its slots are renumbered, and its partition is replaced.

        ``order`` has the old slot of each new slot. ``partition`` is the new partition as plain values.
        """
        scalars: list[int] = []
        for name, type_ in before.protocol.state.fields.items():
            own = state[before._places[name]]
            if name == "registrations":
                for slot in order:
                    scalars += state[before._registrations[slot]]
            elif name == "elr_entries":
                scalars += [own[slot] for slot in order]
            elif name == "partition":
                scalars += self.encode_partition(partition)
            elif name == "complete":
                complete = set(type_.decode(own))
                scalars += type_.encode([new for new, slot in enumerate(order) if slot in complete])
            else:
                scalars += own
        return tuple(scalars)

    def without_epochs(self, state: Scalars) -> Scalars:
        """The state with its epochs set to 0."""
        after = list(state)
        for leaf in self._epochs:
            after[leaf] = 0
        return tuple(after)

    # --- properties -----------------------------------------------------------------------------------

    def violated(self, state: Scalars) -> frozenset[str]:
        """The names of the properties that do not hold in the state."""
        return frozenset(p.name for p, holds in zip(PROPERTIES, self._holds(state), strict=True) if not holds)

    def _compile_properties(self) -> Evaluate:
        nodes: list[Node] = []
        for one in PROPERTIES:
            with tracing(self.protocol.on):
                value = self._property(one, State(self.protocol.state, self._nodes))
            nodes += [graph.const(int(value), graph.BOOL)] if isinstance(value, bool) else value.nodes
        return compile_nodes(nodes)

    def _property(self, stated: Invariant, s: State) -> Any:
        """The value of a property in a state; True if the rules lack the property's rule, or do not promise it."""
        exists = stated.rule is None or stated.rule in self.rules
        promised = exists and (stated in CONDITIONS or is_guaranteed(stated, self.rules))
        return stated.function(self.protocol, s) if promised else True


@lru_cache(maxsize=64)
def controller_stepper(slots: int, rules: frozenset[str]) -> ControllerStepper:
    """The controller's actions for this number of slots and set of rules. They are traced once and cached."""
    return ControllerStepper(slots, rules)
