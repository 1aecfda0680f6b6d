"""LLVM's work: text in, machine code out. As a script it is a process of its own, beside a search.

Such a process is given a line of JSON and the text; it gives the code and ends. It imports nothing of Highwater, so
that it is at work at once, and ends with the process that asks, however that ends.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Mapping

import llvmlite
import llvmlite.binding as llvm


def versions() -> str:
    """LLVM and its binding: what the code of a text depends on beside the text and the options."""
    return f"llvmlite {llvmlite.__version__}, LLVM {llvm.llvm_version_info}"


def machine_code(
    text: str, processor: tuple[str, str, str], levels: tuple[int, int], tuning: Mapping[str, bool]
) -> bytes:
    """The code of a text for a processor (triple, name, features), as an object file.

    ``levels`` are those of LLVM's passes and of its code generator. Raises RuntimeError where the text is wrong.
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


def _end_with_the_asker() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def main() -> int:
    """Compile what standard input asks for."""
    asked = json.loads(sys.stdin.buffer.readline())
    if asked["versions"] != versions():
        return 1
    text = sys.stdin.buffer.read(asked["bytes"]).decode()
    threading.Thread(target=_end_with_the_asker, daemon=True).start()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    code = machine_code(text, tuple(asked["processor"]), tuple(asked["levels"]), asked["tuning"])
    sys.stdout.buffer.write(code)
    sys.stdout.buffer.flush()
    # Without the clean-up: the thread still waits for standard input.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
