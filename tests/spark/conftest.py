"""One Spark session for all tests here, and small searches on it."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.checker.scenarios import request, scenario_files
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model.language import Model

MASTER = "local[2]"


@pytest.fixture(scope="session")
def _spark() -> Iterator[None]:
    pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")
    if shutil.which("java") is None:
        pytest.skip("Java is not installed")
    from highwater.checker.engines.spark import session

    session.session(MASTER)
    yield
    with warnings.catch_warnings():
        # Spark leaves its sockets to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        session.close()


def scenario(name: str, *settings: str) -> tuple[Model, SearchOptions]:
    """A scenario's model, and the search options of its file."""
    asked = request.Request.of(scenario_files.find(name), request.Overrides.parse(settings))
    return asked.model(), SearchOptions(workers=1, symmetry=asked.symmetry, deadlock=asked.deadlock)


@pytest.fixture
def on_spark(_spark: None) -> Callable[..., SearchResult]:
    """Search on the shared session; levels of at least ``small`` states run on the cluster."""
    from highwater.checker.engines.spark.request import SparkOptions
    from highwater.checker.engines.spark.search import search

    def run(
        model: Model,
        options: SearchOptions,
        *,
        small: int = 200_000,
        checkpoint: Path | None = None,
        resume: bool = False,
        **changes: object,
    ) -> SearchResult:
        spark = SparkOptions(MASTER, None if checkpoint is None else str(checkpoint), resume, small=small)
        return search(model, replace(options, **changes), None, spark)  # type: ignore[arg-type]

    return run
