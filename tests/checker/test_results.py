"""The JSON result follows its schema, is documented, and agrees with the search; steps that a refinement forbids."""

from __future__ import annotations

import copy
import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from highwater import __version__
from highwater.checker.engines.native import search
from highwater.checker.report import counterexample
from highwater.checker.report.counterexample import Abstract, Counterexample, follow_all
from highwater.checker.scenarios.request import asked
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language.model import Model
from tests.checker.conftest import ROOT
from tests.checker.schema import problems
from tests.command import highwater

SCHEMA = json.loads((ROOT / "checker/report/result.schema.json").read_text())
RESULT = SCHEMA["$defs"]["result"]


@pytest.fixture(scope="module")
def violated() -> Any:
    return highwater("check", "truncation/truncate-to-hwm", "--workers", 1, "--json", "-").results


@pytest.mark.parametrize("engine", ["native", "interpreter"])
def test_results_follow_the_schema(engine: str) -> None:
    asked = ("docs/examples/register.toml", "docs/examples/register-hasty.toml", "--deadlock")
    for more in ((), ("--limit-states", 10)):
        run = highwater("check", *asked, *more, "--engine", engine, "--json", "-")
        assert len(run.results) == 2
        assert problems(run.results, SCHEMA) == []


def test_results_of_walks_follow_the_schema() -> None:
    for name in ("truncation/kip-320", "docs/examples/register-hasty.toml"):
        run = highwater("simulate", name, "--walks", 50, "--json", "-")
        assert problems(run.results, SCHEMA) == []
        assert run.results[0]["distinct_states"] is None


def test_every_key_is_documented() -> None:
    text = (ROOT / "docs" / "results.md").read_text().split("| key | meaning |")[1].split("\n\n")[0]
    documented = {
        name for row in re.findall(r"^\| (`.*?) \|", text, re.M) for name in re.findall(r"`(\w+)`", row)
    }
    assert documented == set(RESULT["properties"])


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("verdict",), "perhaps"),
        (("violations", 0, "trace", 0, "action"), "leader_write"),
        (("violations", 0, "depth"), True),
        (("surprise",), 1),
    ],
)
def test_the_schema_refuses(violated: Any, where: Any, value: Any) -> None:
    changed = copy.deepcopy(violated)
    place = changed[0]
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    assert problems(changed, SCHEMA)


def test_a_missing_key_is_refused(violated: Any) -> None:
    for key in RESULT["required"]:
        changed = copy.deepcopy(violated)
        del changed[0][key]
        assert problems(changed, SCHEMA) == [f"$[0]: {key} is missing"]


def test_a_trace_leads_from_the_initial_state_to_the_violating_one(violated: Any) -> None:
    """The trace's changes, applied in order to the initial state, give the violating state."""
    for violation in violated[0]["violations"]:
        first, *rest = violation["trace"]
        state = copy.deepcopy(first["state"])
        assert violation["depth"] == len(rest) + 1
        for step in rest:
            assert step["changes"]
            for path, change in step["changes"].items():
                keys = [int(k) if k.isdigit() else k for k in re.findall(r"\w+", path)]
                place = state
                for key in keys[:-1]:
                    place = place[key]
                assert place[keys[-1]] == change["before"]
                place[keys[-1]] = change["after"]
        assert state == violation["state"]


def test_versions(violated: Any) -> None:
    assert violated[0]["versions"]["highwater"] == __version__
    assert __version__ == version("highwater-checker")


# --- steps that a refinement forbids ------------------------------------------------------------------


PAGE = ROOT / "docs/language/properties.md"


def found(model: Model) -> Counterexample:
    result = search(model, SearchOptions(workers=1, stop_at_first=True))
    return follow_all(model, result.violations)[0]


@pytest.fixture(scope="module")
def gate() -> Model:
    return asked("replication/sanity-promise-without-gate").model()


@pytest.fixture(scope="module")
def example(gate: Model) -> Counterexample:
    return found(gate)


def test_states_outside_of_the_abstract_types_are_reported(tmp_path: Path) -> None:
    (tmp_path / "further.py").write_text(
        """
from highwater.language import *

class Short(Protocol):
    def define(self):
        return Struct("State", n=Int(0, 1))

    @action()
    def up(self, s):
        require("room", s.n < 1)
        s.next.n = s.n + 1

class Long(Protocol):
    def define(self):
        return Struct("State", n=Int(0, 3))

    @action()
    def up(self, s):
        require("room", s.n < 3)
        s.next.n = s.n + 1

    @refines(Short, "")
    def is_short(self, s):
        return {"n": s.n}

    step_properties = (is_short,)

PROTOCOL = Long
"""
    )
    (tmp_path / "further.toml").write_text('protocol = "further.py"\n')
    model = asked(str(tmp_path / "further.toml")).model()
    example = found(model)
    assert example.abstract is not None
    assert example.abstract.steps[-1].leaves == ("n leaves 0..1",)
    text = "\n".join(counterexample.plain(model, example))
    assert "No action of Short does this, whose types have no such state: n leaves 0..1." in text


HELD_SEATS_ARE_FREE = """
    @invariant("example", rule="look")
    def held_seats_are_free(self, s):
        held = lambda c, x: s.holds[c].is_(x)
        one = all_of(~held("ann", x) | ~held("bob", x) for x in self.seat)
        return one & all_of(~held(c, x) | s.has[x].is_none for c in self.customer for x in self.seat)

    invariants = (held_seats_are_free,)
"""
"""The invariant that makes the page's refinement inductive."""


def test_the_page_shows_the_printed_run(tmp_path: Path) -> None:
    text = PAGE.read_text()
    (snippet,) = re.findall(r"```python\n# sale.py\n(.*?)```", text, re.S)
    (shown,) = re.findall(r"^```\n(   4  ann pays .*?)```", text, re.S | re.M)
    snippet = snippet.replace("    step_properties = (", f"{HELD_SEATS_ARE_FREE}    step_properties = (")
    (tmp_path / "office.py").write_text("from highwater.language import *\n\n" + snippet)
    scenario = tmp_path / "office.toml"
    scenario.write_text('protocol = "office.py"\n')
    kept = highwater("check", str(scenario))
    assert kept.status == 0
    run = highwater("check", str(scenario), "--engine", "interpreter", "--rule", "look=off")
    assert shown.strip() in run.out
    proved = highwater("prove", str(scenario), "--induction")
    assert "1 invariant and 1 step property hold in every run" in proved.out + proved.err


def test_nearest_abstract_steps_are_refused_or_differ(gate: Model) -> None:
    refinement = next(p.stated for p in gate.step_properties if p.name == "keeps_the_promise")
    abstract = Abstract(refinement.of(gate.protocol))  # type: ignore[attr-defined]
    state = abstract.model.protocol.state
    before = {"writes": ["PENDING", "PENDING"], "log": [0], "shown": [[0], []], "lost": 0, "void": False}

    def step(**after: Any) -> Any:
        return abstract.step(state.encode(before), state.encode({**before, **after}))

    assert step(log=[0, 1], shown=[[0, 1], []]).action == "commit"
    other_order = step(log=[1, 0], shown=[[1, 0], []])
    assert not other_order.allowed
    replaced = step(log=[1], shown=[[1], []])
    assert not replaced.allowed
    assert "commit" in {near.action for near in replaced.near}
    unshown = step(shown=[[0], [1]])
    assert not unshown.allowed
    assert all(near.refused_by or near.differs for near in unshown.near)
