"""The gate reports the effect of every source change, even if no model differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from highwater.checker.comparing.gate import gating
from highwater.checker.comparing.gate.sources import files_of
from highwater.checker.scenarios import scenario_files
from tests.gate.conftest import commit_project, edit, gate, gate_json, git, line_of

TAP = """
from __future__ import annotations

from highwater.language import Int, Parameter, Protocol, State, Struct, action, require

from sizes import LIMITS, step

class Tap(Protocol):
    name = "tap"
    parameters = {
        "size": Parameter(2, 1, 6, "so much fits"),
        "taps": Parameter(1, 1, 2, "how many there are"),
        "leaks": Parameter(0, 0, 1, "whether it leaks"),
    }

    def define(self):
        return Struct("Tap", level=Int(0, 6))

    def initial(self):
        return [{"level": 0}]

    @action(says="it fills")
    def fill(self, s: State) -> None:
        amount = step(self.p.taps)
        require("there is room", s.level + amount <= self.p.size)
        s.next.level = s.level + amount

    @action(says="it leaks")
    def leak(self, s: State) -> None:
        require("it leaks", bool(self.p.leaks))
        if self.p.taps > 1:
            require("there is much", s.level >= 2)
        else:
            require("there is some", s.level >= 1)
        s.next.level = s.level - LIMITS["drops"]

    @action(says="it is emptied")
    def empty(self, s: State) -> None:
        require("it is full", s.level >= 2)
        s.next.level = 0
"""
SIZES = '''
"""How much comes."""

LIMITS = {"drops": 1, "cups": 4}

def step(taps: int) -> int:
    """So much in a step."""
    once = 1
    return once if taps == 1 else once * 2
'''
SCENARIO = 'title = "{}"\nprotocol = "tap.py"\n[parameters]\n{}\n'


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A protocol in two files. No scenario has two taps; one scenario leaks."""
    files = {
        "tap.py": TAP,
        "sizes.py": SIZES,
        "tap.toml": SCENARIO.format("A tap", "size = 2"),
        "leaks.toml": SCENARIO.format("It leaks", "leaks = 1"),
    }
    return commit_project(tmp_path_factory.mktemp("tap"), files, "tap.toml", "leaks.toml")


def effects(*arguments: str) -> tuple[int, dict[str, str], list[dict[str, Any]], str]:
    """Exit status, change → effect, the changes as JSON, and the report."""
    done, result = gate_json(*arguments)
    return done.exit_code, {t["name"]: t["effect"] for t in result["texts"]}, result["texts"], done.stdout


UNUSED = "no scenario has this code"


def test_code_that_no_scenario_has_is_named_and_fails_a_strict_gate(project: Path) -> None:
    changes = [  # file, text before, text after, definition, text of the reported line
        ("tap.py", "s.level >= 2)\n        else", "s.level >= 3)\n        else", "Tap.leak", "s.level >= 3"),
        ("sizes.py", "else once * 2", "else once * 3", "step", "once * 3"),
        (
            "tap.py",
            "        s.next.level = s.level + amount\n",
            "        s.next.level = s.level + amount\n        if self.p.taps > 1:\n            s.next.level = 1\n",
            "Tap.fill",
            "s.next.level = 1",
        ),
        ("sizes.py", '"cups": 4', '"cups": 5', "LIMITS", "LIMITS"),
        ("tap.py", "Parameter(1, 1, 2,", "Parameter(1, 1, 3,", "Tap.parameters", "parameters = {"),
        (
            "sizes.py",
            "def step",
            "def twice(taps: int) -> int:\n    return 2 * taps\n\n\ndef step",
            "twice",
            "return 2 * taps",
        ),
    ]
    for file, before, after, *_ in changes:
        edit(project / file, before, after)
    status, found, texts, report = effects("--strict")
    assert (status, found) == (1, {name: UNUSED for *_, name, _ in changes}), report
    for text in texts:
        (place,) = (place for *_, name, place in changes if name == text["name"])
        line = line_of(project / text["file"], place)
        assert line in (*text["lines"], text["line"])
        assert f"{text['name']}: {text['kind']} ({text['file']}:{line})" in report
    assert "2 of .highwater/gate.toml: 2 same" in report
    assert f"source: {len(changes)} {UNUSED}" in report
    done = gate("--quiet", "--against", "HEAD", "--strict")
    assert (done.exit_code, f"source: {len(changes)} {UNUSED}" in done.stdout) == (1, True), done.stdout


def test_removed_code_that_no_scenario_had_is_named(project: Path) -> None:
    line = line_of(project / "tap.py", "there is much")
    edit(
        project / "tap.py",
        '        if self.p.taps > 1:\n            require("there is much", s.level >= 2)\n        else:\n'
        '            require("there is some", s.level >= 1)\n',
        '        require("there is some", s.level >= 1)\n',
    )
    status, found, texts, report = effects("--strict", "--only-changed")
    assert (status, found) == (1, {"Tap.leak": UNUSED}), report
    assert (texts[0]["lines"], texts[0]["lines_before"]) == ([], [line])
    assert f"before: line {line}" in report


