"""Cached facts about a request: their key covers every input, and a wrong fact is never used."""

from __future__ import annotations

import json
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from highwater.checker.base.problems import InternalError
from highwater.checker.cli import cli
from highwater.checker.engines import by_name, cache
from highwater.checker.engines import cache as code_cache
from highwater.checker.engines.native import search
from highwater.checker.engines.native.code import machine, program
from highwater.checker.engines.native.code.machine import Effort
from highwater.checker.engines.native.code.program import Program
from highwater.checker.engines.native.state_graph import LinkProgram
from highwater.checker.engines.native.text.kernels import Kernels
from highwater.checker.report import vacuity
from highwater.checker.report.vacuity import Idle, Vacuous
from highwater.checker.runner import one
from highwater.checker.runner.known import InstanceChoices, KnownModel, model_of
from highwater.checker.scenarios import catalogue, model_key
from highwater.checker.scenarios.model_key import request_key
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import Model, Protocol
from highwater.model.language import model as traced_model
from highwater.model.language.interpreter import BoundError
from tests import zoo
from tests.conftest import BEGIN
from tests.native.conftest import SMALL, request_of

pytestmark = pytest.mark.usefixtures("folder")


def checked(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    """The result of ``highwater check`` without measurements."""
    file = tmp_path / "result.json"
    found = CliRunner().invoke(cli, ["check", *arguments, "--workers", "1", "--json", str(file), "--quiet"])
    assert found.exit_code in (0, 1), found.output
    (result,) = json.loads(file.read_text())
    for measured in ("seconds", "preparation_seconds", "peak_memory_bytes"):
        del result[measured]
    return dict(result)


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
def test_nothing_is_kept_where_that_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: str) -> None:
    calls: list[object] = []
    monkeypatch.setattr(cache, "_key", lambda *key: calls.append(key) or b"k" * 32)
    if off == "the variable":
        monkeypatch.setenv(code_cache.VARIABLE, code_cache.OFF)
    if off == "names":
        monkeypatch.setattr(model_key, "named", False)
    checked(tmp_path, SMALL, *["--no-cache"] * (off == "the option"))
    assert bool(calls) == (off == "nothing")


# --- repeated searches ----------------------------------------------------------------------------


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts of traced actions, generated texts and compilations."""
    found: Counter[str] = Counter()

    def count(what: str, place: Any, name: str) -> None:
        honest = getattr(place, name)

        def counted(*given: Any, **named: Any) -> Any:
            found[what] += 1
            return honest(*given, **named)

        monkeypatch.setattr(place, name, counted)

    count("traced", traced_model, "trace_instances")
    count("traced", vacuity, "trace_instances")
    count("written", Kernels, "text")
    count("compiled", machine, "_made")
    return found


@pytest.mark.parametrize(
    ("arguments", "again"),
    [
        (["replication/controller/small"], {}),  # step properties, actions that are ruled out
        (["truncation/kip-320", "--symmetry"], {}),
        (["promise/clients"], {}),
        (["quorum/small-older"], {"traced"}),  # liveness
    ],
    ids=str,
)
def test_a_second_time_the_result_is_the_same_and_little_is_done(
    tmp_path: Path, work: Counter[str], arguments: list[str], again: set[str]
) -> None:
    first = checked(tmp_path, *arguments)
    assert {"traced", "written", "compiled"} == set(work)
    work.clear()
    assert checked(tmp_path, *arguments) == first
    assert set(work) == set(again)


@pytest.mark.parametrize(
    "name",
    [
        SMALL,
        "replication/controller/sanity-fenced-member-joins",  # a step property
        "replication/reach-requests",  # goals
    ],
)
def test_a_second_time_only_the_actions_of_a_run_are_traced(
    tmp_path: Path, work: Counter[str], name: str
) -> None:
    first, traced = checked(tmp_path, name), work["traced"]
    work.clear()
    assert checked(tmp_path, name) == first
    assert set(work) == {"traced"}
    depths = [found["depth"] for found in first["violations"]]
    depths += [depth for depth in first["reachable"].values() if depth is not None]
    assert 0 < work["traced"] <= sum(depth - 1 for depth in depths) < traced


def test_warnings_are_repeated_in_a_second_check(tmp_path: Path, work: Counter[str]) -> None:
    """A user's scenario of a shipped protocol warns until it expects the constant properties."""
    text = (catalogue.MODELS / "quorum/scenarios/small-older.toml").read_text()
    file, expected = tmp_path / "own.toml", re.search(r"^constant = (.*)$", text, re.MULTILINE)
    assert expected
    file.write_text(text.replace(expected[0], ""))
    first = checked(tmp_path, str(file))
    assert {w["name"] for w in first["warnings"]} == set(json.loads(expected[1]))
    work.clear()
    assert checked(tmp_path, str(file)) == first
    assert not work["written"]
    file.write_text(text)
    assert checked(tmp_path, str(file)) == {**first, "warnings": []}


# --- lazily traced models ---------------------------------------------------------------------------


