"""Refinement: a protocol implements another protocol (TLA+: ``Spec => A!Spec``, ``A == INSTANCE … WITH …``).

A mapping gives, for each state of the *concrete* protocol, a state of the *abstract* protocol. It is a refinement if
it maps each initial state to an initial state, and each step to an abstract step or to no change. The condition on a
step is built from the abstract protocol's traced actions. A refinement is therefore a step property, and every engine
that checks step properties checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from highwater.model.language import graph
from highwater.model.language.declarations import takes
from highwater.model.language.errors import LanguageError, fail, place_of
from highwater.model.language.graph import Node, compile_nodes, substituted
from highwater.model.language.initial import Scalars, start_of
from highwater.model.language.model import Model, state_inputs
from highwater.model.language.protocol import Protocol
from highwater.model.language.state import State
from highwater.model.language.step_properties import StepProperty
from highwater.model.language.tracing import implies, looking
from highwater.model.language.types import Truth

Mapped = Mapping[str, Any]
"""The fields of an abstract state, as symbolic values over a concrete state."""


@dataclass(frozen=True)
class Refinement(StepProperty):
    """A step property: the mapping takes each step to a step of the abstract protocol, or to no change."""

    abstract: type[Protocol] = Protocol
    mapping: Callable[[Any, Any], Mapped] = field(default=lambda m, s: {})
    parameters: Callable[[Any], Mapping[str, int]] | None = None
    rules: Callable[[Any], Iterable[str]] | None = None

    def of(self, m: Protocol) -> Implementation:
        """The refinement for the concrete protocol ``m``. Raises LanguageError if the mapping is invalid."""
        return _implementation(self, m)


def refines(
    abstract: type[Protocol],
    source: str = "",
    /,
    *,
    parameters: Callable[[Any], Mapping[str, int]] | None = None,
    rules: Callable[[Any], Iterable[str]] | None = None,
    rule: str | None = None,
) -> Callable[[Callable[[Any, Any], Mapped]], Refinement]:
    """Mark a mapping, a function of (protocol, state) to the abstract state's fields, as a refinement.

    ``parameters`` and ``rules`` are functions of the concrete protocol: they return the abstract protocol's parameters,
    and its rules that are on. By default an abstract parameter or rule has the value of the concrete one of the same
    name. If there is none, the parameter has its default, and the rule is on. The refinement exists if ``rule`` is on
    (None: always). Raises LanguageError if ``abstract`` is not a protocol.
    """
    if not (isinstance(abstract, type) and issubclass(abstract, Protocol)):
        raise fail(f"@refines names the protocol that is implemented, a class, and not {abstract!r}")

    def mark(mapping: Callable[[Any, Any], Mapped]) -> Refinement:
        takes(mapping, "a refinement", "protocol", "state")

        def holds(m: Protocol, before: State, after: State) -> Truth:
            return found.of(m).holds(before, after)

        holds.__doc__ = mapping.__doc__
        found = Refinement(
            mapping.__name__,
            holds,
            source,
            rule,
            abstract=abstract,
            mapping=mapping,
            parameters=parameters,
            rules=rules,
        )
        return found

    return mark


@lru_cache(maxsize=32)
def _implementation(refinement: Refinement, m: Protocol) -> Implementation:
    return Implementation(refinement, m)


class Implementation:
    """A refinement for one concrete protocol with its parameters and rules. ``model`` is the abstract model."""

    def __init__(self, refinement: Refinement, m: Protocol) -> None:
        self.refinement, self.concrete = refinement, m
        self.place = place_of(refinement.mapping)
        self.model = Model(self._abstract())
        self.inputs = state_inputs(m.state.leaves(""))
        self.nodes = self.mapped(self.inputs)
        self._state = compile_nodes(self.nodes)
        self._check_start()

    def state(self, state: Scalars) -> Scalars:
        """The abstract state to which the mapping takes a concrete state."""
        return tuple(int(value) for value in self._state(state))

    def left(self, mapped: Scalars) -> list[str]:
        """The scalars of an abstract state that are outside their types: a text with path and interval for each."""
        found = zip(self.model.leaves, mapped, strict=True)
        return [
            f"{leaf.path} leaves {leaf.low}..{leaf.high}"
            for leaf, v in found
            if not leaf.low <= v <= leaf.high
        ]

    def mapped(self, nodes: Sequence[Node]) -> list[Node]:
        """The nodes of the abstract state, from the nodes of a concrete state.

        Raises LanguageError if the mapping does not return an abstract state.
        """
        m, name = self.concrete, f"refinement {self.refinement.name}"
        with looking(name, self.place, m.on):
            fields: object = self.refinement.mapping(m, State(m.state, list(nodes)))
        if not isinstance(fields, Mapping):
            raise LanguageError(
                f"{name} returned {fields!r}; it returns a dict of the abstract fields", self.place
            )
        try:
            found = list(self.model.protocol.state(**fields).nodes)
        except LanguageError as wrong:
            raise LanguageError(f"{name}: {wrong.message}", self.place) from None
        graph.undefined_any(found)
        return found

    def holds(self, before: State, after: State) -> Truth:
        """The condition that a step maps to an abstract step or to no change, and stays inside the abstract types."""
        old, new = (self.mapped(s._value.nodes) for s in (before, after))
        still = graph.all_(map(graph.eq, old, new))
        within = graph.not_(
            graph.any_(leaf.left_by(n) for leaf, n in zip(self.model.leaves, new, strict=True))
        )
        allowed = graph.and_(within, graph.any_(self._taken(old, new)))
        return implies(Truth(None, (graph.not_(still),)), Truth(None, (allowed,)))

    def _taken(self, old: Sequence[Node], new: Sequence[Node]) -> list[Node]:
        """For each abstract instance, the condition that it leads from the abstract state ``old`` to ``new``."""
        instances, known = self.model.instances, dict(enumerate(old))
        same = [graph.eq(a, b) for a, b in zip(old, new, strict=True)]
        taken = []
        for instance in instances:
            roots = [instance.leads_on, *(write.node for write in instance.writes.values())]
            leads, *values = substituted(roots, known)
            reached = dict(enumerate(same))
            reached |= {leaf: graph.eq(new[leaf], v) for leaf, v in zip(instance.writes, values, strict=True)}
            # Conjoin field by field, so that instances that do not write a field share one node for it.
            stays = (graph.all_(reached[leaf] for leaf in leaves) for leaves in self.fields.values())
            taken.append(graph.and_(leads, graph.all_(stays)))
        return taken

    @property
    def fields(self) -> dict[str, range]:
        """For each field of the abstract state, the numbers of its scalars."""
        state = self.model.protocol.state
        places = {name: state.field(name)[0] for name in state.fields}
        return {name: range(place.start, place.stop) for name, place in places.items()}

    def _abstract(self) -> Protocol:
        refinement, m = self.refinement, self.concrete
        abstract = refinement.abstract
        if refinement.parameters is None:
            parameters = {name: getattr(m.p, name) for name in abstract.parameters if name in m.parameters}
        else:
            parameters = dict(refinement.parameters(m))
        rules = [name for name in abstract.rules if name not in m.rules or m.ever_on(name)]
        try:
            return abstract(parameters, rules if refinement.rules is None else refinement.rules(m))
        except LanguageError as wrong:
            raise LanguageError(f"refinement {refinement.name}: {wrong.message}", self.place) from None

    def _check_start(self) -> None:
        """Raises LanguageError if the mapping takes an initial state to an abstract state that is not initial."""
        known = set(self.model.initial)
        for state in start_of(self.concrete, self.inputs).states():
            mapped = self.state(state)
            if mapped not in known:
                wrong = "; ".join(self.left(mapped)) or str(self.model.decode(mapped))
                raise LanguageError(
                    f"refinement {self.refinement.name}: an initial state is mapped to none of the initial states "
                    f"of {self.model.protocol.name or type(self.model.protocol).__name__}: {wrong}",
                    self.place,
                )
