"""Benchmarks measure whole commands, and refuse runs that count different states."""

from __future__ import annotations

import os

import pytest

from docs.bench import __main__ as bench
from docs.bench.cases import Case
from docs.bench.measure import Run, highwater
from highwater.checker.engines.cache import VARIABLE

SMALL = Case("small", ("check", "docs/examples/register.toml"), "1 s", repeat=1, cold=True)


def test_cold_has_an_empty_cache_and_again_a_full_one(monkeypatch: pytest.MonkeyPatch) -> None:
    caches: list[bool] = []

    def seen(arguments: tuple[str, ...], status: int = 0, environment: dict[str, str] | None = None) -> Run:
        if environment is not None:
            caches.append(os.path.isdir(environment[VARIABLE]))
        return highwater(arguments, status, environment)

    monkeypatch.setattr(bench, "highwater", seen)
    found = bench.measure(SMALL, 1)
    assert caches == [False, True]
    assert found.counts == {198}
    cold, again = bench.rows(SMALL, found)
    assert cold.startswith("| small, cold | 198 states | ")
    assert again.endswith(" a second | 1 s |")
