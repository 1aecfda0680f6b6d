"""Only a protocol file in its scenario's own folder, or in an allowed one, is executed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from werkzeug.serving import BaseWSGIServer

import highwater as api
from highwater.checker.base.problems import InputError
from highwater.checker.scenarios import catalogue
from tests.checker.conftest import COUNTER, ROOT
from tests.command import Run, highwater

MARKING = "from pathlib import Path\nPath({mark!r}).touch()\n"
COMMANDS = {
    "check": ["check"],
    "simulate": ["simulate"],
    "states": ["states", "--out", "tables"],
    "prove": ["prove", "--depth", "1"],
    "diff": ["diff", "--rule", "wraps=off"],
    "explore": ["explore", "--no-open"],
    "mutate": ["mutate"],
    "show": ["show"],
    "gate": ["gate", "--update", "--baseline", "gate.toml"],
}
"""Every command that takes a scenario, with the other arguments that it needs."""


@pytest.fixture(autouse=True)
def _nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a server starts by mistake, it ends immediately."""
    monkeypatch.setattr(BaseWSGIServer, "serve_forever", lambda self: None)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A file that exists once a protocol was executed."""
    return tmp_path / "executed"


@pytest.fixture
def elsewhere(tmp_path: Path, mark: Path) -> Path:
    """A protocol file in a folder outside of the scenario's."""
    (tmp_path / "elsewhere").mkdir()
    path = tmp_path / "elsewhere" / "counter.py"
    path.write_text(MARKING.format(mark=str(mark)) + COUNTER)
    return path


