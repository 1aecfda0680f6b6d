"""From LLVM text to functions that Python can call."""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding as llvm

from checker.native.ir import INTRINSICS

_ready = False


def _initialise() -> None:
    global _ready
    if not _ready:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        _ready = True


class Machine:
    """Compiled code for this processor. Functions take and give 64-bit integers and release Python's lock."""

    def __init__(self, text: str, level: int = 2) -> None:
        _initialise()
        target = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=level
        )
        module = llvm.parse_assembly(INTRINSICS + text)
        options = llvm.create_pipeline_tuning_options(speed_level=level)
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
