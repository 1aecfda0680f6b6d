"""Reading fields of untrusted JSON: every value has the type and the range that is asked for, or a TraceError."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from highwater.traces.reading.errors import OutOfRangeError, TraceError, printable

INT32, INT64 = 2**31 - 1, 2**63 - 1
MAX_TEXT = 1000


@dataclass(frozen=True)
class Place:
    """Where a value stands: file, line, and path within the line."""

    path: Path
    line: int
    field: str = ""

    def at(self, name: str) -> Place:
        """A field of this value."""
        return Place(self.path, self.line, f"{self.field}.{name}" if self.field else name)

    def item(self, position: int) -> Place:
        """An item of this list."""
        return Place(self.path, self.line, f"{self.field}[{position}]")

    def wrong(self, message: str) -> TraceError:
        """An error at this place, to be raised by the caller."""
        return TraceError(self.path, self.line, self.field or None, message)

    def out_of_range(self, message: str) -> OutOfRangeError:
        """Likewise of a value that the model has no room for."""
        return OutOfRangeError(self.path, self.line, self.field or None, message)


class Fields:
    """An object of a line, with all its fields: one that nobody knows is an error."""

    def __init__(self, place: Place, value: Any, known: Sequence[str], optional: Sequence[str] = ()) -> None:
        if not isinstance(value, dict):
            raise place.wrong(f"expected an object, not {_shown(value)}")
        for name in known:
            if name not in value:
                raise place.at(name).wrong("missing")
        for name in value:
            if name not in known and name not in optional:
                raise place.wrong(f"a field that is not known: {printable(name, 60)}")
        self.place, self._value = place, value

    def __contains__(self, name: str) -> bool:
        """Whether an optional field is there."""
        return name in self._value

    def raw(self, name: str) -> Any:
        """A field as it is."""
        return self._value[name]

    def number(self, name: str, low: int = 0, high: int = INT32) -> int:
        """A whole number within bounds."""
        return number(self.place.at(name), self._value[name], low, high)

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self._value[name]
        if not isinstance(value, bool):
            raise self.place.at(name).wrong(f"expected true or false, not {_shown(value)}")
        return value

    def text(self, name: str) -> str:
        """A string of at most MAX_TEXT characters."""
        return text(self.place.at(name), self._value[name])

    def text_or_null(self, name: str) -> str | None:
        """A string or null."""
        return None if self._value[name] is None else self.text(name)

    def choice(self, name: str, allowed: Sequence[str]) -> str:
        """One of some strings."""
        value = self.text(name)
        if value not in allowed:
            raise self.place.at(name).wrong(f"{printable(value, 60)!r} is none of {', '.join(allowed)}")
        return value

    def numbers(self, name: str, low: int = 0, high: int = INT32) -> list[int]:
        """A list of whole numbers."""
        return [number(place, item, low, high) for place, item in self.items(name)]

    def numbers_or_null(self, name: str) -> list[int] | None:
        """A list of whole numbers or null."""
        return None if self._value[name] is None else self.numbers(name)

    def items(self, name: str) -> Iterator[tuple[Place, Any]]:
        """The items of a list, each with its place."""
        place, value = self.place.at(name), self._value[name]
        if not isinstance(value, list):
            raise place.wrong(f"expected a list, not {_shown(value)}")
        return ((place.item(i), item) for i, item in enumerate(value))


Reader = Callable[[Fields, str], Any]
"""What reads the field of a name."""
Form = Mapping[str, Reader]
"""The fields of an object, each with what reads it: a method of ``Fields``, or one of these."""


def whole(low: int, high: int = INT32) -> Reader:
    """A whole number within other bounds."""
    return lambda f, name: f.number(name, low, high)


def numbers(low: int) -> Reader:
    """A list of whole numbers from ``low`` on."""
    return lambda f, name: f.numbers(name, low)


def choice(*allowed: str) -> Reader:
    """One of some strings."""
    return lambda f, name: f.choice(name, allowed)


def in_order(read: Reader) -> Reader:
    """A list whose order says nothing: sorted."""
    return lambda f, name: sorted(read(f, name))


def texts(f: Fields, name: str) -> list[str]:
    """A list of strings. Raises TraceError."""
    return [text(place, item) for place, item in f.items(name)]


def each(form: Form) -> Reader:
    """A list of objects."""
    return lambda f, name: [read_form(place, item, form) for place, item in f.items(name)]


def read_form(place: Place, value: Any, form: Form, optional: Form | None = None) -> dict[str, Any]:
    """An object with all fields of the form, and perhaps the optional ones. Raises TraceError."""
    readers = {**form, **(optional or {})}
    fields = Fields(place, value, tuple(form), tuple(optional or ()))
    return {name: read(fields, name) for name, read in readers.items() if name in fields}


def number(place: Place, value: Any, low: int, high: int) -> int:
    """A whole number within bounds, at a place."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise place.wrong(f"expected a whole number, not {_shown(value)}")
    if not low <= value <= high:
        raise place.wrong(f"{printable(value, 40)} is outside {low}..{high}")
    return value


def text(place: Place, value: object) -> str:
    """A string of at most MAX_TEXT characters, at a place."""
    if not isinstance(value, str):
        raise place.wrong(f"expected a string, not {_shown(value)}")
    if len(value) > MAX_TEXT:
        raise place.wrong(f"longer than {MAX_TEXT} characters")
    return value


def _shown(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    return names.get(type(value), printable(value, 40))
