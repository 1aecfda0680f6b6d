"""Compilation of LLVM text to machine code. This source file is also the program of the background compiler.

The background process reads a line of JSON and the text, writes the machine code and ends. It imports nothing of
Highwater, so it starts fast. It ends with its parent process. Python runs it from the source text (``-c``), because
the package can be inside an archive.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import pkgutil
import sys
import threading
from collections.abc import Mapping

import llvmlite
import llvmlite.binding as llvm


def versions() -> str:
    """The versions of LLVM, llvmlite and this source file, as text. Machine code depends on them."""
    return f"{llvm_versions()}, {hashlib.sha256(source().encode()).hexdigest()}"


def llvm_versions() -> str:
    """The versions of LLVM and llvmlite, as text."""
    return f"llvmlite {llvmlite.__version__}, LLVM {llvm.llvm_version_info}"


@functools.cache
def source() -> str:
    """The source text of this module. The background compiler cannot call this function."""
    content = pkgutil.get_data(__name__.rpartition(".")[0], "compiler.py")
    assert content is not None
    return content.decode()


def machine_code(
    text: str, processor: tuple[str, str, str], levels: tuple[int, int], tuning: Mapping[str, bool]
) -> bytes:
    """Compile an LLVM text for a processor (triple, name, features), and return the object file.

    ``levels`` are the optimization levels of LLVM's passes and code generator, ``tuning`` further settings of the
    passes. Raises RuntimeError if the text is invalid.
    """
    triple, name, features = processor
    passes, level = levels
    target = llvm.Target.from_triple(triple).create_target_machine(cpu=name, features=features, opt=level)
    module = llvm.parse_assembly(text)
    options = llvm.create_pipeline_tuning_options(speed_level=passes)
    for setting, value in tuning.items():
        setattr(options, setting, value)
    builder = llvm.create_pass_builder(target, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = target.emit_object(module)
    return code


def _end_with_the_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def main() -> int:
    """Compile the text on standard input, as the background compiler. Returns the exit status."""
    request = json.loads(sys.stdin.buffer.readline())
    if request["llvm"] != llvm_versions():
        return 1
    text = sys.stdin.buffer.read(request["bytes"]).decode()
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    code = machine_code(text, tuple(request["processor"]), tuple(request["levels"]), request["tuning"])
    sys.stdout.buffer.write(code)
    sys.stdout.buffer.flush()
    # Exit without clean-up: the thread still waits for standard input.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
