"""``highwater mutate``: what it prints, writes, keeps and continues from."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from highwater import checker
from highwater.checker.commands.mutate import status_of
from highwater.checker.comparing.mutation import examining
from highwater.checker.comparing.mutation.examining import EQUIVALENT, KILLED, NOTICED, SURVIVED
from highwater.checker.comparing.mutation.report import as_json, lines, source_of
from highwater.checker.comparing.mutation.run import Findings, MutationRun
from highwater.checker.scenarios import scenario_files
from tests.checker.schema import problems
from tests.models import scenario_model
from tests.mutation import library
from tests.mutation.small import LAMP, run

SCHEMA = json.loads(
    (Path(checker.__file__).parent / "comparing/mutation/mutation.schema.json").read_text(encoding="utf-8")
)


def compared(path: Path, **options: Any) -> Findings:
    """A run within this process."""
    return MutationRun([scenario_files.find(str(path))], processes=0, **options).run()


def verdicts(found: Findings) -> dict[tuple[str, str, str], str]:
    """The verdict on each mutant, by its text and change."""
    return {(r.mutant.kind, source_of(r.mutant), r.mutant.change): r.verdict for r in found.records.values()}


def test_the_command(register: Path, tmp_path: Path) -> None:
    """Its table, its JSON by the schema, its status."""
    out, keep = tmp_path / "out.json", tmp_path / "keep.json"
    result = run(register, "--json", out, "--keep", keep)
    assert result.exit_code == 0
    content = json.loads(out.read_text(encoding="utf-8"))
    assert problems(content, SCHEMA) == []
    counts = Counter(m["verdict"] for m in content["mutants"])
    assert content["counts"] == {v: counts[v] for v in (KILLED, NOTICED, EQUIVALENT, SURVIVED)}
    assert f"{len(content['mutants'])} mutants of 1 scenario:" in result.output
    listed = [line for line in result.output.splitlines() if line.startswith("       ")]
    assert len(listed) == counts[NOTICED]
    assert all(f"] {NOTICED}: " in line for line in listed)
    name = "every live replica has it"
    killed = next(m for m in content["mutants"] if (m["name"], m["change"]) == (name, "dropped"))
    assert killed["verdict"] == KILLED
    assert killed["results"][0]["property"] == "no_acknowledged_write_is_lost"
    assert killed["results"][0]["depth"] == 4
    again = run(register, "--keep", keep, "--quiet")
    assert again.exit_code == 0
    assert again.output.count("\n") == 1


def test_all_mutants_are_listed_with_verbose(register: Path) -> None:
    result = run(register, "--verbose")
    content = as_json(compared(register))
    assert result.output.count(f"] {KILLED}: no_acknowledged_write_is_lost is violated at depth ") > 5
    assert (
        result.output.count(f"] {EQUIVALENT}: the same steps in all states of 1 ")
        == content["counts"][EQUIVALENT]
    )


def test_what_is_noticed(register: Path) -> None:
    """A guard that matters is killed by a property; other changes are noticed by counts."""
    found = verdicts(compared(register))
    assert found["guard", 'require("every live replica has it", holds)', "dropped"] == KILLED
    assert found["write", "s.next.acknowledged", "dropped"] == NOTICED
    assert found["operation", "s.stored[to] < s.stored[s.leader]", "<: <="] == NOTICED


def test_step_properties_alone(tmp_path: Path) -> None:
    """A scenario without invariants: its step property kills."""
    shutil.copy(library.__file__, tmp_path)
    file = tmp_path / "steps.toml"
    text = 'protocol = "library.py"\nproperties = ["it_closes_after_a_yes"]\n[parameters]\nmost = 1\n'
    file.write_text(text, encoding="utf-8")
    records = compared(file).records.values()
    killers = {r.deciding[0][1].property for r in records if r.verdict == KILLED}
    assert "it_closes_after_a_yes" in killers


def test_kept_results_are_not_searched_again(
    register: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run finds the same, and compares nothing."""
    keep = tmp_path / "keep.json"
    first = verdicts(compared(register, keep=keep))
    monkeypatch.setattr(examining.Examination, "safety", lambda *_: pytest.fail("compared again"))
    assert verdicts(compared(register, keep=keep)) == first


