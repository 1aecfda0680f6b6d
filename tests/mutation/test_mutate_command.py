"""``highwater mutate``: what it tells, keeps and goes on from."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import highwater
from highwater import checker
from highwater.checker.asking import scenarios
from highwater.checker.commands.mutate import status_of
from highwater.checker.comparing.mutation import examining, listed, searches, work
from highwater.checker.comparing.mutation.report import as_json, lines, source_of
from highwater.checker.comparing.mutation.run import Findings, MutationRun
from tests.checker.schema import problems
from tests.models import scenario_model
from tests.mutation import library
from tests.mutation.small import LAMP, LAMP_WITH_INVARIANT, run

SCHEMA = json.loads(
    (Path(checker.__file__).parent / "comparing/mutation/mutation.schema.json").read_text(encoding="utf-8")
)


def asked(path: Path, **options: Any) -> Findings:
    """A run within this process."""
    return MutationRun([scenarios.find(str(path))], processes=0, **options).run()


def verdicts(found: Findings) -> dict[tuple[str, str, str], str]:
    """What came of each mutant, by its text and change."""
    return {(r.mutant.kind, source_of(r.mutant), r.mutant.change): r.verdict for r in found.records.values()}


def test_the_command(register: Path, tmp_path: Path) -> None:
    """Its table, its JSON by the schema, its page, its status."""
    out, page, keep = tmp_path / "out.json", tmp_path / "page.html", tmp_path / "keep.json"
    result = run(register, "--json", out, "--html", page, "--keep", keep)
    assert result.exit_code == 1
    content = json.loads(out.read_text(encoding="utf-8"))
    assert problems(content, SCHEMA) == []
    assert sum(content["counts"].values()) == len(content["mutants"]) > 30
    assert f"{len(content['mutants'])} mutants of 1 scenarios" in result.output
    assert "every live replica has it" in page.read_text(encoding="utf-8")
    name = "every live replica has it"
    killed = next(m for m in content["mutants"] if (m["name"], m["change"]) == (name, "dropped"))
    assert killed["verdict"] == "killed"
    assert killed["results"][0]["property"] == "no_acknowledged_write_is_lost"
    assert killed["results"][0]["depth"] == 4
    assert run(register, "--keep", keep, "--quiet").exit_code == 1


def test_what_is_noticed(register: Path) -> None:
    """Guards that matter are; one that only spares a step that changes nothing is redundant."""
    found = verdicts(asked(register))
    assert found["guard", 'require("every live replica has it", holds)', "dropped"] == "killed"
    assert found["write", "s.next.acknowledged", "dropped"] == "within"
    assert found["operation", "s.stored[to] < s.stored[s.leader]", "<: <="] == "redundant"
    assert set(found.values()) <= {"killed", "equal", "redundant", "within", "survived"}


def test_properties_of_steps_alone_are_asked(tmp_path: Path) -> None:
    """A scenario without invariants: its mutants are killed all the same."""
    shutil.copy(library.__file__, tmp_path)
    file = tmp_path / "steps.toml"
    text = 'protocol = "library.py"\nproperties = ["it_closes_after_a_yes"]\n[parameters]\nmost = 1\n'
    file.write_text(text, encoding="utf-8")
    killed = [r.killed[1] for r in asked(file).records.values() if r.killed is not None]
    assert "it_closes_after_a_yes" in {result.property for result in killed}


def test_what_is_kept_is_not_asked_again(
    register: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run finds the same, and searches nothing."""
    keep = tmp_path / "keep.json"
    first = verdicts(asked(register, keep=keep))
    monkeypatch.setattr(examining.Examination, "invariants", lambda *_: pytest.fail("asked again"))
    assert verdicts(asked(register, keep=keep)) == first


def test_a_changed_protocol_is_asked_again(register: Path, tmp_path: Path) -> None:
    """What was kept of another text says nothing."""
    keep = tmp_path / "keep.json"
    asked(register, keep=keep)
    source = register.with_suffix(".py")
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("s.acknowledged < last", "s.acknowledged <= last"), encoding="utf-8")
    assert ("operation", "s.acknowledged <= last", "<=: <") in verdicts(asked(register, keep=keep))


