"""The explored graph: native and interpreted graphs are equal, and planted defects are detected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from highwater.checker.engines import reference
from highwater.checker.engines.native import common, kernels
from highwater.checker.engines.native.instructions import Evaluation
from highwater.checker.engines.native.state_graph import explore
from highwater.checker.engines.state_graph import Explored, Layout
from highwater.checker.scenarios.search import EngineError, SearchOptions
from highwater.model.language import Int, Model, Protocol, State, Struct, action, graph, require
from highwater.model.language.interpreter import Interpreter, compile_nodes
from tests import models, zoo


class Jumps(Protocol):
    """A number that many actions add to; most are pruned somewhere."""

    name = "jumps"
    by = range(1, 101)

    def define(self) -> Struct:
        return Struct("State", at=Int(0, 120, bound="far"))

    def initial(self) -> list[dict[str, Any]]:
        return [{"at": 0}]

    @action(by="by")
    def jump(self, s: State, by: int) -> None:
        s.next.at = s.at + by


def jumps() -> Model:
    return Model(Jumps(), [])


def counters(count: int = 3, top: int = 5, *invariants: Any) -> Model:
    return Model(zoo.Counters({"counters": count, "top": top}), invariants)


def dice() -> Model:
    return Model(zoo.Dice(), [])


def truncation() -> Model:
    return models.scenario_model("truncation/kip-101", max_records=1)


def replication() -> Model:
    return models.scenario_model(
        "replication/large-operator", brokers=2, replication_factor=2, initial_isr=2, max_partition_epoch=2
    )


SMALL = [jumps, counters, dice, truncation, replication]


def content(found: Explored) -> tuple[set[Any], set[Any], set[Any]]:
    """States, steps and pruned steps, independent of the states' numbers."""
    names = [tuple(row) for row in found.states.tolist()]
    sources, cut_sources = (
        np.repeat(np.arange(len(names)), np.diff(offsets)) for offsets in (found.offsets, found.cut_offsets)
    )
    steps = zip(sources.tolist(), found.instances.tolist(), found.targets.tolist(), strict=True)
    cuts = zip(cut_sources.tolist(), found.cut_instances.tolist(), strict=True)
    return (
        {(d, n) for d, n in zip(found.depths().tolist(), names, strict=True)},
        {(names[s], i, names[t]) for s, i, t in steps},
        {(names[s], i) for s, i in cuts},
    )


def assert_sound(found: Explored) -> None:
    """Check every graph's shapes, and that predecessors are one level earlier and lead to their states."""
    n = len(found.states)
    assert found.level_starts[0] == 0
    assert found.level_starts[-1] == n
    assert len(found.offsets) == len(found.cut_offsets) == n + 1
    assert found.offsets[-1] == len(found.targets) == len(found.instances)
    assert found.cut_offsets[-1] == len(found.cut_instances)
    depths = found.depths()
    later = np.flatnonzero(depths > 1)
    assert (found.parents[: found.level_starts[1]] == -1).all()
    assert (depths[found.parents[later]] == depths[later] - 1).all()
    edges = set(zip(found.sources.tolist(), found.instances.tolist(), found.targets.tolist(), strict=True))
    chosen = later[found.parents[later] < found.expanded].tolist()
    assert all((found.parents[i], found.parent_instances[i], i) in edges for i in chosen)


@pytest.mark.parametrize(("make", "workers"), [(truncation, 1), *((make, 3) for make in SMALL)])
def test_the_graph_is_the_interpreters(make: Any, workers: int) -> None:
    model = make()
    native, plain = explore(model, SearchOptions(workers=workers)), reference.explore(model, SearchOptions())
    assert native.complete
    assert plain.complete
    for found in (native, plain):
        assert_sound(found)
        assert len({tuple(row) for row in found.states.tolist()}) == len(found.states)
        assert len(found.targets) + len(found.cut_instances) == sum(map(len, content(found)[1:]))
    assert content(native) == content(plain)


def test_expressions_on_every_state_are_the_interpreters() -> None:
    model = models.everything()
    states = list(models.arbitrary_states(model, 300))
    nodes = [p.node for p in model.properties] + [i.enabled for i in model.instances]
    nodes += [w.node for i in model.instances for w in i.writes.values()]
    assert {n.sort for n in nodes} == {graph.BOOL, graph.INT, graph.BITS}
    layout = Layout(model.leaves)
    packed = np.array([layout.pack(s) for s in states], dtype=np.uint64)
    columns = Evaluation(layout, nodes)(packed)
    plain = compile_nodes(nodes)
    assert [tuple(row) for row in zip(*(c.tolist() for c in columns), strict=True)] == [
        plain(s) for s in states
    ]


@pytest.fixture(scope="module")
def whole() -> Any:
    return content(reference.explore(truncation(), SearchOptions()))


def test_a_search_that_ends_early_has_whole_levels_of_steps(whole: Any) -> None:
    found = explore(truncation(), SearchOptions(workers=1, limit_states=2000))
    assert found.stopped_by == "states"
    assert 0 < found.expanded < len(found.states)
    assert found.expanded in found.level_starts
    assert_sound(found)
    states, steps, cuts = content(found)
    assert states < whole[0]
    assert steps < whole[1]
    assert cuts < whole[2]
    sources = {s for s, _, _ in whole[1]} & {tuple(r) for r in found.states[: found.expanded].tolist()}
    assert {e for e in whole[1] if e[0] in sources} == steps


def test_with_symmetry_steps_lead_to_representatives() -> None:
    found = explore(counters(3, 5), SearchOptions(workers=1, symmetry=True))
    assert found.symmetry
    assert len(found.states) == 56  # multisets of 3 of 6
    interpreter = Interpreter(found.model)
    for source, instance, target in zip(
        found.sources.tolist(), found.instances.tolist(), found.targets.tolist(), strict=True
    ):
        reached = interpreter.step(found.scalars(source), instance).state
        assert reached is not None
        assert sorted(reached) == sorted(found.scalars(target))


def test_a_graph_that_needs_too_much_memory_is_refused() -> None:
    with pytest.raises(EngineError, match=r"the graph of .* states and .* steps needs .* MiB"):
        explore(counters(4, 40), SearchOptions(workers=1, memory_bytes=100 << 20))


# --- planted defects ------------------------------------------------------------------------------------


class TwoWords(Protocol):
    name = "two words"

    def define(self) -> Struct:
        return Struct("State", first=Int(0, 1 << 60), second=Int(0, 1 << 60))

    def initial(self) -> list[dict[str, Any]]:
        return [{"first": 0, "second": 0}]

    @action()
    def first_up(self, s: State) -> None:
        require("below", s.first < 3)
        s.next.first = s.first + 1

    @action()
    def second_up(self, s: State) -> None:
        require("below", s.second < 3)
        s.next.second = s.second + 1


@pytest.fixture
def kernel_anew() -> Iterator[None]:
    """The common kernel is made again, before and after the test."""
    common.common_machine.cache_clear()
    yield
    common.common_machine.cache_clear()


@pytest.mark.usefixtures("kernel_anew")
@pytest.mark.parametrize("seen", [0, 1])
def test_each_word_of_a_state_is_compared(monkeypatch: pytest.MonkeyPatch, seen: int) -> None:
    """The fingerprint reads only one of the two words; comparing the other distinguishes the states."""
    model, honest = Model(TwoWords(), []), kernels.combine
    assert Layout(model.leaves).words == 2
    monkeypatch.setattr(common, "combine", lambda f, words: honest(f, [words[seen], words[seen]]))
    with pytest.raises(EngineError, match="two states have the fingerprint of state"):
        explore(model, SearchOptions(workers=1))
