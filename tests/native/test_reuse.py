"""`check` reuses the cached result of an unchanged scenario, and explores the others."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import highwater as package
from highwater.checker import runner
from highwater.checker.comparing.gate import entries
from highwater.checker.comparing.gate.entries import PROOF, SCENARIO, GateEntry, Ran
from highwater.checker.engines import by_name, cache
from highwater.checker.runner import CI, Reuse
from highwater.checker.scenarios import catalogue, model_key
from highwater.checker.scenarios.model_key import Sources
from highwater.checker.scenarios.request import Request
from highwater.checker.scenarios.search import SearchResult
from highwater.model.versions import versions
from tests.checker.schema import problems
from tests.command import highwater
from tests.native.conftest import SMALL, checked, request_of, unmeasured

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


def test_a_reused_search_still_writes_a_page_and_a_trace(work: list[str], tmp_path: Path) -> None:
    checked(SMALL)
    del work[:]
    page, trace = tmp_path / "page.html", tmp_path / "trace.jsonl"
    assert reused(SMALL, "--html", str(page), "--trace-out", str(trace)) == [True]
    assert page.exists()
    assert trace.exists()
    assert work == ["traced"]


def test_of_several_scenarios_only_the_changed_ones_are_explored(work: list[str]) -> None:
    checked(SMALL)
    del work[:]
    found = highwater("check", HOLDS, SMALL, "--workers", 1)
    assert re.search(r"as expected: 1 unchanged \(explored [\d-]+\), 1 explored: ", found.output)
    assert work == ["traced", "explored"]
    assert [line.split()[0] for line in found.output.splitlines() if " violated" in line or " holds" in line]
    assert reused(HOLDS, SMALL) == [True, True]


def test_helper_processes_keep_what_they_explore() -> None:
    """The command runs in its own process and starts helpers, as for several scenarios."""
    program = "from highwater.checker.scenarios import model_key; model_key._BEFORE = float('inf')\n"
    program += "from highwater.checker.cli import main; main()"
    names = [HOLDS, SMALL]
    command = [sys.executable, "-c", program, "check", *names, "--quiet", "--json", "-"]
    found = []
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found.append([result.get("reused", False) for result in json.loads(done.stdout)])
    assert not any(found[0])
    just_written = (
        time.time() - Sources(PACKAGE).changed < 60
    )  # helpers do not cache while sources are this new
    assert all(found[1]) or just_written


def test_a_change_of_a_source_is_explored(work: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    checked(SMALL)
    monkeypatch.setattr(model_key, "_source", lambda: b"another text")
    del work[:]
    assert reused(SMALL) == [False]
    assert work == ["traced", "explored"]
    assert reused(SMALL) == [True]
    assert work == ["traced", "explored"]


def test_properties_that_exchange_their_names_have_another_key() -> None:
    request = request_of(SMALL)
    weak, strong = request.invariants
    exchanged = replace(strong, name=weak.name), replace(weak, name=strong.name)
    keys = [
        model_key.model_key(replace(request, invariants=invariants).model())
        for invariants in ((weak, strong), exchanged, (weak, strong))
    ]
    assert keys[0] == keys[2] != keys[1]


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


def test_another_procedure_is_explored(tmp_path: Path) -> None:
    """The keys of the request and of the model both include the procedure."""
    text = (catalogue.MODELS / "replication/scenarios/advice-after-unclean-election.toml").read_text()
    file = tmp_path / "own.toml"
    file.write_text(text)
    assert [reused(str(file)) for _ in range(2)] == [[False], [True]]
    assert 'procedure = "after_loss"' in text
    file.write_text(text.replace('procedure = "after_loss"', 'procedure = "non_replica_in_elr"'))
    assert "reused" not in checked(str(file))[0]


def test_a_result_that_is_not_as_expected_is_reused_with_its_run(tmp_path: Path, work: list[str]) -> None:
    text = (catalogue.MODELS / "truncation/scenarios/truncate-to-hwm.toml").read_text()
    file = tmp_path / "own.toml"
    file.write_text(re.sub(r"violated = \[.*\]", "violated = []", text))
    first, second = (highwater("check", file, HOLDS, "--workers", 1) for _ in "12")
    assert first.status == second.status == 1
    assert work == ["traced", "explored"] * 2 + ["traced"]
    shown = [found.output.partition("\nscenario ")[0] for found in (first, second)]
    assert "is violated" in shown[0]
    assert shown[0] == shown[1]


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


@pytest.mark.parametrize("content", [b"{", b'{"search": 1}', b'{"search": {}, "explored_at": 1}'])
def test_a_damaged_entry_is_explored_again(content: bytes) -> None:
    first = unmeasured(checked(SMALL))
    place = cache.chosen()
    assert place is not None
    (key,) = kept_results()
    place.put(key, content)
    assert unmeasured(checked(SMALL)) == first
    assert reused(SMALL) == [True]


# --- gate ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [SCENARIO, PROOF])
def test_an_unchanged_entry_of_a_gate_is_run_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Reuse] = []

    def ran(entry: GateEntry, found: Ran, *limits: object) -> None:
        done.append(reuse)
        found.facts = {"verdict": "holds", "properties": {"one": "kept"}}
        found.stopped = stopped
        if stopped:
            found.facts = None

    times = iter(("first", "renewed", "other", "other", "other"))
    monkeypatch.setattr(runner, "now", lambda: next(times))
    for name in (SCENARIO, PROOF):
        monkeypatch.setattr(entries, f"_{name}", ran)
    entry, stopped = GateEntry(kind, "one", HOLDS, Path()), "seconds"
    for reuse in (Reuse.REUSE, Reuse.REUSE):
        entries.run(entry, reuse=reuse)
    assert len(done) == 2, "an entry that was stopped is not kept"
    stopped = ""
    for reuse in (Reuse.NEVER, Reuse.REUSE, Reuse.REUSE, Reuse.RENEW, Reuse.REUSE):
        found = entries.run(entry, reuse=reuse)
        assert found.facts == {"verdict": "holds", "properties": {"one": "kept"}}
    assert found.explored_at == "renewed"
    assert done[2:] == [Reuse.NEVER, Reuse.REUSE, Reuse.RENEW]
    reuse = Reuse.REUSE
    changes: list[dict[str, Any]] = [
        {"parameters": {"max_records": 1}},
        {"kind": PROOF if kind == SCENARIO else SCENARIO},
        {"unbounded": True},
    ]
    for change in changes:
        entries.run(replace(entry, **change), reuse=reuse)
    assert done[5:] == [Reuse.REUSE] * 3


def test_after_a_change_of_a_source_a_gate_explores(work: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    entry = GateEntry.of_scenario(SMALL, Path())
    first = entries.run(entry, reuse=Reuse.REUSE)
    assert work == ["traced", "explored"]
    second = entries.run(entry, reuse=Reuse.REUSE)
    assert work == ["traced", "explored"]
    assert replace(second, explored_at=None, seconds=0) == replace(first, seconds=0)
    assert second.explored_at
    monkeypatch.setattr(model_key, "_source", lambda: b"another text")
    entries.run(entry, reuse=Reuse.REUSE)
    assert work[2:] == ["traced", "explored"]


PACKAGE = Path(package.__file__).parent