def test_an_interrupted_run_is_gone_on_with(
    register: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found before the interruption is told and kept."""
    keep, all_of_them = tmp_path / "keep.json", verdicts(asked(register))
    ask, count = examining.Examination._searched, iter(range(10**6))

    def interrupted(*arguments: Any) -> Any:
        if next(count) == 5:
            raise KeyboardInterrupt
        return ask(*arguments)

    monkeypatch.setattr(examining.Examination, "_searched", interrupted)
    found = asked(register, keep=keep)
    assert found.interrupted
    assert any("interrupted" in line for line in lines(found, full=False, width=80))
    monkeypatch.setattr(examining.Examination, "_searched", ask)
    assert verdicts(asked(register, keep=keep)) == all_of_them


@pytest.mark.parametrize("width", [80, 100])
def test_lines_fit(register: Path, width: int) -> None:
    """Whatever is told of every mutant."""
    found = asked(register)
    assert all(len(line) <= width for line in lines(found, full=True, width=width))


def test_only(register: Path) -> None:
    """One action, one line; and both together are those of either."""
    by_action = asked(register, only=("acknowledge",))
    assert {a for r in by_action.records.values() for a in r.actions} == {"acknowledge"}
    line = next(r.mutant.place for r in by_action.records.values() if r.mutant.kind == "guard")
    by_line = asked(register, only=(line,))
    assert {r.mutant.place for r in by_line.records.values()} == {line}
    assert set(by_line.records) < set(by_action.records)


def test_a_scenario_that_is_too_large_is_said(register: Path) -> None:
    """And nothing is decided then."""
    found = asked(register, limit_states=3)
    assert found.scenarios == []
    assert "more than 3 states" in found.notes[0]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": "highwater mutants 1", "scenarios": {"a": {"b": {}}}}', "\x00", "[" * 100_000,
     '{"format": "highwater mutants 1", "scenarios": {"a": {"b": {"digest": "x", "results": {"1": {"kind": 7}}}}}}',
     '{"format": "highwater mutants 1", "scenarios": {"a": {"b": {"digest": "x", "results": {"y": {}}}}}}',
     *('{"format": "highwater mutants 1", "scenarios": {"a": {"b": {"digest": "x", "results": {"1": ' + wrong + "}}}}}"
       for wrong in (
           '{"kind": "dead"}', '{"kind": "equal\\n"}', '{"kind": "killed", "how": "by magic"}',
           '{"kind": "killed", "depth": -1}', '{"kind": "equal", "more": 1}', '{"kind": "killed", "property": 7}'))],
)  # fmt: skip
def test_a_file_of_something_else_is_refused(register: Path, tmp_path: Path, text: str) -> None:
    """One line, status 2, and the file stays."""
    keep = tmp_path / "keep.json"
    keep.write_text(text, encoding="utf-8")
    result = run(register, "--keep", keep)
    assert result.exit_code == 2
    assert result.output.startswith(f"highwater: {keep}: not what highwater mutate keeps")
    assert result.output.count("\n") == 1
    assert keep.read_text(encoding="utf-8") == text


def test_undecided_mutants_are_asked_once_more(register: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that needed more room, and no others; then the verdicts are those of enough room at once."""
    enough, calls = verdicts(asked(register)), []
    ask = examining.Examination.invariants

    def noted(self: examining.Examination, numbers: Any, say: Any, *rest: Any) -> Any:
        found: dict[int, str] = {}
        calls.append((set(numbers), found))

        def told(number: int, result: examining.MutantResult) -> None:
            found[number] = result.kind
            say(number, result)

        return ask(self, numbers, told, *rest)

    monkeypatch.setattr(examining.Examination, "invariants", noted)
    monkeypatch.setattr(work, "FIRST", (0.0, 0))
    assert verdicts(asked(register)) == enough
    (_, first), (again, _) = calls
    assert again == {number for number, kind in first.items() if kind == "unfinished"} != set()


def test_what_is_too_much_is_asked_from_the_start(register: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without room beyond the protocol a search from the start still finds what is near it."""
    enough = {mutant for mutant, verdict in verdicts(asked(register)).items() if verdict == "killed"}
    monkeypatch.setattr(work, "FIRST", (0.5, 0))
    monkeypatch.setattr(work, "AGAIN", (0.5, 0))
    run, beyond = searches.BeyondRun.beyond, []

    def cut_short(self: searches.BeyondRun) -> tuple[bool, int]:
        bad, new = run(self)
        self.stop = "states"
        beyond.append(bad)
        return False, new

    monkeypatch.setattr(searches.BeyondRun, "beyond", cut_short)
    found = verdicts(asked(register))
    assert any(beyond)
    assert {mutant for mutant, verdict in found.items() if verdict == "killed"} == enough


def test_liveness_notices(tmp_path: Path) -> None:
    """A step that does nothing, or is never taken, violates what must happen; without liveness nothing is asked."""
    (tmp_path / "lamp.py").write_text(LAMP, encoding="utf-8")
    scenario = tmp_path / "lamp.toml"
    scenario.write_text('protocol = "lamp.py"\nproperties = ["it_gets_light"]\n', encoding="utf-8")
    found = verdicts(asked(scenario))
    assert found["write", "s.next.on", "dropped"] == "killed"
    assert found["guard", 'require("it is off", ~s.on)', "negated"] == "killed"
    assert found["guard", 'require("it is off", ~s.on)', "dropped"] == "survived"
    assert found["write", "s.next.seen", "dropped"] == "survived"
    assert found["operation", "~s.on", "~: dropped"] == "killed"
    assert verdicts(asked(scenario, liveness=False)) == {}


def test_liveness_is_asked_beyond_what_is_promised_to_be_violated(tmp_path: Path) -> None:
    """A search ends where all promised violations are found, here at once; what must happen comes later."""
    text = LAMP_WITH_INVARIANT.replace('weak("switch")', 'weak("switch", "look")')
    text = text.replace("return s.on\n", "return s.seen\n", 1).replace(
        "return ~s.seen | s.on", "return s.seen"
    )
    (tmp_path / "lamp.py").write_text(text, encoding="utf-8")
    scenario = tmp_path / "lamp.toml"
    promise = '[expect]\nviolated = ["it_is_seen_by_its_light"]\n'
    asks = 'properties = ["invariants", "it_gets_light"]\n'
    scenario.write_text(f'protocol = "lamp.py"\n{asks}{promise}', encoding="utf-8")
    found = verdicts(asked(scenario))
    assert found["write", "s.next.seen", "dropped"] == "killed"
    assert found["write", "s.next.on", "dropped"] == "killed"


def test_what_violates_no_more_what_is_promised_has_room_for_all_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The protocol's search ends at once; without the violation it goes on, through all the states that there are."""
    monkeypatch.setattr(work, "FIRST", (0, 0))
    monkeypatch.setattr(work, "AGAIN", (0, 0))
    text = LAMP_WITH_INVARIANT.replace("seen=Bool", "seen=Int(0, 9)").replace(
        "import Bool", "import Bool, Int"
    )
    text = text.replace("return ~s.seen | s.on", "return ~s.on").replace(
        '        require("it is on", s.on)\n', ""
    )
    text = text.replace("s.next.seen = True", "s.next.seen = (s.seen + 1) % 9")
    (tmp_path / "lamp.py").write_text(text, encoding="utf-8")
    scenario = tmp_path / "lamp.toml"
    promise = '[expect]\nviolated = ["it_is_seen_by_its_light"]\n'
    scenario.write_text(f'protocol = "lamp.py"\nproperties = ["invariants"]\n{promise}', encoding="utf-8")
    assert verdicts(asked(scenario))["write", "s.next.on", "dropped"] == "killed"


def test_holes_that_are_listed(register: Path, tmp_path: Path) -> None:
    """They are no holes; an entry that names none is said."""
    found, path = asked(register), tmp_path / "listed.toml"
    holes = [r.mutant for r in found.records.values() if r.is_hole]
    entries = [
        f"[[listed]]\nwithin = {json.dumps(m.within)}\ntext = {json.dumps(source_of(m))}\n"
        f"change = {json.dumps(m.change)}\nreason = 'as it is'\n"
        for m in holes
    ]
    path.write_text(
        "".join([*entries, "[[listed]]\nwithin = 'nowhere'\nreason = 'none'\n"]), encoding="utf-8"
    )
    assert status_of(found) == 1
    assert listed.apply(listed.read(path), found.records.values()) == ["listed, and no hole: nowhere"]
    assert status_of(found) == 0
    content = as_json(found)
    assert problems(content, SCHEMA) == []
    assert content["counts"]["listed"] == len(holes) > 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "it holds tables [[listed]] and nothing else"),
        ("[[listed]]\nwithin = 'f'", "entry 1: the key 'reason' is missing"),
        ("[[listed]]\nwithin = 'f'\nreson = 'x'", "entry 1: unknown key 'reson'; did you mean 'reason'?"),
        ("[[listed]]\nwithin = 3", "entry 1: within is a text, not 3"),
        ("[[listed", "not TOML"),
    ],
)
def test_a_list_of_another_form(register: Path, tmp_path: Path, text: str, said: str) -> None:
    """One line, status 2, before anything is searched."""
    path = tmp_path / "listed.toml"
    path.write_text(text, encoding="utf-8")
    result = run(register, "--listed", path)
    assert result.exit_code == 2
    assert result.output.startswith(f"highwater: {path}:")
    assert said in result.output


