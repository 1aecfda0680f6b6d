"""The initial states as a formula: a few are listed, many are what their free parts and their condition say."""

from __future__ import annotations

from collections.abc import Sequence

import z3

from highwater.checker.engines.solver.terms import Numbers, Term, Translator
from highwater.model.language.initial import FreePart, InitialFamily, Scalars
from highwater.model.language.model import Model
from highwater.model.language.types import Leaf

LISTED = 64
"""Up to so many candidates are gone through one by one: the solver's simplifier sees through plain values."""


def listed(model: Model) -> list[Scalars] | None:
    """The initial states, where they are few; None where they are many."""
    if model.start is None or model.start.candidates <= LISTED:
        return model.initial
    return None


def begins(model: Model, numbers: Numbers, state: Sequence[Term]) -> Term:
    """That these scalars are an initial state of a model that has many."""
    assert model.start is not None
    families = [_is_of(model.leaves, numbers, state, family) for family in model.start.families]
    return z3.And(z3.Or(families), Translator(numbers, state)(model.start.condition))


def _is_of(leaves: Sequence[Leaf], numbers: Numbers, state: Sequence[Term], family: InitialFamily) -> Term:
    """That a state is one of a family: its fixed scalars are as they are, each free part has one of its values."""
    open_ = {part.start + i for part in family.parts for i in range(len(part.choices[0]))}
    same = [
        state[i] == numbers.literal(value, leaf)
        for i, (value, leaf) in enumerate(zip(family.scalars, leaves, strict=True))
        if i not in open_
    ]
    return z3.And([*same, *(_has_value(leaves, numbers, state, part) for part in family.parts)])


def _has_value(leaves: Sequence[Leaf], numbers: Numbers, state: Sequence[Term], part: FreePart) -> Term:
    """That a free part has one of its values; where these are all that its type has, that is known."""
    first, leaf = part.start, leaves[part.start]
    if len(part.choices[0]) == 1:
        values = {value for (value,) in part.choices}
        if values == set(range(leaf.low, leaf.high + 1)):
            return z3.And(numbers.in_type(state[first], leaf))
    own = range(first, first + len(part.choices[0]))
    return z3.Or(
        [
            z3.And([state[i] == numbers.literal(v, leaves[i]) for i, v in zip(own, choice, strict=True)])
            for choice in part.choices
        ]
    )
