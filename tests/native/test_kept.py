"""Cached facts about a request: the key covers every input, and a wrong fact is never used."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import highwater
from highwater.checker import runner
from highwater.checker.engines import by_name, cache
from highwater.checker.engines import cache as code_cache
from highwater.checker.engines.native import machine, program
from highwater.checker.engines.native.common import common_machine
from highwater.checker.engines.native.kernels import Kernels
from highwater.checker.engines.native.program import Program
from highwater.checker.engines.native.state_graph import LinkProgram
from highwater.checker.report import vacuity
from highwater.checker.report.vacuity import Idle, Vacuous
from highwater.checker.scenarios import catalogue, model_key
from highwater.checker.scenarios.model_key import Sources, request_key
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import Model
from highwater.model.language import model as traced_model
from tests import zoo
from tests.native.conftest import SMALL, checked, request_of, unmeasured

pytestmark = pytest.mark.usefixtures("folder")


# --- facts ----------------------------------------------------------------------------------------

FACT = Idle(("one",), (Vacuous("constant", "one", "one is true"),))


def test_a_fact_is_found_under_its_key_and_parts() -> None:
    cache.keep(FACT, b"name", ["a"], ["b"])
    assert cache.found(Idle, b"name", ["a"], ["b"]) == FACT
    assert cache.found(Idle, b"other", ["a"], ["b"]) is None
    assert cache.found(Idle, b"name", ["a", "b"], []) is None
    assert cache.found(Vacuous, b"name", ["a"], ["b"]) is None
    cache.keep(FACT, None, [])
    assert cache.found(Idle, None, []) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"constant": []}', b'{"constant": [1], "warnings": []}', b"[" * 10**5, b"\xff\x00"],
)
def test_a_cached_value_of_another_form_is_ignored(content: bytes) -> None:
    place = code_cache.chosen()
    assert place is not None
    place.put(cache._key(Idle, b"name", ()), content)
    assert cache.found(Idle, b"name") is None
    cache.keep(FACT, b"name")
    assert cache.found(Idle, b"name") == FACT


@pytest.mark.parametrize("off", ["nothing", "the option", "the variable", "names"])
def test_nothing_is_kept_where_that_is_off(monkeypatch: pytest.MonkeyPatch, off: str) -> None:
    calls: list[object] = []
    monkeypatch.setattr(cache, "_key", lambda *key: calls.append(key) or b"k" * 32)
    if off == "the variable":
        monkeypatch.setenv(code_cache.VARIABLE, code_cache.OFF)
    if off == "names":
        monkeypatch.setattr(model_key, "named", False)
    checked(SMALL, *["--no-cache"] * (off == "the option"))
    assert bool(calls) == (off == "nothing")


# --- repeated searches ----------------------------------------------------------------------------


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts of traced actions, translations, generated texts and compilations."""
    found: Counter[str] = Counter()

    def count(what: str, place: Any, name: str) -> None:
        honest = getattr(place, name)

        def counted(*given: Any, **named: Any) -> Any:
            found[what] += 1
            return honest(*given, **named)

        monkeypatch.setattr(place, name, counted)

    common_machine.cache_clear()
    count("traced", traced_model, "trace_instances")
    count("traced", vacuity, "trace_instances")
    count("translated", program, "translated")
    count("written", Kernels, "text")
    count("compiled", machine, "_made")
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        ["replication/controller/small"],  # step properties, actions that are ruled out
        ["truncation/kip-320", "--symmetry"],
        ["promise/clients"],
        ["quorum/small-older"],  # liveness
    ],
    ids=str,
)
def test_a_second_time_the_result_is_the_same_and_nothing_is_compiled(
    work: Counter[str], arguments: list[str]
) -> None:
    first = unmeasured(checked(*arguments))
    assert {"traced", "written" if "--symmetry" in arguments else "translated", "compiled"} == set(work)
    work.clear()
    common_machine.cache_clear()
    assert unmeasured(checked(*arguments)) == first
    # Only the conditions of liveness are traced again.
    assert set(work) == ({"traced"} if arguments == ["quorum/small-older"] else set())


def test_warnings_are_repeated_in_a_second_check(tmp_path: Path, work: Counter[str]) -> None:
    """A user's scenario of a shipped protocol warns until it expects the constant properties."""
    text = (catalogue.MODELS / "quorum/scenarios/small-older.toml").read_text()
    file, expected = tmp_path / "own.toml", re.search(r"^constant = (.*)$", text, re.MULTILINE)
    assert expected
    file.write_text(text.replace(expected[0], ""))
    first = unmeasured(checked(str(file)))
    assert {w["name"] for w in first["warnings"]} == set(json.loads(expected[1]))
    work.clear()
    assert unmeasured(checked(str(file))) == first
    assert not work["translated"]
    file.write_text(text)
    assert unmeasured(checked(str(file))) == {**first, "warnings": []}


