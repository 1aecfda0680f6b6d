"""A protocol traced together with its mutants: the number of a mutant is a constant field of the state."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from highwater.model.language import graph
from highwater.model.language.errors import LanguageError
from highwater.model.language.graph import INT, Node
from highwater.model.language.initial import Scalars
from highwater.model.language.liveness import Liveness
from highwater.model.language.model import Instance, Model
from highwater.model.language.mutation import MOST, Mutant, Mutants
from highwater.model.language.protocol import Action, Invariant, Protocol
from highwater.model.language.step_properties import StepProperty
from highwater.model.language.tracing import Guard
from highwater.model.language.types import Array, Bool, Index, Int, Struct

NUMBER, CHANGED = "number of the mutant", "actions that the mutant changes"
"""The fields that a MutatedModel adds to the state. No protocol can have fields of these names."""


class MutatedModel(Model):
    """A model with all mutants of its actions. Two fields of the state, which no step writes, choose a mutant.

    The model has each instance twice: without mutants, for states whose mutant does not change the action, and with
    all mutants. Properties have no mutants. The initial states choose no mutant; ``constants`` has the values that
    choose one. ``mutants`` has the mutants by number, and ``actions_of`` the names of the actions that each changes.
    """

    def __init__(
        self,
        protocol: Protocol,
        invariants: Iterable[Invariant] = (),
        liveness: Iterable[Liveness] = (),
        step_properties: Iterable[StepProperty] = (),
    ) -> None:
        own, protocol = protocol.state, copy.copy(protocol)
        self._names = [a.name for a in protocol.actions() if protocol.has(a)]
        changed = Array(Index("action", len(self._names)), Bool)
        protocol.state = Struct(own.name, **own.fields, **{NUMBER: Int(0, MOST - 1), CHANGED: changed})
        protocol.state.absent = own.absent
        self.own_leaves = len(own.leaves(""))
        self.selector = graph.leaf(self.own_leaves, INT, 0, MOST - 1)
        self._made = Mutants(self.selector)
        super().__init__(protocol, invariants, liveness, step_properties)
        self.actions_of = self._actions_of()
        self.mutants: dict[int, Mutant] = {
            number: mutant for mutant, number in self._made.numbers.items() if number in self.actions_of
        }

    def constants(self, number: int) -> Scalars:
        """The values of the added fields, which are a state's last scalars, that choose a mutant; 0 chooses none."""
        changed = self.actions_of.get(number, ())
        return number, *(int(name in changed) for name in self._names)

    def of_action(self, name: str, *, changed: bool) -> list[Instance]:
        """The instances of an action with its mutants, or those without mutants, without the guard that chooses."""
        wanted = self._chooses(name, changed=changed)
        return [
            replace(i, guards=i.guards[1:])
            for i in self.instances
            if i.action.name == name and i.guards[0].node is wanted
        ]

    def _chooses(self, name: str, *, changed: bool) -> Node:
        input_ = self.inputs[self.own_leaves + 1 + self._names.index(name)]
        return input_ if changed else graph.not_(input_)

    def _trace_choice(self, action: Action, choice: Mapping[str, tuple[Any, Any]]) -> Iterable[Instance]:
        plain = super()._trace_choice(action, choice)
        for changed, instances in ((False, plain), (True, self._trace_mutated(action, choice))):
            guard = Guard("the mutant is chosen", self._chooses(action.name, changed=changed))
            yield from (replace(i, guards=(guard, *i.guards)) for i in instances)

    def _trace_mutated(self, action: Action, choice: Mapping[str, tuple[Any, Any]]) -> list[Instance]:
        with self._made.applied():
            try:
                return list(super()._trace_choice(action, choice))
            except LanguageError:
                # A mutant of a constant guard can reach code that the protocol never reaches.
                self._made.constants = False
                return list(super()._trace_choice(action, choice))
            finally:
                self._made.constants = True

    def _actions_of(self) -> dict[int, frozenset[str]]:
        found: dict[int, set[str]] = {}
        for instance in self.instances:
            for node in graph.reachable(roots_of(instance)):
                if node.op == "eq" and self.selector in node.args:
                    other = node.args[0] if node.args[1] is self.selector else node.args[1]
                    found.setdefault(other.value, set()).add(instance.action.name)
        return {number: frozenset(names) for number, names in sorted(found.items())}


def roots_of(instance: Instance) -> list[Node]:
    """The expressions of an instance: its guards, written values and checks."""
    nodes = [g.node for g in instance.guards] + [w.node for w in instance.writes.values()]
    return nodes + [c.node for c in instance.checks]
