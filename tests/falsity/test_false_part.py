"""The part of a property that is false: its place in the source and the values in the state."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from highwater.checker.report.falsity import PropertyPart, false_part
from highwater.model.language import (
    Array,
    Bool,
    Index,
    Int,
    Model,
    Option,
    Protocol,
    Rule,
    Set,
    State,
    Struct,
    action,
    all_of,
    any_of,
    implies,
    invariant,
    size,
    step_property,
    under,
    where,
)
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.types import Number, Truth
from tests.models import arbitrary_states, scenario_model


def leaves(part: PropertyPart | None, given: bool = False) -> list[tuple[str, bool, dict[str, str]]]:
    assert part is not None
    return [
        (leaf.text, leaf.holds, dict(leaf.values)) for leaf, is_given in part.leaves() if is_given is given
    ]


class Small(Protocol):
    name = "small"
    rules = {"strict": Rule("S1", "Asks for more.")}

    def define(self) -> Struct:
        self.node = Index("node", 3)
        return Struct(
            "State",
            counts=Array(self.node, Int(0, 3)),
            members=Set(self.node),
            chosen=Option(self.node),
            flag=Bool,
        )

    def initial(self) -> list[dict[str, Any]]:
        return [{"counts": [0, 1, 2], "members": [0, 2], "chosen": None, "flag": False}]

    def high(self, s: State, n: Number) -> Truth:
        limit = 2
        return s.counts[n] >= limit


@invariant("S")
def members_are_high(m: Small, s: State) -> Truth:
    return all_of(implies(s.members.has(n), m.high(s, n)) for n in m.node)


@invariant("S")
def somebody_is_chosen(m: Small, s: State) -> Truth:
    return any_of(s.chosen.is_(n) & m.high(s, n) for n in m.node)


@invariant("S")
def nobody_is_low(m: Small, s: State) -> Truth:
    low = any_of(s.counts[n] == 0 for n in m.node)
    return ~low


@invariant("S")
def branches(m: Small, s: State) -> Truth:
    return where(s.flag, s.counts[0] > 0, s.counts[1] > 1)


@invariant("S")
def strictly(m: Small, s: State) -> Truth:
    return under("strict", s.counts[0] == s.counts[1])


@invariant("S")
def fits_the_chosen(m: Small, s: State) -> Truth:
    """The array index depends on the state."""
    return s.counts[size(s.members) - 1] + 1 < s.counts[s.chosen.value] + 3


ASKED = (members_are_high, somebody_is_chosen, nobody_is_low, branches, strictly, fits_the_chosen)
SMALL = Model(Small(), ASKED)


def part_of(model: Model, name: str, state: Sequence[int] | None = None) -> PropertyPart | None:
    return false_part(model, model.property(name).node, tuple(state or model.initial[0]))


def state_of(**fields: Any) -> list[int]:
    whole = {"counts": [3, 3, 3], "members": [0], "chosen": 1, "flag": True}
    return list(SMALL.protocol.state.encode(whole | fields))


@pytest.mark.parametrize(
    ("name", "wrong", "given"),
    [
        ("members_are_high", [("counts[0] >= 2", False, {"counts[0]": "0"})], ["members.has(0)"]),
        ("nobody_is_low", [("counts[0] == 0", True, {"counts[0]": "0"})], []),
        ("branches", [("1 < counts[1]", False, {"counts[1]": "1"})], ["flag"]),
        ("strictly", [("counts[0] == counts[1]", False, {"counts[0]": "0", "counts[1]": "1"})], []),
    ],
)
def test_the_conjunct_that_is_false(name: str, wrong: list[Any], given: list[str]) -> None:
    part = part_of(SMALL, name)
    assert leaves(part) == wrong
    assert [text for text, _, _ in leaves(part, given=True)] == given


def test_each_part_of_a_false_disjunction_is_shown() -> None:
    texts = [text for text, _, _ in leaves(part_of(SMALL, "somebody_is_chosen"))]
    assert [text for text in texts if "chosen" in text] == [f"chosen == {n}" for n in range(3)]


def test_an_array_is_read_at_the_place_that_the_state_has() -> None:
    state = state_of(counts=[3, 0, 0], members=[0])
    ((text, holds, values),) = leaves(part_of(SMALL, "fits_the_chosen", state))
    assert (text, holds) == ("counts[0] + 1 < counts[1] + 3", False)
    assert values == {"counts[0]": "3", "counts[1]": "0", "members": "{0}", "chosen": "1"}


@invariant("S")
def last_is_chosen(m: Small, s: State) -> Truth:
    """The array index is out of bounds in some states."""
    return s.counts[size(s.members) - 1] // s.counts[0] > 0


def test_an_undefined_part_is_shown_as_false() -> None:
    model = Model(Small(), [last_is_chosen])
    part = part_of(model, "last_is_chosen", state_of(counts=[0, 1, 2]))
    assert ("counts[0] != 0", False, {"counts[0]": "0"}) in leaves(part)


@step_property("S")
def grows(m: Small, before: State, after: State) -> Truth:
    return implies(after.counts[0] != before.counts[0], after.counts[0] == before.counts[0] + 1)


def test_of_a_step_both_states_are_named() -> None:
    class Growing(Small):
        @action("A")
        def grow(self, s: State) -> None:
            s.next.counts[0] = s.counts[0] + 1

    model = Model(Growing(), step_properties=[grows])
    (step,) = model.step_properties
    states = [tuple(state_of(counts=[n, 0, 0])) for n in (0, 1, 2)]
    assert false_part(model, step.node, *states[:2]) is None
    part = false_part(model, step.node, states[0], states[2])
    said, holds, values = leaves(part)[-1]
    # The operands' order depends on what the process traced before.
    assert set(said.split(" == ")) == {"before.counts[0] + 1", "after.counts[0]"}
    assert not holds
    assert values == {"after.counts[0]": "2", "before.counts[0]": "0"}


@pytest.mark.parametrize(
    "name",
    ["truncation/kip-101", "replication/large-acks", "quorum/large-messages", "zookeeper/large-bounces"],
)
def test_every_false_property_has_a_part_with_the_state_s_values(name: str) -> None:
    model = scenario_model(name)
    interpreter, found = Interpreter(model), set()
    for state in arbitrary_states(model, 6, seed=1):
        violated = interpreter.violated(state)
        plain = model.decode(state)
        for prop in model.properties:
            part = false_part(model, prop.node, state)
            assert (part is not None) == (prop.name in violated), prop.name
            for text, _, values in leaves(part) if part else ():
                assert text
                found.add(prop.name)
                for path, said in values.items():
                    if (
                        re.fullmatch(r"\w+(\[\d+\])?(\.\w+)*", path)
                        and (value := _at(plain, path)) is not None
                    ):
                        assert _said(value) == said, path
    assert len(found) >= 2


def _at(plain: Any, path: str) -> Any:
    for name in re.findall(r"\w+", path):
        if isinstance(plain, list) and name.isdigit() and int(name) < len(plain):
            plain = plain[int(name)]
        elif isinstance(plain, dict) and name in plain:
            plain = plain[name]
        else:
            return None
    return plain if isinstance(plain, (int, str, bool)) else None


def _said(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
