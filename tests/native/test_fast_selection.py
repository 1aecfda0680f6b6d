"""Quick code uses LLVM's fast instruction selector only for kernels whose every instruction it supports."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from highwater.checker.engines.native.kernels import Kernels
from highwater.checker.engines.native.machine import Effort, whole
from highwater.checker.engines.state_graph import Layout
from highwater.model.language import Model
from tests import models
from tests.slow import slow

_COMPILE = f"""
import sys, llvmlite.binding as llvm
from highwater.checker.engines.native import compiler
llvm.set_option("", "-pass-remarks-missed=sdagisel")
from highwater.checker.engines.native.machine import Processor
compiler.machine_code(sys.stdin.read(), Processor.host().parts, {Effort.QUICK.value}, {{}})
"""
_MISSED = re.compile(r"FastISel missed: (.*) \(in function: \w+\)")


def missed(text: str) -> set[str]:
    """The instructions that LLVM's fast selector does not support, calls left out: it resumes after them."""
    done = subprocess.run(
        [sys.executable, "-c", _COMPILE], input=whole(text), capture_output=True, text=True, check=True
    )
    return {instruction.split(" = ")[-1] for instruction in _MISSED.findall(done.stderr)}


def text(model: Model) -> str:
    return Kernels(model, Layout(model.leaves)).text()


@pytest.mark.parametrize(
    "name",
    ["every operation", pytest.param("zookeeper/large-sessions", marks=slow("a protocol's kernels, too"))],
)
def test_the_fast_selector_supports_a_kernel_s_instructions(name: str) -> None:
    model = models.everything(nodes=2) if name == "every operation" else models.scenario_model(name)
    # Only the fingerprint has a product of 128 bits.
    assert {re.sub(r"%[\w.]+", "%", left) for left in missed(text(model))} <= {"trunc i128 % to i64"}
