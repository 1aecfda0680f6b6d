"""Text output: the width of lines, folding, columns, and the values of a state as text."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from highwater.model.language import Array, Messages, Option, Seq, Set, Struct
from highwater.model.language.messages import MessageKind
from highwater.model.language.types import Type
from highwater.traces.reports.text import WIDEST, fold

_LEAST = 32
"""The least width of a row's last cell in ``columns``; with less room, the cell goes to the lines below."""


def width() -> int | None:
    """The number of columns at which to fold lines: $COLUMNS or the terminal's width, at most ``WIDEST``.

    None if neither is known; then nothing is folded.
    """
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return min(shutil.get_terminal_size().columns, WIDEST) if known else None


def folded(lines: Iterable[str]) -> Iterator[str]:
    """The lines, folded at ``width``. Continuation lines are indented by two more columns than their first line."""
    columns = width()
    for line in lines:
        text = line.lstrip()
        indent = line[: len(line) - len(text)]
        yield from fold(text, indent, columns, f"{indent}  ") if text else [line]


def paragraph(line: str) -> str:
    """A line folded at ``width``."""
    return "\n".join(folded([line]))


def aligned(rows: Sequence[Sequence[str]], numbers: Container[int] = ()) -> Iterator[list[str]]:
    """The cells of rows, padded to the width of their columns, without the last column.

    Columns of ``numbers`` are aligned on the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    for *cells, last in rows:
        padded = zip(cells, widths, strict=True)
        yield [*(f"{cell:{'>' if i in numbers else '<'}{w}}" for i, (cell, w) in enumerate(padded)), last]


def columns(rows: Sequence[Sequence[str]], indent: str, width: int | None) -> Iterator[str]:
    """Lines with the cells of ``rows`` aligned in columns. The last cell of a row is folded in its column.

    If the other columns leave too little room, the last cell goes to the lines below. Without ``width`` nothing is
    folded.
    """
    for *cells, last in aligned(rows):
        head = indent + "".join(f"{cell}  " for cell in cells)
        below = width is not None and width - len(head) < _LEAST
        if below and last:
            yield head.rstrip()
            yield from fold(last, f"{indent}    ", width)
        elif last:
            yield from fold(last, head, width, " " * len(head))
        else:
            yield head.rstrip()


# Values of a state as text: ``{0,2}`` for a set, ``[…]`` for a sequence, ``none`` for None.


def at(type: Type, path: str) -> Type:
    """The type of the value at a path such as ``replicas[1].hwm``."""
    for name in re.findall(r"\w+", path):
        if isinstance(type, Option):
            type = type.content_type
        if isinstance(type, Struct):
            type = type.fields[name]
        else:
            assert isinstance(type, (Array, Seq))
            type = type.element
    return type


def say(type: Type, value: Any, *, brief: bool = False) -> str:
    """A value of a state as one line of text. ``brief`` leaves out fields of structs that are None or False."""
    if isinstance(type, Option):
        return "none" if value is None else say(type.content_type, value, brief=brief)
    if isinstance(type, Set):
        return "{" + ",".join(map(str, value)) + "}"
    if isinstance(type, MessageKind):
        return "{" + ", ".join(_message(type.message, item) for item in value) + "}"
    if isinstance(type, Array) and isinstance(value, Mapping):
        items = (f"{name} {say(type.element, item, brief=brief)}" for name, item in value.items())
        return "[" + ", ".join(items) + "]"
    if isinstance(type, (Array, Seq)):
        return "[" + ", ".join(say(type.element, item, brief=brief) for item in value) + "]"
    if isinstance(type, Struct):
        return "(" + fields(type, value, brief=brief) + ")"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def change(type: Type, path: str, values: tuple[object, object]) -> str:
    """A change of the value at a path of a state: ``isr {0,1} → {0}``. ``values`` are the values before and after."""
    inner = at(type, path)
    return f"{path} {say(inner, values[0])} → {say(inner, values[1])}"


def _message(type: Struct, value: Any) -> str:
    return f"{type.name}({fields(type, value)})" if type.fields else type.name


def fields(type: Struct, value: Any, *, brief: bool = False) -> str:
    """A struct's fields with their values, on one line. ``brief`` is as in ``say``."""
    shown = [n for n in type.fields if not (brief and (value[n] is None or value[n] is False))]
    return ", ".join(f"{name} {say(type.fields[name], value[name], brief=brief)}" for name in shown)


def settings(parameters: Mapping[str, int]) -> str:
    """Parameters and their values, on one line: ``brokers 3, crashes 1``."""
    return ", ".join(f"{name} {value}" for name, value in parameters.items())


def lines(
    type: Struct, state: dict[str, Any], only: Collection[str] | None = None
) -> Iterator[tuple[str, str]]:
    """A state as pairs (path, text): one for each field.

    An array has a pair for each element, and a field of messages has a pair for each kind of message. ``only`` has
    paths of scalars: fields that contain none of these scalars are left out.
    """
    for name, inner in type.fields.items():
        value = state[name]
        if isinstance(inner, Messages):
            rows = [(f"{name}.{kind}", own, value[kind]) for kind, own in inner.fields.items()]
        elif isinstance(inner, Array):
            items = value.items() if isinstance(value, Mapping) else enumerate(value)
            rows = [(f"{name}[{i}]", inner.element, item) for i, item in items]
        else:
            rows = [(name, inner, value)]
        for path, own, item in rows:
            if _holds(path, only):
                yield path, _bare(own, item, path, only)


def _holds(path: str, only: Collection[str] | None) -> bool:
    """True if a scalar of ``only`` is at this path or below it. ``only`` None stands for all scalars."""
    return only is None or any(one == path or one.startswith((f"{path}.", f"{path}[")) for one in only)


def _bare(type: Type, value: Any, path: str, only: Collection[str] | None) -> str:
    if not isinstance(type, Struct):
        return say(type, value)
    parts = []
    for name, inner in type.fields.items():
        below = f"{path}.{name}"
        if _holds(below, only):
            text = _bare(inner, value[name], below, only)
            parts.append(f"{name} ({text})" if isinstance(inner, Struct) else f"{name} {text}")
    return ", ".join(parts)
