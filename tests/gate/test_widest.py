"""A change of a protocol that no scenario sees is a change of its widest models."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.checker.comparing.gate.entries import digests, variants
from highwater.checker.scenarios import catalogue
from tests.gate.conftest import commit_project, edit, gate, gate_json

TAP = """
from __future__ import annotations

from highwater.language import Int, Parameter, Profile, Protocol, Rule, State, Struct, action, invariant, require

from sizes import LIMITS, step

@invariant("test")
def it_holds_little(m, s):
    return s.level <= 4 if m.p.taps == 1 else s.level <= 5

class Tap(Protocol):
    name = "tap"
    parameters = {
        "size": Parameter(2, 1, 6, "so much fits"),
        "taps": Parameter(1, 1, 2, "how many there are"),
        "leaks": Parameter(0, 0, 1, "whether it leaks"),
    }

    invariants = (it_holds_little,)
    rules = {"drains": Rule("T1", "A full tap drains.")}
    profiles = {"usual": Profile.of("Usual.")}

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
        if self.on("drains"):
            require("it is very full", s.level >= 3)
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
SCENARIO = 'title = "{}"\nprotocol = "tap.py"\nprofile = "usual"\n[parameters]\n{}\n'


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


CHANGES = {
    "a parameter": ("tap.py", "s.level >= 2)\n        else", "s.level >= 3)\n        else", "action leak"),
    "a helper": ("sizes.py", "else once * 2", "else once * 3", "action fill"),
    "a rule": ("tap.py", "s.level >= 3)", "s.level >= 4)", "action empty"),
    "a property": ("tap.py", "else s.level <= 5", "else s.level <= 4", "property it_holds_little"),
}  # fmt: skip
"""Changes that no scenario sees: the file, its text before and after, and the part that differs."""


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_no_scenario_sees_fails_a_strict_gate(project: Path, change: str) -> None:
    file, before, after, part = CHANGES[change]
    edit(project / file, before, after)
    done, result = gate_json("--strict")
    assert done.status == 1, done.output
    said = [line.strip() for line in done.out.splitlines()]
    assert f"{part} has other expressions" in said, done.out
    assert "other expressions, but the same facts in every scenario: tap.py" in said
    assert said[-1] == "3 of .highwater/gate.toml: 2 same, 1 changed"
    assert result["unseen"] == ["tap.py"]
    assert gate().status == 0, "passes without --strict"
    assert gate("--update", "--quiet").status == 0
    assert gate("--strict").status == 0, "the update accepts the change"


SAME = {
    "names and local names": ("tap.py", "amount", "more"),
    "words": ("tap.py", "it is full", "nothing more fits"),
    "operands": ("tap.py", "s.level + amount <= self.p.size", "amount + s.level <= self.p.size"),
    "data that nothing reads": ("sizes.py", '"cups": 4', '"cups": 5'),
}


@pytest.mark.parametrize("case", SAME)
def test_code_that_is_only_rewritten_passes(project: Path, case: str) -> None:
    edit(project / SAME[case][0], *SAME[case][1:])
    done, result = gate_json("--strict", "--only-changed")
    assert (done.status, result["unseen"]) == (0, []), done.output


LAMP = """
from highwater.language import Bool, Enum, Protocol, Struct, action, free, require, where

Side = Enum("Side", "NONE LEFT RIGHT")

class Lamp(Protocol):
    name = "lamp"

    def define(self):
        return Struct("Lamp", hot=Bool, side=Side)

    def initial(self):
        return [{"hot": free}]

    @action(says="it is turned")
    def turn(self, s):
        require("it was not turned", s.side == "NONE")
        s.next.side = where(s.hot, Side.LEFT, Side.RIGHT)
"""


def test_steps_that_differ_in_reached_states_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All counts are equal, but no line says that the scenario does not reach the difference."""
    files = {"lamp.py": LAMP, "lamp.toml": 'title = "A lamp"\nprotocol = "lamp.py"\n'}
    monkeypatch.chdir(commit_project(tmp_path, files, "lamp.toml"))
    edit(tmp_path / "lamp.py", "Side.LEFT, Side.RIGHT", "Side.RIGHT, Side.LEFT")
    done = gate("--strict")
    assert done.status == 1, done.output
    assert "  leads elsewhere: in 2 cases (a state and a choice of parameters)" in done.out
    assert "lamp.toml has other steps in 2 cases; its counts are equal all the same" in done.out
    assert "does not reach" not in done.out


def test_the_widest_models_have_every_action_and_property() -> None:
    """Each action has an instance in some model, and each property a condition."""
    for name in ("quorum", "truncation", "zookeeper"):
        definition = next(d for d in catalogue.definitions() if d.name == name)
        found = digests(definition)
        assert {f"action {a.name}" for a in definition.protocol.actions()} <= found.keys()
        kinds = definition.invariants, definition.step_properties, definition.liveness
        assert {f"property {p.name}" for kind in kinds for p in kind} <= found.keys()
        assert len(found) == len(set(found.values())), "no two parts are alike"


def test_each_rule_is_on_and_off_in_a_widest_model() -> None:
    for definition in catalogue.definitions():
        rules = [on for _, on in variants(definition.protocol)]
        every = set(definition.protocol.rules)
        assert set[str]().union(*rules) == every
        assert every == set() or set[str]() in rules
