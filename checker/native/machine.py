"""From LLVM text to functions that Python can call."""

from __future__ import annotations

import ctypes
from enum import Enum
from typing import Any

import llvmlite.binding as llvm

from highwater.checker.native.ir import INTRINSICS

_ready = False


class Effort(Enum):
    """What LLVM is asked to do: the level of its passes over the text, and that of its code generator."""

    QUICK = (0, 0)
    """Compiles ten times as fast as FULL; runs at a third to a half of its speed."""
    USUAL = (0, 2)
    """Compiles in less than half of the time; runs nearly as fast, as the text has no detours to begin with."""
    FULL = (2, 2)


def _initialise() -> None:
    global _ready
    if not _ready:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        _ready = True


class Machine:
    """Compiled code for this processor. Functions take and give 64-bit integers and release Python's lock."""

    def __init__(self, text: str, effort: Effort = Effort.USUAL) -> None:
        _initialise()
        passes, code = effort.value
        target = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=code
        )
        module = llvm.parse_assembly(INTRINSICS + text)
        options = llvm.create_pipeline_tuning_options(speed_level=passes)
        options.loop_vectorization = False
        options.slp_vectorization = False
        builder = llvm.create_pass_builder(target, options)
        builder.getModulePassManager().run(module, builder)
        self._engine = llvm.create_mcjit_compiler(module, target)
        self._engine.finalize_object()

    def function(self, name: str, arguments: int, result: bool = False) -> Any:
        """A callable with so many integer arguments."""
        address = self._engine.get_function_address(name)
        kind = ctypes.CFUNCTYPE(ctypes.c_int64 if result else None, *[ctypes.c_int64] * arguments)
        return kind(address)
