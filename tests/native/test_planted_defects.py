"""Defects planted in each part of the native engine are detected."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import pytest

from highwater.checker.engines import state_graph
from highwater.checker.engines.native import search
from highwater.checker.engines.native.code import machine
from highwater.checker.engines.native.code.program import Program
from highwater.checker.engines.native.text import ir, kernels
from highwater.checker.scenarios.search import SearchOptions
from tests import models, zoo
from tests.native.test_agreement import disagreements


def test_a_kernel_that_drops_an_action(monkeypatch: pytest.MonkeyPatch) -> None:
    model = models.scenario_model("truncation/kip-320")
    dropped = next(i for i, x in enumerate(model.instances) if x.action.name == "leader_write")
    take = kernels.Kernels._take

    def forget(self: Any, f: Any, scope: Any, number: Any, instance: Any, output: Any) -> Any:
        return output.start if number == dropped else take(self, f, scope, number, instance, output)

    monkeypatch.setattr(kernels.Kernels, "_take", forget)
    assert disagreements(model, Program(model), 600)


def test_a_branch_that_takes_the_values_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a value computed under one guard is used under another."""
    model = models.scenario_model("truncation/kip-320")
    llvm.parse_assembly(kernels.Kernels(model, state_graph.Layout(model.leaves)).text()).verify()
    monkeypatch.setattr(ir.ValueScope, "_return", lambda self: None)
    broken = llvm.parse_assembly(kernels.Kernels(model, state_graph.Layout(model.leaves)).text())
    with pytest.raises(RuntimeError, match="does not dominate"):
        broken.verify()


def test_a_table_that_takes_different_states_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: fingerprints with too few bits lose states, and the count shows it."""
    honest = kernels.combine

    def weak(f: Any, words: Any) -> Any:
        return f.op(f"or i64 {f.op(f'and i64 {honest(f, words)}, -281474976710656')}, 1")

    monkeypatch.setattr(kernels, "combine", weak)
    assert search(zoo.counters(4, 9), SearchOptions(workers=1)).distinct_states < 10**4


@pytest.mark.usefixtures("compiled_anew", "better_code_beside")
def test_better_code_that_is_other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the code compiled in the background is wrong; the search continues with it."""
    whole, improve = machine.whole, Program.improve

    def wrong(text: str) -> str:
        broken = whole(text).replace("i64 0, i64 %fp monotonic", "i64 0, i64 0 monotonic")
        assert broken != text
        return broken

    def waiting(self: Program, states: int, *, crowded: bool) -> None:
        monkeypatch.setattr(machine, "whole", wrong)
        improve(self, states, crowded=crowded)
        if self._beside is not None:
            self._beside.wait()

    monkeypatch.setattr(Program, "improve", waiting)
    found = search(zoo.counters(4, 9), SearchOptions(workers=1, limit_states=200_000))
    assert found.distinct_states != 10**4
