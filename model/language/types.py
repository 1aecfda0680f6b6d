"""Types: finite sets of values, each with a fixed layout of scalars (leaves) and a width in bits.

A type can lift a plain Python value, wrap nodes into a symbolic value, and turn scalars back into a
plain, readable value. Types are compared by structure.
"""

from highwater.model.language.composite_types import Array, Only, Option, Seq, Set, Struct
from highwater.model.language.scalar_types import (
    Bool,
    BoolType,
    Enum,
    Hits,
    Index,
    Int,
    IntType,
    Leaf,
    NumberType,
    Type,
    widening,
)

__all__ = [
    "Array", "Bool", "BoolType", "Enum", "Hits", "Index", "Int", "IntType", "Leaf", "NumberType", "Only", "Option",
    "Seq", "Set", "Struct", "Type", "widening",
]  # fmt: skip
