"""`check` reuses the cached result of an unchanged scenario, and explores the others."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import highwater as package
from highwater.checker import runner
from highwater.checker.comparing.gate import entries
from highwater.checker.comparing.gate.entries import GateEntry
from highwater.checker.engines import by_name, cache
from highwater.checker.runner import CI, Reuse
from highwater.checker.scenarios import catalogue, model_key
from highwater.checker.scenarios.request import Request
from highwater.checker.scenarios.search import SearchResult
from highwater.model.versions import versions
from tests.checker.schema import problems
from tests.command import highwater
from tests.native.conftest import SMALL, checked

HOLDS = "truncation/small-kip-101"
SCHEMA = Path(package.__file__).parent / "checker/report/result.schema.json"


@pytest.fixture(autouse=True)
def reusing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, with reuse of results turned on."""
    monkeypatch.delenv(CI)
    return folder


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps of `check` in order: "traced" (its model is made) and "explored"."""
    done: list[str] = []
    model, search, liveness = Request.model, by_name.search, by_name.explore

    def traced(*given: Any, **named: Any) -> Any:
        done.append("traced")
        return model(*given, **named)

    def explored(function: Any) -> Any:
        def counted(*given: Any) -> Any:
            done.append("explored")
            return function(*given)

        return counted

    monkeypatch.setattr(Request, "model", traced)
    monkeypatch.setattr(by_name, "search", lambda name: explored(search(name)))
    monkeypatch.setattr(by_name, "explore", lambda name: explored(liveness(name)))
    return done


def reused(*arguments: str) -> list[bool]:
    """True for each result that was reused."""
    return ["reused" in result for result in checked(*arguments)]


# --- reused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        SMALL,  # a violated invariant
        "replication/controller/sanity-fenced-member-joins",  # a violated step property
        "replication/sanity-promise-early-join",  # with the abstract protocol's run
        "replication/controller/recovery-strategies",  # goals
        "quorum/small-older",  # liveness
        "replication/controller/advice-shut-out",  # a procedure
    ],
)
def test_an_unchanged_scenario_is_reused_as_it_was_explored(name: str, work: list[str]) -> None:
    (first,) = checked(name)
    assert "explored" in work
    assert "reused" not in first
    del work[:]
    (second,) = checked(name)
    assert not work, "an unchanged scenario is not even traced"
    assert not problems([{**second, "versions": versions("result")}], json.loads(SCHEMA.read_text()))
    assert second.pop("reused") is True
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", second.pop("explored_at"))
    assert second == first


def test_a_reused_run_is_shown_as_an_explored_one(work: list[str]) -> None:
    outputs = [highwater("check", SMALL, "--workers", 1, "--verbose").output for _ in range(2)]
    assert work == ["traced", "explored", "traced"]
    last, again = (text.splitlines()[-1] for text in outputs)
    assert "unchanged" not in last
    assert re.search(r"1 scenario as expected: 1 unchanged \(explored \d{4}-\d\d-\d\d\): ", again)
    assert "violated (expected), unchanged: " in outputs[1]
    runs = [re.sub("scenario .*", "", output, flags=re.DOTALL) for output in outputs]
    assert "strong_isr" in runs[0]
    assert runs[0] == runs[1]


def test_of_several_scenarios_only_the_changed_ones_are_explored(work: list[str]) -> None:
    checked(SMALL)
    del work[:]
    found = highwater("check", HOLDS, SMALL, "--workers", 1)
    assert re.search(r"as expected: 1 unchanged \(explored [\d-]+\), 1 explored: ", found.output)
    assert work == ["traced", "explored"]
    assert [line.split()[0] for line in found.output.splitlines() if " violated" in line or " holds" in line]
    assert reused(HOLDS, SMALL) == [True, True]


def test_a_change_of_a_source_is_explored(work: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    checked(SMALL)
    monkeypatch.setattr(model_key, "_source", lambda: b"another text")
    del work[:]
    assert reused(SMALL) == [False]
    assert work == ["traced", "explored"]
    assert reused(SMALL) == [True]
    assert work == ["traced", "explored"]


# --- explored although a result is cached -------------------------------------------------------------------


OPTIONS = ["--fresh", "--first", "--limit-seconds 1000", "--no-cache", "--workers 2",
           "--set max_records=1", "--engine interpreter"]  # fmt: skip


def test_other_options_are_explored() -> None:
    checked(SMALL)
    assert [option for option in OPTIONS if "reused" not in checked(SMALL, *option.split())[0]] == OPTIONS


ENVIRONMENTS = [CI, "HIGHWATER_ALLOW_CODE", "PYTHONHASHSEED", "LD_PRELOAD", "NPY_DISABLE_CPU_FEATURES",
                "OPENBLAS_CORETYPE"]  # fmt: skip


def test_another_environment_is_explored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Except for a variable that numpy sets while it is imported."""
    checked(SMALL)
    explored = []
    for name in [*ENVIRONMENTS, "OPENBLAS_MAIN_FREE"]:
        with monkeypatch.context() as inside:
            inside.setenv(name, "1")
            explored += [name] * (reused(SMALL) == [False])
    assert explored == ENVIRONMENTS


