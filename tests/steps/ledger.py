"""A small protocol for step properties: some hold, one action violates some, a loop violates others."""

from __future__ import annotations

from typing import Any

from highwater.model.language import (
    Array,
    Index,
    Int,
    Model,
    Option,
    Parameter,
    Protocol,
    State,
    Struct,
    action,
    all_of,
    any_of,
    implies,
    invariant,
    require,
    step_property,
    total,
    where,
)


@invariant("test")
def somebody_led(m: Ledger, s: State) -> Any:
    """There is no leader before the first term. Holds."""
    return implies(s.leader.is_some, s.term > 0)


@step_property("test")
def term_never_falls(m: Ledger, before: State, after: State) -> Any:
    """Violated only by the step back to the initial state."""
    return before.term <= after.term


@step_property("test")
def values_never_fall(m: Ledger, before: State, after: State) -> Any:
    """Violated by copying from a leader that lags behind."""
    return all_of(before.values[n] <= after.values[n] for n in m.node)


@step_property("test")
def one_value_at_a_time(m: Ledger, before: State, after: State) -> Any:
    """A step changes the value of at most one node."""
    return total(before.values[n] != after.values[n] for n in m.node) <= 1


@step_property("test")
def leaders_have_terms(m: Ledger, before: State, after: State) -> Any:
    """Another leader means the next term. Holds."""
    elected = after.leader.is_some & (after.leader != before.leader)
    return implies(elected, after.term == before.term + 1)


@step_property("test")
def something_happens(m: Ledger, before: State, after: State) -> Any:
    """Holds, because a step that changes nothing is no step."""
    return (
        (before.term != after.term)
        | (before.leader != after.leader)
        | any_of(before.values[n] != after.values[n] for n in m.node)
    )


@step_property("test")
def nothing_to_say(m: Ledger, before: State, after: State) -> Any:
    """Vacuous: no term grows by two."""
    return implies(after.term == before.term + 2, after.leader.is_none)


class Ledger(Protocol):
    """Nodes hold a number; a leader writes, the others copy it, and when all are full it starts over."""

    name = "ledger"
    symmetric = ("node",)
    parameters = {
        "nodes": Parameter(3, 2, 4, "nodes"),
        "top": Parameter(2, 1, 5, "the last value"),
        "terms": Parameter(2, 1, 3, "terms"),
    }
    invariants = (somebody_led,)
    step_properties = (
        term_never_falls,
        values_never_fall,
        one_value_at_a_time,
        leaders_have_terms,
        something_happens,
        nothing_to_say,
    )

    def define(self) -> Struct:
        self.node = Index("node", self.p.nodes)
        value = Int(0, self.p.top, bound="top")
        term = Int(0, self.p.terms, bound="terms")
        return Struct("State", values=Array(self.node, value), term=term, leader=Option(self.node))

    @action(says="node {node} is elected", node="node")
    def elect(self, s: State, node: Any) -> None:
        require("nobody leads", s.leader.is_none)
        s.next.leader = node
        s.next.term = s.term + 1

    @action(says="the leader resigns")
    def resign(self, s: State) -> None:
        require("somebody leads", s.leader.is_some)
        s.next.leader = None

    @action(says="node {node} writes", node="node")
    def write(self, s: State, node: Any) -> None:
        require("it leads", s.leader.is_(node))
        s.next.values[node] = s.values[node] + 1

    @action(says="node {node} copies", node="node")
    def copy(self, s: State, node: Any) -> None:
        require("another one leads", s.leader.is_some & ~s.leader.is_(node))
        s.next.values[node] = s.values[s.leader.value]

    @action(says="node {node} looks at what it has", node="node")
    def look(self, s: State, node: Any) -> None:
        require("it is full", s.values[node] == self.p.top)
        s.next.values[node] = where(s.term == 0, self.p.top, s.values[node])

    @action(says="all begin again")
    def begin_again(self, s: State) -> None:
        require("all are full", all_of(s.values[n] == self.p.top for n in self.node))
        for node in self.node:
            s.next.values[node] = 0
        s.next.term = 0
        s.next.leader = None


DEPTHS = {"term_never_falls": 7, "values_never_fall": 6, "one_value_at_a_time": 7}
"""Property → depth of its violation with default parameters; the others hold."""


def ledger(*names: str, **parameters: int) -> Model:
    """The protocol with these step properties, by default with all."""
    chosen = [p for p in Ledger.step_properties if not names or p.name in names]
    return Model(Ledger(parameters), Ledger.invariants, step_properties=chosen)
