"""The types of the language, and the symbolic values with which a protocol's functions compute.

A type is a finite set of plain values, with a fixed layout of scalars (leaves).
"""

from highwater.model.language.choosing import first, least_by
from highwater.model.language.containers import (
    Array,
    ArrayValue,
    Seq,
    SeqValue,
    Set,
    SetValue,
    size,
)
from highwater.model.language.graph import Leaf
from highwater.model.language.records import Only, Option, OptionValue, Struct, StructValue
from highwater.model.language.scalar_types import Bool, BoolType, Enum, Index, Int, IntType
from highwater.model.language.scalars import (
    COMPARISONS,
    OPERATORS,
    UNARY,
    Hits,
    Number,
    Truth,
    Type,
    Value,
    all_of,
    any_of,
    as_bool,
    cases,
    greatest,
    least,
    lift_like,
    total,
    where,
)

__all__ = [
    "COMPARISONS", "OPERATORS", "UNARY", "Array", "ArrayValue", "Bool", "BoolType", "Enum", "Hits", "Index", "Int",
    "IntType", "Leaf", "Number", "Only", "Option", "OptionValue", "Seq", "SeqValue", "Set", "SetValue",
    "Struct", "StructValue", "Truth", "Type", "Value", "all_of", "any_of", "as_bool", "cases", "first", "greatest",
    "least", "least_by", "lift_like", "size", "total", "where",
]  # fmt: skip
