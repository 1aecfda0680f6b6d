"""The types of the language: finite sets of plain values, each with a fixed layout of scalars (leaves)."""

from highwater.model.language.containers import Array, Seq, Set
from highwater.model.language.records import Only, Option, Struct
from highwater.model.language.scalar_types import Bool, BoolType, Enum, Index, Int, IntType, NumberType
from highwater.model.language.scalars import Hits, Leaf, Type

__all__ = [
    "Array", "Bool", "BoolType", "Enum", "Hits", "Index", "Int", "IntType", "Leaf", "NumberType", "Only", "Option",
    "Seq", "Set", "Struct", "Type",
]  # fmt: skip