def test_another_limit_searches_again(register: Path, tmp_path: Path) -> None:
    keep = tmp_path / "keep.json"
    first = compared(register, keep=keep, limit_states=3)
    assert SURVIVED in verdicts(first).values()
    assert SURVIVED not in verdicts(compared(register, keep=keep)).values()


def test_a_changed_protocol_is_searched_again(
    register: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept results of another text are not used; those of the new text take their place."""
    keep = tmp_path / "keep.json"
    compared(register, keep=keep)
    source = register.with_suffix(".py")
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("s.acknowledged < last", "s.acknowledged <= last"), encoding="utf-8")
    changed = verdicts(compared(register, keep=keep))
    assert ("operation", "s.acknowledged <= last", "<=: <") in changed
    monkeypatch.setattr(examining.Examination, "safety", lambda *_: pytest.fail("compared again"))
    assert verdicts(compared(register, keep=keep)) == changed


def test_an_interrupted_run_is_continued(
    register: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results from before the interruption are reported and kept."""
    keep, all_of_them = tmp_path / "keep.json", verdicts(compared(register))
    searched, count = examining.Examination._searched, iter(range(10**6))

    def interrupted(*arguments: Any) -> Any:
        if next(count) == 5:
            raise KeyboardInterrupt
        return searched(*arguments)

    monkeypatch.setattr(examining.Examination, "_searched", interrupted)
    found = compared(register, keep=keep)
    assert found.interrupted
    assert status_of(found) == 130
    assert any("interrupted" in line for line in lines(found, full=False, width=80))
    assert any("survived: not compared" in line for line in lines(found, full=False, width=None))
    monkeypatch.setattr(examining.Examination, "_searched", searched)
    assert verdicts(compared(register, keep=keep)) == all_of_them


@pytest.mark.parametrize("width", [80, 100])
def test_lines_fit(register: Path, width: int) -> None:
    found = compared(register)
    assert all(len(line) <= width for line in lines(found, full=True, width=width))


def test_only(register: Path) -> None:
    """One action, one line; the line's mutants are among the action's."""
    by_action = compared(register, only=("acknowledge",))
    assert {a for r in by_action.records.values() for a in r.actions} == {"acknowledge"}
    line = next(r.mutant.place for r in by_action.records.values() if r.mutant.kind == "guard")
    by_line = compared(register, only=(line,))
    assert {r.mutant.place for r in by_line.records.values()} == {line}
    assert set(by_line.records) < set(by_action.records)


def test_a_scenario_beyond_the_limit(register: Path) -> None:
    """The nearest states kill some mutants; nothing is equivalent; the report says so, and the status is 1."""
    whole, found = verdicts(compared(register)), compared(register, limit_states=8)
    assert found.scenarios == {str(register): None}
    assert "only the nearest 9 states" in found.notes[0]
    some = verdicts(found)
    assert {m for m, v in some.items() if v == KILLED} <= {m for m, v in whole.items() if v == KILLED}
    assert set(some.values()) == {KILLED, NOTICED, SURVIVED}
    assert status_of(found) == 1
    assert any(
        "the limit of states ended the comparison" in line for line in lines(found, full=False, width=None)
    )


def test_a_scenario_that_is_left_out(register: Path) -> None:
    """The protocol itself violates another property than the scenario expects."""
    text = register.read_text(encoding="utf-8")
    register.write_text(f"{text}[expect]\nviolated = ['no_acknowledged_write_is_lost']\n", encoding="utf-8")
    found = compared(register)
    assert "left out: the protocol itself violates other properties" in found.notes[0]
    assert found.left_out
    found.records.clear()
    assert status_of(found) == 3


def test_liveness_that_the_protocol_violates_leaves_a_scenario_out(tmp_path: Path) -> None:
    (tmp_path / "lamp.py").write_text(LAMP.replace(', fair=weak("switch")', ""), encoding="utf-8")
    scenario = tmp_path / "lamp.toml"
    scenario.write_text('protocol = "lamp.py"\n', encoding="utf-8")
    found = compared(scenario)
    assert "left out: liveness properties are violated" in found.notes[0]
    assert found.left_out


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": "highwater mutants 1", "scenarios": {}}', "\x00", "[" * 100_000,
     '{"format": "highwater mutants 2", "scenarios": {}}',
     '{"format": "highwater mutants 2", "sha256": "00", "scenarios": {}}',
     *('{"format": "highwater mutants 2", "sha256": "00", "scenarios": {"a": {"b": ' + wrong + "}}}"
       for wrong in (
           "{}", '{"digest": "x", "results": {"y": {}}}', '{"digest": "x", "results": {"1": {"kind": "dead"}}}',
           '{"digest": "x", "results": {"1": {"kind": "equivalent\\n"}}}',
           '{"digest": "x", "results": {"1": {"kind": "equivalent", "how": "by magic"}}}',
           '{"digest": "x", "results": {"1": {"kind": "survived", "depth": -1}}}'))],
)  # fmt: skip
def test_a_file_of_something_else_is_refused(register: Path, tmp_path: Path, text: str) -> None:
    """One line, status 2, and the file is unchanged."""
    keep = tmp_path / "keep.json"
    keep.write_text(text, encoding="utf-8")
    result = run(register, "--keep", keep)
    assert result.exit_code == 2
    assert result.output.startswith(f"highwater: {keep}: not what highwater mutate keeps")
    assert result.output.count("\n") == 1
    assert keep.read_text(encoding="utf-8") == text


