"""Symbolic values: what a protocol's functions compute with. Each kind of them has a module of its own."""

from highwater.model.language.composites import (
    ArrayValue,
    OptionValue,
    SeqValue,
    SetValue,
    StructValue,
    members,
)
from highwater.model.language.graph import BOOL
from highwater.model.language.scalars import (
    COMPARISONS,
    OPERATORS,
    UNARY,
    Number,
    Truth,
    Value,
    all_of,
    any_of,
    as_bool,
    cases,
    choose,
    greatest,
    least,
    lift_like,
    of_one_kind,
    total,
    watched,
    watching,
    where,
)
from highwater.model.language.sequences import first, least_by, size

__all__ = [
    "BOOL", "COMPARISONS", "OPERATORS", "UNARY", "ArrayValue", "Number", "OptionValue", "SeqValue", "SetValue",
    "StructValue", "Truth", "Value", "all_of", "any_of", "as_bool", "cases", "choose", "first", "greatest", "least",
    "least_by", "lift_like", "members", "of_one_kind", "size", "total", "watched", "watching", "where",
]  # fmt: skip