@pytest.fixture
def place(tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The scenarios' folder, also the working directory; it has links to the protocol elsewhere."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "link.py").symlink_to(elsewhere)
    (folder / "folder").symlink_to(elsewhere.parent)
    monkeypatch.chdir(folder)
    return folder


def scenario(place: Path, protocol: object) -> Path:
    path = place / "counter.toml"
    path.write_text(f"protocol = {json.dumps(str(protocol))}\nprofile = 'plain'\n")
    return path


def refused(run: Run, *parts: str) -> None:
    assert run.status == 2, run
    assert run.err.count("\n") == 1, run.err
    for part in (*parts, "is outside of the folder", "--allow-code DIR"):
        assert part in run.err


def test_a_protocol_elsewhere_is_not_executed(place: Path, elsewhere: Path, mark: Path) -> None:
    relative = ("../elsewhere/counter.py", "folder/../elsewhere/counter.py")
    for way in (*relative, elsewhere, "link.py", "folder/counter.py"):
        refused(highwater("check", scenario(place, way)), "counter.toml:1: protocol: ")
        assert not mark.exists(), way


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_no_command_executes_it(place: Path, elsewhere: Path, mark: Path, command: list[str]) -> None:
    scenario(place, "../elsewhere/counter.py")
    run = highwater(*command, "counter.toml")
    assert (run.status == 2 and "is outside of the folder" in run.err) or command[0] == "gate", run
    assert "is outside of the folder" in run.out + run.err
    assert not mark.exists()


@pytest.mark.parametrize(
    "command", [COMMANDS[name] for name in ("check", "diff", "mutate", "show", "gate")], ids=lambda c: c[0]
)
def test_the_option_allow_code_allows_a_folder(
    place: Path, elsewhere: Path, mark: Path, command: list[str]
) -> None:
    scenario(place, "../elsewhere/counter.py")
    run = highwater(*command, "counter.toml", "--allow-code", "../elsewhere")
    assert run.status in (0, 1), run
    assert mark.exists()
    assert catalogue.ALLOW_CODE_VARIABLE not in os.environ


def test_so_can_python(place: Path, elsewhere: Path, mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = scenario(place, elsewhere)
    monkeypatch.chdir(elsewhere.parent)
    for folders in ("", f"{os.pathsep}/nowhere"):  # an empty entry is not the current directory
        monkeypatch.setenv(catalogue.ALLOW_CODE_VARIABLE, folders)
        with pytest.raises(InputError, match="is outside of the folder"):
            api.check(path)
    assert not mark.exists()
    monkeypatch.setenv(catalogue.ALLOW_CODE_VARIABLE, os.pathsep.join(["/nowhere", str(elsewhere.parent)]))
    assert api.check(path, engine="interpreter").holds
    monkeypatch.setenv(catalogue.ALLOW_CODE_VARIABLE, str(place / "folder"))
    assert api.check(path, engine="interpreter").holds, "an allowed link allows its target"


def test_allowing_adds_folders_and_restores_the_environment(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = place / "one", place / "two"
    monkeypatch.delenv(catalogue.ALLOW_CODE_VARIABLE, raising=False)
    with catalogue.allowing([]):
        assert catalogue.allowed() == []
    assert catalogue.ALLOW_CODE_VARIABLE not in os.environ
    monkeypatch.setenv(catalogue.ALLOW_CODE_VARIABLE, "/before")
    with catalogue.allowing([one, two]):
        assert catalogue.allowed() == [Path("/before"), one, two]
    assert os.environ[catalogue.ALLOW_CODE_VARIABLE] == "/before"
    with pytest.raises(InputError, match="cannot be allowed"), catalogue.allowing([f"a{os.pathsep}{place}"]):
        pass
    assert os.environ[catalogue.ALLOW_CODE_VARIABLE] == "/before"


def test_a_protocol_below_the_scenario_s_folder_is_executed(place: Path) -> None:
    (place / "protocols").mkdir()
    (place / "protocols" / "counter.py").write_text(COUNTER)
    whole = place / "protocols" / "counter.py"
    for way in ("protocols/counter.py", "protocols/../protocols/counter.py", whole):
        assert highwater("check", scenario(place, way), "--engine", "interpreter", "--quiet").status == 0


def test_a_linked_scenario_belongs_to_the_link_s_folder(place: Path, elsewhere: Path, mark: Path) -> None:
    scenario(elsewhere.parent, "counter.py")
    (place / "link.toml").symlink_to(elsewhere.with_suffix(".toml"))
    (place / "counter.py").symlink_to(elsewhere)
    refused(highwater("check", "link.toml"))
    assert not mark.exists()


def test_imports_from_another_folder_are_refused(place: Path, elsewhere: Path, mark: Path) -> None:
    elsewhere.write_text(MARKING.format(mark=str(mark)))
    (place / "counter.py").write_text("import link\n" + COUNTER)
    path = scenario(place, "counter.py")
    refused(highwater("check", path), "import link: ")
    assert not mark.exists()
    allowed = highwater("check", path, "--allow-code", "../elsewhere", "--engine", "interpreter", "--quiet")
    assert allowed.status == 0
    assert mark.exists()


def test_a_baseline_leads_to_no_scenario_outside_of_its_folder(
    place: Path, elsewhere: Path, mark: Path
) -> None:
    """A scenario outside of the baseline's folder would have its protocol executed."""
    scenario(elsewhere.parent, "counter.py")
    (place / "link.toml").symlink_to(elsewhere.with_suffix(".toml"))
    fact = 'verdict = "holds"\n'
    for name in ("../elsewhere/counter.toml", "link.toml"):
        for text in (
            f"[select]\nscenarios = [{json.dumps(name)}]\n",
            f"[scenarios.{json.dumps(name)}]\n{fact}",
            f"[select.proofs.p]\nscenario = {json.dumps(name)}\n[proofs.p]\n{fact}",
        ):
            (place / "gate.toml").write_text(f"format = 1\n{text}")
            if "scenarios = [" not in text:  # only an update runs the selected scenarios
                refused(highwater("gate", "--baseline", "gate.toml"))
            if "[scenarios" not in text:  # an update does not read recorded results
                refused(highwater("gate", "--baseline", "gate.toml", "--update"))
    (place / "gate.toml").write_text('format = 1\n[select]\nscenarios = ["../else*/*.toml"]\n')
    refused(highwater("gate", "--baseline", "gate.toml", "--update"))
    assert not mark.exists()


def trace(path: Path, protocol: object) -> Path:
    meta = {"format": "highwater-trace-1", "protocol": str(protocol)}
    path.write_text(json.dumps({"meta": meta}) + '\n{"step": 0}\n')
    return path


@pytest.mark.parametrize("command", [["replay"], ["explore", "--no-open", "--trace"]], ids=lambda c: c[0])
def test_a_trace_names_protocols_that_are_known_and_no_file(
    place: Path, elsewhere: Path, mark: Path, command: list[str]
) -> None:
    beside = place / "counter.py"
    beside.write_text(elsewhere.read_text())
    names = ("counter.py", "counter.toml", "counter", "os", "..truncation")
    for name in (beside, elsewhere, scenario(place, "counter.py"), *names):
        run = highwater(*command, trace(place / "trace.ndjson", name))
        assert run.status == 2
        assert "trace.ndjson:1: meta.protocol: unknown protocol" in run.err
    assert not mark.exists()


@pytest.fixture
def hostile(tmp_path: Path, mark: Path) -> Path:
    """A folder whose every file leaves the mark if it is executed."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    text = MARKING.format(mark=str(mark))
    for name in [
        "counter",
        "json",
        "socket",
        "pickle",
        "numpy",
        "click",
        "llvmlite",
        "sitecustomize",
        "crc32c",
    ]:
        (folder / f"{name}.py").write_text(text)
    (folder / "__cluster_metadata-0").mkdir()
    (folder / "__cluster_metadata-0" / "__init__.py").write_text(text)
    scenario(folder, "counter.py")
    (folder / ".highwater").mkdir()
    (folder / ".highwater" / "gate.toml").write_text('format = 1\n[select]\nscenarios = ["counter.toml"]\n')
    trace(folder / "trace.ndjson", folder / "counter.py")
    return folder


def test_a_current_directory_that_was_removed_is_one_line(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    script = f'rmdir "$PWD"; exec "{sys.executable}" -m highwater list'
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "highwater: the current directory was removed: change to another directory\n"


@pytest.mark.parametrize(
    ("arguments", "status"),
    [("replay .", 2), ("check truncation/truncate-to-hwm truncation/kip-101 --quiet --workers 2", 0)],
)
def test_files_in_the_current_directory_are_not_executed(
    hostile: Path, mark: Path, arguments: str, status: int
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "highwater", *arguments.split()]
    done = subprocess.run(command, cwd=hostile, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert not mark.exists()
