"""Renaming index values in a state equals renaming in the plain state; asymmetric protocols are detected."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from highwater.model.language import (
    Array,
    Bool,
    Enum,
    Index,
    Int,
    LanguageError,
    Model,
    Option,
    Parameter,
    Protocol,
    Seq,
    Set,
    State,
    Struct,
    action,
    any_of,
    free,
    invariant,
    require,
    where,
)
from highwater.model.language.initial import LISTED
from highwater.model.language.interpreter import compile_nodes
from highwater.model.language.protocol import Action
from highwater.model.language.symmetry import Renaming, asymmetry, renamed, renamings
from highwater.model.language.types import IntType, Type
from tests.language.random_protocols import a_plain


class Nested(Protocol):
    """Two symmetric indices and an asymmetric one, in every type and nested."""

    name = "nested"
    symmetric = ("node", "disk")

    def define(self) -> Struct:
        node, disk, place = Index("node", 3), Index("disk", 2), Index("place", 3)
        nodes, pair = Set(node), Struct("Pair", far=place, who=node, on=disk)
        return Struct(
            "State",
            count=Int(0, 3),
            who=node,
            where=place,
            members=nodes,
            places=Set(place),
            maybe=Option(node),
            pair=Option(pair),
            some=Option(nodes),
            rows=Array(node, Array(disk, pair)),
            there=Array(place, nodes),
            by=Array(disk, Option(node)),
            log=Seq(pair, 3),
            orders=Seq(Option(node), 2),
            code=Int(-1, 2, names=node),
            known=Option(Int(-1, 2, names=node)),
            line=Seq(node, 3, ascends=True),
            flags=Array(node, Bool),
            tail=Struct("Tail", deep=Struct("Deep", last=Option(disk), who=node)),
        )

    def initial(self) -> list[dict[str, Any]]:
        return [a_plain(Random(0), self.state)]


def plainly(type_: Type, plain: Any, renaming: Renaming) -> Any:
    def name(index: Index | Enum, old: int) -> int:
        return renaming.get(index.name, range(index.size))[old]

    match type_:
        case Index():
            return name(type_, plain)
        case Set():
            return sorted(name(type_.index, i) for i in plain)
        case Array():
            found = [None] * type_.index.size
            for i, element in enumerate(plain):
                found[name(type_.index, i)] = plainly(type_.element, element, renaming)
            return found
        case IntType() if type_.names is not None:
            return plain if plain < 0 else name(type_.names, plain)
        case Seq() if type_.ascends:
            return sorted(plainly(type_.element, element, renaming) for element in plain)
        case Seq():
            return [plainly(type_.element, element, renaming) for element in plain]
        case Option():
            return None if plain is None else plainly(type_.content_type, plain, renaming)
        case Struct():
            return {n: plainly(t, plain[n], renaming) for n, t in type_.fields.items()}
    return plain


def test_a_renamed_state_is_the_plain_state_renamed() -> None:
    model, rng = Model(Nested(), []), Random(1)
    every = list(renamings(model))
    assert len(every) == 6 * 2 - 1
    assert any(order[order[0]] != 0 for renaming in every for order in renaming.values()), "some go in a ring"
    functions = [compile_nodes(renamed(model, renaming)) for renaming in every]
    state = model.protocol.state
    for _ in range(60):
        plain = a_plain(rng, state)
        plain["line"] = sorted(set(plain["line"]))
        scalars = state.encode(plain)
        for renaming, function in zip(every, functions, strict=True):
            found = tuple(int(v) for v in function(scalars))
            assert found == tuple(state.encode(plainly(state, plain, renaming))), (plain, renaming)


def test_renamings_are_all_permutations_except_the_identity() -> None:
    found = [(r["node"], r["disk"]) for r in renamings(Model(Nested(), []))]
    every = set(itertools.product(itertools.permutations(range(3)), itertools.permutations(range(2))))
    assert len(found) == len(set(found))
    assert set(found) == every - {((0, 1, 2), (0, 1))}


Body = Callable[[Any, State, Any], None]


def counters(*bodies: Body, marked: int = 0) -> type[Protocol]:
    """Three counters, one of them marked, and an action for each body with a counter as parameter."""

    class Counters(Protocol):
        name = "counters"
        symmetric = ("counter",)

        def define(self) -> Struct:
            self.counter = Index("counter", 3)
            return Struct("State", values=Array(self.counter, Int(0, 4)), marked=self.counter)

        def initial(self) -> list[dict[str, Any]]:
            return [{"values": [0] * 3, "marked": marked}]

        @classmethod
        def actions(cls) -> list[Action]:
            return [Action(f"step{i}", body, {"c": "counter"}) for i, body in enumerate(bodies)]

    return Counters


def up(self: Any, s: State, c: Any) -> None:
    require("below", s.values[c] < 4)
    s.next.values[c] = s.values[c] + 1


def mark(self: Any, s: State, c: Any) -> None:
    """Moves the mark to a larger counter."""
    require("larger", s.values[c] > s.values[s.marked])
    s.next.marked = c


def only(*chosen: int) -> Body:
    """An action for the chosen counters only: asymmetric."""

    def body(self: Any, s: State, c: Any) -> None:
        require("chosen", any_of(c == i for i in chosen))
        up(self, s, c)

    return body


def late(self: Any, s: State, c: Any) -> None:
    """Asymmetric: the last counter stops earlier."""
    require("below", s.values[c] < 4)
    require("not the last", (s.values[c] < 3) | (c != 2))
    s.next.values[c] = s.values[c] + 1


def while_marked(number: int) -> Body:
    """An action for one counter, while it is marked; no step moves the mark."""

    def body(self: Any, s: State, c: Any) -> None:
        require("marked", s.marked == number)
        require("this", c == number)
        require("below", s.values[c] < 4)
        s.next.values[c] = s.values[c] + 1

    return body


def test_actions_that_treat_all_values_alike_are_symmetric() -> None:
    assert asymmetry(Model(counters(up, mark)(), [])) is None
    assert asymmetry(Model(counters(up, mark, marked=2)(), [])) is None


@pytest.mark.parametrize(
    ("bodies", "marked", "message"),
    [
        ([only(2)], 0, "action step0 differs under counter 1 ↔ 2"),
        ([up, late], 0, "action step1 differs under counter 0 ↔ 2"),
        ([while_marked(0)], 0, "action step0 differs under counter 0 ↔ 1"),
        ([while_marked(1)], 0, "action step0 differs under counter 0 ↔ 1"),
        ([only(0), only(1), only(2)], 0, "action step1, step2 differs under counter 1 ↔ 2"),
    ],
    ids=["one alone", "in the end", "fewer steps", "more steps", "by another action"],
)
def test_an_asymmetric_action_is_found(bodies: list[Body], marked: int, message: str) -> None:
    found = asymmetry(Model(counters(*bodies, marked=marked)(), []))
    assert found is not None
    assert found == message


@invariant("test")
def the_last_is_below_three(m: Any, s: State) -> Any:
    return s.values[2] < 3


def test_an_asymmetric_property_is_found() -> None:
    found = asymmetry(Model(counters(up, mark)(), [the_last_is_below_three]))
    assert found is not None
    assert found.startswith("property the_last_is_below_three differs under counter ")
    assert "2" in found


def test_an_index_that_no_field_uses_is_an_error() -> None:
    class Wrong(Nested):
        symmetric = ("node", "rack")

    with pytest.raises(LanguageError, match="'rack', an index its state does not use"):
        list(renamings(Model(Wrong(), [])))


class Big(Protocol):
    """Many interchangeable nodes, with any initial values."""

    name = "big"
    symmetric = ("node",)
    parameters = {"nodes": Parameter(6, 2, 9, "nodes")}

    def define(self) -> Struct:
        self.node = Index("node", self.p.nodes)
        return Struct("State", x=Array(self.node, Int(0, 15)))

    def initial(self) -> list[dict[str, Any]]:
        return [{"x": free}]

    @action(n="node")
    def up(self, s: State, n: Any) -> None:
        require("room", s.x[n] < 15)
        s.next.x[n] = s.x[n] + where(n == 0, 2, 1) if self.p.nodes == 7 else s.x[n] + 1


def test_too_many_renamings_are_refused() -> None:
    message = r"test_symmetry\.py:\d+: .* 'node' \(9\), have 362,880 renamings, and 50,000 are the most"
    with pytest.raises(LanguageError, match=message):
        asymmetry(Model(Big({"nodes": 9})))


def test_symmetry_with_more_initial_states_than_can_be_listed() -> None:
    assert Model(Big()).start.candidates > LISTED  # type: ignore[union-attr]
    assert asymmetry(Model(Big()), samples=20) is None
    assert "action up differs" in str(asymmetry(Model(Big({"nodes": 7})), samples=20))
