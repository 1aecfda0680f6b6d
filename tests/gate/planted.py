"""Changes of the protocol, planted one at a time into a copy of the tree, and what the gate is to say of each.

``python -m tests.gate.planted`` runs them all and prints a table; docs/gate.md sums it up.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
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
    """A change: pairs (file, text before, text after), whether the gate is to pass, and what its report has to hold."""

    name: str
    what: str
    edits: tuple[tuple[str, str, str], ...]
    passes: bool
    says: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()

    def plant(self, tree: Path) -> None:
        """Make the change. Every text before must be there, and only where it is meant."""
        for file, before, after in self.edits:
            path = tree / file
            text = path.read_text(encoding="utf-8")
            assert text.count(before) >= 1, f"{self.name}: {file} has no {before!r}"
            path.write_text(text.replace(before, after), encoding="utf-8")


CHANGES = (
    Change(
        "guard-dropped",
        "`leader_expand_isr` without “the follower has reached the HWM”",
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
        "`leader_expand_isr` waits for one record more than the HWM: `>=` becomes `>`",
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
        "`leader_shrink_isr` without “the follower is another replica”, which KIP-320's other guards imply",
        ((TRUNCATION, '        require("the follower is another replica", follower != leader)\n', ""),),
        True,
        (
            "the expressions changed",
            "action leader_shrink_isr:",
            "it does the same in each of the",
        ),
        ("different",),
    ),
    Change(
        "comparison-flipped",
        "`fenced_fetch` takes fetches of another epoch in place of its own",
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
        "the common prefix of two logs ends one record early",
        ((TRUNCATION, "end = where(same, offset + 1, end)", "end = where(same, offset, end)"),),
        False,
        ("become_follower", "leads elsewhere", "matching_end_offset: changed"),
    ),
    Change(
        "update-reordered",
        "the follower's HWM is computed from its log before the fetched record",
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
        "a new action: a replica forgets its HWM",
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
        "the controller takes nobody out of the ISR any more",
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
        "`strong_isr` asks only where the HWM has passed two records",
        (
            (
                PROPERTIES,
                "s.quorum.isr.has(replica) & (s.replicas[leader].hwm > 0)",
                "s.quorum.isr.has(replica) & (s.replicas[leader].hwm > 1)",
            ),
        ),
        False,
        ("property strong_isr asks for something else", "both revisions reach the same"),
    ),
    Change(
        "bound-smaller",
        "a scenario with one record less",
        (("model/truncation/scenarios/kip-320.toml", "max_records = 2", "max_records = 1"),),
        False,
        ("max_records: 2 → 1",),
    ),
    Change(
        "hwm-goes-back",
        "replication: a leader's HWM is what the followers allow now, also where that is less",
        (
            (
                HIGH_WATERMARK,
                "return greatest(leader.hwm, may_reach)",
                "return may_reach",
            ),
        ),
        False,
        ("advanced_hwm: changed",),
    ),
    Change(
        "check-turned-off",
        "replication: the leader does not compare broker epochs (903.2), whatever the rule says",
        ((ISR, "known.broker_epoch == view.epochs[f]", "leader.hwm >= 0"),),
        False,
        ("is_eligible: changed",),
    ),
    Change(
        "epoch-check-laxer",
        "replication: a fetch of an older epoch is answered, too: `==` becomes `<=`",
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
        "replication: an answer that was taken is still there",
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
        "a slip: a field that does not exist",
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
        "`leader_write` is called `append_record`",
        ((TRUNCATION, "def leader_write(", "def append_record("),),
        True,
        ("action leader_write is append_record now",),
        ("different",),
    ),
    Change(
        "field-renamed",
        "the field `next_record_id` is called `next_id`",
        ((TRUNCATION, "next_record_id", "next_id"),),
        True,
        (),
        ("different",),
    ),
    Change(
        "guard-renamed",
        "the guard “the follower lags” is called “the follower is behind”",
        ((TRUNCATION, '"the follower lags"', '"the follower is behind"'),),
        True,
        (),
        ("different",),
    ),
    Change(
        "property-renamed",
        "`strong_isr` is called `electable_hold_all`, in the scenarios' promises too",
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
        "two writes of one step, and two of its guards, change places",
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
        "a condition by De Morgan's laws, in a function of its own",
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
        "`a > b` becomes `a >= b + 1`: another expression for the same",
        (
            (
                TRUNCATION,
                'require("the leader has a record there", s.logs[leader].length > me.hwm)',
                'require("the leader has a record there", s.logs[leader].length >= me.hwm + 1)',
            ),
        ),
        True,
        ("the expressions changed, and nothing that was promised did", "it does the same in each of the"),
        ("different",),
    ),
    Change(
        "fields-moved",
        "a field of the state moves to another place",
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
        "a docstring says it otherwise",
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
    """A copy of the tree in a repository of its own, with a small baseline."""

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
        """Run git there, with nobody's settings."""
        who = ["-c", "user.name=test", "-c", "user.email=test@example", "-c", "core.hooksPath=/dev/null"]
        subprocess.run(["git", *who, *arguments], cwd=self.tree, check=True, capture_output=True)

    def commit(self, message: str) -> None:
        """Commit everything."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", message)

    def gate(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """``highwater gate`` of the copy, by the copy's own source."""
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
        """Plant a change as a commit, and give the gate's exit status, report and JSON; then take it back."""
        change.plant(self.tree)
        self.commit(change.name)
        try:
            target = self.tree.parent / f"{self.tree.name}.json"
            done = self.gate("--json", str(target))
            result = json.loads(target.read_text(encoding="utf-8"))
            return done.returncode, done.stdout, result
        finally:
            self.git("reset", "--quiet", "--hard", "HEAD~1")


