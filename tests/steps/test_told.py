"""A user's step property: its page, the commands, JSON, traces and machines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import highwater
from highwater.checker.scenarios import catalogue, request
from highwater.checker.testing.machines import machine
from highwater.model.language import (
    Int,
    LanguageError,
    Model,
    Protocol,
    State,
    Struct,
    action,
    enabled,
    implies,
    require,
    step_property,
    where,
)
from highwater.model.language.interpreter import Interpreter
from highwater.traces.reports.report import Report
from highwater.traces.runs.format import read_run
from highwater.traces.runs.replay import hold
from tests.checker.schema import problems
from tests.command import highwater as ask
from tests.machine.test_machine import run as run_machine
from tests.machine.test_machine import violated

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/language/properties.md").read_text()
OFF = ("--rule", "remembers=off")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's protocol and a scenario, in the working directory."""
    (snippet,) = re.findall(r"```python\n# store.py\n(.*?)```", PAGE, re.S)
    (tmp_path / "store.py").write_text("from highwater.language import *\n\n" + snippet)
    (tmp_path / "store.toml").write_text('protocol = "store.py"\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_shows_the_output(store: Path) -> None:
    (command, shown) = re.findall(r"```console\n\$ highwater (.*?)\n(.*?)```", PAGE, re.S)[0]
    found = ask(*command.split())
    assert found.status == 1
    shown = shown.partition("\nscenario ")[0]
    assert "reads_never_go_back (example) is violated by step 5" in shown
    assert shown.strip() in found.out


@pytest.mark.parametrize("engine", ["native", "interpreter"])
def test_json_has_both_states(store: Path, engine: str) -> None:
    found = ask("check", "store.toml", *OFF, "--engine", engine, "--json", "-")
    (result,) = found.results
    schema = json.loads((ROOT / "checker/report/result.schema.json").read_text())
    assert problems([result], schema) == []
    (violation,) = result["violations"]
    assert (violation["kind"], violation["depth"], len(violation["trace"])) == ("step", 5, 5)
    assert (violation["before"]["seen"], violation["state"]["seen"]) == (1, 0)
    assert violation["trace"][-1]["changes"] == {"seen": {"before": 1, "after": 0}}
    assert result["properties"] == ["reads_are_of_what_was_written", "reads_never_go_back"]
    assert result["premises"]["reads_never_go_back"] > 0


@pytest.mark.parametrize(
    ("names", "checked"),
    [
        (("reads_never_go_back",), ["reads_never_go_back"]),
        (("step_properties",), ["reads_never_go_back"]),
        (("invariants",), ["reads_are_of_what_was_written"]),
        (("invariants", "step_properties"), ["reads_are_of_what_was_written", "reads_never_go_back"]),
        (("deadlock", "reads_never_go_back"), ["reads_never_go_back", "deadlock"]),
        (("copies_are_of_what_was_written",), ["copies_are_of_what_was_written"]),  # a helper
    ],
)
def test_a_step_property_is_selected_by_name(store: Path, names: tuple[str, ...], checked: list[str]) -> None:
    options = [word for name in names for word in ("--property", name)]
    (result,) = ask("check", "store.toml", *options, "--json", "-").results
    assert result["properties"] == checked


def test_a_proof_takes_the_helpers_of_the_file(store: Path) -> None:
    proved = ask("prove", "store.toml", "--induction", "--json", "proof.json")
    assert proved.status == 0
    assert "2 invariants and 1 step property hold in every run" in proved.out
    (result,) = json.loads((store / "proof.json").read_text())
    assert result["helpers"] == ["copies_are_of_what_was_written"]
    assert result["step_properties"] == ["reads_never_go_back"]
    alone = ask("prove", "store.toml", "--induction", "--no-helpers")
    assert alone.status == 1
    assert "Excluded by what was not assumed: copies_are_of_what_was_written" in alone.out
    without = ask("prove", "store.toml", "--induction", *OFF)
    assert "read does not preserve reads_never_go_back" in without.out


# --- traces, charts, notebooks and machines -----------------------------------------------------------------


def test_a_replay_of_the_run_finds_the_violation(store: Path) -> None:
    """A replay checks the observed steps."""
    ask("check", "store.toml", *OFF, "--trace-out", "run.ndjson")
    definition = catalogue.load_file(store / "store.py")
    protocol = definition.protocol(rules=())
    reports = []
    for stated in ((), definition.step_properties):
        reports.append(Report("run.ndjson", "run of the model", "all rules", ()))
        model = Model(protocol, definition.invariants, step_properties=stated)
        hold(read_run(store / "run.ndjson"), Interpreter(model), reports[-1])
        assert reports[-1].unexplained_count == 0
    assert not reports[0].findings
    (finding,) = reports[1].findings
    assert finding.property == "reads_never_go_back"
    assert finding.position == {"line": 6, "step": 4}
    assert finding.certain
    assert finding.summary.startswith("violated by the step that fits: A client that has read")


def test_a_machine_finds_the_step_and_shrinks_the_run(store: Path) -> None:
    run_machine(machine("store.toml"), 50)
    failure = violated(machine("store.toml", rules={"remembers": False}))
    assert type(failure).__name__ == "Violated[reads_never_go_back]"
    assert len(failure.violation.path) == 4
    assert "is violated by step 5" in str(failure)


# --- refused and vacuous properties --------------------------------------------------------------------------


@step_property("test")
def grows(m: Any, before: State, after: State) -> Any:
    return before.n <= after.n


def counting(**more: Any) -> type[Protocol]:
    """A protocol of one number, with these attributes."""

    class Counting(Protocol):
        name = "counting"

        def define(self) -> Struct:
            return Struct("State", n=Int(0, 3), idle=Int(0, 1))

        @action()
        def up(self, s: State) -> None:
            s.next.n = where(s.n == 3, 0, s.n + 1)

    return type("Counting", (Counting,), more)


def test_an_unlisted_step_property_is_refused() -> None:
    with pytest.raises(
        LanguageError, match=r"grows is not among the step_properties \(or helpers\) of Counting"
    ):
        counting(grows=grows)
    assert counting(grows=grows, step_properties=(grows,)).step_properties == (grows,)
    assert counting(grows=grows, helpers=(grows,)).helpers == (grows,)


def test_a_list_of_something_else_is_refused() -> None:
    with pytest.raises(
        LanguageError, match="step_properties of Counting is a tuple of what @step_property marks"
    ):
        counting(step_properties=(lambda m, a, b: True,))
    with pytest.raises(LanguageError, match=r'write @step_property\("'):
        step_property(lambda m, before, after: True)  # type: ignore[arg-type]


def _wrong() -> Iterator[tuple[str, Any]]:
    @step_property("test")
    def writes(m: Any, before: State, after: State) -> Any:
        after.next.n = 1
        return before.n == 0

    @step_property("test")
    def requires(m: Any, before: State, after: State) -> Any:
        require("something", before.n == 0)
        return before.n == 0

    @step_property("test")
    def says_nothing(m: Any, before: State, after: State) -> Any:
        return None

    @step_property("test")
    def asks_python(m: Any, before: State, after: State) -> Any:
        return True if before.n == 0 else after.n == 0

    yield "step property writes writes or requires something", writes
    yield "step property requires writes or requires something", requires
    yield "step property says_nothing returned None", says_nothing
    yield "plain answer|if", asks_python


@pytest.mark.parametrize(("said", "wrong"), list(_wrong()), ids=lambda value: getattr(value, "name", None))
def test_an_invalid_step_property_is_refused(said: str, wrong: Any) -> None:
    with pytest.raises(LanguageError, match=said):
        Model(counting()(), step_properties=[wrong])


def test_it_exists_where_its_rule_is_on(store: Path) -> None:
    path, mark = store / "store.py", '@step_property("example"'
    path.write_text(path.read_text().replace(mark, f'{mark}, rule="remembers"'))
    assert request.asked("store.toml").properties[-1] == "reads_never_go_back"
    assert highwater.check("store.toml", rules={"remembers": False}).holds
    found = ask("check", "store.toml", *OFF, "--property", "reads_never_go_back")
    assert found.status == 2
    assert "does not exist while the rule remembers is off" in found.err


def test_enabled_refers_to_the_state_before() -> None:
    @step_property("test")
    def up_was_possible(m: Any, before: State, after: State) -> Any:
        return implies(before.n != after.n, enabled("up"))

    assert highwater.check(counting(step_properties=(up_was_possible,))).holds