FILLS = '    @action(says="it fills")'
SAME = {
    "words, local names and order": (
        [
            ("tap.py", "amount", "more"),
            ("tap.py", "it is full", "nothing more fits"),
            ("tap.py", "so much fits", "its size"),
            ("sizes.py", "\ndef step", "\n# Here.\ndef step"),
        ],
        {"Tap.fill", "Tap.empty", "Tap.parameters", "sizes.py"},
    ),
    "operands and functions": (
        [
            ("tap.py", "s.level + amount <= self.p.size", "amount + s.level <= self.p.size"),
            ("tap.py", "        amount = step(self.p.taps)", "        amount = self.amount()"),
            ("tap.py", FILLS, f"    def amount(self):\n        return step(self.p.taps)\n\n{FILLS}"),
            ("sizes.py", "once", "one"),
        ],
        {"Tap.fill", "Tap.amount", "step"},
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_code_that_is_only_rewritten_is_reported_and_passes(project: Path, case: str) -> None:
    edits, names = SAME[case]
    for file, before, after in edits:
        edit(project / file, before, after)
    status, found, _, report = effects("--strict", "--only-changed")
    assert (status, found) == (0, dict.fromkeys(names, "same graph")), report
    assert f"source: {len(found)} same graph" in report


def test_a_function_that_moved_to_another_file(project: Path) -> None:
    """The moved branch, which no scenario takes, is the same code."""
    function = SIZES[SIZES.index("\n\ndef step") :]
    edit(project / "sizes.py", function, "\n")
    edit(project / "tap.py", "from sizes import LIMITS, step\n", f"from sizes import LIMITS\n{function}")
    status, found, texts, report = effects("--strict", "--only-changed")
    assert (status, set(found.values())) == (0, {"same graph"}), report
    assert {t["name"]: t["kind"] for t in texts}["step"] == "moved, was in sizes.py"


GUARD = '        require("it is full", s.level >= 2)\n'


def test_a_difference_in_unreached_states_fails_a_strict_gate_with_such_a_state(project: Path) -> None:
    edit(project / "tap.py", GUARD, f'{GUARD}        require("not so full", s.level < 3)\n')
    status, found, _, report = effects("--strict")
    assert (status, found) == (1, {"Tap.empty": "differs only where no scenario goes"}), report
    assert "but not in this state, which the scenario does not reach" in report
    assert "level  3" in report
    assert "now refused by “not so full”" in report
    assert effects()[0] == 0, "passes without --strict"


def test_other_expressions_that_mean_the_same_pass(project: Path) -> None:
    edit(project / "tap.py", GUARD, f'{GUARD}        require("there is some", s.level + 5 > 6)\n')
    status, found, _, report = effects("--strict")
    assert (status, found) == (0, {"Tap.empty": "other expressions, which do the same in every state"}), (
        report
    )
    status, found, _, report = effects("--strict", "--explain", "1")
    assert (status, set(found.values())) == (1, {"differs only where no scenario goes"})
    assert (
        "source: 1 differs only where no scenario goes; 1 of the scenarios with other expressions do"
        in report
    )


def test_a_change_with_other_counts_has_the_effect_different(project: Path) -> None:
    edit(project / "tap.py", "s.level >= 1)", "s.level >= 2)")
    status, found, _, _ = effects()
    assert (status, found) == (1, {"Tap.leak": "different"})


def test_an_update_accepts_a_change_of_the_source(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    baseline = project / ".highwater" / "gate.toml"
    before = baseline.read_text(encoding="utf-8")
    edit(project / "sizes.py", '"cups": 4', '"cups": 5')
    assert gate("--update", "--quiet").exit_code == 0
    changed = [
        line for line in baseline.read_text(encoding="utf-8").splitlines() if line not in before.splitlines()
    ]
    assert [line.split(" = ")[0] for line in changed] == ["source"]
    monkeypatch.setattr(gating, "last_change", lambda path: pytest.fail("the source is that of the baseline"))
    assert gate("--strict").exit_code == 0


def test_a_strict_gate_fails_if_git_has_no_revision_to_compare_with(project: Path) -> None:
    edit(project / "sizes.py", '"cups": 4', '"cups": 5')
    git(project, "commit", "--quiet", "-am", "another table")
    edit(project / ".highwater" / "gate.toml", "\n[select]", "\n# by hand\n[select]")
    git(project, "commit", "--quiet", "-am", "the baseline by hand")
    done = gate("--strict")
    assert done.exit_code == 1
    assert "has another source than the baseline was written with" in done.stdout
    git(project, "rm", "--quiet", "--cached", "-r", ".highwater")
    git(project, "commit", "--quiet", "-m", "no baseline")
    assert gate().exit_code == 0
    done = gate("--strict", "--baseline", ".highwater/gate.toml")
    assert done.exit_code == 1


def test_the_files_of_a_protocol_include_what_they_import() -> None:
    found = files_of(scenario_files.find("truncation/kip-101").definition, Path(__file__).parents[2])
    assert {"model/truncation/protocol.py", "model/replication/high_watermark.py"} <= found
    assert not any(name.startswith("model/language/") for name in found)
