"""The symbolic values with which a protocol's functions compute, and the functions on them."""

from highwater.model.language.containers import ArrayValue, SeqValue, SetValue, first, least_by, members, size
from highwater.model.language.records import OptionValue, StructValue
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
    greatest,
    least,
    lift_like,
    of_one_kind,
    total,
    where,
)

__all__ = [
    "COMPARISONS", "OPERATORS", "UNARY", "ArrayValue", "Number", "OptionValue", "SeqValue", "SetValue",
    "StructValue", "Truth", "Value", "all_of", "any_of", "as_bool", "cases", "first", "greatest", "least",
    "least_by", "lift_like", "members", "of_one_kind", "size", "total", "where",
]  # fmt: skip