def test_the_nearest_states_of_a_larger_scenario(register: Path) -> None:
    """What they show is killed, the rest is not decided; and more states show no less."""
    whole = verdicts(asked(register))
    some, fewer = (asked(register, limit_states=3, nearest=n) for n in (1_000, 4))
    assert "only the nearest 1,000 were asked: it has more than 3 states" in some.notes[0]
    everywhere = asked(register).records.values()
    never = {r.mutant for r in everywhere if r.killed is not None and r.killed[1].how == examining.NEVER}
    assert never  # that an action is never taken nobody can say of the nearest states
    killed = {m for m, verdict in whole.items() if verdict == "killed"}
    killed -= {(m.kind, source_of(m), m.change) for m in never}
    assert {mutant for mutant, verdict in verdicts(some).items() if verdict == "killed"} == killed
    assert set(verdicts(some).values()) == {"killed", "unfinished"}
    assert {mutant for mutant, verdict in verdicts(fewer).items() if verdict == "killed"} < killed
    assert status_of(some) == 3


def test_reasons_are_of_what_is_there() -> None:
    """Every entry of docs/mutants.toml names a function of the model, and a text in it."""
    root = Path(highwater.__file__).parents[1]
    sources = [" ".join(p.read_text(encoding="utf-8").split()) for p in (root / "model").rglob("*.py")]
    entries = listed.read(root / "docs" / "mutants.toml")
    assert entries
    for entry in entries:
        function = [part for part in entry.within.split(".") if not part.startswith("<")][-1]
        assert any(f"def {function}(" in source for source in sources), entry.within
        assert entry.text is None or any(entry.text in source for source in sources), entry.text


DIGEST = """
from highwater.checker.asking import scenarios
from highwater.checker.comparing.mutation.examining import Examination
from highwater.checker.asking.request import Overrides, Request

print(Examination(Request.of(scenarios.find("zookeeper/live-shutdowns"), Overrides())).digest)
"""


def test_what_is_kept_does_not_depend_on_what_was_traced_before(capsys: pytest.CaptureFixture[str]) -> None:
    """A process traces many scenarios, another one begins with this: both must know what is kept of it."""
    scenario_model("replication/controller/small")
    exec(DIGEST, {})
    fresh = subprocess.run([sys.executable, "-c", DIGEST], check=True, capture_output=True, text=True)
    assert fresh.stdout == capsys.readouterr().out
