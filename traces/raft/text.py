"""Kafka's objects as their ``toString`` prints them: ``Name(field=value, list=[Other(…), …], …)``.

Read in one pass, with no more nesting than ``MAX_DEPTH``. Fields that nobody asks for, known or not, are passed over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from highwater.traces.reading.errors import TraceError, printable
from highwater.traces.reading.fields import INT32, INT64, Place

MAX_DEPTH = 64
_TOKEN = re.compile(r"'[^']*'|[()\[\]{},]")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_NAME = re.compile(r"\s*([\w.$-]+)=")
_NUMBER = re.compile(r"-?\d{1,19}")


@dataclass
class Part:
    """An object of a line: its name, its fields, and what stands in it without a name.

    A value is another object or a text. Its methods raise TraceError, which names the field, where one that is asked
    for is missing or is something else.
    """

    place: Place
    name: str
    fields: dict[str, Part | str] = field(default_factory=dict)
    items: list[Part | str] = field(default_factory=list)

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
    stack: list[tuple[Part, str, str]] = []
    before = start
    for token in _TOKEN.finditer(text, start):
        sign = token[0]
        if sign[0] == "'":
            continue
        piece = text[before : token.start()]
        before = token.end()
        if sign in _CLOSING:
            name, word = _named(piece)
            own = name or word.strip()
            outer = stack[-1][0].place if stack else place
            stack.append((Part(outer.at(own) if own else outer, word.strip()), name, _CLOSING[sign]))
            if len(stack) > MAX_DEPTH:
                raise place.wrong("nested too deeply")
        elif not stack:
            break
        elif sign == ",":
            _add(stack[-1][0], piece)
        else:
            part, name, closing = stack.pop()
            if sign != closing:
                raise part.place.wrong(f"{sign} where {closing} was expected")
            _add(part, piece)
            if not stack:
                return part, token.end()
            holder = stack[-1][0]
            if name:
                holder.fields.setdefault(name, part)
            else:
                holder.items.append(part)
    raise place.wrong("breaks off")


def _named(piece: str) -> tuple[str, str]:
    found = _NAME.match(piece)
    return (found[1], piece[found.end() :]) if found else ("", piece)


def _add(part: Part, piece: str) -> None:
    """A text, which can have a name; nothing where an object has just ended."""
    name, word = _named(piece)
    word = word.strip()
    if name:
        part.fields.setdefault(name, word[1:-1] if word[:1] == "'" else word)
    elif word:
        part.items.append(word)


__all__ = ["MAX_DEPTH", "Part", "TraceError", "parse"]
