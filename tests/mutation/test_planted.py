"""``highwater check`` finds errors planted in a copy of the model's source, as it finds the mutants."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.slow import all_but

ROOT = Path(__file__).resolve().parents[2]
QUICK = "who joins the ISR"
REASON = "a new process explores a copy of the source for each error; fast for one error"


PLANTED = {
    QUICK: (
        "truncation/protocol.py",
        "s.logs[follower].length >= hwm)",
        "s.logs[follower].length >= 0)",
        "truncation/kip-320",
        "strong_isr",
    ),
    "the offset of a fetch answer": (
        "replication/fetching.py",
        'asked_for = in_epoch & under("fetch_response_check", got.offset == broker.log.length)',
        "asked_for = in_epoch",
        "replication/small-duplicates",
        "logs_match_below_hwm",
    ),
    "the winner of a recovery": (
        "replication/logs.py",
        "theirs.end > mine.end if",
        "theirs.end < mine.end if",
        "replication/recovery-two-records",
        "leader_completeness",
    ),
    "who is in the ELR": (
        "replication/controller/partition_change.py",
        "((partition.elr | partition.isr) - proposed_isr) - unclean_shutdown",
        "((partition.elr | partition.isr) & proposed_isr) - unclean_shutdown",
        "replication/small-shrink",
        "isr_and_elr_are_disjoint",
    ),
    "a former generation's requests": (
        "zookeeper/cluster.py",
        "return (epoch < other) &",
        "return (other < epoch) &",
        "zookeeper/large-three-brokers",
        "former_requests_are_refused",
    ),
    "what may be read": (
        "promise/protocol.py",
        'require("so many are committed", s.log.length >= n)',
        'require("so many are committed", s.log.length > n)',
        "replication/small-writes",
        "keeps_the_promise",
    ),
    "the HWM of a fetch answer": (
        "quorum/leadership.py",
        "received = least(got.hwm, log.length)",
        "received = greatest(got.hwm, log.length)",
        "quorum/small-losses",
        "hwm_is_committed",
    ),
}
"""Error → a file below ``model``, its text, what replaces it, the scenario that detects it, and a property."""


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a ``highwater`` package that has a copy of the model."""
    package = tmp_path_factory.mktemp("planted") / "highwater"
    package.mkdir()
    for path in (ROOT / "highwater").iterdir():
        if path.suffix == ".py":
            shutil.copy(path, package)
        elif path.is_dir() and path.name != "model" and not path.name.startswith("__"):
            (package / path.name).symlink_to(path.resolve())
    shutil.copytree(ROOT / "model", package / "model", ignore=shutil.ignore_patterns("__pycache__"))
    return package


def checked(package: Path, scenario: str, prop: str) -> tuple[int, set[str]]:
    """Exit status and violations of ``highwater check`` with this package, for one property."""
    what = ["check", scenario, "--property", prop, "--first"]
    command = [sys.executable, "-m", "highwater", *what, "--quiet", "--workers", "1", "--json", "-"]
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run(
        command, cwd=package.parent, env=environment, capture_output=True, text=True, check=False
    )
    found: list[dict[str, Any]] = json.loads(run.stdout) if run.stdout else []
    return run.returncode, {v["property"] for r in found for v in r["violations"]}


@pytest.mark.parametrize("name", all_but([QUICK], PLANTED, REASON))
def test_a_planted_error_is_found(copied: Path, name: str) -> None:
    place, text, instead, scenario, prop = PLANTED[name]
    file = copied / "model" / place
    source = file.read_text(encoding="utf-8")
    assert source.count(text) == 1
    try:
        file.write_text(source.replace(text, instead), encoding="utf-8")
        found = checked(copied, scenario, prop)
    finally:
        file.write_text(source, encoding="utf-8")
    assert found == (1, {prop})
