"""The queries of docs/results.md: all forms of a query give the same answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.engines.native.state_graph import explore
from highwater.checker.scenarios.search import SearchOptions
from highwater.checker.tables import write
from tests import models
from tests.slow import slow

pytest.importorskip("pyarrow", reason="the extra 'tables' is not installed")

PAGE = (Path(__file__).parents[2] / "docs" / "results.md").read_text()
SECTIONS = re.split(r"^### ", PAGE.split("\n## Questions\n")[1].split("\n## ")[0], flags=re.MULTILINE)
QUESTIONS = [section.splitlines()[0] for section in SECTIONS[1:]]
Rows = list[tuple[Any, ...]]


def block(section: str, kind: str) -> str:
    """The only block of a kind in a section."""
    (found,) = re.findall(rf"^```\w+ {kind}\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture(scope="module")
def explored() -> Any:
    model = models.scenario_model(
        "replication/large-data-loss", brokers=2, replication_factor=2, controlled_shutdowns=1
    )
    return explore(model, SearchOptions(workers=1))


@pytest.fixture(scope="module")
def place(explored: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("questions")
    write(explored, place / "tables", 1, None)
    return place


@pytest.fixture
def tables(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(place)
    return place


def plain(rows: Any) -> Rows:
    """Sorted rows with lists as tuples and Python's numbers."""

    def value(item: Any) -> Any:
        if isinstance(item, (list, tuple)):
            return tuple(item)
        return item if isinstance(item, (str, type(None))) else int(item)

    return sorted(tuple(value(item) for item in row) for row in rows)


@pytest.fixture
def duck(tables: Path) -> Iterator[Any]:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute(block(SECTIONS[0], "duckdb"))
    yield connection
    connection.close()


MORE = slow("more queries of the same tables; fast for two")


@pytest.mark.parametrize(
    "number",
    [pytest.param(n, id=QUESTIONS[n - 1], marks=() if n <= 2 else MORE) for n in range(1, len(SECTIONS))],
)
def test_pandas_and_duckdb_answer_alike(duck: Any, number: int) -> None:
    pytest.importorskip("pandas")
    from_duckdb = plain(duck.execute(block(SECTIONS[number], "duckdb")).fetchall())
    names: dict[str, Any] = {}
    exec(block(SECTIONS[0], "pandas") + block(SECTIONS[number], "pandas"), names)
    assert plain(names["answer"].itertuples(index=False)) == from_duckdb
    assert from_duckdb


def test_the_counts_of_the_page(explored: Any) -> None:
    assert f"{len(explored.states):,} states and {len(explored.targets):,} transitions" in PAGE