@pytest.mark.parametrize("fresh", ["--fresh", CI])
def test_a_fresh_result_replaces_the_kept_one(fresh: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checked(SMALL)
    monkeypatch.setattr(runner, "now", lambda: "2030-01-01T00:00:00Z")
    with monkeypatch.context() as inside:
        if fresh == CI:
            inside.setenv(CI, "true")
        checked(SMALL, *["--fresh"] * (fresh != CI))
    (result,) = checked(SMALL)
    assert result["explored_at"] == "2030-01-01T00:00:00Z"


def test_a_changed_expectation_is_explored(tmp_path: Path) -> None:
    text = (catalogue.MODELS / "truncation/scenarios/truncate-to-hwm.toml").read_text()
    file = tmp_path / "own.toml"
    file.write_text(text)
    assert reused(str(file)) == [False]
    assert reused(str(file)) == [True]
    file.write_text(f"# a remark\n{text}".replace('title = "', 'title = "Changed. '))
    assert reused(str(file)) == [True]
    file.write_text(re.sub(r"violated = \[.*\]", "violated = []", text))
    (result,) = checked(str(file))
    assert "reused" not in result
    assert result["broken"]


# --- not cached ---------------------------------------------------------------------------------------


def test_an_incomplete_search_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    incomplete = [SearchResult(stopped_by=why) for why in ("states", "memory", "disk", "interrupted")]
    for found in (*incomplete, SearchResult(trouble="no space"), SearchResult(unspilled="no space")):
        with monkeypatch.context() as inside:
            inside.setattr(by_name, "search", lambda name, found=found: lambda *given: found)
            highwater("check", HOLDS, "--workers", 1)
        assert kept_results() == [], found
    highwater("check", SMALL, "--workers", 1, "--first")
    assert kept_results() == [], "an option ended it"


def test_a_result_is_not_kept_if_a_source_changes_during_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_key, "sources_unchanged", lambda: False)
    checked(SMALL)
    assert kept_results() == []


def kept_results() -> list[bytes]:
    """The keys of kept results."""
    place = cache.chosen()
    assert place is not None
    if not place.file.exists():
        return []
    with closing(sqlite3.connect(place.file)) as database:
        entries = database.execute("SELECT key, content FROM entries").fetchall()
    return [key for key, content in entries if b'"explored_at"' in content and b'"ruled_out"' in content]


# --- gate ---------------------------------------------------------------------------------------------


def test_an_unchanged_entry_of_a_gate_is_run_once(work: list[str]) -> None:
    entry = GateEntry.of_scenario(SMALL, Path())
    other = replace(entry, parameters={"max_records": 1})
    assert entries.run(entry, limit_seconds=1e-9, reuse=Reuse.REUSE).stopped == "seconds"
    never, reuse, renew = Reuse.NEVER, Reuse.REUSE, Reuse.RENEW
    explored = []
    for one, how in zip([entry] * 5 + [other], (never, reuse, reuse, renew, reuse, reuse), strict=True):
        del work[:]
        entries.run(one, reuse=how)
        explored.append("explored" in work)
    assert explored == [True, True, False, True, False, True]
