"""Compile LLVM text to machine code, cache the code, and load it as functions that Python can call."""

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
from highwater.checker.engines.native import compiler
from highwater.checker.engines.native.ir import INTRINSICS


class Effort(Enum):
    """How much LLVM optimizes: the level of its passes over the text, and the level of its code generator."""

    USUAL = (0, 2)
    """Compiles in less than half of FULL's time. The code runs nearly as fast as FULL's code."""
    FULL = (2, 2)

    def at_least(self) -> list[Effort]:
        """This effort and all higher ones, the highest first."""
        return [effort for effort in reversed(Effort) if effort.value >= self.value]


@dataclass(frozen=True)
class Processor:
    """The processor for which code is compiled. On another processor, the code can fail or compute wrong results."""

    triple: str
    name: str
    features: str

    @classmethod
    @functools.cache
    def host(cls) -> Processor:
        """The processor on which this process runs."""
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        return cls(
            llvm.get_default_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
        )

    @property
    def parts(self) -> tuple[str, str, str]:
        """The processor as LLVM's arguments: triple, name and features."""
        return self.triple, self.name, self.features


@dataclass(frozen=True)
class TextName:
    """The digest and the size in bytes of an LLVM text (made by ``whole``): its identity in the cache."""

    digest: str
    size: int

    @classmethod
    def of(cls, text: str) -> TextName:
        """The name of a text that ``whole`` returned."""
        content = text.encode()
        return cls(hashlib.sha256(content).hexdigest(), len(content))


class Machine:
    """Compiled code for this processor. Its functions take and return 64-bit integers and release the GIL.

    Cached code is used if it was compiled with the requested effort or more. ``effort`` is the actual effort.
    """

    def __init__(self, text: str, effort: Effort = Effort.USUAL) -> None:
        processor, text = Processor.host(), whole(text)
        self._load(*(_kept(TextName.of(text), processor, effort) or _made(text, processor, effort)))

    @classmethod
    def kept(cls, text: TextName, effort: Effort) -> Machine | None:
        """The cached code of the text with this name, compiled with this effort or more; None if there is none."""
        found = _kept(text, Processor.host(), effort)
        return None if found is None else cls.of(found[1], found[0])

    @classmethod
    def of(cls, code: bytes, effort: Effort) -> Machine:
        """Load code that was compiled for this processor with this effort."""
        machine = cls.__new__(cls)
        machine._load(effort, code)
        return machine

    def _load(self, effort: Effort, code: bytes) -> None:
        self.effort = effort
        # LLVM's engine needs a module and a code generator; this module is empty.
        target = llvm.Target.from_triple(Processor.host().triple).create_target_machine(opt=0)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()

    def function(self, name: str, arguments: int, result: bool = False) -> Any:
        """The compiled function with this name, which takes ``arguments`` integers.

        If ``result`` is True, the compiled function returns an integer, else nothing.
        """
        address = self._engine.get_function_address(name)
        kind = ctypes.CFUNCTYPE(ctypes.c_int64 if result else None, *[ctypes.c_int64] * arguments)
        return kind(address)


def whole(text: str) -> str:
    """A text, preceded by declarations of the LLVM functions that it can call."""
    return INTRINSICS + text


def key(text: TextName, processor: Processor, effort: Effort) -> bytes:
    """The cache key for the machine code of a text: a digest of everything that determines the code."""
    parts = compiler.versions(), processor, effort, TUNING, text.digest
    return hashlib.sha256(repr(parts).encode()).digest()


TUNING = {"loop_vectorization": False, "slp_vectorization": False}
"""Further settings of LLVM's passes."""


def _kept(text: TextName, processor: Processor, effort: Effort) -> tuple[Effort, bytes] | None:
    """The cached code with the highest effort, at least ``effort``, as (effort, code); None if there is none."""
    place = code_cache.chosen()
    if place is not None:
        for better in effort.at_least():
            code = place.get(key(text, processor, better))
            if code is not None:
                return better, code
    return None


def _made(text: str, processor: Processor, effort: Effort) -> tuple[Effort, bytes]:
    code = compiler.machine_code(text, processor.parts, effort.value, TUNING)
    keep(TextName.of(text), processor, effort, code)
    return effort, code


def keep(text: TextName, processor: Processor, effort: Effort, code: bytes) -> None:
    """Cache the machine code of the text with this name."""
    place = code_cache.chosen()
    if place is not None:
        place.put(key(text, processor, effort), code)


# Background compilation: another process compiles better code while the present code is used.


class Beside:
    """Background compilation of a text by another process. On success, a thread calls ``done`` with the loaded code.

    The compiler runs in a process, because only one thread at a time can use llvmlite, and a thread cannot be
    cancelled. At exit, the starting process waits for the code and caches it for the next run, unless ``give_up`` was
    called.
    """

    def __init__(self, text: str, effort: Effort, done: Callable[[Machine], None]) -> None:
        self._effort, self._done, self._given_up = effort, done, False
        self._whole = whole(text)
        # -P: no modules from the current directory. PYTHONPATH: the module search path of this process.
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

    def give_up(self) -> None:
        """Cancel the compilation. ``done`` is not called after this."""
        self._given_up = True
        with suppress(ProcessLookupError):
            self._process.kill()
        self._thread.join()

    def wait(self) -> None:
        """Wait until ``done`` was called, or the compilation failed."""
        self._thread.join()

    def _follow(self) -> None:
        processor, process = Processor.host(), self._process
        assert process.stdin is not None
        assert process.stdout is not None
        content = self._whole.encode()
        request = {
            "llvm": compiler.llvm_versions(),
            "processor": processor.parts,
            "levels": self._effort.value,
            "tuning": TUNING,
            "bytes": len(content),
        }
        code = b""
        with suppress(OSError), process:
            process.stdin.write(json.dumps(request).encode() + b"\n" + content)
            process.stdin.flush()
            code = process.stdout.read()
            process.wait()
        if process.returncode == 0 and code and not self._given_up:
            keep(TextName.of(self._whole), processor, self._effort, code)
            self._done(Machine.of(code, self._effort))