def test_only_an_explored_request_gives_its_model_a_key() -> None:
    """A caller can change a model that it builds itself, so only ``explore`` sets a cache key."""
    assert Model(zoo.Counters({"counters": 2})).identity is None
    assert request_of().model().identity is None
    for engine, keep in (("native", False), ("interpreter", True), ("native", True)):
        options = SearchOptions(workers=1, limit_states=100)
        model = runner.explore(request_of(), engine, by_name.search(engine), options, keep=keep).model
        assert model is not None
        key = request_key(request_of()) if engine == "native" and keep else None
        assert model.identity == key


def test_code_of_other_loops_is_not_taken(work: Counter[str]) -> None:
    """The key includes kernels, loops and symmetry."""
    model = request_of().model()
    model.identity = request_key(request_of())
    programs = [Program(model), LinkProgram(model), Program(model, symmetry=True)]
    assert len({p.name.digest for p in programs}) == 3
    work.clear()
    again = [Program(model), LinkProgram(model), Program(model, symmetry=True)]
    assert [p.name for p in again] == [p.name for p in programs]
    assert not work
    assert [p.text for p in again] == [p.text for p in programs]


# --- a request's cache key changes with every input of tracing; foreign sources have none -------------


@pytest.mark.parametrize(
    "settings",
    [
        {"parameters": {"max_records": 1}},
        {"rules": {"fenced_fetch": True}},
        {"properties": ("weak_isr",)},
        {"properties": ("strong_isr", "weak_isr")},
        {"symmetry": True},
        {"deadlock": True},
    ],
    ids=str,
)
def test_other_settings_have_another_name(settings: dict[str, Any]) -> None:
    assert request_key(request_of()) is not None
    assert request_key(request_of()) == request_key(request_of())
    assert request_key(request_of(**settings)) not in (None, request_key(request_of()))


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    package = tmp_path_factory.mktemp("copied")
    shutil.copytree(Path(highwater.__file__).parent, package, dirs_exist_ok=True)
    return package


SOURCES = (
    "model/truncation/protocol.py",
    "model/rulebook.toml",
    "model/replication/logs.py",
    "invariants/truncation.py",
    "checker/engines/native/kernels.py",
    "checker/report/summary.py",
    "checker/added.py",
    "traces/reading.py",
    "__init__.py",
)
NO_SOURCES = ("checker/added.txt", "model/truncation/scenarios/added.toml")
"""A request contains its scenario's content, so scenarios are no sources."""


def test_the_digest_of_sources_changes_with_each_source(copied: Path) -> None:
    plain = Sources(copied).digest()
    assert plain == Sources(Path(highwater.__file__).parent).digest()
    found = []
    for file in (*NO_SOURCES, *SOURCES):
        with (copied / file).open("ab") as opened:
            opened.write(b"\n")
        found.append(Sources(copied).digest())
    (copied / SOURCES[0]).unlink()
    found.append(Sources(copied).digest())
    assert set(found[: len(NO_SOURCES)]) == {plain}
    assert len({plain, *found}) == 2 + len(SOURCES)


def test_a_source_that_was_changed_since_gives_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = Sources(Path(highwater.__file__).parent).changed
    monkeypatch.setattr(model_key, "_BEFORE", changed)
    assert request_key(request_of()) is None
    monkeypatch.setattr(model_key, "_BEFORE", changed + 1)
    assert request_key(request_of()) is not None


def test_a_change_during_a_search_is_noticed(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is changed, added or removed after the process has read the sources."""
    monkeypatch.setattr(highwater, "__file__", str(copied / "__init__.py"))

    def noticed(change: Callable[[], object]) -> bool:
        model_key._sources.cache_clear()
        model_key._sources()
        monkeypatch.setattr(model_key, "_BEFORE", time.time() + 0.01)
        assert model_key.sources_unchanged()
        time.sleep(0.02)
        change()
        return not model_key.sources_unchanged()

    protocol, added = copied / "model/zookeeper/cluster.py", copied / "model/zookeeper/added.py"
    assert noticed(lambda: protocol.write_text(protocol.read_text()))
    assert noticed(lambda: added.write_text(""))
    assert noticed(added.unlink)


def test_a_changed_request_has_no_key(tmp_path: Path) -> None:
    request = request_of()
    own = replace(request.invariants[0])
    assert own == request.invariants[0]
    assert request_key(replace(request, invariants=(own,))) is None
    definition = replace(request.scenario.definition, protocol=type("Own", (request.scenario.protocol,), {}))
    assert request_key(replace(request, scenario=replace(request.scenario, definition=definition))) is None
    (tmp_path / "box.py").write_text(BOX)
    (tmp_path / "box.toml").write_text('protocol = "box.py"\n')
    assert request_key(request) is not None
    assert request_key(request_of(str(tmp_path / "box.toml"))) is None
    assert request_key(request) is None, "what was executed can have changed anything"


BOX = '''
from highwater.language import Int, Protocol, Struct, action, require

class Box(Protocol):
    """A number in a box."""

    def define(self):
        return Struct("State", number=Int(0, 5))

    def initial(self):
        return [{"number": 0}]

    @action("")
    def count(self, s):
        """One more."""
        require("it is not full", s.number < 3)
        s.next.number = s.number + 1
'''
