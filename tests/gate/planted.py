"""Planted changes of the protocol, and the gate's expected report for each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.gate.conftest import git

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("highwater", "model", "invariants", "checker", "traces")
SCENARIOS = (
    "truncation/kip-101",
    "truncation/kip-320",
    "truncation/truncate-to-hwm",
    "replication/large-messages",
    "replication/defect-fenced-controller",
    "replication/defect-stale-epoch-controller",
)
TRUNCATION = "model/truncation/protocol.py"
HIGH_WATERMARK = "model/replication/high_watermark.py"
PROPERTIES = next(
    path.relative_to(ROOT).as_posix()
    for path in sorted((ROOT / "invariants").rglob("*.py"))
    if "def strong_isr(" in path.read_text(encoding="utf-8")
)
KIP_101, KIP_279, TO_HWM = (
    f"model/truncation/scenarios/{name}.toml" for name in ("kip-101", "kip-279", "truncate-to-hwm")
)
REACHED_THE_HWM = 'require("the follower has reached the HWM", s.logs[follower].length >= hwm)'
SAME_EPOCH = 'require("both are in the same leader epoch", {}self.follows_in_epoch(s, follower, leader))'


@dataclass(frozen=True)
class Change:
    """Edits (text before, text after, file), texts of the gate's report, and if the gate passes."""

    name: str
    edits: tuple[tuple[str, str, str], ...]
    says: tuple[str, ...] = ()
    passes: bool = False

    def plant(self, tree: Path) -> None:
        for before, after, file in self.edits:
            path = tree / file
            text = path.read_text(encoding="utf-8")
            assert text.count(before) >= 1, f"{self.name}: {file} has no {before!r}"
            path.write_text(text.replace(before, after), encoding="utf-8")


def fails(name: str, before: str, after: str, *says: str, file: str = TRUNCATION) -> Change:
    return Change(name, ((before, after, file),), says)


def passes(name: str, *edits: tuple[str, str, str], says: tuple[str, ...] = ()) -> Change:
    return Change(name, edits, says, True)


CHANGES = (
    fails(
        "guard-dropped",
        REACHED_THE_HWM,
        "pass",
        "without guard “the follower has reached the HWM”",
        "can be taken where it could not",
        "leader_expand_isr",
    ),
    fails(
        "comparison-flipped",
        SAME_EPOCH.format(""),
        SAME_EPOCH.format("~"),
        "action follower_fetch",
        "can be taken where it could not",
        "cannot be taken where it could",
    ),
    fails(
        "update-wrong",
        "s.next.replicas[follower].hwm = least(s.replicas[leader].hwm, ours.length + 1)",
        "s.next.replicas[follower].hwm = least(s.replicas[leader].hwm, ours.length)",
        "action follower_fetch: another value for replicas[0].hwm",
        "leads elsewhere",
    ),
    fails(
        "action-new",
        "    # --- the ISR ---",
        '    @action("B4", says="replica {replica} forgets its HWM", replica="replica")\n'
        "    def forget_hwm(self, s: State, replica: Number) -> None:\n"
        '        """A restart without the checkpoint."""\n'
        '        require("there is one", s.replicas[replica].hwm > 0)\n'
        "        s.next.replicas[replica].hwm = 0\n\n"
        "    # --- the ISR ---",
        "action forget_hwm is new",
        "states are reached now, not before",
    ),
    fails(
        "action-gone",
        '    @action("B8", says="the controller takes replica {replica} out of the ISR", replica="replica")\n',
        "",
        "action controller_shrink_isr is gone",
        "states are reached before, not any more",
    ),
    fails(
        "property-weaker",
        "s.quorum.isr.has(replica) & (s.replicas[leader].hwm > 0)",
        "s.quorum.isr.has(replica) & (s.replicas[leader].hwm > 1)",
        "property strong_isr has another condition",
        "both revisions reach the same",
        file=PROPERTIES,
    ),
    fails(
        "hwm-goes-back",
        "return greatest(leader.hwm, may_reach)",
        "return may_reach",
        "advanced_hwm: changed",
        file=HIGH_WATERMARK,
    ),
    passes(
        "guard-implied",
        ('        require("the follower is another replica", follower != leader)\n', "", TRUNCATION),
        says=(
            "the expressions changed, the facts did not",
            "action leader_shrink_isr:",
            "it does the same in each of the",
        ),
    ),
    passes("field-renamed", ("next_record_id", "next_id", TRUNCATION)),
    passes(
        "property-renamed",
        *(("strong_isr", "electable_hold_all", file) for file in (PROPERTIES, KIP_101, KIP_279, TO_HWM)),
        says=("property strong_isr is electable_hold_all now",),
    ),
)


class Scratch:
    """A copy of the tree in its own repository, with a small baseline."""

    def __init__(self, directory: Path) -> None:
        self.tree = directory
        for folder in FOLDERS:
            unwanted = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / folder, directory / folder, symlinks=True, ignore=unwanted)
        git(directory, "init", "--quiet")
        self.commit("before")
        written = self.gate("--quiet", "--update", *SCENARIOS)
        assert written.returncode == 0, written.stdout + written.stderr
        self.commit("a baseline")

    def commit(self, message: str) -> None:
        git(self.tree, "add", "--all")
        git(self.tree, "commit", "--quiet", "-m", message)

    def gate(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``highwater gate`` of the copy's own source."""
        return subprocess.run(
            [sys.executable, "-m", "highwater", "gate", *arguments],
            cwd=self.tree,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )

    def say(self, change: Change) -> tuple[int, str, dict[str, Any]]:
        """Commit the change, run the gate, and revert; returns exit status, report and JSON."""
        change.plant(self.tree)
        self.commit(change.name)
        try:
            target = self.tree.parent / f"{self.tree.name}.json"
            done = self.gate("--explain=2", "--json", str(target))
            result = json.loads(target.read_text(encoding="utf-8"))
            return done.returncode, done.stdout, result
        finally:
            git(self.tree, "reset", "--quiet", "--hard", "HEAD~1")
