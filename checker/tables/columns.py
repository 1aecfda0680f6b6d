"""From scalars to Arrow columns: whole arrays at a time, by the types of the protocol.

A column is made from one numpy array for each scalar of its type. What repeats within a value (the elements of
an array, of a sequence, the members of a set) becomes the rows of a column of its own, and a list says which of
them are whose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from highwater.checker.engines.layout import Layout, Words
from highwater.model.language.messages import MessageKind
from highwater.model.language.types import (
    Array,
    BoolType,
    Enum,
    Index,
    IntType,
    Leaf,
    Option,
    Seq,
    Set,
    Struct,
    Type,
)

Scalar = NDArray[Any]
"""The values of one scalar in many states."""


def scalars(layout: Layout, leaves: Sequence[Leaf], states: Words) -> list[Scalar]:
    """The values of each scalar in packed states, in the smallest integers that hold them."""
    found = []
    for slot, leaf in zip(layout.slots, leaves, strict=True):
        kind = smallest(leaf.low, leaf.high)
        mask = np.uint64((1 << slot.bits) - 1)
        stored = (states[:, slot.word] >> np.uint64(slot.shift) & mask).astype(kind)
        found.append(stored + kind(slot.low) if slot.low else stored)
    return found


def smallest(low: int, high: int) -> type[np.signedinteger[Any]]:
    """The smallest signed integer type that holds an interval, and the numbers from 0 to its length."""
    for kind in (np.int8, np.int16, np.int32):
        if -1 - np.iinfo(kind).max <= low and max(high, high - low) <= np.iinfo(kind).max:
            return kind
    return np.int64


def column(type_: Type, values: Sequence[Scalar]) -> pa.Array:
    """The column of values of a type, from their scalars."""
    if isinstance(type_, BoolType):
        return pa.array(values[0].astype(np.bool_))
    if isinstance(type_, (IntType, Index, Enum)):
        return _numbers(type_, values[0])
    if isinstance(type_, Set):
        members = values[0].astype(np.uint64)[:, None] >> np.arange(
            type_.index.size, dtype=np.uint64
        ) & np.uint64(1)
        return _lists(members.sum(axis=1), _numbers(type_.index, np.nonzero(members)[1]))
    if isinstance(type_, Option):
        return _option(type_, values)
    if isinstance(type_, Struct):
        return _struct(type_.fields, values)
    if isinstance(type_, MessageKind):
        return pa.array([list(type_.decode(row)) for row in zip(*(v.tolist() for v in values), strict=True)])
    if isinstance(type_, Array) and isinstance(type_.index, Enum):
        return _struct(dict.fromkeys(type_.index.members, type_.element), values)
    if isinstance(type_, Array):
        size, length = type_.index.size, len(values[0])
        elements = _interleaved(type_.element, size, values)
        return _lists(np.full(length, size), column(type_.element, elements))
    if isinstance(type_, Seq):
        there = np.arange(type_.maximum) < values[0][:, None]
        elements = _interleaved(type_.element, type_.maximum, values[1:])
        return _lists(values[0], column(type_.element, [e[there.ravel()] for e in elements]))
    raise NotImplementedError(str(type_))


def _numbers(type_: Type, values: Scalar, none: NDArray[np.bool_] | None = None) -> pa.Array:
    """A column of numbers or of names; null where ``none`` is set."""
    assert isinstance(type_, (IntType, Index, Enum))
    kind = smallest(type_.low, type_.high)
    numbers = pa.array(values.astype(kind), mask=none)
    if isinstance(type_, Enum):
        return pa.DictionaryArray.from_arrays(numbers, pa.array(type_.members))
    return numbers


def _struct(types: Mapping[str, Type], values: Sequence[Scalar]) -> pa.Array:
    fields, start = {}, 0
    for name, field in types.items():
        fields[name] = column(field, values[start : start + field.leaf_count])
        start += field.leaf_count
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields))


def _option(type_: Option, values: Sequence[Scalar]) -> pa.Array:
    content = type_.content_type
    if isinstance(content, (IntType, Index, Enum)):
        none = values[0] < content.low
        return _numbers(content, np.where(none, content.low, values[0]), none)
    return _with_nulls(column(content, values[1:]), values[0] == 0)


def _with_nulls(array: pa.Array, none: NDArray[np.bool_]) -> pa.Array:
    """The same column, null where ``none`` is set too."""
    if array.null_count:
        none = none | array.is_null().to_numpy(zero_copy_only=False)
    mask = pa.array(none)
    if isinstance(array, pa.StructArray):
        children = [array.field(i) for i in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(array.type), mask=mask)
    if isinstance(array, pa.ListArray):
        return pa.ListArray.from_arrays(array.offsets, array.values, mask=mask)
    return pc.if_else(mask, pa.scalar(None, array.type), array)


def _interleaved(element: Type, size: int, values: Sequence[Scalar]) -> list[Scalar]:
    """The scalars of the elements of all values, one value's elements after the other's."""
    width = element.leaf_count
    return [np.stack([values[i * width + s] for i in range(size)], axis=1).ravel() for s in range(width)]


def _lists(lengths: NDArray[Any], elements: pa.Array) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), elements)
