"""The gate as an installed command: the user's protocol and scenarios in a git repository."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import pytest

from tests.gate.conftest import commit_project, edit, gate, gate_json, git, line_of

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = ("register.py", "register.toml", "register-hasty.toml")
    files = {name: (EXAMPLES / name).read_text() for name in names}
    return commit_project(tmp_path_factory.mktemp("project"), files, "*.toml")


def test_an_unchanged_tree_passes_and_the_baseline_is_as_it_would_be_written(project: Path) -> None:
    baseline = project / ".highwater" / "gate.toml"
    before = baseline.read_text()
    assert "distinct_states = 198" in before
    assert "violated.no_acknowledged_write_is_lost = 4" in before
    done = gate("--only-changed", "--html", "none.html")
    assert done.status == 0
    assert f"3 of {baseline.relative_to(project)}: 3 unchanged" in done.out.splitlines()
    assert "--html none.html: not written, as nothing new is violated or reached" in done.out
    edit(baseline, 'engine = "', 'engine = "not ')
    done = gate("--only-changed")
    assert "the engine is not that of the baseline" in done.out
    assert done.out.splitlines()[-1].endswith(": 3 same"), "facts of another engine skip no entry"
    done = gate("--update")
    assert done.status == 0
    assert baseline.read_text() == before


def test_a_difference_is_in_the_report_the_json_and_the_page(project: Path) -> None:
    edit(project / "register.py", 'require("every live replica has it", holds)', "pass")
    done, result = gate_json("--html", "page.html")
    assert done.status == 1
    assert "property no_acknowledged_write_is_lost is violated at depth 4, and was not" in done.out
    assert "the leader dies and replica 1 takes over" in done.out, "the run to the new violation"
    assert "action acknowledge: without guard “every live replica has it”" in done.out
    assert "before refused by “every live replica has it”" in done.out
    assert result["status"] == 1
    assert {e["name"]: e["state"] for e in result["entries"]} == {
        "register.toml": "different",
        "register-hasty.toml": "same",
        "register.py": "changed",
    }
    (explained,) = result["explained"]
    assert explained["new_states"] > 0
    assert explained["to_new_state"][-1]["sentence"] == "the leader acknowledges what it has"
    text = (project / "page.html").read_text()
    data = json.loads(text.split('id="data">', 1)[1].split("</script>", 1)[0])
    violated, reached = data["runs"]
    assert violated["title"] == "register.toml: no_acknowledged_write_is_lost is violated"
    assert violated["steps"][-1]["sentence"] == "the leader dies and replica 1 takes over"
    assert violated["why"]["3"]["leaves"][0][0] == "stored[1] >= acknowledged"
    assert len(reached["steps"]) == 3


ACTION = '    @action(says="a client writes to the leader")\n'
FAIL_OVER = '    @action(says="the leader dies and replica {to} takes over", to="replica")\n'
LACKS = 'require("it lacks a write", s.stored[to] < s.stored[s.leader])'
LOST = "no_acknowledged_write_is_lost"
CHANGES: dict[str, tuple[list[tuple[str, str]], bool, list[str]]] = {
    "a flipped comparison": (
        [(LACKS, LACKS.replace("<", ">"))],
        False,
        ["copy: another condition in guard “it lacks a write”", "cannot be taken where it could"],
    ),
    "another write": (
        [("s.next.stored[to] = s.stored[s.leader]", "s.next.stored[to] = s.stored[to] + 1")],
        False,
        ["copy: another value for stored[0]", "leads elsewhere", "→ [2, 2, 0]; now: stored [2, 0, 0] → [2, 1, 0]"],
    ),
    "a new action": (
        [(ACTION, f'    @action()\n    def forget(self, s: State) -> None:\n        s.next.stored[0] = 0\n\n{ACTION}')],
        False,
        ["action forget is new", "states are reached now, not before"],
    ),
    "an action less": (
        [(FAIL_OVER, ""), ("def fail_over", "def _fail_over")],
        False,
        ["action fail_over is gone", "reached before, not any more", "the leader dies and replica 1 takes over  "],
    ),
    "a weaker property": (
        [("s.stored[s.leader] >= s.acknowledged", "s.stored[s.leader] + 1 >= s.acknowledged")],
        True,
        [f"property {LOST} has another condition", "both revisions reach the same 198 states"],
    ),
    "a guard that another implies": (
        [(LACKS, f'{LACKS}\n        require("they differ", s.stored[to] != s.stored[s.leader])')],
        True,
        ["the expressions changed, the facts did not", "it does the same in each of the 198 states"],
    ),
    "a renamed field": ([("stored", "kept")], True, []),
    "a renamed property": ([(LOST, "none_is_lost")], True, [f"property {LOST} is none_is_lost now"]),
}  # fmt: skip
"""Edits of the protocol, whether the gate passes, and texts of the report."""


@pytest.mark.parametrize("change", CHANGES)
def test_each_kind_of_change_is_reported(project: Path, change: str) -> None:
    edits, passes, texts = CHANGES[change]
    (project / "register-hasty.toml").unlink()
    edit(project / ".highwater" / "gate.toml", '"*.toml"', '"register.toml"')
    for before, after in edits:
        edit(project / "register.py", before, after)
    done = gate("register.toml")
    assert done.status == (0 if passes else 1), done.output
    assert [text for text in texts if text not in done.out] == [], done.out
    assert ("different" in done.out) is not passes


def test_a_renamed_action_passes(project: Path) -> None:
    edit(project / "register.py", "def fail_over(", "def take_over(")
    done = gate("--strict")
    assert done.status == 0, done.output
    assert "action fail_over is take_over now" in done.out
    assert "on in no profile" not in done.out


def test_a_scenario_that_is_gone_or_does_not_trace_fails_without_recorded_fingerprints_too(
    project: Path,
) -> None:
    baseline = project / ".highwater" / "gate.toml"
    text = "".join(line for line in baseline.read_text().splitlines(True) if not line.startswith("graph"))
    baseline.write_text(text)
    (project / "register-hasty.toml").unlink()
    edit(project / "register.py", "s.next.acknowledged = last", "s.next.acknowleged = last")
    done = gate("--explain", "0", "--only-changed")
    assert done.status == 1
    assert "register-hasty.toml: failed" in done.out
    assert "has no field 'acknowleged'" in done.out
    assert "3 of .highwater/gate.toml: 1 changed, 2 failed" in done.out.splitlines()


def test_an_exhausted_budget_is_inconclusive_and_lists_entries_not_run(project: Path) -> None:
    edit(project / "register.toml", "title", "# later\ntitle")
    done = gate("--budget", "0.000001")
    assert done.status == 3
    assert "register.toml: not run" in done.out
    assert "the budget was used up" in done.out


def test_two_revisions_are_compared_without_a_baseline(project: Path) -> None:
    edit(project / "register.py", "s.stored[to] < s.stored[s.leader]", "s.stored[to] <= s.stored[s.leader]")
    git(project, "rm", "--quiet", "--cached", "-r", ".highwater")
    shutil.rmtree(project / ".highwater")
    done = gate("--against", "HEAD", "register.toml", "--baseline", "none.toml")
    assert done.status == 1, done.output
    place = f"register.py:{line_of(project / 'register.py', 'it lacks a write')}"
    assert f"action copy: another condition in guard “it lacks a write” ({place})" in done.out
    assert "can be taken where it could not" in done.out
    assert "both revisions reach the same 198 states" in done.out
    assert "1 compared with HEAD: 1 different" in done.out.splitlines()
    assert gate("--against", "HEAD~7", "register.toml", "--baseline", "none.toml").status == 2


def test_update_writes_no_baseline_if_a_scenario_fails_its_expectation(project: Path) -> None:
    baseline = project / ".highwater" / "gate.toml"
    before = baseline.read_text()
    edit(project / "register.py", 'require("every live replica has it", holds)', "pass")
    done = gate("--update")
    assert done.status == 1
    assert "was not written" in done.out
    assert baseline.read_text() == before
    said = 'protocol = "register.py"'
    expected = f'{said}\n[expect]\nviolated = ["no_acknowledged_write_is_lost"]'
    edit(project / "register.toml", said, expected)
    done = gate("--update")
    assert done.status == 0, done.output
    assert "verdict: holds → violated" in done.out
    assert baseline.read_text() != before


def test_the_verdicts_of_a_proof_are_compared(project: Path) -> None:
    """The property is not inductive: a follower that lacks an acknowledged write can become leader."""
    baseline, name = project / "proofs.toml", "no_acknowledged_write_is_lost"
    baseline.write_text(
        'format = 1\n[select.proofs."one write"]\nscenario = "register.toml"\nparameters.writes = 1\n',
        encoding="utf-8",
    )
    done = gate("--update", "--baseline", "proofs.toml")
    assert done.status == 0, done.output
    written = tomllib.loads(baseline.read_text())["proofs"]["one write"]
    assert written["properties"] == {name: "not kept by fail_over", "within_types": "kept"}
    assert gate("--baseline", "proofs.toml", "--only-changed").out.splitlines()[-1].endswith("1 unchanged")
    said = 'require("it is another replica", s.leader != to)'
    more = '        require("it has what was acknowledged", s.stored[to] >= s.acknowledged)'
    edit(project / "register.py", said, f"{said}\n{more}")
    done = gate("--baseline", "proofs.toml", "one*")
    assert done.status == 1
    assert f"property {name}: not kept by fail_over → kept" in done.out
    assert f"verdict: {written['verdict']} → holds" in done.out


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["--baseline", "nowhere.toml"], "there is no baseline"),
        (["--update", "--budget", "3"], "does not go with"),
        (["--update", "--baseline", "new.toml"], "nothing is selected"),
        (["--update", "truncation/kip-32O"], "no scenario is called truncation/kip-32O"),
        (["--baseline", "empty.toml"], "empty.toml: it has no facts"),
        (["no-such-thing"], "the baseline has no such scenario or proof"),
        (["--against", "no-such-revision"], "git knows no such revision"),
    ],
)
def test_bad_requests_are_one_line(project: Path, arguments: list[str], wrong: str) -> None:
    (project / "empty.toml").write_text('format = 1\n[select]\nscenarios = ["standard"]\n')
    done = gate(*arguments)
    assert done.status == 2
    assert wrong in done.err
    assert len(done.err.strip().splitlines()) == 1
