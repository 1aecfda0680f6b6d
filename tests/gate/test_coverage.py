"""Coverage: counts equal the interpreter's, and everything unexercised is listed."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from highwater.checker.cli import cli
from highwater.checker.comparing.coverage import BRANCH, GUARD, Coverage, Site, add_scenario, add_trace, uses
from highwater.checker.comparing.coverage_report import gaps, lines, page
from highwater.checker.engines.native import state_graph
from highwater.checker.engines.state_graph import Layout
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.scenario_files import find
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import Int, Protocol, Rule, State, Struct, action, require, where
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Model
from highwater.traces.runs.writing import random_walk
from tests.gate.stepping import reached, steps

PROTOCOL = '''
from highwater.model.language import Array, Bool, Index, Int, Parameter, Protocol, Rule, Struct
from highwater.model.language import action, implies, invariant, require, where

@invariant("C1")
def three_is_rare(m, s):
    """Only where there is a fourth."""
    return implies(s.count == 4, s.flag)

class Branches(Protocol):
    """A count and a flag."""

    name = "branches"
    parameters = {"top": Parameter(3, 1, 4, "the last count")}
    rules = {
        "stops": Rule("C2", "It does not count on while the flag is up."),
        "idle": Rule("C3", "What cannot happen does not happen."),
    }
    invariants = (three_is_rare,)

    def define(self):
        return Struct("State", count=Int(0, 4), flag=Bool)

    def initial(self):
        return [{"count": 0, "flag": False}]

    @action(says="counts")
    def count(self, s):
        require("there is room", s.count < self.p.top)
        if self.on("stops"):
            require("the flag is down", ~s.flag)
        if self.on("idle"):
            require("not four", s.count != 4)
        s.next.count = where(s.count == 0, s.count + 1, where(s.count == 4, 0, s.count + 1))

    @action(says="raises the flag")
    def flag(self, s):
        require("two or more", s.count >= 2)
        s.next.flag = True

    @action(says="lowers the flag")
    def lower(self, s):
        s.next.flag = False

    @action(says="never")
    def never(self, s):
        require("beyond the top", s.count > self.p.top)
        s.next.flag = False
'''
SCENARIO = 'protocol = "branches.py"\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "branches.py").write_text(PROTOCOL, encoding="utf-8")
    (tmp_path / "notes.txt").write_text("no trace", encoding="utf-8")
    (tmp_path / "branches.toml").write_text(SCENARIO, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def covered(
    name: str, settings: dict[str, int] | None = None, *, rules: bool = False, limit: int | None = None
) -> Coverage:
    """The coverage of a scenario."""
    found, request = Coverage(), Request.of(find(name), Overrides(settings or {}))
    add_scenario(found, request, SearchOptions(workers=1, limit_states=limit), rules=rules, quiet=True)
    return found


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(PROTOCOL.splitlines(), 1) if text in line)


def brute_force(model: Model, states: list[Scalars]) -> dict[tuple[str, str], list[int]]:
    """Guard counts by the interpreter: for each state and instance, the guards that refuse."""
    interpreter, found = Interpreter(model), dict[tuple[str, str], list[int]]()
    for state in states:
        for instance in model.instances:
            refused = interpreter.refusals(state, instance)
            for guard in instance.guards:
                counts = found.setdefault((instance.action.name, guard.name), [0, 0, 0])
                counts[0] += guard.name not in refused
                counts[1] += guard.name in refused
                counts[2] += refused == [guard.name]
    return found


def by_guard(found: Coverage) -> dict[tuple[str, str], list[int]]:
    """The counts of guards, summed by action and name."""
    counts: dict[tuple[str, str], list[int]] = {}
    for site, own in found.sites.items():
        if site.kind == GUARD:
            known = counts.setdefault((site.action, site.name), [0, 0, 0])
            known[:] = [a + b for a, b in zip(known, own, strict=True)]
    return counts


@pytest.mark.parametrize("name", ["branches.toml", "truncation/kip-320"])
def test_counts_are_those_of_the_interpreter(project: Path, name: str) -> None:
    settings = {} if name.endswith(".toml") else SMALL
    coverage, model = covered(name, settings), Request.of(find(name), Overrides(settings)).model()
    states = list(reached(model))
    assert coverage.states == len(states)
    assert by_guard(coverage) == brute_force(model, states)
    interpreter = Interpreter(model)
    steps = Counter(s.instance.action.name for state in states for s in interpreter.steps(state) if s.state)
    assert {n: c for n, c in coverage.steps.items() if c} == dict(steps)


def test_guards_branches_and_rules_stand_at_their_lines(project: Path) -> None:
    """Counts 0 to 3, with the flag from 2 on: six states."""
    coverage = covered("branches.toml", rules=True)
    assert coverage.states == 6
    found = {(s.kind, s.name, int(s.place.rpartition(":")[2])): tuple(c) for s, c in coverage.sites.items()}
    room, flag = line_of('"there is room"'), line_of('"the flag is down"')
    assert found[GUARD, "there is room", room] == (4, 2, 1)
    assert found[GUARD, "the flag is down", flag] == (4, 2, 1)
    assert found[GUARD, "not four", line_of('"not four"')] == (6, 0, 0)
    # The guards allow counts 0, 1 and 2: one of the three is 0, none is 4.
    written = line_of("s.next.count = where")
    assert found[BRANCH, "where", written] == (1, 2 + 3, 0)
    told = dict(gaps(coverage))
    assert told["guards that never refused"] == [
        f"branches.py:{line_of(chr(34) + 'not four')} count: “not four”"
    ]
    assert told["rules that decided nothing"] == ["idle"]
    assert told["properties that were checked vacuously"] == ["three_is_rare"]
    assert told["actions that could not be taken in any state"] == ["never"]
    stops = coverage.rules["stops"]
    assert (stops.forbids, stops.allows, stops.changes, stops.actions) == (1, 0, 0, ("count",))


class Ruled(Protocol):
    """Each rule has another effect: it forbids, allows, changes, adds an action, removes one, or nothing."""

    name = "ruled"
    rules = {
        name: Rule("C4", "A rule.")
        for name in ("forbids", "allows", "changes", "adds", "closes", "nothing", "wider")
    }

    def define(self) -> Struct:
        return Struct("State", low=Int(0, 4 if self.on("wider") else 3, bound="top"), high=Int(0, 3))

    def initial(self) -> list[dict[str, object]]:
        return [{"low": 0, "high": 0}]

    @action()
    def raise_low(self, s: State) -> None:
        if self.on("forbids"):
            require("not far over high", s.low <= s.high + 1)
        s.next.low = s.low + 1

    @action()
    def raise_high(self, s: State) -> None:
        require("there is room", s.high < (3 if self.on("allows") else 2))
        s.next.high = where(s.low < 2, s.high + 1, 3) if self.on("changes") else s.high + 1

    @action(rule="adds")
    def lower(self, s: State) -> None:
        require("not at the bottom", s.low > 0)
        s.next.low = s.low - 1

    @action()
    def lose(self, s: State) -> None:
        if self.on("closes"):
            require("never", s.high > 3)
        if self.on("nothing"):
            require("no less than nothing", (s.high > 0) | (s.low >= s.high))
        require("there is something", s.high > 0)
        s.next.high = 0


SMALL = {"max_records": 1, "log_size": 1, "replicas": 2}


def test_states_decided_by_a_rule_agree_with_the_interpreter() -> None:
    model = Model(Ruled())
    states, layout = list(reached(model)), Layout(model.leaves)
    packed = np.array([layout.pack(s) for s in states], dtype=np.uint64).reshape(len(states), layout.words)
    found = uses(model, packed)
    assert {use.name for use in found} == model.protocol.rules_on
    for use in found:
        without = Model(type(model.protocol)(vars(model.protocol.p), model.protocol.rules_on - {use.name}))
        assert use.asked == (without.leaves == model.leaves)
        counts, actions = [0, 0, 0], set()
        for state in states if use.asked else ():
            on, off = steps(model, state), steps(without, state)
            for key in on.keys() | off.keys():
                kind = 0 if key not in on else 1 if key not in off else 2
                if on.get(key) != off.get(key):
                    counts[kind] += 1
                    actions.add(key[0])
        assert ([use.forbids, use.allows, use.changes], set(use.actions)) == (counts, actions), use.name
    told = {use.name: (bool(use.forbids), bool(use.allows), bool(use.changes)) for use in found}
    assert told == {
        "forbids": (True, False, False),
        "allows": (False, True, False),
        "changes": (False, False, True),
        "adds": (False, True, False),
        "closes": (True, False, False),
        "nothing": (False, False, False),
        "wider": (False, False, False),
    }
    assert [use.name for use in found if not use.asked] == ["wider"]


@pytest.mark.parametrize("every", [1, 2])
def test_a_trace_exercises_its_own_states(tmp_path: Path, every: int) -> None:
    """With ``every`` 2, only every second state is recorded, and coverage includes the states between."""
    model = Request.of(find("truncation/kip-320"), Overrides()).model()
    interpreter, walk = Interpreter(model), random_walk(model, 12, 3)
    states, names = [walk.initial], [model.instances[number].action.name for number in walk.path]
    for number in walk.path:
        after = interpreter.step(states[-1], number).state
        assert after is not None
        states.append(after)
    meta = {
        "format": "highwater-trace-1",
        "protocol": "truncation",
        "profile": "kip_320",
        "hidden_steps": every - 1,
    }
    lines: list[dict[str, Any]] = [{"meta": {**meta, "parameters": vars(model.protocol.p)}}]
    seen = states[::every]
    lines += [{"step": number, "state": model.decode(state)} for number, state in enumerate(seen)]
    if every == 1:
        for line, name in zip(lines[2:], names, strict=True):
            line["action"] = name
    file = tmp_path / "run.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    found = Coverage()
    add_trace(found, file, rules=False)
    assert found.notes == []
    passed = {
        state
        for before, after in itertools.pairwise(seen)
        for state in (interpreter.successors(before) if every == 2 else ())
        if after in interpreter.successors(state)
    }
    expected = passed | set(seen)
    assert found.states == len(expected)
    assert (len(expected) > len(set(seen))) is (every == 2)
    assert every == 2 or found.observed == Counter(names)
    assert by_guard(found) == brute_force(model, list(expected))


def coverage(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["coverage", "--workers", "1", *arguments])


def test_the_command_writes_a_page_and_json(project: Path) -> None:
    done = coverage("branches.toml", "--html", "page.html", "--json", "c.json", "--verbose")
    assert done.exit_code == 0, done.output
    assert "rules that decided nothing (1):" in done.stdout
    html = (project / "page.html").read_text(encoding="utf-8")
    assert "count: “there is room” held 4, refused 2, alone 1" in html
    rows = re.findall(r'<tr class="(full|part|none)"><td class="n">(\d+)</td>', html)
    colours = {int(number): kind for kind, number in rows}
    assert colours[line_of('"there is room"')] == "full"
    assert colours[line_of('"not four"')] == "none", "it never refused"
    assert colours[line_of("s.next.count = where")] == "full"
    assert not re.search(r"src=|https?:", html), "nothing from elsewhere"
    result: dict[str, Any] = json.loads((project / "c.json").read_text(encoding="utf-8"))
    guards = {g["guard"]: (g["held"], g["refused"], g["alone"]) for g in result["guards"]}
    assert guards["there is room"] == (4, 2, 1)
    (branch,) = result["branches"]
    assert (branch["taken"], branch["not_taken"]) == (1, 5)
    assert {r["rule"]: r["forbids"] for r in result["rules"]} == {"idle": 0, "stops": 1}
    twice = coverage("branches.toml", "branches.toml", "--json", "c.json", "--quiet")
    assert twice.stdout.startswith("12 states of 2 sources: 3 of 4 actions taken")
    both = json.loads((project / "c.json").read_text(encoding="utf-8"))
    assert {r["rule"]: r["forbids"] for r in both["rules"]} == {"idle": 0, "stops": 2}
    assert {g["guard"]: g["held"] for g in both["guards"]}["not four"] == 12
    limited = coverage("branches.toml", "--limit-states", "1", "--no-rules")
    assert "not all states were seen" in limited.stdout


@pytest.mark.parametrize(
    ("kind", "counts", "colour"),
    [
        (GUARD, [3, 2, 1], "full"),
        (GUARD, [3, 2, 0], "part"),
        (GUARD, [3, 0, 0], "none"),
        (BRANCH, [3, 2, 0], "full"),
        (BRANCH, [0, 2, 0], "none"),
    ],
)
def test_a_line_of_the_page_has_the_colour_of_its_counts(kind: str, counts: list[int], colour: str) -> None:
    found = Coverage(sites={Site(kind, "nowhere.py:1", "a name", "act"): counts})
    assert f'<tr class="{colour}">' in page(found, [])


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["no/such/scenario"], "unknown scenario"),
        (["notes.txt"], "not a trace of a run"),
        (["branches.toml", "truncation/kip-320"], "are different protocols"),
    ],
)
def test_bad_requests_are_one_line(project: Path, arguments: list[str], wrong: str) -> None:
    done = coverage(*arguments)
    assert done.exit_code == 2
    assert wrong in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_lines_are_in_the_order_of_the_source(project: Path) -> None:
    found = covered("branches.toml")
    numbers = [int(line.split()[0]) for line in lines(found, full=True) if line[:8].strip().isdigit()]
    assert numbers == sorted(numbers)
    assert len(numbers) >= 6


def test_a_parameter_that_ranges_over_some_sets() -> None:
    """The parameter ranges over sets that ``define`` lists, such as the targets of a reassignment."""
    found = covered("replication/large-reassign-fencing", limit=50)
    asked = {site.name for site in found.sites if site.action == "reassign"}
    assert {"every replica of the target is registered", "where"} <= asked


@pytest.mark.parametrize("during", ["exploration", "counting"])
def test_an_interrupted_source_is_not_counted(
    during: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C ends the command; the sources before are reported."""
    explore, count = state_graph.explore, iter(range(9))

    def interrupted(*arguments: Any) -> Any:
        found = explore(*arguments)
        return replace(found, stopped_by="interrupted") if next(count) else found

    def stopped(*arguments: Any) -> Any:
        if next(count):
            raise KeyboardInterrupt
        return uses(*arguments)

    if during == "exploration":
        monkeypatch.setattr(state_graph, "explore", interrupted)
    else:
        monkeypatch.setattr("highwater.checker.comparing.coverage.uses", stopped)
    result = coverage("branches.toml", "branches.toml", "--json", "-")
    assert result.exit_code == 130
    found = json.loads(result.stdout)
    assert (found["sources"], found["states"], found["interrupted"]) == (["branches.toml"], 6, True)
