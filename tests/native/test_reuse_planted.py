"""Changes planted in a copy of the sources and around it: `check` reuses no result that a change can affect."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import highwater
from highwater.checker.engines.cache import VARIABLE
from highwater.checker.runner.kept import CI
from tests.slow import slow

TRUNCATION, PROMISE, _ = NAMES = (
    "truncation/small-kip-101",
    "promise/clients",
    "replication/sanity-epochs-from-fetches",
)
T, P = {TRUNCATION}, {PROMISE}
ALL: set[str] = set(NAMES)
NONE: set[str] = set()

PROGRAM = (
    "from highwater.checker.scenarios import model_key; model_key._BEFORE = float('inf')\n"
    "from highwater.checker.cli import main; main()"
)
"""`check`, treating all sources as old: it reuses no result while a source is only seconds old."""


@dataclass(frozen=True)
class Change:
    """A text replaced in a file, or environment and options; and the scenarios explored afterwards."""

    explored: set[str]
    file: str = ""
    old: str = ""
    new: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    options: Sequence[str] = ()

    def __str__(self) -> str:
        return (
            f"{self.file or [*self.environment.items(), *self.options]}: {self.old[:40]!r} {self.new[:40]!r}"
        )


PROTOCOL, PROPERTIES = "model/truncation/protocol.py", "invariants/truncation/__init__.py"
SCENARIO = f"model/{TRUNCATION.replace('/', '/scenarios/')}.toml"
LOGS = "model/replication/logs.py"


def replaced(explored: set[str], file: str, *texts: tuple[str, str]) -> list[Change]:
    """Several replacements in one file with the same effect."""
    return [Change(explored, file, old, new) for old, new in texts]


CHANGES = [
    # Any source, even a comment: a protocol, properties, a helper three imports away, engines, reports, tables.
    *replaced(
        ALL,
        PROTOCOL,
        ('require("the replica is in the ISR", s.quorum.isr.has(replica))', "pass"),
        ("next_record_id=Int(0, p.max_records),", "next_record_id=Int(0, p.max_records + 1),"),
        ('to truncate", "leader_epoch_lookup")', 'to truncate", "divergence_on_fetch")'),
        ("from __future__", "# Changed.\nfrom __future__"),
    ),
    *replaced(
        ALL,
        PROPERTIES,
        ("new.hwm <= after.logs[r].length", "new.hwm < after.logs[r].length"),
        ("defined(StepProperty, __name__)", "defined(StepProperty, __name__)[::-1]"),
    ),
    Change(ALL, LOGS, "(log.at(i).epoch <= epoch)", "(log.at(i).epoch < epoch)"),
    *[
        Change(ALL, file, "from __future__", "# Changed.\nfrom __future__")
        for file in (
            "checker/engines/cache.py",
            "checker/engines/native/text/kernels.py",
            "checker/runner/one.py",
            "checker/report/summary.py",
            "model/language/tracing.py",
            "traces/reading.py",
        )
    ],
    Change(ALL, "checker/engines/native/added.py", "", "ADDED = True\n"),
    Change(ALL, "model/rulebook.toml", "", "\n"),
    # A scenario: parameters, properties, rules, options, expectations.
    *replaced(
        T,
        SCENARIO,
        ("max_records = 2", "max_records = 1"),
        ('["step_properties"]', '["hwms_stay_within_their_logs"]'),
        ("[parameters]", "[rules]\nfenced_fetch = true\n\n[parameters]"),
        ("violated = []", 'violated = ["hwms_stay_within_their_logs"]'),
        ("violated = []", 'violated = []\nimpossible = ["become_leader"]'),
    ),
    Change(P, "model/promise/scenarios/clients.toml", "unclean = true", "unclean = false"),
    # Libraries, interpreter, environment, options.
    *[
        Change(ALL, f"site/{name}-99.dist-info/METADATA", "", f"Name: {name}\nVersion: 99\n")
        for name in ("llvmlite",)
    ],
    *[Change(ALL, environment={name: "1"}) for name in (CI, "HIGHWATER_ALLOW_CODE")],
    Change(ALL, options=["--fresh"]),
    # What no result depends on.
    *replaced(
        NONE,
        SCENARIO,
        ("standard = true", "# Changed.\nstandard = true"),
        ('title = "', 'title = "Changed. '),
    ),
    Change(NONE),
]


@contextmanager
def planted(tree: Path, change: Change) -> Iterator[None]:
    """Apply a change to the sources and undo it at the end. The file's bytecode is removed both times."""
    if not change.file:
        yield
        return
    path = tree / ("" if change.file.startswith("site/") else "highwater") / change.file
    before = path.read_text() if path.exists() else None
    assert before is None or change.old in before, change
    path.parent.mkdir(exist_ok=True)
    path.write_text(change.new if before is None else before.replace(change.old, change.new, 1))
    code = Path(importlib.util.cache_from_source(str(path)))
    code.unlink(missing_ok=True)
    try:
        yield
    finally:
        code.unlink(missing_ok=True)
        if before is not None:
            path.write_text(before)
        elif change.file.startswith("site/"):
            shutil.rmtree(path.parent)
        else:
            path.unlink()


def explored(tree: Path, change: Change) -> set[str]:
    environment = {k: v for k, v in os.environ.items() if k != CI}
    environment |= {VARIABLE: str(tree / "cache"), "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'site'}"}
    options = ["--workers", "1", "--quiet", "--json", "-", *change.options]
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, "check", *NAMES, *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=tree,
        env={**environment, **change.environment},
    )
    assert done.returncode in (0, 1), done.stderr
    return {result["scenario"] for result in json.loads(done.stdout) if "reused" not in result}


@pytest.mark.parametrize("part", range(2))
@slow("starts a process for each planted change; test_reuse.py plants a few in one process")
def test_a_planted_change_is_explored_in_the_scenarios_it_affects(part: int, tmp_path: Path) -> None:
    shutil.copytree(Path(highwater.__file__).parent, tmp_path / "highwater")
    (tmp_path / "site").mkdir()
    assert explored(tmp_path, Change(ALL)) == ALL
    assert explored(tmp_path, Change(NONE)) == NONE
    wrong = []
    for change in CHANGES[part::2]:
        with planted(tmp_path, change):
            found = explored(tmp_path, change)
        if found != change.explored:
            wrong.append(f"{change}: explored {sorted(found)}, not {sorted(change.explored)}")
    assert not wrong, "\n".join(wrong)
    assert explored(tmp_path, Change(NONE)) == NONE, "the change was not undone"


def test_many_changes_are_planted() -> None:
    files = [(Path(highwater.__file__).parent / change.file, change.old) for change in CHANGES if change.file]
    assert [old for file, old in files if file.exists() and old not in file.read_text()] == []
    assert sum(bool(change.explored) for change in CHANGES) >= 20
    assert sum(change.explored == NONE for change in CHANGES) >= 3
