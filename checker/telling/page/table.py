"""The states of a run as tables of texts: a row for each field, a column for each value of an index of arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from highwater.checker.base import words
from highwater.checker.telling.charts.lanes import Lanes
from highwater.checker.telling.charts.sequence_chart import tells
from highwater.model.language.messages import Messages
from highwater.model.language.types import Array, Enum, Index, Struct, Type

Place = tuple[str, str, int]
"""The table's index (empty: of none), the row's label, the column."""


def tables(lanes: Lanes, states: Sequence[Mapping[str, Any]], said: Texts) -> dict[str, Any]:
    """The tables, and for each state the number of the text in each cell.

    ``{"tables": [{"title", "columns", "rows": [[label, path, tells, constant, [cell or null for each column]]]}],
    "states": [[text of each cell]]}``.
    """
    columns = [dict(cells(lanes.type, state)) for state in states]
    places = list(columns[0])
    numbers = {place: i for i, place in enumerate(places)}
    texts = [[said(column[place]) for place in places] for column in columns]
    found: dict[str, dict[str, Any]] = {}
    for place in places:
        index, label, column = place
        table = found.setdefault(index, {"title": index, "columns": _columns(lanes, index), "rows": {}})
        row = table["rows"].setdefault(label, [None] * max(1, len(table["columns"])))
        row[column] = numbers[place]
    for table in found.values():
        table["rows"] = [
            [label, tells(lanes.drawing, label), all(_same(texts, cell) for cell in row), row]
            for label, row in table["rows"].items()
        ]
    ordered = sorted(found.values(), key=lambda table: not table["title"])
    return {"tables": ordered, "states": texts}


class Texts(dict[str, int]):
    """Texts by the numbers that stand for them."""

    def __call__(self, text: str) -> int:
        """The number of a text, which is kept."""
        return self.setdefault(text, len(self))


def cells(type: Struct, state: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """Every cell of a state with its text; which cells there are depends on the type alone."""
    for name, inner in type.fields.items():
        value = state[name]
        if isinstance(inner, Messages):
            for kind, own in inner.fields.items():
                yield ("", f"{name}.{kind}", 0), words.say(own, value[kind])
        elif isinstance(inner, Array):
            items = value.values() if isinstance(value, Mapping) else value
            for i, item in enumerate(items):
                for label, text in _below(name, inner.element, item):
                    yield (inner.index.name, label, i), text
        else:
            for label, text in _below(name, inner, value):
                yield ("", label, 0), text


def _below(label: str, type: Type, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(type, Struct):
        for name, inner in type.fields.items():
            yield from _below(f"{label}.{name}", inner, value[name])
    elif isinstance(type, Array) and isinstance(type.element, Struct):
        for i, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _below(f"{label}[{i}]", type.element, item)
    else:
        yield label, words.say(type, value)


def _columns(lanes: Lanes, index: str) -> list[str]:
    """The heads of a table: the lanes' titles where the index has lanes."""
    if not index:
        return []
    found = _index(lanes.type, index)
    if index in lanes.first:
        return [lanes.titles[lanes.lane_of(found, i)] for i in range(found.size)]
    return [f"{index} {found.key(i)}" for i in range(found.size)]


def _index(type: Struct, name: str) -> Index | Enum:
    """The index of this name; where several have it (some members, all members) the largest."""
    own = [i.index for i in type.fields.values() if isinstance(i, Array) and i.index.name == name]
    return max(own, key=lambda index: index.size)


def _same(texts: Sequence[Sequence[int]], cell: int | None) -> bool:
    return cell is None or len({column[cell] for column in texts}) == 1
