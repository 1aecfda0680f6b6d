"""The classes on a Java class path: their names, and what a program can link to in each.

Only the declarations of a class file are read, not its code. Two classes with the same declarations have the same API.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from highwater.checker.base.problems import InputError

_PRIVATE, _SYNTHETIC = 0x2, 0x1000
_SIZES = {
    tag: size
    for size, tags in {2: (7, 8, 16, 19, 20), 3: (15,), 4: (3, 4, 9, 10, 11, 12, 17, 18), 8: (5, 6)}.items()
    for tag in tags
}
"""The bytes of each kind of constant by its tag (JVM specification, 4.4), except of texts (tag 1)."""
_PRIMITIVES = dict(
    zip("BCDFIJSZ", ["byte", "char", "double", "float", "int", "long", "short", "boolean"], strict=True)
)
_TYPE = re.compile(r"(\[*)(?:([BCDFIJSZ])|L([^;]*);)")


@dataclass(frozen=True)
class Member:
    """A field or a method. ``constant`` is the value that the compiler copies into programs that use a field."""

    flags: int
    name: str
    descriptor: str
    constant: str = ""

    @property
    def parameters(self) -> str:
        """The simple names of a method's parameter types, with a comma before and after each."""
        inside = self.descriptor[1 : self.descriptor.rfind(")")]
        found = (
            (_PRIMITIVES.get(primitive) or re.split(r"[/$]", name)[-1]) + "[]" * len(array)
            for array, primitive, name in _TYPE.findall(inside)
        )
        return f",{','.join(found)},"


@dataclass(frozen=True)
class ClassFile:
    """The declarations of a class. Names of classes have slashes, as in class files."""

    flags: int
    parents: tuple[str, ...]
    """The superclass and the interfaces."""
    members: tuple[Member, ...]
    linked: frozenset[str]
    """The classes that its code names."""

    @classmethod
    def of(cls, content: bytes) -> ClassFile:
        """Read a class file. Raises ValueError if the content is none."""
        try:
            return _Reader(content).read()
        except (struct.error, IndexError, KeyError, TypeError, UnicodeError) as wrong:
            raise ValueError(f"no class file: {wrong}") from None


class _Reader:
    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 8
        self.constants: list[bytes | str] = [b""]

    def number(self, size: int = 2) -> int:
        value = self.content[self.at : self.at + size]
        if len(value) < size:
            raise IndexError("it ends early")
        self.at += size
        return int.from_bytes(value)

    def name(self, constant: int) -> str:
        """A constant as text: a text, the text to which a class or a string refers, or the bytes of a number."""
        held = self.constants[constant]
        text = self.constants[int.from_bytes(held)] if isinstance(held, bytes) and len(held) == 2 else held
        return str(text)

    def read(self) -> ClassFile:
        if self.content[:4] != b"\xca\xfe\xba\xbe":
            raise IndexError("it does not begin as one")
        linked, count = [], self.number()
        while len(self.constants) < count:
            tag = self.number(1)
            size = self.number() if tag == 1 else _SIZES[tag]
            value = self.content[self.at : self.at + size]
            self.at += size
            if tag == 7:
                linked.append(len(self.constants))
            self.constants.append(value.decode(errors="replace") if tag == 1 else value)
            if tag in (5, 6):
                self.constants.append(b"")
        flags, _, parent = self.number(), self.number(), self.number()
        interfaces = [self.number() for _ in range(self.number())]
        members = [*self.members(), *self.members()]
        parents = tuple(self.name(number) for number in (parent, *interfaces) if number)
        return ClassFile(flags, parents, tuple(members), frozenset(map(self.name, linked)))

    def members(self) -> Iterable[Member]:
        for _ in range(self.number()):
            flags, name, descriptor = self.number(), self.name(self.number()), self.name(self.number())
            constant = ""
            for _ in range(self.number()):
                attribute, size = self.name(self.number()), self.number(4)
                if attribute == "ConstantValue":
                    constant = self.name(int.from_bytes(self.content[self.at : self.at + 2]))
                self.at += size
            if not flags & (_PRIVATE | _SYNTHETIC):
                yield Member(flags, name, descriptor, constant)


class ClassPath:
    """The classes of directories and jars; the first place of a class counts. Raises InputError for a damaged file."""

    def __init__(self, places: Sequence[Path]) -> None:
        self._places: dict[str, Path] = {}
        self._read: dict[str, ClassFile | None] = {}
        self._jars: dict[Path, ZipFile] = {}
        for place in places:
            try:
                if place.is_dir():
                    names = [str(file.relative_to(place)) for file in place.rglob("*.class")]
                else:
                    self._jars[place] = ZipFile(place)
                    names = self._jars[place].namelist()
            except (OSError, BadZipFile) as wrong:
                raise InputError(f"{place}: no jar that can be read: {wrong}") from None
            for name in names:
                if name.endswith(".class"):
                    self._places.setdefault(name.removesuffix(".class"), place)

    @cached_property
    def _by_simple_name(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name in self._places:
            found.setdefault(name.rpartition("/")[2], []).append(name)
        return found

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def moved(self, name: str) -> str:
        """The only class with the simple name of the class ``name``; ``name`` itself if there are none or several."""
        found = self._by_simple_name.get(name.rpartition("/")[2], [])
        return found[0] if len(found) == 1 else name

    def get(self, name: str) -> ClassFile | None:
        """The declarations of a class; None if it is not on the class path."""
        if name not in self._read:
            place = self._places.get(name)
            self._read[name] = None if place is None else self._class(place, f"{name}.class")
        return self._read[name]

    def _class(self, place: Path, name: str) -> ClassFile:
        try:
            content = self._jars[place].read(name) if place in self._jars else (place / name).read_bytes()
            return ClassFile.of(content)
        except (OSError, BadZipFile, ValueError) as wrong:
            raise InputError(f"{place}: {name} cannot be read: {wrong}") from None

    def api(self, names: Iterable[str]) -> bytes:
        """A digest of what a program can link to in these classes and in their superclasses and interfaces."""
        found, waiting, seen = hashlib.sha256(), sorted(names), set[str]()
        while waiting:
            name = waiting.pop()
            declared = self.get(name)
            if name not in seen and declared is not None:
                seen.add(name)
                members = sorted(map(repr, declared.members))
                found.update(f"{name} {declared.flags} {declared.parents} {members}\n".encode())
                waiting += sorted(declared.parents)
        return found.digest()