def known(model: Model, of: type[Protocol], *given: Any) -> KnownModel:
    """The same model as loaded from the cache."""
    again = KnownModel(model.outline, of(*given), [p.invariant for p in model.properties])
    again.identity = model.identity
    return again


def test_a_bound_error_is_equal_for_a_cached_model(work: Counter[str]) -> None:
    given = zoo.Everything, {"nodes": 2}, {"undeclared"}
    model = Model(given[0](*given[1:]))
    model.identity = b"name"
    with pytest.raises(BoundError) as first:
        search(model, SearchOptions(workers=1))
    work.clear()
    again = known(model, *given)
    compiled = Program(again, effort=Effort.QUICK)
    assert not work
    with pytest.raises(BoundError) as second:
        search(again, SearchOptions(workers=1))
    assert work["traced"]
    assert (second.value.args, second.value.place) == (first.value.args, first.value.place)
    assert compiled.text == Program(model).text


def test_an_instance_by_its_number(monkeypatch: pytest.MonkeyPatch, work: Counter[str]) -> None:
    """One instance is traced alone; if its parameter values are not cached, all are traced."""
    model = Model(zoo.Everything({"nodes": 2}))
    model.identity, texts = b"name", InstanceChoices.of(model).texts
    for kept_texts in (texts, ("of another process", *texts[1:]), texts[:1], None):
        if kept_texts is None:
            monkeypatch.setattr(cache, "found", lambda *key: None)
        cache.keep(InstanceChoices(kept_texts or ()), b"name")
        again = known(model, zoo.Everything, {"nodes": 2})
        work.clear()
        assert str(again.instance(0)) == str(model.instances[0])
        assert (work["traced"] == 1) == (kept_texts in (texts, texts[:1]))
        for number, instance in enumerate(model.instances):
            found = again.instance(number)
            assert (str(found), found.guards) == (str(instance), instance.guards)
            assert (found.writes, found.checks) == (instance.writes, instance.checks)


def test_several_threads_trace_it_once(work: Counter[str]) -> None:
    given = zoo.Everything, {"nodes": 2}
    model = Model(zoo.Everything({"nodes": 2}), zoo.Everything.invariants)
    once, _ = work["traced"], work.clear()
    again = known(model, *given)
    with ThreadPoolExecutor(4) as threads:
        names = ["properties", "bounds", "instances", "step_properties"] * 2
        found = list(threads.map(lambda name: getattr(again, name), names))
    assert work["traced"] == once
    assert list(map(str, found[2])) == list(map(str, model.instances))
    assert (again.safety, again.bounds, again.ruled_out) == (model.safety, model.bounds, model.ruled_out)


def test_a_model_with_a_different_trace_is_an_internal_error() -> None:
    model = Model(zoo.Counters({"counters": 2}))
    again = known(model, zoo.Counters, {"counters": 3})
    with pytest.raises(InternalError, match="traced otherwise"):
        _ = again.instances


def test_only_model_of_gives_a_model_its_key() -> None:
    """A caller can change a model that it builds itself, so only ``model_of`` sets a cache key."""
    assert Model(zoo.Counters({"counters": 2})).identity is None
    assert request_of().model().identity is None
    assert model_of(request_of()).identity == request_key(request_of())
    for engine, keep in (("native", False), ("interpreter", True), ("native", True)):
        options = SearchOptions(workers=1, limit_states=100)
        model = one.explore(request_of(), engine, by_name.search(engine), options, keep=keep).model
        assert model is not None
        assert (model.identity is not None) == (engine == "native" and keep)


def test_code_of_other_loops_is_not_taken(work: Counter[str]) -> None:
    """The key includes kernels, loops and symmetry."""
    model = model_of(request_of())
    programs = [Program(model), LinkProgram(model), Program(model, symmetry=True)]
    assert len({p.name.digest for p in programs}) == 3
    work.clear()
    again = [Program(model), LinkProgram(model), Program(model, symmetry=True)]
    assert [p.name for p in again] == [p.name for p in programs]
    assert not work
    assert [p.text for p in again] == [p.text for p in programs]


def test_cancelled_better_code_is_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[object] = []

    class Slow:
        under_way = True

        def __init__(self, *given: object) -> None:
            begun.append(given)

        def give_up(self) -> None:
            pass

    monkeypatch.setattr(program, "Beside", Slow)
    monkeypatch.setattr(program, "_BEGIN", BEGIN)

    def compiled() -> Program:
        model = Model(zoo.Counters({"counters": 3}))
        model.identity = b"name"
        return Program(model, effort=Effort.QUICK)

    first = compiled()
    states = first.name.size // BEGIN + 1
    first.improve(states)
    assert len(begun) == 1
    first.settle(states)
    again = compiled()
    again.improve(states)
    assert len(begun) == 1
    again.improve(states + 1)
    assert len(begun) == 2
    again.settle(again.name.size)
    compiled().improve(states + 1)
    assert len(begun) == 3, "what is worth waiting for is not given up"