def test_liveness_kills(tmp_path: Path) -> None:
    """A step that does nothing, or is never taken, violates liveness; without liveness only the counts differ."""
    (tmp_path / "lamp.py").write_text(LAMP, encoding="utf-8")
    scenario = tmp_path / "lamp.toml"
    scenario.write_text('protocol = "lamp.py"\nproperties = ["it_gets_light"]\n', encoding="utf-8")
    found = compared(scenario)
    assert {mutant for mutant, verdict in verdicts(found).items() if verdict == KILLED} == {
        ("guard", 'require("it is off", ~s.on)', "negated"),
        ("operation", "~s.on", "~: dropped"),
        ("write", "s.next.on", "dropped"),
    }
    assert as_json(found)["counts"][SURVIVED] == 1
    assert problems(as_json(found), SCHEMA) == []
    assert KILLED not in verdicts(compared(scenario, liveness=False)).values()


def test_liveness_is_checked_beyond_an_expected_violation(tmp_path: Path) -> None:
    """The search for the invariant ends at once; liveness is checked in all states."""
    text = LAMP.replace('weak("switch")', 'weak("switch", "look")')
    text = text.replace("return s.on\n", "return s.seen\n", 1).replace(
        "return ~s.seen | s.on", "return s.seen"
    )
    (tmp_path / "lamp.py").write_text(text, encoding="utf-8")
    scenario = tmp_path / "lamp.toml"
    expected = '[expect]\nviolated = ["it_is_seen_by_its_light"]\n'
    checks = 'properties = ["invariants", "it_gets_light"]\n'
    scenario.write_text(f'protocol = "lamp.py"\n{checks}{expected}', encoding="utf-8")
    found = verdicts(compared(scenario))
    assert found["write", "s.next.seen", "dropped"] == KILLED
    assert found["write", "s.next.on", "dropped"] == KILLED


DIGEST = """
from highwater.checker.scenarios import scenario_files as scenarios
from highwater.checker.comparing.mutation.examining import Examination
from highwater.checker.scenarios.request import Overrides, Request

print(Examination(Request.of(scenarios.find("zookeeper/liveness-shutdowns"), Overrides())).digest)
"""


def test_the_digest_does_not_depend_on_what_was_traced_before(capsys: pytest.CaptureFixture[str]) -> None:
    """A process traces many scenarios, another one begins with this: both know what is kept of it."""
    scenario_model("replication/controller/small")
    exec(DIGEST, {})
    fresh = subprocess.run([sys.executable, "-c", DIGEST], check=True, capture_output=True, text=True)
    assert fresh.stdout == capsys.readouterr().out
