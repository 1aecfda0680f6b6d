"""From LLVM text to functions that Python can call."""

from __future__ import annotations

import ctypes
import functools
import hashlib
from dataclasses import dataclass
from enum import Enum
from typing import Any

import llvmlite.binding as llvm

from highwater.checker.engines import cache as code_cache
from highwater.checker.engines.native.code import compiler
from highwater.checker.engines.native.text.ir import INTRINSICS


class Effort(Enum):
    """What LLVM is asked to do: the level of its passes over the text, and that of its code generator."""

    QUICK = (0, 0)
    """Compiles ten times as fast as FULL; runs at a third to a half of its speed."""
    USUAL = (0, 2)
    """Compiles in less than half of the time; runs nearly as fast, as the text has no detours to begin with."""
    FULL = (2, 2)

    def at_least(self) -> list[Effort]:
        """This one and those above it, from the greatest on."""
        return [effort for effort in reversed(Effort) if effort.value >= self.value]


@dataclass(frozen=True)
class Processor:
    """What code is made for. Code of one processor may not run on another, or worse, run and be wrong."""

    triple: str
    name: str
    features: str

    @classmethod
    @functools.cache
    def host(cls) -> Processor:
        """The one that this process runs on."""
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        return cls(
            llvm.get_default_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
        )

    @property
    def parts(self) -> tuple[str, str, str]:
        """What LLVM is told of it."""
        return self.triple, self.name, self.features


@dataclass(frozen=True)
class TextName:
    """What names a whole text, and its length: enough to find its code where that is kept."""

    digest: str
    size: int

    @classmethod
    def of(cls, text: str) -> TextName:
        """That of a whole text."""
        content = text.encode()
        return cls(hashlib.sha256(content).hexdigest(), len(content))


class Machine:
    """Compiled code for this processor. Functions take and give 64-bit integers and release Python's lock.

    What was compiled before, in whatever process, is taken from the cache: with so much ``effort``, or more.
    ``effort`` then says with how much it was.
    """

    def __init__(self, text: str, effort: Effort = Effort.USUAL) -> None:
        processor, text = Processor.host(), whole(text)
        self._load(*(_kept(TextName.of(text), processor, effort) or _made(text, processor, effort)))

    @classmethod
    def kept(cls, text: TextName, effort: Effort) -> Machine | None:
        """What was compiled before of a whole text with so much effort, or more; None where nothing is kept."""
        found = _kept(text, Processor.host(), effort)
        return None if found is None else cls.of(found[1], found[0])

    @classmethod
    def of(cls, code: bytes, effort: Effort) -> Machine:
        """What was compiled elsewhere for this processor."""
        machine = cls.__new__(cls)
        machine._load(effort, code)
        return machine

    def _load(self, effort: Effort, code: bytes) -> None:
        self.effort = effort
        # An engine has to have a module and a code generator; this module is empty.
        target = llvm.Target.from_triple(Processor.host().triple).create_target_machine(opt=0)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()

    def function(self, name: str, arguments: int, result: bool = False) -> Any:
        """A callable with so many integer arguments."""
        address = self._engine.get_function_address(name)
        kind = ctypes.CFUNCTYPE(ctypes.c_int64 if result else None, *[ctypes.c_int64] * arguments)
        return kind(address)

    def address(self, name: str) -> int:
        """Where a variable of the text lies in memory."""
        return int(self._engine.get_global_value_address(name))


def whole(text: str) -> str:
    """A text with what all texts declare."""
    return INTRINSICS + text


def key(text: TextName, processor: Processor, effort: Effort) -> bytes:
    """What names the code of a text in the cache: all that it depends on."""
    digest = hashlib.sha256()
    for part in (
        compiler.versions(),
        repr(processor),
        repr((effort, TUNING)),
        text.digest,
    ):
        content = part.encode()
        digest.update(b"%d:" % len(content) + content)
    return digest.digest()


TUNING = {"loop_vectorization": False, "slp_vectorization": False}
"""Settings of LLVM's passes beside their level."""


def _kept(text: TextName, processor: Processor, effort: Effort) -> tuple[Effort, bytes] | None:
    """The best code of a text in the cache that was made with so much effort, and with how much it was."""
    place = code_cache.chosen()
    if place is not None:
        for better in effort.at_least():
            code = place.get(key(text, processor, better))
            if code is not None:
                return better, code
    return None


def _made(text: str, processor: Processor, effort: Effort) -> tuple[Effort, bytes]:
    """The code of a text, compiled, and put into the cache."""
    code = compiler.machine_code(text, processor.parts, effort.value, TUNING)
    keep(TextName.of(text), processor, effort, code)
    return effort, code


def keep(text: TextName, processor: Processor, effort: Effort, code: bytes) -> None:
    """Put the code of a whole text into the cache."""
    place = code_cache.chosen()
    if place is not None:
        place.put(key(text, processor, effort), code)
