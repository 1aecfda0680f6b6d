"""The part of a property that is false: there where the property is, with the state's own values."""

from __future__ import annotations

import re
from typing import Any

import pytest

from highwater.checker.telling.falsity import PropertyPart, false_part
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
    all_of,
    any_of,
    implies,
    invariant,
    size,
    under,
    where,
)
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.values import Number, Truth
from tests.models import arbitrary_states, scenario_model


def leaves(part: PropertyPart | None, given: bool = False) -> list[tuple[str, bool, dict[str, str]]]:
    assert part is not None
    return [
        (leaf.text, leaf.holds, dict(leaf.values)) for leaf, is_given in part.leaves() if is_given is given
    ]


class Small(Protocol):
    """A state to ask things of."""

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
        """Whether a count is high."""
        limit = 2
        return s.counts[n] >= limit


@invariant("S")
def members_are_high(m: Small, s: State) -> Truth:
    """Members have high counts."""
    return all_of(implies(s.members.has(n), m.high(s, n)) for n in m.node)


@invariant("S")
def somebody_is_chosen(m: Small, s: State) -> Truth:
    """Somebody with a high count is chosen."""
    return any_of(s.chosen.is_(n) & m.high(s, n) for n in m.node)


@invariant("S")
def nobody_is_low(m: Small, s: State) -> Truth:
    """No count is zero."""
    low = any_of(s.counts[n] == 0 for n in m.node)
    return ~low


@invariant("S")
def branches(m: Small, s: State) -> Truth:
    """By the flag another thing is asked."""
    return where(s.flag, s.counts[0] > 0, s.counts[1] > 1)


@invariant("S")
def strictly(m: Small, s: State) -> Truth:
    """With the rule on."""
    return under("strict", s.counts[0] == s.counts[1])


@invariant("S")
def by_pairs(m: Small, s: State) -> Truth:
    """Lists, tuples and plain conditions."""
    pairs = [(s.counts[n], n) for n in m.node]
    return all_of(count >= limit for (count, n), limit in zip(pairs, (0, 2, 2), strict=True) if int(n) != 0)


@invariant("S")
def by_numbers(m: Small, s: State) -> Truth:
    """What is numbered is the element of a list."""
    listed = [s.counts[2], s.counts[0]]
    return all_of(count > number for number, count in enumerate(listed))


@invariant("S")
def by_names(m: Small, s: State) -> Truth:
    """One name stands for another; a condition is put together."""
    first = s.counts[0]
    same, wrong = first, first > 1
    wrong &= s.flag
    return all_of([same > 0, ~s.flag, m.on("strict")]) | wrong


@invariant("S")
def early(m: Small, s: State) -> Truth:
    """Several returns, one of them taken."""
    if m.on("strict"):
        return s.chosen.is_some
    return s.flag


ASKED = (
    members_are_high,
    somebody_is_chosen,
    nobody_is_low,
    branches,
    strictly,
    by_pairs,
    by_numbers,
    by_names,
    early,
)
SMALL = Model(Small(), ASKED)


@pytest.mark.parametrize(
    ("name", "said", "wrong", "given"),
    [
        ("members_are_high", ["n = 0"], [("counts[0] >= 2", False, {"counts[0]": "0"})], ["members.has(0)"]),
        ("nobody_is_low", ["n = 0"], [("counts[0] == 0", True, {"counts[0]": "0"})], []),
        ("branches", [], [("counts[1] > 1", False, {"counts[1]": "1"})], ["flag"]),
        ("strictly", [], [("counts[0] == counts[1]", False, {"counts[0]": "0", "counts[1]": "1"})], []),
        ("by_numbers", ["number = 1"], [("counts[0] > 1", False, {"counts[0]": "0"})], []),
        ("by_pairs", ["n = 1, limit = 2"], [("counts[1] >= 2", False, {"counts[1]": "1"})], []),
        (
            "by_names",
            [],
            [("counts[0] > 0", False, {"counts[0]": "0"}), ("wrong", False, {"wrong": "false"})],
            [],
        ),
        ("early", [], [("chosen.is_some", False, {"chosen": "none"})], []),
    ],
)
def test_the_conjunct_and_the_choice_that_are_false(
    name: str, said: list[str], wrong: list[Any], given: list[str]
) -> None:
    function = SMALL.property(name).invariant.function
    part = false_part(SMALL, function, SMALL.initial[0])
    assert part is not None
    assert list(part.choices()) == said
    assert leaves(part) == wrong
    assert [text for text, _, _ in leaves(part, given=True)] == given


def test_where_none_of_several_holds_each_is_told() -> None:
    part = false_part(SMALL, somebody_is_chosen.function, SMALL.initial[0])
    texts = [text for text, holds, _ in leaves(part) if not holds]
    assert texts == ["chosen.is_(0)", "counts[0] >= 2", "chosen.is_(1)", "counts[1] >= 2", "chosen.is_(2)"]


def test_the_words_of_the_source_stand_beside_the_values() -> None:
    part = false_part(SMALL, members_are_high.function, SMALL.initial[0])
    assert part is not None
    (leaf,) = [leaf for leaf, given in part.leaves() if not given]
    assert leaf.written == "s.counts[n] >= limit"


@invariant("S")
def last_is_chosen(m: Small, s: State) -> Truth:
    """What is outside in this state is no mistake of the property."""
    return s.counts[size(s.members) - 1] // s.counts[0] > 0


def test_what_has_no_meaning_in_a_state_is_told_as_false() -> None:
    part = false_part(SMALL, last_is_chosen.function, SMALL.initial[0])
    assert leaves(part)[0][:2] == ("counts[size(members) - 1] // counts[0] > 0", False)
    state = SMALL.protocol.state.encode({"counts": [1, 1, 2], "members": [], "chosen": None, "flag": False})
    assert leaves(false_part(SMALL, last_is_chosen.function, state))[0][2]["counts[size(members) - 1]"] == "0"


def test_there_is_none_where_the_property_holds_or_its_source_is_not_there() -> None:
    state = SMALL.protocol.state.encode({"counts": [3, 3, 3], "members": [0], "chosen": 1, "flag": True})
    assert [x.name for x in ASKED if x is not by_names and false_part(SMALL, x.function, state)] == []
    scope: dict[str, Any] = {}
    exec("def written_nowhere(m, s):\n    return s.flag", scope)
    assert false_part(SMALL, scope["written_nowhere"], SMALL.initial[0]) is None


@pytest.mark.parametrize(
    "name",
    [
        "truncation/kip-101",
        "replication/standard-acks",
        "quorum/standard-messages",
        "zookeeper/standard-bounces",
    ],
)
def test_a_part_is_found_wherever_a_property_is_false_and_has_the_state_s_values(name: str) -> None:
    model = scenario_model(name)
    interpreter, found = Interpreter(model), set()
    for state in arbitrary_states(model, 6, seed=1):
        violated = interpreter.violated(state)
        plain = model.decode(state)
        for prop in model.properties:
            part = false_part(model, prop.invariant.function, state)
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
        if isinstance(plain, list) and name.isdigit():
            plain = plain[int(name)]
        elif isinstance(plain, dict) and name in plain:
            plain = plain[name]
        else:
            return None
    return plain if isinstance(plain, (int, str, bool)) else None


def _said(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
