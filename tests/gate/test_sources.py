"""No change of the source passes in silence: what the gate says of each, by commands in a repository of git."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from highwater import checker
from highwater.checker.comparing.gate import gating
from tests.checker.schema import problems
from tests.gate.test_gate_command import edit, gate, git

TAP = '''
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
        """Some more."""
        amount = step(self.p.taps)
        require("there is room", s.level + amount <= self.p.size)
        s.next.level = s.level + amount

    @action(says="it leaks")
    def leak(self, s: State) -> None:
        """Some less."""
        require("it leaks", bool(self.p.leaks))
        if self.p.taps > 1:
            require("there is much", s.level >= 2)
        else:
            require("there is some", s.level >= 1)
        s.next.level = s.level - LIMITS["drops"]

    @action(says="it is emptied")
    def empty(self, s: State) -> None:
        """Nothing is left."""
        require("it is full", s.level >= 2)
        s.next.level = 0
'''
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
    """A protocol in two files, with scenarios of one tap: no scenario has two, and leaks are only with one."""
    tree = tmp_path_factory.mktemp("tap")
    (tree / "tap.py").write_text(TAP, encoding="utf-8")
    (tree / "sizes.py").write_text(SIZES, encoding="utf-8")
    (tree / "tap.toml").write_text(SCENARIO.format("A tap", "size = 2"), encoding="utf-8")
    (tree / "large.toml").write_text(SCENARIO.format("A large one", "size = 5"), encoding="utf-8")
    (tree / "leaks.toml").write_text(SCENARIO.format("It leaks", "leaks = 1"), encoding="utf-8")
    git(tree, "init", "--quiet")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tree)
        done = gate("--update", "tap.toml", "leaks.toml")
    assert done.exit_code == 0, done.output
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "-m", "a protocol and its baseline")
    return tree


@pytest.fixture
def project(committed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    git(tmp_path, "clone", "--quiet", str(committed), "project")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    return tmp_path / "project"


def effects(*arguments: str) -> tuple[int, dict[str, str], list[dict[str, Any]], str]:
    """Exit status, the effect of each change by its name, the changes as JSON, and the report."""
    done = gate("--json", "r.json", *arguments)
    result = json.loads(Path("r.json").read_text(encoding="utf-8"))
    schema = Path(checker.__file__).parent / "comparing/gate/gate.schema.json"
    assert problems(result, json.loads(schema.read_text(encoding="utf-8"))) == []
    return done.exit_code, {t["name"]: t["effect"] for t in result["texts"]}, result["texts"], done.stdout


def line_of(path: Path, text: str) -> int:
    return next(i for i, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if text in line)


NOBODY = "no scenario has this code"
DEAD = [
    (
        "a branch",
        "tap.py",
        "s.level >= 2)\n        else",
        "s.level >= 3)\n        else",
        "Tap.leak",
        "s.level >= 3",
    ),
    ("an operand", "sizes.py", "else once * 2", "else once * 3", "step", "once * 3"),
    (
        "a branch that comes",
        "tap.py",
        "        s.next.level = s.level + amount\n",
        "        s.next.level = s.level + amount\n        if self.p.taps > 1:\n"
        "            s.next.level = 0\n",
        "Tap.fill",
        "s.next.level = 0",
    ),
    ("a table", "sizes.py", '"cups": 4', '"cups": 5', "LIMITS", "LIMITS"),
    ("a bound", "tap.py", "Parameter(1, 1, 2,", "Parameter(1, 1, 3,", "Tap.parameters", "parameters = {"),
    (
        "a function that comes",
        "sizes.py",
        "def step",
        "def twice(taps: int) -> int:\n    return 2 * taps\n\n\ndef step",
        "twice",
        "return 2 * taps",
    ),
]


@pytest.mark.parametrize("change", DEAD, ids=[c[0] for c in DEAD])
def test_code_that_no_scenario_has_is_named_and_strict_fails(project: Path, change: tuple[str, ...]) -> None:
    _, file, before, after, name, place = change
    edit(project / file, before, after)
    status, found, texts, report = effects("--strict", "--only-changed")
    assert (status, found) == (1, {name: NOBODY}), report
    (text,) = texts
    line = line_of(project / file, place)
    assert line in (*text["lines"], text["line"])
    assert f"{name}: {text['kind']} ({file}:{line})" in report


def test_it_is_reported_and_fails_only_where_that_is_asked(project: Path) -> None:
    _, file, before, after, name, place = DEAD[0]
    edit(project / file, before, after)
    line = line_of(project / file, place)
    status, found, _, report = effects("--strict")
    assert (status, found) == (1, {name: NOBODY}), report
    assert f"{file}:{line}" in report
    assert "2 of .highwater/gate.toml: 2 same" in report
    assert f"source: 1 {NOBODY}" in report
    status, found, _, report = effects()
    assert (status, found) == (0, {name: NOBODY}), "without --strict it is told, and passes"
    done = gate("--quiet", "--against", "HEAD", "--strict")
    assert (done.exit_code, f"source: 1 {NOBODY}" in done.stdout) == (1, True), done.stdout


def test_code_that_is_gone_and_that_no_scenario_had(project: Path) -> None:
    line = line_of(project / "tap.py", "there is much")
    edit(
        project / "tap.py",
        '        if self.p.taps > 1:\n            require("there is much", s.level >= 2)\n        else:\n'
        '            require("there is some", s.level >= 1)\n',
        '        require("there is some", s.level >= 1)\n',
    )
    status, found, texts, report = effects("--strict", "--only-changed")
    assert (status, found) == (1, {"Tap.leak": NOBODY}), report
    assert (texts[0]["lines"], texts[0]["lines_before"]) == ([], [line])
    assert f"before: line {line}" in report


SAME = [
    ("a local name", [("tap.py", "amount", "more")], {"Tap.fill"}),
    ("a branch's own local name", [("sizes.py", "once", "one")], {"step"}),
    (
        "words",
        [("tap.py", "it is full", "nothing more fits"), ("tap.py", "so much fits", "its size")],
        {"Tap.empty", "Tap.parameters"},
    ),
    ("order and comments", [("sizes.py", "\ndef step", "\n# Here.\ndef step")], {"sizes.py"}),
    (
        "an operand",
        [("tap.py", "s.level + amount <= self.p.size", "amount + s.level <= self.p.size")],
        {"Tap.fill"},
    ),
    (
        "a function of its own",
        [
            ("tap.py", "        amount = step(self.p.taps)", "        amount = self.amount()"),
            (
                "tap.py",
                '    @action(says="it fills")',
                '    def amount(self):\n        return step(self.p.taps)\n\n    @action(says="it fills")',
            ),
        ],
        {"Tap.fill", "Tap.amount"},
    ),
]


@pytest.mark.parametrize("change", SAME, ids=[c[0] for c in SAME])
def test_what_is_only_written_in_another_way_is_told_and_passes(
    project: Path, change: tuple[str, list[tuple[str, str, str]], set[str]]
) -> None:
    for file, before, after in change[1]:
        edit(project / file, before, after)
    status, found, _, report = effects("--strict", "--only-changed")
    assert (status, found) == (0, dict.fromkeys(change[2], "same graph")), report
    assert f"source: {len(found)} same graph" in report


def test_a_function_that_moved_to_another_file(project: Path) -> None:
    """With its branch that no scenario takes: the code is the same."""
    function = SIZES[SIZES.index("\n\ndef step") :]
    edit(project / "sizes.py", function, "\n")
    edit(project / "tap.py", "from sizes import LIMITS, step\n", f"from sizes import LIMITS\n{function}")
    status, found, texts, report = effects("--strict", "--only-changed")
    assert (status, set(found.values())) == (0, {"same graph"}), report
    assert {t["name"]: t["kind"] for t in texts}["step"] == "moved, was in sizes.py"


GUARD = '        require("it is full", s.level >= 2)\n'


@pytest.mark.parametrize(
    ("most", "who"), [(3, "large.toml reaches"), (6, "the scenario does not reach")], ids=["known", "unknown"]
)
def test_a_difference_where_no_scenario_goes_and_who_goes_there(project: Path, most: int, who: str) -> None:
    """The state of the example is one that a larger scenario reaches, where one does."""
    edit(project / "tap.py", GUARD, f'{GUARD}        require("not so full", s.level < {most})\n')
    status, found, _, report = effects("--strict")
    assert (status, found) == (1, {"Tap.empty": "differs only where no scenario goes"}), report
    unknown = "it is not known whether a scenario of larger bounds reaches it"
    assert (unknown in report) == (most == 6)
    assert f"but not in this one, which {who}" in report
    assert f"level  {most}" in report
    assert "now refused by “not so full”" in report
    assert effects()[0] == 0


def test_a_bound_of_the_scenario_itself_is_made_larger(project: Path) -> None:
    (project / "large.toml").unlink()
    edit(project / "tap.py", GUARD, f'{GUARD}        require("not so full", s.level < 3)\n')
    assert "which tap.toml with size=3 reaches" in effects()[3]


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


def test_what_differs_is_told_with_the_entries_that_differ(project: Path) -> None:
    edit(project / "tap.py", "s.level >= 1)", "s.level >= 2)")
    status, found, _, _ = effects()
    assert (status, found) == (1, {"Tap.leak": "different"})


def test_an_update_accepts_it_and_then_nothing_is_looked_up(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_where_git_has_nothing_to_compare_with_strict_fails(project: Path) -> None:
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
