"""The ports of tlaplus/Examples specifications find what the manifests there say."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import pytest

from highwater.checker.scenarios import scenario_files
from tests.command import highwater

HERE = Path(__file__).parents[2] / "docs/examples/tla"
NAMES = sorted(path.stem for path in HERE.glob("*.toml"))

MANIFESTS = {
    "alternating_bit": (240, 10),
    "bakery": (655_200, 1),
    "chang_roberts": (137, 10),
    "coffee_can": (5_150, 1),
    "ewd840": (302, 10),
    "lamport_mutex": (724_274, 61),
    "paxos_commit": (1_321_761, 28),
    "readers_writers": (21_527, 13),
    "simple_allocator": (400, 6),
    "two_phase": (288, 11),
}
"""Distinct states and depth from the manifests, in which every property holds."""

OTHERS = {"bakery_live": (2_303, 39)}
"""TLC's counts for a model without a manifest: the same module with `SPECIFICATION Spec`."""

VIOLATED = {"bakery_live": {"somebody_enters_who_wavers", "everybody_enters_who_wavers"}}
"""Properties that TLC violates too: `Spec` is fair to each process, and wavering forever counts as steps."""

STALE = {"ewd840": (302, 9)}
"""TLC's breadth-first counts (one worker), where the manifest's counts differ."""


COUNTS = MANIFESTS | OTHERS | STALE


def checked(path: Path) -> tuple[int, str]:
    """The exit status and the output of `highwater check` for a scenario."""
    run = highwater("check", path, "--quiet", "--workers", 1)
    return run.status, run.output


@pytest.mark.parametrize("name", NAMES)
def test_it_finds_the_expected_states_and_verdicts(name: str) -> None:
    status, out = checked(HERE / f"{name}.toml")
    states, depth = COUNTS[name]
    assert status == 0, out
    verdict = r"(holds|violated \(expected\).*?)"
    assert re.search(rf"{name}\.toml +{verdict} +{states:,} +{depth} [^!]*1 scenario as expected", out), out


WRONG = {
    "alternating_bit": ('strong("receive", "hear")', 'weak("receive", "hear")', "arrives"),
    "bakery": ("| first_of(s, i, s.nxt[i]))", "| (s.num[i] <= s.num[s.nxt[i]]))", "inductive"),
    "bakery_live": (
        'weak("e1", "e3", "e4", "exit", done=True)',
        'weak("e1", "e3", "e4", done=True)',
        "everybody_enters",
    ),
    "chang_roberts": ("| (id < n)", "| (id > n)", "the_least_initiator_wins"),
    "coffee_can": (
        "s.next.black, s.next.white = s.black + 1,",
        "s.next.black, s.next.white = s.black,",
        "one_bean_is_left",
    ),
    "ewd840": ('"black" if j > i else s.color[i]', "s.color[i]", "what_is_detected_is_so"),
    "lamport_mutex": ("& (p < q)", "& (p != q)", "one_at_a_time"),
    "paxos_commit": ("// 2 + 1", "// 2", "consistent"),
    "readers_writers": (
        '            require("nobody reads", s.readers.is_empty)\n',
        "",
        "nobody_reads_what_is_written",
    ),
    "simple_allocator": ('strong("allocate", by=["c"])', 'weak("allocate", by=["c"])', "clients_obtain"),
    "two_phase": (
        '        require("all are prepared", s.prepared == s.prepared.type.all())\n',
        "",
        "consistent",
    ),
}


def got_wrong(protocol: str, right: str, wrong: str, directory: Path) -> None:
    """Copy the protocols to a directory and replace one text, which must occur exactly once."""
    text = (HERE / protocol).read_text()
    assert text.count(right) == 1
    for path in HERE.glob("*.py"):
        shutil.copy(path, directory)
    (directory / protocol).write_text(text.replace(right, wrong))


@pytest.mark.parametrize("name", NAMES)
def test_a_mistake_in_it_is_found(name: str, tmp_path: Path) -> None:
    right, wrong, violated = WRONG[name]
    got_wrong(scenario_files.outline(HERE / f"{name}.toml")["protocol"], right, wrong, tmp_path)
    shutil.copy(HERE / f"{name}.toml", tmp_path)
    status, out = checked(tmp_path / f"{name}.toml")
    assert status == 1, out
    assert re.search(rf"\b{violated} is violated, but expected to hold", out), out


NOT_IMPLEMENTED = {
    # The manager commits without asking.
    "two_phase": (
        'require("all are prepared", s.prepared == s.prepared.type.all())',
        "pass",
        "commits_as_one",
    ),
    # An old copy of a value is mistaken for the next value.
    "alternating_bit": (
        "s.next.seen, s.next.rcvd = m.bit, m.value",
        "s.next.seen, s.next.rcvd = s.bit, m.value",
        "is_a_channel",
    ),
}
"""Protocol → a change after which its refinement fails, and the refinement's name."""


@pytest.mark.parametrize("name", NOT_IMPLEMENTED)
def test_a_mistake_is_no_step_of_the_abstract_protocol(name: str, tmp_path: Path) -> None:
    right, wrong, violated = NOT_IMPLEMENTED[name]
    got_wrong(f"{name}.py", right, wrong, tmp_path)
    (tmp_path / f"{name}.toml").write_text(f'protocol = "{name}.py"\nproperties = ["{violated}"]\n')
    run = highwater("check", tmp_path / f"{name}.toml")
    assert run.status == 1, run.output
    assert f"{violated} (" in run.output
    assert "none of its steps" in run.output
    assert "does this, before → after:" in run.output


# --- lines of code ------------------------------------------------------------------------------------

ROW = re.compile(r"^\|.* \[(\w+)\]\(\w+\.py\) \|.*\| (\d+) \| (\d+) \|$", re.M)


def lines_of(path: Path) -> int:
    """The number of lines that are neither blank, nor comments, nor docstrings."""
    text = path.read_text()
    told: set[int] = set()
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
                told.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(1 for i, line in lines if line.strip() and not line.strip().startswith("#") and i not in told)


def test_the_table_has_the_counted_lines() -> None:
    table = {
        n: (int(theirs), int(ours))
        for n, theirs, ours in ROW.findall((HERE / "README.md").read_text("utf-8"))
    }
    assert sorted(table) == sorted(path.stem for path in HERE.glob("*.py"))
    for name, (theirs, ours) in table.items():
        assert ours == sum(map(lines_of, [HERE / f"{name}.py", *HERE.glob(f"{name}*.toml")])), name
        assert ours <= theirs, name


def test_two_ways_to_say_the_same_are_explored_alike_under_symmetry(tmp_path: Path) -> None:
    for name in ("two_phase", "simple_allocator"):
        for file in HERE.glob("*.py"):
            shutil.copy(file, tmp_path)
        path = tmp_path / f"{name}.toml"
        path.write_text(f'protocol = "{name}.py"\nsymmetry = true\n')
        status, out = checked(path)
        assert status == 0, out
        (states,) = re.findall(rf"{name}\.toml +holds +([\d,]+) ", out)
        assert int(states.replace(",", "")) < MANIFESTS[name][0] / 2
