"""A request's cache key changes with every input of tracing; foreign sources have none."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import highwater
from highwater.checker.scenarios import model_key
from highwater.checker.scenarios.model_key import Sources, request_key
from tests.native.conftest import request_of

pytestmark = pytest.mark.usefixtures("folder")


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


def test_another_library_has_another_digest(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Sources(copied).digest()
    monkeypatch.setattr(model_key, "version", lambda library: "99")
    assert Sources(copied).digest() != before


def test_another_protocol_has_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_of()
    definition = replace(request.scenario.definition, name="quorum")
    other = replace(request, scenario=replace(request.scenario, definition=definition))
    monkeypatch.setattr(model_key, "comes_with_the_checker", lambda request: True)
    assert request_key(other) not in (None, request_key(request))


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    package = tmp_path_factory.mktemp("copied")
    shutil.copytree(Path(highwater.__file__).parent, package, dirs_exist_ok=True)
    return package


SOURCES = (
    "model/truncation/protocol.py",
    "model/rulebook.toml",
    "model/replication/logs.py",
    "invariants/truncation/__init__.py",
    "checker/engines/native/text/kernels.py",
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


def test_no_sources_give_no_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(highwater, "__file__", str(tmp_path / "__init__.py"))
    assert request_key(request_of()) is None


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
