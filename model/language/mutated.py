"""A protocol traced together with its mutants, and the model of one mutant."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from highwater.model.language import graph
from highwater.model.language.errors import LanguageError
from highwater.model.language.graph import INT, Node, remade
from highwater.model.language.liveness import Liveness
from highwater.model.language.model import Instance, Model
from highwater.model.language.mutation import SELECTOR, Mutant, Mutants
from highwater.model.language.protocol import Action, Invariant, Protocol
from highwater.model.language.step_properties import StepProperty


class MutatedModel(Model):
    """A model whose actions contain all their mutants; an additional input selects one mutant by number.

    Properties have no mutants. The model can have more instances than the protocol's own model, which leaves out
    instances with a guard that is constant false; a mutant can enable such an instance. ``mutants`` has the mutants by
    number, and ``actions_of`` the names of the actions that each number changes.
    """

    def __init__(
        self,
        protocol: Protocol,
        invariants: Iterable[Invariant] = (),
        liveness: Iterable[Liveness] = (),
        step_properties: Iterable[StepProperty] = (),
    ) -> None:
        self._made = Mutants()
        super().__init__(protocol, invariants, liveness, step_properties)
        self.actions_of = _actions_of(self.instances)
        self.mutants: dict[int, Mutant] = {
            number: mutant for mutant, number in self._made.numbers.items() if number in self.actions_of
        }

    def _trace_choice(self, action: Action, choice: Mapping[str, tuple[Any, Any]]) -> Iterable[Instance]:
        with self._made.applied():
            try:
                return list(super()._trace_choice(action, choice))
            except LanguageError:
                # A mutant of a constant guard can reach code that the protocol never reaches.
                self._made.constants = False
                return list(super()._trace_choice(action, choice))
            finally:
                self._made.constants = True


def _actions_of(instances: Iterable[Instance]) -> dict[int, frozenset[str]]:
    found: dict[int, set[str]] = {}
    for instance in instances:
        for node in graph.reachable(roots_of(instance)):
            if node.op == "eq" and SELECTOR in node.args:
                other = node.args[0] if node.args[1] is SELECTOR else node.args[1]
                found.setdefault(other.value, set()).add(instance.action.name)
    return {number: frozenset(names) for number, names in sorted(found.items())}


def roots_of(instance: Instance) -> list[Node]:
    """The expressions of an instance: its guards, written values and checks."""
    nodes = [g.node for g in instance.guards] + [w.node for w in instance.writes.values()]
    return nodes + [c.node for c in instance.checks]


def chosen(model: Model, number: int) -> Model:
    """A copy of a MutatedModel that has only the mutant with this number; 0 gives the unmutated protocol.

    All instances keep their numbers, even those that are never enabled.
    """
    choose, found = ChosenMutant(number), copy.copy(model)
    for name in ("judged", "judged_in_place"):  # computed again from the chosen instances
        vars(found).pop(name, None)
    found.instances = [choose.instance(i) for i in model.instances]
    found.properties = [
        replace(p, node=choose.node(p.node), premise=choose.node(p.premise)) for p in model.properties
    ]
    found.liveness = [
        replace(
            p,
            cases=tuple(
                replace(c, premise=choose.node(c.premise), goals=tuple(map(choose.node, c.goals)))
                for c in p.cases
            ),
            groups=tuple(replace(g, when=None if g.when is None else choose.node(g.when)) for g in p.groups),
        )
        for p in model.liveness
    ]
    return found


class ChosenMutant:
    """Replaces the selector in expressions by the number of one mutant, and simplifies the expressions."""

    def __init__(self, number: int) -> None:
        self._known: dict[Node, Node] = {SELECTOR: graph.const(number, INT)}

    def node(self, root: Node) -> Node:
        """The expression with the selector replaced."""
        known = self._known
        if root not in known:
            for node in graph.reachable([root]):
                if node not in known:
                    known[node] = remade(node, known)
        return known[root]

    def instance(self, instance: Instance) -> Instance:
        """The instance with the selector replaced.

        Guards that become constant true are left out. All checks stay, so that their positions do not change.
        """
        guards = (replace(g, node=self.node(g.node)) for g in instance.guards)
        return replace(
            instance,
            guards=tuple(g for g in guards if g.node is not graph.TRUE),
            writes={leaf: replace(w, node=self.node(w.node)) for leaf, w in instance.writes.items()},
            checks=tuple(replace(c, node=self.node(c.node)) for c in instance.checks),
        )
