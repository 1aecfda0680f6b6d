"""Defects planted in each part of the native engine are detected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import llvmlite.binding as llvm
import pytest

from highwater.checker.engines import state_graph
from highwater.checker.engines.native import search, worker
from highwater.checker.engines.native.code import machine
from highwater.checker.engines.native.code.machine import Effort
from highwater.checker.engines.native.code.program import Program
from highwater.checker.engines.native.frontier import Store
from highwater.checker.engines.native.text import ir, kernels, runtime
from highwater.checker.engines.native.text.ir import ValueScope
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import Model
from tests import models, zoo
from tests.native.test_agreement import disagreements


def counters() -> Model:
    return Model(zoo.Counters({"counters": 4, "top": 9}), [])


def test_a_kernel_that_drops_an_action(monkeypatch: pytest.MonkeyPatch) -> None:
    model = models.scenario_model("truncation/kip-320")
    dropped = next(i for i, x in enumerate(model.instances) if x.action.name == "leader_write")
    take = kernels.Kernels._take

    def forget(self: Any, f: Any, scope: Any, number: Any, instance: Any, output: Any) -> Any:
        return output.start if number == dropped else take(self, f, scope, number, instance, output)

    monkeypatch.setattr(kernels.Kernels, "_take", forget)
    assert disagreements(model, Program(model), 600)


def test_a_kernel_that_forgets_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    model = models.everything()
    values = ValueScope.pack

    def stale(self: Any, node: Any, leaf: Any) -> Any:
        return values(self, model.inputs[leaf] if leaf == 1 else node, leaf)

    monkeypatch.setattr(ValueScope, "pack", stale)
    assert disagreements(model, Program(model), 600)


@pytest.mark.parametrize("operation", ["floordiv", "mod"])
def test_a_division_that_rounds_towards_zero(monkeypatch: pytest.MonkeyPatch, operation: str) -> None:
    model = models.everything(nodes=2)
    honest = ir.ValueScope._divided

    def towards_zero(self: Any, node: Any, number: Any, by: Any) -> Any:
        if node.op != operation or node.args[1].low <= 0:
            return honest(self, node, number, by)
        return self._function.op(f"{'sdiv' if operation == 'floordiv' else 'srem'} i64 {number}, {by}")

    def by_zero(self: Any, node: Any, number: Any, by: Any) -> Any:
        found = honest(self, node, number, by)
        return self._function.op(f"add i64 {found}, 1") if node.args[1].low <= 0 else found

    monkeypatch.setattr(ir.ValueScope, "_divided", by_zero if operation == "floordiv" else towards_zero)
    assert disagreements(model, Program(model, effort=Effort.QUICK), 600)


def test_a_wrong_pack_width(monkeypatch: pytest.MonkeyPatch) -> None:
    model = models.scenario_model("truncation/kip-320")
    honest = state_graph.Slot

    def narrow(word: int, shift: int, bits: int, low: int) -> state_graph.Slot:
        return honest(word, shift, max(1, bits - 1), low)

    monkeypatch.setattr(state_graph, "Slot", narrow)
    assert disagreements(model, Program(model), 600)


def test_a_planted_unchecked_guard_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    model = models.scenario_model("truncation/kip-320")
    honest = kernels._by_guard

    def first_only(instances: Any, depth: int) -> Iterator[Any]:
        yield from honest(instances, depth if depth == 0 else 99)

    monkeypatch.setattr(kernels, "_by_guard", first_only)
    assert disagreements(model, Program(model), 600)


def test_a_branch_that_takes_the_values_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a value computed under one guard is used under another."""
    model = models.scenario_model("truncation/kip-320")
    llvm.parse_assembly(kernels.Kernels(model, state_graph.Layout(model.leaves)).text()).verify()
    monkeypatch.setattr(ir.ValueScope, "_return", lambda self: None)
    broken = llvm.parse_assembly(kernels.Kernels(model, state_graph.Layout(model.leaves)).text())
    with pytest.raises(RuntimeError, match="does not dominate"):
        broken.verify()


def test_a_table_that_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the table never stores fingerprints, so states are found repeatedly."""
    honest = runtime.insert_function

    def forgetful() -> str:
        text = honest()
        broken = text.replace("i64 0, i64 %fp monotonic", "i64 0, i64 0 monotonic")
        assert broken != text
        return broken

    monkeypatch.setattr(runtime, "insert_function", forgetful)
    found = search(counters(), SearchOptions(workers=1, limit_states=200_000))
    assert found.distinct_states != 10**4


def test_a_table_that_takes_different_states_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: fingerprints with too few bits lose states, and the count shows it."""
    honest = kernels.combine

    def weak(f: Any, words: Any) -> Any:
        return f.op(f"or i64 {f.op(f'and i64 {honest(f, words)}, -281474976710656')}, 1")

    monkeypatch.setattr(kernels, "combine", weak)
    assert search(counters(), SearchOptions(workers=1)).distinct_states < 10**4


def test_a_growth_that_loses_fingerprints(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = runtime.Runtime._grow

    def lossy(self: runtime.Runtime) -> str:
        text = honest(self)
        broken = text.replace("phi i64 [ 0, %done", "phi i64 [ 1, %done")
        assert broken != text
        return broken

    monkeypatch.setattr(worker, "_FIRST_SLOTS", 1 << 16)
    model = Model(zoo.Counters({"counters": 4, "top": 20}), [])
    monkeypatch.setattr(runtime.Runtime, "_grow", lossy)
    assert search(model, SearchOptions(limit_states=1_000_000)).distinct_states != 21**4


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
    found = search(counters(), SearchOptions(workers=1, limit_states=200_000))
    assert found.distinct_states != 10**4


def test_a_frontier_that_loses_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    honest, calls = Store.put, [0]

    def lossy(self: Any, array: Any) -> Any:
        calls[0] += 1
        return honest(self, array * 0 if calls[0] == 21 else array)

    monkeypatch.setattr(Store, "put", lossy)
    assert search(counters(), SearchOptions(workers=1)).distinct_states != 10**4


def test_without_a_defect_the_count_is_right() -> None:
    """Without a defect the count is that of arithmetic."""
    assert search(counters(), SearchOptions()).distinct_states == 10**4
