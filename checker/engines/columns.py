"""States and transitions as Arrow columns, for whole arrays at a time, by the types of the protocol.

``StateTable`` and ``TransitionTable`` are the tables of ``highwater states`` (docs/results.md). A column is built from
one numpy array for each scalar of its type. Repeated parts of a value (the elements of an array or a sequence, the
members of a set) become the rows of an inner column; a list column assigns them to values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from highwater.checker.engines.native.instructions import Evaluation
from highwater.checker.engines.state_graph import Layout, Words
from highwater.model.language import Array, Enum, Index, Model, Option, Seq, Set, Struct, graph
from highwater.model.language.messages import MessageKind, scalars_at
from highwater.model.language.types import BoolType, IntType, Leaf, Type

Scalar = NDArray[Any]
"""The values of one scalar in many states."""


def scalars(layout: Layout, leaves: Sequence[Leaf], states: Words) -> list[Scalar]:
    """The values of each scalar in packed states, in the smallest sufficient integer type."""
    found = []
    for slot, leaf in zip(layout.slots, leaves, strict=True):
        kind = smallest(leaf.low, leaf.high)
        mask = np.uint64((1 << slot.bits) - 1)
        stored = (states[:, slot.word] >> np.uint64(slot.shift) & mask).astype(kind)
        found.append(stored + kind(slot.low) if slot.low else stored)
    return found


def smallest(low: int, high: int) -> type[np.signedinteger[Any]]:
    """The smallest signed integer type that holds the numbers from ``low`` to ``high``, and 0 to ``high - low``."""
    for kind in (np.int8, np.int16, np.int32):
        if -1 - np.iinfo(kind).max <= low and max(high, high - low) <= np.iinfo(kind).max:
            return kind
    return np.int64


def column(type_: Type, values: Sequence[Scalar]) -> pa.Array:
    """The Arrow column of values of a type, from the arrays of their scalars."""
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
        return _messages(type_, values)
    if isinstance(type_, Array) and isinstance(type_.index, Enum):
        return _struct(dict.fromkeys(type_.index.members, type_.element), values)
    if isinstance(type_, Array):
        size, length = type_.index.size, len(values[0])
        elements = _interleaved(type_.element, size, values)
        return _lists(np.full(length, size), column(type_.element, elements))
    if isinstance(type_, Seq):
        there = np.arange(type_.maximum) < values[0][:, None]
        if not type_.element.leaf_count:
            return _lists(values[0], _trues(int(values[0].sum(dtype=np.int64))))
        elements = _interleaved(type_.element, type_.maximum, values[1:])
        return _lists(values[0], column(type_.element, [e[there.ravel()] for e in elements]))
    raise NotImplementedError(str(type_))


def _numbers(type_: Type, values: Scalar, none: NDArray[np.bool_] | None = None) -> pa.Array:
    """The Arrow column of an integer, index or enumeration type, with null where ``none`` is set."""
    assert isinstance(type_, (IntType, Index, Enum))
    kind = smallest(type_.low, type_.high)
    numbers = pa.array(values.astype(kind), mask=none)
    if isinstance(type_, Enum):
        return pa.DictionaryArray.from_arrays(numbers, pa.array(type_.members))
    return numbers


def _struct(types: Mapping[str, Type], values: Sequence[Scalar]) -> pa.Array:
    fields, start = {}, 0
    for name, field in types.items():
        if not field.leaf_count:
            continue  # it has one value; Parquet has no empty struct
        fields[name] = column(field, values[start : start + field.leaf_count])
        start += field.leaf_count
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields))


def _option(type_: Option, values: Sequence[Scalar]) -> pa.Array:
    content = type_.content_type
    if isinstance(content, (IntType, Index, Enum)):
        none = values[0] < content.low
        return _numbers(content, np.where(none, content.low, values[0]), none)
    if not content.leaf_count:
        return _with_nulls(_trues(len(values[0])), values[0] == 0)
    return _with_nulls(column(content, values[1:]), values[0] == 0)


def _trues(length: int) -> pa.Array:
    """The column for values without scalars, such as a message without fields."""
    return pa.array(np.ones(length, dtype=np.bool_))


def _with_nulls(array: pa.Array, none: NDArray[np.bool_]) -> pa.Array:
    """The column with further nulls, in the rows where ``none`` is set."""
    if array.null_count:
        none = none | array.is_null().to_numpy(zero_copy_only=False)
    mask = pa.array(none)
    if isinstance(array, pa.StructArray):
        children = [array.field(i) for i in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(array.type), mask=mask)
    if isinstance(array, pa.ListArray):
        return pa.ListArray.from_arrays(array.offsets, array.values, mask=mask)
    return pc.if_else(mask, pa.scalar(None, array.type), array)


def _messages(kind: MessageKind, values: Sequence[Scalar]) -> pa.Array:
    """The Arrow column of the messages in flight, in the order of ``MessageKind.decode``."""
    states, numbers = [], []
    for word, value in enumerate(values):
        if kind.copies:
            state = np.repeat(np.arange(len(value)), value)
            number = np.full(len(state), word)
        else:
            bits = value.astype(np.uint64)[:, None] >> np.arange(kind.width, dtype=np.uint64) & np.uint64(1)
            state, bit = np.nonzero(bits)
            number = word * kind.width + bit
        states.append(state)
        numbers.append(number)
    state, number = np.concatenate(states), np.concatenate(numbers)
    number = number[np.argsort(state, kind="stable")]
    lengths = np.bincount(state, minlength=len(values[0]))
    return _lists(lengths, _every_message(kind).take(pa.array(number)))


def _every_message(kind: MessageKind) -> pa.Array:
    """The Arrow column of all possible messages of a kind."""
    if not kind.message.leaf_count:
        return _trues(kind.count)
    every = np.array([scalars_at(kind.message, number) for number in range(kind.count)], dtype=np.int64)
    return column(kind.message, list(every.T))


def _interleaved(element: Type, size: int, values: Sequence[Scalar]) -> list[Scalar]:
    """The scalars of the elements of all values, ordered by value and then by element."""
    width = element.leaf_count
    return [np.stack([values[i * width + s] for i in range(size)], axis=1).ravel() for s in range(width)]


def _lists(lengths: NDArray[Any], elements: pa.Array) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), elements)


# --- the two tables of a model -----------------------------------------------------------------------

STATES, TRANSITIONS = "states", "transitions"
"""The names of the tables, and of the folders with their files."""
IDS = ("state", "source", "target")
Numbers = NDArray[Any]


class StateTable:
    """The table of states: one row for each state.

    ``properties`` has, by name, the column of each invariant.
    """

    folder: ClassVar = STATES

    def __init__(self, model: Model, layout: Layout) -> None:
        self._model, self._layout = model, layout
        self._type = model.protocol.state
        self._holds = Evaluation(layout, [p.node for p in model.properties])
        taken = {"state", "depth"}
        self._fields = {name: _free(name, taken) for name, t in self._type.fields.items() if t.leaf_count}
        self.properties = {p.name: _free(p.name, taken) for p in model.properties}

    def columns(self, ids: Numbers, depths: Numbers, states: Words) -> dict[str, pa.Array]:
        """The columns of packed states: each has an id (64 bits), and a level in ``depths`` (from 1)."""
        found = {"state": pa.array(ids.astype(np.int64)), "depth": pa.array(depths.astype(np.int32))}
        values = scalars(self._layout, self._model.leaves, states)
        for name, title in self._fields.items():
            place, type_ = self._type.field(name)
            found[title] = column(type_, values[place])
        for title, holds in zip(self.properties.values(), self._holds(states), strict=True):
            found[title] = pa.array(holds)
        return found


class TransitionTable:
    """The table of transitions: one row for each step between states.

    ``properties`` has, by name, the column of each step property.
    """

    folder: ClassVar = TRANSITIONS

    def __init__(self, model: Model, layout: Layout) -> None:
        actions = [action.name for action in model.actions]
        rules = list(dict.fromkeys(action.source for action in model.actions))
        place = {name: i for i, name in enumerate(actions)}
        self._actions, self._rules = pa.array(actions, pa.string()), pa.array(rules, pa.string())
        self._action_of = np.array([place[i.action.name] for i in model.instances], dtype=np.int16)
        self._rule_of = np.array([rules.index(i.action.source) for i in model.instances], dtype=np.int16)
        self._sentences = pa.array([i.sentence or str(i) for i in model.instances], pa.string())
        self._parameters = _parameters([dict(i.parameters) for i in model.instances])
        taken = {"source", "target", "action", "parameters", "sentence", "rule"}
        self.properties = {p.name: _free(p.name, taken) for p in model.step_properties}
        own = [
            (number, judged)
            for number, of_instance in enumerate(model.judged)
            for judged in of_instance
            if judged.node is not graph.TRUE
        ]
        self._judged = [(number, np.uint64(1 << judged.number)) for number, judged in own]
        self._holds = Evaluation(layout, [judged.node for _, judged in own]) if own else None

    def columns(
        self, sources: Numbers, targets: Numbers, instances: Numbers, broken: Words
    ) -> dict[str, pa.Array]:
        """The columns of steps: ids of source and target state, and the instance's number in the model.

        ``broken`` has a bit for each step property that the step violates.
        """
        found = {
            "source": pa.array(sources.astype(np.int64)),
            "target": pa.array(targets.astype(np.int64)),
            "action": pa.DictionaryArray.from_arrays(pa.array(self._action_of[instances]), self._actions),
        }
        if self._parameters is not None:
            found["parameters"] = self._parameters.take(pa.array(instances.astype(np.int64)))
        numbers = pa.array(instances.astype(np.int32))
        found["sentence"] = pa.DictionaryArray.from_arrays(numbers, self._sentences)
        found["rule"] = pa.DictionaryArray.from_arrays(pa.array(self._rule_of[instances]), self._rules)
        for number, title in enumerate(self.properties.values()):
            found[title] = pa.array(broken >> np.uint64(number) & np.uint64(1) == 0)
        return found

    def broken(self, states: Words, sources: Numbers, instances: Numbers) -> Words:
        """A bit mask for each step: bit n is set if the step violates step property n.

        ``states`` are packed states, ``sources`` the index in them of each step's source, and ``instances`` the numbers
        of the model's instances. The target state, which symmetry reduction replaces by a representative, has no part.
        """
        broken: Words = np.zeros(len(sources), dtype=np.uint64)
        if self._holds is None or not len(sources):
            return broken
        order = np.argsort(instances, kind="stable")
        starts = np.searchsorted(instances[order], [n for n, _ in self._judged])
        ends = np.searchsorted(instances[order], [n for n, _ in self._judged], side="right")
        for (_, bit), holds, start, end in zip(self._judged, self._holds(states), starts, ends, strict=True):
            own = order[start:end]
            broken[own[~holds[sources[own]]]] |= bit
        return broken


def with_dictionary(schema: pa.Schema) -> list[str]:
    """The paths of the columns for which Parquet should use a dictionary: all but ids and packed words."""
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    found = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    paths = [found.column(i).path for i in range(len(found))]
    return [path for path in paths if path not in IDS and not path.startswith("_")]


def _free(name: str, taken: set[str]) -> str:
    """The name, with underscores added until it is not in ``taken``. The result is added to ``taken``."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _parameters(choices: Iterable[dict[str, Any]]) -> pa.StructArray | None:
    """The parameters of all instances as a column, null for parameters that an action lacks.

    None if no action has parameters.
    """
    rows = list(choices)
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not names:
        return None
    columns = []
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            found = pa.array(values)
            empty = pa.types.is_struct(found.type) and not found.type.num_fields
            columns.append(pa.array([None if v is None else True for v in values]) if empty else found)
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # actions use the name for different types
            columns.append(pa.array([None if v is None else str(v) for v in values]))
    return pa.StructArray.from_arrays(columns, names=names)
