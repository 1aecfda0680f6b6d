from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.engines import cache as code_cache
from highwater.checker.engines.native import program
from highwater.checker.scenarios import catalogue, model_key, scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from tests.command import highwater

SMALL = "truncation/truncate-to-hwm"


@pytest.fixture
def compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn off the code cache, which could hold optimized code."""
    monkeypatch.setenv(code_cache.VARIABLE, code_cache.OFF)


@pytest.fixture
def better_code_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile optimized code in the background of each search: time does not decide."""
    monkeypatch.setattr(program, "_BEGIN", 0)
    monkeypatch.setattr(program, "_CROWDED", 0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of an empty cache. Models have cache keys here, as outside of tests."""
    monkeypatch.setenv(code_cache.VARIABLE, str(tmp_path / "kept"))
    monkeypatch.setattr(model_key, "named", True)
    monkeypatch.setattr(model_key, "_BEFORE", float("inf"))
    model_key._sources.cache_clear()
    for name in [m for m in sys.modules if m.startswith(catalogue.OWN_FILE)]:
        monkeypatch.delitem(sys.modules, name)
    yield tmp_path / "kept"
    model_key._sources.cache_clear()


def checked(*arguments: str) -> list[dict[str, Any]]:
    """The results of ``highwater check`` without library versions, which depend on the loaded libraries."""
    found = highwater("check", "--workers", 1, *arguments, "--quiet", "--json", "-")
    assert found.status in (0, 1), found
    results: list[dict[str, Any]] = found.results
    for result in results:
        del result["versions"]
    return results


def unmeasured(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The only result, without measurements."""
    (result,) = results
    return {
        k: v for k, v in result.items() if k not in ("seconds", "preparation_seconds", "peak_memory_bytes")
    }


def request_of(name: str = SMALL, **settings: Any) -> Request:
    """A request with some settings overridden."""
    return Request.of(scenario_files.find(name), Overrides(**settings))
