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
FETCHING = "model/replication/fetching.py"
ISR = "model/replication/isr.py"
HIGH_WATERMARK = "model/replication/high_watermark.py"
CONTROL = "model/replication/control.py"
PROPERTIES = next(
    path.relative_to(ROOT).as_posix()
    for path in sorted((ROOT / "invariants").rglob("*.py"))
    if "def strong_isr(" in path.read_text(encoding="utf-8")
)


@dataclass(frozen=True)
class Change:
    """A change, whether the gate passes, and texts that its report must and must not contain."""

    name: str
    edits: tuple[tuple[str, str, str], ...]
    passes: bool
    says: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()

    def plant(self, tree: Path) -> None:
        for file, before, after in self.edits:
            path = tree / file
            text = path.read_text(encoding="utf-8")
            assert text.count(before) >= 1, f"{self.name}: {file} has no {before!r}"
            path.write_text(text.replace(before, after), encoding="utf-8")


CHANGES = (
    Change(
        "guard-dropped",
        (
            (
                TRUNCATION,
                'require("the follower has reached the HWM", s.logs[follower].length >= hwm)',
                "pass",
            ),
        ),
        False,
        (
            "without guard “the follower has reached the HWM”",
            "can be taken where it could not",
            "leader_expand_isr",
        ),
    ),
    Change(
        "guard-stronger",
        (
            (
                TRUNCATION,
                'require("the follower has reached the HWM", s.logs[follower].length >= hwm)',
                'require("the follower has reached the HWM", s.logs[follower].length > hwm)',
            ),
        ),
        False,
        ("another condition in guard “the follower has reached the HWM”", "cannot be taken where it could"),
    ),
    Change(
        "guard-implied",
        ((TRUNCATION, '        require("the follower is another replica", follower != leader)\n', ""),),
        True,
        ("the expressions changed", "action leader_shrink_isr:", "it does the same in each of the"),
        ("different",),
    ),
    Change(
        "comparison-flipped",
        (
            (
                TRUNCATION,
                'require("both are in the same leader epoch", self.follows_in_epoch(s, follower, leader))',
                'require("both are in the same leader epoch", ~self.follows_in_epoch(s, follower, leader))',
            ),
        ),
        False,
        ("action follower_fetch", "can be taken where it could not", "cannot be taken where it could"),
    ),
    Change(
        "off-by-one",
        ((TRUNCATION, "end = where(same, offset + 1, end)", "end = where(same, offset, end)"),),
        False,
        ("become_follower", "leads elsewhere", "matching_end_offset: changed"),
    ),
    Change(
        "update-reordered",
        (
            (
                TRUNCATION,
                "s.next.replicas[follower].hwm = least(s.replicas[leader].hwm, ours.length + 1)",
                "s.next.replicas[follower].hwm = least(s.replicas[leader].hwm, ours.length)",
            ),
        ),
        False,
        ("action follower_fetch: another value for replicas[0].hwm", "leads elsewhere"),
    ),
    Change(
        "action-new",
        (
            (
                TRUNCATION,
                "    # --- the ISR ---",
                '    @action("B4", says="replica {replica} forgets its HWM", replica="replica")\n'
                "    def forget_hwm(self, s: State, replica: Number) -> None:\n"
                '        """A restart without the checkpoint."""\n'
                '        require("there is one", s.replicas[replica].hwm > 0)\n'
                "        s.next.replicas[replica].hwm = 0\n\n"
                "    # --- the ISR ---",
            ),
        ),
        False,
        ("action forget_hwm is new", "states are reached now, not before"),
    ),
    Change(
        "action-gone",
        (
            (
                TRUNCATION,
                '    @action("B8", says="the controller takes replica {replica} out of the ISR", replica="replica")\n',
                "",
            ),
        ),
        False,
        ("action controller_shrink_isr is gone", "states are reached before, not any more"),
    ),
    Change(
        "property-weaker",
        (
            (
                PROPERTIES,
                "s.quorum.isr.has(replica) & (s.replicas[leader].hwm > 0)",
                "s.quorum.isr.has(replica) & (s.replicas[leader].hwm > 1)",
            ),
        ),
        False,
        ("property strong_isr has another condition", "both revisions reach the same"),
    ),
    Change(
        "bound-smaller",
        (("model/truncation/scenarios/kip-320.toml", "max_records = 2", "max_records = 1"),),
        False,
        ("max_records: 2 → 1",),
    ),
    Change(
        "hwm-goes-back",
        ((HIGH_WATERMARK, "return greatest(leader.hwm, may_reach)", "return may_reach"),),
        False,
        ("advanced_hwm: changed",),
    ),
    Change(
        "check-turned-off",
        ((ISR, "known.broker_epoch == view.epochs[f]", "leader.hwm >= 0"),),
        False,
        ("is_eligible: changed",),
    ),
    Change(
        "epoch-check-laxer",
        (
            (
                FETCHING,
                "        fetch.leader_epoch == broker.view.leader_epoch,\n",
                "        fetch.leader_epoch <= broker.view.leader_epoch,\n",
            ),
        ),
        False,
        ("require_usable: changed",),
    ),
    Change(
        "update-dropped",
        (
            (
                FETCHING,
                "    s.next.brokers[f] = where(current, after, broker)\n    s.next.fetch_responses[f] = None\n",
                "    s.next.brokers[f] = where(current, after, broker)\n",
            ),
        ),
        False,
        ("take_fetch_answer", "leads elsewhere"),
    ),
    Change(
        "does-not-trace",
        (
            (
                TRUNCATION,
                "s.next.next_record_id = s.next_record_id + 1",
                "s.next.next_recrd_id = s.next_record_id + 1",
            ),
        ),
        False,
        ("truncation/kip-320: failed", "has no field 'next_recrd_id'"),
    ),
    Change(
        "action-renamed",
        ((TRUNCATION, "def leader_write(", "def append_record("),),
        True,
        ("action leader_write is append_record now",),
        ("different",),
    ),
    Change("field-renamed", ((TRUNCATION, "next_record_id", "next_id"),), True, (), ("different",)),
    Change(
        "guard-renamed",
        ((TRUNCATION, '"the follower lags"', '"the follower is behind"'),),
        True,
        (),
        ("different",),
    ),
    Change(
        "property-renamed",
        (
            (PROPERTIES, "strong_isr", "electable_hold_all"),
            ("model/truncation/scenarios/kip-101.toml", "strong_isr", "electable_hold_all"),
            ("model/truncation/scenarios/kip-279.toml", "strong_isr", "electable_hold_all"),
            ("model/truncation/scenarios/truncate-to-hwm.toml", "strong_isr", "electable_hold_all"),
        ),
        True,
        ("property strong_isr is electable_hold_all now",),
        ("different",),
    ),
    Change(
        "statements-reordered",
        (
            (
                TRUNCATION,
                "        s.next.logs[follower] = ours.append(theirs[ours.length])\n"
                "        s.next.replicas[follower].hwm = least(s.replicas[leader].hwm, ours.length + 1)\n",
                "        s.next.replicas[follower].hwm = least(s.replicas[leader].hwm, ours.length + 1)\n"
                "        s.next.logs[follower] = ours.append(theirs[ours.length])\n",
            ),
            (
                TRUNCATION,
                '        require("the replica is in the ISR", s.quorum.isr.has(replica))\n'
                '        require("the replica does not lead already", ~s.quorum.leader.is_(replica))\n',
                '        require("the replica does not lead already", ~s.quorum.leader.is_(replica))\n'
                '        require("the replica is in the ISR", s.quorum.isr.has(replica))\n',
            ),
        ),
        True,
        (),
        ("different", "the expressions changed"),
    ),
    Change(
        "refactored",
        (
            (
                TRUNCATION,
                "lags = ~self.follows_in_epoch(s, follower, leader) | (s.logs[follower].length < end)",
                "lags = ~self.keeps_up(s, follower, leader, end)",
            ),
            (
                TRUNCATION,
                "    # --- the controller ---",
                "    def keeps_up(self, s: State, follower: Number, leader: Number, end: Number) -> Bool:\n"
                '        """Whether a follower is in the leader\'s epoch, and its log as long."""\n'
                "        return (s.logs[follower].length >= end) & self.follows_in_epoch(s, follower, leader)\n\n"
                "    # --- the controller ---",
            ),
        ),
        True,
        (),
        ("different", "the expressions changed"),
    ),
    Change(
        "rewritten",
        (
            (
                TRUNCATION,
                'require("the leader has a record there", s.logs[leader].length > me.hwm)',
                'require("the leader has a record there", s.logs[leader].length >= me.hwm + 1)',
            ),
        ),
        True,
        ("the expressions changed, the facts did not", "it does the same in each of the"),
        ("different",),
    ),
    Change(
        "fields-moved",
        (
            (TRUNCATION, "            next_record_id=Int(0, p.max_records),\n", ""),
            (
                TRUNCATION,
                "            logs=Array(self.replica, self.log),\n",
                "            next_record_id=Int(0, p.max_records),\n            logs=Array(self.replica, self.log),\n",
            ),
        ),
        True,
        ("the fields of the state are in another order",),
        ("different",),
    ),
    Change(
        "words",
        (
            (
                TRUNCATION,
                "Any ISR member can be elected at any time.",
                "Whoever is in the ISR can be elected.",
            ),
        ),
        True,
        (),
        ("different", "the expressions changed"),
    ),
)


class Scratch:
    """A copy of the tree in its own repository, with a small baseline."""

    def __init__(self, directory: Path) -> None:
        self.tree = directory
        for folder in FOLDERS:
            unwanted = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / folder, directory / folder, symlinks=True, ignore=unwanted)
        self.git("init", "--quiet")
        self.commit("before")
        written = self.gate("--update", *SCENARIOS)
        assert written.returncode == 0, written.stdout + written.stderr
        self.commit("a baseline")

    def git(self, *arguments: str) -> None:
        who = ["-c", "user.name=test", "-c", "user.email=test@example", "-c", "core.hooksPath=/dev/null"]
        subprocess.run(["git", *who, *arguments], cwd=self.tree, check=True, capture_output=True)

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", message)

    def gate(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``highwater gate`` of the copy's own source."""
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "highwater",
                "gate",
                "--quiet" if "--update" in arguments else "--explain=2",
                *arguments,
            ],
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
            done = self.gate("--json", str(target))
            result = json.loads(target.read_text(encoding="utf-8"))
            return done.returncode, done.stdout, result
        finally:
            self.git("reset", "--quiet", "--hard", "HEAD~1")