def row(change: Change, status: int, result: dict[str, Any]) -> str:
    """A row of the table: the change, what the gate said, and whether that is right."""
    states = [e["state"] for e in result["entries"]]
    counts = [f"{states.count(s)} {s}" for s in dict.fromkeys(states) if s != "same"] or ["all same"]
    told = []
    for found in result["explained"][:1]:
        told += [f"{r['kind']} {r['before']} → {r['after']}" for r in found["renamed"][:2]]
        told += found["settings"][:2]
        told += [f"`{a}` is new" for a in found["actions_new"]] + [
            f"`{a}` is gone" for a in found["actions_gone"]
        ]
        for a in found["actions"][:2]:
            words = [
                f"{a[k]:,} {w}"
                for k, w in (("gained", "more"), ("lost", "fewer"), ("otherwise", "elsewhere"))
                if a[k]
            ]
            if a["asked"]:
                told.append(f"`{a['action']}`: {', '.join(words) or 'the same wherever asked'}")
        for key, run in (("new_states", "to_new_state"), ("lost_states", "to_lost_state")):
            if found[key]:
                word = "new" if key == "new_states" else "lost"
                told.append(f"{found[key]:,} states {word}, nearest at depth {len(found[run])}")
    told += [f"{r['kind']} {r['before']} → {r['after']}" for e in result["entries"][:1] for r in e["renamed"]]
    verdict = "passes" if status == 0 else "does not pass"
    right = "yes" if (status == 0) == change.passes else "**no**"
    return f"| {change.what} | {verdict}: {', '.join(counts)} | {'<br/>'.join(told) or '–'} | {right} |"


def main() -> None:
    """Run all, and print the table."""
    with tempfile.TemporaryDirectory(prefix="highwater-planted-") as directory:
        scratch = Scratch(Path(directory) / "tree")
        print(
            "| change | the gate | why, in the smallest scenario that differs | right? |\n| --- | --- | --- | --- |"
        )
        for change in CHANGES:
            status, said, result = scratch.say(change)
            missing = [text for text in change.says if text not in said]
            print(row(change, status, result), flush=True)
            print(f"{change.name}: {status} {'lacks ' + repr(missing) if missing else 'ok'}", file=sys.stderr)


if __name__ == "__main__":
    main()
