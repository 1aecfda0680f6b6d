"""Kafka's objects as their ``toString`` prints them: ``Name(field=value, list=[Other(…), …], …)``.

Read in one pass, with no more nesting than ``MAX_DEPTH``. Fields that nobody asks for, known or not, are passed over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from highwater.traces.reading.errors import TraceError, printable
from highwater.traces.reading.fields import INT32, INT64, Place

MAX_DEPTH = 64
_TOKEN = re.compile(r"\s*+(?:([\w.$-]++)=)?+((?:[^'()\[\]{},]++|'[^']*+'|')*+)([()\[\]{},])")
"""A name, if one stands before an equals sign, the rest up to a sign, with quoted texts as a whole, and the sign."""
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_NUMBER = re.compile(r"-?\d{1,19}")


@dataclass(slots=True)
class Part:
    """An object of a line: its name, its fields, and what stands in it without a name.

    A value is another object or a text. Its methods raise TraceError, which names the field, where one that is asked
    for is missing or is something else.
    """

    outer: Part | Place
    own: str
    """What it is called in the object that it is in, or its name."""
    name: str
    fields: dict[str, Part | str] = field(default_factory=dict)
    items: list[Part | str] = field(default_factory=list)

    @property
    def place(self) -> Place:
        """Where it stands."""
        within = self.outer if isinstance(self.outer, Place) else self.outer.place
        return within.at(self.own) if self.own else within

    def at(self, *names: str) -> Part:
        """An object within this one, by the fields that lead to it; ``0`` is the first item of a list."""
        found: Part = self
        for name in names:
            inner = (found.items[0] if found.items else None) if name == "0" else found.fields.get(name)
            if not isinstance(inner, Part):
                raise found.place.at(name).wrong("missing" if inner is None else "expected an object")
            found = inner
        return found

    def text(self, name: str) -> str:
        """A field that is a text; an object's is its name."""
        found = self.fields.get(name)
        if found is None:
            raise self.place.at(name).wrong("missing")
        return found if isinstance(found, str) else found.name

    def number(self, name: str, low: int = -1, high: int = INT64) -> int:
        """A whole number within bounds; an offset, unless told otherwise."""
        text = self.text(name)
        if not _NUMBER.fullmatch(text):
            raise self.place.at(name).wrong(f"expected a whole number, not {printable(text, 40)}")
        if not low <= int(text) <= high:
            raise self.place.at(name).wrong(f"{printable(text, 40)} is outside {low}..{high}")
        return int(text)

    def small(self, name: str) -> int:
        """A node, an epoch or an error code; −1 stands for none."""
        return self.number(name, -1, INT32)

    def flag(self, name: str) -> bool:
        """True or false."""
        text = self.text(name)
        if text not in ("true", "false"):
            raise self.place.at(name).wrong(f"expected true or false, not {printable(text, 40)}")
        return text == "true"

    def optional(self, name: str) -> Part | str | None:
        """What is in an ``Optional``: None where it is empty."""
        found = self.fields.get(name)
        if found is None:
            raise self.place.at(name).wrong("missing")
        if isinstance(found, Part) and found.name in ("Optional", "OptionalInt", "OptionalLong"):
            return found.items[0] if found.items else found
        if found in ("Optional.empty", "OptionalInt.empty", "OptionalLong.empty"):
            return None
        raise self.place.at(name).wrong(f"expected an Optional, not {printable(self.text(name), 40)}")

    def optional_number(self, name: str) -> int | None:
        """A whole number that need not be there."""
        found = self.optional(name)
        if found is None:
            return None
        if not isinstance(found, str) or not _NUMBER.fullmatch(found):
            raise self.place.at(name).wrong("expected a whole number")
        return int(found)


def parse(place: Place, text: str, start: int = 0) -> tuple[Part, int]:
    """The object that begins here, and where it ends. Raises TraceError where it breaks off or is nested too deeply."""
    stack: list[tuple[Part, str | None, str]] = []
    at = start
    while (token := _TOKEN.match(text, at)) is not None:
        name, word, sign = token.groups()
        at, word = token.end(), word.strip()
        if sign in _CLOSING:
            outer = stack[-1][0] if stack else place
            stack.append((Part(outer, name or word, word), name, _CLOSING[sign]))
            if len(stack) > MAX_DEPTH:
                raise place.wrong("nested too deeply")
        elif not stack:
            break
        elif sign == ",":
            if name is not None or word:
                _add(stack[-1][0], name, word)
        else:
            part, own, closing = stack.pop()
            if sign != closing:
                raise part.place.wrong(f"{sign} where {closing} was expected")
            if name is not None or word:
                _add(part, name, word)
            if not stack:
                return part, at
            holder = stack[-1][0]
            if own is not None:
                holder.fields.setdefault(own, part)
            else:
                holder.items.append(part)
    raise place.wrong("breaks off")


def _add(part: Part, name: str | None, word: str) -> None:
    """A text, which can have a name."""
    if name is None:
        part.items.append(word)
    elif name not in part.fields:
        part.fields[name] = word[1:-1] if word[:1] == "'" else word


__all__ = ["MAX_DEPTH", "Part", "TraceError", "parse"]
