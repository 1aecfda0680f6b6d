"""What was found out about a request: kept under a name that changes with all it depends on, and never believed."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import highwater
from highwater.checker.asking import catalogue, identity, scenarios
from highwater.checker.asking.identity import digest_of, identity_of
from highwater.checker.asking.request import Overrides, Request
from highwater.checker.cli import cli
from highwater.checker.engines import cache as code_cache
from highwater.checker.engines import kept
from highwater.checker.telling import vacuity
from highwater.checker.telling.vacuity import Idle, Vacuous

SMALL = "truncation/truncate-to-hwm"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where facts are kept: nothing yet. Requests have names here, as in a process of their own."""
    monkeypatch.setenv(code_cache.VARIABLE, str(tmp_path / "kept"))
    monkeypatch.setattr(identity, "named", True)
    monkeypatch.setattr(identity, "_BEFORE", float("inf"))
    identity._source.cache_clear()
    for name in [m for m in sys.modules if m.startswith(catalogue.OWN_FILE)]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path / "kept"


def checked(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    """The result of ``highwater check``, without what no two runs have in common."""
    file = tmp_path / "result.json"
    found = CliRunner().invoke(cli, ["check", *arguments, "--workers", "1", "--json", str(file), "--quiet"])
    assert found.exit_code in (0, 1), found.output
    (result,) = json.loads(file.read_text())
    for measured in ("seconds", "preparation_seconds", "peak_memory_bytes"):
        del result[measured]
    return dict(result)


def asked(name: str = SMALL, **settings: Any) -> Request:
    return Request.of(scenarios.find(name), Overrides(**settings))


# --- names ----------------------------------------------------------------------------------------


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
    assert identity_of(asked()) is not None
    assert identity_of(asked()) == identity_of(asked())
    assert identity_of(asked(**settings)) not in (None, identity_of(asked()))


def test_another_protocol_has_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    request = asked()
    definition = replace(request.scenario.definition, name="quorum")
    other = replace(request, scenario=replace(request.scenario, definition=definition))
    monkeypatch.setattr(identity, "_comes_with_the_checker", lambda request: True)
    assert identity_of(other) not in (None, identity_of(request))


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources, to be changed."""
    package = tmp_path_factory.mktemp("copied")
    for part in ("checker", "invariants", "model"):
        shutil.copytree(Path(highwater.__file__).parent / part, package / part)
    return package


@pytest.mark.parametrize(
    "file",
    [
        "model/truncation/protocol.py",
        "model/rulebook.toml",
        "invariants/truncation.py",
        "checker/engines/native/text/kernels.py",
        "checker/added.py",
    ],
)
def test_another_source_gives_other_names(copied: Path, file: str) -> None:
    before, _ = digest_of(copied)
    assert before == digest_of(copied)[0] == digest_of(Path(highwater.__file__).parent)[0]
    path = copied / file
    content = path.read_bytes() if path.exists() else None
    path.write_bytes((content or b"") + b"\n")
    assert digest_of(copied)[0] != before
    if content is None:
        path.rename(path.with_suffix(".txt"))
    else:
        path.write_bytes(content)
    assert digest_of(copied)[0] == before


def test_a_source_that_was_changed_since_gives_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    _, changed = digest_of(Path(highwater.__file__).parent)
    monkeypatch.setattr(identity, "_BEFORE", changed)
    assert identity_of(asked()) is None
    identity._source.cache_clear()
    monkeypatch.setattr(identity, "_BEFORE", changed + 1)
    assert identity_of(asked()) is not None


def test_no_sources_give_no_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(highwater, "__file__", str(tmp_path / "__init__.py"))
    assert identity_of(asked()) is None


def test_what_is_not_as_the_package_has_it_has_no_name(tmp_path: Path) -> None:
    request = asked()
    own = replace(request.invariants[0])
    assert own == request.invariants[0]
    assert identity_of(replace(request, invariants=(own,))) is None
    definition = replace(request.scenario.definition, protocol=type("Own", (request.scenario.protocol,), {}))
    assert identity_of(replace(request, scenario=replace(request.scenario, definition=definition))) is None
    assert identity_of(asked(outside=True)) is None
    (tmp_path / "box.py").write_text(BOX)
    (tmp_path / "box.toml").write_text('protocol = "box.py"\n')
    assert identity_of(request) is not None
    assert identity_of(asked(str(tmp_path / "box.toml"))) is None
    assert identity_of(request) is None, "what was executed can have changed anything"


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

    @action("")
    def empty(self, s):
        """Never."""
        require("it is too full", s.number > 5)
        s.next.number = 0
'''


# --- facts ----------------------------------------------------------------------------------------

FACT = Idle(("one",), (Vacuous("constant", "one", "one is true"),))


def test_a_fact_is_found_under_its_name_and_what_was_asked() -> None:
    kept.keep(FACT, b"name", ["a"], ["b"])
    assert kept.found(Idle, b"name", ["a"], ["b"]) == FACT
    assert kept.found(Idle, b"other", ["a"], ["b"]) is None
    assert kept.found(Idle, b"name", ["a", "b"], []) is None
    assert kept.found(Vacuous, b"name", ["a"], ["b"]) is None
    kept.keep(FACT, None, [])
    assert kept.found(Idle, None, []) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"constant": []}', b'{"constant": [1], "warnings": []}', b"[" * 10**5, b"\xff\x00"],
)
def test_what_has_another_form_is_none(content: bytes) -> None:
    place = code_cache.chosen()
    assert place is not None
    place.put(kept._key(Idle, b"name", ()), content)
    assert kept.found(Idle, b"name") is None
    kept.keep(FACT, b"name")
    assert kept.found(Idle, b"name") == FACT


@pytest.mark.parametrize("off", ["nothing", "the option", "the variable", "names"])
def test_nothing_is_kept_where_that_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: str) -> None:
    calls: list[object] = []
    monkeypatch.setattr(kept, "_key", lambda *key: calls.append(key) or b"k" * 32)
    if off == "the variable":
        monkeypatch.setenv(code_cache.VARIABLE, code_cache.OFF)
    if off == "names":
        monkeypatch.setattr(identity, "named", False)
    checked(tmp_path, SMALL, *["--no-cache"] * (off == "the option"))
    assert bool(calls) == (off == "nothing")


# --- a search again -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["quorum/small-older", "replication/controller/small"])
def test_what_withholds_actions_is_asked_once(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    honest = vacuity._withheld
    monkeypatch.setattr(vacuity, "_withheld", lambda *given: calls.append(given) or honest(*given))
    first = checked(tmp_path, name)
    assert calls
    del calls[:]
    assert checked(tmp_path, name) == first
    assert not calls
