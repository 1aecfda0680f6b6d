"""If the disk fills up during a command, no finished result is lost, and one line reports the error.

The disk is limited by a maximum file size, which needs no rights, or is a small file system with everything
that a command writes.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from highwater.traces.runs.writing import write_run

pytest.importorskip("pyarrow", reason="the extra 'tables' is not installed")

from highwater.checker.comparing.gate import baseline as baselines
from highwater.checker.engines.native import search
from highwater.checker.scenarios.search import SearchOptions
from tests import models
from tests.slow import often, slow

pytestmark = slow("dozens of commands take some minutes")

ROOT = Path(__file__).parents[2]
SCENARIO = "truncation/kip-101"
BEFORE = "what was there before\n"
ROOM = [0, 1 << 12, 1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 22][:: often(5, 1)]
"""Bytes until the disk is full: two moments in a command, or ten."""


@dataclass(frozen=True)
class Command:
    """A command line, the files that it writes, and a text on standard output with its result."""

    line: str
    files: tuple[str, ...]
    said: str
    statuses: tuple[int, ...]
    """The status of its result, and 2."""


COMMANDS = {
    "check": Command(
        f"check {SCENARIO} --json a.json --html a.html --trace-out a.jsonl",
        ("a.json", "a.html", "a.jsonl"),
        "59,788",
        (0, 2),
    ),
    "check with a checkpoint": Command(
        # If the checkpoint cannot be written, the search ends with the states found so far: status 3.
        f"check {SCENARIO} --checkpoint kept --json a.json",
        ("a.json",),
        SCENARIO,
        (0, 2, 3),
    ),
    "check beyond memory": Command(
        "check truncation/kip-320 --set replicas=4 --set max_records=1 --set max_leader_epoch=2 "
        "--limit-states 1500000 --memory 0.034 --workers 1 --spill . --json a.json",
        ("a.json",),
        "truncation/kip-320",
        (3, 2),
    ),
    "states": Command(
        f"states {SCENARIO} --set max_records=1 --out tables --force --json a.json", ("a.json",), "", (0, 2)
    ),
    "replay": Command(
        "replay run.jsonl --json a.json --html a.html", ("a.json", "a.html"), "1 input", (0, 1, 2)
    ),
    "gate": Command("gate --baseline gate.toml --json a.json", ("a.json",), "same", (0, 2)),
    "gate --update": Command("gate --baseline gate.toml --update", ("gate.toml",), "", (0, 2)),
}


def prepare(place: Path) -> None:
    """Write the commands' inputs, and earlier versions of their outputs."""
    model = models.scenario_model(SCENARIO)
    (violation,) = search(model, SearchOptions(workers=1)).violations
    write_run(place / "run.jsonl", model, violation.initial, violation.path, protocol="truncation")
    all_facts = baselines.read(ROOT / ".highwater" / "gate.toml").facts
    facts = {("scenario", name): all_facts["scenario", name] for name in ("truncation/kip-279", SCENARIO)}
    kept = baselines.Baseline(
        place / "gate.toml", baselines.Selection([name for _, name in facts]), None, facts
    )
    kept.path.write_text(kept.text())
    for name in ("a.json", "a.html", "a.jsonl", "a.xml", "a.md"):
        (place / name).write_text(BEFORE)
    (place / "tables" / "states").mkdir(parents=True)
    (place / "tables" / "states" / "part-00000.parquet").write_text(BEFORE)
    (place / "tables" / "run.json").write_text(BEFORE)


def is_whole(file: Path, before: str) -> bool:
    """True if the file is unchanged or complete."""
    text = file.read_text()
    if text == before:
        return True
    ends = {".json": "]", ".html": "</html>", ".jsonl": "}", ".xml": "</testsuites>", ".md": "", ".toml": ""}
    if file.suffix == ".json":
        json.loads(text)
    elif file.suffix == ".toml":
        baselines.read(file)
    return text.rstrip().endswith((ends[file.suffix], "}"))


def holds(
    command: Command, place: Path, environment: dict[str, str], limit: Callable[[], None] | None
) -> None:
    """Run a command with little space and check its messages and files."""
    before = {name: (place / name).read_text() for name in command.files}
    done = subprocess.run(
        [sys.executable, "-m", "highwater", *command.line.split()],
        cwd=place,
        # Python would truncate its own bytecode files in the checkout, and load them later.
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    said = f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.returncode in command.statuses, said
    assert "Traceback" not in done.stderr, said
    complaints = [line for line in done.stderr.splitlines() if line.startswith("highwater: ")]
    assert len(complaints) == (done.returncode == 2), said
    assert command.said in done.stdout, said
    for name in command.files:
        assert is_whole(place / name, before[name]), (name, said)
        if done.returncode != 2:
            assert (place / name).read_text() != BEFORE
    if command.line.startswith("states"):
        about = place / "tables" / "run.json"
        is_complete = about.exists() and about.read_text() != BEFORE
        assert is_complete == (done.returncode == 0), said
    left = [path.name for path in place.rglob("*.new")]
    assert left == [], left


@pytest.mark.parametrize("room", ROOM)
@pytest.mark.parametrize("name", COMMANDS)
def test_files_may_not_be_larger(name: str, room: int, tmp_path: Path) -> None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    prepare(tmp_path)
    (tmp_path / "temporary").mkdir()
    holds(COMMANDS[name], tmp_path, {"TMPDIR": str(tmp_path / "temporary")}, limit)
