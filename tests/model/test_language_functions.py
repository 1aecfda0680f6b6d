"""Functions on plain values, ordered checks, and sequence operations."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.model.language import (
    Array,
    Bool,
    Enum,
    Index,
    Int,
    LanguageError,
    Option,
    Seq,
    Set,
    Struct,
    where,
)
from highwater.model.language.containers import (
    any_element,
    ascending,
    every_element,
    first_of,
    first_some,
    is_distinct,
    members_of,
)
from highwater.model.language.function import Function
from highwater.model.language.interpreter import BoundError
from highwater.model.language.tracing import Checks

broker = Index("broker", 4)
brokers = Set(broker)
sequence = Seq(broker, 4)
lists = st.lists(st.integers(0, 3), max_size=4)
sets = st.sets(st.integers(0, 3))

WORDS = Function(
    lambda s, t, chosen: {
        "members": members_of(s, brokers),
        "ascending": ascending(chosen, sequence),
        "first": first_of(s, chosen.has),
        "kept": s.filter(chosen.has),
        "distinct": is_distinct(s),
        "any": any_element(s, chosen.has),
        "every": every_element(s, chosen.has),
        "either": first_some(first_of(s, chosen.has), first_of(t, chosen.has)),
    },
    s=sequence,
    t=sequence,
    chosen=brokers,
)


@given(lists, lists, sets)
def test_sequence_operations_agree_with_python(s: list[int], t: list[int], chosen: set[int]) -> None:
    found = WORDS(s=s, t=t, chosen=chosen)
    kept_ones = [x for x in s if x in chosen]
    assert found["members"] == sorted(set(s))
    assert found["ascending"] == sorted(chosen)
    assert found["first"] == next(iter(kept_ones), None)
    assert found["kept"] == kept_ones
    assert found["distinct"] == (len(set(s)) == len(s))
    assert found["any"] == bool(kept_ones)
    assert found["every"] == (len(kept_ones) == len(s))
    assert found["either"] == next((x for x in s + t if x in chosen), None)


def test_sequences_that_have_no_room_leave_their_type() -> None:
    join = Function(lambda s, t: s + t, s=sequence, t=sequence)
    assert join(s=[3, 1], t=[0, 2]) == [3, 1, 0, 2]
    with pytest.raises(BoundError, match=r"length leaves 0\.\.4: 5"):
        join(s=[3, 1, 2], t=[0, 2])


Colour = Enum("Colour", "RED GREEN")
PARCEL = Struct(
    "Parcel",
    flag=Bool,
    number=Int(-3, 9),
    colour=Colour,
    members=brokers,
    perhaps=Option(broker),
    nested=Option(Option(Int(0, 3))),
    each=Array(Index("slot", 2), Option(brokers)),
    log=Seq(Struct("Entry", id=broker, epoch=Int(0, 5)), 3),
)
plain = st.fixed_dictionaries(
    {
        "flag": st.booleans(),
        "number": st.integers(-3, 9),
        "colour": st.sampled_from(["RED", "GREEN"]),
        "members": sets.map(sorted),
        "perhaps": st.none() | st.integers(0, 3),
        "nested": st.none() | st.integers(0, 3),
        "each": st.lists(st.none() | sets.map(sorted), min_size=2, max_size=2),
        "log": st.lists(
            st.fixed_dictionaries({"id": st.integers(0, 3), "epoch": st.integers(0, 5)}), max_size=3
        ),
    }
)


@given(plain)
def test_values_go_through_a_function_unchanged_and_are_encoded_as_the_type_does(
    value: dict[str, object],
) -> None:
    assert Function(lambda x: x, x=PARCEL)(x=value) == value
    assert PARCEL.decode(PARCEL.encode(value)) == value


def test_a_function_does_not_write() -> None:
    from highwater.model.language import State

    state = Struct("State", x=Bool)

    def write(x: object) -> object:
        s = State(state, list(state.lift({"x": x}).nodes))
        s.next.x = True
        return x

    with pytest.raises(LanguageError, match=r"writes s\.next"):
        Function(write, x=Bool)


def test_the_first_check_that_fails_gives_the_answer() -> None:
    Answer = Enum("Answer", "NONE FIRST SECOND THIRD")

    def ask(a: object, b: object, c: object) -> Checks:
        checks = Checks(Answer.NONE)
        checks.check("a", a, Answer.FIRST)  # type: ignore[arg-type]
        checks.check("b", b, where(c, Answer.SECOND, Answer.THIRD))  # type: ignore[arg-type]
        checks.check("c", c, Answer.FIRST)  # type: ignore[arg-type]
        return checks

    asked = Function(ask, a=Bool, b=Bool, c=Bool)
    for a, b, c in itertools.product([True, False], repeat=3):
        verdict = asked(a=a, b=b, c=c)
        expected = "FIRST" if not a else ("SECOND" if c else "THIRD") if not b else "NONE" if c else "FIRST"
        assert verdict.answer == expected
        assert verdict.refused_by == tuple(n for n, held in zip("abc", (a, b, c), strict=True) if not held)
        assert set(verdict.passed) == set("abc") - set(verdict.refused_by)


def test_membership_of_numbers_outside_a_set_is_false() -> None:
    has = Function(lambda s, n: brokers.lift(s).has(n), s=brokers, n=Int(-2, 9))
    for n in range(-2, 10):
        assert has(s=[0, 3], n=n) == (n in (0, 3))
