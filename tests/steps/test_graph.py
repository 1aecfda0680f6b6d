"""Step properties in the explored graph: a column of transitions, an attribute of networkx's edges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from highwater.checker.engines.native.state_graph import explore
from highwater.checker.engines.state_graph import Explored
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import Model
from highwater.model.language.interpreter import Interpreter
from tests.steps.ledger import DEPTHS, ledger

pq = pytest.importorskip("pyarrow.parquet", reason="the extra 'tables' is not installed")

from highwater.checker.engines.columns import TRANSITIONS  # noqa: E402
from highwater.checker.tables import count_tables, to_networkx, write  # noqa: E402


def expected(explored: Explored) -> list[set[str]]:
    """The violations of each step of the graph, by the interpreter."""
    model, found = explored.model, []
    interpreter = Interpreter(model)
    for source, instance in zip(explored.sources.tolist(), explored.instances.tolist(), strict=True):
        before = explored.scalars(source)
        after = interpreter.step(before, instance).state
        assert after is not None
        found.append(set(interpreter.broken(before, after)))
    return found


def written(explored: Explored, place: Path) -> tuple[list[dict[str, Any]], dict[str, int]]:
    write(explored, place, 2, None)
    counted = count_tables(place, explored.model, 0, None)
    return pq.read_table(place / TRANSITIONS).to_pylist(), counted.violations


@pytest.mark.parametrize("symmetry", [False, True])
def test_the_table_of_transitions(tmp_path: Path, symmetry: bool) -> None:
    """With symmetry, the target may be a renaming of the state that the step leads to."""
    model = ledger()
    explored = explore(model, SearchOptions(workers=1, symmetry=symmetry))
    rows, counts = written(explored, tmp_path)
    names = [p.name for p in model.step_properties]
    assert [{n for n in names if not row[n]} for row in rows] == expected(explored)
    assert {name for name, count in counts.items() if count} == set(DEPTHS)
    assert sum(counts.values()) == sum(map(len, expected(explored)))


def test_edges_of_networkx() -> None:
    explored = explore(ledger(), SearchOptions(workers=1))
    edges = to_networkx(explored).edges(keys=True, data="violates")
    found = {(source, key): set(names) for source, _, key, names in edges}
    pairs = zip(explored.sources.tolist(), explored.instances.tolist(), strict=True)
    assert found == dict(zip(pairs, expected(explored), strict=True))
    assert (
        "violates"
        not in next(iter(to_networkx(explore(Model(ledger().protocol), SearchOptions())).edges(data=True)))[2]
    )
