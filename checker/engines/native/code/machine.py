"""From LLVM text to functions that Python can call."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

import llvmlite.binding as llvm

from highwater.checker.engines import cache as code_cache
from highwater.checker.engines.native.code import compiler, machine
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


# Compiling beside searching: better code is made by another process while the code at hand is used.


class Beside:
    """Code that a process makes meanwhile; ``done`` is called with it, on another thread, when it is there.

    A process and no thread: LLVM's binding lets one thread in at a time, and a thread could not be given up. This
    process does not end before it has the code, unless it is given up: what was made is kept for the next run.
    """

    def __init__(self, text: str, effort: Effort, done: Callable[[Machine], None]) -> None:
        self._effort, self._done, self._given_up = effort, done, False
        self._whole = machine.whole(text)
        # Neither the current directory nor that of the script is a place for modules; ours may not be the usual ones.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", compiler.source()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self._thread = threading.Thread(target=self._follow, name="compiling")
        self._thread.start()

    @property
    def under_way(self) -> bool:
        """Whether the code is still to come."""
        return self._thread.is_alive()

    def give_up(self) -> None:
        """End it; ``done`` is not called any more."""
        self._given_up = True
        with suppress(ProcessLookupError):
            self._process.kill()
        self._thread.join()

    def wait(self) -> None:
        """Until the code was handed over, or cannot be made."""
        self._thread.join()

    def _follow(self) -> None:
        processor, process = Processor.host(), self._process
        assert process.stdin is not None
        assert process.stdout is not None
        content = self._whole.encode()
        asked = {
            "llvm": compiler.llvm_versions(),
            "processor": processor.parts,
            "levels": self._effort.value,
            "tuning": machine.TUNING,
            "bytes": len(content),
        }
        code = b""
        with suppress(OSError), process:
            process.stdin.write(json.dumps(asked).encode() + b"\n" + content)
            process.stdin.flush()
            code = process.stdout.read()
            process.wait()
        if process.returncode == 0 and code and not self._given_up:
            machine.keep(TextName.of(self._whole), processor, self._effort, code)
            self._done(Machine.of(code, self._effort))
